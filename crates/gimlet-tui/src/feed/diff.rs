//! Diffs as styled lines: line numbers, marks and changed words.

use std::ops::Range;

use gimlet_proto::DiffHunk;
use similar::{ChangeTag, TextDiff};

use super::row_layout::{ViewDetail, more_lines_row, prefix_line};
use crate::glyphs::RenderContext;
use crate::highlight::CodeHighlighter;
use crate::styled_line::{DiffGround, StyledLine, TextStyle, TextTone};
use crate::text_width::{BreakRule, clean_line, truncate_line, wrap_line};

/// Rows of a diff that are shown at first; fewer of one that only adds, as a new file does.
const COMPACT_ROWS: usize = 30;
const COMPACT_NEW_ROWS: usize = 12;
/// Rows of one long line that are shown at first.
const COMPACT_LINE_ROWS: usize = 3;
/// Lines longer than this are not compared word by word.
const MAX_WORD_DIFF: usize = 1_000;
/// A line that shares less than this part of its text with its counterpart is shown as a new one.
const MIN_SHARED: f32 = 0.4;

/// Returns the number of lines that hunks add and remove.
pub fn count_changes(hunks: &[DiffHunk]) -> (usize, usize) {
    let lines = || hunks.iter().flat_map(|hunk| &hunk.lines);
    (lines().filter(|line| line.starts_with('+')).count(), lines().filter(|line| line.starts_with('-')).count())
}

/// Kind of a line of a diff.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineChange {
    Context,
    Added,
    Removed,
}

struct DiffLine {
    number: usize,
    change: LineChange,
    text: StyledLine,
}

/// Renders hunks with the numbers of the lines: those of the old file for removed lines, of the new one for others. The
/// path tells the language.
pub fn render_diff(path: &str, hunks: &[DiffHunk], detail: ViewDetail, cx: &RenderContext<'_>) -> Vec<StyledLine> {
    let last_number = hunks.iter().map(|hunk| (hunk.old_start + hunk.old_lines).max(hunk.new_start + hunk.new_lines));
    let digits = last_number.max().unwrap_or(0).to_string().len().max(3);
    let only_adds = hunks.iter().flat_map(|hunk| &hunk.lines).all(|line| line.starts_with('+'));
    let limit = match detail {
        ViewDetail::Compact if only_adds => COMPACT_NEW_ROWS,
        ViewDetail::Compact => COMPACT_ROWS,
        ViewDetail::Whole => usize::MAX,
    };
    let mut rows = Vec::new();
    let mut left_out = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        if rows.len() >= limit {
            left_out += hunk.lines.len();
            continue;
        }
        if index > 0 {
            rows.push(StyledLine::of(format!("{}{}", " ".repeat(digits), cx.glyphs.ellipsis), TextTone::Dim));
        }
        let mut lines = HunkLines::new(hunk, path);
        for line in &hunk.lines {
            if rows.len() + lines.pending_count() >= limit {
                left_out += 1;
                continue;
            }
            lines.take_line(line);
            for line in lines.ready.drain(..) {
                rows.extend(render_line(&line, digits, detail, cx));
            }
        }
        lines.close_change();
        for line in lines.ready {
            rows.extend(render_line(&line, digits, detail, cx));
        }
    }
    if left_out > 0 {
        rows.push(more_lines_row(left_out, cx));
    }
    rows
}

/// Columns in front of the text: number, sign and their spaces.
fn margin_width(digits: usize) -> usize {
    digits + 3
}

fn render_line(line: &DiffLine, digits: usize, detail: ViewDetail, cx: &RenderContext<'_>) -> Vec<StyledLine> {
    let (sign, style) = match line.change {
        LineChange::Context => (" ", TextStyle::of(TextTone::Dim)),
        LineChange::Added => (cx.glyphs.plus, TextStyle::of(TextTone::Added).on(DiffGround::Added)),
        LineChange::Removed => (cx.glyphs.minus, TextStyle::of(TextTone::Removed).on(DiffGround::Removed)),
    };
    let width = cx.width.saturating_sub(margin_width(digits)).max(1);
    let rows = match detail {
        ViewDetail::Compact => {
            wrap_line(&truncate_line(&line.text, width * COMPACT_LINE_ROWS), width, BreakRule::Cells)
        }
        ViewDetail::Whole => wrap_line(&line.text, width, BreakRule::Cells),
    };
    let margin = |(index, row): (usize, StyledLine)| {
        let row = if index == 0 {
            let row = prefix_line(&format!("{sign} "), style, row);
            prefix_line(&format!("{:>digits$} ", line.number), TextTone::Dim, row)
        } else {
            prefix_line(&" ".repeat(margin_width(digits)), TextTone::Text, row)
        };
        truncate_line(&row, cx.width)
    };
    rows.into_iter().enumerate().map(margin).collect()
}

