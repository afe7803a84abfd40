//! The guide to adding a command: its code is compiled here and run in a session.

use std::sync::Arc;

use gimlet_core::commands::{CommandRegistry, SlashCommand};
use gimlet_model::ProviderConfig;
use gimlet_proto::{Env, EventBody, MentionScope, Op, SubmittedPrompt, TurnEnd};
use gimlet_script::Script;

use super::where_command::WhereCommand;
use super::{guide_session, rust_blocks};

const GUIDE: &str = include_str!("../../../../../docs/adding-a-command.md");
const COMMAND: &str = include_str!("where_command.rs");

#[test]
fn the_guide_to_a_command_shows_the_code_that_is_compiled_here() {
    let shown = rust_blocks(GUIDE);
    let code = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
    };
    assert_eq!(code(&shown), code(COMMAND), "docs/adding-a-command.md (left) is not guide/where_command.rs (right)");
}

#[test]
fn the_new_command_stands_behind_the_last_one_of_the_table() {
    let table = include_str!("../../../../gimlet-core/src/commands.rs");
    let last = table.lines().map(str::trim).rfind(|line| line.starts_with("|| Arc::new(")).unwrap();
    let (_, rows) = GUIDE.split_once("```diff\n").expect("the guide shows the row");
    let shown: Vec<&str> = rows.lines().take_while(|line| *line != "```").collect();
    assert_eq!(shown, [format!("     {last}").as_str(), "+    || Arc::new(where_command::WhereCommand),"]);
}

#[tokio::test]
async fn a_session_runs_the_guides_command_without_a_request() {
    let project = tempfile::tempdir().unwrap();
    let folder = project.path().canonicalize().unwrap();
    let model = Script::new().serve().await.unwrap();
    let env = Env::default().with("ANTHROPIC_BASE_URL", model.url()).with("ANTHROPIC_API_KEY", "test");
    let provider = ProviderConfig::from_env(&env).unwrap();
    let mut config = guide_session(&folder, env, provider);
    config.turns.commands = CommandRegistry::with_commands([Arc::new(WhereCommand) as Arc<dyn SlashCommand>]);
    let (handle, life) = gimlet_core::open(config);
    let mut events = handle.subscribe();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(life);
    let prompts = ["/where", "/where folder", "/where else"];
    for text in prompts {
        let prompt = SubmittedPrompt { mentions: MentionScope::Everywhere, ..SubmittedPrompt::from_text(text) };
        handle.send(Op::Submit(prompt));
    }
    let mut ends = Vec::new();
    while let Some(event) = events.next().await {
        if let EventBody::TurnEnded(report) = event.body {
            ends.push((report.text, report.end));
            if ends.len() == prompts.len() {
                handle.send(Op::Close);
            }
        }
    }
    while tasks.join_next().await.is_some() {}

    let place = folder.display().to_string();
    assert_eq!(ends[0].0, format!("claude-sonnet-5-5 in {place}"));
    assert_eq!(ends[1].0, place);
    let TurnEnd::Command { error: Some(problem) } = &ends[2].1 else { panic!("{:?}", ends[2].1) };
    assert_eq!(problem, "/where knows nothing about 'else'. Choose folder or model");
    assert_eq!(model.requests().len(), 0);
}
