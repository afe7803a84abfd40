//! Commands that go on after their call.

use std::time::Duration;

use gimlet_core::tool::ErrorClass;
use gimlet_proto::{TaskState, ToolUseId};
use serde_json::json;

use crate::bash::Bash;
use crate::bash::command_harness::{CommandBench, pids_with_argument, unique_sleep_seconds, wait_until};
use crate::task_output::TaskOutput;
use crate::task_stop::TaskStop;

#[tokio::test(flavor = "multi_thread")]
async fn a_background_command_returns_at_once_and_tells_of_its_end() {
    let mut bench = CommandBench::new();
    let input =
        json!({"command": "cd /usr; echo out; exit 3", "run_in_background": true, "description": "Fail slowly"});
    let given = bench.call(Bash, input).await.unwrap();
    let file = given.output["rawOutputPath"].as_str().unwrap().to_owned();
    assert!(std::fs::exists(&file).unwrap(), "a Read sent at once must find the file");
    assert_eq!((&given.output["backgroundTaskId"], &given.output["stdout"]), (&json!("b1"), &json!("")));
    assert!(given.text.contains("task b1") && given.text.contains(&file));
    assert!(given.text.contains("The session's working directory stays"), "{}", given.text);
    let task = bench.services.tasks().find("b1").unwrap();
    assert_eq!(task.wait_finished().await, (TaskState::Failed, Some(3)));
    wait_until("people are told", || bench.task_states().len() == 2).await;
    assert_eq!(bench.task_states(), [TaskState::Running, TaskState::Failed]);
    let mut said = Vec::new();
    wait_until("the model is told", || {
        said.extend(bench.take_model_messages());
        !said.is_empty()
    })
    .await;
    assert_eq!(
        said,
        [format!(
            "[Automatic notice, no human wrote this] Background task b1 (Fail slowly) ended with exit code 3 after 0 s. \
             Its output (1 line) is in {file}"
        )]
    );
    assert_eq!(std::fs::read_to_string(file).unwrap(), "out\n");
    assert_eq!(bench.state.cwd, bench.state.project_dir);
}

#[tokio::test(flavor = "current_thread")]
async fn a_command_that_outlives_its_timeout_goes_on_in_the_background() {
    let mut bench = CommandBench::new();
    let (sleep, timeout) = (unique_sleep_seconds(), 200);
    let input = json!({"command": format!("echo early; sleep {sleep}; echo late"), "timeout": timeout});
    let given = bench.call(Bash, input).await.unwrap();
    assert!(given.text.starts_with("early\nNot finished after 0.2 s, so it goes on"), "{}", given.text);
    assert_eq!((&given.output["timedOutAfterMs"], &given.output["backgroundTaskId"]), (&json!(timeout), &json!("b1")));
    let file = bench.services.tasks().find("b1").unwrap().output_file.clone();
    wait_until("what was printed before is in the file", || {
        std::fs::read(&file).is_ok_and(|bytes| bytes == b"early\n")
    })
    .await;
    assert!(!pids_with_argument(&sleep).is_empty());
    drop(bench);
    wait_until("it ends with the session", || pids_with_argument(&sleep).is_empty()).await;
}

/// Runs a command that must be killed at its timeout, and checks that its sleep is gone.
async fn killed_at_timeout(bench: &mut CommandBench, before: &str, after: &str) {
    let sleep = unique_sleep_seconds();
    let command = format!("{before}{sleep}{after}");
    let error = bench.call(Bash, json!({"command": command, "timeout": 150})).await.unwrap_err();
    assert_eq!((error.class, pids_with_argument(&sleep)), (ErrorClass::TimedOut, vec![]), "{command}");
    assert!(error.model_text.starts_with("Timed out after 0."), "{error}");
    assert_eq!(error.output.unwrap()["timedOutAfterMs"], 150);
    assert!(bench.services.tasks().all().is_empty());
}

