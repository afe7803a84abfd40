//! The grammar's node kinds, by what the walk over a tree may conclude from them. A kind that is in none of these lists
//! is not understood.

/// Node kinds whose meaning the walk below knows. Everything else is not understood.
pub(super) fn is_known(kind: &str) -> bool {
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

/// Inside these the grammar leaves characters between leaves that are content, not blanks.
pub(super) fn is_loose(kind: &str) -> bool {
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

/// Leaves after which bash skips newlines.
pub(super) fn is_open_ended(kind: &str) -> bool {
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

/// What may stand at the start of a line: the grammar shows no node for the newline that ends a command, so this is how
/// to see that it did end one.
pub(super) fn starts_line(kind: &str) -> bool {
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
