//! Bad input and bad surroundings: one line that says what to do, the right exit code, and no answer lost.

use gimlet_script::Script;
use gimlet_testkit::RunOutput;
use serde_json::{Value, json};

use crate::invalid_settings::{set_mode, unprivileged_world};
use crate::world;

/// Exit 1, nothing on stdout, one line on stderr with these words in it.
#[track_caller]
fn assert_one_line(run: &RunOutput, words: &[&str]) {
    run.expect_code(1);
    assert_eq!((run.stdout.as_str(), run.stderr.lines().count()), ("", 1), "{}", run.stderr);
    assert!(run.stderr.starts_with("gimlet: "), "{}", run.stderr);
    for word in words {
        assert!(run.stderr.contains(word), "{word:?} is missing: {}", run.stderr);
    }
    assert_readable(&run.stderr);
}

#[track_caller]
fn assert_readable(text: &str) {
    for noise in ["panicked", "backtrace", "unwrap", "Os {", "Error("] {
        assert!(!text.contains(noise), "{text}");
    }
}

#[tokio::test]
async fn a_slip_in_the_name_of_a_command_names_the_command() {
    let world = world();
    for (args, words) in [
        (&["sesions", "ls"][..], ["no command 'sesions'", "'gimlet sessions'"]),
        (&["sesions", "ls", "--json"], ["no command 'sesions'", "'gimlet sessions'"]),
        (&["doctr", "--json"], ["no command 'doctr'", "'gimlet doctor'"]),
        (&["doctr"], ["no command 'doctr'", "'gimlet doctor'"]),
        (&["sessions", "lss"], ["'lss'", "'ls'"]),
        (&["doctor", "--jsn"], ["--jsn", "--json"]),
        // What is nearly no command is a prompt.
        (&["explain", "this"], ["one argument", "'this'"]),
        (&["doctr", "--bogus"], ["--bogus", "gimlet --help"]),
        (&["-p", "sesions", "ls"], ["one argument", "'ls'"]),
    ] {
        let run = world.run_at("http://127.0.0.1:9").args(args.iter().copied()).finish().await;
        assert_one_line(&run, &words);
    }
    let model = Script::new().say("ok").serve().await.unwrap();
    let run = world.run(&model).args(["-p", "doctr"]).finish().await;
    run.expect_code(0);
}

#[tokio::test]
async fn missing_and_foreign_credentials_name_the_ways_on() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let run = world.run(&model).print_text("go").without_env("ANTHROPIC_API_KEY").finish().await;
    assert_one_line(&run, &["no credentials", "ANTHROPIC_API_KEY", "gimlet demo"]);
    for (args, meant) in
        [(&["--resume"][..], "gimlet -p \"what to do\" --resume "), (&["-c"], "\"what to do\" --continue ")]
    {
        let run = world.run(&model).args(args.iter().copied()).finish().await;
        assert_one_line(&run, &["needs a terminal", meant]);
    }
    let run = world.run(&model).print_text("go").without_env("ANTHROPIC_API_KEY").env("CLAUDE_CODE_OAUTH_TOKEN", "t");
    assert_one_line(&run.finish().await, &["CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_API_KEY"]);
    let run = world.run_at("ftp://somewhere").print_text("go").finish().await;
    assert_one_line(&run, &["ANTHROPIC_BASE_URL"]);
}

#[tokio::test]
async fn programs_that_read_a_machine_format_get_a_result_whatever_is_missing() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let formats: [&[&str]; 3] = [
        &["--output-format", "json"],
        &["--output-format", "json", "--verbose"],
        &["--output-format", "stream-json", "--verbose"],
    ];
    let last = |run: &RunOutput| {
        let line = run.stdout.lines().last().unwrap_or_default();
        let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {}", run.stdout));
        value.as_array().and_then(|all| all.last()).cloned().unwrap_or(value)
    };
    for format in formats {
        let run = world.run(&model).args(["-p", "go"]).args(format.iter().copied()).without_env("ANTHROPIC_API_KEY");
        let run = run.finish().await;
        run.expect_code(1);
        let result = last(&run);
        assert_eq!(
            (&result["type"], &result["subtype"], &result["is_error"]),
            (&json!("result"), &json!("success"), &json!(true)),
            "{format:?}"
        );
        assert_eq!(result["result"], "Not logged in · Please run /login", "{format:?}");
        assert!(run.stderr.contains("no credentials were found. Set ANTHROPIC_API_KEY"), "{}", run.stderr);
        assert!(run.stderr.contains("to any word where the server at ANTHROPIC_BASE_URL"), "{}", run.stderr);
        let run = world.run(&model).args(["-p", "go", "--resume", "nothing of that name"]).args(format.iter().copied());
        let run = run.finish().await;
        run.expect_code(1);
        let result = last(&run);
        assert_eq!((&result["type"], &result["subtype"]), (&json!("result"), &json!("error_during_execution")));
        assert!(result["errors"][0].as_str().unwrap().contains("nothing of that name"), "{result}");
    }
    assert!(model.requests().is_empty());
}

