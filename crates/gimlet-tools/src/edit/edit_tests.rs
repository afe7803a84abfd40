//! Editing real files: what must be known first, what is found, and what stays as it was.

use std::sync::Arc;

use gimlet_core::tool::AnyTool;
use serde_json::{Value, json};

use super::*;
use crate::harness::{ToolBench, ToolCallResult};
use crate::read::Read;

async fn read(bench: &mut ToolBench, name: &str) {
    let path = bench.path(name);
    bench.call(&Read, json!({"file_path": path})).await.unwrap();
}

async fn edit(bench: &mut ToolBench, name: &str, old: &str, new: &str) -> Result<ToolCallResult, ToolError> {
    let path = bench.path(name);
    bench.call(&Edit, json!({"file_path": path, "old_string": old, "new_string": new})).await
}

/// A file that was read.
async fn known(content: impl AsRef<[u8]>) -> ToolBench {
    let mut bench = ToolBench::new();
    bench.file("f", content);
    read(&mut bench, "f").await;
    bench
}

#[test]
fn inputs_tell_what_they_need() {
    let bench = ToolBench::new();
    let input = json!({"path": "a.rs", "oldString": "x", "newString": "y", "replace_all": "true"});
    let (needs, description) = bench.prepare(&Edit, input).unwrap();
    assert_eq!((needs, description.as_str()), (vec![AccessNeed::Write(bench.path("a.rs"))], "a.rs"));
    let refused = |path: &str, old: &str, new: &str| {
        bench.prepare(&Edit, json!({"file_path": path, "old_string": old, "new_string": new})).unwrap_err().model_text
    };
    assert!(refused("a.rs", "x", "x").contains("the same"));
    assert!(bench.prepare(&Edit, json!({"file_path": "a", "old_string": "\"", "new_string": "\u{201C}"})).is_ok());
    assert!(refused("a.ipynb", "x", "y").contains("NotebookEdit"));
    assert!(refused("/dev/null", "x", "y").contains("device"));
    assert_eq!(AnyTool::on_interrupt(&Edit), InterruptBehavior::FinishAtomically);
}

#[tokio::test]
async fn an_edit_has_the_public_shape() {
    let mut bench = known("a\nb\nc\n").await;
    let given = edit(&mut bench, "f", "b", "B").await.unwrap();
    assert_eq!(
        given.output,
        json!({"filePath": bench.path("f"), "oldString":"b","newString":"B","originalFile":"a\nb\nc\n",
               "structuredPatch":[{"oldStart":1,"oldLines":3,"newStart":1,"newLines":3,"lines":[" a","-b","+B"," c"]}],
               "userModified":false,"replaceAll":false})
    );
    assert_eq!(given.text, format!("Edited {} at line 2.", bench.path("f").display()));
    assert!(matches!(given.view, View::Diff { hunks, .. } if hunks.len() == 1));
    assert_eq!((bench.text("f").as_str(), bench.names()), ("a\nB\nc\n", vec!["f".to_owned()]));
    edit(&mut bench, "f", "c", "C").await.unwrap();
    assert_eq!(bench.text("f"), "a\nB\nC\n");
}

#[tokio::test]
async fn a_file_must_be_known_and_a_first_page_is_not_enough() {
    let mut bench = ToolBench::new();
    bench.env = bench.env.clone().with("GIMLET_FILE_READ_MAX_OUTPUT_TOKENS", "100");
    bench.file("f", (1..=500).map(|n| format!("line {n}\n")).collect::<String>());
    assert!(edit(&mut bench, "f", "line 7\n", "x").await.unwrap_err().model_text.contains("has not been read"));
    read(&mut bench, "f").await;
    assert!(edit(&mut bench, "f", "line 7\n", "x").await.unwrap_err().model_text.contains("only its first page"));
    let path = bench.path("f");
    bench.call(&Read, json!({"file_path": path, "offset": 5, "limit": 5})).await.unwrap();
    edit(&mut bench, "f", "line 7\n", "x\n").await.unwrap();
    edit(&mut bench, "f", "line 8\n", "y\n").await.unwrap();
    let write = bench.call(&crate::write::Write, json!({"file_path": path, "content": "z"})).await;
    assert!(write.unwrap_err().model_text.contains("only in part"), "an edit does not make a part a whole");
    let again = bench.call(&Read, json!({"file_path": path, "offset": 5, "limit": 5})).await.unwrap();
    assert_eq!(again.output["type"], "text", "the earlier view shows the old lines");
}

