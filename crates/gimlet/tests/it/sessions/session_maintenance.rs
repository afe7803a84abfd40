//! What checks, lists and exports say of sessions that are odd without being damaged, and of disks that are full.

use std::path::Path;

use gimlet_script::Script;
use serde_json::{Value, json};

use super::{run_sessions, run_turn, transcript_path};
use crate::sdk::SdkHost;
use crate::world;

/// Ends a transcript behind its first entry of this kind, as a run that is killed leaves it.
fn truncate_after(path: &Path, part: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.iter().position(|line| line.contains(part)).unwrap();
    std::fs::write(path, lines[..=last].join("\n") + "\n").unwrap();
}

#[tokio::test]
async fn a_turn_that_was_cut_off_is_named_and_is_no_damage() {
    let world = world();
    let model = Script::new()
        .call("Bash", json!({"command": "echo one"}))
        .call("Bash", json!({"command": "echo two"}))
        .then()
        .say("done")
        .serve()
        .await
        .unwrap();
    let run = world.run(&model).stream("go").finish().await;
    let id = run.result()["session_id"].as_str().unwrap().to_owned();
    let path = transcript_path(&world, &id);
    for behind in ["\"tool_result\"", "\"tool_use\""] {
        truncate_after(&path, behind);
        let found = run_sessions(&world, &["fsck", &id]).await;
        found.expect_code(0);
        let said = &found.stdout;
        assert!(said.contains("ok, last turn incomplete") && said.contains("cut-off-turn"), "{said}");
        assert!(!said.contains("damaged") && !said.contains("--repair"), "{said}");
    }
    // It stays one when the session goes on.
    run_turn(&world, "what now?", "on", &["--resume", &id]).await;
    let found = run_sessions(&world, &["fsck", "--json"]).await;
    found.expect_code(0);
    let row = &found.lines()[0];
    assert_eq!((&row["damaged"], &row["findings"][0]["kind"]), (&json!(false), &json!("cut-off-turn")));
}

#[tokio::test]
async fn results_of_a_fork_are_looked_for_where_they_are() {
    let world = world();
    let call = json!({"command": "seq 30000"});
    let model = Script::new().call("Bash", call).then().say("done").serve().await.unwrap();
    let run = world.run(&model).stream("go").finish().await;
    let original = run.result()["session_id"].as_str().unwrap().to_owned();
    let fork = run_turn(&world, "on", "ok", &["--resume", &original, "--fork-session"]).await;
    let found = run_sessions(&world, &["fsck", &fork]).await;
    assert!(found.stdout.contains(": whole ("), "{}", found.stdout);
    run_sessions(&world, &["rm", &original, "--yes"]).await.expect_code(0);
    let found = run_sessions(&world, &["fsck", &fork]).await;
    assert!(found.stdout.contains("missing-output"), "{}", found.stdout);
}

#[tokio::test]
async fn people_see_a_few_findings_of_a_kind_and_programs_all() {
    let world = world();
    let id = run_turn(&world, "go", "ok", &[]).await;
    let path = transcript_path(&world, &id);
    let text = std::fs::read_to_string(&path).unwrap() + &"{broken\n".repeat(250);
    std::fs::write(&path, text).unwrap();
    let found = run_sessions(&world, &["fsck", &id]).await;
    found.expect_code(1);
    assert_eq!(found.stdout.matches("broken-line: ").count(), 5, "{}", found.stdout);
    assert!(found.stdout.contains("… and 245 more of broken-line (--json names all)"), "{}", found.stdout);
    let row = run_sessions(&world, &["fsck", &id, "--json"]).await.json();
    let lines: Vec<&Value> = row["findings"].as_array().unwrap().iter().map(|finding| &finding["line"]).collect();
    assert_eq!((lines.len(), &row["total"]), (250, &json!(250)));
}

