//! What every command of the front end shows, at 80 columns and 24 rows.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crossterm::event::KeyCode;
use gimlet_proto::{
    Block, ContextUsage, DiffHunk, EntryId, HistoryBody, HistoryCall, HistoryItem, HistoryResult, ModelInfo,
    PermissionRuleView, PermissionsView, RewindOutcome, RewoundFile, Role, ServerStatus, ServerTool, ServerView,
    SessionId, SessionInfo, SettingsView, TaskState, TaskView, ToolUseId, View,
};
use serde_json::json;
use serde_json::value::RawValue;

use super::COMMANDS;
use crate::app::tests::TestApp;
use crate::app::{AppEffect, AppInput, AppReply, HistoryUse, ServerListUse};
use crate::key_bindings::KeyBindings;
use crate::services::{EditableFile, RuleBehavior, RuleChange, RulePlace};

/// Types a command, plays what came back, presses keys; returns what there is to see.
struct CommandScene {
    test: TestApp,
}

impl CommandScene {
    fn run(line: &str) -> Self {
        let mut test = TestApp::new();
        let models = [("default", "claude-test-1"), ("opus", "claude-opus-5-5")];
        test.app.facts_mut().models = models
            .map(|(alias, id)| ModelInfo {
                alias: alias.to_owned(),
                id: id.to_owned(),
                efforts: vec!["low".to_owned(), "high".to_owned()],
                adaptive: true,
            })
            .to_vec();
        test.app.facts_mut().model = "claude-test-1".to_owned();
        test.screen();
        test.enter(line);
        Self { test }
    }

    fn reply(mut self, reply: AppReply) -> Self {
        let now = self.test.now_ms;
        self.test.app.update(AppInput::Reply(reply), now);
        self
    }

    fn keys(mut self, keys: &[KeyCode]) -> Self {
        keys.iter().for_each(|key| drop(self.test.key(*key)));
        self
    }

    fn shown(mut self) -> String {
        self.test.whole_screen()
    }
}

fn item(entry: &str, body: HistoryBody) -> HistoryItem {
    HistoryItem { entry: EntryId::new(entry), role: Role::User, at: None, body }
}

fn history() -> Vec<HistoryItem> {
    let view = View::Terminal { command: "cargo test".to_owned(), output: "ok".to_owned(), exit_code: Some(0) };
    let result = Some(HistoryResult { entry: EntryId::new("r1"), failed: false, view });
    let call =
        HistoryCall { call: ToolUseId::new("t1"), name: "Bash".to_owned(), summary: "cargo test".to_owned(), result };
    vec![
        item("p1", HistoryBody::Prompt(vec![Block::text("fix the parser")])),
        item("a1", HistoryBody::Reply(vec![Block::text("The parser is fixed.")])),
        item("p2", HistoryBody::Prompt(vec![Block::text("now the lexer,\nand its tests")])),
        item("c1", HistoryBody::Call(Box::new(call))),
        item("a2", HistoryBody::Reply(vec![Block::text("The lexer is fixed as well.")])),
    ]
}

fn rewind_preview(changed_by_hand: bool) -> AppReply {
    let lines = [
        "     let mut depth = 0;",
        "-    while let Some(t) = it.next_token() {",
        "+    while let Some(t) = it.next() {",
    ];
    let hunk = DiffHunk {
        old_start: 117,
        old_lines: 2,
        new_start: 117,
        new_lines: 2,
        lines: lines.map(str::to_owned).to_vec(),
    };
    let lexer = RewoundFile {
        path: PathBuf::from("/code/parser/src/lexer.rs"),
        insertions: 1,
        deletions: 1,
        hunks: vec![hunk],
        changed_by_hand,
    };
    let tests =
        RewoundFile { path: PathBuf::from("/code/parser/tests/lexer.rs"), deletions: 40, ..RewoundFile::default() };
    let outcome = RewindOutcome { files: vec![lexer, tests], skipped_links: 1, kept: Vec::new() };
    AppReply::RewindPreview { prompt: EntryId::new("p2"), outcome: Ok(outcome) }
}

fn rewinding(changed_by_hand: bool) -> CommandScene {
    let items = AppReply::History { items: history(), used_for: HistoryUse::Rewind };
    CommandScene::run("/rewind").reply(items).reply(rewind_preview(changed_by_hand))
}

