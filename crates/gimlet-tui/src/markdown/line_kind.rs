//! What a line of markdown begins: a heading, a list item, a fence, a rule, a table. Looks at one line alone.

use super::table_layout::CellAlignment;

/// Marker of a list item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListMarker {
    /// `None` for a bullet, else the number with its sign as written.
    pub(super) number: Option<String>,
    /// Bytes of the marker and the spaces up to the content.
    pub(super) length: usize,
    /// True if nothing follows.
    pub(super) is_empty: bool,
}

/// Opening of a fenced code block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CodeFence {
    pub(super) mark: u8,
    pub(super) length: usize,
    pub(super) indent: usize,
    /// First word of what follows the fence.
    pub(super) language: String,
}

/// Returns the number of spaces at the start of a line.
pub(super) fn leading_spaces(line: &str) -> usize {
    line.bytes().take_while(|byte| *byte == b' ').count()
}

/// Returns the level and the text of a heading.
pub(super) fn parse_heading(line: &str) -> Option<(usize, &str)> {
    let text = strip_indent(line)?;
    let level = text.bytes().take_while(|byte| *byte == b'#').count();
    let rest = text.get(level..)?;
    if !(1..=6).contains(&level) || !(rest.is_empty() || rest.starts_with(' ')) {
        return None;
    }
    let title = rest.trim();
    let open = title.trim_end_matches('#');
    // Closing signs stand apart from the text.
    let title = if open.is_empty() || open.ends_with(' ') { open.trim_end() } else { title };
    Some((level, title))
}

/// Returns true for a line of three or more `*`, `-` or `_`.
pub(super) fn is_thematic_break(line: &str) -> bool {
    let Some(text) = strip_indent(line) else { return false };
    let Some(mark) = text.bytes().next().filter(|byte| matches!(byte, b'*' | b'-' | b'_')) else { return false };
    let count = text.bytes().filter(|byte| *byte == mark).count();
    count >= 3 && text.bytes().all(|byte| byte == mark || byte == b' ')
}

/// Returns the level of the heading that this line makes of the paragraph above it.
pub(super) fn parse_underline(line: &str) -> Option<usize> {
    let text = strip_indent(line)?.trim_end();
    let mark = text.bytes().next()?;
    let level = match mark {
        b'=' => 1,
        b'-' => 2,
        _ => return None,
    };
    if text.bytes().all(|byte| byte == mark) { Some(level) } else { None }
}

/// Returns the fence that a line opens.
pub(super) fn parse_fence(line: &str) -> Option<CodeFence> {
    let text = strip_indent(line)?;
    let mark = text.bytes().next().filter(|byte| matches!(byte, b'`' | b'~'))?;
    let length = text.bytes().take_while(|byte| *byte == mark).count();
    let info = text.get(length..)?.trim();
    if length < 3 || (mark == b'`' && info.contains('`')) {
        return None;
    }
    let language = info.split([' ', ',', '{', ':']).next().unwrap_or_default().to_owned();
    Some(CodeFence { mark, length, indent: leading_spaces(line), language })
}

impl CodeFence {
    /// Returns true if this line ends the block.
    pub(super) fn is_closed_by(&self, line: &str) -> bool {
        let Some(text) = strip_indent(line) else { return false };
        let text = text.trim_end();
        text.len() >= self.length && text.bytes().all(|byte| byte == self.mark)
    }
}

/// Returns the marker of a list item at the start of a text without indentation.
pub(super) fn parse_list_marker(text: &str) -> Option<ListMarker> {
    let bytes = text.as_bytes();
    let (number, width) = match bytes.first()? {
        b'-' | b'+' | b'*' => (None, 1),
        b'0'..=b'9' => {
            let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits > 9 || !matches!(bytes.get(digits)?, b'.' | b')') {
                return None;
            }
            (text.get(..=digits).map(str::to_owned), digits + 1)
        }
        _ => return None,
    };
    let rest = text.get(width..)?;
    let is_empty = rest.trim().is_empty();
    if !is_empty && !rest.starts_with(' ') {
        return None;
    }
    let spaces = leading_spaces(rest);
    // More than four spaces begin code inside the item.
    let spaces = if is_empty || spaces > 4 { 1 } else { spaces };
    Some(ListMarker { number, length: (width + spaces).min(text.len()), is_empty })
}

/// Returns what follows the sign of a quote.
pub(super) fn strip_quote_sign(line: &str) -> Option<&str> {
    let rest = strip_indent(line)?.strip_prefix('>')?;
    Some(rest.strip_prefix(' ').unwrap_or(rest))
}

