//! One reply, many calls: what runs beside what, what runs once, and what every call gets.

use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gimlet_script::{CloseKind, Fault, FaultPoint, InputPieces, PingMode, Script, WireShape};
use serde_json::json;

use super::*;
use crate::world;

/// Each call is three events: start, one delta, stop. The event after `count` whole calls.
fn event_after_calls(count: usize) -> FaultPoint {
    FaultPoint::Event(1 + 3 * count)
}

fn whole_inputs() -> WireShape {
    WireShape { input_pieces: InputPieces::One, pings: PingMode::None, ..WireShape::default() }
}

#[tokio::test]
async fn probe_01_an_unknown_field_is_named_and_a_number_in_words_is_understood() {
    let world = world();
    let lines: Vec<String> = (1..=12).map(|number| format!("line {number}")).collect();
    world.file("a.txt", lines.join("\n"));
    let path = world.path("a.txt");
    let model = serve_in_one_reply([
        ("Read", json!({"file_path": path, "offset": " +10 ", "foo": 1})),
        ("Read", json!({"file_path": path, "offset": " +10 "})),
    ])
    .await;
    run_to_end(&world, &model).await;
    let answers = tool_answers(&model.request(1));
    assert!(answers[0].1 && answers[0].0.starts_with("<tool_use_error>InputValidationError"), "{answers:?}");
    assert!(answers[0].0.contains("`foo`"), "{answers:?}");
    assert!(!answers[1].1 && answers[1].0.starts_with("10\tline 10\n11\tline 11"), "{answers:?}");
}

#[tokio::test]
async fn probe_04_readers_share_a_group_and_a_command_stands_between_them() {
    let world = world();
    world.file("a.txt", "before\n");
    let a = || read_call(&world, "a.txt");
    let model = serve_in_one_reply([a(), a(), bash_call("echo after > a.txt"), a()]).await;
    run_to_end(&world, &model).await;
    let results = model.request(1).tool_results();
    assert_eq!((results[0].as_str(), results[3].as_str()), ("1\tbefore", "1\tafter"));
}

#[tokio::test]
async fn probe_04_the_last_call_of_a_group_decides_the_directory_whoever_ends_first() {
    for (calls, expected) in [(["slow", "fast"], "fast"), (["fast", "slow"], "slow")] {
        let world = world();
        // Counting the lines of a large hole takes long enough to end behind the other call.
        std::fs::File::create(world.project.join("hole")).unwrap().set_len(200_000_000).unwrap();
        world.file("slow/x", "");
        world.file("fast/x", "");
        let command = |name: &str| match name {
            "slow" => bash_call("wc -l hole && cd slow"),
            _ => bash_call("cd fast"),
        };
        let script =
            calls.into_iter().map(command).fold(Script::new(), |script, (tool, input)| script.call(tool, input));
        let model = serve_script(script.then().call("Bash", json!({"command": "pwd"})).then().say("done")).await;
        run_to_end(&world, &model).await;
        assert_eq!(tool_success(&model, 2), world.path(expected));
    }
}

#[tokio::test]
async fn one_failing_call_in_four_spellings_is_one_failing_call() {
    let world = world();
    let spellings = [
        json!({"file_path": "nope"}),
        json!({"file_path": world.path("nope")}),
        json!({"file_path": "./nope"}),
        json!({"path": "nope"}),
    ];
    let script = spellings.into_iter().fold(Script::new(), |script, input| script.call("Read", input).then());
    let model = serve_script(script.say("done")).await;
    run_to_end(&world, &model).await;
    let said: Vec<String> = (1..=4).map(|at| model.request(at).tool_results().last().unwrap().clone()).collect();
    assert!(said[3].starts_with(said[0].trim_end_matches("</tool_use_error>")), "{said:?}");
    let warned: Vec<bool> = said.iter().map(|text| text.contains("for the 4th time")).collect();
    assert_eq!(warned, [false, false, false, true], "{said:?}");
}

