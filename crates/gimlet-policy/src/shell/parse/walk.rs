//! The walk over a syntax tree: it collects commands, redirections and loops, and compares every leaf and every gap
//! between leaves with what bash itself would read there.

use tree_sitter::{Node, Tree};

use super::lexed::Mark;
use super::structure::{self, Expanded};
use super::{Assignment, Command, Loop, Parsed, Redirect, documents, is_number};
use crate::shell::kinds::{self, Kind};
use crate::shell::node_words::{Words, element_values, is_continuation, without_continuations, word_of};
use crate::shell::scan::ansi_c_end;
use crate::shell::word::Word;
use crate::shell::wrappers::reachable;
use crate::shell::{MOST_DESCRIPTORS, Trouble, elements, prescan};

/// What surrounds a node.
#[derive(Clone, Copy, Debug, Default)]
struct Inside {
    loose: bool,
    /// Where the innermost node begins that is looser or stricter than its surroundings, and what these are.
    border: Option<usize>,
    loose_outside: bool,
    /// Where the innermost substitution begins.
    substitution: Option<usize>,
    in_loop: bool,
    /// From where on errors go where the output goes, up to the end of the node around.
    mixed_from: Option<usize>,
    /// Double quotes or the text of a document.
    quoted: bool,
    /// Bash takes single quotes for letters here and expands what stands between them.
    verbatim: bool,
    /// The kind of the node around it.
    parent: &'static str,
}

impl Inside {
    fn below(self, node: Node<'_>, kind: Kind, text: &str) -> Self {
        let Kind { name, loose, .. } = kind;
        let substitution = matches!(name, "command_substitution" | "process_substitution");
        // `[ … ]` is an ordinary command to bash, whatever the grammar makes of it.
        let bracket = name == "test_command" && node.child(0).is_some_and(|child| kinds::name(child) == "[");
        let borders = substitution || loose;
        let verbatim = structure::takes_quotes_for_letters(node, self.quoted, text);
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
            mixed_from: if substitution { None } else { self.mixed_from.or_else(|| mixed_from(node, name, text)) },
            quoted: !substitution && (self.quoted || matches!(name, "string" | "heredoc_body")),
            verbatim: verbatim || (self.verbatim && !substitution),
            parent: name,
        }
    }
}

