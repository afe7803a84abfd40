//! Checks of what bash demands of a construct and the grammar does not, and of the side effects that an expansion can
//! have.

use std::ops::Range;

use tree_sitter::Node;

use crate::shell::node_kinds;

/// Returns true if every section of a compound command has a statement in it.
pub(super) fn is_complete(node: Node<'_>, kind: &str) -> bool {
    if !matches!(
        kind,
        "if_statement"
            | "elif_clause"
            | "else_clause"
            | "while_statement"
            | "do_group"
            | "compound_statement"
            | "subshell"
    ) {
        return true;
    }
    let mut cursor = node.walk();
    // True while a section is open that has no statement yet.
    let mut empty = false;
    for child in node.children(&mut cursor) {
        match node_kinds::kind_name(child) {
            "if" | "then" | "elif" | "else" | "while" | "until" | "do" | "{" | "(" => {
                if empty {
                    return false;
                }
                empty = true;
            }
            "elif_clause" | "else_clause" | "do_group" | "fi" | "done" | "}" | ")" if empty => return false,
            "comment" => {}
            _ if child.is_named() => empty = false,
            _ => {}
        }
    }
    !empty
}

/// Returns true if bash, too, would read this sign or word by itself: the grammar lets some of them touch their
/// neighbours.
pub(super) fn is_delimited(node: Node<'_>, kind: &str, parent: &str, text: &str) -> bool {
    let before = text.get(..node.start_byte()).and_then(|text| text.chars().next_back());
    let after = text.get(node.end_byte()..).and_then(|text| text.chars().next());
    let blank = |c: Option<char>| matches!(c, Some(' ' | '\t' | '\n'));
    // A process substitution is part of the word that it touches, unlike a redirection.
    let goes_on = text.get(node.end_byte()..).is_some_and(|rest| rest.starts_with("<(") || rest.starts_with(">("));
    let signs = |c: Option<char>| matches!(c, Some(';' | '&' | '|' | '(' | ')' | '<' | '>'));
    let ends = |c: Option<char>| !goes_on && (c.is_none() || blank(c) || signs(c));
    match (kind, parent) {
        (";", _) => !matches!(after, Some(';' | '&')),
        ("&", _) => !matches!(after, Some('&' | '>')),
        ("|", _) => !matches!(after, Some('|' | '&')),
        ("{", "compound_statement") | ("!", "negated_command") | ("[" | "[[", "test_command") => blank(after),
        ("]" | "]]", "test_command") => blank(before) && ends(after),
        (
            "if" | "then" | "elif" | "else" | "fi" | "for" | "while" | "until" | "do" | "done" | "case" | "in" | "esac"
            | "}",
            "if_statement" | "elif_clause" | "else_clause" | "for_statement" | "while_statement" | "do_group"
            | "case_statement" | "compound_statement",
        ) => ends(after),
        _ => true,
    }
}

/// Effect of an expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpansionEffect {
    /// It only expands to a value.
    Value,
    /// It evaluates names as arithmetic, and so any text in their values.
    Computed,
    /// It runs, assigns or dereferences the value of a variable.
    Indirect,
    /// It expands the value as a prompt, and so runs every substitution in it.
    Prompt,
}

pub(super) fn expansion_effect(kind: &str, source: &str) -> ExpansionEffect {
    match kind {
        "arithmetic_expansion" => arithmetic_effect(source),
        "expansion" => parameter_effect(source),
        _ => ExpansionEffect::Value,
    }
}

/// Returns true if bash reads single quotes inside a construct as ordinary characters and expands the text between
/// them. After `#`, `%` and `/` of an expansion in double quotes it does not, but this is not distinguished here.
pub(super) fn takes_quotes_literally(node: Node<'_>, quoted: bool, text: &str) -> bool {
    let source = || text.get(node.byte_range()).unwrap_or("").trim_start_matches([' ', '\t', '\n']);
    match node_kinds::kind_name(node) {
        "arithmetic_expansion" | "subscript" | "c_style_for_statement" => true,
        "compound_statement" => node.child(0).is_none_or(|child| node_kinds::kind_name(child) != "{"),
        // Offsets and subscripts are arithmetic.
        "expansion" => quoted || parameter_effect(source()) != ExpansionEffect::Value,
        "command_substitution" | "process_substitution" | "subshell" => may_be_arithmetic(source()),
        _ => false,
    }
}

/// Returns true if bash would first try to read it as arithmetic.
pub(super) fn may_be_arithmetic(source: &str) -> bool {
    source.trim_start_matches(['$', '<', '>']).starts_with("((")
}

