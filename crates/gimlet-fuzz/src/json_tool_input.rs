//! Fuzz target for tool inputs as a model writes them.
//!
//! Preparing a call either succeeds or fails with a message, is deterministic, and is idempotent: preparing the input
//! that hooks and dialogs see of a prepared call yields that call again. The paths that a call needs are absolute.

use std::path::{Component, Path};
use std::sync::Arc;

use gimlet_core::tool::{AnyTool, PathContext, PreparedCall};
use gimlet_policy::{DecisionContext, FollowedPath, NeedFacts, ProposedCall, RuleSet, decide};
use gimlet_proto::{AccessNeed, Env};
use serde_json::Value;

use crate::FuzzTarget;
use crate::input_fields::{join_fields, split_texts};

/// Fields: the name of a tool, the input.
pub const TARGET: FuzzTarget = FuzzTarget { name: "json_tool_input", run, seeds, words: WORDS };

const WORDS: &[&str] = &[
    "Bash",
    "Read",
    "Write",
    "Edit",
    "Glob",
    "Grep",
    "TodoWrite",
    "TaskOutput",
    "TaskStop",
    "\"command\":\"",
    "\"file_path\":\"",
    "\"path\":\"",
    "\"pattern\":\"",
    "\"content\":\"",
    "\"old_string\":\"",
    "\"new_string\":\"",
    "\"replace_all\":true",
    "\"offset\":",
    "\"limit\":",
    "\"timeout\":",
    "\"todos\":[{",
    "\"status\":\"pending\"",
    "\"activeForm\":\"",
    "\"task_id\":\"",
    "\"-A\":1",
    "\"output_mode\":\"content\"",
    "\"glob\":\"",
    "\"type\":\"rust\"",
    "\"run_in_background\":",
    "\"10\"",
    "\"true\"",
    "null",
    "-1",
    "1e308",
    "18446744073709551616",
    "~/",
    "../",
    "/..",
    "\\u0000",
    "{}",
    "[]",
    "\"multiline\":",
];

fn run(data: &[u8]) {
    let Some([name, input]) = split_texts::<2>(data) else { return };
    let Ok(input) = serde_json::from_str::<Value>(input) else { return };
    let paths = path_context();
    for tool in gimlet_tools::builtin().into_iter().filter(|tool| name.is_empty() || tool.name() == name) {
        let (first, second) = (tool.prepare(input.clone(), &paths), tool.prepare(input.clone(), &paths));
        match (first, second) {
            (Ok(first), Ok(second)) => {
                assert_eq!(visible_parts(&first), visible_parts(&second), "the same input gives the same call");
                check_prepared(tool, &first, &paths);
            }
            (Err(first), Err(second)) => {
                assert_eq!(first.to_string(), second.to_string(), "the same input gives the same refusal");
                assert!(!first.to_string().is_empty(), "a refusal says why");
            }
            _ => panic!("the same input is taken once and refused once"),
        }
    }
}

fn check_prepared(tool: &dyn AnyTool, prepared: &PreparedCall, paths: &PathContext) {
    let properties = tool.schema().get("properties").and_then(Value::as_object);
    // Some tools ignore parameters that their schema does not list.
    let strict = tool.schema().get("additionalProperties") == Some(&Value::Bool(false));
    let unknown = prepared.given.keys().find(|key| properties.is_some_and(|known| !known.contains_key(*key)));
    if strict {
        assert_eq!(unknown, None, "a parameter that the schema does not have");
    }
    for need in &prepared.needs {
        if let AccessNeed::Read(path) | AccessNeed::Write(path) = need {
            assert!(is_plain_absolute(path), "{} is not an absolute path without detours", path.display());
        }
    }
    match tool.prepare(prepared.input.clone(), paths) {
        Ok(again) => assert_eq!(visible_parts(&again), visible_parts(prepared), "a prepared input is settled"),
        Err(error) => panic!("a prepared input is refused: {error}\n{}", prepared.input),
    }
    check_decision(tool.name(), prepared);
}

/// Returns the parts of a prepared call that others act on.
fn visible_parts(prepared: &PreparedCall) -> (&Value, &[AccessNeed], bool, bool, bool, &str) {
    let PreparedCall { input, needs, read_only, destructive, concurrency_safe, description, .. } = prepared;
    (input, needs, *read_only, *destructive, *concurrency_safe, description)
}

fn is_plain_absolute(path: &Path) -> bool {
    path.is_absolute() && !path.components().any(|part| matches!(part, Component::ParentDir | Component::CurDir))
}

/// Asserts that every call gets a verdict, and that a call that only reads needs nothing to be written.
fn check_decision(tool: &str, prepared: &PreparedCall) {
    let writes = prepared.needs.iter().any(|need| matches!(need, AccessNeed::Write(_)));
    assert!(!(prepared.read_only && writes), "a call that writes does not only read");
    let facts = prepared.needs.iter().map(|need| match need {
        AccessNeed::Read(path) | AccessNeed::Write(path) => {
            NeedFacts::new(need.clone(), Some(FollowedPath::without_links(path)))
        }
        _ => NeedFacts::new(need.clone(), None),
    });
    let needs: Vec<NeedFacts> = facts.collect();
    let call = ProposedCall { tool, also_named: &[], input: Some(&prepared.given), needs: &needs, needs_person: false };
    let world = DecisionContext {
        cwd: "/srv/app".into(),
        roots: vec!["/srv/app".into()],
        environment: Some(Arc::default()),
        ..DecisionContext::default()
    };
    let verdict = decide(&call, &RuleSet::default(), &world);
    assert!(!verdict.reasons.is_empty(), "a verdict has reasons");
}

fn path_context() -> PathContext {
    PathContext {
        cwd: "/srv/app".into(),
        project_dir: "/srv/app".into(),
        roots: vec!["/srv/app".into()],
        home: Some("/home/ada".into()),
        env: Env::default(),
        environment: Some(Arc::default()),
        skills: Arc::default(),
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let seed = |tool: &str, input: &str| join_fields(&[tool.as_bytes(), input.as_bytes()]);
    vec![
        seed(
            "Bash",
            r#"{"command":"git log | head","description":"history","timeout":"5000","run_in_background":false}"#,
        ),
        seed("Read", r#"{"file_path":"~/x/../y.rs","offset":"1","limit":10}"#),
        seed("Write", r#"{"file_path":"a/b.txt","content":"x\ny\n"}"#),
        seed("Edit", r#"{"file_path":"/srv/app/a.rs","old_string":"a","new_string":"b","replace_all":"true"}"#),
        seed("Glob", r#"{"pattern":"**/*.{rs,toml}","path":"src"}"#),
        seed(
            "Grep",
            r#"{"pattern":"fn .*","path":".","output_mode":"content","-n":true,"-A":2,"glob":"*.rs","head_limit":5}"#,
        ),
        seed("TodoWrite", r#"{"todos":[{"content":"a","status":"in_progress","activeForm":"doing a"}]}"#),
        seed("TaskOutput", r#"{"task_id":"b1","block":true,"timeout":1000}"#),
        seed("TaskStop", r#"{"task_id":"b1"}"#),
        seed("", r#"{"file_path":null,"todos":"[]"}"#),
    ]
}
