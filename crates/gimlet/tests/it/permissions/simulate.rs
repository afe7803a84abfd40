//! `gimlet permissions simulate`: other rules over the calls of sessions that were really run, or that other programs wrote.
#![allow(clippy::unwrap_used, reason = "in a test a broken world is a failed test")]

use gimlet_script::Script;
use gimlet_testkit::{RunOutput, TestWorld};
use serde_json::{Value, json};

use super::NOWHERE;
use crate::world;

const OLD: &str = "11111111-1111-4111-8111-111111111111";

async fn simulate(world: &TestWorld, args: &[&str]) -> RunOutput {
    let run = world.run_at(NOWHERE).args(["permissions", "simulate"]).args(args.iter().copied());
    run.without_env("ANTHROPIC_API_KEY").finish().await
}

/// Runs a session with these commands; what nobody allows is refused.
async fn record_session(world: &TestWorld, flags: &[&str], commands: &[&str]) {
    let calls = commands.iter().map(|command| ("Bash", json!({ "command": command })));
    let script = calls.fold(Script::new(), |script, (tool, input)| script.call(tool, input).then());
    let model = script.say("done").serve().await.unwrap();
    world.run(&model).arg("-p").args(flags.iter().copied()).args(["--", "go"]).finish().await.expect_code(0);
}

