//! `gimlet sessions` and the flags that choose a place in a session, on sessions that the binary itself made.
#![allow(clippy::unwrap_used, reason = "in a test a broken world is a failed test")]

mod session_maintenance;
mod session_search;

use std::path::{Path, PathBuf};

use gimlet_script::{Script, ScriptServer};
use gimlet_testkit::{RunOutput, TestWorld, entries_of, wait_until};
use serde_json::{Value, json};

use crate::world;

/// A model that says this once. Replies of different models have different ids, as in life.
async fn serve_text(text: &str) -> ScriptServer {
    let seed = text.bytes().fold(7, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
    Script::new().seed(seed).say(text).serve().await.unwrap()
}

/// One turn; gives the session's id.
async fn run_turn(world: &TestWorld, prompt: &str, reply: &str, args: &[&str]) -> String {
    let run = world.run(&serve_text(reply).await).stream(prompt).args(args.iter().copied()).finish().await;
    run.expect_code(0);
    run.result()["session_id"].as_str().unwrap().to_owned()
}

async fn run_sessions(world: &TestWorld, args: &[&str]) -> RunOutput {
    let run = world.run_at("http://127.0.0.1:9").arg("sessions").args(args.iter().copied());
    run.finish().await
}

fn transcript_path(world: &TestWorld, id: &str) -> PathBuf {
    world.transcripts().into_iter().find(|path| path.to_string_lossy().contains(id)).unwrap()
}

#[tokio::test]
async fn sessions_are_listed_named_tagged_and_found_by_what_they_are_called() {
    let world = world();
    let first = run_turn(&world, "fix the parser", "done", &[]).await;
    run_turn(&world, "more", "done", &["--resume", &first]).await;
    let second = run_turn(&world, "write \x1b[31mdocs", "done", &["--name", "the docs"]).await;

    let rows = run_sessions(&world, &["ls", "--json"]).await.lines();
    let ids: Vec<&str> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [second.as_str(), first.as_str()]);
    assert_eq!((&rows[1]["turns"], &rows[1]["firstPrompt"]), (&json!(2), &json!("fix the parser")));
    let table = run_sessions(&world, &["ls"]).await.stdout;
    assert!(table.contains("the docs") && table.contains("fix the parser") && table.contains(&first[..8]), "{table}");

    // By the beginning of its id, by its new title, by its transcript.
    run_sessions(&world, &["rename", &first[..6], "  a better\tname "]).await.expect_code(0);
    run_sessions(&world, &["tag", "a better name", "ﬁne\u{200b}"]).await.expect_code(0);
    let path = transcript_path(&world, &first);
    let shown = run_sessions(&world, &["show", &path.to_string_lossy(), "--json"]).await.json();
    assert_eq!((&shown["title"], &shown["tag"]), (&json!("a better name"), &json!("fine")));
    let tagged = run_sessions(&world, &["ls", "--tag", "fine", "--json"]).await.lines();
    assert_eq!(tagged.len(), 1);
    // The entries are those that the public SDK helpers write.
    let last = std::fs::read_to_string(&path).unwrap();
    let last: Vec<&str> = last.lines().rev().take(2).collect();
    assert_eq!(last[1], format!(r#"{{"type":"custom-title","customTitle":"a better name","sessionId":"{first}"}}"#));
    assert_eq!(last[0], format!(r#"{{"type":"tag","tag":"fine","sessionId":"{first}"}}"#));
    run_sessions(&world, &["tag", &first, "--clear"]).await.expect_code(0);
    assert_eq!(run_sessions(&world, &["show", &first, "--json"]).await.json()["tag"], Value::Null);
    // A renamed session goes on under its new name, and keeps it.
    assert_eq!(run_turn(&world, "again", "ok", &["--resume", "a better name"]).await, first);
    assert_eq!(run_sessions(&world, &["show", &first, "--json"]).await.json()["title"], "a better name");
}

#[tokio::test]
async fn a_title_can_be_left_to_gimlet() {
    let world = world();
    let id = run_turn(&world, "Fix the parser. It fails on main since yesterday.", "done", &[]).await;
    let run = run_sessions(&world, &["rename", &id]).await;
    run.expect_code(0);
    assert!(run.stdout.contains("is now called 'Fix the parser. It fails on main since yesterday'"), "{}", run.stdout);
    assert_eq!(run_sessions(&world, &["rename", &id, ""]).await.code, 0);
}

#[tokio::test]
async fn continuing_finds_the_session_that_added_the_folder() {
    let world = world();
    std::fs::create_dir_all(world.project.join("lib")).unwrap();
    let lib = world.project.join("lib").canonicalize().unwrap();
    let first = run_turn(&world, "both at once", "done", &["--add-dir", "lib"]).await;
    let model = serve_text("more").await;
    let run = world.run(&model).cwd(&lib).stream("go on").args(["--continue"]).finish().await;
    run.expect_code(0);
    assert_eq!(run.result()["session_id"], first);
    // One that was started there since then is newer.
    let model = serve_text("own").await;
    let own = world.run(&model).cwd(&lib).stream("alone").finish().await.result()["session_id"].clone();
    let model = serve_text("again").await;
    let run = world.run(&model).cwd(&lib).stream("go on").args(["--continue"]).finish().await;
    assert_eq!(run.result()["session_id"], own);
}

#[tokio::test]
async fn a_session_at_work_is_listed_as_running() {
    let world = world();
    let wait = json!({"command": "while [ ! -e go ]; do sleep 0.01; done"});
    let model = Script::new().call("Bash", wait).then().say("done").serve().await.unwrap();
    let child = world.run(&model).args(["--allowedTools", "Bash"]).print_text("go").start();
    wait_until("it has begun", || !world.transcripts().is_empty()).await;
    let row = run_sessions(&world, &["ls", "--json"]).await.json();
    assert_eq!(row["running"], true);
    let table = run_sessions(&world, &["ls"]).await.stdout;
    assert!(table.contains("running"), "{table}");
    world.file("go", "");
    let mut child = child;
    tokio::task::spawn_blocking(move || child.wait_with_output()).await.unwrap().expect_code(0);
    let row = run_sessions(&world, &["ls", "--json"]).await.json();
    assert_eq!((&row["running"], &row["working"]), (&json!(false), &json!(false)));
}

#[tokio::test]
async fn names_that_fit_no_session_or_several_are_refused_in_one_line() {
    let world = world();
    for id in ["5e551000-0000-4000-8000-00000000000a", "5e551000-0000-4000-8000-00000000000b"] {
        run_turn(&world, "go", "ok", &["--session-id", id, "--name", "twin"]).await;
    }
    let wrong: [(&[&str], &str); 6] = [
        (&["show", "5e55"], "more than one session has an id that begins with '5e55'"),
        (&["show", "abcdef"], "no session has an id that begins with 'abcdef'"),
        (&["show", "twin"], "more than one session has the title 'twin'"),
        (&["show", "nothing like it"], "no session has the title"),
        (&["rename", "5e551000-0000-4000-8000-00000000000a", " \t "], "at least one visible character"),
        (&["tag", "5e551000-0000-4000-8000-00000000000a", "\u{200b}"], "at least one visible character"),
    ];
    for (args, part) in wrong {
        let run = run_sessions(&world, args).await;
        run.expect_code(1);
        assert!(run.stderr.contains(part) && run.stderr.lines().count() == 1, "{args:?}: {}", run.stderr);
    }
}

#[tokio::test]
async fn a_session_is_deleted_with_everything_beside_it_and_only_when_that_was_said() {
    let world = world();
    let (gone, stays) = (run_turn(&world, "one", "ok", &[]).await, run_turn(&world, "two", "ok", &[]).await);
    let path = transcript_path(&world, &gone);
    let side = path.with_extension("");
    let home = world.home.join(".claude");
    for file in [
        side.join("subagents/agent-a.jsonl"),
        side.join("tool-results/x.txt"),
        home.join("file-history").join(&gone).join("b"),
    ] {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "x").unwrap();
    }
    let unsure = run_sessions(&world, &["rm", &gone]).await;
    unsure.expect_code(1);
    assert!(unsure.stderr.contains("--yes") && path.exists(), "{}", unsure.stderr);
    let dry = run_sessions(&world, &["rm", &gone, "--dry-run"]).await;
    assert!(dry.stdout.contains(&gone) && path.exists(), "{}", dry.stdout);
    run_sessions(&world, &["rm", &gone, "--yes"]).await.expect_code(0);
    assert!(!path.exists() && !side.exists() && !home.join("file-history").join(&gone).exists());
    assert!(transcript_path(&world, &stays).exists());
    // By age, only what is old enough, and only when asked.
    let none = run_sessions(&world, &["rm", "--older-than", "1h", "--yes"]).await;
    assert!(none.stdout.contains("nothing to delete"), "{}", none.stdout);
    let old = std::fs::File::open(transcript_path(&world, &stays)).unwrap();
    old.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(90_000)).unwrap();
    run_sessions(&world, &["rm", "--older-than", "1d", "--yes"]).await.expect_code(0);
    assert_eq!(world.transcripts(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_session_that_is_running_is_not_deleted() {
    let world = world();
    let model = Script::new().call("Bash", json!({"command": "sleep 30"})).then().say("done").serve().await.unwrap();
    let id = "5e551000-0000-4000-8000-00000000000c";
    let mut running = world.run(&model).stream("go").args(["--session-id", id]).start();
    running = tokio::task::spawn_blocking(move || {
        running.read_until("tool_use");
        running
    })
    .await
    .unwrap();
    let refused = run_sessions(&world, &["rm", id, "--yes"]).await;
    refused.expect_code(1);
    assert!(refused.stderr.contains("in use"), "{}", refused.stderr);
    assert!(transcript_path(&world, id).exists());
    running.kill();
}

/// A session of three turns; gives its id and its entries.
async fn record_three_turns(world: &TestWorld) -> (String, Vec<Value>) {
    let id = run_turn(world, "first prompt", "first reply", &[]).await;
    run_turn(world, "second prompt", "second reply", &["--resume", &id]).await;
    run_turn(world, "third prompt", "third reply", &["--resume", &id]).await;
    let entries = entries_of(&transcript_path(world, &id));
    (id, entries)
}

fn entry_uuid(entries: &[Value], text: &str) -> String {
    let said = |entry: &&Value| entry["uuid"].is_string() && entry["message"].to_string().contains(text);
    entries.iter().find(said).unwrap()["uuid"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_session_goes_on_from_an_earlier_entry_as_if_nothing_had_followed() {
    let world = world();
    let (id, entries) = record_three_turns(&world).await;
    let cut = entry_uuid(&entries, "first reply");
    let model = serve_text("other").await;
    let args = ["--resume", &id, "--resume-session-at", &cut];
    world.run(&model).stream("another second").args(args).finish().await.expect_code(0);
    let body = model.request(0).body_text().into_owned();
    assert!(body.contains("first reply") && !body.contains("second reply") && !body.contains("third prompt"));
    assert!(model.rejections().is_empty());
    // What was left behind stays in the file, and the session now goes on from the new branch.
    assert!(std::fs::read_to_string(transcript_path(&world, &id)).unwrap().contains("third reply"));
    let model = serve_text("more").await;
    world.run(&model).stream("go").args(["--resume", &id]).finish().await.expect_code(0);
    let body = model.request(0).body_text().into_owned();
    assert!(body.contains("another second"), "{body}");
    assert!(!body.contains("second reply"), "{body}");
}

#[tokio::test]
async fn a_fork_from_an_earlier_entry_leaves_the_source_byte_for_byte() {
    let world = world();
    let (id, entries) = record_three_turns(&world).await;
    let before = std::fs::read(transcript_path(&world, &id)).unwrap();
    let cut = entry_uuid(&entries, "second reply");
    let model = serve_text("forked").await;
    let args = ["--resume", &id, "--resume-session-at", &cut, "--fork-session"];
    let run = world.run(&model).stream("go").args(args).finish().await;
    run.expect_code(0);
    let body = model.request(0).body_text().into_owned();
    assert!(body.contains("second reply") && !body.contains("third prompt"));
    assert_eq!(std::fs::read(transcript_path(&world, &id)).unwrap(), before);
    let fork = entries_of(&transcript_path(&world, run.result()["session_id"].as_str().unwrap()));
    assert!(!fork.iter().any(|entry| entry.to_string().contains("third prompt")));
}

#[tokio::test]
async fn dropping_a_turn_is_refused_unless_it_is_exactly_that_turn() {
    let world = world();
    let (id, entries) = record_three_turns(&world).await;
    let (second, third) = (entry_uuid(&entries, "second reply"), entry_uuid(&entries, "third prompt"));
    let (first, second_prompt) = (entry_uuid(&entries, "first reply"), entry_uuid(&entries, "second prompt"));
    let before = std::fs::read(transcript_path(&world, &id)).unwrap();
    let refused: [(&str, &str); 5] =
        [(&second, ""), (&second, &second_prompt), (&first, &second_prompt), (&first, &third), (&third, &third)];
    for (cut, turn) in refused {
        let model = Script::new().serve().await.unwrap();
        let (at, drops) = (format!("--resume-session-at={cut}"), format!("--resume-drops-turn={turn}"));
        let run = world.run(&model).stream("go").args(["--resume", &id, &at, &drops]).finish().await;
        run.expect_code(1);
        let error = run.result()["errors"][0].as_str().unwrap().to_owned();
        assert!(error.starts_with("Resume rejected by --resume-drops-turn:"), "{error}");
        assert_eq!(std::fs::read(transcript_path(&world, &id)).unwrap(), before, "nothing is written");
    }
    let model = serve_text("other third").await;
    let (at, drops) = (format!("--resume-session-at={second}"), format!("--resume-drops-turn={third}"));
    world.run(&model).stream("go").args(["--resume", &id, &at, &drops]).finish().await.expect_code(0);
    assert!(!model.request(0).body_text().contains("third prompt"));
}

#[tokio::test]
async fn what_cannot_be_gone_on_from_is_said_in_the_words_that_hosts_know() {
    let world = world();
    let (id, _) = record_three_turns(&world).await;
    let nobody = "0195c9f4-3a88-4b44-9d41-3f6a1f1a0009";
    let wrong: [(&[&str], &str); 6] = [
        (&["--resume", nobody], "No conversation found with session ID: 0195c9f4-3a88-4b44-9d41-3f6a1f1a0009"),
        (&["--resume", "no title"], "--resume requires a valid session ID or session title when used with --print"),
        (&["--resume", &id, "--resume-session-at", nobody], nobody),
        (&["--resume-session-at", nobody], "--resume-session-at needs a session"),
        (&["--session-id", &id], "is already in use."),
        (
            &["--resume", &id, "--session-id", nobody],
            "Error: --session-id can only be used with --continue or --resume if --fork-session is also specified.",
        ),
    ];
    for (args, part) in wrong {
        let model = Script::new().serve().await.unwrap();
        let run = world.run(&model).stream("go").args(args.iter().copied()).finish().await;
        run.expect_code(1);
        let error = run.result()["errors"][0].as_str().unwrap().to_owned();
        assert!(error.contains(part), "{args:?}: {error}");
    }
}

#[tokio::test]
async fn a_session_of_another_worktree_is_found_by_id_and_by_title() {
    let world = world();
    let side = world.home.join("side");
    std::fs::create_dir_all(&side).unwrap();
    world.file(".git/HEAD", "ref: refs/heads/main\n");
    world.file(".git/worktrees/side/gitdir", format!("{}/.git\n", side.display()));
    world.file(".git/worktrees/side/commondir", "../..\n");
    world.file(".git/worktrees/side/HEAD", "ref: refs/heads/side\n");
    std::fs::write(side.join(".git"), format!("gitdir: {}/.git/worktrees/side\n", world.project.display())).unwrap();
    let id = run_turn(&world, "in the main tree", "ok", &["--name", "shared work"]).await;
    for wanted in [id.as_str(), "shared work"] {
        let model = serve_text("more").await;
        let run = world.run(&model).stream("go").args(["--resume", wanted]).cwd(&side).finish().await;
        run.expect_code(0);
        assert_eq!(run.result()["session_id"], json!(id), "{wanted}");
    }
    let rows = world.run_at("http://127.0.0.1:9").args(["sessions", "ls", "--json"]).cwd(&side).finish().await.lines();
    assert_eq!(rows.len(), 1);
    // But going on with the newest one stays in its own tree.
    let run = world.run(&serve_text("new").await).stream("go").arg("--continue").cwd(&side).finish().await;
    assert_ne!(run.result()["session_id"], json!(id));
}

#[tokio::test]
async fn exports_carry_everything_said_and_no_credential_and_no_script() {
    let world = world();
    let hostile = "</pre></details><script>alert(1)</script>";
    let model = Script::new()
        .call("Bash", json!({"command": "echo no-such-key-at-all; true '<img src=x onerror=y>'"}))
        .then()
        .say(hostile)
        .serve()
        .await
        .unwrap();
    let run = world.run(&model).env("ANTHROPIC_API_KEY", "no-such-key-at-all").stream("say it").finish().await;
    let id = run.result()["session_id"].as_str().unwrap().to_owned();
    for (format, part) in
        [("markdown", "</details><script>"), ("json", "\"kind\":\"assistant\""), ("html", "&lt;script&gt;")]
    {
        let run = world
            .run_at("http://127.0.0.1:9")
            .env("ANTHROPIC_API_KEY", "no-such-key-at-all")
            .args(["sessions", "export", &id, "--format", format])
            .finish()
            .await;
        run.expect_code(0);
        assert!(run.stdout.contains(part) && run.stdout.contains("say it"), "{format}: {}", run.stdout);
        assert!(!run.stdout.contains("no-such-key-at-all") && run.stdout.contains("***"), "{format}");
        match format {
            "html" => assert!(!run.stdout.contains("<script") && !run.stdout.contains("<img"), "{}", run.stdout),
            "json" => drop(serde_json::from_str::<Value>(&run.stdout).unwrap()),
            _ => {}
        }
    }
    let file = world.home.join("talk.html");
    let write = ["export", &id, "-o", &file.to_string_lossy()];
    run_sessions(&world, &write).await.expect_code(0);
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let again = run_sessions(&world, &write).await;
    again.expect_code(1);
    assert!(again.stderr.contains("--force"), "{}", again.stderr);
}

#[tokio::test]
async fn fsck_ends_with_one_for_damage_and_the_repaired_copy_goes_on() {
    let world = world();
    let (id, _) = record_three_turns(&world).await;
    run_sessions(&world, &["fsck"]).await.expect_code(0);
    let path = transcript_path(&world, &id);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.truncate(bytes.len() - 40);
    std::fs::write(&path, &bytes).unwrap();
    let found = run_sessions(&world, &["fsck", &id]).await;
    found.expect_code(1);
    assert!(found.stdout.contains("torn-tail") && found.stdout.contains("→"), "{}", found.stdout);
    let out = world.home.join("mended");
    std::fs::create_dir(&out).unwrap();
    run_sessions(&world, &["fsck", &id, "--repair", &out.to_string_lossy()]).await.expect_code(1);
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "the original is not touched");
    let copy = out.join(format!("{id}.jsonl"));
    run_sessions(&world, &["fsck", &copy.to_string_lossy()]).await.expect_code(0);
    let model = serve_text("on").await;
    world.run(&model).stream("go").args(["--resume", &copy.to_string_lossy()]).finish().await.expect_code(0);
    assert!(model.request(0).body_text().contains("third reply"));
    let again = run_sessions(&world, &["fsck", &id, "--repair", &out.to_string_lossy()]).await;
    assert!(again.stderr.contains("exists already"), "{}", again.stderr);
}

async fn search_results(world: &TestWorld, args: &[&str]) -> Vec<Value> {
    let mut all = vec!["search", "--json"];
    all.extend(args);
    run_sessions(world, &all).await.lines()
}

#[tokio::test]
async fn search_finds_what_was_said_since_it_was_last_asked() {
    let world = world();
    let id = run_turn(&world, "where is the giraffe", "In the Zoological garden.", &[]).await;
    let hits = search_results(&world, &["zoological", "gard*"]).await;
    assert_eq!((hits.len(), &hits[0]["session"], &hits[0]["role"]), (1, &json!(id), &json!("assistant")));
    assert!(hits[0]["snippet"].as_str().unwrap().contains("Zoological"));
    assert_eq!(search_results(&world, &["giraffe -where"]).await.len(), 0);
    run_turn(&world, "and the okapi", "Beside the giraffe.", &["--resume", &id]).await;
    assert_eq!(search_results(&world, &["giraffe"]).await.len(), 2);
    assert_eq!(search_results(&world, &["giraffe", "--limit", "1"]).await.len(), 1);
    assert_eq!(search_results(&world, &["giraffe", "--since", "1h"]).await.len(), 2);
    assert_eq!(search_results(&world, &["giraffe", "--since", "2999-01-01"]).await.len(), 0);
    assert_eq!(search_results(&world, &["giraffe", "--project", "."]).await.len(), 2);
    assert_eq!(search_results(&world, &["giraffe", "--project", "/nowhere"]).await.len(), 0);
    let none = run_sessions(&world, &["search", "unicorn"]).await;
    none.expect_code(1);
    run_sessions(&world, &["rm", &id, "--yes"]).await.expect_code(0);
    assert_eq!(search_results(&world, &["giraffe"]).await.len(), 0);
}

#[tokio::test]
async fn an_index_that_is_broken_foreign_or_was_being_written_is_made_anew() {
    let world = world();
    run_turn(&world, "where is the giraffe", "There.", &[]).await;
    assert_eq!(search_results(&world, &["giraffe"]).await.len(), 1);
    let index = world.home.join(".claude/gimlet/cache/search.db");
    let whole = std::fs::read(&index).unwrap();
    let half = whole[..whole.len() / 2].to_vec();
    let mut noise = whole.clone();
    noise.iter_mut().skip(4096).step_by(3).for_each(|byte| *byte ^= 0x5a);
    let foreign: Vec<u8> =
        whole.iter().enumerate().map(|(at, byte)| if (68..72).contains(&at) { 7 } else { *byte }).collect();
    for (name, bytes) in [
        ("half", half),
        ("noise", noise),
        ("foreign", foreign),
        ("text", b"not a database".to_vec()),
        ("empty", Vec::new()),
    ] {
        for part in ["search.db-wal", "search.db-shm"] {
            drop(std::fs::remove_file(index.with_file_name(part)));
        }
        std::fs::write(&index, bytes).unwrap();
        assert_eq!(search_results(&world, &["giraffe"]).await.len(), 1, "{name}");
    }
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(index.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

/// Sessions to search in, each with the same rare word once.
fn write_search_corpus(world: &TestWorld, sessions: usize, entries: usize) {
    let dir = world.home.join(".claude/projects/-somewhere");
    std::fs::create_dir_all(&dir).unwrap();
    for session in 0..sessions {
        let line = |number: usize| {
            let text = match number {
                0 => format!("okapi {session}"),
                _ => (0..200).map(|word| format!("word{} ", (number * 7919 + word * 31) % 50_000)).collect::<String>(),
            };
            json!({"type": "user", "uuid": format!("{session}-{number}"), "cwd": "/somewhere", "timestamp": "2026-01-02T03:04:05.000Z",
                "message": {"role": "user", "content": text}})
            .to_string()
                + "\n"
        };
        let text: String = (0..entries).map(line).collect();
        std::fs::write(dir.join(format!("00000000-0000-4000-8000-{session:012x}.jsonl")), text).unwrap();
    }
}

#[tokio::test]
async fn a_search_that_is_killed_while_it_reads_leaves_an_index_that_the_next_one_completes() {
    let world = world();
    write_search_corpus(&world, 12, 400);
    let cache = world.home.join(".claude/gimlet/cache");
    for _ in 0..3 {
        let mut run = world.run_at("http://127.0.0.1:9").args(["sessions", "search", "okapi"]).start();
        let begun = |name: &str| cache.join(name).metadata().is_ok_and(|file| file.len() > 0);
        wait_until("the index is being written", || begun("search.db-wal") || begun("search.db")).await;
        run.kill();
        tokio::task::spawn_blocking(move || run.wait_with_output()).await.unwrap();
    }
    assert_eq!(search_results(&world, &["okapi"]).await.len(), 12);
}

#[tokio::test]
async fn searches_at_the_same_time_fill_one_index_together() {
    let world = world();
    write_search_corpus(&world, 6, 60);
    let mut runs: Vec<_> = (0..4)
        .map(|_| world.run_at("http://127.0.0.1:9").args(["sessions", "search", "okapi", "--json"]).start())
        .map(|mut run| tokio::task::spawn_blocking(move || run.wait_with_output()))
        .collect();
    for run in &mut runs {
        let output = run.await.unwrap();
        assert_eq!(output.lines().len(), 6, "{}", output.stderr);
    }
    assert_eq!(search_results(&world, &["okapi"]).await.len(), 6);
}

#[tokio::test]
async fn a_conversation_too_large_for_any_request_is_refused_with_ways_to_go_on() {
    let world = world();
    let (id, entries) = record_three_turns(&world).await;
    let path = transcript_path(&world, &id);
    append_large_prompts(&path, &entries);
    let model = Script::new().serve().await.unwrap();
    let run = world.run(&model).stream("go").args(["--resume", &id]).finish().await;
    run.expect_code(1);
    let error = run.result()["errors"][0].as_str().unwrap().to_owned();
    assert!(error.contains("MB") && error.contains("sessions export"), "{error}");
    assert!(model.requests().is_empty(), "nothing of it was sent");
    // The entry that is named really fits.
    let cut = error.split("--resume-session-at ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let model = serve_text("small again").await;
    let args = ["--resume", &id, "--resume-session-at", cut, "--fork-session"];
    world.run(&model).stream("go").args(args).finish().await.expect_code(0);
    assert!(model.request(0).body_text().contains("third reply"));
}

/// Adds prompts of a megabyte each to a session.
fn append_large_prompts(path: &Path, entries: &[Value]) {
    use std::io::Write;
    let prompt = entries.iter().rfind(|entry| entry["type"] == "user").unwrap();
    let mut last = entries.iter().rfind(|entry| entry["type"] == "assistant").unwrap()["uuid"].clone();
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    for number in 0..30 {
        let mut entry = prompt.clone();
        entry["parentUuid"] = last;
        entry["uuid"] = json!(format!("00000000-0000-4000-8000-{number:012x}"));
        entry["message"]["content"] = json!("word ".repeat(200_000));
        last = entry["uuid"].clone();
        writeln!(file, "{entry}").unwrap();
    }
}

#[tokio::test]
async fn what_is_not_there_is_named() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    world.run(&model).print_text("go").finish().await.expect_code(0);
    let id = world.transcripts()[0].file_stem().unwrap().to_string_lossy().into_owned();
    for (args, code, part) in [
        (&["ls", "--tag", "nope"][..], 0, "with the tag 'nope'"),
        (&["ls", "--project", "/nosuch"], 0, "of /nosuch, and no such folder"),
        (&["export", &id, "--output", "x.pdf"], 1, ".md, .json or .html"),
    ] {
        let run = world.run_at("http://127.0.0.1:9").arg("sessions").args(args.iter().copied()).finish().await;
        assert!(run.expect_code(code).stderr.contains(part), "{args:?}: {}", run.stderr);
    }
    assert!(!world.project.join("x.pdf").exists());
}
