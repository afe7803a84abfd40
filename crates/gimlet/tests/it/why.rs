//! `gimlet why` over a long session in which every kind of decision is taken: each must be explained so that a reader who
//! was not there knows what was decided, by whom, and by which rule of which file.
#![allow(clippy::unwrap_used, reason = "in a test a broken world is a failed test")]

mod deciders;

use std::path::Path;

use gimlet_script::Script;
use gimlet_testkit::{RunOutput, TestWorld};
use serde_json::{Value, json};

use crate::world;

const SESSION: &str = "5e551000-0000-4000-8000-000000000001";

fn bash(command: &str) -> (&'static str, Value) {
    ("Bash", json!({ "command": command }))
}

fn read(path: &str) -> (&'static str, Value) {
    ("Read", json!({ "file_path": path }))
}

fn write(path: &str) -> (&'static str, Value) {
    ("Write", json!({"file_path": path, "content": "x"}))
}

/// One run of the session: the model makes these calls one after the other.
async fn run(world: &TestWorld, flags: &[&str], calls: &[(&str, Value)]) {
    let script = calls.iter().fold(Script::new(), |script, (tool, input)| script.call(*tool, input.clone()).then());
    let model = script.say("done").serve().await.unwrap();
    let run = world.run(&model).arg("-p").args(flags.iter().copied()).args(["--", "go"]).finish().await;
    run.expect_code(0);
}

/// Rules of every scope, and files to stumble over.
fn furnish(world: &TestWorld) {
    let settings = |path: &Path, value: Value| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, serde_json::to_string_pretty(&value).unwrap()).unwrap();
    };
    settings(
        &world.home.join(".claude/settings.json"),
        json!({"permissions": {"allow": ["Bash(make *)"], "ask": ["Bash(git push *)"],
            "deny": ["Bash(curl *)", "Read(~/private/**)"]}}),
    );
    settings(
        &world.project.join(".claude/settings.json"),
        json!({"permissions": {"allow": ["Bash(./run.sh *)"], "deny": ["Edit(/generated/**)"]}}),
    );
    settings(
        &world.project.join(".claude/settings.local.json"),
        json!({"permissions": {"allow": ["Bash(mkdir *)", "Edit(/notes/**)"]}}),
    );
    settings(&world.home.join("more.json"), json!({"permissions": {"deny": ["Bash(dd *)"]}}));
    world.file(".git/HEAD", "ref: refs/heads/main\n");
    world.file("a.rs", "fn main() {}\n");
    std::os::unix::fs::symlink("/etc", world.project.join("link")).unwrap();
}

/// Fifty calls in one session that is taken up again in other modes.
async fn record_fifty_calls(world: &TestWorld) {
    furnish(world);
    let home = |name: &str| world.home.join(name).to_string_lossy().into_owned();
    let here = |name: &str| world.path(name);
    let edit = json!({"file_path": here("a.rs"), "old_string": "main", "new_string": "start"});
    let first = [
        read(&here("a.rs")),
        ("Glob", json!({"pattern": "**/*.rs"})),
        ("Grep", json!({"pattern": "main"})),
        ("TodoWrite", json!({"todos": [{"content": "a", "status": "pending", "activeForm": "a"}]})),
        bash("ls"),
        bash("cat a.rs | wc -l"),
        bash("grep -rn main . && echo found"),
        bash("make --version"),
        bash("./run.sh fast"),
        bash("mkdir made"),
        bash("touch made/x"),
        write(&here("notes/a.md")),
        bash("curl http://127.0.0.1:9/"),
        bash("sudo -n curl http://127.0.0.1:9/"),
        bash("dd if=a.rs of=b.rs"),
        bash("rm -r made"),
        bash("git push origin main"),
        write(&here("generated/x.rs")),
        read(&home("private/diary.txt")),
        bash("cat ~/private/diary.txt"),
        read("/etc/hostname"),
        bash("cat /etc/hostname"),
        read(&here("link/hostname")),
        write(&home("elsewhere.txt")),
        ("Glob", json!({"pattern": "*", "path": "/etc"})),
        write(&here(".git/config")),
        write(&here(".claude/settings.json")),
        write(&here(".mcp.json")),
        bash("echo x >> ~/.bashrc"),
        bash("rm -rf ~"),
        bash("rm -rf ."),
        read(&home(".ssh/id_ed25519")),
        bash("cat ~/.aws/credentials"),
        bash("$TOOL --all"),
        bash("eval \"$(cat a.rs)\""),
        bash("echo ls | sh"),
        bash("echo x > new.txt"),
        bash("npm install"),
        ("Edit", edit.clone()),
        bash("cd made"),
    ];
    let more = home("more.json");
    let flags = [
        "--session-id",
        SESSION,
        "--trust",
        "--settings",
        &more,
        "--allowedTools",
        "Bash(touch *)",
        "--disallowedTools",
        "Bash(rm -r made)",
    ];
    run(world, &flags, &first).await;
    let again = async |mode: &[&str], calls: &[(&str, Value)]| {
        run(world, &[&["--resume", SESSION], mode].concat(), calls).await;
    };
    let outside = home("out.txt");
    again(&["--permission-mode", "acceptEdits"], &[write(&here("b.txt")), write(&outside), bash("touch c.txt")]).await;
    again(&["--permission-mode", "plan"], &[write(&here("d.txt")), bash("make -v"), bash("ls made")]).await;
    again(&["--permission-mode", "dontAsk"], &[bash("npm test")]).await;
    let free = ["--dangerously-skip-permissions"];
    again(&free, &[bash("true && touch free.txt"), bash("curl http://127.0.0.1:9/"), bash("rm -rf ~")]).await;
}

