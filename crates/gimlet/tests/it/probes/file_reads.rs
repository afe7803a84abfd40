//! Reading: never more than fits, never less than asked without saying so, never a file that is none.

use gimlet_script::Script;
use serde_json::json;

use super::*;
use crate::world;

#[tokio::test]
async fn probe_16_a_file_over_the_budget_comes_as_a_page_with_the_way_on() {
    let world = world();
    let lines: Vec<String> = (1..=1_000).map(|number| format!("line number {number}")).collect();
    world.file("big.txt", lines.join("\n"));
    let path = world.path("big.txt");
    let model = serve_in_one_reply([
        ("Read", json!({"file_path": path})),
        ("Edit", json!({"file_path": path, "old_string": "line number 999\n", "new_string": ""})),
        ("Read", json!({"file_path": path, "offset": 1, "limit": 1000})),
        ("Read", json!({"file_path": path, "offset": 990, "limit": 5})),
    ])
    .await;
    let run = world.run(&model).stream("go").env("CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS", "1000").finish().await;
    run.expect_code(0);
    assert_all_played(&model);
    let answers = tool_answers(&model.request(1));
    let [whole, edit, range, small] = answers.as_slice() else { panic!("{answers:?}") };
    assert!(whole.0.starts_with("1\tline number 1\n") && whole.0.contains("[PARTIAL view: lines=1-"), "{whole:?}");
    assert!(whole.0.contains("total=1000") && whole.0.contains("next_offset="), "{whole:?}");
    assert!(whole.0.len() < 8_000, "{}", whole.0.len());
    assert!(range.1 && range.0.contains("smaller `limit`"), "{range:?}");
    assert!(!small.1 && small.0.starts_with("990\tline number 990\n"), "{small:?}");
    assert!(edit.1, "a first page is not enough to edit by: {edit:?}");
    let entries = world.transcript_entries();
    let output = entries.iter().find(|entry| entry["toolUseResult"]["type"] == "parts").unwrap();
    let folder = output["toolUseResult"]["file"]["outputDir"].as_str().unwrap();
    let count = output["toolUseResult"]["file"]["count"].as_u64().unwrap();
    assert_eq!(std::fs::read_dir(folder).unwrap().count() as u64, count);
}

#[tokio::test]
async fn probe_16_empty_and_past_the_end_are_notices() {
    let world = world();
    world.file("empty.txt", "");
    world.file("short.txt", "one\ntwo\n");
    let past = ("Read", json!({"file_path": world.path("short.txt"), "offset": 10}));
    let model = serve_in_one_reply([read_call(&world, "empty.txt"), past]).await;
    run_to_end(&world, &model).await;
    let answers = tool_answers(&model.request(1));
    assert!(!answers[0].1 && answers[0].0.contains("is empty"), "{answers:?}");
    assert!(!answers[1].1 && answers[1].0.contains("has 2 lines"), "{answers:?}");
}

#[tokio::test]
async fn probe_16_an_unchanged_file_is_a_stub_and_a_changed_one_is_not_whatever_its_clock_says() {
    let world = world();
    let path = world.file("a.txt", "first\n");
    make_old(&path);
    let rewrite = "stamp=$(stat -c %y a.txt); printf 'other\\n' > a.txt; touch -d \"$stamp\" a.txt; stat -c %y a.txt";
    let model = serve_one_by_one([
        read_call(&world, "a.txt"),
        read_call(&world, "a.txt"),
        ("Read", json!({"file_path": world.path("a.txt"), "limit": 1})),
        bash_call(rewrite),
        read_call(&world, "a.txt"),
    ])
    .await;
    run_to_end(&world, &model).await;
    assert_eq!(tool_success(&model, 1), "1\tfirst");
    assert!(tool_success(&model, 2).contains("unchanged"), "{}", tool_success(&model, 2));
    assert_eq!(tool_success(&model, 3), "1\tfirst");
    assert_eq!(tool_success(&model, 5), "1\tother");
}

