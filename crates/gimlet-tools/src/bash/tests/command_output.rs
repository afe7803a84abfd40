//! Tests of a command's output and exit code in the result.

use std::time::{Duration, Instant};

use gimlet_core::tool::{AnyTool, ErrorClass};
use gimlet_proto::{AgentPath, ToolUseId, View};
use serde_json::json;

use super::{run, run_for_error, run_for_text};
use crate::bash::Bash;
use crate::bash::command_harness::{CommandBench, pids_with_argument, unique_sleep_seconds, wait_until};

#[tokio::test(flavor = "current_thread")]
async fn a_plain_command_gives_its_output_in_every_form_and_makes_no_file() {
    let mut bench = CommandBench::new();
    let given = run(&mut bench, "echo out; echo err >&2; printf '\\033[31mred\\033[0m\\n\\n'").await.unwrap();
    assert_eq!(given.text, "out\nerr\nred");
    assert_eq!(given.output, json!({"stdout": "out\nerr\nred", "stderr": "", "interrupted": false}));
    let command = "echo out; echo err >&2; printf '\\033[31mred\\033[0m\\n\\n'".to_owned();
    assert_eq!(given.view, View::Terminal { command, output: "out\nerr\nred".to_owned(), exit_code: Some(0) });
    assert!(!bench.services.results_dir().exists());
}

