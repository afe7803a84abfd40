//! Tests of the tool's contract with the runtime and the model before anything runs.

use gimlet_core::tool::{AnyTool, PromptContext, RecordedResult, Tool};
use gimlet_proto::{AccessNeed, Env, View};
use serde_json::{Value, json};

use crate::bash::Bash;
use crate::bash::command_harness::CommandBench;
use crate::task_output::TaskOutput;
use crate::task_stop::TaskStop;

fn prompt_length(tool: &dyn AnyTool) -> usize {
    tool.prompt(&PromptContext {
        env: Env::default(),
        tools: Vec::new(),
        background: true,
        sandbox: None,
        agents: Vec::new(),
    })
    .len()
}

#[test]
fn descriptions_are_short() {
    assert!(prompt_length(&Bash) <= 1_300 && prompt_length(&TaskOutput) <= 300 && prompt_length(&TaskStop) <= 200);
}

#[test]
fn past_commands_are_shown_from_their_records_also_failed_and_foreign_ones() {
    let paths = crate::harness::ToolBench::new().services().paths();
    let raw = |json: Value| serde_json::value::to_raw_value(&json).unwrap();
    let input = raw(json!({"command": "make check"}));
    let shown = |is_error: bool, text: &str, output: Value| {
        let output = raw(output);
        let result = RecordedResult { is_error, text, output: Some(&output) };
        let shown = AnyTool::summarize_past_call(&Bash, &input, Some(&result), &paths).unwrap();
        assert_eq!((shown.name.as_str(), shown.summary.as_str()), ("Bash", "make check"));
        shown.view.unwrap()
    };
    let terminal = |output: &str, exit_code: Option<i32>| View::Terminal {
        command: "make check".into(),
        output: output.into(),
        exit_code,
    };
    let own = json!({"stdout": "fine", "stderr": "", "interrupted": false, "returnCodeInterpretation": "no match"});
    assert_eq!(shown(false, "fine", own), terminal("fine", None));
    let foreign = json!({"stdout": "a", "stderr": "b", "interrupted": false, "isImage": false, "sandbox": {"x": 1}});
    assert_eq!(shown(false, "a\nb", foreign), terminal("a\nb", None));
    let failed = json!({"errorClass": "exec_failed", "error": "…"});
    assert_eq!(shown(true, "Exit code 2\nwrong", failed), terminal("wrong", Some(2)));
    let refused = json!({"errorClass": "permission_denied", "error": "no"});
    assert_eq!(shown(true, "no", refused), View::Text("no".into()));
    assert_eq!(shown(false, "some text", json!("some text")), View::Text("some text".into()));
}

#[test]
fn the_reviewer_is_told_that_a_command_would_leave_the_sandbox() {
    let paths = crate::harness::ToolBench::new().services().paths();
    let input = json!({"command": "make", "dangerouslyDisableSandbox": true});
    let typed = serde_json::from_value(Bash.prepare(input, &paths).unwrap().input).unwrap();
    assert_eq!(Bash.auto_classifier_input(&typed), "make\n(to run outside the sandbox)");
}

#[test]
fn the_timeouts_that_hold_are_the_ones_that_are_told() {
    let env = Env::default().with("BASH_MAX_TIMEOUT_MS", "900000");
    let text = Tool::prompt(
        &Bash,
        &PromptContext { env, tools: Vec::new(), background: true, sandbox: None, agents: Vec::new() },
    );
    assert!(text.contains("120000 unless given, at most 900000"), "{text}");
}

#[test]
fn background_is_not_mentioned_where_there_is_none() {
    let text = Tool::prompt(
        &Bash,
        &PromptContext { env: Env::default(), tools: Vec::new(), background: false, sandbox: None, agents: Vec::new() },
    );
    assert!(!text.contains("background"), "{text}");
}

#[test]
fn every_parameter_of_the_public_input_is_described_and_nothing_else_is_taken() {
    let schema = AnyTool::schema(&Bash);
    let properties = schema["properties"].as_object().unwrap();
    let names: Vec<&str> = properties.keys().map(String::as_str).collect();
    assert_eq!(names, ["command", "timeout", "description", "run_in_background", "dangerouslyDisableSandbox"]);
    assert!(properties.values().all(|property| property["description"].is_string()));
    assert_eq!((&schema["required"], &schema["additionalProperties"]), (&json!(["command"]), &json!(false)));
}

/// The code of the input problem, or zero.
fn problem(bench: &mut CommandBench, input: Value) -> u32 {
    let cx = bench.context("Bash");
    let Err(error) = AnyTool::prepare(&Bash, input, &cx.paths) else { return 0 };
    error.model_text.rsplit("(code ").next().and_then(|code| code.trim_end_matches(')').parse().ok()).expect("a code")
}

#[test]
fn empty_commands_and_long_sleeps_are_refused_before_anything_runs() {
    let mut bench = CommandBench::new();
    for (input, code) in [
        (json!({"command": " \n"}), 1),
        (json!({"command": "echo a\u{0}b"}), 2),
        (json!({"command": "sleep 31"}), 4),
        (json!({"command": "sleep 1m && curl localhost"}), 4),
        (json!({"command": "sleep 40 2>&1; echo done"}), 4),
        (json!({"command": "sleep 30"}), 0),
        (json!({"command": "sleep 100", "run_in_background": true}), 0),
        (json!({"command": "(sleep 100 &)"}), 0),
        (json!({"command": "sleep 100 & echo started"}), 0),
        (json!({"command": "timeout 5 sleep 100"}), 0),
        (json!({"command": "ls", "timeout": " +5000 ", "run_in_background": "FALSE"}), 0),
    ] {
        assert_eq!(problem(&mut bench, input.clone()), code, "{input}");
    }
}

#[test]
fn background_is_refused_where_it_is_switched_off() {
    let mut bench = CommandBench::with_env(&[("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1")]);
    assert_eq!(problem(&mut bench, json!({"command": "ls", "run_in_background": true})), 3);
}

#[test]
fn only_commands_that_read_run_beside_others() {
    let mut bench = CommandBench::new();
    let cx = bench.context("Bash");
    let prepare = |input: Value| AnyTool::prepare(&Bash, input, &cx.paths).unwrap();
    let reading = prepare(json!({"command": "ls -la | head -3"}));
    assert!(reading.read_only && reading.concurrency_safe && !reading.destructive);
    assert_eq!(reading.needs, [AccessNeed::Run("ls -la | head -3".to_owned())]);
    let background = prepare(json!({"command": "ls", "run_in_background": true}));
    assert!(background.read_only && !background.concurrency_safe);
    let writing = prepare(json!({"command": "rm -rf build"}));
    assert!(!writing.read_only && !writing.concurrency_safe && writing.destructive);
}

#[test]
fn the_call_is_summed_up_on_one_line_by_its_command_not_by_words_about_it() {
    let mut bench = CommandBench::new();
    let cx = bench.context("Bash");
    let input = json!({"command": "cd a\nmake  all", "description": "List files"});
    assert_eq!(AnyTool::prepare(&Bash, input, &cx.paths).unwrap().description, "cd a ⏎ make  all");
}
