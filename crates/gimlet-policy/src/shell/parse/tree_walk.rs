//! Walk over a syntax tree: it collects commands, redirections and loops, and compares every leaf and every gap between
//! leaves with what bash itself would read there.

use tree_sitter::{Node, Tree};

use super::construct_checks::{self, ExpansionEffect};
use super::lexer::LexMark;
use super::{
    ForLoop, ParsedCommand, ParsedRedirect, ParsedScript, VariableAssignment, here_documents, is_descriptor_number,
};
use crate::shell::node_kinds::{self, NodeKind};
use crate::shell::node_words::{WordCollector, array_values, is_continuation, without_continuations, word_from_node};
use crate::shell::scan::find_ansi_c_end;
use crate::shell::word::Word;
use crate::shell::wrappers::reachable_commands;
use crate::shell::{MOST_DESCRIPTORS, ParseTrouble, builtin_evaluation, prescan};

/// Context of a node.
#[derive(Clone, Copy, Debug, Default)]
struct NodeContext {
    loose: bool,
    /// Start of the innermost node that is looser or stricter than its surroundings, and the looseness of these.
    border: Option<usize>,
    loose_outside: bool,
    /// Start of the innermost substitution.
    substitution: Option<usize>,
    in_loop: bool,
    /// Offset from which standard error is redirected to the output, up to the end of the surrounding node.
    errors_joined_from: Option<usize>,
    /// True inside double quotes or the text of a document.
    quoted: bool,
    /// True if bash reads single quotes here as ordinary characters and expands the text between them.
    verbatim: bool,
    /// The kind of the node around it.
    parent: &'static str,
}

impl NodeContext {
    fn for_child(self, node: Node<'_>, kind: NodeKind, text: &str) -> Self {
        let NodeKind { name, loose, .. } = kind;
        let substitution = matches!(name, "command_substitution" | "process_substitution");
        // `[ … ]` is an ordinary command to bash, regardless of the grammar's node for it.
        let bracket = name == "test_command" && node.child(0).is_some_and(|child| node_kinds::kind_name(child) == "[");
        let borders = substitution || loose;
        let verbatim = construct_checks::takes_quotes_literally(node, self.quoted, text);
        Self {
            loose: !substitution && (self.loose || loose) && !bracket,
            border: if borders { Some(node.start_byte()) } else { self.border },
            loose_outside: if borders && self.border != Some(node.start_byte()) {
                self.loose
            } else {
                self.loose_outside
            },
            substitution: if substitution { Some(node.start_byte()) } else { self.substitution },
            in_loop: self.in_loop || matches!(name, "for_statement" | "while_statement"),
            errors_joined_from: if substitution {
                None
            } else {
                self.errors_joined_from.or_else(|| errors_joined_from(node, name, text))
            },
            quoted: !substitution && (self.quoted || matches!(name, "string" | "heredoc_body")),
            verbatim: verbatim || (self.verbatim && !substitution),
            parent: name,
        }
    }
}

pub(super) struct TreeWalk<'a> {
    text: &'a str,
    parsed: ParsedScript,
    /// The end of the last leaf.
    read_to: usize,
    /// True if a newline after the last leaf means nothing.
    newline_may_follow: bool,
    /// Start of the innermost node that may start a line.
    line_may_start: Option<usize>,
    /// Arguments that the grammar has elsewhere or nowhere, for the command that starts at this byte.
    extra_words: Option<(usize, Vec<Word>)>,
    /// Starts of gaps that hold an argument.
    dashes: Vec<usize>,
    /// Marks that bash sees, as far as certain, and how many of them have been compared with the leaves.
    marks: Option<Vec<(usize, LexMark)>>,
    compared: usize,
    /// True if grammar and bash disagree somewhere.
    disagrees: bool,
    /// Number of redirections so far that name a descriptor above 2.
    further_descriptors: usize,
}

impl<'a> TreeWalk<'a> {
    pub(super) fn new(text: &'a str, marks: Option<Vec<(usize, LexMark)>>) -> Self {
        Self {
            text,
            parsed: ParsedScript::default(),
            read_to: 0,
            newline_may_follow: true,
            line_may_start: None,
            extra_words: None,
            dashes: Vec::new(),
            marks,
            compared: 0,
            disagrees: false,
            further_descriptors: 0,
        }
    }

