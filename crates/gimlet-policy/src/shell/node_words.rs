//! Words built from tree nodes: which parts are quoted, which are expansions, and which nodes belong to one word.

use tree_sitter::Node;

use super::node_kinds;
use super::word::{UNKNOWN_CHAR, Word, WordBuilder, WordPiece, brace_expansion};

/// Collects words, joining nodes that bash reads as one word.
pub(super) struct WordCollector<'a> {
    text: &'a str,
    done: Vec<Word>,
    current: Option<(WordBuilder, usize)>,
}

impl<'a> WordCollector<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, done: Vec::new(), current: None }
    }

    pub(super) fn add(&mut self, node: Node<'_>) {
        let mut builder = match self.current.take() {
            Some((builder, end)) if is_continuation(self.text.get(end..node.start_byte())) => builder,
            Some((builder, _)) => {
                self.done.push(builder.finish());
                WordBuilder::default()
            }
            None => WordBuilder::default(),
        };
        add_node(&mut builder, node, self.text);
        self.current = Some((builder, node.end_byte()));
    }

    pub(super) fn finish(mut self) -> Vec<Word> {
        self.done.extend(self.current.take().map(|(builder, _)| builder.finish()));
        self.done
    }
}

/// Returns true if only line continuations stand between two nodes, which then form one word.
pub(super) fn is_continuation(gap: Option<&str>) -> bool {
    gap.is_some_and(|gap| without_continuations(gap).next().is_none())
}

/// Returns the characters between two nodes without line continuations.
pub(super) fn without_continuations(gap: &str) -> impl Iterator<Item = char> {
    let mut rest = gap;
    std::iter::from_fn(move || {
        while let Some(after) = rest.strip_prefix("\\\n") {
            rest = after;
        }
        let mut chars = rest.chars();
        let next = chars.next();
        rest = chars.as_str();
        next
    })
}

pub(super) fn word_from_node(node: Node<'_>, text: &str) -> Word {
    let mut builder = WordBuilder::default();
    add_node(&mut builder, node, text);
    builder.finish()
}

/// Returns the static values of an array's elements, without their keys.
pub(super) fn array_values(array: Node<'_>, text: &str) -> Vec<String> {
    let (mut words, mut cursor) = (WordCollector::new(text), array.walk());
    array.named_children(&mut cursor).for_each(|element| words.add(element));
    let value = |word: &Word| {
        let shown = word.masked();
        // `[KEY]=VALUE`
        let value = match shown.split_once("]=") {
            Some((_, value)) if matches!(word.pieces().first(), Some(WordPiece::Glob('['))) => value,
            _ => shown.as_str(),
        };
        (!value.contains(UNKNOWN_CHAR)).then(|| value.to_owned())
    };
    words.finish().iter().flat_map(Word::choices).filter_map(value).collect()
}

fn add_node(builder: &mut WordBuilder, node: Node<'_>, text: &str) {
    let source = text.get(node.byte_range()).unwrap_or("");
    match node_kinds::kind_name(node) {
        "word" | "number" | "test_operator" | "variable_name" if node.child_count() == 0 => {
            builder.push_unquoted(source)
        }
        "raw_string" if source.len() >= 2 => builder.push_quoted(&source[1..source.len() - 1]),
        "ansi_c_string" if source.len() >= 3 => builder.push_ansi_c(&source[2..source.len() - 1]),
        "string" => add_string(builder, node, text),
        "concatenation" => {
            let mut cursor = node.walk();
            let mut end = node.start_byte();
            for child in node.children(&mut cursor) {
                // In bash, characters that the grammar skipped here are part of the word.
                if !is_continuation(text.get(end..child.start_byte())) {
                    builder.push_expansion(WordPiece::Unknown);
                }
                add_node(builder, child, text);
                end = child.end_byte();
            }
        }
        "simple_expansion" | "expansion" | "command_substitution" | "process_substitution" | "arithmetic_expansion" => {
            builder.push_expansion(expansion_piece(node, source));
        }
        "brace_expression" => match brace_expansion::expand_range(source) {
            Some(list) => builder.push_unquoted(&list),
            None => builder.push_expansion(WordPiece::Unknown),
        },
        // At the end of a word the grammar reads the process number `$$` as two signs.
        "$" if source == "$$" => builder.push_expansion(WordPiece::Number),
        // After a bracket the grammar reads the `$` of an expansion as an ordinary character; bash does not.
        "$" if source != "$" || begins_expansion(text.get(node.end_byte()..)) => {
            builder.push_expansion(WordPiece::Unknown)
        }
        _ if !node.is_named() && node.child_count() == 0 && source != "``" => builder.push_quoted(source),
        _ => builder.push_expansion(WordPiece::Unknown),
    }
}

/// Returns true if bash expands a `$` that is followed by this text.
fn begins_expansion(rest: Option<&str>) -> bool {
    rest.is_none_or(|rest| rest.starts_with(|c: char| c.is_alphanumeric() || "_-!?#$*@({['\"\\".contains(c)))
}