#[tokio::test(flavor = "current_thread")]
async fn nothing_waits_for_input_or_for_what_was_left_behind() {
    let mut bench = CommandBench::new();
    let (sleep, begun) = (unique_sleep_seconds(), Instant::now());
    assert_eq!(run_for_text(&mut bench, "cat").await, "");
    assert_eq!(run_for_text(&mut bench, "read -p 'Proceed? [y/N] ' answer || echo no answer").await, "no answer");
    assert_eq!(run_for_text(&mut bench, &format!("(sleep {sleep} &) ; echo started")).await, "started");
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(!pids_with_argument(&sleep).is_empty(), "it lives as long as the session");
    drop(bench);
    wait_until("it ends with the session", || pids_with_argument(&sleep).is_empty()).await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_question_answered_with_no_is_not_an_error() {
    let mut bench = CommandBench::new();
    bench.file("f", "text\n");
    let given = run(&mut bench, "grep nomatch f").await.unwrap();
    assert_eq!(given.text, "(No matches found; exit code 1)");
    assert_eq!(given.output["returnCodeInterpretation"], "No matches found");
    assert!(run_for_error(&mut bench, "grep nomatch missing").await.starts_with("Exit code 2\ngrep: missing:"));
    assert!(run_for_error(&mut bench, "cd nowhere && grep x f").await.starts_with("Exit code 1\n"));
}

#[tokio::test(flavor = "current_thread")]
async fn a_failing_command_shows_its_code_then_both_ends_and_saves_the_rest() {
    let mut bench = CommandBench::new();
    assert_eq!(run_for_error(&mut bench, "echo problem; exit 3").await, "Exit code 3\nproblem");
    let error = run(&mut bench, "seq 1 4000; echo the end; exit 2").await.unwrap_err();
    let text = &error.model_text;
    assert!(text.starts_with("Exit code 2\n1\n2\n") && text.contains("\nthe end\n["), "{text}");
    assert!(text.len() < 10_300 && text.contains("bytes omitted"));
    let files = bench.result_files();
    assert_eq!(files.len(), 1);
    assert!(text.contains(files[0].to_str().unwrap()));
    assert!(std::fs::read_to_string(&files[0]).unwrap().ends_with("4000\nthe end\n"));
    let output = error.output.unwrap();
    assert_eq!((&output["persistedOutputSize"], &output["interrupted"]), (&json!(18_901), &json!(false)));
}

#[tokio::test(flavor = "current_thread")]
async fn long_output_is_saved_and_previewed_by_both_ends() {
    let mut bench = CommandBench::new();
    let given = run(&mut bench, "seq 1 100000").await.unwrap();
    let path = given.output["persistedOutputPath"].as_str().unwrap();
    assert_eq!(given.output["persistedOutputSize"], 588_895);
    assert!(given.text.len() < 2_600 && given.text.contains(path));
    assert!(given.text.contains("\n1\n2\n") && given.text.contains("\n99999\n100000\n"));
    assert_eq!(std::fs::metadata(path).unwrap().len(), 588_895);
}

#[tokio::test(flavor = "current_thread")]
async fn output_is_measured_in_characters_and_saved_only_when_there_are_too_many() {
    let mut bench = CommandBench::new();
    // 20,000 characters of 3 bytes.
    let shown = run_for_text(&mut bench, "printf '日%.0s' {1..20000}").await;
    assert_eq!((shown.chars().count(), shown.len()), (20_000, 60_000));
    assert!(bench.result_files().is_empty());
    let long = run(&mut bench, "printf '日%.0s' {1..30001}").await.unwrap();
    assert!(long.text.starts_with("<persisted-output>") && long.text.len() < 2_600, "{}", long.text);
    let path = long.output["persistedOutputPath"].as_str().unwrap();
    assert_eq!(std::fs::metadata(path).unwrap().len(), 90_003);
    // Output in memory still goes to a file when it is too long for a result.
    let ascii = run(&mut bench, "seq 1 8000; exit 1").await.unwrap_err();
    assert!(ascii.model_text.contains("All 38893 bytes of the output are in "), "{}", ascii.model_text);
}

#[tokio::test(flavor = "current_thread")]
async fn the_environment_sets_how_much_is_shown() {
    let mut small = CommandBench::with_env(&[("BASH_MAX_OUTPUT_LENGTH", "100")]);
    assert!(run_for_text(&mut small, "seq 1 100000").await.contains("<persisted-output>"));
    let mut large = CommandBench::with_env(&[("BASH_MAX_OUTPUT_LENGTH", "100_000")]);
    assert_eq!(run_for_text(&mut large, "seq 1 10000").await.lines().count(), 10_000);
    assert!(large.result_files().is_empty());
}

#[tokio::test(flavor = "current_thread")]
async fn a_signal_from_elsewhere_is_named() {
    let mut bench = CommandBench::new();
    let text = run_for_error(&mut bench, "echo before; kill -KILL $$").await;
    assert!(
        text.starts_with("Exit code 137\nbefore\nThe command was ended by signal 9 (SIGKILL), which gimlet"),
        "{text}"
    );
    assert!(run_for_error(&mut bench, "sh -c 'kill -TERM $$'").await.contains("SIGTERM"));
}

#[tokio::test(flavor = "current_thread")]
async fn silence_is_marked_where_it_is_expected() {
    let mut bench = CommandBench::new();
    assert_eq!(run(&mut bench, "mkdir sub").await.unwrap().output["noOutputExpected"], true);
    assert!(run(&mut bench, "ls sub").await.unwrap().output.get("noOutputExpected").is_none());
}

#[tokio::test(flavor = "current_thread")]
async fn a_printed_picture_becomes_one_and_a_broken_one_stays_text() {
    let mut bench = CommandBench::new();
    let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let given = run(&mut bench, &format!("echo data:image/png\\;base64,{png}")).await.unwrap();
    assert_eq!((given.text.as_str(), &given.output["isImage"]), ("", &json!(true)));
    assert!(matches!(given.view, View::Terminal { output, .. } if output == "[image]"));
    let broken = run(&mut bench, "echo 'data:image/png;base64,aGVsbG8='").await.unwrap();
    assert_eq!((broken.text.as_str(), broken.output.get("isImage")), ("data:image/png;base64,aGVsbG8=", None));
}

#[tokio::test(flavor = "current_thread")]
async fn an_interrupt_kills_the_tree_and_tells_what_was_printed() {
    let mut bench = CommandBench::new();
    let (sleep, cancel) = (unique_sleep_seconds(), bench.cancel.clone());
    let command = format!("echo partial; setsid sleep {sleep} & touch printed; sleep {sleep}");
    let printed = bench.path("printed");
    let canceller = async {
        wait_until("it runs", || printed.exists() && pids_with_argument(&sleep).len() == 2).await;
        cancel.cancel();
        Instant::now()
    };
    let (called, cancelled_at) = tokio::join!(run(&mut bench, &command), canceller);
    let error = called.unwrap_err();
    assert!(cancelled_at.elapsed() < Duration::from_secs(20));
    assert_eq!((error.class, pids_with_argument(&sleep)), (ErrorClass::Interrupted, vec![]));
    assert!(error.model_text.starts_with("Interrupted by the user: the command and everything"), "{error}");
    assert!(
        error.model_text.contains(" were killed after ") && error.model_text.contains("until then:\npartial"),
        "{error}"
    );
    assert_eq!(error.output.unwrap()["interrupted"], true);
}

#[tokio::test(flavor = "current_thread")]
async fn an_agent_is_not_told_that_the_person_stopped_its_command() {
    let mut bench = CommandBench::new();
    bench.agent = AgentPath(vec![ToolUseId::new("toolu_parent")]);
    let (sleep, cancel) = (unique_sleep_seconds(), bench.cancel.clone());
    let canceller = async {
        wait_until("it runs", || !pids_with_argument(&sleep).is_empty()).await;
        cancel.cancel();
    };
    let command = format!("echo partial; sleep {sleep}");
    let (called, ()) = tokio::join!(run(&mut bench, &command), canceller);
    let text = called.unwrap_err().model_text;
    assert!(text.starts_with("Interrupted: the command and everything it started were killed"), "{text}");
}

#[tokio::test(flavor = "current_thread")]
async fn a_command_that_ignores_being_asked_is_gone_before_the_runtime_gives_up() {
    let mut bench = CommandBench::new();
    let (sleep, cancel) = (unique_sleep_seconds(), bench.cancel.clone());
    let command = format!("trap '' TERM; sleep {sleep}");
    let canceller = async {
        wait_until("it runs", || !pids_with_argument(&sleep).is_empty()).await;
        cancel.cancel();
        Instant::now()
    };
    let (called, cancelled_at) = tokio::join!(run(&mut bench, &command), canceller);
    assert_eq!(called.unwrap_err().class, ErrorClass::Interrupted);
    assert!(cancelled_at.elapsed() < Duration::from_secs(20), "{:?}", cancelled_at.elapsed());
    assert_eq!(pids_with_argument(&sleep), Vec::<i32>::new());
}

#[tokio::test(flavor = "current_thread")]
async fn a_printing_command_still_hears_its_timeout() {
    let mut bench = CommandBench::new();
    let input = json!({"command": "git --version; yes", "timeout": 100});
    let error = bench.call(Bash, input).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::TimedOut);
    assert!(error.model_text.starts_with("Timed out after 0.1 s: the command and everything it started were killed"));
}