/// Returns the alignments of the columns if the line is the rule below a table's head.
pub(super) fn parse_table_rule(line: &str) -> Option<Vec<CellAlignment>> {
    let text = strip_indent(line)?.trim();
    if !text.contains('-') || !text.bytes().all(|byte| matches!(byte, b'-' | b':' | b'|' | b' ')) {
        return None;
    }
    let alignment = |cell: &String| {
        let dashes = cell.trim_matches(':');
        if dashes.is_empty() || dashes.contains([':', ' ']) {
            return None;
        }
        Some(match (cell.starts_with(':'), cell.ends_with(':')) {
            (true, true) => CellAlignment::Center,
            (false, true) => CellAlignment::Right,
            _ => CellAlignment::Left,
        })
    };
    split_table_cells(text).iter().map(alignment).collect()
}

/// Divides a row of a table into its cells. A bar inside code does not divide: many forget to escape it.
pub(super) fn split_table_cells(line: &str) -> Vec<String> {
    let text = line.trim();
    let mut rest = text.strip_prefix('|').unwrap_or(text);
    let mut cells = Vec::new();
    let mut cell = String::new();
    while let Some(char) = rest.chars().next() {
        let length = match char {
            '\\' if rest.starts_with("\\|") => {
                cell.push('|');
                2
            }
            '|' => {
                cells.push(std::mem::take(&mut cell).trim().to_owned());
                1
            }
            '`' => {
                let code = code_length(rest);
                cell.push_str(&rest.get(..code).unwrap_or_default().replace("\\|", "|"));
                code
            }
            _ => {
                cell.push(char);
                char.len_utf8()
            }
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    if !cell.trim().is_empty() || cells.is_empty() {
        cells.push(cell.trim().to_owned());
    }
    cells
}

/// Returns the length of the code at the start of a text, or of its first mark if that is not closed.
fn code_length(text: &str) -> usize {
    let run = text.bytes().take_while(|byte| *byte == b'`').count();
    let (mark, after) = text.split_at(run);
    let mut at = 0;
    while let Some(found) = after.get(at..).and_then(|rest| rest.find(mark)) {
        let start = at + found;
        let length = after.get(start..).unwrap_or_default().bytes().take_while(|byte| *byte == b'`').count();
        if length == run {
            return run + start + length;
        }
        at = start + length;
    }
    run
}

/// Returns true if a line begins something that ends a paragraph.
pub(super) fn begins_block(line: &str) -> bool {
    let Some(text) = strip_indent(line) else { return false };
    let begins_item = parse_list_marker(text)
        .is_some_and(|marker| !marker.is_empty && marker.number.is_none_or(|number| is_first_number(&number)));
    begins_item
        || parse_heading(line).is_some()
        || parse_fence(line).is_some()
        || is_thematic_break(line)
        || text.starts_with('>')
}

/// Returns true for the number with which a list can begin inside a paragraph.
pub(super) fn is_first_number(number: &str) -> bool {
    number.trim_end_matches(['.', ')']) == "1"
}

/// Returns the line without its indentation, if that is less than the indentation of code.
fn strip_indent(line: &str) -> Option<&str> {
    let indent = leading_spaces(line);
    if indent > 3 { None } else { line.get(indent..) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_known_by_their_beginning() {
        assert_eq!(parse_heading("## Title ##"), Some((2, "Title")));
        assert_eq!(parse_heading("# C#"), Some((1, "C#")));
        assert_eq!(parse_heading("#hashtag"), None);
        assert_eq!(parse_heading("#"), Some((1, "")));
        assert!(is_thematic_break("- - -") && is_thematic_break("***") && !is_thematic_break("--"));
        assert_eq!(parse_fence("```rust,ignore").map(|fence| fence.language), Some("rust".to_owned()));
        assert_eq!(parse_fence("```a`b"), None);
        let fence = parse_fence("  ~~~~").unwrap();
        assert!(fence.is_closed_by("~~~~~") && !fence.is_closed_by("~~~") && !fence.is_closed_by("````"));
        assert_eq!(parse_list_marker("12) x").and_then(|marker| marker.number), Some("12)".to_owned()));
        assert_eq!(parse_list_marker("-x"), None);
        assert_eq!(parse_list_marker("-").map(|marker| (marker.is_empty, marker.length)), Some((true, 1)));
        assert_eq!(parse_list_marker("-   x").map(|marker| marker.length), Some(4));
        assert_eq!(split_table_cells("| a | b \\| c ||"), ["a", "b | c", ""]);
        assert_eq!(split_table_cells("`a|b` | ``c`|d`` | `e | f"), ["`a|b`", "``c`|d``", "`e", "f"]);
        assert_eq!(
            parse_table_rule("|:--|--:|:-:|"),
            Some(vec![CellAlignment::Left, CellAlignment::Right, CellAlignment::Center])
        );
        assert_eq!(parse_table_rule("a | b"), None);
        assert!(begins_block("1. x") && !begins_block("2. x") && !begins_block("text"));
    }
}
