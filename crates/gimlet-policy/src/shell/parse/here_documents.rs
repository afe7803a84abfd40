//! Here-documents: checks that bash would end one where the grammar did, and that nothing runs inside it.

use tree_sitter::Node;

use crate::shell::node_kinds;
use crate::shell::word::{Word, WordBuilder};

pub(super) struct HereDocument {
    pub(super) body: Word,
    /// True if bash reads it as the grammar did, and nothing in it runs.
    pub(super) agrees_with_bash: bool,
    /// True if bash would expand something in it that the grammar has no node for.
    pub(super) hidden: bool,
}

pub(super) fn read_here_document(node: Node<'_>, text: &str) -> HereDocument {
    let mut cursor = node.walk();
    let (mut start, mut body, mut end, mut tabs, mut arguments) = ("", "", "", false, false);
    let mut hidden = false;
    for child in node.children(&mut cursor) {
        let source = text.get(child.byte_range()).unwrap_or("");
        match node_kinds::kind_name(child) {
            "heredoc_start" => start = source,
            "heredoc_body" => {
                body = source;
                hidden = hides_expansions(child, text);
            }
            "heredoc_end" => end = line_at(text, child.start_byte()),
            "<<-" => tabs = true,
            // Words after its target are arguments that the grammar has nowhere else.
            "file_redirect" => {
                let mut cursor = child.walk();
                arguments |= child.children_by_field_name("destination", &mut cursor).count() > 1;
            }
            "<<" | "\n" | "file_descriptor" | "pipeline" | "&&" | "||" | "|" => {}
            _ => arguments |= child.is_named() && is_argument(node, child),
        }
    }
    let mut delimiter = WordBuilder::default();
    let quoted = start.contains(['\'', '"', '\\']);
    delimiter.push_unquoted(&start.replace(['\'', '"'], ""));
    let delimiter = delimiter.finish();
    let strip = |line: &str| if tabs { line.trim_start_matches('\t').to_owned() } else { line.to_owned() };
    let ends_early = body.lines().any(|line| delimiter.value().is_some_and(|word| strip(line) == word));
    let ends_right = delimiter.value().is_some_and(|word| strip(end) == word);
    let mut document = WordBuilder::default();
    document.push_quoted(body);
    let hidden = hidden && !quoted;
    HereDocument {
        body: document.finish(),
        agrees_with_bash: !(arguments || ends_early || !ends_right || hidden),
        hidden,
    }
}

/// Returns the whole line around a position.
fn line_at(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    text[start..].lines().next().unwrap_or("")
}

fn is_argument(parent: Node<'_>, child: Node<'_>) -> bool {
    let mut cursor = parent.walk();
    parent.children_by_field_name("argument", &mut cursor).any(|argument| argument == child)
}

/// Returns true if bash would expand something in a document or between double quotes that the grammar has no node for.
pub(super) fn hides_expansions(body: Node<'_>, text: &str) -> bool {
    let mut cursor = body.walk();
    let mut from = body.start_byte();
    let mut hidden = false;
    let is_text = |child: &Node<'_>| match node_kinds::kind_name(*child) {
        "heredoc_content" | "string_content" | "$" => true,
        // The grammar allows whitespace after a dollar sign, and reads the next word as a name.
        "simple_expansion" => text.get(child.byte_range()).is_none_or(|source| source.contains(char::is_whitespace)),
        _ => false,
    };
    for child in body.children(&mut cursor).filter(|child| !is_text(child)) {
        hidden |= starts_expansion(text.get(from..child.start_byte()).unwrap_or("`"));
        from = child.end_byte();
    }
    hidden || starts_expansion(text.get(from..body.end_byte()).unwrap_or("`"))
}

/// Returns true if text between expansions has the beginning of another one.
fn starts_expansion(text: &str) -> bool {
    let mut chars = text.chars();
    let mut dollar = false;
    while let Some(c) = chars.next() {
        match c {
            // A continued line is one line, also after a dollar sign.
            '\\' => dollar &= chars.next() == Some('\n'),
            '`' => return true,
            '(' | '{' | '[' if dollar => return true,
            _ => dollar = c == '$',
        }
    }
    false
}