async fn why(world: &TestWorld, args: &[&str]) -> RunOutput {
    world.run_at("http://127.0.0.1:9").arg("why").args(args.iter().copied()).finish().await
}

/// What differs from run to run is named instead, and lines that were too long for the page are whole again.
fn steady(world: &TestWorld, text: &str) -> String {
    let root = world.project.parent().unwrap().to_string_lossy().into_owned();
    let mut text = text.replace(&root, "[world]");
    for (varying, name) in
        [(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "[time]"), (r"toolu_\w+", "[call]"), (r"\n {10,}(\S)", " $1")]
    {
        text = regex::Regex::new(varying).unwrap().replace_all(&text, name).into_owned();
    }
    text
}

#[tokio::test]
async fn every_decision_of_a_long_session_is_explained() {
    let world = world();
    record_fifty_calls(&world).await;
    let list = why(&world, &[SESSION]).await;
    list.expect_code(0);
    insta::assert_snapshot!("fifty_decisions", steady(&world, &list.stdout));
    // Only a word that is longer than the line may stand out.
    let too_long = |line: &&str| line.chars().count() > 100 && line.trim().contains(' ');
    assert_eq!(list.stdout.lines().skip(1).find(too_long), None);

    let mut pages = Vec::new();
    for number in ["1", "9", "13", "17", "22", "30", "34", "44", "48"] {
        let one = why(&world, &[SESSION, number]).await;
        pages.push(steady(&world, &one.expect_code(0).stdout));
    }
    insta::assert_snapshot!("decisions_in_full", pages.join("\n"));

    let json = why(&world, &[SESSION, "--json"]).await;
    let lines = json.expect_code(0).lines();
    assert_eq!(lines.len(), 50);
    for (at, line) in lines.iter().enumerate() {
        assert_eq!(line["number"], at + 1);
        assert!(line["because"].as_array().is_some_and(|because| !because.is_empty()), "{line}");
        assert!(line["verdict"]["reasons"][0]["kind"].is_string(), "{line}");
        // Every rule but those of flags has a file and a line.
        for reason in line["verdict"]["reasons"].as_array().unwrap() {
            let source = &reason["source"];
            let flag = source["label"].as_str().is_some_and(|label| label.ends_with("Tools"));
            assert!(source.is_null() || flag || source["line"].is_u64(), "{line}");
        }
    }
    let picked = why(&world, &[SESSION, "17", "--json"]).await;
    insta::assert_snapshot!("one_decision_as_json", steady(&world, &picked.stdout));
    // The newest session of the folder needs no name, and a call may be named by its id.
    let by_id = why(&world, &[picked.json()["call"].as_str().unwrap()]).await;
    assert_eq!(by_id.stdout, why(&world, &["17"]).await.stdout);
}

