//! Previews of Edit, MultiEdit and Write against real files.

use gimlet_core::tool::AnyTool;
use serde_json::{Value, json};

use super::*;
use crate::harness::ToolBench;

/// The preview of a call of which rules let `readable` be read.
fn preview(bench: &ToolBench, tool: &dyn AnyTool, input: Value, readable: bool) -> View {
    let paths = bench.services().paths();
    let prepared = tool.prepare(input, &paths).unwrap();
    let path = prepared.path.clone().unwrap();
    let file = if readable { Ok(path.clone()) } else { Err("rules deny reading it".to_owned()) };
    prepared.preview(tool, &PreviewContext::new(paths, vec![(path, file)]))
}

fn lines(view: View) -> Vec<String> {
    let View::Diff { hunks, .. } = view else { panic!("{view:?}") };
    hunks.into_iter().flat_map(|hunk| hunk.lines).collect()
}

fn text(view: View) -> String {
    let View::Text(text) = view else { panic!("{view:?}") };
    text
}

#[test]
fn edits_and_writes_show_the_diff_that_they_would_make_and_make_none() {
    let bench = ToolBench::new();
    bench.file("a.txt", "one\r\ntwo\r\n");
    let edit = json!({"file_path": "a.txt", "old_string": "two", "new_string": "2"});
    assert_eq!(lines(preview(&bench, &crate::edit::Edit, edit, true)), [" one", "-two", "+2"]);
    let edits = json!([{"old_string": "one", "new_string": "1"}, {"old_string": "two", "new_string": "2"}]);
    let multi = json!({"file_path": "a.txt", "edits": edits});
    assert_eq!(lines(preview(&bench, &crate::multi_edit::MultiEdit, multi, true)), ["-one", "-two", "+1", "+2"]);
    let write = json!({"file_path": "a.txt", "content": "one\r\nthree\r\n"});
    assert_eq!(lines(preview(&bench, &crate::write::Write, write, true)), [" one", "-two", "+three"]);
    let new = json!({"file_path": "b.txt", "content": "new\n"});
    assert_eq!(lines(preview(&bench, &crate::write::Write, new, true)), ["+new"]);
    assert_eq!(bench.text("a.txt"), "one\r\ntwo\r\n");
    assert_eq!(bench.names(), ["a.txt"]);
}

#[test]
fn a_preview_that_cannot_be_made_says_why() {
    let bench = ToolBench::new();
    bench.file("a.txt", "one\n");
    bench.file("b.bin", [0xff, 0xfe, 0x00]);
    bench.file("huge.txt", vec![b'x'; usize::try_from(MOST_BYTES).unwrap() + 1]);
    let edit = |file: &str, old: &str| json!({"file_path": file, "old_string": old, "new_string": "2"});
    for (input, readable, why) in [
        (edit("a.txt", "one"), false, "rules deny reading it"),
        (edit("a.txt", "two"), true, "was not found"),
        (edit("missing.txt", "two"), true, "does not exist"),
        (edit("b.bin", "two"), true, "is not text"),
        (edit("huge.txt", "x"), true, "too much to load"),
    ] {
        let said = text(preview(&bench, &crate::edit::Edit, input.clone(), readable));
        assert!(said.starts_with("no preview: ") && said.contains(why), "{input}: {said}");
    }
}