    /// Visits every node once, without recursion: a list of n commands is n levels deep.
    pub(super) fn walk_tree(mut self, tree: &Tree) -> ParsedScript {
        let mut cursor = tree.walk();
        let mut inside = vec![NodeContext::default()];
        loop {
            let node = cursor.node();
            let kind = node_kinds::node_kind(node);
            let around = inside.last().copied().unwrap_or_default();
            self.visit(node, kind, around);
            if cursor.goto_first_child() {
                inside.push(around.for_child(node, kind, self.text));
                continue;
            }
            self.visit_leaf(node, kind, around);
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    self.finish_text(tree.root_node());
                    return self.parsed;
                }
                inside.pop();
            }
        }
    }

    fn record_trouble(&mut self, trouble: ParseTrouble) {
        self.parsed.trouble.get_or_insert(trouble);
    }

    fn finish_text(&mut self, root: Node<'_>) {
        if !is_blank(&self.text[self.read_to.min(self.text.len())..]) {
            self.record_trouble(ParseTrouble::Syntax);
        }
        let end = self.text.len();
        if self.disagrees || !self.marks_agree(end, end, |_, _| false) {
            self.record_trouble(ParseTrouble::Construct);
        }
        let mut cursor = root.walk();
        let statement =
            root.named_children(&mut cursor).filter(|node| node_kinds::kind_name(*node) != "comment").last();
        let sequential = statement.is_some_and(|node| {
            matches!(
                node_kinds::kind_name(node),
                "command" | "pipeline" | "list" | "redirected_statement" | "test_command"
            )
        });
        if !sequential || self.parsed.trouble.is_some() {
            self.parsed.last_command = None;
        }
    }

    fn source(&self, node: Node<'_>) -> &'a str {
        // A node may end inside a character where the grammar saw several letters; then its source is unknown.
        self.text.get(node.byte_range()).unwrap_or("")
    }

    /// Returns the source of an expansion without leading whitespace, which the grammar includes between quotes.
    fn expansion_source(&self, node: Node<'_>) -> &'a str {
        self.source(node).trim_start_matches([' ', '\t', '\n'])
    }

    fn visit(&mut self, node: Node<'_>, kind: NodeKind, around: NodeContext) {
        let NodeKind { name: kind, known, starts_line, .. } = kind;
        if node.is_error() || node.is_missing() || !construct_checks::is_complete(node, kind) {
            self.record_trouble(ParseTrouble::Syntax);
        }
        if node.is_named() && !known {
            self.record_trouble(ParseTrouble::Construct);
        }
        if starts_line {
            self.line_may_start = Some(node.start_byte());
        }
        let redirects = matches!(kind, "file_redirect" | "heredoc_redirect" | "herestring_redirect");
        // `{name}>file` assigns a new descriptor to the variable.
        if redirects && self.text[..node.start_byte()].trim_end_matches("\\\n").ends_with('}') {
            self.record_trouble(ParseTrouble::Construct);
        }
        let commands_before = self.parsed.commands.len();
        if matches!(kind, "command" | "declaration_command" | "unset_command") && self.ends_line_inside(node) {
            self.record_trouble(ParseTrouble::Syntax);
        }
        match kind {
            "command" => self.visit_command(node, around),
            "test_command" => self.visit_condition(node, around),
            "declaration_command" | "unset_command" => self.visit_builtin(node, around),
            "redirected_statement" => self.visit_redirected(node),
            "concatenation" => self.check_one_word(node),
            // After a lone dollar sign the grammar reads the rest as text.
            "string" if here_documents::hides_expansions(node, self.text) || self.source(node).contains("$${") => {
                self.parsed.unquoted.push(self.source(node).to_owned());
                self.record_trouble(ParseTrouble::Construct);
            }
            "file_redirect" => self.visit_file_redirect(node),
            "heredoc_redirect" => self.visit_here_document(node),
            // Those of a simple command are found with its words.
            "herestring_redirect" if around.parent != "command" => self.visit_here_string(node),
            "for_statement" => self.visit_for_loop(node),
            "pipeline" => self.visit_pipeline(node),
            // The grammar allows whitespace inside these.
            "simple_expansion" => self.check_one_word(node),
            "variable_assignment" if around.parent != "command" => {
                self.parsed.beyond_command_rules = true;
                let value = node.child_by_field_name("value").map(|value| word_from_node(value, self.text));
                self.parsed.assigned_values.extend(value.and_then(|value| value.value().map(str::to_owned)));
            }
            "array" => {
                self.parsed.beyond_command_rules = true;
                self.parsed.assigned_values.extend(array_values(node, self.text));
            }
            "function_definition" => self.parsed.beyond_command_rules = true,
            // Arithmetic in double parentheses.
            "compound_statement" if node.child(0).is_none_or(|child| node_kinds::kind_name(child) != "{") => {
                self.parsed.beyond_command_rules = true;
            }
            "expansion" | "arithmetic_expansion" => self.visit_expansion(node),
            // Bash first reads two parentheses as arithmetic, where quotes do not quote.
            "command_substitution" | "process_substitution" | "subshell"
                if construct_checks::may_be_arithmetic(self.expansion_source(node)) =>
            {
                self.record_trouble(ParseTrouble::Construct);
            }
            // Inside backticks bash removes a level of backslashes before it reads the text.
            "command_substitution" if is_backtick_with_escapes(self.expansion_source(node)) => {
                self.record_trouble(ParseTrouble::Construct);
            }
            ";" if around.parent == "case_statement" => self.record_trouble(ParseTrouble::Syntax),
            // The grammar reads it as `;`, bash does not.
            ";;" if around.parent != "case_item" => self.record_trouble(ParseTrouble::Syntax),
            _ => {}
        }
        if self.parsed.commands.len() > commands_before && around.substitution.is_none() {
            self.parsed.last_command = Some(commands_before);
        }
    }

    fn visit_leaf(&mut self, node: Node<'_>, kind: NodeKind, around: NodeContext) {
        let NodeKind { name: kind, open_ended, .. } = kind;
        self.disagrees |= self.is_text_to_bash(node, kind, around) || !self.leaf_agrees(node, kind, around.parent);
        // Text before a node is not its own.
        let opens = around.border == Some(node.start_byte());
        let loose = if opens { around.loose_outside } else { around.loose };
        let gap = self.text.get(self.read_to..node.start_byte()).unwrap_or("");
        // A newline inside a command, which the grammar skipped instead of ending the command there.
        let may_break = self.newline_may_follow || self.line_may_start == Some(node.start_byte());
        let swallowed = !may_break && without_continuations(gap).any(|c| c == '\n');
        let blank = is_blank(gap) || self.dashes.contains(&self.read_to);
        // Between the operands of a condition nothing else is content.
        let between = matches!(around.parent, "test_command" | "unary_expression" | "binary_expression");
        if (!loose && (!blank || swallowed)) || (between && !is_blank(gap)) {
            self.record_trouble(ParseTrouble::Syntax);
        }
        self.parsed.beyond_command_rules |= loose && has_bare_special(gap);
        self.read_to = self.read_to.max(node.end_byte());
        self.newline_may_follow = match kind {
            // It leaves the state of the preceding leaf unchanged.
            "comment" => self.newline_may_follow,
            "in" => around.parent == "case_statement",
            ")" => around.parent == "case_item" || open_ended,
            _ => open_ended,
        };
        let source = self.source(node);
        if around.verbatim && matches!(kind, "raw_string" | "ansi_c_string") && !is_plain(source) {
            self.parsed.unquoted.push(source.to_owned());
            self.record_trouble(ParseTrouble::Construct);
        }
        let sound = match kind {
            "raw_string" => source.len() >= 2 && source.matches('\'').count() == 2,
            "ansi_c_string" => find_ansi_c_end(source.as_bytes(), 2).is_some_and(|end| end + 1 == source.len()),
            "word" => {
                let one = !has_bare_blank(source) && !source.chars().any(prescan::is_invisible);
                !has_bare_special(source) && (loose || one)
            }
            "regex" => !has_bare_special(&without_anchors(source)),
            "extglob_pattern" | "number" => !has_bare_special(source),
            // The grammar also reads a lone dash as one.
            "file_descriptor" => {
                let operator = self.text[node.end_byte().min(self.text.len())..].starts_with(['<', '>']);
                operator && source.bytes().all(|byte| byte.is_ascii_digit())
            }
            "special_variable_name" => around.quoted || !source.contains(char::is_whitespace),
            "variable_name" => loose || !source.chars().any(prescan::is_invisible),
            "comment" => starts_word(&self.text[..node.start_byte()]),
            _ => construct_checks::is_delimited(node, kind, around.parent, self.text),
        };
        if !sound {
            self.record_trouble(ParseTrouble::Syntax);
        }
    }

    /// Returns true if a leaf matches what bash sees at its position, and nothing that bash sees was skipped before it.
    fn leaf_agrees(&mut self, node: Node<'_>, kind: &str, parent: &str) -> bool {
        let (source, named) = (self.source(node), node.is_named());
        let expression = kind == "regex" && parent == "binary_expression";
        self.marks_agree(node.start_byte(), node.end_byte(), |at, mark| match mark {
            LexMark::Word if expression => at == 0 || source.get(..at).is_some_and(|before| before.ends_with('|')),
            LexMark::Word => at == 0 || matches!(source, ">&-" | "<&-"),
            // In a condition it is a sign of the expression.
            LexMark::Operator if expression => source.get(at..).is_some_and(|rest| rest.starts_with('|')),
            LexMark::Operator => {
                let whole = without_continuations(source).eq(kind.chars());
                !named && whole && kind.starts_with([';', '&', '|', '<', '>', '(', ')'])
            }
            LexMark::Descriptor => at == 0 && kind == "file_descriptor",
            LexMark::Newline => !named && source.trim().is_empty(),
            LexMark::Opening(length) => !named && after_blanks(source, at).is_some_and(|rest| rest.len() == length),
            LexMark::Quote => at == 0 && (kind == "raw_string" || kind == "\""),
            LexMark::End => matches!(kind, "}" | "\"") && after_blanks(source, at).is_some_and(|rest| rest.len() == 1),
        })
    }

    /// Returns true if bash sees no token where a leaf that is a shell word or sign begins: to bash it is text, or the
    /// middle of a word.
    fn is_text_to_bash(&self, node: Node<'_>, kind: &str, around: NodeContext) -> bool {
        let Some(marks) = &self.marks else { return false };
        let start = node.start_byte();
        let sign = || !node.is_named() && kind.starts_with([';', '&', '|', '<', '>', '(', ')']);
        let begins = || {
            let before = self.text[..start].trim_end_matches("\\\n");
            let parted = before.strip_suffix([' ', '\t', '\n']);
            before.is_empty() || parted.is_some_and(|before| !before.ends_with('\\'))
        };
        let word = || matches!(kind, "word" | "number" | "raw_string" | "\"") && begins();
        let matters = !around.loose && !around.quoted && (kind == "file_descriptor" || sign() || word());
        let seen = || {
            let first = marks.partition_point(|(at, _)| *at < start);
            marks.get(first).is_some_and(|(at, _)| *at == start)
        };
        matters && !seen()
    }

    /// Returns true if bash ends a line between the words of a command.
    fn ends_line_inside(&self, node: Node<'_>) -> bool {
        let Some(marks) = &self.marks else { return false };
        let first = marks.partition_point(|(at, _)| *at < node.start_byte());
        let mut inside = marks[first..].iter().take_while(|(at, _)| *at < node.end_byte());
        if !inside.any(|(_, mark)| *mark == LexMark::Newline) {
            return false;
        }
        let mut cursor = node.walk();
        let mut end = node.start_byte();
        node.children(&mut cursor).any(|child| {
            let before = std::mem::replace(&mut end, child.end_byte());
            let first = marks.partition_point(|(at, _)| *at < before);
            marks[first..]
                .iter()
                .take_while(|(at, _)| *at < child.start_byte())
                .any(|(_, mark)| *mark == LexMark::Newline)
        })
    }

    /// Compares every mark up to the end of a leaf with it; `fits` receives the mark's offset in the leaf.
    fn marks_agree(&mut self, start: usize, end: usize, fits: impl Fn(usize, LexMark) -> bool) -> bool {
        let Some(marks) = &self.marks else { return false };
        let mut agree = true;
        while let Some((at, mark)) = marks.get(self.compared).copied().filter(|(at, _)| *at < end) {
            self.compared += 1;
            agree &= match at.checked_sub(start) {
                Some(at) => fits(at, mark),
                // Between leaves there are ends of lines, and dashes that the grammar loses.
                None => {
                    mark == LexMark::Newline || (mark == LexMark::Word && is_dash_word(&self.text.as_bytes()[at..]))
                }
            };
        }
        agree
    }

    /// Checks that the parts of one word touch each other.
    fn check_one_word(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        let mut end = node.start_byte();
        for child in node.children(&mut cursor) {
            if !is_continuation(self.text.get(end..child.start_byte())) || node_kinds::kind_name(child) == "``" {
                self.record_trouble(ParseTrouble::Syntax);
            }
            end = child.end_byte();
        }
    }

    fn push_command(
        &mut self,
        node: Node<'_>,
        around: NodeContext,
        words: Vec<Word>,
        assignments: Vec<VariableAssignment>,
    ) {
        let (at, within, in_loop) = (node.start_byte(), around.substitution, around.in_loop);
        let mixed = around.errors_joined_from.is_some_and(|from| from <= at) || joins_errors(node, self.text);
        for words in reachable_commands(&words) {
            self.parsed.has_indirect_expansion |= builtin_evaluation::evaluates_words(words);
            // The variable it sets may influence the next command: `read PATH`.
            let is_harmless = |name: &&Word| name.value().is_some_and(construct_checks::is_harmless_name);
            self.parsed.beyond_command_rules |= builtin_evaluation::is_arithmetic(words)
                || !builtin_evaluation::variables_set(words).iter().all(is_harmless);
        }
        self.parsed.commands.push(ParsedCommand { words, assignments, at, within, in_loop, errors_join_output: mixed });
    }

    fn visit_command(&mut self, node: Node<'_>, around: NodeContext) {
        let mut assignments = Vec::new();
        let mut words = WordCollector::new(self.text);
        let mut cursor = node.walk();
        let mut before = None;
        for child in node.children(&mut cursor) {
            // The grammar may cut a value or a target at a dollar sign; the part cut off is not a word of the command.
            let touches = before.is_some_and(|end| is_continuation(self.text.get(end..child.start_byte())));
            let kind = node_kinds::kind_name(child);
            let redirects = matches!(kind, "file_redirect" | "herestring_redirect");
            let cut_off = touches && !redirects;
            before = (cut_off || redirects || kind == "variable_assignment").then(|| child.end_byte());
            match kind {
                _ if cut_off => self.record_trouble(ParseTrouble::Syntax),
                "variable_assignment" => assignments.push(self.parse_assignment(child)),
                "file_redirect" => {}
                "herestring_redirect" => self.visit_here_string(child),
                "command_name" => words.add(child.child(0).unwrap_or(child)),
                "subshell" | "=~" | "==" => {
                    // `name (…)` is not a command to bash, and the operators belong into `[[ … ]]`.
                    self.record_trouble(ParseTrouble::Construct);
                    words.add(child);
                }
                _ => words.add(child),
            }
        }
        let mut words = words.finish();
        if has_odd_command_word(&words) {
            self.record_trouble(ParseTrouble::Construct);
        }
        if let Some((_, extra)) = self.extra_words.take_if(|(start, _)| *start == node.start_byte()) {
            words.extend(extra);
        }
        self.push_command(node, around, words, assignments);
    }

    fn parse_assignment(&mut self, node: Node<'_>) -> VariableAssignment {
        self.check_one_word(node);
        let part = |field: &str| node.child_by_field_name(field);
        let plain = node.child(1).is_some_and(|operator| node_kinds::kind_name(operator) == "=");
        let value = match part("value") {
            Some(value) => word_from_node(value, self.text).value().map(str::to_owned),
            None => Some(String::new()),
        };
        let name = part("name").map_or("", |name| self.source(name)).to_owned();
        VariableAssignment { name, value: if plain { value } else { None } }
    }

    /// Visits builtins for which the grammar has nodes of their own.
    fn visit_builtin(&mut self, node: Node<'_>, around: NodeContext) {
        let mut words = WordCollector::new(self.text);
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            words.add(child);
        }
        self.parsed.beyond_command_rules |= node_kinds::kind_name(node) == "declaration_command";
        self.push_command(node, around, words.finish(), Vec::new());
    }

    /// Visits `[ … ]` and `[[ … ]]`, flattened into the words that the shell sees.
    fn visit_condition(&mut self, node: Node<'_>, around: NodeContext) {
        let leaves = construct_checks::condition_leaves(node);
        let single = node.child(0).is_some_and(|child| node_kinds::kind_name(child) == "[");
        if (single && !construct_checks::is_plain_bracket(&leaves))
            || (!single
                && (construct_checks::has_odd_operator(&leaves)
                    || construct_checks::has_doubtful_operand(&leaves, self.text)))
        {
            self.record_trouble(ParseTrouble::Construct);
        }
        let mut words = WordCollector::new(self.text);
        leaves.into_iter().for_each(|leaf| words.add(leaf));
        self.push_command(node, around, words.finish(), Vec::new());
    }

    fn visit_expansion(&mut self, node: Node<'_>) {
        let source = self.expansion_source(node);
        let expanded = construct_checks::expansion_effect(node_kinds::kind_name(node), source);
        if expanded != ExpansionEffect::Value && source.contains('\'') {
            // The grammar has no leaf for every pair of quotes in arithmetic.
            self.parsed.unquoted.push(source.to_owned());
        }
        match expanded {
            ExpansionEffect::Value => {}
            ExpansionEffect::Computed => self.parsed.beyond_command_rules = true,
            ExpansionEffect::Indirect => self.parsed.has_indirect_expansion = true,
            ExpansionEffect::Prompt => (self.parsed.has_indirect_expansion, self.parsed.runs_values) = (true, true),
        }
    }

    fn visit_for_loop(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        let mut words = WordCollector::new(self.text);
        node.children_by_field_name("value", &mut cursor).for_each(|value| words.add(value));
        let words: Vec<Word> = words.finish().iter().flat_map(Word::choices).cloned().collect();
        let name = node.child_by_field_name("variable").map_or("", |name| self.source(name)).to_owned();
        let is_for = node.child(0).is_some_and(|child| node_kinds::kind_name(child) == "for");
        self.parsed.beyond_command_rules |= !is_for || words.is_empty() || !construct_checks::is_harmless_name(&name);
        let body = node.child_by_field_name("body").map_or(0..0, |body| body.byte_range());
        self.parsed.loops.push(ForLoop { name, words, body });
    }

    /// Records which simple command feeds which.
    fn visit_pipeline(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        let mut before: Option<usize> = None;
        for child in node.named_children(&mut cursor) {
            if before.is_some() && node_kinds::kind_name(child) == "negated_command" {
                self.record_trouble(ParseTrouble::Syntax);
            }
            let command = match node_kinds::kind_name(child) {
                "redirected_statement" => child.child_by_field_name("body"),
                _ => Some(child),
            };
            let command =
                command.filter(|node| node_kinds::kind_name(*node) == "command").map(|node| node.start_byte());
            match (before, command) {
                (Some(from), Some(to)) => self.parsed.pipes.push((from, to)),
                (Some(from), None) => self.parsed.loop_inputs.push((from, child.byte_range())),
                (None, _) => {}
            }
            // A command that is not simple must not be ignored.
            before = Some(command.unwrap_or(usize::MAX));
        }
    }

    /// Visits a redirected statement. The grammar counts words after a redirection's target as further targets, and
    /// loses a dash before one; to bash both are arguments.
    fn visit_redirected(&mut self, node: Node<'_>) {
        let mut extra = Vec::new();
        let mut cursor = node.walk();
        let mut end = node.start_byte();
        for child in node.children(&mut cursor) {
            // After a line continuation the grammar reads a descriptor number as a word.
            if end == child.start_byte() && ends_in_number(&self.text[..end]) {
                self.record_trouble(ParseTrouble::Syntax);
            }
            if is_lone_dash(self.text.get(end..child.start_byte()).unwrap_or("")) {
                extra.push(Word::from_literal("-"));
                self.dashes.push(end);
            }
            end = child.end_byte();
            if node_kinds::kind_name(child) == "file_redirect" {
                extra.extend(self.redirect_words(child).skip(1));
            }
        }
        if extra.is_empty() {
            return;
        }
        match node.child_by_field_name("body") {
            Some(body) if node_kinds::kind_name(body) == "command" => {
                self.extra_words = Some((body.start_byte(), extra))
            }
            _ => self.record_trouble(ParseTrouble::Construct),
        }
    }

    fn visit_file_redirect(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        let operator = node.children(&mut cursor).find(|child| !child.is_named()).map(|child| self.source(child));
        let target = self.redirect_words(node).next().unwrap_or_default();
        let operator = operator.unwrap_or("").to_owned();
        // If that is not a descriptor, bash expands it twice, and quotes only apply the first time.
        let source = node.child_by_field_name("destination").map_or("", |target| self.source(target));
        // A closed descriptor has no target, and the grammar reads the next word as one.
        if operator.ends_with('-') && !source.is_empty() {
            self.record_trouble(ParseTrouble::Construct);
        }
        let plain = source.chars().all(|c| c.is_ascii_alphanumeric() || "_./-".contains(c));
        if operator == ">&" && !plain && !target.value().is_some_and(is_descriptor_number) {
            self.parsed.unquoted.extend(target.value().map(str::to_owned));
            self.record_trouble(ParseTrouble::Construct);
        }
        self.add_redirect(node, operator, target);
    }

    fn add_redirect(&mut self, node: Node<'_>, operator: String, target: Word) {
        let descriptor = node.child_by_field_name("descriptor").map(|number| self.source(number).to_owned());
        let (at, statement) = (node.start_byte(), node.byte_range());
        let mut redirect = ParsedRedirect { operator, target, at, descriptor, statement };
        if redirect.uses_extra_descriptor() && self.further_descriptors < MOST_DESCRIPTORS {
            self.further_descriptors += 1;
            redirect.statement = construct_checks::statement_around(node);
        }
        self.parsed.redirects.push(redirect);
    }

    /// Returns the words after a redirection operator. The grammar may cut a word at a dollar sign.
    fn redirect_words(&self, redirect: Node<'_>) -> impl Iterator<Item = Word> + use<> {
        let mut cursor = redirect.walk();
        let mut words = WordCollector::new(self.text);
        redirect.children_by_field_name("destination", &mut cursor).for_each(|node| words.add(node));
        words.finish().into_iter()
    }

    fn visit_here_string(&mut self, node: Node<'_>) {
        let target = node.named_child(node.named_child_count().saturating_sub(1) as u32);
        let target = target.map(|target| word_from_node(target, self.text)).unwrap_or_default();
        self.add_redirect(node, "<<<".to_owned(), target);
    }

    fn visit_here_document(&mut self, node: Node<'_>) {
        let document = here_documents::read_here_document(node, self.text);
        if !document.agrees_with_bash {
            self.record_trouble(ParseTrouble::Construct);
        }
        if document.hidden {
            self.parsed.unquoted.extend(document.body.value().map(str::to_owned));
        }
        self.add_redirect(node, "<<".to_owned(), document.body);
    }
}