pub(super) struct Walk<'a> {
    text: &'a str,
    parsed: Parsed,
    /// The end of the last leaf.
    read_to: usize,
    /// After the last leaf a newline means nothing.
    newline_may_follow: bool,
    /// Where the innermost node that may start a line begins.
    line_may_start: Option<usize>,
    /// Arguments that the grammar has elsewhere or nowhere, for the command that starts at this byte.
    extra_words: Option<(usize, Vec<Word>)>,
    /// Where gaps begin that hold an argument.
    dashes: Vec<usize>,
    /// What bash sees and where, as far as that is certain, and which of it the leaves have been held against.
    marks: Option<Vec<(usize, Mark)>>,
    compared: usize,
    /// Grammar and bash part somewhere.
    parted: bool,
    /// Redirections so far that name a descriptor above 2.
    further_descriptors: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn new(text: &'a str, marks: Option<Vec<(usize, Mark)>>) -> Self {
        Self {
            text,
            parsed: Parsed::default(),
            read_to: 0,
            newline_may_follow: true,
            line_may_start: None,
            extra_words: None,
            dashes: Vec::new(),
            marks,
            compared: 0,
            parted: false,
            further_descriptors: 0,
        }
    }

    /// Visits every node once, without recursion: a list of n commands is n levels deep.
    pub(super) fn whole(mut self, tree: &Tree) -> Parsed {
        let mut cursor = tree.walk();
        let mut inside = vec![Inside::default()];
        loop {
            let node = cursor.node();
            let kind = kinds::of(node);
            let around = inside.last().copied().unwrap_or_default();
            self.visit(node, kind, around);
            if cursor.goto_first_child() {
                inside.push(around.below(node, kind, self.text));
                continue;
            }
            self.leaf(node, kind, around);
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    self.end(tree.root_node());
                    return self.parsed;
                }
                inside.pop();
            }
        }
    }

    fn trouble(&mut self, trouble: Trouble) {
        self.parsed.trouble.get_or_insert(trouble);
    }

    fn end(&mut self, root: Node<'_>) {
        if !is_blank(&self.text[self.read_to.min(self.text.len())..]) {
            self.trouble(Trouble::Syntax);
        }
        let end = self.text.len();
        if self.parted || !self.marks_agree(end, end, |_, _| false) {
            self.trouble(Trouble::Construct);
        }
        let mut cursor = root.walk();
        let statement = root.named_children(&mut cursor).filter(|node| kinds::name(*node) != "comment").last();
        let sequential = statement.is_some_and(|node| {
            matches!(kinds::name(node), "command" | "pipeline" | "list" | "redirected_statement" | "test_command")
        });
        if !sequential || self.parsed.trouble.is_some() {
            self.parsed.last_command = None;
        }
    }

    fn source(&self, node: Node<'_>) -> &'a str {
        // A node may end inside a character where the grammar saw several letters; then its source is unknown.
        self.text.get(node.byte_range()).unwrap_or("")
    }

    /// The grammar takes blanks in front of an expansion between quotes for a part of it.
    fn expansion_source(&self, node: Node<'_>) -> &'a str {
        self.source(node).trim_start_matches([' ', '\t', '\n'])
    }

    fn visit(&mut self, node: Node<'_>, kind: Kind, around: Inside) {
        let Kind { name: kind, known, starts_line, .. } = kind;
        if node.is_error() || node.is_missing() || !structure::is_complete(node, kind) {
            self.trouble(Trouble::Syntax);
        }
        if node.is_named() && !known {
            self.trouble(Trouble::Construct);
        }
        if starts_line {
            self.line_may_start = Some(node.start_byte());
        }
        let redirects = matches!(kind, "file_redirect" | "heredoc_redirect" | "herestring_redirect");
        // `{name}>file` gives the variable a new descriptor.
        if redirects && self.text[..node.start_byte()].trim_end_matches("\\\n").ends_with('}') {
            self.trouble(Trouble::Construct);
        }
        let commands_before = self.parsed.commands.len();
        if matches!(kind, "command" | "declaration_command" | "unset_command") && self.ends_inside(node) {
            self.trouble(Trouble::Syntax);
        }
        match kind {
            "command" => self.command(node, around),
            "test_command" => self.condition(node, around),
            "declaration_command" | "unset_command" => self.builtin(node, around),
            "redirected_statement" => self.redirected(node),
            "concatenation" => self.one_word(node),
            // Behind a dollar sign that stands alone the grammar takes the rest for text.
            "string" if documents::hides_expansions(node, self.text) || self.source(node).contains("$${") => {
                self.parsed.unquoted.push(self.source(node).to_owned());
                self.trouble(Trouble::Construct);
            }
            "file_redirect" => self.file_redirect(node),
            "heredoc_redirect" => self.here_document(node),
            // Those of a simple command are found with its words.
            "herestring_redirect" if around.parent != "command" => self.herestring(node),
            "for_statement" => self.for_loop(node),
            "pipeline" => self.pipeline(node),
            // The grammar lets blanks stand inside these.
            "simple_expansion" => self.one_word(node),
            "variable_assignment" if around.parent != "command" => {
                self.parsed.unspoken = true;
                let value = node.child_by_field_name("value").map(|value| word_of(value, self.text));
                self.parsed.assigned.extend(value.and_then(|value| value.value().map(str::to_owned)));
            }
            "array" => {
                self.parsed.unspoken = true;
                self.parsed.assigned.extend(element_values(node, self.text));
            }
            "function_definition" => self.parsed.unspoken = true,
            // Arithmetic in double parentheses.
            "compound_statement" if node.child(0).is_none_or(|child| kinds::name(child) != "{") => {
                self.parsed.unspoken = true;
            }
            "expansion" | "arithmetic_expansion" => self.expansion(node),
            // Bash takes two parentheses for arithmetic first, where quotes quote nothing.
            "command_substitution" | "process_substitution" | "subshell"
                if structure::opens_twice(self.expansion_source(node)) =>
            {
                self.trouble(Trouble::Construct);
            }
            // Inside backticks bash removes a level of backslashes before it reads the text.
            "command_substitution" if is_backtick_with_escapes(self.expansion_source(node)) => {
                self.trouble(Trouble::Construct);
            }
            ";" if around.parent == "case_statement" => self.trouble(Trouble::Syntax),
            // The grammar takes it for `;`, bash does not.
            ";;" if around.parent != "case_item" => self.trouble(Trouble::Syntax),
            _ => {}
        }
        if self.parsed.commands.len() > commands_before && around.substitution.is_none() {
            self.parsed.last_command = Some(commands_before);
        }
    }

    fn leaf(&mut self, node: Node<'_>, kind: Kind, around: Inside) {
        let Kind { name: kind, open_ended, .. } = kind;
        self.parted |= self.is_unseen(node, kind, around) || !self.agrees(node, kind, around.parent);
        // What stands before a node is not its own.
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
            self.trouble(Trouble::Syntax);
        }
        self.parsed.unspoken |= loose && has_bare_special(gap);
        self.read_to = self.read_to.max(node.end_byte());
        self.newline_may_follow = match kind {
            // What it stands behind goes on behind it.
            "comment" => self.newline_may_follow,
            "in" => around.parent == "case_statement",
            ")" => around.parent == "case_item" || open_ended,
            _ => open_ended,
        };
        let source = self.source(node);
        if around.verbatim && matches!(kind, "raw_string" | "ansi_c_string") && !is_plain(source) {
            self.parsed.unquoted.push(source.to_owned());
            self.trouble(Trouble::Construct);
        }
        let sound = match kind {
            "raw_string" => source.len() >= 2 && source.matches('\'').count() == 2,
            "ansi_c_string" => ansi_c_end(source.as_bytes(), 2).is_some_and(|end| end + 1 == source.len()),
            "word" => {
                let one = !has_bare_blank(source) && !source.chars().any(prescan::is_invisible);
                !has_bare_special(source) && (loose || one)
            }
            "regex" => !has_bare_special(&without_anchors(source)),
            "extglob_pattern" | "number" => !has_bare_special(source),
            // The grammar takes a lone dash for one, too.
            "file_descriptor" => {
                let operator = self.text[node.end_byte().min(self.text.len())..].starts_with(['<', '>']);
                operator && source.bytes().all(|byte| byte.is_ascii_digit())
            }
            "special_variable_name" => around.quoted || !source.contains(char::is_whitespace),
            "variable_name" => loose || !source.chars().any(prescan::is_invisible),
            "comment" => starts_word(&self.text[..node.start_byte()]),
            _ => structure::is_delimited(node, kind, around.parent, self.text),
        };
        if !sound {
            self.trouble(Trouble::Syntax);
        }
    }

    /// Whether a leaf is what bash sees in its place, and whether nothing that bash sees was passed over before it.
    fn agrees(&mut self, node: Node<'_>, kind: &str, parent: &str) -> bool {
        let (source, named) = (self.source(node), node.is_named());
        let expression = kind == "regex" && parent == "binary_expression";
        self.marks_agree(node.start_byte(), node.end_byte(), |at, mark| match mark {
            Mark::Word if expression => at == 0 || source.get(..at).is_some_and(|before| before.ends_with('|')),
            Mark::Word => at == 0 || matches!(source, ">&-" | "<&-"),
            // In a condition it is a sign of the expression.
            Mark::Operator if expression => source.get(at..).is_some_and(|rest| rest.starts_with('|')),
            Mark::Operator => {
                let whole = without_continuations(source).eq(kind.chars());
                !named && whole && kind.starts_with([';', '&', '|', '<', '>', '(', ')'])
            }
            Mark::Descriptor => at == 0 && kind == "file_descriptor",
            Mark::Newline => !named && source.trim().is_empty(),
            Mark::Opening(length) => !named && behind_blanks(source, at).is_some_and(|rest| rest.len() == length),
            Mark::Quote => at == 0 && (kind == "raw_string" || kind == "\""),
            Mark::End => matches!(kind, "}" | "\"") && behind_blanks(source, at).is_some_and(|rest| rest.len() == 1),
        })
    }

    /// Whether bash sees nothing where a leaf begins that is a word or a sign of the shell: text to it, or the middle of a
    /// word.
    fn is_unseen(&self, node: Node<'_>, kind: &str, around: Inside) -> bool {
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

    /// Whether bash ends a line between the words of a command.
    fn ends_inside(&self, node: Node<'_>) -> bool {
        let Some(marks) = &self.marks else { return false };
        let first = marks.partition_point(|(at, _)| *at < node.start_byte());
        let mut inside = marks[first..].iter().take_while(|(at, _)| *at < node.end_byte());
        if !inside.any(|(_, mark)| *mark == Mark::Newline) {
            return false;
        }
        let mut cursor = node.walk();
        let mut end = node.start_byte();
        node.children(&mut cursor).any(|child| {
            let before = std::mem::replace(&mut end, child.end_byte());
            let first = marks.partition_point(|(at, _)| *at < before);
            marks[first..].iter().take_while(|(at, _)| *at < child.start_byte()).any(|(_, mark)| *mark == Mark::Newline)
        })
    }

    /// Holds every mark up to the end of a leaf against it; `fits` is told where in the leaf it is.
    fn marks_agree(&mut self, start: usize, end: usize, fits: impl Fn(usize, Mark) -> bool) -> bool {
        let Some(marks) = &self.marks else { return false };
        let mut agree = true;
        while let Some((at, mark)) = marks.get(self.compared).copied().filter(|(at, _)| *at < end) {
            self.compared += 1;
            agree &= match at.checked_sub(start) {
                Some(at) => fits(at, mark),
                // Between leaves lines end, and the grammar loses a lone dash there.
                None => mark == Mark::Newline || (mark == Mark::Word && is_dash_word(&self.text.as_bytes()[at..])),
            };
        }
        agree
    }

    /// The parts of one word must touch each other.
    fn one_word(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        let mut end = node.start_byte();
        for child in node.children(&mut cursor) {
            if !is_continuation(self.text.get(end..child.start_byte())) || kinds::name(child) == "``" {
                self.trouble(Trouble::Syntax);
            }
            end = child.end_byte();
        }
    }

    fn push(&mut self, node: Node<'_>, around: Inside, words: Vec<Word>, assignments: Vec<Assignment>) {
        let (at, within, in_loop) = (node.start_byte(), around.substitution, around.in_loop);
        let mixed = around.mixed_from.is_some_and(|from| from <= at) || has_mixing(node, self.text);
        for words in reachable(&words) {
            self.parsed.treacherous |= elements::evaluates_words(words);
            // What it sets may be what the next command goes by: `read PATH`.
            let is_harmless = |name: &&Word| name.value().is_some_and(structure::is_harmless_name);
            self.parsed.unspoken |=
                elements::is_arithmetic(words) || !elements::names_set(words).iter().all(is_harmless);
        }
        self.parsed.commands.push(Command { words, assignments, at, within, in_loop, mixed });
    }

    fn command(&mut self, node: Node<'_>, around: Inside) {
        let mut assignments = Vec::new();
        let mut words = Words::new(self.text);
        let mut cursor = node.walk();
        let mut before = None;
        for child in node.children(&mut cursor) {
            // The grammar may cut a value or a target at a dollar sign; what it cut off is no word of the command.
            let touches = before.is_some_and(|end| is_continuation(self.text.get(end..child.start_byte())));
            let kind = kinds::name(child);
            let redirects = matches!(kind, "file_redirect" | "herestring_redirect");
            let cut_off = touches && !redirects;
            before = (cut_off || redirects || kind == "variable_assignment").then(|| child.end_byte());
            match kind {
                _ if cut_off => self.trouble(Trouble::Syntax),
                "variable_assignment" => assignments.push(self.assignment(child)),
                "file_redirect" => {}
                "herestring_redirect" => self.herestring(child),
                "command_name" => words.add(child.child(0).unwrap_or(child)),
                "subshell" | "=~" | "==" => {
                    // `name (…)` is not a command to bash, and the operators belong into `[[ … ]]`.
                    self.trouble(Trouble::Construct);
                    words.add(child);
                }
                _ => words.add(child),
            }
        }
        let mut words = words.finish();
        if words_are_odd(&words) {
            self.trouble(Trouble::Construct);
        }
        if let Some((_, extra)) = self.extra_words.take_if(|(start, _)| *start == node.start_byte()) {
            words.extend(extra);
        }
        self.push(node, around, words, assignments);
    }

    fn assignment(&mut self, node: Node<'_>) -> Assignment {
        self.one_word(node);
        let part = |field: &str| node.child_by_field_name(field);
        let plain = node.child(1).is_some_and(|operator| kinds::name(operator) == "=");
        let value = match part("value") {
            Some(value) => word_of(value, self.text).value().map(str::to_owned),
            None => Some(String::new()),
        };
        let name = part("name").map_or("", |name| self.source(name)).to_owned();
        Assignment { name, value: value.filter(|_| plain) }
    }

    /// Builtins for which the grammar has nodes of their own.
    fn builtin(&mut self, node: Node<'_>, around: Inside) {
        let mut words = Words::new(self.text);
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            words.add(child);
        }
        self.parsed.unspoken |= kinds::name(node) == "declaration_command";
        self.push(node, around, words.finish(), Vec::new());
    }

    /// `[ … ]` and `[[ … ]]`, flattened into the words that the shell sees.
    fn condition(&mut self, node: Node<'_>, around: Inside) {
        let leaves = structure::condition_leaves(node);
        let single = node.child(0).is_some_and(|child| kinds::name(child) == "[");
        if (single && !structure::is_plain_bracket(&leaves))
            || (!single
                && (structure::has_odd_operator(&leaves) || structure::has_doubtful_operand(&leaves, self.text)))
        {
            self.trouble(Trouble::Construct);
        }
        let mut words = Words::new(self.text);
        leaves.into_iter().for_each(|leaf| words.add(leaf));
        self.push(node, around, words.finish(), Vec::new());
    }

    fn expansion(&mut self, node: Node<'_>) {
        let source = self.expansion_source(node);
        let expanded = structure::expanded(kinds::name(node), source);
        if expanded != Expanded::Value && source.contains('\'') {
            // The grammar has no leaf for every pair of quotes in arithmetic.
            self.parsed.unquoted.push(source.to_owned());
        }
        match expanded {
            Expanded::Value => {}
            Expanded::Computed => self.parsed.unspoken = true,
            Expanded::Treacherous => self.parsed.treacherous = true,
            Expanded::Prompt => (self.parsed.treacherous, self.parsed.runs_values) = (true, true),
        }
    }

    fn for_loop(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        let mut words = Words::new(self.text);
        node.children_by_field_name("value", &mut cursor).for_each(|value| words.add(value));
        let words: Vec<Word> = words.finish().iter().flat_map(Word::choices).cloned().collect();
        let name = node.child_by_field_name("variable").map_or("", |name| self.source(name)).to_owned();
        let is_for = node.child(0).is_some_and(|child| kinds::name(child) == "for");
        self.parsed.unspoken |= !is_for || words.is_empty() || !structure::is_harmless_name(&name);
        let body = node.child_by_field_name("body").map_or(0..0, |body| body.byte_range());
        self.parsed.loops.push(Loop { name, words, body });
    }

    /// Notes which simple command feeds which.
    fn pipeline(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        let mut before: Option<usize> = None;
        for child in node.named_children(&mut cursor) {
            if before.is_some() && kinds::name(child) == "negated_command" {
                self.trouble(Trouble::Syntax);
            }
            let command = match kinds::name(child) {
                "redirected_statement" => child.child_by_field_name("body"),
                _ => Some(child),
            };
            let command = command.filter(|node| kinds::name(*node) == "command").map(|node| node.start_byte());
            match (before, command) {
                (Some(from), Some(to)) => self.parsed.pipes.push((from, to)),
                (Some(from), None) => self.parsed.fed.push((from, child.byte_range())),
                (None, _) => {}
            }
            // What is not a simple command must not be taken for nothing.
            before = Some(command.unwrap_or(usize::MAX));
        }
    }

    /// The grammar counts words after a redirection's target as further targets, and loses a dash before one; to bash both
    /// are arguments.
    fn redirected(&mut self, node: Node<'_>) {
        let mut extra = Vec::new();
        let mut cursor = node.walk();
        let mut end = node.start_byte();
        for child in node.children(&mut cursor) {
            // Behind a line that goes on the grammar takes the number of a descriptor for a word.
            if end == child.start_byte() && ends_in_number(&self.text[..end]) {
                self.trouble(Trouble::Syntax);
            }
            if is_lone_dash(self.text.get(end..child.start_byte()).unwrap_or("")) {
                extra.push(Word::literal("-"));
                self.dashes.push(end);
            }
            end = child.end_byte();
            if kinds::name(child) == "file_redirect" {
                extra.extend(self.destinations(child).skip(1));
            }
        }
        if extra.is_empty() {
            return;
        }
        match node.child_by_field_name("body") {
            Some(body) if kinds::name(body) == "command" => self.extra_words = Some((body.start_byte(), extra)),
            _ => self.trouble(Trouble::Construct),
        }
    }

    fn file_redirect(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        let operator = node.children(&mut cursor).find(|child| !child.is_named()).map(|child| self.source(child));
        let target = self.destinations(node).next().unwrap_or_default();
        let operator = operator.unwrap_or("").to_owned();
        // Where that is no descriptor bash expands it twice, and quotes hold for the first time only.
        let source = node.child_by_field_name("destination").map_or("", |target| self.source(target));
        // One that is closed has no target, and the grammar takes the next word for it.
        if operator.ends_with('-') && !source.is_empty() {
            self.trouble(Trouble::Construct);
        }
        let plain = source.chars().all(|c| c.is_ascii_alphanumeric() || "_./-".contains(c));
        if operator == ">&" && !plain && !target.value().is_some_and(is_number) {
            self.parsed.unquoted.extend(target.value().map(str::to_owned));
            self.trouble(Trouble::Construct);
        }
        self.add_redirect(node, operator, target);
    }

    fn add_redirect(&mut self, node: Node<'_>, operator: String, target: Word) {
        let descriptor = node.child_by_field_name("descriptor").map(|number| self.source(number).to_owned());
        let (at, statement) = (node.start_byte(), node.byte_range());
        let mut redirect = Redirect { operator, target, at, descriptor, statement };
        if redirect.names_further_descriptor() && self.further_descriptors < MOST_DESCRIPTORS {
            self.further_descriptors += 1;
            redirect.statement = structure::statement_around(node);
        }
        self.parsed.redirects.push(redirect);
    }

    /// The words behind the sign of a redirection. A dollar sign inside a word is where the grammar may cut it.
    fn destinations(&self, redirect: Node<'_>) -> impl Iterator<Item = Word> + use<> {
        let mut cursor = redirect.walk();
        let mut words = Words::new(self.text);
        redirect.children_by_field_name("destination", &mut cursor).for_each(|node| words.add(node));
        words.finish().into_iter()
    }

    fn herestring(&mut self, node: Node<'_>) {
        let target = node.named_child(node.named_child_count().saturating_sub(1) as u32);
        let target = target.map(|target| word_of(target, self.text)).unwrap_or_default();
        self.add_redirect(node, "<<<".to_owned(), target);
    }

    fn here_document(&mut self, node: Node<'_>) {
        let document = documents::read(node, self.text);
        if !document.sound {
            self.trouble(Trouble::Construct);
        }
        self.parsed.unquoted.extend(document.body.value().filter(|_| document.hidden).map(str::to_owned));
        self.add_redirect(node, "<<".to_owned(), document.body);
    }
}