fn permissions() -> AppReply {
    let rule = |behavior, source, rule: &str| PermissionRuleView { behavior, source, rule: rule.to_owned() };
    AppReply::Permissions(PermissionsView {
        rules: vec![
            rule("allow", "localSettings", "Bash(npm run test *)"),
            rule("deny", "policySettings", "Read(./.env)"),
        ],
        directories: vec![(PathBuf::from("/code/other"), true)],
        start: PathBuf::from("/code/parser"),
    })
}

fn servers(used_for: ServerListUse) -> AppReply {
    let server = |name: &str, status, error: Option<&str>, tools| ServerView {
        name: name.to_owned(),
        status,
        source: "project",
        info: None,
        error: error.map(str::to_owned),
        config: RawValue::NULL.to_owned(),
        tools,
    };
    let tool = ServerTool {
        name: "create_issue".to_owned(),
        description: Some("Creates an issue.\nMore about it.".to_owned()),
        read_only: None,
        destructive: Some(true),
        open_world: None,
    };
    let servers = vec![
        server("tracker", ServerStatus::Connected, None, vec![tool]),
        server("docs", ServerStatus::Failed, Some("it ended with exit code 1\nno such module"), Vec::new()),
    ];
    AppReply::Servers { servers, used_for }
}

fn sessions() -> AppReply {
    let session = |id: &str, line: &str, hours: u64, branch: Option<&str>| SessionInfo {
        id: SessionId::new(id),
        path: PathBuf::from(format!("/home/ada/{id}.jsonl")),
        title: None,
        line: line.to_owned(),
        tag: None,
        cwd: Some(PathBuf::from("/code/parser")),
        git_branch: branch.map(str::to_owned),
        modified: SystemTime::UNIX_EPOCH - Duration::from_secs(hours * 3600),
        size: 40_000,
    };
    AppReply::Sessions(Ok(vec![
        session("s1", "fix the parser", 1, Some("main")),
        session("s2", "a very long first prompt that does not fit into a row of eighty columns at all", 50, None),
    ]))
}

fn context_usage() -> ContextUsage {
    ContextUsage {
        model: "claude-test-1".to_owned(),
        max_tokens: 200_000,
        total_tokens: 20_000,
        ..ContextUsage::default()
    }
}

fn rule_change() -> RuleChange {
    RuleChange {
        behavior: RuleBehavior::Allow,
        rule: "Bash(npm run *)".to_owned(),
        place: RulePlace::Local,
        removes: false,
    }
}

fn running_task() -> TaskView {
    TaskView {
        id: "b1".to_owned(),
        kind: "local_bash",
        description: "npm run dev".to_owned(),
        call: None,
        state: TaskState::Running,
        output_file: PathBuf::new(),
        exit_code: None,
        backgrounded: true,
        subagent_type: None,
        prompt: None,
        depth: 0,
        progress: None,
        summary: None,
        parent: None,
    }
}