#[tokio::test]
async fn wrong_flags_are_told_before_anything_happens() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let table: [(&[&str], &[&str]); 13] = [
        (&["-p", "--colour", "go"], &["unexpected argument '--colour'", "gimlet --help"]),
        (&["-p", "--modle", "x", "go"], &["'--modle'", "'--model'"]),
        (&["-p", "--output-format", "xml", "go"], &["'xml'", "stream-json"]),
        (&["-p", "--max-turns", "-1", "go"], &["--max-turns", "-1"]),
        (&["-p", "--session-mirror", "go"], &["--session-mirror is only available", "gimlet --help"]),
        (&["-p", "--input-format", "stream-json"], &["--output-format stream-json"]),
        (&["-p", "--chrome", "go"], &["--chrome"]),
        (&["auth", "status"], &["'auth' is not available"]),
        (&["-p", "--tools", "Reed", "--", "go"], &["no tool named 'Reed'", "Read"]),
        (&["-p", "--add-dir", "/nowhere", "--", "go"], &["/nowhere", "no such folder"]),
        (&["-p", "--system-prompt-file", "/nowhere", "go"], &["/nowhere", "cannot be read"]),
        (&["-p", "--allowedTools", "Read(", "--", "go"], &["--allowedTools"]),
        (&["-p", "--debug-file", "/proc/nowhere/log", "go"], &["/proc/nowhere/log", "cannot be written"]),
    ];
    for (args, words) in table {
        let run = world.run(&model).args(args.iter().copied()).finish().await;
        assert_one_line(&run, words);
    }
    assert!(model.requests().is_empty() && world.transcripts().is_empty());
}

#[tokio::test]
async fn a_folder_that_is_gone_is_told() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let gone = world.with_shell_prelude("mkdir gone; cd gone; rmdir ../gone");
    let run = gone.run(&model).print_text("go").finish().await;
    assert_one_line(&run, &["the current directory cannot be used", "Change to a folder"]);
}

#[tokio::test]
async fn a_folder_that_may_not_be_entered_is_told() {
    let (world, _outer) = unprivileged_world();
    let model = Script::new().serve().await.unwrap();
    // Whoever starts gimlet is in there already.
    let inside = world.with_shell_prelude("mkdir -p shut/in; cd shut/in; chmod 000 ../../shut");
    let run = inside.run(&model).print_text("go").finish().await;
    set_mode(&inside.project.join("shut"), 0o755);
    assert_one_line(&run, &["the current directory cannot be used", "Permission denied", "Change to a folder"]);
    assert!(model.requests().is_empty());
}

#[tokio::test]
async fn without_a_home_the_way_on_is_named() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let run = world.run(&model).print_text("go").without_env("HOME").finish().await;
    assert_one_line(&run, &["HOME is not set", "GIMLET_CONFIG_DIR"]);
}

#[tokio::test]
async fn a_home_that_cannot_be_written_costs_the_record_not_the_answer() {
    let world = world();
    let blocked = world.file("not-a-folder", "");
    let model = Script::new().say("the answer").forever().serve().await.unwrap();
    let run = world.run(&model).print_text("go").env("HOME", blocked.to_string_lossy()).finish().await;
    run.expect_code(1);
    assert_eq!((run.stdout.as_str(), run.stderr.lines().count()), ("the answer\n", 1), "{}", run.stderr);
    assert!(run.stderr.starts_with("gimlet: this session cannot be saved: "), "{}", run.stderr);
    assert!(run.stderr.contains("not-a-folder") && run.stderr.contains("GIMLET_CONFIG_DIR"), "{}", run.stderr);
    assert_readable(&run.stderr);
    let run = world.run(&model).stream("go").env("HOME", blocked.to_string_lossy()).finish().await;
    run.expect_code(1);
    assert_eq!((&run.result()["is_error"], &run.result()["result"]), (&json!(false), &json!("the answer")));
    let told = run.lines().iter().filter(|line| line["subtype"] == "informational").count();
    assert_eq!(told, 1);
    let run = world.run(&model).print_text("go").env("HOME", blocked.to_string_lossy()).arg("--no-session-persistence");
    let run = run.finish().await;
    run.expect_code(0);
    assert_eq!(run.stderr, "");
}