/// Where a statement has errors go where the output goes: `|&` for a whole pipeline, `2>&1` for a command, which the
/// grammar may have behind the pipeline that this command is the last of.
fn mixed_from(node: Node<'_>, kind: &str, text: &str) -> Option<usize> {
    let mut cursor = node.walk();
    match kind {
        "pipeline" => node.children(&mut cursor).any(|child| kinds::name(child) == "|&").then(|| node.start_byte()),
        "redirected_statement" if has_mixing(node, text) => {
            let body = node.child_by_field_name("body").unwrap_or(node);
            let last = body.named_child(body.named_child_count().saturating_sub(1) as u32);
            Some(last.filter(|_| kinds::name(body) == "pipeline").unwrap_or(body).start_byte())
        }
        _ => None,
    }
}

/// Whether a node has a redirection to another descriptor than that of errors.
fn has_mixing(node: Node<'_>, text: &str) -> bool {
    let mixes = |source: &str| source.contains(">&") && !source.ends_with("&2");
    if text.get(node.byte_range()).is_some_and(|source| !source.contains(">&")) {
        return false;
    }
    let mut cursor = node.walk();
    let mut redirects = node.children(&mut cursor).filter(|child| kinds::name(*child) == "file_redirect");
    redirects.any(|redirect| text.get(redirect.byte_range()).is_some_and(mixes))
}