/// Returns the word piece for an expansion.
fn expansion_piece(node: Node<'_>, source: &str) -> WordPiece {
    match node_kinds::kind_name(node) {
        "simple_expansion" => variable_piece(source.trim_start_matches('$')),
        "expansion" => variable_piece(source.trim_start_matches("${").trim_end_matches('}')),
        "command_substitution" => WordPiece::Output(node.start_byte()),
        "process_substitution" => WordPiece::Stream,
        "arithmetic_expansion" => WordPiece::Number,
        _ => WordPiece::Unknown,
    }
}

fn variable_piece(name: &str) -> WordPiece {
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match name {
        "?" | "#" | "$" => WordPiece::Number,
        _ if plain => WordPiece::Variable(name.to_owned()),
        _ => WordPiece::Unknown,
    }
}

/// Adds a string. The grammar drops whitespace inside strings, so the text between expansions is taken from the source.
fn add_string(builder: &mut WordBuilder, node: Node<'_>, text: &str) {
    // `$"…"` is translated, so its value depends on the locale.
    let translated = text[node.byte_range()].starts_with('$') || text[..node.start_byte()].ends_with('$');
    if translated {
        return builder.push_expansion(WordPiece::Unknown);
    }
    let mut from = node.start_byte() + 1;
    let mut cursor = node.walk();
    for child in node.children(&mut cursor) {
        if matches!(
            node_kinds::kind_name(child),
            "simple_expansion" | "expansion" | "command_substitution" | "arithmetic_expansion"
        ) {
            // The grammar includes whitespace before an expansion in the expansion.
            let whole = text.get(child.byte_range()).unwrap_or("");
            let source = whole.trim_start_matches([' ', '\t', '\n']);
            let start = child.end_byte() - source.len();
            builder.push_double_quoted(text.get(from..start).unwrap_or(""));
            match expansion_piece(child, source) {
                // `"$@"` makes several words even inside quotes.
                WordPiece::Unknown => builder.push_expansion(WordPiece::Unknown),
                piece => builder.push_quoted_expansion(piece),
            }
            from = child.end_byte();
        }
    }
    builder.push_double_quoted(text.get(from..node.end_byte().saturating_sub(1)).unwrap_or(""));
}

#[cfg(test)]
mod tests {
    use super::super::tests::analyse_in_repo;

    /// To bash this brace is the beginning of a word.
    #[test]
    fn a_brace_that_touches_a_substitution_closes_nothing() {
        for text in ["{ wc -l; }<(evil)x < a\n}", "if true; then ls; fi>(evil)\nfi"] {
            assert!(analyse_in_repo(text).trouble.is_some(), "{text}");
        }
        assert_eq!(analyse_in_repo("{ wc -l; } <a").trouble, None);
    }

    #[test]
    fn the_number_of_the_process_is_no_text() {
        for text in
            ["npm b$$", "npm \"b\"$$", "npm \"b\"$$ c", "npm 'b'$$'c'", "npm \"b$$\"", "npm \"$$\"", "npm \"$$ c\""]
        {
            let analysis = analyse_in_repo(text);
            let word = &analysis.commands[0][1];
            assert!(word.is_dynamic() || analysis.trouble.is_some(), "{text}: {word:?}");
        }
        assert_eq!(analyse_in_repo("npm b$ \"c$\"").simple, Some(vec!["npm".into(), "b$".into(), "c$".into()]));
    }

    /// The grammar ends a word at a dollar sign after an expansion; bash does not.
    #[test]
    fn a_word_is_not_cut_at_a_dollar_sign() {
        for (text, expected) in [
            ("psql htl < a$l$-l", ["psql", "htl"].as_slice()),
            ("psql htl < a$l$/x", &["psql", "htl"]),
            ("psql htl > a$l$-l b", &["psql", "htl", "b"]),
            ("psql htl 2> a$l$-l < x$l$/y b", &["psql", "htl", "b"]),
            ("< a$l$-l psql htl", &["psql", "htl"]),
            ("psql htl <<< a$l$-l", &["psql", "htl"]),
            ("x=a$l$-l psql htl", &["psql", "htl"]),
            ("for x in a$l$-l; do psql htl; done", &["psql", "htl"]),
            ("case a$l$-l in x) psql htl;; esac", &["psql", "htl"]),
            ("(psql htl < a$l$-l)", &["psql", "htl"]),
        ] {
            let analysis = analyse_in_repo(text);
            let found: Vec<Vec<&str>> = analysis
                .commands
                .iter()
                .map(|words| words.iter().map(|word| word.value().unwrap_or("?")).collect())
                .collect();
            assert!(analysis.trouble.is_some() || found == [expected], "{text}: {found:?}");
            assert!(found.iter().any(|words| words.starts_with(&["psql", "htl"])), "{text}: {found:?}");
            assert!(!found.iter().flatten().any(|word| ["-l", "/x", "/y"].contains(word)), "{text}: {found:?}");
        }
    }
}