#[tokio::test]
async fn probe_16_after_a_resume_a_file_is_read_again() {
    let world = world();
    make_old(&world.file("a.txt", "content\n"));
    let (tool, input) = read_call(&world, "a.txt");
    let twice = Script::new().call(tool, input.clone()).then().say("one").then().call(tool, input).then().say("two");
    let model = serve_script(twice).await;
    world.run(&model).stream("go").finish().await.expect_code(0);
    world.run(&model).stream("again").arg("--continue").finish().await.expect_code(0);
    assert_all_played(&model);
    assert_eq!(tool_success(&model, 3), "1\tcontent");
}

#[tokio::test]
async fn probe_17_what_is_not_a_file_is_refused_without_waiting() {
    let world = world();
    let pipe = world.project.join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    std::os::unix::fs::symlink("/dev/zero", world.project.join("zero")).unwrap();
    std::os::unix::fs::symlink("pipe", world.project.join("to-pipe")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(world.project.join("socket")).unwrap();
    let paths = [
        world.path("pipe"),
        world.path("to-pipe"),
        world.path("zero"),
        world.path("socket"),
        "/dev/zero".to_owned(),
        "/dev/stdin".to_owned(),
        "/proc/self/fd/0".to_owned(),
        "/proc/self/mem".to_owned(),
        world.project.to_string_lossy().into_owned(),
    ];
    let calls = paths.clone().map(|path| ("Read", json!({"file_path": path})));
    let model = serve_in_one_reply(calls).await;
    let begun = Instant::now();
    run_to_end(&world, &model).await;
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    for (path, (text, refused)) in paths.iter().zip(tool_answers(&model.request(1))) {
        assert!(refused && !text.is_empty(), "{path}: {text}");
    }
}

#[tokio::test]
async fn probe_16_a_read_that_was_only_previewed_does_not_count_as_seen() {
    let world = world();
    // Together these take more than a quarter of a window of 200,000 tokens, so the largest goes to a file.
    for (name, lines) in [("a.txt", 1_500), ("b.txt", 1_500), ("c.txt", 1_550)] {
        make_old(&world.file(name, "a line of some fifty bytes, give or take a few..\n".repeat(lines)));
    }
    let all = ["a.txt", "b.txt", "c.txt"].map(|name| read_call(&world, name));
    let (edit, input) = ("Edit", json!({"file_path": world.path("c.txt"), "old_string": "x", "new_string": "y"}));
    let script = all.into_iter().fold(Script::new(), |script, (tool, input)| script.call(tool, input));
    let (tool, again) = read_call(&world, "c.txt");
    let model = serve_script(script.then().call(edit, input).then().call(tool, again).then().say("done")).await;
    let run = world.run(&model).stream("go").args(["--model", "claude-haiku-4-5"]).finish().await;
    run.expect_code(0);
    assert_all_played(&model);
    let first = model.request(1).tool_results();
    assert!(first[2].starts_with("<persisted-output>") && first[0].starts_with("1\ta line"), "{}", first[2]);
    assert!(tool_error(&model, 2).contains("read"), "{}", tool_error(&model, 2));
    assert!(tool_success(&model, 3).starts_with("1\ta line"), "{}", tool_success(&model, 3));
}

#[tokio::test]
async fn equal_reads_of_one_reply_all_get_the_text() {
    for concurrency in ["1", "10"] {
        let world = world();
        make_old(&world.file("a.txt", "alpha\n"));
        let calls: [(&str, Value); 14] = std::array::from_fn(|_| read_call(&world, "a.txt"));
        let model = serve_in_one_reply(calls).await;
        let run = world.run(&model).env("CLAUDE_CODE_MAX_TOOL_USE_CONCURRENCY", concurrency);
        run.stream("go").finish().await.expect_code(0);
        let answers = tool_answers(&model.request(1));
        assert_eq!(answers.len(), 14);
        assert!(answers.iter().all(|(text, _)| text.contains("1\talpha")), "{answers:?}");
    }
}
