//! Writing real files: what may be overwritten, and what becomes of it.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use gimlet_core::tool::AnyTool;
use gimlet_proto::Env;
use serde_json::{Value, json};

use super::*;
use crate::edit::Edit;
use crate::harness::{ToolBench, ToolCallResult, backdate};
use crate::read::Read;

async fn read(bench: &mut ToolBench, name: &str) {
    let path = bench.path(name);
    bench.call(&Read, json!({"file_path": path})).await.unwrap();
}

async fn write(bench: &mut ToolBench, name: &str, content: &str) -> Result<ToolCallResult, ToolError> {
    let path = bench.path(name);
    bench.call(&Write, json!({"file_path": path, "content": content})).await
}

#[test]
fn inputs_tell_what_they_need() {
    let bench = ToolBench::new();
    let (needs, description) = bench.prepare(&Write, json!({"file_path": "a/b.rs", "content": ""})).unwrap();
    assert_eq!((needs, description.as_str()), (vec![AccessNeed::Write(bench.path("a/b.rs"))], "a/b.rs"));
    let prepared =
        AnyTool::prepare(&Write, json!({"file_path": "/a", "content": ""}), &bench.services().paths()).unwrap();
    assert!(!prepared.read_only && !prepared.concurrency_safe);
    assert!(bench.prepare(&Write, json!({"file_path": "/dev/sda", "content": ""})).is_err());
    assert!(bench.prepare(&Write, json!({"file_path": "undefined", "content": ""})).is_err());
    assert_eq!(AnyTool::on_interrupt(&Write), InterruptBehavior::FinishAtomically);
}

#[tokio::test]
async fn a_new_file_is_created_with_its_folders_and_can_be_overwritten_at_once() {
    let mut bench = ToolBench::new();
    let path = bench.path("a/b/new.txt");
    let given = write(&mut bench, "a/b/new.txt", "one\r\ntwo  \n").await.unwrap();
    assert_eq!(
        given.output,
        json!({"type":"create","filePath":path,"content":"one\r\ntwo  \n","structuredPatch":[],"originalFile":Value::Null})
    );
    assert_eq!(bench.bytes("a/b/new.txt"), b"one\r\ntwo  \n");
    let View::Diff { hunks, .. } = given.view else { panic!() };
    assert_eq!(hunks[0].lines, ["+one", "+two  "]);
    let given = write(&mut bench, "a/b/new.txt", "three\n").await.unwrap();
    assert_eq!((&given.output["type"], &given.output["originalFile"]), (&json!("update"), &json!("one\r\ntwo  \n")));
    assert_eq!(
        given.output["structuredPatch"],
        json!([{"oldStart":1,"oldLines":2,"newStart":1,"newLines":1,"lines":["-one","-two  ","+three"]}])
    );
}

#[tokio::test]
async fn nothing_unseen_is_overwritten() {
    let mut bench = ToolBench::new();
    bench.file("a.txt", (1..=50).map(|n| format!("{n}\n")).collect::<String>());
    let refused = |result: Result<ToolCallResult, ToolError>| result.unwrap_err().model_text;
    assert!(refused(write(&mut bench, "a.txt", "x").await).contains("have not read"));
    let path = bench.path("a.txt");
    bench.call(&Read, json!({"file_path": path, "limit": 20})).await.unwrap();
    assert!(refused(write(&mut bench, "a.txt", "x").await).contains("only in part"));
    bench.call(&Read, json!({"file_path": path, "offset": 21, "limit": 40})).await.unwrap();
    std::fs::write(&path, "changed\n").unwrap();
    assert!(refused(write(&mut bench, "a.txt", "x").await).contains("changed since"));
    read(&mut bench, "a.txt").await;
    write(&mut bench, "a.txt", "x").await.unwrap();
    assert_eq!((bench.text("a.txt").as_str(), bench.names()), ("x", vec!["a.txt".to_owned()]));
}

#[tokio::test]
async fn ranges_without_gaps_are_a_whole_and_a_touch_is_no_change() {
    let mut bench = ToolBench::new();
    let path = bench.file("a.txt", "1\n2\n3\n");
    bench.call(&Read, json!({"file_path": path, "limit": 2})).await.unwrap();
    bench.call(&Read, json!({"file_path": path, "offset": 3})).await.unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(std::time::SystemTime::now()).unwrap();
    write(&mut bench, "a.txt", "x").await.unwrap();
    assert_eq!((bench.text("a.txt").as_str(), bench.names()), ("x", vec!["a.txt".to_owned()]));
}

#[tokio::test]
async fn an_empty_file_needs_no_read_and_a_file_that_is_no_text_is_kept() {
    let mut bench = ToolBench::new();
    bench.file("empty", "");
    write(&mut bench, "empty", "x").await.unwrap();
    bench.file("latin", b"caf\xE9");
    read(&mut bench, "latin").await;
    let error = write(&mut bench, "latin", "caf\u{FFFD}").await.unwrap_err();
    assert!(error.model_text.contains("not text"), "{error}");
    assert_eq!(bench.bytes("latin"), b"caf\xE9");
}