/// Lines of a hunk as they are read. Removed lines wait for the added ones that take their place, to be compared word by
/// word.
struct HunkLines {
    old_number: usize,
    new_number: usize,
    /// Highlighters of both files; they read the context alike.
    old_code: Option<CodeHighlighter>,
    new_code: Option<CodeHighlighter>,
    removed: Vec<String>,
    added: Vec<String>,
    ready: Vec<DiffLine>,
}

impl HunkLines {
    fn new(hunk: &DiffHunk, path: &str) -> Self {
        let code = CodeHighlighter::for_path(path);
        Self {
            old_number: hunk.old_start,
            new_number: hunk.new_start,
            old_code: code.clone(),
            new_code: code,
            removed: Vec::new(),
            added: Vec::new(),
            ready: Vec::new(),
        }
    }

    /// Returns the number of lines that wait.
    fn pending_count(&self) -> usize {
        self.removed.len() + self.added.len()
    }

    fn take_line(&mut self, line: &str) {
        if let Some(text) = line.strip_prefix('-') {
            if !self.added.is_empty() {
                self.close_change();
            }
            self.removed.push(clean_line(text).into_owned());
        } else if let Some(text) = line.strip_prefix('+') {
            self.added.push(clean_line(text).into_owned());
        } else if !line.starts_with('\\') {
            self.close_change();
            let text = clean_line(line.strip_prefix(' ').unwrap_or(line));
            if let Some(code) = &mut self.old_code {
                code.highlight_line(&text);
            }
            let text = match &mut self.new_code {
                Some(code) => code.highlight_line(&text),
                None => StyledLine::plain(text),
            };
            self.ready.push(DiffLine { number: self.new_number, change: LineChange::Context, text });
            self.old_number += 1;
            self.new_number += 1;
        }
    }

    /// Ends a run of removed and added lines.
    fn close_change(&mut self) {
        let (removed, added) = (std::mem::take(&mut self.removed), std::mem::take(&mut self.added));
        let changed: Vec<Option<ChangedWords>> =
            removed.iter().zip(&added).map(|(old, new)| ChangedWords::find(old, new)).collect();
        let words = |index: usize| changed.get(index).and_then(Option::as_ref);
        for (index, line) in removed.iter().enumerate() {
            let ranges = words(index).map(|words| words.old.as_slice()).unwrap_or_default();
            let text = style_changed_line(line, &mut self.old_code, ranges, DiffGround::Removed);
            self.ready.push(DiffLine { number: self.old_number, change: LineChange::Removed, text });
            self.old_number += 1;
        }
        for (index, line) in added.iter().enumerate() {
            let ranges = words(index).map(|words| words.new.as_slice()).unwrap_or_default();
            let text = style_changed_line(line, &mut self.new_code, ranges, DiffGround::Added);
            self.ready.push(DiffLine { number: self.new_number, change: LineChange::Added, text });
            self.new_number += 1;
        }
    }
}

/// Parts of two lines that differ, as ranges of bytes.
struct ChangedWords {
    old: Vec<Range<usize>>,
    new: Vec<Range<usize>>,
}

impl ChangedWords {
    /// Compares two lines; `None` if they have too little in common.
    fn find(old: &str, new: &str) -> Option<Self> {
        if old.len() > MAX_WORD_DIFF || new.len() > MAX_WORD_DIFF {
            return None;
        }
        let diff = TextDiff::from_unicode_words(old, new);
        if diff.ratio() < MIN_SHARED {
            return None;
        }
        let mut words = Self { old: Vec::new(), new: Vec::new() };
        let (mut old_at, mut new_at) = (0, 0);
        for change in diff.iter_all_changes() {
            let length = change.value().len();
            match change.tag() {
                ChangeTag::Equal => {
                    old_at += length;
                    new_at += length;
                }
                ChangeTag::Delete => {
                    words.old.push(old_at..old_at + length);
                    old_at += length;
                }
                ChangeTag::Insert => {
                    words.new.push(new_at..new_at + length);
                    new_at += length;
                }
            }
        }
        Some(words)
    }
}