#[tokio::test]
async fn every_result_names_what_was_called_whatever_came_first() {
    let world = world();
    world.file("a.txt", "alpha\n");
    let model = Script::new()
        .call("Bash", json!({"command": "sleep 0.1; echo slow"}))
        .call("Read", json!({"file_path": world.path("a.txt")}))
        .call("Read", json!({"file_path": world.path("none.txt")}))
        .then()
        .say("done")
        .serve()
        .await
        .unwrap();
    world.run(&model).stream("go").finish().await.expect_code(0);
    let id = world.transcripts()[0].file_stem().unwrap().to_string_lossy().into_owned();
    let shown = run_sessions(&world, &["show", &id]).await.stdout;
    assert!(shown.contains("  ← Bash\n    slow") && shown.contains("  ← Read\n"), "{shown}");
    assert!(shown.contains("  ← Read (error)\n"), "{shown}");
    let page = run_sessions(&world, &["export", &id]).await.stdout;
    for part in ["Result of Bash:\n\n```\nslow", "Result of Read:", "Error of Read:"] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[tokio::test]
async fn a_session_is_called_the_same_before_it_is_deleted() {
    let world = world();
    let id = run_turn(&world, "the first thing", "ok", &[]).await;
    run_turn(&world, "the last thing", "ok", &["--resume", &id]).await;
    run_sessions(&world, &["tag", &id, "old"]).await.expect_code(0);
    for args in [&["ls"][..], &["rm", &id, "--dry-run"], &["export", &id]] {
        let said = run_sessions(&world, args).await.stdout;
        assert!(said.contains("the first thing"), "{args:?}: {said}");
    }
    let doomed = run_sessions(&world, &["rm", &id, "--dry-run"]).await.stdout;
    assert!(doomed.contains("[old] the first thing") && !doomed.contains("the last thing"), "{doomed}");
}

#[tokio::test]
async fn an_export_that_does_not_fit_leaves_nothing_and_keeps_what_was_there() {
    let outer = world();
    // The signal for a file beyond its limit is ignored, so that the write fails as on a full disk.
    let world = outer.with_shell_prelude("trap '' XFSZ; ulimit -f ${KIB:-unlimited}");
    let id = run_turn(&world, "go", &"much to say ".repeat(20_000), &[]).await;
    for (name, before) in [("new.md", None), ("old.md", Some("precious"))] {
        let path = world.home.join(name);
        if let Some(before) = before {
            std::fs::write(&path, before).unwrap();
        }
        let export = ["sessions", "export", &id, "--force", "-o", &path.to_string_lossy()];
        let run = world.run_at("http://127.0.0.1:9").env("KIB", "64").args(export).finish().await;
        run.expect_code(1);
        assert!(run.stderr.contains(name) && run.stderr.contains("cannot be written"), "{}", run.stderr);
        assert_eq!(std::fs::read_to_string(&path).ok().as_deref(), before);
    }
    let left = std::fs::read_dir(&world.home).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().contains("unfinished")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_forced_export_goes_through_links_and_pipes_and_replaces_neither() {
    let world = world();
    let id = run_turn(&world, "go", "words to keep", &[]).await;
    let (file, link) = (world.home.join("real.md"), world.home.join("report.md"));
    std::fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    run_sessions(&world, &["export", &id, "--force", "-o", &link.to_string_lossy()]).await.expect_code(0);
    assert!(link.is_symlink() && std::fs::read_to_string(&file).unwrap().contains("words to keep"));
    let piped = run_sessions(&world, &["export", &id, "--force", "-o", "/dev/stdout"]).await;
    piped.expect_code(0);
    assert!(piped.stdout.contains("words to keep"), "{}", piped.stdout);
    std::fs::remove_file(&file).unwrap();
    let nowhere = run_sessions(&world, &["export", &id, "--force", "-o", &link.to_string_lossy()]).await;
    nowhere.expect_code(1);
    assert!(link.is_symlink() && nowhere.stderr.contains("cannot be written"), "{}", nowhere.stderr);
}

#[tokio::test]
async fn a_session_that_runs_is_not_deleted_and_the_way_out_is_named() {
    let world = world();
    let model = Script::new().say("hi").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    host.say("hello");
    let id = host.result().await["session_id"].as_str().unwrap().to_owned();
    let kept = run_sessions(&world, &["rm", &id, "--yes"]).await;
    kept.expect_code(1);
    assert_eq!(kept.stdout, "nothing was deleted\n");
    assert!(kept.stderr.contains("is in use by another process; end that one"), "{}", kept.stderr);
    assert_eq!(world.transcripts().len(), 1);
    host.end().await;
    let gone = run_sessions(&world, &["rm", &id, "--yes"]).await;
    assert!(gone.expect_code(0).stdout.starts_with("deleted 1 session"), "{}", gone.stdout);
}

#[tokio::test]
async fn sessions_that_cannot_be_looked_for_are_not_said_to_be_none() {
    let world = world();
    let projects = world.home.join(".claude/projects");
    std::fs::create_dir_all(projects.parent().unwrap()).unwrap();
    // Root may read every folder, but no file is one.
    std::fs::write(&projects, "").unwrap();
    for line in [
        "sessions ls",
        "sessions ls --all --json",
        "sessions show",
        "sessions search x",
        "-p go -c",
        "-p go -r t",
        "why",
    ] {
        let run = world.run_at("http://127.0.0.1:9").args(line.split(' ')).finish().await;
        let said = format!("gimlet: {} cannot be read: ", projects.display());
        assert!(run.expect_code(1).stderr.contains(&said), "{line}: {}", run.stderr);
    }
}

#[tokio::test]
async fn labels_leave_the_order_of_sessions_alone_and_doubles_are_noted() {
    let world = world();
    let old = run_turn(&world, "first", "ok", &["--name", "build"]).await;
    let new = run_turn(&world, "second", "ok", &[]).await;
    for args in [&["rename", &old, "older"][..], &["tag", &old, "t"]] {
        run_sessions(&world, args).await.expect_code(0);
    }
    let rows = run_sessions(&world, &["ls", "--json"]).await.lines();
    assert_eq!((&rows[0]["id"], &rows[1]["tag"]), (&json!(new), &json!("t")), "{rows:?}");
    let double = run_sessions(&world, &["rename", &new, "older"]).await;
    assert!(
        double.expect_code(0).stderr.contains("note: more than one session has the title 'older'"),
        "{}",
        double.stderr
    );
}

#[tokio::test]
async fn a_transcript_under_another_name_is_told_what_it_must_be_called() {
    let world = world();
    let id = run_turn(&world, "go", "ok", &[]).await;
    let copy = world.path("b.jsonl");
    std::fs::copy(transcript_path(&world, &id), &copy).unwrap();
    for args in [&["sessions", "show", &copy][..], &["sessions", "fsck", &copy], &["-p", "x", "--resume", &copy]] {
        let run = world.run_at("http://127.0.0.1:9").args(args.iter().copied()).finish().await;
        assert!(run.expect_code(1).stderr.contains("<id>.jsonl"), "{args:?}: {}", run.stderr);
    }
    let mended = run_sessions(&world, &["fsck", &id, "--repair", "mended.jsonl"]).await;
    assert!(mended.stderr.contains(&format!("only under the name {id}.jsonl")), "{}", mended.stderr);
}

#[tokio::test]
async fn a_dash_is_standard_output_and_a_folder_is_not_replaced() {
    let world = world();
    let id = run_turn(&world, "what is said", "ok", &[]).await;
    let written = run_sessions(&world, &["export", &id, "--output", "-"]).await;
    assert!(written.expect_code(0).stdout.contains("what is said") && !world.project.join("-").exists());
    let folder = run_sessions(&world, &["export", &id, "--output", "/tmp"]).await;
    assert!(folder.expect_code(1).stderr.contains("/tmp is a folder"), "{}", folder.stderr);
}

#[tokio::test]
async fn times_are_those_of_the_zone_that_is_named() {
    let world = world();
    let id = run_turn(&world, "go", "ok", &[]).await;
    let shown = |zone: &'static str| {
        let run = world.run_at("http://127.0.0.1:9").env("TZ", zone).args(["sessions", "show", &id]);
        async move { run.finish().await.stdout }
    };
    let (utc, tokyo, unknown) = (shown("UTC").await, shown("Asia/Tokyo").await, shown("No/Where").await);
    let hour = |page: &str| -> i32 {
        let line = page.lines().find(|line| line.starts_with("begun")).unwrap().to_owned();
        line.split_whitespace().nth(2).and_then(|time| time.split(':').next()).unwrap().parse().unwrap()
    };
    assert_eq!((hour(&utc) + 9) % 24, hour(&tokyo), "{utc}\n{tokyo}");
    assert!(unknown.lines().any(|line| line.starts_with("begun") && line.ends_with(" UTC")), "{unknown}");
}