/// Returns the offset from which a statement redirects standard error to its output: `|&` for a whole pipeline, `2>&1`
/// for a command, which the grammar may place after the pipeline that this command ends.
fn errors_joined_from(node: Node<'_>, kind: &str, text: &str) -> Option<usize> {
    let mut cursor = node.walk();
    match kind {
        "pipeline" => {
            node.children(&mut cursor).any(|child| node_kinds::kind_name(child) == "|&").then(|| node.start_byte())
        }
        "redirected_statement" if joins_errors(node, text) => {
            let body = node.child_by_field_name("body").unwrap_or(node);
            let last = body.named_child(body.named_child_count().saturating_sub(1) as u32);
            let start = match last {
                Some(last) if node_kinds::kind_name(body) == "pipeline" => last,
                _ => body,
            };
            Some(start.start_byte())
        }
        _ => None,
    }
}

/// Returns true if a node has a redirection to a descriptor other than standard error.
fn joins_errors(node: Node<'_>, text: &str) -> bool {
    let mixes = |source: &str| source.contains(">&") && !source.ends_with("&2");
    if text.get(node.byte_range()).is_some_and(|source| !source.contains(">&")) {
        return false;
    }
    let mut cursor = node.walk();
    let mut redirects = node.children(&mut cursor).filter(|child| node_kinds::kind_name(*child) == "file_redirect");
    redirects.any(|redirect| text.get(redirect.byte_range()).is_some_and(mixes))
}

