//! Commands: they never hang, never outlive their end, and say how they ended.

use std::sync::{Arc, Mutex};

use gimlet_script::{Script, ScriptedReply};
use serde_json::json;

use super::*;
use crate::world;

#[tokio::test]
async fn probe_11_commands_that_wait_for_input_or_leave_children_return_at_once() {
    let world = world();
    let sleep = unique_sleep_seconds();
    let model = serve_in_one_reply([
        bash_call("cat"),
        bash_call(format!("(sleep {sleep} &); echo back")),
        bash_call("read -p 'Ok to proceed? (y) ' answer; echo \"status $? answer <$answer>\""),
    ])
    .await;
    let begun = Instant::now();
    run_to_end(&world, &model).await;
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    let results = model.request(1).tool_results();
    assert_eq!(results[1], "back");
    assert!(results[2].contains("status 1 answer <>"), "{results:?}");
    assert_eq!(count_processes("sleep", &sleep), 0);
}

/// A model that makes these calls one by one and, when the last result has come, notes how many sleepers live.
async fn serve_and_count_sleepers(
    calls: Vec<(&'static str, Value)>,
    sleeps: [String; 2],
) -> (ScriptServer, Arc<Mutex<Option<usize>>>) {
    let seen = Arc::new(Mutex::new(None));
    let note = seen.clone();
    let script = calls.into_iter().fold(Script::new(), |script, (tool, input)| script.call(tool, input).then());
    let script = script.reply_with(move |_| {
        *note.lock().unwrap() = Some(sleeps.iter().map(|sleep| count_processes("sleep", sleep)).sum());
        ScriptedReply::say("done")
    });
    (serve_script(script).await, seen)
}

#[tokio::test]
async fn probe_12_a_timeout_leaves_no_descendant_alive() {
    let world = world();
    let sleeps = [unique_sleep_seconds(), unique_sleep_seconds()];
    let command = format!("sleep 0.01; setsid sleep {} & echo begun; sleep {}", sleeps[0], sleeps[1]);
    let (model, seen) = serve_and_count_sleepers(vec![bash_call(command)], sleeps).await;
    let run = world.run(&model).stream("go").env("BASH_DEFAULT_TIMEOUT_MS", "400").finish().await;
    run.expect_code(0);
    assert_all_played(&model);
    assert_eq!(*seen.lock().unwrap(), Some(0));
    let text = tool_error(&model, 1);
    assert!(text.starts_with("Timed out after 0.4 s") && text.ends_with("begun"), "{text}");
}

#[tokio::test]
async fn probe_12_stopping_a_task_leaves_no_descendant_alive() {
    let world = world();
    let sleeps = [unique_sleep_seconds(), unique_sleep_seconds()];
    let command = format!("setsid sh -c 'touch inner; exec sleep {}' & touch outer; sleep {}", sleeps[0], sleeps[1]);
    let calls = vec![
        ("Bash", json!({"command": command, "run_in_background": true})),
        bash_call("until [ -e inner ] && [ -e outer ]; do sleep 0.01; done; echo both"),
        ("TaskStop", json!({"task_id": "b1"})),
    ];
    let (model, seen) = serve_and_count_sleepers(calls, sleeps).await;
    run_to_end(&world, &model).await;
    assert_eq!(tool_success(&model, 2), "both");
    assert!(tool_success(&model, 3).starts_with("Stopped task b1"), "{}", tool_success(&model, 3));
    assert_eq!(*seen.lock().unwrap(), Some(0));
}

#[tokio::test]
async fn probe_13_a_directory_inside_is_kept_and_one_outside_is_left_with_a_notice() {
    let world = world();
    world.file("sub/x", "");
    let model =
        serve_one_by_one([bash_call("cd sub"), bash_call("pwd"), bash_call("cd /; pwd"), bash_call("pwd")]).await;
    run_to_end(&world, &model).await;
    assert_eq!(tool_success(&model, 2), world.path("sub"));
    let reset = format!("Shell cwd was reset to {}", world.project.display());
    assert_eq!(tool_success(&model, 3), format!("/\n{reset}"));
    assert_eq!(tool_success(&model, 4), world.project.to_string_lossy());
}

#[tokio::test]
async fn probe_13_a_relative_path_means_what_the_directory_says() {
    let world = world();
    world.file("sub/a.txt", "inner");
    world.file("a.txt", "outer");
    let relative = || ("Read", json!({"file_path": "a.txt"}));
    let model = serve_one_by_one([relative(), bash_call("cd sub"), relative()]).await;
    run_to_end(&world, &model).await;
    assert_eq!((tool_success(&model, 1).as_str(), tool_success(&model, 3).as_str()), ("1\touter", "1\tinner"));
}

#[tokio::test]
async fn probe_14_a_search_without_match_is_an_answer_and_a_failed_build_shows_both_ends() {
    let world = world();
    world.file("f", "content\n");
    let build = "echo first error; for i in $(seq 3000); do echo note $i; done; echo last error >&2; exit 2";
    let model = serve_in_one_reply([bash_call("grep nomatch f"), bash_call(build)]).await;
    run_to_end(&world, &model).await;
    let answers = tool_answers(&model.request(1));
    assert_eq!((answers[0].1, answers[1].1), (false, true), "{answers:?}");
    let failed = &answers[1].0;
    assert!(failed.starts_with("Exit code 2\nfirst error\n"), "{failed}");
    assert!(failed.contains("last error"), "{failed}");
    assert!(failed.len() < 12_000, "{}", failed.len());
}

#[tokio::test]
async fn the_env_file_is_run_before_each_command_even_when_it_ends_in_a_comment() {
    let world = world();
    let file = world.file("env.sh", "export GREETING='hello there'\ngreet() { echo \"$GREETING\"; }\n# end");
    let model =
        serve_in_one_reply([bash_call("greet"), bash_call("GREETING=changed; greet"), bash_call("greet")]).await;
    let run = world.run(&model).stream("go").env("CLAUDE_ENV_FILE", file.to_string_lossy()).finish().await;
    run.expect_code(0);
    assert_all_played(&model);
    assert_eq!(model.request(1).tool_results(), ["hello there", "changed", "hello there"]);
}

#[tokio::test]
async fn commands_see_the_markers_and_none_of_the_secrets_of_telemetry() {
    let world = world();
    let model = serve_in_one_reply([bash_call(
        "echo $CLAUDECODE; env | grep -c ^OTEL_; echo $PAGER $TERM; echo ${SSL_CERT_FILE:-none}",
    )])
    .await;
    let run = world.run(&model).stream("go").env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=secret").finish().await;
    run.expect_code(0);
    assert_eq!(model.request(1).tool_result(0), "1\n0\ncat dumb\nnone");
}

#[tokio::test]
async fn long_output_goes_to_a_file_with_both_ends_shown_whether_it_failed_or_not() {
    let world = world();
    let noisy = "echo first; for i in $(seq 20000); do echo line $i; done; echo last";
    let model = serve_in_one_reply([bash_call(noisy), bash_call(format!("{noisy}; exit 3"))]).await;
    run_to_end(&world, &model).await;
    let answers = tool_answers(&model.request(1));
    assert_eq!((answers[0].1, answers[1].1), (false, true));
    for (text, _) in &answers {
        assert!(text.contains("first\n") && text.contains("last") && text.len() < 32_000, "{text}");
        let path = text.split_whitespace().find(|word| word.contains("tool-results")).unwrap_or_default();
        let path = path.trim_end_matches(['.', ',', ')', ']', ':']);
        let stored = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{error}: {path:?} in {text}"));
        assert!(stored.contains("line 10000\n"));
    }
    let transcript = world.transcripts()[0].metadata().unwrap().len();
    assert!(transcript < 80_000, "the transcript has {transcript} bytes");
}

#[tokio::test]
async fn a_foreground_call_that_would_only_wait_is_refused_with_another_way() {
    let world = world();
    let model = serve_in_one_reply([bash_call("sleep 600")]).await;
    run_to_end(&world, &model).await;
    assert!(tool_error(&model, 1).contains("run_in_background"), "{}", tool_error(&model, 1));
}

#[tokio::test]
async fn with_background_tasks_switched_off_nothing_goes_there() {
    let world = world();
    let sleep = unique_sleep_seconds();
    let model = serve_in_one_reply([
        ("Bash", json!({"command": "true", "run_in_background": true})),
        ("Bash", json!({"command": format!("while :; do sleep {sleep}; done"), "timeout": 300})),
    ])
    .await;
    let run = world.run(&model).stream("go").env("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1").finish().await;
    run.expect_code(0);
    assert_all_played(&model);
    let answers = tool_answers(&model.request(1));
    assert!(answers[0].1 && answers[0].0.contains("switched off"), "{answers:?}");
    assert!(answers[1].1 && answers[1].0.starts_with("Timed out after 0.3 s"), "{answers:?}");
    assert_eq!(count_processes("sleep", &sleep), 0);
    let tools = model.request(0).tools();
    let bash = tools.iter().find(|tool| tool["name"] == "Bash").unwrap();
    assert!(!bash.to_string().contains("run_in_background"), "{bash}");
}

#[tokio::test]
async fn a_command_cannot_kill_the_program_that_runs_it() {
    let world = world();
    // A title of its own, so that nothing else on this machine can be meant.
    let title = format!("title-{}", unique_sleep_seconds());
    let model = serve_in_one_reply([bash_call(format!("pkill -f {title}; echo after"))]).await;
    let run = world.run(&model).stream("go").args(["--name", &title]).finish().await;
    run.expect_code(0);
    assert_all_played(&model);
    assert!(tool_answers(&model.request(1))[0].1, "{:?}", tool_answers(&model.request(1)));
}

#[tokio::test]
async fn colours_overwritten_lines_and_broken_bytes_become_plain_text() {
    let world = world();
    let command = r"printf '\033[31mred\033[0m\n10%%\r100%%\nbad \377 byte\n'";
    let model = serve_in_one_reply([bash_call(command)]).await;
    run_to_end(&world, &model).await;
    assert_eq!(tool_success(&model, 1), "red\n100%\nbad \u{fffd} byte");
}

#[tokio::test]
async fn a_command_finds_no_credential_in_the_processes_above_it() {
    let world = world();
    // Written to a file, because what a call gives back is masked anyway.
    let look = "p=$$; while [ \"$p\" -gt 1 ]; do tr '\\0' '\\n' < /proc/$p/environ >> seen.txt 2>/dev/null; \
                [ \"$p\" = \"$CLAUDE_PID\" ] && break; p=$(awk '/^PPid/ {print $2}' /proc/$p/status); done; echo at=$p >> seen.txt";
    let model = serve_one_by_one([bash_call(look)]).await;
    let run = world.run(&model).stream("go").env("CLAUDE_CODE_SUBPROCESS_ENV_SCRUB", "1");
    let run = run.env("ANTHROPIC_API_KEY", "canary-in-the-key").env("FORGE_TOKEN", "canary-in-a-token");
    let mut child = run.start();
    let pid = child.pid();
    let run = tokio::task::spawn_blocking(move || child.wait_with_output()).await.unwrap();
    run.expect_code(0);
    let seen = world.read("seen.txt");
    assert!(
        seen.contains("CLAUDE_PID=") && seen.ends_with(&format!("at={pid}\n")),
        "the look did not get there: {seen}"
    );
    assert!(!seen.contains("canary"), "{seen}");
    assert_eq!(model.request(0).header("x-api-key"), Some("canary-in-the-key"));
}
