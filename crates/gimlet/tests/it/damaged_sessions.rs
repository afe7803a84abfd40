//! Two hundred transcripts, each damaged in its own way: every one is named by the check, loads, can be mended, and goes on
//! with a request that the strict model accepts.
#![allow(clippy::unwrap_used, reason = "in a test a broken world is a failed test")]

mod damage_cases;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gimlet_script::Script;
use gimlet_store::{LoadOptions, check_transcript, load_conversation, write_repaired_copy};
use gimlet_testkit::TestWorld;
use serde_json::Value;

use crate::world;
use damage_cases::{DamageCase, all_cases};

/// Runs at the same time; more would only wait for each other.
const SIDE_BY_SIDE: usize = 4;

struct DamagedTranscript {
    case: DamageCase,
    id: String,
    path: PathBuf,
}

fn write_damaged_transcripts(world: &TestWorld) -> Vec<DamagedTranscript> {
    let key = gimlet_store::project_key(&world.project.to_string_lossy());
    let dir = world.home.join(".claude/projects").join(key);
    std::fs::create_dir_all(&dir).unwrap();
    let planted = (0..).zip(all_cases(&world.project.to_string_lossy())).map(|(number, case)| {
        let id = format!("da3a6ed0-0000-4000-8000-{number:012x}");
        let path = dir.join(format!("{id}.jsonl"));
        std::fs::write(&path, &case.bytes).unwrap();
        DamagedTranscript { case, id, path }
    });
    planted.collect()
}

#[tokio::test]
async fn every_damage_is_named_and_none_keeps_a_session_from_going_on() {
    let world = world();
    let planted = write_damaged_transcripts(&world);
    assert_eq!(planted.len(), 200);
    assert_fsck_names_damage(&world, &planted).await;
    for one in &planted {
        assert_repairable(&world, one);
    }
    for group in planted.chunks(SIDE_BY_SIDE) {
        let runs = group.iter().map(|one| assert_resumable(&world, one));
        join_all(runs.collect()).await;
    }
}

/// One `fsck` over all of them says of each what is wrong with it.
async fn assert_fsck_names_damage(world: &TestWorld, planted: &[DamagedTranscript]) {
    let run = world.run_at("http://127.0.0.1:9").args(["sessions", "fsck", "--all", "--json"]).finish().await;
    run.expect_code(1);
    let rows: BTreeMap<String, Value> =
        run.lines().into_iter().map(|row| (row["id"].as_str().unwrap().to_owned(), row)).collect();
    for one in planted {
        let Some(row) = rows.get(&one.id) else { panic!("{}: not checked", one.case.name) };
        let kinds: Vec<&str> =
            row["findings"].as_array().unwrap().iter().map(|finding| finding["kind"].as_str().unwrap()).collect();
        let expected = &one.case.named;
        let found = expected.is_empty() || expected.iter().any(|kind| kinds.contains(kind));
        assert!(found, "{}: expected one of {expected:?}, found {kinds:?}", one.case.name);
        for finding in row["findings"].as_array().unwrap() {
            assert!(finding["consequence"].as_str().is_some_and(|text| !text.is_empty()), "{finding}");
        }
    }
}

/// The repaired copy says the same to a model and has nothing left to repair; the original is as it was.
fn assert_repairable(world: &TestWorld, one: &DamagedTranscript) {
    let out = world.home.join("mended.jsonl");
    write_repaired_copy(&one.path, &one.id, &out).unwrap_or_else(|error| panic!("{}: {error}", one.case.name));
    assert!(std::fs::read(&one.path).unwrap() == one.case.bytes, "{}: the original was changed", one.case.name);
    let after = check_transcript(&out).unwrap();
    assert!(!after.is_damaged(), "{}: the copy is damaged: {:?}", one.case.name, after.findings);
    let messages = |path: &Path| load_conversation(path, &LoadOptions::default()).unwrap().messages;
    let (now, before) = (messages(&out), messages(&one.path));
    assert_eq!(now.len(), before.len(), "{}: the copy says more or less", one.case.name);
    for (now, before) in now.iter().zip(&before) {
        assert_eq!(now, before, "{}: the copy says something else", one.case.name);
    }
    std::fs::remove_file(&out).unwrap();
}

/// A resumed session sends one request, which is accepted, with the new prompt at its end. What only the server can know
/// to be wrong takes one more.
async fn assert_resumable(world: &TestWorld, one: &DamagedTranscript) {
    let model = Script::new().say("going on").forever().serve().await.unwrap();
    let run = world.run(&model).stream("what now?").args(["--resume", &one.id]).finish().await;
    assert_eq!(run.code, 0, "{}: {} {:?}", one.case.name, run.stderr, model.rejections());
    let rejections = model.rejections();
    let refused = rejections.len();
    let only_that = rejections.iter().all(|(_, why)| why.contains("hologram"));
    assert!(refused <= 1 && only_that, "{}: {rejections:?}", one.case.name);
    assert_eq!(refused == 1, one.case.has_unknown_block(), "{}: {rejections:?}", one.case.name);
    assert_eq!(model.requests().len(), 1 + refused, "{}: {}", one.case.name, run.stderr);
    let body: Value = serde_json::from_str(&model.request(refused).body_text()).unwrap();
    let last = body["messages"].as_array().unwrap().last().unwrap().to_string();
    assert!(last.contains("what now?"), "{}: {last}", one.case.name);
}

/// Waits for all of them; they run on the same thread and wait for their processes.
async fn join_all(mut runs: Vec<impl Future<Output = ()>>) {
    let mut runs: Vec<_> = runs.drain(..).map(Box::pin).collect();
    std::future::poll_fn(|context| {
        runs.retain_mut(|run| run.as_mut().poll(context).is_pending());
        if runs.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[tokio::test]
async fn a_session_behind_a_symlink_is_not_gone_on_with() {
    for whole_folder in [true, false] {
        let world = world();
        let first = Script::new().say("one").serve().await.unwrap();
        world.run(&first).print_text("go").finish().await.expect_code(0);
        let transcript = world.transcripts().remove(0);
        let id = transcript.file_stem().unwrap().to_str().unwrap().to_owned();
        let linked = if whole_folder { transcript.parent().unwrap() } else { &*transcript };
        let elsewhere = world.home.join("elsewhere");
        std::fs::rename(linked, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, linked).unwrap();
        let before = std::fs::read(&transcript).unwrap();
        let model = Script::new().say("two").serve().await.unwrap();
        let mut ways = vec![vec!["-p", "--resume", &id, "more"]];
        // Where only the file is a symlink, there is no session of this folder to continue.
        if whole_folder {
            ways.push(vec!["-p", "--continue", "more"]);
        }
        for args in ways {
            let run = world.run(&model).args(args.iter().copied()).finish().await;
            run.expect_code(1);
            assert!(run.stderr.contains(&format!("{} is a symlink", linked.display())), "{args:?}: {}", run.stderr);
        }
        assert!(model.requests().is_empty());
        assert_eq!(std::fs::read(&transcript).unwrap(), before);
    }
}

#[tokio::test]
async fn a_config_home_that_is_a_symlink_is_followed() {
    let world = world();
    let first = Script::new().say("one").serve().await.unwrap();
    world.run(&first).print_text("go").finish().await.expect_code(0);
    let (home, elsewhere) = (world.home.join(".claude"), world.home.join("elsewhere"));
    std::fs::rename(&home, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &home).unwrap();
    let model = Script::new().say("two").serve().await.unwrap();
    let run = world.run(&model).args(["-p", "--continue", "more"]).finish().await;
    run.expect_code(0);
    assert_eq!(run.stdout, "two\n");
}
