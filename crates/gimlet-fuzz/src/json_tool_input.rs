//! What a model writes as the input of a call.
//!
//! Preparing never fails but with words, gives the same every time, and is settled: what hooks and dialogs see of a
//! prepared call is prepared to the same call again. What a call needs are absolute paths.

use std::path::{Component, Path};
use std::sync::Arc;

use gimlet_core::tool::{AnyTool, PathContext, Prepared};
use gimlet_policy::{Call, Followed, NeedFacts, RuleSet, World, decide};
use gimlet_proto::{Env, Need};
use serde_json::Value;

use crate::Target;
use crate::fields::{join, texts};

/// Fields: the name of a tool, the input.
pub const TARGET: Target = Target { name: "json_tool_input", run, seeds, words: WORDS };

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
    let Some([name, input]) = texts::<2>(data) else { return };
    let Ok(input) = serde_json::from_str::<Value>(input) else { return };
    let paths = paths();
    for tool in gimlet_tools::builtin().into_iter().filter(|tool| name.is_empty() || tool.name() == name) {
        let (first, second) = (tool.prepare(input.clone(), &paths), tool.prepare(input.clone(), &paths));
        match (first, second) {
            (Ok(first), Ok(second)) => {
                assert_eq!(seen(&first), seen(&second), "the same input gives the same call");
                check(tool, &first, &paths);
            }
            (Err(first), Err(second)) => {
                assert_eq!(first.to_string(), second.to_string(), "the same input gives the same refusal");
                assert!(!first.to_string().is_empty(), "a refusal says why");
            }
            _ => panic!("the same input is taken once and refused once"),
        }
    }
}

fn check(tool: &dyn AnyTool, prepared: &Prepared, paths: &PathContext) {
    let properties = tool.schema().get("properties").and_then(Value::as_object);
    // Some tools take whatever is given beside their own parameters and pass over it.
    let strict = tool.schema().get("additionalProperties") == Some(&Value::Bool(false));
    let unknown = prepared.given.keys().find(|key| properties.is_some_and(|known| !known.contains_key(*key)));
    assert_eq!(unknown.filter(|_| strict), None, "a parameter that the schema does not have");
    for need in &prepared.needs {
        if let Need::Read(path) | Need::Write(path) = need {
            assert!(is_plain(path), "{} is not an absolute path without detours", path.display());
        }
    }
    match tool.prepare(prepared.input.clone(), paths) {
        Ok(again) => assert_eq!(seen(&again), seen(prepared), "a prepared input is settled"),
        Err(error) => panic!("a prepared input is refused: {error}\n{}", prepared.input),
    }
    decided(tool.name(), prepared);
}

/// The parts of a prepared call that others act on.
fn seen(prepared: &Prepared) -> (&Value, &[Need], bool, bool, bool, &str) {
    let Prepared { input, needs, read_only, destructive, concurrency_safe, description, .. } = prepared;
    (input, needs, *read_only, *destructive, *concurrency_safe, description)
}

fn is_plain(path: &Path) -> bool {
    path.is_absolute() && !path.components().any(|part| matches!(part, Component::ParentDir | Component::CurDir))
}

/// A verdict is found for any call; a call that only reads needs nothing to be written.
fn decided(tool: &str, prepared: &Prepared) {
    let writes = prepared.needs.iter().any(|need| matches!(need, Need::Write(_)));
    assert!(!(prepared.read_only && writes), "a call that writes does not only read");
    let facts = prepared.needs.iter().map(|need| match need {
        Need::Read(path) | Need::Write(path) => NeedFacts::new(need.clone(), Some(Followed::plain(path))),
        _ => NeedFacts::new(need.clone(), None),
    });
    let needs: Vec<NeedFacts> = facts.collect();
    let call = Call { tool, also_named: &[], input: Some(&prepared.given), needs: &needs, needs_person: false };
    let world = World {
        cwd: "/srv/app".into(),
        roots: vec!["/srv/app".into()],
        environment: Some(Arc::default()),
        ..World::default()
    };
    let verdict = decide(&call, &RuleSet::default(), &world);
    assert!(!verdict.reasons.is_empty(), "a verdict has reasons");
}

fn paths() -> PathContext {
    PathContext {
        cwd: "/srv/app".into(),
        project_dir: "/srv/app".into(),
        roots: vec!["/srv/app".into()],
        home: Some("/home/ada".into()),
        env: Env::default(),
        environment: Some(Arc::default()),
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let seed = |tool: &str, input: &str| join(&[tool.as_bytes(), input.as_bytes()]);
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