#[test]
fn screens_of_every_command() {
    use KeyCode::{Char, Down, Enter, Up};
    let done = |text: &str| AppReply::Done(text.to_owned());
    let tasks = {
        let mut scene = CommandScene { test: TestApp::new() };
        scene.test.screen();
        scene.test.app.facts_mut().tasks = vec![running_task()];
        scene.test.enter("/tasks");
        scene
    };
    let settings =
        SettingsView { effective: json!({"theme": "dark", "autoCompactEnabled": false}), ..SettingsView::default() };
    let file =
        |path: &str, label: &str, exists| EditableFile { path: PathBuf::from(path), label: label.to_owned(), exists };
    let memory =
        vec![file("/code/parser/CLAUDE.md", "Project", true), file("/home/ada/.claude/CLAUDE.md", "User", false)];
    let effect = "2 sessions, 14 calls: 3 would be decided differently\n\nwould now be allowed: 3 calls\n    3x  Bash  npm run build";
    let answer =
        AppReply::Aside { question: "what is a lexer?".to_owned(), answer: Ok("It makes **tokens**.".to_owned()) };
    let scenes = [
        ("/add-dir", CommandScene::run("/add-dir")),
        ("/add-dir ../other", CommandScene::run("/add-dir ../other").reply(done("Added /code/other for this session"))),
        ("/branch", CommandScene::run("/branch try it")),
        ("/btw", CommandScene::run("/btw")),
        ("/btw what is a lexer? (asking)", CommandScene::run("/btw what is a lexer?")),
        ("/btw what is a lexer?", CommandScene::run("/btw what is a lexer?").reply(answer)),
        ("/cd", CommandScene::run("/cd")),
        ("/cd src", CommandScene::run("/cd src").reply(AppReply::Directory(PathBuf::from("/code/parser/src")))),
        ("/clear", CommandScene::run("/clear")),
        ("/config", CommandScene::run("/config").reply(AppReply::Settings(Ok(settings)))),
        ("/context", CommandScene::run("/context").reply(AppReply::ContextPicture(context_usage()))),
        (
            "/copy",
            CommandScene::run("/copy").reply(AppReply::History { items: history(), used_for: HistoryUse::Copy(0) }),
        ),
        ("/cost", CommandScene::run("/cost")),
        ("/effort", CommandScene::run("/effort")),
        ("/exit", CommandScene::run("/exit")),
        ("/export", CommandScene::run("/export").reply(AppReply::Copied("text".to_owned()))),
        ("/help", CommandScene::run("/help")),
        (
            "/keybindings",
            CommandScene::run("/keybindings")
                .reply(AppReply::KeyBindings { bindings: KeyBindings::default(), problems: Vec::new() }),
        ),
        ("/login", CommandScene::run("/login").keys(&[Char('s'), Char('k'), Char('-'), Char('1')])),
        ("/login sk-1", CommandScene::run("/login sk-1")),
        ("/logout", CommandScene::run("/logout").reply(done("No key is stored for https://api.example.org"))),
        ("/mcp", CommandScene::run("/mcp").reply(servers(ServerListUse::List))),
        (
            "/mcp: a server that failed",
            CommandScene::run("/mcp").reply(servers(ServerListUse::Details("docs".to_owned()))),
        ),
        ("/mcp: tools", CommandScene::run("/mcp").reply(servers(ServerListUse::Tools("tracker".to_owned())))),
        ("/memory", CommandScene::run("/memory").reply(AppReply::MemoryFiles(memory))),
        ("/model", CommandScene::run("/model")),
        ("/permissions", CommandScene::run("/permissions").reply(permissions())),
        ("/permissions: add a rule", CommandScene::run("/permissions").reply(permissions()).keys(&[Enter, Down])),
        ("/permissions: one rule", CommandScene::run("/permissions").reply(permissions()).keys(&[Down, Down, Enter])),
        (
            "/permissions: effect",
            CommandScene::run("/permissions")
                .reply(AppReply::RuleEffect { change: rule_change(), effect: Ok(effect.to_owned()) }),
        ),
        (
            "/permissions: a rule that cannot be",
            CommandScene::run("/permissions").reply(AppReply::RuleEffect {
                change: rule_change(),
                effect: Err("the rule is not closed".to_owned()),
            }),
        ),
        ("/plan", CommandScene::run("/plan")),
        ("/resume", CommandScene::run("/resume").reply(sessions())),
        ("/rewind", rewinding(false)),
        ("/rewind: what to restore", rewinding(false).keys(&[Enter])),
        ("/rewind: files that were changed since", rewinding(true).keys(&[Enter, Enter])),
        ("/tasks", tasks),
        ("/theme", CommandScene::run("/theme").keys(&[Up])),
        ("/vim", CommandScene::run("/vim")),
    ];
    let mut out = String::new();
    for row in COMMANDS {
        let name = format!("/{}", row.name);
        assert!(scenes.iter().any(|(title, _)| *title == name), "no screen of {name}");
    }
    for (title, scene) in scenes {
        out.push_str(&format!("──── {title}\n{}", scene.shown()));
    }
    insta::assert_snapshot!(out);
}

#[test]
fn a_wide_screen_has_the_preview_of_going_back_beside_the_list() {
    let mut scene = rewinding(false);
    insta::assert_snapshot!(scene.test.whole_screen_at(120, 24));
}

#[test]
fn a_file_that_was_changed_since_is_left_alone_unless_the_user_says_otherwise() {
    use KeyCode::{Char, Enter};
    let overwrites = |keys: &[KeyCode]| {
        let mut scene = rewinding(true).keys(&[Enter]);
        let effects: Vec<AppEffect> = keys.iter().flat_map(|key| scene.test.key(*key)).collect();
        effects.iter().find_map(|effect| match effect {
            AppEffect::Rewind(request) => Some((request.target, request.overwrites_changes)),
            _ => None,
        })
    };
    use crate::app::RewindTarget::{Code, CodeAndConversation, Conversation};
    assert_eq!(overwrites(&[Enter]), None, "it is asked first");
    assert_eq!(overwrites(&[Enter, Enter]), Some((CodeAndConversation, false)));
    assert_eq!(overwrites(&[Char('3'), Char('2')]), Some((Code, true)));
    assert_eq!(overwrites(&[Enter, Char('3')]), None);
    assert_eq!(overwrites(&[Char('2')]), Some((Conversation, false)), "no file is touched");
}
