//! Node kinds of the grammar, classified by what the tree walk may conclude from them. A kind in none of these lists is
//! not understood.

use std::sync::LazyLock;

use tree_sitter::Node;

/// A kind of node.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeKind {
    pub(super) name: &'static str,
    /// True if the tree walk knows its meaning.
    pub(super) known: bool,
    /// True if characters that the grammar leaves between leaves inside it are content, not whitespace.
    pub(super) loose: bool,
    /// True for a leaf after which bash skips newlines.
    pub(super) open_ended: bool,
    /// True if it may stand at the start of a line.
    pub(super) starts_line: bool,
}

impl NodeKind {
    fn from_name(name: &'static str) -> Self {
        Self {
            name,
            known: is_known(name),
            loose: is_loose(name),
            open_ended: is_open_ended(name),
            starts_line: starts_line(name),
        }
    }
}

/// Every kind by its number: some ten thousand nodes are visited a second, and a node's name is a C string whose length
/// must be measured.
static KINDS: LazyLock<Vec<NodeKind>> = LazyLock::new(|| {
    let language = tree_sitter::Language::from(tree_sitter_bash::LANGUAGE);
    let names =
        (0..language.node_kind_count()).map(|id| u16::try_from(id).ok().and_then(|id| language.node_kind_for_id(id)));
    names.map(|name| NodeKind::from_name(name.unwrap_or(UNREADABLE))).collect()
});

/// The grammar's name for text that it could not parse; its number is in no table.
const UNREADABLE: &str = "ERROR";

/// Returns the kind of a node.
pub(super) fn node_kind(node: Node<'_>) -> NodeKind {
    KINDS.get(usize::from(node.kind_id())).copied().unwrap_or_else(|| NodeKind::from_name(UNREADABLE))
}

/// Returns the name of a node's kind.
pub(super) fn kind_name(node: Node<'_>) -> &'static str {
    KINDS.get(usize::from(node.kind_id())).map_or(UNREADABLE, |kind| kind.name)
}

/// Returns true for node kinds whose meaning the tree walk knows. Everything else is not understood.
fn is_known(kind: &str) -> bool {
    matches!(
        kind,
        "program"
            | "list"
            | "pipeline"
            | "command"
            | "command_name"
            | "word"
            | "number"
            | "string"
            | "string_content"
            | "raw_string"
            | "ansi_c_string"
            | "concatenation"
            | "simple_expansion"
            | "expansion"
            | "command_substitution"
            | "process_substitution"
            | "arithmetic_expansion"
            | "brace_expression"
            | "variable_name"
            | "special_variable_name"
            | "variable_assignment"
            | "variable_assignments"
            | "subshell"
            | "compound_statement"
            | "redirected_statement"
            | "file_redirect"
            | "file_descriptor"
            | "heredoc_redirect"
            | "heredoc_start"
            | "heredoc_body"
            | "heredoc_content"
            | "heredoc_end"
            | "herestring_redirect"
            | "comment"
            | "negated_command"
            | "if_statement"
            | "elif_clause"
            | "else_clause"
            | "while_statement"
            | "for_statement"
            | "do_group"
            | "case_statement"
            | "case_item"
            | "extglob_pattern"
            | "regex"
            | "test_command"
            | "test_operator"
            | "unary_expression"
            | "binary_expression"
            | "parenthesized_expression"
            | "declaration_command"
            | "unset_command"
            | "function_definition"
            | "array"
    )
}

/// Returns true for kinds inside which the grammar leaves characters between leaves that are content, not whitespace.
fn is_loose(kind: &str) -> bool {
    matches!(
        kind,
        "string"
            | "heredoc_redirect"
            | "arithmetic_expansion"
            | "expansion"
            | "test_command"
            | "case_item"
            | "extglob_pattern"
    )
}

/// Returns true for leaves after which bash skips newlines.
fn is_open_ended(kind: &str) -> bool {
    matches!(
        kind,
        ";" | "&"
            | ";;"
            | ";&"
            | ";;&"
            | "&&"
            | "||"
            | "|"
            | "|&"
            | "("
            | "{"
            | "$("
            | "<("
            | ">("
            | "`"
            | "if"
            | "then"
            | "elif"
            | "else"
            | "while"
            | "until"
            | "do"
            | "in"
            | "!"
            | "comment"
            | "heredoc_end"
    )
}

/// Returns true for kinds that may stand at the start of a line: the grammar has no node for the newline that ends a
/// command, so this shows that it did end one.
fn starts_line(kind: &str) -> bool {
    matches!(
        kind,
        "command"
            | "redirected_statement"
            | "variable_assignment"
            | "variable_assignments"
            | "declaration_command"
            | "unset_command"
            | "test_command"
            | "negated_command"
            | "for_statement"
            | "while_statement"
            | "if_statement"
            | "case_statement"
            | "case_item"
            | "pipeline"
            | "list"
            | "compound_statement"
            | "function_definition"
            | "subshell"
            | "comment"
            | "then"
            | "elif"
            | "else"
            | "fi"
            | "do"
            | "done"
            | "esac"
            | "in"
            | "{"
            | "}"
            | ")"
            | "`"
            | ";;"
            | ";&"
            | ";;&"
    )
}
