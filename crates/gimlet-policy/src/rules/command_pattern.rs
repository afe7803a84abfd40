//! Patterns of shell rules: exact words, a prefix of words, or `*` anywhere. Words are compared after quote removal;
//! the possible expansions of a word can only make a forbidding rule ask.

use super::suggestable_prefixes::exceeds_suggested_rule;
use crate::shell::{UNKNOWN_CHAR, Word, WordPiece, base_name, parse_static_words, subcommand_starts};

/// Limit of steps in comparing two patterns; beyond it the answer is "perhaps".
const MOST_STEPS: usize = 1 << 20;

/// Certainty that a pattern matches a command that may contain unknown parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MatchCertainty {
    No,
    /// It matches for some value of the unknown parts.
    Perhaps,
    Yes,
}

/// Pattern of a `Bash(…)` rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CommandPattern {
    /// Exactly these words.
    Exact(Vec<String>),
    /// These words, then anything or nothing.
    Prefix(Vec<String>),
    /// `*` matches any run of characters over the words joined by one space.
    Glob { pattern: String, open_end: bool },
}

impl CommandPattern {
    /// Parses the pattern; `None` when the text is more than one command, which a rule cannot describe.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (head, open_end) = match text.strip_suffix(":*").or_else(|| text.strip_suffix(" *")) {
            Some(head) => (head.trim_end(), true),
            None => (text, false),
        };
        if head.is_empty() || has_operator(head) {
            return None;
        }
        if head.contains('*') {
            let pattern = head.split_whitespace().collect::<Vec<_>>().join(" ");
            return Some(CommandPattern::Glob { pattern, open_end });
        }
        let words = parse_static_words(head).unwrap_or_else(|| head.split_whitespace().map(str::to_owned).collect());
        Some(if open_end { CommandPattern::Prefix(words) } else { CommandPattern::Exact(words) })
    }

    /// Returns true if an allow rule covers one simple command. A word that is only known at run time equals no word
    /// of a rule; it may stand where the rule leaves the words open.
    pub(crate) fn allows(&self, words: &[Word]) -> bool {
        let Some(name) = words.first().and_then(Word::value) else { return false };
        let begins_with = |expected: &[String]| {
            expected.len() <= words.len() && expected.iter().zip(words).all(|(text, word)| word.value() == Some(text))
        };
        match self {
            CommandPattern::Exact(expected) => expected.len() == words.len() && begins_with(expected),
            CommandPattern::Prefix(expected) => begins_with(expected) && !needs_exact_rule(words),
            CommandPattern::Glob { pattern, open_end } => {
                let named = pattern.split(' ').next().unwrap_or("");
                // A literal command word in the rule must be the whole command word.
                let same_command = named.contains('*') || name == named;
                let unknown = UNKNOWN_CHAR.to_string();
                let texts: Vec<&str> = words.iter().map(|word| word.value().unwrap_or(&unknown)).collect();
                same_command && !needs_exact_rule(words) && glob_matches(pattern, *open_end, &texts.join(" "))
            }
        }
    }

    /// Returns true if a suggested rule covers the command: it excludes options that run another program.
    pub(crate) fn allows_as_suggested(&self, words: &[Word]) -> bool {
        let stops = || matches!(self, CommandPattern::Prefix(expected) if exceeds_suggested_rule(expected, words));
        self.allows(words) && !stops()
    }

    /// Returns the certainty that a rule that forbids matches a command, also by the base name of a path-qualified
    /// command word, and without the options in front of a subcommand.
    pub(crate) fn forbids(&self, words: &[Word]) -> MatchCertainty {
        let fits = self.without_leading_options(words).map(|(words, certain)| {
            let fit = self.forbids_as_written(&words);
            if certain { fit } else { fit.min(MatchCertainty::Perhaps) }
        });
        self.forbids_as_written(words).max(fits.max().unwrap_or(MatchCertainty::No))
    }

    /// Returns the command without options in front of its subcommand, with true if that is certainly an equal
    /// command.
    fn without_leading_options<'w>(&self, words: &'w [Word]) -> impl Iterator<Item = (Vec<Word>, bool)> + use<'w> {
        let name = words.first().and_then(Word::value).map(base_name);
        let named = name.is_some_and(|name| self.may_name(name));
        let starts = if named { subcommand_starts(words) } else { Vec::new() };
        // Every subcommand of git is also a program of its own.
        let subcommand = if self.may_name("git") { name.and_then(|name| name.strip_prefix("git-")) } else { None };
        let dashed = subcommand.map(|name| [&["git", name].map(Word::from_literal), &words[1..]].concat());
        let shorter = starts.into_iter().map(|(start, certain)| ([&words[..1], &words[start..]].concat(), certain));
        shorter.chain(dashed.map(|words| (words, true)))
    }

    fn forbids_as_written(&self, words: &[Word]) -> MatchCertainty {
        let base = command_base_name(words);
        let named = CommandName::candidates(words, base.as_deref());
        if named.iter().flatten().any(|named| self.matches_as(words, named)) {
            return MatchCertainty::Yes;
        }
        // Fixed words leave nothing open.
        let dynamic = words.iter().any(Word::is_dynamic);
        let possible = |named: &CommandName| {
            if named.known.is_some_and(|name| !self.may_begin_with(name)) {
                return false;
            }
            let joined = join_masked(words, named.replaced);
            self.glob_texts().iter().any(|rule| may_intersect(rule, &joined))
        };
        if dynamic && named.iter().flatten().any(possible) { MatchCertainty::Perhaps } else { MatchCertainty::No }
    }

    /// Returns true if a rule that forbids is about this command for any value of its unknown parts.
    pub(crate) fn certainly_forbids(&self, words: &[Word]) -> bool {
        let fits = |words: &[Word]| {
            let base = command_base_name(words);
            CommandName::candidates(words, base.as_deref()).iter().flatten().any(|named| self.matches_as(words, named))
        };
        fits(words) || self.without_leading_options(words).any(|(words, certain)| certain && fits(&words))
    }

    /// Returns true if a program of this name could be one that the rule is about.
    pub(crate) fn may_name(&self, name: &str) -> bool {
        match self {
            CommandPattern::Exact(words) | CommandPattern::Prefix(words) => {
                words.first().is_some_and(|first| base_name(first) == name)
            }
            // A pattern that begins with `*` is matched against whole commands anyway.
            CommandPattern::Glob { pattern, .. } => {
                let first = pattern.split(' ').next().unwrap_or("");
                !first.starts_with('*') && matches_wildcard(base_name(first), name)
            }
        }
    }

    /// Returns true if the pattern says more than which program runs.
    pub(crate) fn names_more_than_program(&self) -> bool {
        match self {
            CommandPattern::Exact(_) => true,
            CommandPattern::Prefix(words) => words.len() > 1,
            CommandPattern::Glob { pattern, .. } => pattern.contains(' '),
        }
    }

    /// Returns true if a text that the rule is about may begin with these characters.
    fn may_begin_with(&self, letters: &str) -> bool {
        let first = match self {
            CommandPattern::Exact(words) | CommandPattern::Prefix(words) => words.first().map_or("", String::as_str),
            CommandPattern::Glob { pattern, .. } => pattern.split('*').next().unwrap_or(""),
        };
        first.bytes().zip(letters.bytes()).all(|(wanted, letter)| wanted == letter)
    }

    fn matches_as(&self, words: &[Word], named: &CommandName) -> bool {
        let value = |at: usize| if at == 0 { named.known } else { words.get(at).and_then(Word::value) };
        let starts = |expected: &[String]| {
            expected.len() <= words.len() && expected.iter().enumerate().all(|(at, word)| value(at) == Some(word))
        };
        match self {
            CommandPattern::Exact(expected) => expected.len() == words.len() && starts(expected),
            CommandPattern::Prefix(expected) => starts(expected),
            CommandPattern::Glob { pattern, open_end } => {
                let fits = |text: &str| glob_matches(pattern, *open_end, text);
                // Match with and without the words that may expand to none.
                fits(&join_masked(words, named.replaced))
                    || (fits(&join_with_blanks(words, named.replaced, false))
                        && fits(&join_with_blanks(words, named.replaced, true)))
            }
        }
    }

    /// Returns true if this pattern covers every command that `narrow` covers; false when in doubt.
    pub(crate) fn covers(&self, narrow: &Self) -> bool {
        // An open part of the narrow pattern can only be covered by an open part of the wide one.
        let closed = |text: &String| text.replace('*', &UNKNOWN_CHAR.to_string());
        let wide = self.glob_texts();
        narrow.glob_texts().iter().map(closed).all(|text| wide.iter().any(|wide| matches_wildcard(wide, &text)))
    }

    /// Returns the pattern as texts with `*`.
    fn glob_texts(&self) -> Vec<String> {
        let (head, open_end) = match self {
            CommandPattern::Exact(words) => (words.join(" "), false),
            CommandPattern::Prefix(words) => (words.join(" "), true),
            CommandPattern::Glob { pattern, open_end } => (pattern.clone(), *open_end),
        };
        let longer = open_end.then(|| format!("{head} *"));
        std::iter::once(head).chain(longer).collect()
    }
}