#[tokio::test]
async fn a_changed_file_can_be_edited_only_beyond_doubt() {
    let mut bench = known("a\nb\n").await;
    std::fs::write(bench.path("f"), "new first line\na\nb\n").unwrap();
    let given = edit(&mut bench, "f", "b", "B").await.unwrap();
    assert!(given.text.contains("other changes since you read it"), "{}", given.text);
    assert_eq!(bench.text("f"), "new first line\na\nB\n");

    let mut bench = known("a\nb\n").await;
    std::fs::write(bench.path("f"), "b\nb\n\u{201C}q\u{201D}\n").unwrap();
    for (old, new) in [("b", "x"), ("a", "x"), ("\"q\"", "x")] {
        assert!(edit(&mut bench, "f", old, new).await.unwrap_err().model_text.contains("changed since"), "{old}");
    }

    let mut bench = known("a\n").await;
    std::fs::write(bench.path("f"), "a\nz\n").unwrap();
    bench.state.roots.clear();
    let error = edit(&mut bench, "f", "a", "b").await.unwrap_err().model_text;
    assert!(error.contains("may not be looked at unasked"), "{error}");
}

#[tokio::test]
async fn a_touched_file_with_equal_content_is_not_changed() {
    let mut bench = known("a a\n").await;
    let file = std::fs::File::options().write(true).open(bench.path("f")).unwrap();
    file.set_modified(std::time::SystemTime::now()).unwrap();
    let path = bench.path("f");
    let input = json!({"file_path": path, "old_string": "a", "new_string": "b", "replace_all": true});
    assert!(bench.call(&Edit, input).await.unwrap().text.contains("2 replacements"));
    assert_eq!(bench.text("f"), "b b\n");
}

#[tokio::test]
async fn line_ends_marks_and_encodings_survive() {
    let utf16 = |text: &str| crate::text_file::TextEncoding::Utf16Le.encode(text).into_owned();
    for (before, old, new, after) in [
        (b"a\r\nb\r\n".to_vec(), "a\nb", "a\nx\nb", b"a\r\nx\r\nb\r\n".to_vec()),
        (b"a\r\nb\r\n".to_vec(), "a\r\nb", "c\r\nd", b"c\r\nd\r\n".to_vec()),
        (b"a\r\nb\nc\r\n".to_vec(), "b\n", "B\n", b"a\r\nB\nc\r\n".to_vec()),
        (b"a\r\nb\nc\r\n".to_vec(), "b", "", b"a\r\nc\r\n".to_vec()),
        (utf16("a\r\nb"), "b", "\u{1F600}", utf16("a\r\n\u{1F600}")),
        (b"\xEF\xBB\xBFa\n".to_vec(), "a", "b  ", b"\xEF\xBB\xBFb  \n".to_vec()),
    ] {
        let mut bench = known(&before).await;
        edit(&mut bench, "f", old, new).await.unwrap();
        assert_eq!(bench.bytes("f"), after, "{old:?} -> {new:?}");
    }
    let mut bench = known(b"caf\xE9 a\n").await;
    assert!(edit(&mut bench, "f", "a", "b").await.unwrap_err().model_text.contains("not valid UTF-8"));
    assert_eq!(bench.bytes("f"), b"caf\xE9 a\n");
}

#[tokio::test]
async fn fallbacks_are_told_and_doubt_names_the_lines() {
    let mut bench = known("say \u{201C}hi\u{201D}\n").await;
    let given = edit(&mut bench, "f", "\"hi\"", "'ho'").await.unwrap();
    assert!(given.text.contains("quotes"), "{}", given.text);
    assert_eq!(bench.text("f"), "say 'ho'\n");

    let mut bench = known("\u{2018}a\u{2019}\n\u{2018}a'\n").await;
    let error = edit(&mut bench, "f", "'a'", "b").await.unwrap_err().model_text;
    assert!(error.contains("2 times") && error.contains("lines 1, 2") && error.contains("form of quotes"), "{error}");

    let mut bench = known("one\ntwo\n").await;
    assert!(edit(&mut bench, "f", "2\ttwo", "2\tzwei").await.unwrap().text.contains("line numbers"));
    assert_eq!(bench.text("f"), "one\nzwei\n");
}