#[tokio::test(flavor = "current_thread")]
async fn what_must_not_go_on_unseen_is_killed_at_its_timeout_with_all_it_started() {
    let mut bench = CommandBench::new();
    killed_at_timeout(&mut bench, "git --version; setsid sleep ", " & wait").await;
    killed_at_timeout(&mut bench, "sleep 0.01 ; setsid sleep ", "").await;
    let mut disabled = CommandBench::with_env(&[("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "true")]);
    killed_at_timeout(&mut disabled, "setsid sleep ", " & setsid sleep 8888 & wait").await;
}

#[tokio::test(flavor = "current_thread")]
async fn the_default_timeout_comes_from_the_environment() {
    let mut bench = CommandBench::with_env(&[("BASH_DEFAULT_TIMEOUT_MS", "100")]);
    let given = bench.call(Bash, json!({"command": "tail -f /dev/null"})).await.unwrap();
    assert_eq!(given.output["timedOutAfterMs"], 100);
}

#[tokio::test(flavor = "current_thread")]
async fn output_files_of_equal_call_ids_do_not_meet() {
    let mut bench = CommandBench::new();
    std::fs::create_dir(bench.services.results_dir()).unwrap();
    std::fs::write(bench.services.results_dir().join("toolu_1.output"), "another").unwrap();
    let given = bench.call(Bash, json!({"command": "echo mine", "run_in_background": true})).await.unwrap();
    bench.services.tasks().find("b1").unwrap().wait_finished().await;
    let file = given.output["rawOutputPath"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(file).unwrap(), "mine\n");
    assert!(file.ends_with("toolu_1-2.output"));
}

#[tokio::test(flavor = "current_thread")]
async fn many_background_commands_end_each_by_itself() {
    let mut bench = CommandBench::new();
    for code in 0..5 {
        let input = json!({"command": format!("sleep 0.05; exit {code}"), "run_in_background": true});
        bench.call(Bash, input).await.unwrap();
    }
    for (code, task) in bench.services.tasks().all().iter().enumerate() {
        let ended = tokio::time::timeout(Duration::from_secs(5), task.wait_finished()).await.unwrap();
        assert_eq!(ended.1, Some(code as i32));
    }
    let mut said = Vec::new();
    wait_until("five notices", || {
        said.extend(bench.take_model_messages());
        said.len() == 5
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_command_that_the_user_moves_goes_on_as_a_task_and_can_be_stopped() {
    let mut bench = CommandBench::new();
    let (sleep, services, mark) = (unique_sleep_seconds(), bench.services.clone(), bench.path("mark"));
    let input = json!({"command": format!("echo early; touch '{}'; sleep {sleep}; echo late", mark.display())});
    let moving = async {
        wait_until("it has printed", || mark.exists()).await;
        assert!(!services.move_to_background(Some(&ToolUseId::new("toolu_9"))), "another call is meant");
        // The command can be quicker than the call that waits for it.
        wait_until("it is moved", || services.move_to_background(None)).await;
        wait_until("it sleeps", || !pids_with_argument(&sleep).is_empty()).await;
    };
    let (given, ()) = tokio::join!(bench.call(Bash, input), moving);
    let given = given.unwrap();
    assert!(given.text.starts_with("early\nThe user moved it to the background"), "{}", given.text);
    assert_eq!((&given.output["backgroundedByUser"], &given.output["backgroundTaskId"]), (&json!(true), &json!("b1")));
    assert!(!bench.services.move_to_background(None), "nobody waits for it any more");
    assert!(!pids_with_argument(&sleep).is_empty());
    let shown = bench.call(TaskOutput, json!({"task_id": "b1", "block": false})).await.unwrap();
    assert_eq!(
        (&shown.output["task"]["status"], &shown.output["task"]["output"]),
        (&json!("running"), &json!("early"))
    );
    bench.call(TaskStop, json!({"task_id": "b1"})).await.unwrap();
    assert_eq!(pids_with_argument(&sleep), Vec::<i32>::new());
}

#[tokio::test(flavor = "current_thread")]
async fn where_background_work_is_off_nothing_can_be_moved() {
    let mut bench = CommandBench::with_env(&[("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1")]);
    let (services, gate) = (bench.services.clone(), bench.path("gate"));
    let moving = async {
        wait_until("it runs", || gate.exists()).await;
        assert!(!services.move_to_background(None));
        std::fs::write(&gate, "go").unwrap();
    };
    let input = json!({"command": "touch gate; until [ -s gate ]; do :; done; echo end"});
    let (given, ()) = tokio::join!(bench.call(Bash, input), moving);
    assert_eq!(given.unwrap().output["stdout"], "end");
}