/// A name by which a command may be forbidden.
struct CommandName<'w> {
    /// The name, as far as it is known.
    known: Option<&'w str>,
    /// Replacement of the command word, if there is one.
    replaced: Option<&'w str>,
}

impl<'w> CommandName<'w> {
    /// Returns the command word itself, and the part after its last slash.
    fn candidates(words: &'w [Word], base: Option<&'w str>) -> [Option<Self>; 2] {
        let itself = Self { known: words.first().and_then(Word::value), replaced: None };
        let by_base = base
            .map(|base| Self { known: Some(base).filter(|base| !base.contains(UNKNOWN_CHAR)), replaced: Some(base) });
        [Some(itself), by_base]
    }
}

/// Returns the base name of a path-qualified command word, also of one with unknown parts: the part after its last
/// slash is the name.
fn command_base_name(words: &[Word]) -> Option<String> {
    let first = words.first()?;
    let slash = |piece: &WordPiece| matches!(piece, WordPiece::Text(text) if text.contains('/'));
    first.pieces().iter().any(slash).then(|| base_name(&first.masked()).to_owned())
}

/// Returns true for operators, expansions and line breaks outside quotes.
fn has_operator(text: &str) -> bool {
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some('"') | None, '`') => return true,
            (None, ';' | '&' | '|' | '<' | '>' | '\n' | '\r') => return true,
            (Some('"') | None, '$') if chars.as_str().starts_with('(') => return true,
            (Some('"') | None, '\\') => drop(chars.next()),
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
    }
    false
}