#[tokio::test]
async fn a_text_that_is_not_there_gets_the_closest_place() {
    let mut bench = known("fn a() {\n\tlet x = 1;\n}\n").await;
    let error = edit(&mut bench, "f", "    let x = 1;", "y").await.unwrap_err().model_text;
    assert!(error.contains("2\t\tlet x = 1;") && error.contains("white space"), "{error}");
    let error = edit(&mut bench, "f", "let z = 9;", "let x = 1;").await.unwrap_err().model_text;
    assert!(error.contains("may have been made before"), "{error}");
}

#[tokio::test]
async fn leniency_is_off_unless_asked_for() {
    let mut bench = known("fn a() {\n\tlet x = 1;\n}\n").await;
    assert!(edit(&mut bench, "f", "\t\tlet x = 1;\n", "\t\tlet y = 2;\n").await.is_err());
    bench.env = bench.env.clone().with("GIMLET_EDIT_LENIENT", "1");
    let given = edit(&mut bench, "f", "\t\tlet x = 1;\n", "\t\tlet y = 2;\n").await.unwrap();
    assert!(given.text.contains("ignores indentation"), "{}", given.text);
    assert_eq!(bench.text("f"), "fn a() {\n\tlet y = 2;\n}\n");
}

#[tokio::test]
async fn an_empty_old_string_creates_or_fills_and_nothing_else() {
    let mut bench = ToolBench::new();
    let given = edit(&mut bench, "new/f", "", "a\n").await.unwrap();
    assert_eq!((bench.text("new/f").as_str(), &given.output["originalFile"]), ("a\n", &Value::Null));
    bench.file("blank", " \n\n");
    edit(&mut bench, "blank", "", "x\n").await.unwrap();
    assert_eq!(bench.text("blank"), "x\n");
    bench.file("full", "content");
    assert!(edit(&mut bench, "full", "", "x").await.unwrap_err().model_text.contains("use Write"));
    assert_eq!(bench.text("full"), "content");
}

#[tokio::test]
async fn missing_files_and_folders_are_explained() {
    let mut bench = ToolBench::new();
    bench.file("main.rs", "x");
    assert!(edit(&mut bench, "mian.rs", "a", "b").await.unwrap_err().model_text.contains("Did you mean"));
    std::fs::create_dir(bench.path("folder")).unwrap();
    assert!(edit(&mut bench, "folder", "a", "b").await.unwrap_err().model_text.contains("directory"));
    std::fs::File::create(bench.path("huge")).unwrap().set_len((1 << 30) + 1).unwrap();
    assert!(edit(&mut bench, "huge", "a", "b").await.unwrap_err().model_text.contains("too much to load"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_edits_at_once_all_arrive() {
    let content: String = (0..16).map(|n| format!("<{n}>\n")).collect();
    let bench = Arc::new(known(&content).await);
    let services = bench.services();
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..16 {
        let (bench, services) = (bench.clone(), services.clone());
        calls.spawn(async move {
            let input =
                json!({"file_path": bench.path("f"), "old_string": format!("<{n}>"), "new_string": format!("[{n}]")});
            bench.call_on(&services, &Edit, input).await.map(drop).unwrap();
        });
    }
    calls.join_all().await;
    assert_eq!(bench.text("f"), content.replace('<', "[").replace('>', "]"));
    assert_eq!(bench.names(), ["f"]);
}

#[tokio::test]
async fn a_lock_of_another_process_is_waited_for() {
    let mut bench = known("a\n").await;
    let file = std::fs::File::open(bench.path("f")).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let waited = tokio::time::timeout(std::time::Duration::from_millis(50), edit(&mut bench, "f", "a", "b")).await;
    assert!(waited.is_err(), "it did not wait");
    assert_eq!(bench.text("f"), "a\n");
    drop(file);
    edit(&mut bench, "f", "a", "b").await.unwrap();
}

#[test]
fn the_description_stays_short() {
    assert!(include_str!("../edit.md").len() <= 900, "every request carries it");
}