/// Returns the rest of a leaf after a position, if only whitespace precedes it: between quotes the grammar includes
/// whitespace in the sign after it.
fn after_blanks(source: &str, at: usize) -> Option<&str> {
    let (before, behind) = source.split_at_checked(at)?;
    before.trim_start_matches([' ', '\t', '\n']).is_empty().then_some(behind)
}

fn is_backtick_with_escapes(source: &str) -> bool {
    source.starts_with('`') && source.contains('\\')
}

/// Returns true if a word has an unquoted special character. Inside `${…}` and patterns the grammar reads long
/// stretches as one word, substitutions included.
fn has_bare_special(source: &str) -> bool {
    let mut chars = source.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '`' | '$' | '(' | '<' | '>' | '"' | '\'' | ';' | '&' => return true,
            _ => {}
        }
    }
    false
}

/// Returns a regular expression without the dollar signs that only mark the end.
fn without_anchors(source: &str) -> String {
    let mut kept = source.replace("$|", "|").replace("$)", ")");
    if kept.ends_with('$') && !kept.ends_with("\\$") {
        kept.pop();
    }
    kept
}

/// Returns true if text between single quotes has an unchanged meaning without them.
fn is_plain(source: &str) -> bool {
    let inner = source.trim_start_matches('$').trim_matches('\'');
    inner.chars().all(|c| c.is_alphanumeric() || " _-+./:,@%=".contains(c))
}