fn write_user_settings(world: &TestWorld, settings: &str) -> String {
    let file = world.home.join(".claude/settings.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, settings).unwrap();
    file.display().to_string()
}

/// A transcript that another program could have written: no ledger lies beside it.
fn transcript(world: &TestWorld, id: &str, mode: &str, calls: &[(&str, &str, Value)]) -> std::path::PathBuf {
    let project = world.project.display().to_string();
    let key: String = project.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let file = world.home.join(".claude/projects").join(key).join(format!("{id}.jsonl"));
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let first = json!({"type": "user", "uuid": "u", "cwd": project, "sessionId": id, "permissionMode": mode,
        "message": {"role": "user", "content": "go"}});
    let lines = calls.iter().enumerate().map(|(at, (cwd, tool, input))| {
        let block = json!({"type": "tool_use", "id": format!("toolu_{at}"), "name": tool, "input": input});
        json!({"type": "assistant", "uuid": format!("{id}-{at}"), "cwd": world.path(cwd), "sessionId": id,
            "message": {"role": "assistant", "content": [block]}})
        .to_string()
    });
    let lines: Vec<String> = std::iter::once(first.to_string()).chain(lines).collect();
    std::fs::write(&file, lines.join("\n") + "\n").unwrap();
    file
}

/// What differs, in few words: outcome, count, tool and what it was about.
fn differences(run: &RunOutput) -> Vec<String> {
    let lines = run.lines().into_iter().filter(|line| line["type"] == "difference");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    lines
        .map(|line| {
            format!("{} {} {} {}", text(&line["would_now"]), line["count"], text(&line["tool"]), text(&line["about"]))
        })
        .collect()
}

fn total(run: &RunOutput) -> Value {
    run.lines().pop().unwrap()
}

#[tokio::test]
async fn only_what_comes_out_differently_is_shown_with_rule_file_and_line_and_nothing_runs() {
    let world = world();
    let settings = write_user_settings(&world, r#"{"permissions":{"allow":["Bash(touch *)"]}}"#);
    record_session(&world, &[], &["touch a", "touch a", "mkdir b", "ls", "pwd", "rm c"]).await;
    std::fs::remove_file(world.project.join("a")).unwrap();
    let rules = world.file(
        "strict.json",
        "{\"permissions\":{\n\"deny\":[\"Bash(touch *)\"],\n\"ask\":[\"Bash(ls *)\"],\n\"allow\":[\"Bash(mkdir *)\"]}}",
    );
    let run = simulate(&world, &["--rules", "strict.json"]).await;
    let rules = rules.display();
    let expected = format!(
        "1 session, 6 calls: 4 would be decided differently

would now be refused: 2 calls
    2x  Bash  touch a
        then:  allowed: the allow rule `Bash(touch *)` from the user settings ({settings}:1)
        new:   refused: the deny rule `Bash(touch *)` from --rules ({rules}:2)

would now ask: 1 call
    1x  Bash  ls
        then:  allowed: it only reads, inside the working directories
        new:   asks: the ask rule `Bash(ls *)` from --rules ({rules}:3)

would now be allowed: 1 call
    1x  Bash  mkdir b
        then:  refused: nobody could be asked: no rule allows it
        new:   allowed: the allow rule `Bash(mkdir *)` from --rules ({rules}:4)

stays: 1 allowed, 1 asked, 0 refused
"
    );
    assert_eq!(run.expect_code(0).stdout, expected);
    assert!(run.stderr.contains("is never reached"), "{}", run.stderr);
    assert!(!world.project.join("a").exists() && !world.project.join("b").exists());
    // The same files give the same page.
    assert_eq!(simulate(&world, &["--rules", "strict.json"]).await.stdout, expected);
}

#[tokio::test]
async fn credentials_in_calls_are_masked() {
    let world = world();
    let long = format!("curl {} -H 'Authorization: Bearer abcdef123456789'", "x".repeat(60));
    let call = |command: &str| (".", "Bash", json!({ "command": command }));
    transcript(&world, OLD, "default", &[call("curl https://u:hunter2pass@h/"), call(&long)]);
    world.file("r.json", r#"{"permissions":{"allow":["Bash(curl *)"]}}"#);
    for form in [&[][..], &["--json"]] {
        let run = simulate(&world, &[&["--rules", "r.json"], form].concat()).await;
        run.expect_code(0);
        assert!(run.stdout.contains("https://u:***@h/") && run.stdout.contains("curl xxx"), "{}", run.stdout);
        assert!(!run.stdout.contains("hunter2pass") && !run.stdout.contains("abcdef"), "{}", run.stdout);
    }
}

#[tokio::test]
async fn without_further_rules_the_settings_of_today_are_tried() {
    let world = world();
    write_user_settings(&world, r#"{"permissions":{"allow":["Bash(touch *)"]}}"#);
    record_session(&world, &[], &["touch a", "mkdir b"]).await;
    assert_eq!(total(&simulate(&world, &["--json"]).await)["different"], 0);
    write_user_settings(&world, r#"{"permissions":{"allow":["Bash(mkdir *)"]}}"#);
    let run = simulate(&world, &["--json"]).await;
    assert_eq!(differences(&run), ["ask 1 Bash touch a", "allowed 1 Bash mkdir b"]);
    let total = total(&run);
    assert_eq!((&total["calls"], &total["from_ledger"]), (&json!(2), &json!(2)));
    // Compared with the settings of now, only the rules to try make a difference.
    world.file("more.json", r#"{"permissions":{"allow":["Bash(touch a)"]}}"#);
    let run = simulate(&world, &["--json", "--against", "now", "--rules", "more.json"]).await;
    assert_eq!(differences(&run), ["allowed 1 Bash touch a"]);
}

#[tokio::test]
async fn what_only_that_session_had_still_counts_unless_only_other_rules_are_wanted() {
    let world = world();
    let beside = world.home.join("beside");
    std::fs::create_dir(&beside).unwrap();
    std::fs::create_dir(world.project.join("sub")).unwrap();
    let flags = ["--allowedTools", "Bash(touch *)", "Bash(cd *)", "--add-dir", beside.to_str().unwrap()];
    let list = format!("ls {}", beside.display());
    record_session(&world, &flags, &["touch a", &list, "cd sub", "touch ../up"]).await;
    let run = simulate(&world, &["--json"]).await;
    assert_eq!(differences(&run), Vec::<String>::new(), "{}", run.stdout);
    world.file("only.json", r#"{"permissions":{"deny":["Bash(cd *)"]}}"#);
    let run = simulate(&world, &["--json", "--only-rules", "only.json"]).await;
    assert_eq!(differences(&run), ["refused 1 Bash cd sub", "ask 1 Bash touch ../up", "ask 1 Bash touch a"]);
}

#[tokio::test]
async fn each_call_is_judged_in_its_own_mode_and_another_can_be_tried() {
    let world = world();
    record_session(&world, &["--dangerously-skip-permissions"], &["touch a", "ls"]).await;
    assert_eq!(total(&simulate(&world, &["--json"]).await)["same"]["allow"], 2);
    let run = simulate(&world, &["--json", "--mode", "dontAsk"]).await;
    assert_eq!(differences(&run), ["refused 1 Bash touch a"]);
}

#[tokio::test]
async fn transcripts_without_a_ledger_are_compared_with_the_rules_in_force_in_the_folder_of_each_call() {
    let world = world();
    world.file("sub/x.rs", "");
    write_user_settings(&world, r#"{"permissions":{"allow":["WebFetch","mcp__git","Agent","Edit(//**/sub/**)"]}}"#);
    let calls = [
        ("sub", "Bash", json!({"command": "cat x.rs"})),
        ("sub", "Write", json!({"file_path": world.path("sub/y.rs"), "content": "x"})),
        ("", "WebFetch", json!({"url": "https://evil.example/x", "prompt": "?"})),
        ("", "WebFetch", json!({"url": "https://good.example/x", "prompt": "?"})),
        ("", "mcp__git__push", json!({"remote": "origin"})),
        ("", "Task", json!({"description": "look", "subagent_type": "Explore", "prompt": "?"})),
        ("", "NotebookEdit", json!({"notebook_path": world.path("sub/n.ipynb"), "cell_id": "a", "new_source": ""})),
        ("", "Read", json!({"no_such": 1})),
        (
            "",
            "AskUserQuestion",
            json!({"questions": [{"question": "?", "header": "h", "options": [{"label": "a"}, {"label": "b"}]}]}),
        ),
    ];
    transcript(&world, OLD, "default", &calls);
    world.file(
        "rules.json",
        r#"{"permissions":{"deny":["WebFetch(domain:evil.example)","Task(Explore)","Edit(/sub/**)"],"ask":["mcp__git__push","Read(sub/x.rs)"]}}"#,
    );
    let run = simulate(&world, &["--json", "--rules", "rules.json"]).await;
    run.expect_code(0);
    let about = |name: &str| world.path(name);
    assert_eq!(
        differences(&run),
        [
            "refused 1 Agent look".to_owned(),
            format!("refused 1 NotebookEdit {}", about("sub/n.ipynb")),
            "refused 1 WebFetch https://evil.example/x".to_owned(),
            format!("refused 1 Write {}", about("sub/y.rs")),
            "ask 1 Bash cat x.rs".to_owned(),
            r#"ask 1 mcp__git__push {"remote":"origin"}"#.to_owned(),
        ]
    );
    let total = total(&run);
    let page = simulate(&world, &["--rules", "rules.json"]).await;
    assert!(page.stdout.contains("\n        today: allowed: ") && !page.stdout.contains("then:"), "{}", page.stdout);
    assert_eq!((&total["bad_input"], &total["from_ledger"], &total["same"]["ask"]), (&json!(1), &json!(0), &json!(1)));
    assert_eq!(run.lines()[0]["now"]["reasons"][0]["source"]["file"], world.path("rules.json"));
}

#[tokio::test]
async fn sessions_are_chosen_by_name_folder_and_age_and_what_cannot_be_read_is_named() {
    let world = world();
    let call = |command: &str| [("", "Bash", json!({ "command": command }))];
    let old = transcript(&world, OLD, "default", &call("make old"));
    let young = "22222222-2222-4222-8222-222222222222";
    transcript(&world, young, "default", &call("make young"));
    let elsewhere = "33333333-3333-4333-8333-333333333333";
    let folder = world.home.join(".claude/projects/-elsewhere");
    std::fs::create_dir(&folder).unwrap();
    let text = std::fs::read_to_string(&old).unwrap().replace(&world.path(""), "/elsewhere/").replace(OLD, elsewhere);
    std::fs::write(folder.join(format!("{elsewhere}.jsonl")), text.replace("make old", "make elsewhere")).unwrap();
    // It leads nowhere.
    let gone = old.with_file_name("44444444-4444-4444-8444-444444444444.jsonl");
    std::os::unix::fs::symlink("/nowhere/at/all", &gone).unwrap();
    let file = std::fs::File::options().write(true).open(&old).unwrap();
    file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(10 * 24 * 60 * 60)).unwrap();
    // A line that was cut off costs only itself.
    std::fs::write(&old, std::fs::read_to_string(&old).unwrap() + "{\"type\":\"assis").unwrap();
    file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(10 * 24 * 60 * 60)).unwrap();
    world.file("rules.json", r#"{"permissions":{"allow":["Bash(make *)"]}}"#);
    let of = async |args: &[&str]| {
        let run = simulate(&world, &[&["--rules", "rules.json", "--json"], args].concat()).await;
        run.expect_code(0);
        let found: Vec<String> =
            differences(&run).iter().map(|line| line.replace("allowed 1 Bash make ", "")).collect();
        (found.join(" "), total(&run)["damaged_lines"].clone(), total(&run)["skipped"].clone())
    };
    assert_eq!(of(&[]).await, ("old young".to_owned(), json!(1), json!(1)));
    assert_eq!(of(&["--days", "3"]).await, ("young".to_owned(), json!(0), json!(1)));
    assert_eq!(of(&["--all"]).await, ("elsewhere old young".to_owned(), json!(1), json!(1)));
    assert_eq!(of(&[elsewhere]).await, ("elsewhere".to_owned(), json!(0), json!(0)));
    assert_eq!(of(&[young, old.to_str().unwrap(), young]).await, ("old young".to_owned(), json!(1), json!(0)));
    let page = simulate(&world, &[]).await;
    assert!(page.stdout.contains(&format!("skipped: {} cannot be read", gone.display())), "{}", page.stdout);
    assert!(
        page.stdout.contains("left out: 1 line of ") && page.stdout.contains(".jsonl that cannot be read"),
        "{}",
        page.stdout
    );
}

#[tokio::test]
async fn a_fork_does_not_count_its_calls_twice_and_a_call_that_is_gone_is_told() {
    let world = world();
    record_session(&world, &[], &["touch a"]).await;
    let model = Script::new().say("done").serve().await.unwrap();
    world.run(&model).args(["-p", "--continue", "--fork-session", "--", "on"]).finish().await.expect_code(0);
    let total_of = async || total(&simulate(&world, &["--json"]).await);
    assert_eq!((total_of().await["sessions"].clone(), total_of().await["calls"].clone()), (json!(2), json!(1)));
    for file in world.transcripts() {
        let text = std::fs::read_to_string(&file).unwrap();
        let kept: Vec<&str> = text.lines().filter(|line| !line.contains("tool_use")).collect();
        std::fs::write(&file, kept.join("\n") + "\n").unwrap();
    }
    assert_eq!(total_of().await["not_in_transcript"], 1);
}

#[tokio::test]
async fn questions_that_make_no_sense_end_in_one_line() {
    let world = world();
    world.file("broken.json", "{\"permissions\":");
    let cases: &[(&[&str], &str)] = &[
        (&["--rules", "missing.json"], "missing.json"),
        (&["--rules", "broken.json"], "broken.json"),
        (&["--only-rules", "broken.json"], "broken.json"),
        (&["--against", "now"], "nothing to compare"),
        (&["--mode", "wild"], "not a permission mode"),
        (&[OLD], OLD),
        (&["no such title"], "no such title"),
        (&["--days", "few"], "--days"),
        (&[OLD, "--all"], "--all"),
        (&["--rules", "a", "--only-rules", "b"], "--only-rules"),
    ];
    for (args, said) in cases {
        let run = simulate(&world, args).await;
        run.expect_code(1);
        assert!(run.stderr.contains(said) && run.stdout.is_empty(), "{args:?}: {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{args:?}: {}", run.stderr);
    }
    let nothing = simulate(&world, &[]).await;
    assert!(nothing.expect_code(0).stdout.starts_with("no session was found"), "{}", nothing.stdout);
}

#[tokio::test]
async fn what_a_sandbox_answered_then_it_answers_again() {
    let world = world();
    record_session(&world, &[], &["make it", "touch out"]).await;
    let ledger = world.transcripts()[0].with_extension("").join("decisions.ndjson");
    let lines: Vec<String> = std::fs::read_to_string(&ledger)
        .unwrap()
        .lines()
        .zip([
            r#"{"decision":"allow","reasons":[{"kind":"sandboxed"}]}"#,
            r#"{"decision":"ask","reasons":[{"kind":"leavesSandbox"}]}"#,
        ])
        .map(|(line, verdict)| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            line["verdict"] = serde_json::from_str(verdict).unwrap();
            line.to_string()
        })
        .collect();
    std::fs::write(&ledger, lines.join("\n") + "\n").unwrap();
    let run = simulate(&world, &["--json"]).await;
    assert_eq!(differences(&run), Vec::<String>::new(), "{}", run.stdout);
    world.file("rules.json", r#"{"permissions":{"deny":["Bash(make *)"],"allow":["Bash(touch *)"]}}"#);
    let run = simulate(&world, &["--json", "--rules", "rules.json"]).await;
    assert_eq!(differences(&run), ["refused 1 Bash make it"], "a rule about the command does not let it out");
}

#[tokio::test]
async fn a_call_that_forks_share_is_taken_from_the_session_that_decided_on_it() {
    let world = world();
    record_session(&world, &["--allowedTools", "Bash(make *)", "--name", "orig"], &["make x"]).await;
    for flags in [&["--resume", "orig", "--fork-session"][..], &["--resume", "orig"]] {
        record_session(&world, flags, &[]).await;
    }
    world.file("strict.json", r#"{"permissions":{"deny":["Bash(make *)"]}}"#);
    let run = simulate(&world, &["--json", "--rules", "strict.json"]).await;
    assert_eq!(differences(&run), ["refused 1 Bash make x"]);
    let total = total(&run);
    assert_eq!((&total["sessions"], &total["calls"], &total["from_ledger"]), (&json!(2), &json!(1), &json!(1)));
}

/// As in a session: nobody knows what a file forbids that cannot be read.
#[tokio::test]
async fn settings_that_cannot_be_read_count_as_they_do_in_a_session() {
    let world = world();
    record_session(&world, &[], &["ls"]).await;
    let rules = world.file("other.json", "{\"permissions\":{\"allow\":[\"Bash(mkdir *)\"]}}");
    let simulated = async || simulate(&world, &["--rules", rules.to_str().unwrap(), "--json"]).await;
    assert_eq!(differences(&simulated().await), [""; 0]);
    std::fs::create_dir_all(world.project.join(".claude/settings.local.json")).unwrap();
    assert_eq!(differences(&simulated().await), ["ask 1 Bash ls"]);
}