/// Returns a changed line: its code in colours, on the ground of its side, with the words that changed marked.
fn style_changed_line(
    text: &str,
    code: &mut Option<CodeHighlighter>,
    words: &[Range<usize>],
    ground: DiffGround,
) -> StyledLine {
    let (tone, word_tone) = match ground {
        DiffGround::Removed => (TextTone::Removed, TextTone::RemovedWord),
        DiffGround::Added | DiffGround::None => (TextTone::Added, TextTone::AddedWord),
    };
    let highlighted = match code {
        Some(code) => code.highlight_line(text),
        None => StyledLine::of(text, tone),
    };
    let mut out = StyledLine::blank();
    let mut at = 0;
    let mut words = words.iter().peekable();
    for span in &highlighted.spans {
        let end = at + span.text.len();
        while at < end {
            while words.next_if(|word| word.end <= at).is_some() {}
            let word = words.peek();
            let is_changed = word.is_some_and(|word| word.start <= at);
            let stop = match word {
                Some(word) if is_changed => word.end.min(end),
                Some(word) => word.start.min(end),
                None => end,
            };
            let style = TextStyle { tone: if is_changed { word_tone } else { span.style.tone }, ..span.style };
            out.push(text.get(at..stop).unwrap_or_default(), style.on(ground));
            at = stop;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::{context, hunk, show};
    use super::*;

    #[test]
    fn changed_words_are_marked_in_coloured_code() {
        let hunks = [hunk(7, 7, &[" fn f() {", "-    let a = one(1);", "+    let a = two(1);", " }"])];
        let rows = render_diff("x.rs", &hunks, ViewDetail::Compact, &context(60));
        assert_eq!(show(&rows, 60), "  7   fn f() {\n  8 −     let a = one(1);\n  8 +     let a = two(1);\n  9   }\n");
        let styles = |row: &StyledLine| {
            row.spans.iter().skip(2).map(|span| (span.text.clone(), span.style.tone)).collect::<Vec<_>>()
        };
        let wanted = |word: &str, tone| {
            [
                ("    ", TextTone::Text),
                ("let", TextTone::Keyword),
                (" a = ", TextTone::Text),
                (word, tone),
                ("(", TextTone::Text),
                ("1", TextTone::Number),
                (");", TextTone::Text),
            ]
            .map(|(text, tone)| (text.to_owned(), tone))
        };
        assert_eq!(styles(&rows[1]), wanted("one", TextTone::RemovedWord));
        assert_eq!(styles(&rows[2]), wanted("two", TextTone::AddedWord));
        assert_eq!(rows[1].spans[2].style.ground, DiffGround::Removed);
    }

    #[test]
    fn long_diffs_are_cut_and_keep_their_numbers() {
        let added: Vec<String> = (1..=40).map(|line| format!("+line {line}")).collect();
        let added: Vec<&str> = added.iter().map(String::as_str).collect();
        let new_file = [hunk(0, 1, &added)];
        let rows = render_diff("x.txt", &new_file, ViewDetail::Compact, &context(60));
        assert_eq!(rows.len(), 13);
        assert_eq!(rows[12].text(), "28 more lines · ctrl+o");
        assert_eq!(render_diff("x.txt", &new_file, ViewDetail::Whole, &context(60)).len(), 40);
        let hunks = [hunk(3, 3, &["-a", "-b", "+c", "\\ No newline at end of file"]), hunk(1200, 1199, &[" x", "+y"])];
        let rows = render_diff("x", &hunks, ViewDetail::Compact, &context(60));
        assert_eq!(show(&rows, 60), "   3 − a\n   4 − b\n   3 + c\n    …\n1199   x\n1200 + y\n");
        assert_eq!(count_changes(&hunks), (2, 2));
    }
}