fn arithmetic_effect(source: &str) -> ExpansionEffect {
    let inner = source.strip_prefix("$((").and_then(|rest| rest.strip_suffix("))"));
    let inner = inner.or_else(|| source.strip_prefix("$[").and_then(|rest| rest.strip_suffix(']'))).unwrap_or("[");
    // Empty brackets are an error at run time.
    if inner.contains('[') || inner.contains("()") {
        return ExpansionEffect::Indirect;
    }
    let plain = inner.chars().all(|c| c.is_ascii_digit() || " \t+-*/%()<>=!&|^~?:,".contains(c));
    if plain { ExpansionEffect::Value } else { ExpansionEffect::Computed }
}

/// Returns the effect of `${…}`.
fn parameter_effect(source: &str) -> ExpansionEffect {
    let Some(inner) = source.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) else {
        return ExpansionEffect::Indirect;
    };
    if inner.ends_with("@P") {
        return ExpansionEffect::Prompt;
    }
    let counted = inner.len() > 1 && inner.starts_with('#');
    let inner = if counted { &inner[1..] } else { inner };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let length = inner.find(|c: char| !is_name(c)).unwrap_or(inner.len());
    // `$?`, `$@` and similar have names of one character.
    let length = if length == 0 && inner.starts_with(['?', '@', '*', '$', '#', '-']) { 1 } else { length };
    let rest = &inner[length..];
    let harmless = length > 0
        && match rest.as_bytes() {
            [] => true,
            _ if counted => false,
            [b'-' | b'+' | b'?' | b'#' | b'%' | b'/' | b'^' | b',', ..] => true,
            [b':', b'-' | b'+' | b'?', ..] => true,
            // An offset is arithmetic.
            [b':', offset @ ..] => {
                offset.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b' ')
                    && offset.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b' ' | b'-'))
            }
            _ => false,
        };
    if harmless { ExpansionEffect::Value } else { ExpansionEffect::Indirect }
}

/// Returns true if a loop may assign this variable: it does not influence shells or programs.
pub(super) fn is_harmless_name(name: &str) -> bool {
    let lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let ordered = name.contains("proxy") || name.starts_with("npm_") || matches!(name, "histchars" | "auto_resume");
    (name.len() == 1 && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
        || (name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(lower) && !ordered)
}

/// Returns the range of the command or statement that a redirection belongs to.
pub(super) fn statement_around(redirect: Node<'_>) -> Range<usize> {
    let mut statement = redirect;
    while let Some(parent) = statement.parent() {
        if !matches!(node_kinds::kind_name(parent), "command" | "redirected_statement") {
            break;
        }
        statement = parent;
    }
    statement.byte_range()
}

/// Returns the words and operators of a condition, in order.
pub(super) fn condition_leaves(node: Node<'_>) -> Vec<Node<'_>> {
    let mut leaves = Vec::new();
    let mut stack = vec![node];
    while let Some(node) = stack.pop() {
        let nested = matches!(
            node_kinds::kind_name(node),
            "test_command"
                | "unary_expression"
                | "binary_expression"
                | "parenthesized_expression"
                | "redirected_statement"
        );
        if !nested {
            leaves.push(node);
            continue;
        }
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
        stack.extend(children.into_iter().rev());
    }
    leaves
}

/// Returns true if the leaves form a plain `[` command. To bash `[` is a command like any other: a shell operator among
/// its words ends it.
pub(super) fn is_plain_bracket(leaves: &[Node<'_>]) -> bool {
    leaves
        .iter()
        .all(|leaf| leaf.is_named() || matches!(node_kinds::kind_name(*leaf), "[" | "]" | "!" | "=" | "==" | "!="))
        && !leaves
            .iter()
            .any(|leaf| matches!(node_kinds::kind_name(*leaf), "file_redirect" | "herestring_redirect" | "regex"))
}

/// Returns true if a sign between the operands of `[[ … ]]` is not an operator to bash.
pub(super) fn has_odd_operator(leaves: &[Node<'_>]) -> bool {
    const OPERATORS: &[&str] = &["[[", "]]", "!", "(", ")", "&&", "||", "=", "==", "!=", "=~", "<", ">"];
    leaves.iter().any(|leaf| !leaf.is_named() && !OPERATORS.contains(&node_kinds::kind_name(*leaf)))
}

/// Returns true if an operand of a comparison looks like an operator, which `[[` would read it as.
pub(super) fn has_doubtful_operand(leaves: &[Node<'_>], text: &str) -> bool {
    const COMPARING: &[&str] =
        &["=", "==", "!=", "=~", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"];
    let source = |node: &Node<'_>| text.get(node.byte_range()).unwrap_or("");
    let compares = |node: &Node<'_>| COMPARING.contains(&source(node));
    // A word with an operator in front of it is not an operand of another one.
    leaves.windows(2).any(|pair| source(&pair[0]).starts_with('-') && compares(&pair[1]))
        || leaves.windows(3).any(|three| source(&three[0]).starts_with('-') && compares(&three[2]))
}