#[tokio::test(flavor = "current_thread")]
async fn progress_is_told_after_two_seconds_with_the_last_lines_and_the_timeout() {
    let mut bench = CommandBench::new();
    assert_eq!(run_for_text(&mut bench, "seq 1 9; sleep 2.2; echo end").await.lines().last(), Some("end"));
    assert_eq!(bench.progress(), ["2 s of 120 s, 9 lines, 18 bytes\n5\n6\n7\n8\n9"]);
}

#[tokio::test(flavor = "current_thread")]
async fn a_command_that_cannot_start_says_why() {
    let mut bench = CommandBench::new();
    assert!(
        run_for_error(&mut bench, &format!("echo {}", "x".repeat(200_000))).await.contains("write it to a script file")
    );
    let mut none = CommandBench::with_env(&[("CLAUDE_CODE_SHELL", "/bin/cat")]);
    assert!(run_for_error(&mut none, "ls").await.contains("not a bash or zsh"));
}

#[tokio::test(flavor = "current_thread")]
async fn a_pkill_that_would_hit_gimlet_is_not_run() {
    let mut bench = CommandBench::new();
    let me = std::process::id();
    let name = std::fs::read_to_string(format!("/proc/{me}/comm")).unwrap();
    let text = run_for_error(&mut bench, &format!("echo first; pkill -9 '{}'", name.trim())).await;
    assert!(text.starts_with("Not run: `pkill ") && text.contains("would also end gimlet"), "{text}");
    assert!(run_for_error(&mut bench, "pkill -f no-process-has-this-in-its-name-[x]").await.starts_with("Exit code 1"));
}

#[test]
fn an_output_that_a_hook_wrote_is_told_if_it_has_the_form() {
    let told = |output: serde_json::Value| {
        let output = serde_json::value::to_raw_value(&output).unwrap();
        AnyTool::content_from_output(&Bash, &output).map(|content| content.to_text())
    };
    let output = json!({"stdout": "key=***", "stderr": "", "interrupted": false, "isImage": false});
    assert_eq!(told(output).as_deref(), Some("key=***"));
    assert_eq!(told(json!("key=***")), None);
    assert_eq!(told(json!({"stdout": "key=***"})), None);
}