#[tokio::test]
async fn probe_05_parallel_calls_never_exceed_the_cap_and_the_cap_can_be_set() {
    for (cap, setting) in [(10, None), (3, Some("3")), (10, Some("0"))] {
        let world = world();
        let gate = world.project.join("gate");
        rustix::fs::mkfifoat(rustix::fs::CWD, &gate, rustix::fs::Mode::RWXU).unwrap();
        let calls = (0..25).fold(Script::new(), |script, _| script.call("Bash", json!({"command": "cat gate"})));
        let model = serve_script(calls.then().say("done")).await;
        let mut run = world.run(&model).stream("go");
        if let Some(setting) = setting {
            run = run.env("CLAUDE_CODE_MAX_TOOL_USE_CONCURRENCY", setting);
        }
        let over = Arc::new(AtomicBool::new(false));
        let mut child = run.start();
        let ended = over.clone();
        let run = tokio::task::spawn_blocking(move || {
            let output = child.wait_with_output();
            ended.store(true, Ordering::Relaxed);
            output
        });
        let waiting = || count_readers_in(&world.project);
        wait_until("the cap is reached", || waiting() == cap).await;
        let mut most = 0;
        while !over.load(Ordering::Relaxed) {
            most = most.max(waiting());
            // Opening the other end lets everyone who waits pass; with nobody waiting it fails, which is fine.
            let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
            drop(std::fs::File::options().write(true).custom_flags(nonblocking).open(&gate));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        run.await.unwrap().expect_code(0);
        assert_all_played(&model);
        assert_eq!(most, cap);
        assert_eq!(model.request(1).tool_results().len(), 25);
    }
}

/// How many `cat` processes stand in this folder.
fn count_readers_in(folder: &Path) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|process| process.path());
    processes
        .filter(|process| std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == folder))
        .filter(|process| std::fs::read(process.join("cmdline")).is_ok_and(|line| line == b"cat\0gate\0"))
        .count()
}

#[tokio::test]
async fn probe_06_one_of_five_fails_and_four_succeed_in_order() {
    let world = world();
    for name in ["a", "b", "d", "e"] {
        world.file(name, name);
    }
    let model = serve_in_one_reply(["a", "b", "c", "d", "e"].map(|name| read_call(&world, name))).await;
    run_to_end(&world, &model).await;
    let answers = tool_answers(&model.request(1));
    let failed: Vec<bool> = answers.iter().map(|(_, failed)| *failed).collect();
    assert_eq!(failed, [false, false, true, false, false], "{answers:?}");
    for (at, name) in [(0, "a"), (1, "b"), (3, "d"), (4, "e")] {
        assert_eq!(answers[at].0, format!("1\t{name}"));
    }
}

#[tokio::test]
async fn probe_07_a_read_behind_an_edit_waits_for_it() {
    let world = world();
    world.file("a.txt", "old\n");
    let edit = json!({"file_path": world.path("a.txt"), "old_string": "old", "new_string": "new"});
    let model = serve_in_one_reply([read_call(&world, "a.txt"), ("Edit", edit), read_call(&world, "a.txt")]).await;
    run_to_end(&world, &model).await;
    let results = model.request(1).tool_results();
    assert_eq!((results[0].as_str(), results[2].as_str()), ("1\told", "1\tnew"), "{results:?}");
}

