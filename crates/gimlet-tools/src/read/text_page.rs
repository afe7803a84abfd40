//! A page of a text file as programs and the model get it: numbered lines, and notices of everything that is left out.

use std::fmt::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::read_page::ReadPage;

/// Some lines of a file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TextPage {
    pub(super) file_path: String,
    pub(super) content: String,
    pub(super) num_lines: u64,
    pub(super) start_line: u64,
    pub(super) total_lines: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) truncated_by_token_cap: bool,
    #[serde(skip)]
    pub(super) cut_lines: u64,
    #[serde(skip)]
    pub(super) is_lossy: bool,
    /// True if the number of lines is the user's default, not the call's parameter.
    #[serde(skip)]
    pub(super) by_default: bool,
    /// True if `total_lines` is exact; above a certain size counting stops early.
    #[serde(skip, default = "counted")]
    pub(super) is_counted: bool,
    /// Why the whole of a file that does not fit is not stored as parts.
    #[serde(skip)]
    pub(super) no_parts: Option<String>,
}

fn counted() -> bool {
    true
}

impl TextPage {
    pub(super) fn new(path: &Path, page: ReadPage, first: u64, is_counted: bool) -> Self {
        Self {
            file_path: path.display().to_string(),
            num_lines: page.shown,
            start_line: first,
            total_lines: page.total_lines,
            truncated_by_token_cap: page.over_budget,
            cut_lines: page.cut_lines,
            is_lossy: page.is_lossy,
            by_default: false,
            is_counted,
            no_parts: None,
            content: page.text,
        }
    }

    fn last_line(&self) -> u64 {
        self.start_line + self.num_lines - 1
    }

    /// Renders the numbered lines and the notices about them.
    pub(super) fn render(&self) -> String {
        if self.total_lines == 0 && self.is_counted {
            return format!("{} exists and is empty.", self.file_path);
        }
        if self.num_lines == 0 {
            return format!(
                "{} has {} lines; line {} is past its end.",
                self.file_path, self.total_lines, self.start_line
            );
        }
        let mut text = String::with_capacity(self.content.len() + self.num_lines as usize * 6 + 128);
        let lines = self.content.split('\n').take(self.num_lines as usize);
        for (number, line) in (self.start_line..).zip(lines) {
            // Writing to a string cannot fail.
            let _ = write!(text, "{number}\t");
            text.push_str(line);
            text.push('\n');
        }
        text.pop();
        self.push_notices(&mut text);
        text
    }

    fn push_notices(&self, text: &mut String) {
        let has_more = self.last_line() < self.total_lines || !self.is_counted;
        let is_cut = !self.truncated_by_token_cap && (has_more || self.start_line > 1);
        let reasons: Vec<&str> = [
            (self.truncated_by_token_cap, "token_budget"),
            (self.cut_lines > 0, "long_lines"),
            (is_cut && self.by_default && has_more, "default_lines"),
            (is_cut && !(self.by_default && has_more), "range"),
        ]
        .into_iter()
        .filter_map(|(applies, reason)| applies.then_some(reason))
        .collect();
        if !reasons.is_empty() {
            let total = if self.is_counted { self.total_lines.to_string() } else { format!("{}+", self.total_lines) };
            let next = if has_more { format!(" next_offset={}", self.last_line() + 1) } else { String::new() };
            let (first, last, reasons) = (self.start_line, self.last_line(), reasons.join(","));
            text.push_str(&format!("\n\n[PARTIAL view: lines={first}-{last} total={total}{next} reason={reasons}]"));
        }
        if let Some(why) = &self.no_parts {
            text.push_str(&format!(
                "\n[The file is not stored as parts: {why}. Go on with `offset`, or find the place with Grep.]"
            ));
        }
        if self.is_lossy {
            text.push_str(
                "\n[Some bytes are not valid text and are shown as \u{FFFD}. The file cannot be edited as it is; \
                 convert its encoding first.]",
            );
        }
    }

    pub(super) fn summary(&self) -> String {
        if self.num_lines == self.total_lines {
            format!("{} lines", self.total_lines)
        } else if self.num_lines == 0 {
            format!("past the end of {} lines", self.total_lines)
        } else {
            format!("lines {}-{} of {}", self.start_line, self.last_line(), self.total_lines)
        }
    }
}
