//! What results say about a change of a file: its content before, and a notice about a change that was amended.

use gimlet_proto::DiffHunk;

/// Old content above this size is omitted: the hunks show what changed, and every transcript stores this text.
const MOST_ORIGINAL: usize = 64 * 1024;

/// Returns a file's content before a change, for programs; `None` if it is too large.
pub(crate) fn original(text: &str) -> Option<String> {
    (text.len() <= MOST_ORIGINAL).then(|| text.to_owned())
}

/// Returns the notice to the model about a change that differs from the requested one.
pub(crate) fn amended_notice(hunks: &[DiffHunk]) -> String {
    let mut text = "Your input was changed when the call was approved.".to_owned();
    if hunks.is_empty() {
        text.push_str(" Read the file to see what it has now.");
        return text;
    }
    text.push_str(" This is what was changed in the file:");
    for hunk in hunks {
        let DiffHunk { old_start, old_lines, new_start, new_lines, lines } = hunk;
        text.push_str(&format!("\n@@ -{old_start},{old_lines} +{new_start},{new_lines} @@\n{}", lines.join("\n")));
    }
    text
}

#[cfg(test)]
mod tests {
    use gimlet_core::text_diff::hunks;

    use super::*;

    #[test]
    fn a_change_that_was_not_asked_for_is_shown_or_left_to_be_read() {
        let shown = amended_notice(&hunks("a\nb\n", "a\nc\n"));
        assert!(shown.ends_with("in the file:\n@@ -1,2 +1,2 @@\n a\n-b\n+c"), "{shown}");
        assert!(amended_notice(&[]).ends_with("Read the file to see what it has now."));
    }
}