/// Returns true for commands that run or delete their operands: only a rule with exactly their words approves them.
fn needs_exact_rule(words: &[Word]) -> bool {
    let Some((name, arguments)) = words.split_first() else { return false };
    let acts =
        |text: &str| ["-exec", "-ok", "-delete", "-fprint", "-fls"].iter().any(|action| text.starts_with(action));
    match name.value().map(base_name) {
        Some("watch" | "setsid" | "ionice" | "flock") => true,
        // A word that is only known at run time may be an action.
        Some("find") => arguments.iter().any(|word| word.value().is_none_or(acts)),
        _ => false,
    }
}

/// Joins the words with spaces, with or without those that may vanish.
fn join_with_blanks(words: &[Word], name: Option<&str>, shortest: bool) -> String {
    let kept = words.iter().enumerate().filter(|(at, word)| *at == 0 || !(shortest && may_vanish(word)));
    let texts = kept.map(|(at, word)| match name {
        Some(name) if at == 0 => name.to_owned(),
        _ => word.masked(),
    });
    texts.collect::<Vec<_>>().join(" ")
}

/// Returns true if a word may expand to no word at all.
fn may_vanish(word: &Word) -> bool {
    let may_be_empty = |piece: &WordPiece| {
        matches!(piece, WordPiece::Unknown | WordPiece::Choice(_) | WordPiece::Variable(_) | WordPiece::Output(_))
    };
    !word.pieces().is_empty() && word.pieces().iter().all(may_be_empty)
}

/// Joins the words by one space. A word that is nothing but expansions may vanish, and its spaces with it.
fn join_masked(words: &[Word], name: Option<&str>) -> String {
    let mut text = String::new();
    let mut vanishing = false;
    for (at, word) in words.iter().enumerate() {
        let may_vanish = may_vanish(word);
        if at > 0 && !may_vanish && !vanishing {
            text.push(' ');
        }
        vanishing = may_vanish;
        match name {
            Some(name) if at == 0 => text.push_str(name),
            _ => text.push_str(&word.masked()),
        }
    }
    text
}

fn glob_matches(pattern: &str, open_end: bool, text: &str) -> bool {
    matches_wildcard(pattern, text) || (open_end && matches_wildcard(&format!("{pattern} *"), text))
}

