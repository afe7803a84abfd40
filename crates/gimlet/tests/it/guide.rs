//! The guides stay true. What the guides to a tool and a command show is compiled, tested and run here; what the others
//! show stands in the tree as it is shown.

mod command_guide;
mod quoted_code;
mod where_command;
mod word_count;

use std::path::Path;

use gimlet_core::commands::{CommandContext, CommandOutput, SlashCommand};
use gimlet_core::tool::{PromptContext, ToolSet};
use gimlet_core::{
    AgentConfig, ConversationRecord, DriverConfig, FileConfig, HistoryConfig, ModelConfig, ProcessAccess,
    PromptSegment, SessionConfig, SessionState, ToolConfig, TurnConfig, TurnOptions,
};
use gimlet_exec::{CustodianProgram, Exec, ExecConfig, Shell, ShellConfig};
use gimlet_model::ProviderConfig;
use gimlet_proto::{Block, Env, EventBody, Op, SubmittedPrompt, ThinkingMode};
use gimlet_script::Script;
use gimlet_store::{EntryStamp, ResultFiles, StoreLocations, Transcript, new_session_id};
use serde_json::json;

use word_count::WordCount;

const GUIDE: &str = include_str!("../../../../docs/adding-a-tool.md");
const TOOL: &str = include_str!("guide/word_count.rs");
const TESTS: &str = include_str!("guide/word_count_tests.rs");

#[test]
fn the_guide_shows_the_code_that_is_compiled_here() {
    let shown = rust_blocks(GUIDE);
    // The words between two blocks stand where blank lines are in the files, so those do not count.
    let mut shown = shown.lines().filter(|line| !line.trim().is_empty());
    for line in TOOL.lines().chain(TESTS.lines()).filter(|line| !line.trim().is_empty()) {
        assert_eq!(shown.next(), Some(line), "docs/adding-a-tool.md (left) is not the code in tests/it/guide (right)");
    }
    assert_eq!(shown.next(), None, "docs/adding-a-tool.md shows code that is not in tests/it/guide");
}

#[test]
fn the_guides_new_row_stands_behind_the_last_one_of_the_table() {
    let table = include_str!("../../../gimlet-tools/src/builtin.rs");
    let last = table.lines().map(str::trim).rfind(|line| line.starts_with("&crate::")).unwrap();
    let (_, rows) = GUIDE.split_once("```diff\n").expect("the guide shows the row");
    let shown: Vec<&str> = rows.lines().take_while(|line| *line != "```").collect();
    assert_eq!(shown, [format!("         {last}").as_str(), "+        &crate::word_count::WordCount,"]);
}

#[tokio::test]
async fn a_session_runs_the_guides_tool_through_the_gate() {
    let project = tempfile::tempdir().unwrap();
    let file = project.path().canonicalize().unwrap().join("a.txt");
    std::fs::write(&file, "one two three\n").unwrap();
    let model =
        Script::new().call("WordCount", json!({"file_path": file})).then().say("Three words.").serve().await.unwrap();

    let env = Env::default().with("ANTHROPIC_BASE_URL", model.url()).with("ANTHROPIC_API_KEY", "test");
    let provider = ProviderConfig::from_env(&env).unwrap();
    let (handle, life) = gimlet_core::open(guide_session(file.parent().unwrap(), env, provider));
    let mut events = handle.subscribe();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(life);
    let blocks = vec![Block::text("how many words are in a.txt?")];
    handle.send(Op::Submit(SubmittedPrompt { blocks, plain: true, ..SubmittedPrompt::default() }));
    let mut answer = String::new();
    while let Some(event) = events.next().await {
        if let EventBody::TurnEnded(report) = event.body {
            answer = report.text;
            handle.send(Op::Close);
        }
    }
    while tasks.join_next().await.is_some() {}

    assert_eq!(answer, "Three words.");
    assert_eq!(
        model.request(1).tool_result(0),
        format!("{}: 1 lines, 3 words, 14 characters", file.display()),
        "a file of the project may be read without a question"
    );
    assert!(model.failures().is_empty() && model.rejections().is_empty(), "{:?}", model.rejections());
}

/// A session with the guide's tool alone, in the default mode, kept nowhere.
fn guide_session(project: &Path, env: Env, provider: ProviderConfig) -> SessionConfig {
    let tools = ToolSet::new(vec![&WordCount]);
    let prompt = PromptContext {
        env: env.clone(),
        tools: vec!["WordCount".to_owned()],
        background: false,
        sandbox: None,
        agents: Vec::new(),
    };
    let id = new_session_id();
    let stamp = EntryStamp { cwd: project.display().to_string(), git_branch: String::new(), entrypoint: None };
    let files = StoreLocations::new(&project.join("home")).project(project).session_files(&id);
    let exec =
        Exec::new(ExecConfig { custodian: CustodianProgram::Fork, session_marker: id.to_string(), runtime_dir: None });
    let shell = Shell::find(ShellConfig {
        env: env.clone(),
        session_id: id.to_string(),
        effort: None,
        snapshot_file: None,
        prestart: false,
    });
    SessionConfig {
        skills: gimlet_core::LiveSkillSet::default(),
        prompt: PromptSegment {
            context: Some([].into()),
            system: gimlet_core::system_blocks(&Default::default()),
            tools: gimlet_core::tool_defs(&tools, &prompt),
        },
        model: ModelConfig {
            provider: provider.into_model(),
            model: "default".to_owned(),
            small_model: None,
            managed: false,
            thinking: ThinkingMode::ModelDefault,
            effort: None,
            cache_ttl: None,
            api_key_source: String::new(),
        },
        tools: ToolConfig { tools, source: None, output: None },
        agents: AgentConfig::default(),
        env,
        home: None,
        state: SessionState::new(project.to_owned(), Vec::new()),
        permissions: gimlet_core::PermissionConfig::default(),
        turns: TurnConfig {
            options: TurnOptions { concurrency: 1, ..TurnOptions::default() },
            ..TurnConfig::default()
        },
        history: HistoryConfig {
            source: gimlet_core::StartSource::Startup,
            record: ConversationRecord::new(Transcript::new_unsaved(id.clone(), stamp)),
            messages: Vec::new(),
            context_parts: Vec::new(),
            deferred: None,
            outputs: gimlet_store::ToolOutputs::default(),
            user_words: Vec::new(),
            result_files: ResultFiles::new(&files),
            costs: None,
            redactor: gimlet_core::Redactor::default(),
        },
        plan: gimlet_core::PlanConfig::default(),
        files: FileConfig::default(),
        driver: DriverConfig::default(),
        processes: ProcessAccess::new(exec, shell),
        id,
    }
}

/// The text of every fenced `rust` block, in order.
fn rust_blocks(markdown: &str) -> String {
    let mut inside = false;
    let mut blocks = String::new();
    for line in markdown.lines() {
        match line {
            "```rust" => inside = true,
            "```" => inside = false,
            line if inside => {
                blocks.push_str(line);
                blocks.push('\n');
            }
            _ => {}
        }
    }
    blocks
}