#[tokio::test]
async fn a_question_about_nothing_is_answered_with_what_there_is() {
    let world = world();
    let none = why(&world, &[]).await;
    assert_eq!(
        none.expect_code(1).stderr,
        "gimlet: there is no session of this folder. Name one: gimlet why SESSION\n"
    );
    for (name, said) in [(SESSION, SESSION), ("no such title", "no session has the title 'no such title'")] {
        let unknown = why(&world, &[name]).await;
        unknown.expect_code(1);
        assert!(unknown.stderr.contains(said) && unknown.stdout.is_empty(), "{}", unknown.stderr);
    }
    run(&world, &["--session-id", SESSION], &[bash("ls"), bash("pwd")]).await;
    for call in ["3", "0", "toolu_none"] {
        let unknown = why(&world, &[SESSION, call]).await;
        assert_eq!(
            unknown.expect_code(1).stderr,
            format!(
                "gimlet: session {SESSION} has no decision about the call '{call}'. It has 2: see 'gimlet why {SESSION}'\n"
            )
        );
    }
}

fn ledger_path(world: &TestWorld) -> std::path::PathBuf {
    world.transcripts()[0].with_extension("").join("decisions.ndjson")
}

#[tokio::test]
async fn a_damaged_line_costs_only_itself_and_is_told() {
    let world = world();
    run(&world, &["--session-id", SESSION], &[bash("ls"), bash("pwd"), bash("date")]).await;
    let whole = std::fs::read_to_string(ledger_path(&world)).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let strange = lines[2].replace("\"reasons\":[", "\"reasons\":[{\"kind\":\"of the future\"},");
    std::fs::write(ledger_path(&world), format!("{}\n{}\n{strange}\n\0\u{1b}[31m\n", lines[0], &lines[1][..40]))
        .unwrap();
    let list = why(&world, &[SESSION]).await;
    list.expect_code(0);
    assert!(list.stderr.contains("2 lines of") && list.stderr.contains("decisions.ndjson"), "{}", list.stderr);
    assert!(list.stdout.contains("2 decisions, 2 allowed"), "{}", list.stdout);
    assert!(list.stdout.contains("ls") && list.stdout.contains("another version"), "{}", list.stdout);
}

#[tokio::test]
async fn a_session_from_before_the_ledger_is_told_from_one_that_called_nothing() {
    let world = world();
    run(&world, &["--session-id", SESSION], &[bash("ls"), bash("pwd")]).await;
    std::fs::remove_file(ledger_path(&world)).unwrap();
    let older = why(&world, &[SESSION]).await;
    let said =
        format!("session {SESSION} made 2 calls, and no decision was recorded: it is older, or of another program");
    assert_eq!(older.expect_code(0).stdout, format!("{said}\n"));
    assert_eq!(why(&world, &[SESSION, "1"]).await.expect_code(1).stderr, format!("gimlet: {said}\n"));
    let json = why(&world, &[SESSION, "--json"]).await;
    assert_eq!((json.expect_code(0).stdout.as_str(), json.stderr.contains(&said)), ("", true));

    std::fs::write(ledger_path(&world), "torn\n").unwrap();
    let torn = why(&world, &[SESSION]).await;
    assert_eq!(torn.expect_code(0).stdout, format!("no decision of session {SESSION} can be read any more\n"));

    let silent = crate::world();
    run(&silent, &["--session-id", SESSION], &[]).await;
    let nothing = why(&silent, &[SESSION]).await;
    assert_eq!(nothing.expect_code(0).stdout, format!("session {SESSION} has no tool calls\n"));
}

#[tokio::test]
async fn a_fork_points_to_the_session_that_decided() {
    let world = world();
    run(&world, &["--session-id", SESSION], &[bash("ls")]).await;
    run(&world, &["--resume", SESSION, "--fork-session", "--name", "copy"], &[]).await;
    let why = world.run_at("http://127.0.0.1:9").args(["why", "copy"]).finish().await;
    assert!(why.expect_code(0).stdout.contains(&format!("'gimlet why {SESSION}'")), "{}", why.stdout);
}
