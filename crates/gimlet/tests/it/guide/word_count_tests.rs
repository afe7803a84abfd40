//! What the guide's tool promises, each promise once.

use std::sync::Arc;

use gimlet_core::tool::AnyTool;
use gimlet_core::{SessionServices, SessionShared, SessionState};
use gimlet_proto::{AgentPath, Env, EventHub, SessionId, ToolUseId};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;

/// A session's services over a scratch project; no model, no gate, no disk beyond the project.
fn services(project: &Path) -> Arc<SessionServices> {
    let state = SessionState::new(project.to_owned(), Vec::new());
    let shared = SessionShared::new(SessionId::new("s"), Env::default(), None, EventHub::default());
    Arc::new(SessionServices::new(shared, state, project.join("results")))
}

/// Everything of a call except the gate: prepare, run, and the two faces of the output.
async fn call(services: &Arc<SessionServices>, input: Value) -> Result<(String, View), ToolError> {
    let prepared = WordCount.prepare(input, &services.paths())?;
    let input: WordCountInput = serde_json::from_value(prepared.input).expect("what was prepared can be read again");
    let (id, agent) = (ToolUseId::new("toolu_1"), AgentPath::default());
    let cx = services.tool_context(WordCount::NAME, id, agent, CancellationToken::new(), String::new(), Vec::new());
    let output = WordCount.call(input.clone(), &cx).await?.data;
    Ok((WordCount.to_blocks(&output).to_text(), WordCount.view(&input, &output)))
}

#[tokio::test]
async fn lines_words_and_characters_are_counted() {
    let project = tempfile::tempdir().unwrap();
    std::fs::write(project.path().join("a.txt"), "one two\nthré\n").unwrap();
    let (text, view) = call(&services(project.path()), json!({"file_path": "a.txt"})).await.unwrap();
    let path = project.path().join("a.txt");
    assert_eq!(text, format!("{}: 2 lines, 3 words, 13 characters", path.display()));
    let View::Table { head, rows } = view else { panic!("a table") };
    assert_eq!(
        (head.join(" "), rows),
        ("lines words characters".to_owned(), vec![vec!["2".into(), "3".into(), "13".into()]])
    );
}

#[test]
fn it_needs_to_read_one_file_and_nothing_else() {
    let services = services(Path::new("/project"));
    let prepared = WordCount.prepare(json!({"file_path": "docs/../a.txt"}), &services.paths()).unwrap();
    assert_eq!(prepared.needs, [AccessNeed::Read("/project/a.txt".into())]);
    assert!(prepared.read_only && prepared.concurrency_safe);
    assert_eq!(prepared.description, "a.txt");
}

#[test]
fn plain_meanings_are_taken_and_everything_else_is_named() {
    let services = services(Path::new("/project"));
    let prepared = WordCount.prepare(json!({"path": "a.txt", "min_length": "4"}), &services.paths()).unwrap();
    assert_eq!(prepared.input, json!({"file_path": "/project/a.txt", "min_length": 4}));

    let refused = WordCount.prepare(json!({"min_lenght": 4}), &services.paths()).err().unwrap();
    for part in ["`file_path` is missing", "`min_lenght`", "did you mean `min_length`?"] {
        assert!(refused.model_text.contains(part), "{refused}");
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_counted_gives_advice() {
    let project = tempfile::tempdir().unwrap();
    std::fs::write(project.path().join("b.bin"), [0xff, 0xfe, 0x00]).unwrap();
    let services = services(project.path());
    for (path, advice) in [("missing.txt", "with Glob"), ("b.bin", "not UTF-8"), (".", "not a regular file")] {
        let error = call(&services, json!({"file_path": path})).await.unwrap_err();
        assert!(error.model_text.contains(advice), "{error}");
    }
}