#[tokio::test]
async fn probe_07_a_reply_that_is_asked_for_again_leaves_no_trace() {
    let world = world();
    make_old(&world.file("a.txt", "content\n"));
    let (tool, input) = read_call(&world, "a.txt");
    let script = Script::new()
        .say("First attempt.")
        .call(tool, input.clone())
        .call_raw("Write", r#"{"file_path":"b.txt","content":"half of a lo"#)
        .stop("max_tokens")
        .then()
        .call(tool, input)
        .then()
        .say("done");
    let model = serve_script(script).await;
    run_to_end(&world, &model).await;
    // An early result that had counted would make this one "unchanged".
    assert_eq!(tool_success(&model, 2), "1\tcontent");
    assert!(!model.request(2).body_text().contains("First attempt"));
    assert_eq!(model.request(1).messages(), model.request(0).messages());
    assert!(!world.project.join("b.txt").exists());

    let later = serve_script(Script::new().say("later")).await;
    world.run(&later).stream("and now?").arg("--continue").finish().await.expect_code(0);
    assert_all_played(&later);
    assert!(!later.request(0).body_text().contains("First attempt"));
}

#[tokio::test]
async fn probe_08_a_stream_cut_after_two_calls_runs_both_once() {
    let cut = |how| Fault::Cut { at: event_after_calls(2), how };
    let overloaded = Fault::ErrorEvent {
        at: event_after_calls(2),
        kind: "overloaded_error".into(),
        message: "Overloaded".into(),
        data: None,
    };
    for fault in [cut(CloseKind::Fin), cut(CloseKind::Rst), overloaded] {
        let world = world();
        let script = Script::new()
            .call("Bash", json!({"command": "echo one >> log"}))
            .call("Bash", json!({"command": "echo two >> log; cat log"}))
            .call("Bash", json!({"command": "echo three >> log"}))
            .wire(whole_inputs())
            .fault(fault.clone())
            .then()
            .say("done");
        let model = serve_script(script).await;
        let run = run_to_end(&world, &model).await;
        assert_eq!(world.read("log"), "one\ntwo\n", "{fault:?}");
        assert_eq!(model.request(1).tool_results().len(), 2, "{fault:?}");
        assert_eq!(model.request(1).tool_result(1), "one\ntwo");
        assert_eq!(run.result()["result"], "done");
        assert!(run.stdout.contains("may be incomplete"), "{}", run.stdout);
    }
}

#[tokio::test]
async fn probe_08_a_third_call_that_was_only_begun_never_runs() {
    let world = world();
    let script = Script::new()
        .call("Bash", json!({"command": "echo one >> log"}))
        .call("Bash", json!({"command": "echo two >> log"}))
        .call("Bash", json!({"command": "echo three >> log"}))
        .wire(whole_inputs())
        .fault(Fault::Cut { at: FaultPoint::Event(1 + 3 * 2 + 2), how: CloseKind::Fin })
        .then()
        .say("done");
    let model = serve_script(script).await;
    run_to_end(&world, &model).await;
    assert_eq!(world.read("log"), "one\ntwo\n");
    assert_eq!(model.request(1).tool_results().len(), 2);
}

#[tokio::test]
async fn a_hundred_and_twenty_calls_are_answered_in_order_in_one_message() {
    let world = world();
    let mut script = Script::new();
    for number in 1..=120 {
        let name = format!("f{number}.txt");
        world.file(&name, format!("content {number}"));
        script = script.call("Read", json!({"file_path": world.path(&name)}));
    }
    let model = serve_script(script.then().say("done")).await;
    run_to_end(&world, &model).await;
    let expected: Vec<String> = (1..=120).map(|number| format!("1\tcontent {number}")).collect();
    assert_eq!(model.request(1).tool_results(), expected);
    assert_eq!(model.request(1).message_count(), model.request(0).message_count() + 2);
}

#[tokio::test]
async fn calls_that_cannot_be_understood_take_nobody_along() {
    let world = world();
    world.file("a.txt", "content");
    let (tool, input) = read_call(&world, "a.txt");
    let script = Script::new()
        .call("Reed", input.clone())
        .call_raw("Read", r#"{"file_path": "#)
        .call_raw("Read", "[1]")
        .call(tool, input)
        .then()
        .say("done");
    let model = serve_script(script).await;
    run_to_end(&world, &model).await;
    let answers = tool_answers(&model.request(1));
    assert!(answers[0].1 && answers[0].0.contains("Did you mean Read?"), "{answers:?}");
    assert!(answers[1].1 && answers[1].0.contains("INVALID_JSON"), "{answers:?}");
    assert!(answers[2].1 && answers[2].0.contains("must be a JSON object"), "{answers:?}");
    assert_eq!(answers[3], ("1\tcontent".to_owned(), false));
}

#[tokio::test]
async fn probe_29_dangling_calls_and_orphan_results_on_disk_become_a_valid_request() {
    let world = world();
    let session = "5b1c0000-0000-4000-8000-000000000029";
    let folder = world.project.to_string_lossy().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let entry = |number: u32, parent: Option<u32>, kind: &str, message: Value| {
        let uuid = |number: u32| format!("00000000-0000-4000-8000-{number:012}");
        json!({"type": kind, "uuid": uuid(number), "parentUuid": parent.map(uuid), "sessionId": session,
               "cwd": world.project, "version": "2.1.0", "timestamp": format!("2026-01-01T00:00:{number:02}.000Z"),
               "isSidechain": false, "userType": "external", "message": message})
        .to_string()
    };
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "Read", "input": {"file_path": "/a"}});
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": format!("result of {id}")});
    let assistant = |id: &str, content: Value| {
        json!({"id": id, "type": "message", "role": "assistant", "model": "claude-sonnet-5-5", "content": content,
               "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}})
    };
    let user = |content: Value| json!({"role": "user", "content": content});
    let lines = [
        entry(1, None, "user", user(json!("first prompt"))),
        entry(2, Some(1), "assistant", assistant("m1", json!([call("toolu_answered"), call("toolu_lost")]))),
        entry(3, Some(2), "user", user(json!([result("toolu_never_called"), result("toolu_answered")]))),
        entry(4, Some(3), "user", user(json!([result("toolu_answered")]))),
        entry(5, Some(4), "assistant", assistant("m2", json!([{"type": "text", "text": "half way"}]))),
        entry(6, Some(5), "user", user(json!("second prompt"))),
        entry(7, Some(6), "assistant", assistant("m3", json!([call("toolu_dangling")]))),
    ];
    let transcript = world.home.join(".claude/projects").join(folder).join(format!("{session}.jsonl"));
    std::fs::create_dir_all(transcript.parent().unwrap()).unwrap();
    std::fs::write(&transcript, lines.map(|line| line + "\n").concat()).unwrap();

    let model = serve_script(Script::new().say("done")).await;
    world.run(&model).stream("go on").args(["--resume", session]).finish().await.expect_code(0);
    assert_all_played(&model);
    let blocks = all_blocks(&model.request(0));
    let answers_to = |id: &str| blocks.iter().filter(|block| block["tool_use_id"] == id).collect::<Vec<_>>();
    assert_eq!(answers_to("toolu_answered").len(), 1);
    assert_eq!(answers_to("toolu_answered")[0]["content"], "result of toolu_answered");
    assert_eq!(answers_to("toolu_lost")[0]["is_error"], true);
    assert_eq!(answers_to("toolu_dangling")[0]["is_error"], true);
    assert!(answers_to("toolu_never_called").is_empty());
    for text in ["first prompt", "half way", "second prompt", "go on"] {
        assert!(model.request(0).body_text().contains(text), "{text} is missing");
    }
}

#[tokio::test]
async fn a_model_that_repeats_a_failing_call_is_told_to_change_its_way() {
    let world = world();
    let missing = || read_call(&world, "missing.txt");
    let model = serve_one_by_one([missing(), missing(), missing(), missing()]).await;
    run_to_end(&world, &model).await;
    assert_eq!(tool_error(&model, 1), tool_error(&model, 3));
    assert!(tool_error(&model, 4).len() > tool_error(&model, 3).len(), "{}", tool_error(&model, 4));
}

#[tokio::test]
async fn results_of_one_reply_share_one_budget_even_when_they_ran_one_after_the_other() {
    let world = world();
    // 25 results of 29,000 bytes: together far more than a quarter of the window, each less than any cap.
    let command = "touch made; head -c 29000 /dev/zero | tr '\\0' x";
    let calls = (0..25).fold(Script::new(), |script, _| script.call("Bash", json!({"command": command})));
    let model = serve_script(calls.then().say("done")).await;
    let run = world.run(&model).stream("go").args(["--model", "claude-haiku-4-5"]).finish().await;
    run.expect_code(0);
    assert_all_played(&model);
    let results = model.request(1).tool_results();
    let total: usize = results.iter().map(String::len).sum();
    assert_eq!(results.len(), 25);
    assert!(total <= 250_000, "{total} bytes");
}
