use serde_json::{Value, json};

use super::*;

/// What a file's calls in this order make of its present lines.
fn judged(outputs: &[Value], now: &[&str]) -> Standing {
    let mut knowledge = Knowledge::default();
    for output in outputs {
        if let Ok(output) = serde_json::from_value(output.clone()) {
            knowledge.learn(output);
        }
    }
    knowledge.judge(now)
}

fn page(content: &str, start: usize, lines: usize, total: usize) -> Value {
    json!({"type": "text", "file": {"filePath": "/f", "content": content, "startLine": start, "numLines": lines,
           "totalLines": total}})
}

fn edited(original: Option<&str>, lines: &[&str], start: usize) -> Value {
    let (old, new) = (count(lines, '+'), count(lines, '-'));
    json!({"filePath": "/f", "oldString": "", "newString": "", "originalFile": original, "structuredPatch":
           [{"oldStart": start, "oldLines": old, "newStart": start, "newLines": new, "lines": lines}]})
}

fn count(lines: &[&str], without: char) -> usize {
    lines.iter().filter(|line| !line.starts_with([without, '\\'])).count()
}

#[test]
fn what_was_shown_holds_as_long_as_the_lines_stand() {
    let whole = page("a\r\nb\r\n", 1, 2, 2);
    let part = page("b\nc", 2, 2, 4);
    let cut = json!({"type": "text", "file": {"filePath": "/f", "content": "a\n", "startLine": 1, "numLines": 1,
                     "totalLines": 9, "truncatedByTokenCap": true}});
    let rest = [page("a", 1, 1, 4), page("d\n", 4, 1, 4)];
    let table: [(&[Value], &[&str], Standing); 12] = [
        (&[], &["a"], Standing::Unread),
        (std::slice::from_ref(&whole), &["a", "b"], Standing::Whole),
        (std::slice::from_ref(&whole), &["a", "x"], Standing::Stale),
        (&[page("", 1, 0, 0)], &[], Standing::Whole),
        (&[page("", 9, 0, 2)], &["a", "b"], Standing::Unread),
        (std::slice::from_ref(&part), &["x", "b", "c"], Standing::Parts),
        (std::slice::from_ref(&part), &["x", "y", "b", "c"], Standing::Stale),
        (std::slice::from_ref(&part), &["x", "b"], Standing::Stale),
        (&[part.clone(), rest[0].clone(), rest[1].clone()], &["a", "b", "c", "d"], Standing::Whole),
        (&[whole.clone(), page("z", 2, 1, 2)], &["a", "b"], Standing::Stale),
        (&[cut, json!({"type": "file_unchanged", "file": {"filePath": "/f"}})], &["a"], Standing::FirstPage),
        (&[json!("Error: no such file"), json!({"errorClass": "failed"})], &["a"], Standing::Unread),
    ];
    for (outputs, now, expected) in table {
        assert_eq!(judged(outputs, now), expected, "{outputs:?} {now:?}");
    }
}

#[test]
fn what_was_written_is_known_with_its_changes() {
    let written = json!({"type": "create", "filePath": "/f", "content": "a\nb\n", "structuredPatch": [],
                         "originalFile": null});
    let change = edited(Some("a\nb\n"), &[" a", "-b", "+c", "\\ No newline at end of file"], 1);
    let table: [(&[Value], &[&str], Standing); 8] = [
        (std::slice::from_ref(&written), &["a", "b"], Standing::Whole),
        (&[written.clone(), change.clone()], &["a", "c"], Standing::Whole),
        (&[written.clone(), change.clone()], &["a", "b"], Standing::Stale),
        // Without the old content in the output, as for large files.
        (&[written.clone(), edited(None, &[" a", "-b", "+c"], 1)], &["a", "c"], Standing::Whole),
        (&[page("b", 2, 1, 9), edited(None, &["-b", "+c"], 2)], &["x", "c", "y"], Standing::Parts),
        // The edit met other content than the model had seen.
        (&[page("a\n", 1, 1, 1), change.clone()], &["a", "c"], Standing::Parts),
        (std::slice::from_ref(&change), &["a", "c"], Standing::Parts),
        // A new file, made by an edit.
        (&[edited(None, &["+a", "+b"], 1)], &["a", "b"], Standing::Whole),
    ];
    for (outputs, now, expected) in table {
        assert_eq!(judged(outputs, now), expected, "{outputs:?} {now:?}");
    }
}

#[test]
fn what_a_command_printed_is_known_with_or_without_line_numbers() {
    let printed = |stdout: &str| json!({"stdout": stdout, "stderr": "", "interrupted": false});
    assert_eq!(judged(&[printed("a\nb")], &["a", "b"]), Standing::Whole);
    assert_eq!(judged(&[printed("     1\ta\n     2\tb\n")], &["a", "b"]), Standing::Whole);
    assert_eq!(judged(&[printed("a")], &["a", "b"]), Standing::Stale);
}