/// Returns true if `text` matches `pattern`, in which `*` is any run of characters.
pub fn matches_wildcard(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Returns true if some text matches both the rule (with `*`) and the command (with unknown parts).
fn may_intersect(rule: &str, command: &str) -> bool {
    let rule: Vec<Option<char>> = rule.chars().map(|c| (c != '*').then_some(c)).collect();
    let command: Vec<Option<char>> = command.chars().map(|c| (c != UNKNOWN_CHAR).then_some(c)).collect();
    if (rule.len() + 1) * (command.len() + 1) > MOST_STEPS {
        return true;
    }
    // `reach[j]`: the rule up to the current position and the command up to j can describe one text.
    let mut reach = vec![false; command.len() + 1];
    reach[0] = true;
    close_over_unknowns(&mut reach, &command);
    for part in &rule {
        let mut next = vec![false; command.len() + 1];
        match part {
            None => {
                let first = reach.iter().position(|reached| *reached).unwrap_or(command.len() + 1);
                next.iter_mut().skip(first).for_each(|reached| *reached = true);
            }
            Some(c) => {
                for (at, known) in command.iter().enumerate().filter(|(at, _)| reach[*at]) {
                    match known {
                        Some(known) if known == c => next[at + 1] = true,
                        Some(_) => {}
                        // The unknown part consumes this character and stays open.
                        None => next[at] = true,
                    }
                }
            }
        }
        close_over_unknowns(&mut next, &command);
        reach = next;
        if !reach.contains(&true) {
            return false;
        }
    }
    reach[command.len()]
}

/// Advances over unknown parts, which may be empty.
fn close_over_unknowns(reach: &mut [bool], command: &[Option<char>]) {
    for (at, known) in command.iter().enumerate() {
        if reach[at] && known.is_none() {
            reach[at + 1] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(rule: &str, command: &str) -> bool {
        let words: Vec<Word> = command.split(' ').map(Word::from_literal).collect();
        CommandPattern::parse(rule).unwrap().allows(&words)
    }

    #[test]
    fn boundaries_and_globs() {
        assert!(allows("ls *", "ls") && allows("ls:*", "ls -la") && !allows("ls *", "lsof"));
        assert!(allows("ls*", "lsof"));
        assert!(!allows("git:* push", "git push"));
        assert!(allows("git * main", "git merge --no-ff main") && !allows("git * main", "git checkout maintenance"));
        assert!(allows("* --version", "node --version") && !allows("* --version", "node --version -x"));
        assert!(allows("git * main *", "git push main") && allows("git * main *", "git push main -f"));
        assert!(!allows("find:*", "find . -delete") && allows("find . -delete", "find . -delete"));
    }

    #[test]
    fn compound_rules_are_not_rules() {
        for rule in ["a; b", "a && b", "a | b", "a > b", "a $(b)", "a `b`", ":*", "a\nb"] {
            assert_eq!(CommandPattern::parse(rule), None, "{rule}");
        }
        assert!(CommandPattern::parse("git commit -m 'a; b'").is_some());
    }

    #[test]
    fn the_intersection_of_patterns_is_found() {
        let unknown = UNKNOWN_CHAR.to_string();
        assert!(may_intersect("git push *", &format!("git{unknown} origin")));
        assert!(may_intersect("git push", &format!("git{unknown}")));
        assert!(!may_intersect("git push*", &format!("git status{unknown}")));
        assert!(may_intersect("curl", &format!("c{unknown}l")));
        assert!(!may_intersect("curl", &format!("w{unknown}")));
        assert!(may_intersect("rm x", &format!("{unknown}rm x")));
    }

    /// The beginning of a command only settles what a check of all of it would settle as well.
    #[test]
    fn a_beginning_rules_out_nothing_that_could_be_meant() {
        let unknown = Word::unknown();
        let rules = ["git push:*", "git", "gi*h x", "* push", "'a b' c:*", "/usr/bin/git:*"];
        let names = ["git", "gi", "g", "git push", "curl", "a", "a b", "a b c", "", "/usr/bin/git", "/usr"];
        let mut ruled_out = 0;
        for (rule, name) in rules.iter().flat_map(|rule| names.iter().map(move |name| (rule, name))) {
            let pattern = CommandPattern::parse(rule).unwrap();
            let joined = join_masked(&[Word::from_literal(name), unknown.clone()], None);
            let may = pattern.glob_texts().iter().any(|text| may_intersect(text, &joined));
            assert!(pattern.may_begin_with(name) || !may, "{rule}: {name}");
            ruled_out += usize::from(!pattern.may_begin_with(name));
        }
        assert!(ruled_out > 20, "{ruled_out}");
    }
}
