//! Part of a command's output that a result shows: all of it, or both ends and the path of the file with the rest.
//!
//! Uses only the two ends that the capture kept; a file is never read back.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use gimlet_exec::{CapturedOutput, render_for_model};

/// Bytes of each end in the preview of output that was saved.
const PREVIEW_HEAD: usize = 1_333;
const PREVIEW_TAIL: usize = 667;
/// Most output in a failing result; errors stand at either end.
const FAILING_OUTPUT: usize = 10_000;

/// Output as a result shows it.
#[derive(Debug, Default)]
pub(super) struct OutputWindow {
    pub(super) text: String,
    /// File with the full output and its length, when the text is truncated.
    pub(super) saved: Option<(PathBuf, u64)>,
}

/// Returns true if a text has at most `limit` characters. Most texts are short enough in bytes already.
fn fits(text: &str, limit: usize) -> bool {
    text.len() <= limit || text.chars().nth(limit).is_none()
}

/// Writes output that is in memory but longer than `limit` to a file.
pub(super) async fn save_long_output(captured: &mut CapturedOutput, limit: usize, file: &Path) {
    let is_settled = captured.file.is_some() || captured.file_error.is_some();
    if is_settled || captured.head.len() <= limit || fits(&render_for_model(&captured.head), limit) {
        return;
    }
    match save(file.to_owned(), captured.head.clone()).await {
        Ok(file) => (captured.file, captured.file_bytes) = (Some(file), captured.head.len() as u64),
        Err(error) => captured.file_error = Some(error),
    }
}

/// Returns the shown output of a successful command.
pub(super) fn window_of_success(captured: &CapturedOutput, limit: usize) -> OutputWindow {
    let whole = whole_text(captured);
    if let Some(text) = whole.as_ref().filter(|text| fits(text, limit)) {
        return OutputWindow { text: text.clone(), saved: None };
    }
    let Some(file) = &captured.file else {
        let reason = captured.file_error.as_ref().map(|error| format!(" (saving all of it failed: {error})"));
        let text = join_ends(captured, whole.as_deref(), limit / 2, limit / 2);
        return OutputWindow { text: format!("{text}{}", reason.unwrap_or_default()), saved: None };
    };
    let preview = join_ends(captured, whole.as_deref(), PREVIEW_HEAD, PREVIEW_TAIL);
    let about = format!(
        "The output has {} bytes in {} lines and was saved to {}{}",
        captured.total_bytes,
        captured.total_lines,
        file.display(),
        cut_remark(captured),
    );
    OutputWindow {
        text: gimlet_store::persisted_output(&about, &preview),
        saved: Some((file.clone(), captured.total_bytes)),
    }
}

/// Returns the shown output of a command that failed or was killed. Omitted output is saved to `file`, unless the
/// capture has a file already.
pub(super) async fn window_of_failure(captured: &CapturedOutput, file: &Path) -> OutputWindow {
    let whole = whole_text(captured);
    if let Some(text) = whole.as_ref().filter(|text| fits(text, FAILING_OUTPUT)) {
        return OutputWindow { text: text.clone(), saved: None };
    }
    let text = join_ends(captured, whole.as_deref(), FAILING_OUTPUT / 2, FAILING_OUTPUT / 2);
    let saved = match &captured.file {
        Some(file) => Ok(file.clone()),
        None => save(file.to_owned(), captured.head.clone()).await,
    };
    let (text, saved) = match saved {
        Ok(file) => {
            let remark = cut_remark(captured);
            let line = format!("[All {} bytes of the output are in {}{remark}]", captured.total_bytes, file.display());
            (format!("{text}\n{line}"), Some((file, captured.total_bytes)))
        }
        Err(error) => (format!("{text}\n[The rest of the output could not be saved: {error}]"), None),
    };
    OutputWindow { text, saved }
}

/// Returns the whole output, if it is still in memory: the two ends may meet.
fn whole_text(captured: &CapturedOutput) -> Option<String> {
    if captured.is_complete() {
        return Some(render_for_model(&captured.head));
    }
    let missing = usize::try_from(captured.total_bytes).ok()?.checked_sub(captured.head.len())?;
    let rest = captured.tail.get(captured.tail.len().checked_sub(missing)?..)?;
    Some(render_for_model(&[&captured.head, rest].concat()))
}