#[tokio::test]
async fn encoding_and_mark_are_kept() {
    let mut bench = ToolBench::new();
    bench.file("wide", b"\xFF\xFEa\0\n\0");
    bench.file("marked", b"\xEF\xBB\xBFa\n");
    for name in ["wide", "marked"] {
        read(&mut bench, name).await;
        write(&mut bench, name, "\u{FEFF}\u{e9}\n").await.unwrap();
    }
    assert_eq!(bench.bytes("wide"), b"\xFF\xFE\xE9\0\n\0");
    assert_eq!(bench.bytes("marked"), b"\xEF\xBB\xBF\xC3\xA9\n");
}

#[tokio::test]
async fn placeholders_for_lost_code_are_refused() {
    let mut bench = ToolBench::new();
    bench.file("a.rs", "fn a() {}\nfn b() {}\n");
    read(&mut bench, "a.rs").await;
    let error = write(&mut bench, "a.rs", "fn a() { 1 }\n// ... rest of the code unchanged\n").await.unwrap_err();
    assert!(error.model_text.contains("placeholder"), "{error}");
    assert_eq!(bench.text("a.rs"), "fn a() {}\nfn b() {}\n");
}

#[tokio::test]
async fn a_link_stays_and_its_target_is_written() {
    let mut bench = ToolBench::new();
    bench.file("target", "old");
    symlink("target", bench.path("link")).unwrap();
    symlink("nowhere", bench.path("dangling")).unwrap();
    read(&mut bench, "link").await;
    write(&mut bench, "link", "new").await.unwrap();
    write(&mut bench, "dangling", "made").await.unwrap();
    assert_eq!((bench.text("target").as_str(), bench.text("nowhere").as_str()), ("new", "made"));
    assert!(bench.path("link").is_symlink() && bench.path("dangling").is_symlink());
    write(&mut bench, "target", "by its own name").await.unwrap();
}

#[tokio::test]
async fn what_is_not_a_file_is_refused_and_the_same_content_is_not_written_again() {
    let mut bench = ToolBench::new();
    std::fs::create_dir(bench.path("folder")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, bench.path("fifo"), rustix::fs::Mode::RUSR).unwrap();
    assert!(write(&mut bench, "folder", "x").await.unwrap_err().model_text.contains("directory"));
    assert!(write(&mut bench, "fifo", "x").await.unwrap_err().model_text.contains("named pipe"));
    let path = bench.file("same", "x");
    read(&mut bench, "same").await;
    let before = path.metadata().unwrap();
    write(&mut bench, "same", "x").await.unwrap();
    assert_eq!(path.metadata().unwrap().ino(), before.ino());
    backdate(&path);
}

#[tokio::test]
async fn rewriting_ten_megabytes_ends_in_time() {
    let mut bench = ToolBench::new();
    bench.env = bench.env.clone().with("GIMLET_FILE_READ_MAX_OUTPUT_TOKENS", "1e9");
    bench.file("big", "some old line of text\n".repeat(450_000));
    read(&mut bench, "big").await;
    let began = std::time::Instant::now();
    write(&mut bench, "big", &"an entirely new line\n".repeat(450_000)).await.unwrap();
    assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn the_description_stays_short() {
    assert!(include_str!("../write.md").len() <= 500, "every request carries it");
}

#[tokio::test]
async fn under_perforce_a_file_that_is_not_opened_is_refused_with_the_command_that_opens_it() {
    let mut bench = ToolBench::new();
    for (name, word) in [("a.txt", "a.txt"), ("it's here.txt", r"it'\''s here.txt'")] {
        let path = bench.file(name, "old\n");
        // The group may write it; Perforce checks the owner.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o460)).unwrap();
        read(&mut bench, name).await;
        bench.env = Env::default().with("CLAUDE_CODE_PERFORCE_MODE", "1");
        let edit = json!({"file_path": path, "old_string": "old", "new_string": "new"});
        for refused in [write(&mut bench, name, "new\n").await, bench.call(&Edit, edit).await] {
            let text = refused.unwrap_err().model_text;
            assert!(text.contains("`p4 edit ") && text.contains(&format!("{word}`")), "{text}");
        }
        assert_eq!(bench.text(name), "old\n");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        write(&mut bench, name, "new\n").await.unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
        bench.env = Env::default();
        let text = write(&mut bench, name, "newer\n").await.unwrap_err().model_text;
        assert!(text.contains("is read-only") && !text.contains("p4"), "{text}");
    }
    write(&mut bench, "created.txt", "x").await.unwrap();
}
