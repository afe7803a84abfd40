//! Converts findings to a page of entries, with a summary of the total.

use std::path::PathBuf;

use gimlet_core::tool::PathContext;

use super::file_sink::FileHits;
use super::search::{GrepFindings, GrepSortKey};
use super::{GrepOutput, OutputMode};
use crate::walk::{SearchBase, SortedPage};

/// Range of entries that are shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageRange {
    pub(super) offset: usize,
    pub(super) limit: Option<usize>,
}

impl PageRange {
    /// Returns one past the last entry that can be shown.
    pub(super) fn end(self) -> usize {
        self.limit.map_or(usize::MAX, |limit| self.offset.saturating_add(limit))
    }
}

/// Data of a report.
pub(super) struct GrepReport<'a> {
    pub(super) mode: OutputMode,
    pub(super) paging: PageRange,
    /// Number of lines between the groups of two files.
    pub(super) separators: usize,
    pub(super) pattern: &'a str,
    pub(super) base: &'a SearchBase,
    pub(super) paths: &'a PathContext,
}

impl GrepReport<'_> {
    pub(super) fn output(&self, findings: GrepFindings, pointless: Option<String>) -> GrepOutput {
        let GrepFindings { page, matches, remarks } = findings;
        let total_files = page.total_values();
        // Each file brought a separator along, and the first one needs none.
        let total = page.total_entries().saturating_sub(self.separators);
        let entries = self.entries(page);
        let shown = entries.len();
        let is_cut = self.paging.offset.saturating_add(shown) < total;
        let mut output = GrepOutput {
            mode: self.mode,
            num_files: total_files,
            filenames: Vec::new(),
            content: None,
            num_lines: None,
            num_matches: None,
            total_files,
            total_lines: None,
            applied_limit: if is_cut { self.paging.limit } else { None },
            applied_offset: Some(self.paging.offset).filter(|offset| *offset > 0),
            remarks: Vec::new(),
        };
        match self.mode {
            OutputMode::FilesWithMatches => {
                output.num_files = shown;
                output.filenames = entries;
            }
            OutputMode::Count => {
                output.content = Some(entries.join("\n"));
                output.num_matches = Some(matches);
            }
            OutputMode::Content => {
                output.content = Some(entries.join("\n"));
                output.num_lines = Some(shown);
                output.total_lines = Some(total);
            }
        }
        output.remarks.extend(self.summary(shown, total, total_files, matches));
        output.remarks.extend(pointless);
        output.remarks.extend(remarks);
        output
    }

    /// Returns the entries of the page.
    fn entries(&self, page: SortedPage<GrepSortKey, FileHits>) -> Vec<String> {
        let files = page.into_kept().map(|((_, path), hits)| (path, hits));
        let PageRange { offset, limit } = self.paging;
        let limit = limit.unwrap_or(usize::MAX);
        match self.mode {
            OutputMode::FilesWithMatches => {
                files.skip(offset).take(limit).map(|(path, _)| self.base.show(&path, self.paths)).collect()
            }
            OutputMode::Count => files
                .skip(offset)
                .take(limit)
                .map(|(path, hits)| format!("{}:{}", self.base.show(&path, self.paths), hits.matches))
                .collect(),
            OutputMode::Content => self.lines(files, offset, limit),
        }
    }

    fn lines(&self, files: impl Iterator<Item = (PathBuf, FileHits)>, offset: usize, limit: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let mut position = 0;
        for (path, hits) in files {
            let path = self.base.show(&path, self.paths);
            let separators = if position > 0 { self.separators } else { 0 };
            for line in std::iter::repeat_n("", separators).chain(hits.text.lines()) {
                if position >= offset && lines.len() < limit {
                    lines.push(if line.is_empty() { "--".to_owned() } else { format!("{path}{line}") });
                }
                position += 1;
            }
            // Lines that were only counted end the page: nothing after them is next to what is shown.
            if hits.text.lines().count() < hits.lines {
                break;
            }
        }
        lines
    }

    /// Returns a summary of the total when the page does not show everything.
    fn summary(&self, shown: usize, total: usize, files: usize, matches: u64) -> Option<String> {
        let unit = match self.mode {
            OutputMode::Content => "line",
            OutputMode::FilesWithMatches | OutputMode::Count => "file",
        };
        let offset = self.paging.offset;
        if total == 0 {
            let (pattern, base) = (self.pattern, self.base.display_path.display());
            return Some(format!("No match for `{pattern}` in {base}."));
        }
        if offset >= total {
            return Some(format!(
                "No entries at offset {offset}: the whole result has {}.",
                count_with_unit(total, unit)
            ));
        }
        let totals = match self.mode {
            OutputMode::Content => format!("{} in {}", count_with_unit(total, "line"), count_with_unit(files, "file")),
            OutputMode::FilesWithMatches => count_with_unit(total, "file"),
            OutputMode::Count if matches == 1 => "1 file with 1 match".to_owned(),
            OutputMode::Count => format!("{} with {matches} matches", count_with_unit(total, "file")),
        };
        let end = offset + shown;
        if shown == 0 || (end < total && end < self.paging.end()) {
            let cut = "One call collects 2 MiB at most; search a narrower path or pattern for the rest.";
            return Some(format!("Showing {shown} of {totals}. {cut}"));
        }
        if end < total {
            return Some(format!("Showing {}-{end} of {totals}. For the next page set offset to {end}.", offset + 1));
        }
        match self.mode {
            _ if offset > 0 => Some(format!("Showing {}-{end} of {totals}; this is the last page.", offset + 1)),
            OutputMode::Count | OutputMode::FilesWithMatches => Some(format!("Found {totals}.")),
            OutputMode::Content => None,
        }
    }
}

fn count_with_unit(count: usize, unit: &str) -> String {
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

/// Formats the output for the model.
pub(super) fn format_for_model(output: &GrepOutput) -> String {
    let mut text = match &output.content {
        Some(content) => content.clone(),
        None => output.filenames.join("\n"),
    };
    if !text.is_empty() && !output.remarks.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(&output.remarks.join("\n"));
    text
}
