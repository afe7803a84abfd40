//! Body of a skill or command: text with the commands that run before it reaches the model.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::DocumentContent;
use super::trust_gate::TrustGate;
use crate::trust::ProjectTrust;

/// Mark that begins a command in a line, and the one that begins a block of them.
const INLINE_MARK: &str = "!`";
const BLOCK_MARK: &str = "```!";

/// Body of a document. Its text is only given in parts, so that a command cannot be taken for text.
#[derive(Clone)]
pub struct SkillBody {
    document: Arc<DocumentContent>,
    range: Range<usize>,
    gate: TrustGate,
}

/// Part of a body.
#[derive(Clone, Debug)]
pub enum BodyPart<'a> {
    Text(&'a str),
    Command(InlineCommand<'a>),
}

/// Command in a body, which waits for trust.
#[derive(Clone, Debug)]
pub struct InlineCommand<'a> {
    code: &'a str,
    gate: &'a TrustGate,
}

impl<'a> InlineCommand<'a> {
    /// Returns the command; `None` if this trust does not cover it.
    pub fn code(&self, trust: &ProjectTrust) -> Option<&'a str> {
        self.gate.is_open(trust).then_some(self.code)
    }
}

impl fmt::Debug for SkillBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SkillBody").field("bytes", &self.range.len()).finish_non_exhaustive()
    }
}

impl SkillBody {
    pub(super) fn new(document: Arc<DocumentContent>, range: Range<usize>, gate: TrustGate) -> Self {
        Self { document, range, gate }
    }

    fn text(&self) -> &str {
        super::trim_blank_lines(&self.document.text[self.range.clone()])
    }

    /// Returns the parts in their order.
    pub fn parts(&self) -> Vec<BodyPart<'_>> {
        split_body(self.text())
            .into_iter()
            .map(|(text, is_command)| match is_command {
                true => BodyPart::Command(InlineCommand { code: text, gate: &self.gate }),
                false => BodyPart::Text(text),
            })
            .collect()
    }

    /// Returns true if the body names its first argument `$1`, as older documentation did; it is `$0` today.
    pub fn has_one_based_arguments(&self) -> bool {
        let text = self.text();
        text.contains("$1") && !text.contains("$0") && !text.contains("$ARGUMENTS[0]")
    }

    /// Returns the first paragraph that is no heading, on one line; `None` for an empty body.
    pub(super) fn first_paragraph(&self) -> Option<String> {
        let is_heading = |line: &&str| line.starts_with('#');
        let lines = || self.text().lines().map(str::trim);
        let mut paragraph =
            lines().skip_while(|line| line.is_empty() || is_heading(line)).take_while(|line| !line.is_empty());
        let heading = || lines().next().map(|line| line.trim_start_matches('#').trim().to_owned());
        let first = paragraph.next().map(|first| paragraph.fold(first.to_owned(), |text, line| text + " " + line));
        first.or_else(heading).filter(|text| !text.is_empty())
    }
}

/// Splits a body into texts and commands.
fn split_body(text: &str) -> Vec<(&str, bool)> {
    let mut parts = Vec::new();
    // Start of the text that is not in a part yet, and of the line that is looked at.
    let (mut from, mut at) = (0, 0);
    while at < text.len() {
        let line_end = text[at..].find('\n').map_or(text.len(), |length| at + length + 1);
        let line = &text[at..line_end];
        if let Some(code) = line.trim_start().strip_prefix(BLOCK_MARK)
            && let Some((block_end, next)) = find_block_end(text, line_end)
        {
            let code_start = line_end - code.len();
            add_parts(&mut parts, text, from..at, code_start..block_end);
            (from, at) = (next, next);
            continue;
        }
        let mut search = at;
        while let Some(code) = find_inline_command(text, search..line_end) {
            let (start, end) = (code.start - INLINE_MARK.len(), code.end + 1);
            add_parts(&mut parts, text, from..start, code);
            (from, search) = (end, end);
        }
        at = line_end;
    }
    if from < text.len() {
        parts.push((&text[from..], false));
    }
    parts
}

fn add_parts<'t>(parts: &mut Vec<(&'t str, bool)>, text: &'t str, before: Range<usize>, code: Range<usize>) {
    if !before.is_empty() {
        parts.push((&text[before], false));
    }
    let code = text[code].trim();
    if !code.is_empty() {
        parts.push((code, true));
    }
}

/// Returns the end of a block's content and the start of what follows its last line; `None` if it never ends.
fn find_block_end(text: &str, from: usize) -> Option<(usize, usize)> {
    let mut at = from;
    for line in text[from..].split_inclusive('\n') {
        if line.trim_start().starts_with("```") {
            return Some((at, at + line.trim_end_matches('\n').len()));
        }
        at += line.len();
    }
    None
}

/// Returns the next command between backticks, at the start of a line or after a space.
fn find_inline_command(text: &str, range: Range<usize>) -> Option<Range<usize>> {
    let mut at = range.start;
    while let Some(found) = text[at..range.end].find(INLINE_MARK).map(|offset| at + offset) {
        let start = found + INLINE_MARK.len();
        let may_begin = text[..found].chars().next_back().is_none_or(char::is_whitespace);
        let end = text[start..range.end].find('`').map(|length| start + length)?;
        if may_begin && end > start {
            return Some(start..end);
        }
        at = start;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_text() {
        for (text, parts) in [
            ("plain `code` and Wow!`x`", &[("plain `code` and Wow!`x`", false)][..]),
            ("!`git status`", &[("git status", true)]),
            ("a: !`b` c !`d`.\ne", &[("a: ", false), ("b", true), (" c ", false), ("d", true), (".\ne", false)]),
            ("x\n```!\na\nb\n```\ny", &[("x\n", false), ("a\nb", true), ("\ny", false)]),
            ("```! a\n```\n", &[("a", true), ("\n", false)]),
            ("```!\nnever closed !`x`", &[("```!\nnever closed ", false), ("x", true)]),
            ("!`` !`open", &[("!`` !`open", false)]),
            ("", &[]),
        ] {
            assert_eq!(split_body(text), parts, "{text}");
        }
    }
}
