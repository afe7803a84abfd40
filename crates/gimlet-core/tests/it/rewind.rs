//! Going back to a prompt, files that others read, and how full the context is: operations beside the conversation.

use std::borrow::Cow;
use std::os::unix::fs::symlink;
use std::path::Path;

use gimlet_core::tool::{PathContext, PromptContext, Tool, ToolContext, ToolError, ToolResult};
use gimlet_proto::{
    AccessNeed, Block, ContextKind, ContextUsage, EntryId, ModelEvent, Op, OpReply, ResultContent, RewindMode,
    RewindOutcome, RewoundFile, SessionHandle, SessionId, SubmittedPrompt,
};
use gimlet_store::{SessionCheckpoints, StoreLocations};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::session_bench::{BenchSetup, SessionBench, call, reply};

/// Writes a file, and says what it was before.
pub(crate) struct ScribbleTool;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ScribbleInput {
    file: String,
    text: String,
}

impl Tool for ScribbleTool {
    const NAME: &'static str = "Scribble";
    type Input = ScribbleInput;
    type Output = bool;
    fn prompt(&self, _cx: &PromptContext) -> Cow<'static, str> {
        "Writes.".into()
    }
    fn needs(&self, input: &ScribbleInput, cx: &PathContext) -> Vec<AccessNeed> {
        vec![AccessNeed::Write(cx.cwd.join(&input.file))]
    }
    async fn call(&self, input: ScribbleInput, cx: &ToolContext) -> Result<ToolResult<bool>, ToolError> {
        let path = cx.paths.cwd.join(&input.file);
        let old = std::fs::read(&path).ok();
        cx.services.checkpoint_before_change(&path, old.as_deref().map(|bytes| (bytes, 0o644)));
        std::fs::write(&path, &input.text).unwrap();
        Ok(ToolResult::new(cx.with_session_state(|session| session.files.get(&path).is_some_and(|known| known.whole))))
    }
    fn to_blocks(&self, was_known: &bool) -> ResultContent {
        format!("known: {was_known}").into()
    }
}

fn scribbles(id: &str, files: &[(&str, &str)]) -> Vec<ModelEvent> {
    let blocks: Vec<Block> = files
        .iter()
        .enumerate()
        .map(|(n, (file, text))| call(&format!("{id}{n}"), "Scribble", json!({"file": file, "text": text})))
        .collect();
    reply(&blocks)
}

fn done() -> Vec<ModelEvent> {
    reply(&[Block::text("done")])
}

fn bench(kept: bool, replies: Vec<Vec<ModelEvent>>) -> SessionBench {
    SessionBench::new_with(
        |project| {
            let places = StoreLocations::new(&project.join("home"));
            let checkpoints = kept.then(|| SessionCheckpoints::open(&places, &SessionId::new("s")));
            BenchSetup { checkpoints, ..BenchSetup::default() }
        },
        replies,
    )
}

async fn prompt(bench: &mut SessionBench, id: &str) {
    bench.handle.send(Op::Submit(SubmittedPrompt { uuid: Some(EntryId::new(id)), ..SubmittedPrompt::from_text("go") }));
    bench.turn(|_, _| {}).await;
}

async fn rewind(handle: &SessionHandle, id: &str, dry_run: bool) -> Result<RewindOutcome, String> {
    let (reply, answer) = OpReply::channel();
    let mode = if dry_run { RewindMode::Preview } else { RewindMode::RestoreAll };
    handle.send(Op::Rewind { prompt: EntryId::new(id), mode, reply });
    answer.await.unwrap()
}

fn read(folder: &Path, name: &str) -> Option<String> {
    std::fs::read_to_string(folder.join(name)).ok()
}

#[tokio::test]
async fn files_go_back_to_what_they_were_at_a_prompt_and_created_ones_go() {
    let first = scribbles("a", &[("old", "one\ntwo\n"), ("old", "three\n"), ("new", "made\n")]);
    let second = scribbles("b", &[("old", "four\n")]);
    let mut bench = bench(true, vec![first, done(), second, done()]);
    let project = bench.dir.path().canonicalize().unwrap();
    std::fs::write(project.join("old"), "zero\n").unwrap();
    prompt(&mut bench, "p1").await;
    prompt(&mut bench, "p2").await;

    let changed = |files: &[(&str, u64, u64)]| RewindOutcome {
        files: files
            .iter()
            .map(|(name, insertions, deletions)| RewoundFile {
                path: project.join(name),
                insertions: *insertions,
                deletions: *deletions,
                ..RewoundFile::default()
            })
            .collect(),
        ..RewindOutcome::default()
    };
    let previewed = rewind(&bench.handle, "p2", true).await.unwrap();
    assert_eq!((previewed.insertions(), previewed.deletions()), (1, 1));
    assert_eq!(previewed.files[0].hunks[0].lines, ["-four", "+three"], "a preview has the lines");
    assert_eq!(read(&project, "old").as_deref(), Some("four\n"), "a dry run changes nothing");
    assert_eq!(rewind(&bench.handle, "p2", false).await, Ok(changed(&[("old", 1, 1)])));
    assert_eq!(read(&project, "old").as_deref(), Some("three\n"));
    let all = changed(&[("old", 1, 1), ("new", 0, 1)]);
    assert_eq!(rewind(&bench.handle, "p1", false).await, Ok(all));
    assert_eq!((read(&project, "old").as_deref(), read(&project, "new")), (Some("zero\n"), None));
    assert_eq!(rewind(&bench.handle, "p1", false).await, Ok(RewindOutcome::default()), "nothing is left to do");
    let again = changed(&[("old", 1, 1), ("new", 1, 0)]);
    assert_eq!(rewind(&bench.handle, "p2", false).await, Ok(again), "a later prompt can be gone back to as well");
    assert_eq!((read(&project, "old").as_deref(), read(&project, "new").as_deref()), (Some("three\n"), Some("made\n")));
    assert_eq!(bench.model.requests().len(), 4, "the conversation is left alone");
    bench.close().await;
}