/// What of a leaf stands behind a place of it, if blanks are all that stands before: between quotes the grammar takes them
/// for a part of the sign behind them.
fn behind_blanks(source: &str, at: usize) -> Option<&str> {
    let (before, behind) = source.split_at_checked(at)?;
    before.trim_start_matches([' ', '\t', '\n']).is_empty().then_some(behind)
}

fn is_backtick_with_escapes(source: &str) -> bool {
    source.starts_with('`') && source.contains('\\')
}

/// Inside `${…}` and patterns the grammar takes whole stretches for one word, substitutions included.
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

/// A regular expression without the dollar signs that only stand for the end.
fn without_anchors(source: &str) -> String {
    let mut kept = source.replace("$|", "|").replace("$)", ")");
    if kept.ends_with('$') && !kept.ends_with("\\$") {
        kept.pop();
    }
    kept
}

/// Whether text between single quotes means the same without them.
fn is_plain(source: &str) -> bool {
    let inner = source.trim_start_matches('$').trim_matches('\'');
    inner.chars().all(|c| c.is_alphanumeric() || " _-+./:,@%=".contains(c))
}

/// The grammar takes braces and brackets for one word also where blanks stand between them.
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

/// Whether the last word of a text is a number.
fn ends_in_number(text: &str) -> bool {
    let before = text.trim_end_matches(|c: char| c.is_ascii_digit());
    before.len() < text.len() && starts_word(before)
}