/// Returns both ends of the output with the size of the gap.
fn join_ends(captured: &CapturedOutput, whole: Option<&str>, head_bytes: usize, tail_bytes: usize) -> String {
    let (head, tail, total) = match whole {
        Some(text) => (head_of(text, head_bytes).to_owned(), tail_of(text, tail_bytes).to_owned(), text.len() as u64),
        None => {
            let (head, tail) = (render_for_model(&captured.head), render_for_model(&captured.tail));
            (head_of(&head, head_bytes).to_owned(), tail_of(&tail, tail_bytes).to_owned(), captured.total_bytes)
        }
    };
    let omitted = total.saturating_sub((head.len() + tail.len()) as u64);
    let line_end = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    format!("{head}{line_end}[… {omitted} bytes omitted …]\n{tail}")
}

fn cut_remark(captured: &CapturedOutput) -> String {
    match captured.file_bytes < captured.total_bytes && captured.file.is_some() {
        true => format!(" (the file holds the first {} bytes)", captured.file_bytes),
        false => String::new(),
    }
}

/// Returns at most `max` bytes from the start, whole lines where there are any.
fn head_of(text: &str, max: usize) -> &str {
    let head = &text[..char_boundary_before(text, max)];
    match head.rfind('\n') {
        Some(at) if at + 1 > head.len() / 2 => &head[..=at],
        _ => head,
    }
}

/// Returns the last character boundary at or before `at`.
pub(super) fn char_boundary_before(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Returns at most `max` bytes from the end, whole lines where there are any.
pub(super) fn tail_of(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let start = text.len() - max;
    let tail = &text[(start..).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())..];
    match tail.find('\n') {
        Some(at) if at + 1 < tail.len() && at < tail.len() / 2 => &tail[at + 1..],
        _ => tail,
    }
}

/// Writes a new private file, creating missing directories.
async fn save(file: PathBuf, bytes: Vec<u8>) -> std::io::Result<PathBuf> {
    let written = tokio::task::spawn_blocking(move || {
        if let Some(parent) = file.parent() {
            gimlet_fs::create_private_dir_all(parent)?;
        }
        let mut handle = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file)?;
        handle.write_all(&bytes)?;
        Ok(file)
    });
    written.await.unwrap_or_else(|error| Err(std::io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(all: &str, head: usize, tail: usize, file: bool) -> CapturedOutput {
        CapturedOutput {
            head: all.as_bytes()[..head.min(all.len())].to_vec(),
            tail: all.as_bytes()[all.len().saturating_sub(tail)..].to_vec(),
            total_bytes: all.len() as u64,
            total_lines: all.lines().count() as u64,
            file: file.then(|| "/r/x.output".into()),
            file_bytes: if file { all.len() as u64 } else { 0 },
            file_error: None,
        }
    }

    fn numbered(lines: usize) -> String {
        (0..lines).map(|line| format!("line {line}\n")).collect()
    }

    #[test]
    fn ends_that_meet_are_the_whole_output() {
        let all = numbered(30);
        for (head, tail) in [(all.len(), 10), (all.len() - 50, 50), (all.len() - 20, 100)] {
            let shown = window_of_success(&captured(&all, head, tail, true), 10_000);
            assert_eq!((shown.text.as_str(), shown.saved), (all.trim_end(), None));
        }
        assert!(window_of_success(&captured(&all, 50, 50, true), 10_000).saved.is_some());
    }

    #[test]
    fn a_preview_has_both_ends_and_names_size_and_file() {
        let all = numbered(20_000);
        let shown = window_of_success(&captured(&all, 30_000, 32_000, true), 30_000);
        let size = all.len().to_string();
        for part in
            ["<persisted-output>", "line 0\n", "line 19999\n", "/r/x.output", "bytes omitted", &size, "20000 lines"]
        {
            assert!(shown.text.contains(part), "{part}");
        }
        assert!(shown.text.len() < 2_600);
        assert_eq!(shown.saved, Some(("/r/x.output".into(), all.len() as u64)));
    }

    #[test]
    fn output_that_could_not_be_saved_is_shown_as_far_as_it_fits() {
        let shown = window_of_success(&captured(&numbered(20_000), 30_000, 32_000, false), 30_000);
        assert!(shown.text.len() > 29_000 && shown.text.len() < 30_100 && shown.text.contains("line 19999"));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn failing_output_keeps_both_ends_and_is_saved_once() {
        let dir = tempfile::tempdir().unwrap();
        let (all, file) = (numbered(3_000), dir.path().join("new/y.output"));
        let shown = window_of_failure(&captured(&all, 30_000, 30_000, false), &file).await;
        assert!(shown.text.starts_with("line 0\n") && shown.text.contains("line 2999\n["), "{}", shown.text);
        assert!(shown.text.len() < FAILING_OUTPUT + 200 && shown.text.contains("bytes omitted"));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), all);
        let again = window_of_failure(&captured(&all, 30_000, 30_000, false), &file).await;
        assert!(again.saved.is_none() && again.text.contains("could not be saved"), "an existing file is kept");
    }
}