#[tokio::test]
async fn links_that_came_in_the_place_of_a_file_are_skipped_and_counted() {
    let mut bench = bench(true, vec![scribbles("a", &[("soft", "x"), ("hard", "x")]), done()]);
    let project = bench.dir.path().canonicalize().unwrap();
    prompt(&mut bench, "p1").await;
    std::fs::write(project.join("precious"), "precious").unwrap();
    std::fs::remove_file(project.join("soft")).unwrap();
    symlink("precious", project.join("soft")).unwrap();
    std::fs::hard_link(project.join("hard"), project.join("second name")).unwrap();
    assert_eq!(
        rewind(&bench.handle, "p1", false).await,
        Ok(RewindOutcome { skipped_links: 2, ..RewindOutcome::default() })
    );
    assert_eq!(read(&project, "precious").as_deref(), Some("precious"));
    assert!(project.join("hard").exists() && project.join("soft").is_symlink());
    bench.close().await;
}

#[tokio::test]
async fn what_nobody_knows_and_what_nobody_kept_are_two_errors() {
    let mut kept = bench(true, vec![done()]);
    prompt(&mut kept, "p1").await;
    assert_eq!(rewind(&kept.handle, "p1", false).await, Ok(RewindOutcome::default()));
    assert_eq!(rewind(&kept.handle, "p2", false).await, Err("No file checkpoint found for this message.".to_owned()));
    kept.close().await;
    let mut off = bench(false, vec![done()]);
    prompt(&mut off, "p1").await;
    assert_eq!(rewind(&off.handle, "p1", false).await, Err("File rewinding is not enabled.".to_owned()));
    off.close().await;
}

#[tokio::test]
async fn a_file_that_somebody_else_read_counts_as_read_unless_it_changed_since() {
    let mut bench = bench(false, vec![scribbles("a", &[("same", "x"), ("changed", "x")]), done()]);
    let project = bench.dir.path().canonicalize().unwrap();
    for (name, later) in [("same", 0), ("changed", 1)] {
        std::fs::write(project.join(name), "text").unwrap();
        let modified = project.join(name).metadata().unwrap().modified().unwrap();
        let since_epoch = modified.duration_since(std::time::UNIX_EPOCH).unwrap();
        let mtime_ms = u64::try_from(since_epoch.as_millis()).unwrap() - later;
        let (reply, answer) = OpReply::channel();
        bench.handle.send(Op::SeedRead { path: name.into(), mtime_ms, reply });
        assert_eq!(answer.await.unwrap(), Ok(()));
    }
    bench.run("go").await;
    let told: Vec<String> = bench.results(1).into_iter().map(|(_, _, text)| text).collect();
    assert_eq!(told, ["known: true", "known: false"]);
    let (reply, answer) = OpReply::channel();
    bench.handle.send(Op::SeedRead { path: "missing".into(), mtime_ms: 0, reply });
    assert!(answer.await.unwrap().is_err());
    bench.close().await;
}

#[tokio::test]
async fn how_full_the_context_is_can_be_asked_while_a_turn_runs() {
    let hang = reply(&[call("a", "Touch", json!({"name": "a", "manner": "hang"}))]);
    let mut bench = bench(false, vec![hang]);
    bench.say("go");
    bench.log.gate.notified().await;
    let (reply, answer) = OpReply::channel();
    bench.handle.send(Op::ContextUsage { reply });
    let usage: ContextUsage = answer.await.unwrap().unwrap();
    assert_eq!((usage.model.as_str(), usage.max_tokens), ("test", 200_000));
    let names: Vec<&str> = usage.categories.iter().map(|category| category.name).collect();
    assert_eq!(names.first(), Some(&"System prompt"));
    let kinds: Vec<ContextKind> = usage.categories.iter().rev().take(2).map(|category| category.kind).collect();
    assert_eq!(kinds, [ContextKind::Buffer, ContextKind::Free]);
    assert_eq!((usage.model_window, usage.compaction_limit), (200_000, Some(187_000)));
    assert!(usage.tools.iter().any(|tool| tool.name == "Touch"), "{usage:?}");
    bench.handle.send(Op::interrupt());
    bench.turn(|_, _| {}).await;
    bench.close().await;
}
