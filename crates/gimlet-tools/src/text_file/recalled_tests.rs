use serde_json::{Value, json};

use super::*;

/// Returns the read state for the present lines after a file's calls in this order.
fn read_state_after(outputs: &[Value], now: &[&str]) -> ReadState {
    let mut knowledge = ReplayedContent::default();
    for output in outputs {
        if let Ok(output) = serde_json::from_value(output.clone()) {
            knowledge.learn(output);
        }
    }
    knowledge.read_state(now)
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
    let table: [(&[Value], &[&str], ReadState); 12] = [
        (&[], &["a"], ReadState::Unread),
        (std::slice::from_ref(&whole), &["a", "b"], ReadState::Whole),
        (std::slice::from_ref(&whole), &["a", "x"], ReadState::Stale),
        (&[page("", 1, 0, 0)], &[], ReadState::Whole),
        (&[page("", 9, 0, 2)], &["a", "b"], ReadState::Unread),
        (std::slice::from_ref(&part), &["x", "b", "c"], ReadState::Parts),
        (std::slice::from_ref(&part), &["x", "y", "b", "c"], ReadState::Stale),
        (std::slice::from_ref(&part), &["x", "b"], ReadState::Stale),
        (&[part.clone(), rest[0].clone(), rest[1].clone()], &["a", "b", "c", "d"], ReadState::Whole),
        (&[whole.clone(), page("z", 2, 1, 2)], &["a", "b"], ReadState::Stale),
        (&[cut, json!({"type": "file_unchanged", "file": {"filePath": "/f"}})], &["a"], ReadState::FirstPage),
        (&[json!("Error: no such file"), json!({"errorClass": "failed"})], &["a"], ReadState::Unread),
    ];
    for (outputs, now, expected) in table {
        assert_eq!(read_state_after(outputs, now), expected, "{outputs:?} {now:?}");
    }
}

#[test]
fn what_was_written_is_known_with_its_changes() {
    let written = json!({"type": "create", "filePath": "/f", "content": "a\nb\n", "structuredPatch": [],
                         "originalFile": null});
    let change = edited(Some("a\nb\n"), &[" a", "-b", "+c", "\\ No newline at end of file"], 1);
    let table: [(&[Value], &[&str], ReadState); 8] = [
        (std::slice::from_ref(&written), &["a", "b"], ReadState::Whole),
        (&[written.clone(), change.clone()], &["a", "c"], ReadState::Whole),
        (&[written.clone(), change.clone()], &["a", "b"], ReadState::Stale),
        // Without the old content in the output, as for large files.
        (&[written.clone(), edited(None, &[" a", "-b", "+c"], 1)], &["a", "c"], ReadState::Whole),
        (&[page("b", 2, 1, 9), edited(None, &["-b", "+c"], 2)], &["x", "c", "y"], ReadState::Parts),
        // The edit met other content than the model had seen.
        (&[page("a\n", 1, 1, 1), change.clone()], &["a", "c"], ReadState::Parts),
        (std::slice::from_ref(&change), &["a", "c"], ReadState::Parts),
        // A new file, made by an edit.
        (&[edited(None, &["+a", "+b"], 1)], &["a", "b"], ReadState::Whole),
    ];
    for (outputs, now, expected) in table {
        assert_eq!(read_state_after(outputs, now), expected, "{outputs:?} {now:?}");
    }
}

#[test]
fn what_a_command_printed_is_known_with_or_without_line_numbers() {
    let printed = |stdout: &str| json!({"stdout": stdout, "stderr": "", "interrupted": false});
    assert_eq!(read_state_after(&[printed("a\nb")], &["a", "b"]), ReadState::Whole);
    assert_eq!(read_state_after(&[printed("     1\ta\n     2\tb\n")], &["a", "b"]), ReadState::Whole);
    assert_eq!(read_state_after(&[printed("a")], &["a", "b"]), ReadState::Stale);
}