#[tokio::test]
async fn a_full_disk_costs_the_record_not_the_answer_and_not_the_session() {
    let outer = world();
    // The signal for a file beyond its limit is ignored, so that the write fails as on a full disk.
    let world = outer.with_shell_prelude("trap '' XFSZ; ulimit -f ${KIB:-unlimited}");
    world.file("a.txt", "alpha\n".repeat(400));
    let script = || {
        let read = json!({"file_path": world.path("a.txt")});
        Script::new().say("Looking.").call("Read", read).then().say("the answer")
    };
    let model = script().serve().await.unwrap();
    let run = world.run(&model).print_text("go").env("KIB", "12").finish().await;
    run.expect_code(1);
    assert_eq!((run.stdout.as_str(), run.stderr.lines().count()), ("the answer\n", 1), "{}", run.stderr);
    assert!(run.stderr.contains("cannot be saved") && run.stderr.contains("Free some space"), "{}", run.stderr);
    assert_readable(&run.stderr);
    // What was written before is whole, and the session goes on from there.
    let next = Script::new().say("ok").serve().await.unwrap();
    let run = world.run(&next).args(["-p", "--continue", "and now?"]).finish().await;
    run.expect_code(0);
    assert!(next.rejections().is_empty(), "{:?}", next.rejections());
    assert!(next.request(0).last_user_text().ends_with("and now?"));
}

#[tokio::test]
async fn a_full_disk_is_told_once_and_as_soon_as_it_is_known() {
    let outer = world();
    let world = outer.with_shell_prelude("trap '' XFSZ; ulimit -f 32");
    world.file("a.txt", "alpha\n".repeat(4000));
    let read = json!({"file_path": world.path("a.txt")});
    let script = Script::new().call("Read", read).then().call("Bash", json!({"command": "echo one"}));
    let model = script.then().call("Bash", json!({"command": "echo two"})).then().say("done").serve().await.unwrap();
    let run = world.run(&model).stream("go").args(["--allowedTools", "Bash"]).finish().await;
    run.expect_code(1);
    let told = |line: &Value| line["subtype"] == "informational";
    let at: Vec<usize> = (0..run.lines().len()).filter(|at| told(&run.lines()[*at])).collect();
    let calls = |upto: usize| run.lines()[..upto].iter().filter(|line| line["type"] == "assistant").count();
    // The first reply and its result do not fit; the second reply comes after the warning.
    assert_eq!((at.len(), calls(at[0])), (1, 1), "{}", run.stdout);
    assert!(run.lines()[at[0]]["content"].as_str().unwrap().contains("cannot be saved"), "{}", run.stdout);
}

#[tokio::test]
async fn an_answer_that_cannot_be_written_is_told() {
    let outer = world();
    let world = outer.with_shell_prelude("exec >/dev/full");
    let model = Script::new().say("the answer").serve().await.unwrap();
    let run = world.run(&model).print_text("go").finish().await;
    assert_one_line(&run, &["the answer could not be written", "No space left"]);
}

#[tokio::test]
async fn a_broken_transcript_is_repaired_and_that_is_said_once() {
    let world = world();
    world.file("a.txt", "alpha\n");
    let read = json!({"file_path": world.path("a.txt")});
    let model = Script::new().say("Looking.").call("Read", read).then().say("the answer").serve().await.unwrap();
    world.run(&model).stream("go").finish().await.expect_code(0);
    let path = world.transcripts()[0].clone();
    let whole = std::fs::read(&path).unwrap();
    let ends: Vec<usize> = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    let mut zeroed = whole.clone();
    zeroed[ends[2]..ends[3]].fill(0);
    let mut garbled = whole.clone();
    garbled.splice(ends[4]..ends[4], b"{\"type\":\"assistant\",\"uuid\n".iter().copied());
    let broken = [
        ("torn at the end", whole[..whole.len() - 20].to_vec()),
        ("torn in the middle", whole[..whole.len() / 2].to_vec()),
        ("a line of zeros", zeroed),
        ("half a line", garbled),
        ("nothing but noise", b"\xff\xfe\x00 not a transcript\n".repeat(50)),
        ("empty", Vec::new()),
    ];
    for (name, bytes) in broken {
        std::fs::write(&path, bytes).unwrap();
        let model = Script::new().say("ok").serve().await.unwrap();
        let run = world.run(&model).args(["-p", "--resume"]).arg(path.to_string_lossy()).arg("and now?").finish().await;
        assert!(run.stderr.lines().count() <= 1, "{name}: {}", run.stderr);
        assert_readable(&run.stderr);
        assert_eq!((run.code, run.stdout.as_str()), (0, "ok\n"), "{name}: {}", run.stderr);
        assert!(model.rejections().is_empty(), "{name}: {:?}", model.rejections());
        assert!(model.request(0).last_user_text().ends_with("and now?"), "{name}");
    }
}

#[tokio::test]
async fn a_variable_turns_the_debug_log_on() {
    let world = world();
    let model = Script::new().say("hello").serve().await.unwrap();
    world.run(&model).env("DEBUG", "1").env("CLAUDE_CODE_SIMPLE", "0").print_text("hi").finish().await.expect_code(0);
    assert_eq!(world.home.join(".claude/debug").read_dir().unwrap().count(), 1);
}