/// Whether the next word is a dash and nothing else.
fn is_dash_word(text: &[u8]) -> bool {
    matches!(text, [b'-'] | [b'-', b' ' | b'\t' | b'\n', ..])
}

/// A dash between blanks, which is a word of its own.
fn is_lone_dash(gap: &str) -> bool {
    let blank = |c: char| matches!(c, ' ' | '\t');
    gap.starts_with(blank) && gap.trim_matches(blank) == "-"
}

/// In bash a `#` starts a comment only where a word could start, and a line continuation does not end a word.
fn starts_word(mut before: &str) -> bool {
    while let Some(shorter) = before.strip_suffix("\\\n") {
        before = shorter;
    }
    before.is_empty() || before.ends_with([' ', '\t', '\n', ';', '&', '|', '(', ')'])
}

/// Blanks, newlines and line continuations: what bash, too, skips between words.
fn is_blank(gap: &str) -> bool {
    without_continuations(gap).all(|c| matches!(c, ' ' | '\t' | '\n'))
}

/// A command word that bash reads as something else than the grammar did.
fn words_are_odd(words: &[Word]) -> bool {
    const RESERVED: &[&str] = &[
        "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for", "select", "in",
        "function", "{", "}", "!", "[[", "]]", "coproc",
    ];
    let Some(Some(name)) = words.first().map(Word::value) else { return false };
    RESERVED.contains(&name) || name.contains('=')
}