/// Returns true if a word has unquoted whitespace. The grammar reads braces and brackets as one word even with
/// whitespace between them.
fn has_bare_blank(source: &str) -> bool {
    let mut chars = source.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            ' ' | '\t' | '\n' => return true,
            _ => {}
        }
    }
    false
}

/// Returns true if the last word of a text is a number.
fn ends_in_number(text: &str) -> bool {
    let before = text.trim_end_matches(|c: char| c.is_ascii_digit());
    before.len() < text.len() && starts_word(before)
}

/// Returns true if the next word is a lone dash.
fn is_dash_word(text: &[u8]) -> bool {
    matches!(text, [b'-'] | [b'-', b' ' | b'\t' | b'\n', ..])
}

/// Returns true for a dash between whitespace, which is a word of its own.
fn is_lone_dash(gap: &str) -> bool {
    let blank = |c: char| matches!(c, ' ' | '\t');
    gap.starts_with(blank) && gap.trim_matches(blank) == "-"
}

/// Returns true if a word could start after this text. In bash a `#` starts a comment only there, and a line
/// continuation does not end a word.
fn starts_word(mut before: &str) -> bool {
    while let Some(shorter) = before.strip_suffix("\\\n") {
        before = shorter;
    }
    before.is_empty() || before.ends_with([' ', '\t', '\n', ';', '&', '|', '(', ')'])
}

/// Returns true for whitespace, newlines and line continuations, which bash, too, skips between words.
fn is_blank(gap: &str) -> bool {
    without_continuations(gap).all(|c| matches!(c, ' ' | '\t' | '\n'))
}

/// Returns true if bash reads the command word differently from the grammar.
fn has_odd_command_word(words: &[Word]) -> bool {
    const RESERVED: &[&str] = &[
        "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for", "select", "in",
        "function", "{", "}", "!", "[[", "]]", "coproc",
    ];
    let Some(Some(name)) = words.first().map(Word::value) else { return false };
    RESERVED.contains(&name) || name.contains('=')
}
