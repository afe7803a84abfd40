//! Shell-like splitting of a command: enough to find the files that it names by other spellings than the plain one,
//! and to detect names that cannot be found by reading.

use std::path::{Component, Path, PathBuf};

/// Commands that go to another folder.
const GOING: [&str; 3] = ["cd", "pushd", "chdir"];

/// Result of scanning a command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ScannedCommand {
    /// Words without quotes and escapes.
    pub(super) words: Vec<String>,
    /// Those of them that are glob patterns.
    pub(super) patterns: Vec<String>,
    /// Folders that it changes to; `None` for one that is not named literally.
    pub(super) directories: Vec<Option<String>>,
    /// True if a word is put together only when the command runs.
    pub(super) has_dynamic_words: bool,
}

/// Scans a command.
pub(super) fn scan_command(text: &str) -> ScannedCommand {
    // These mean the folder that a command starts in.
    let text = text.replace("$(pwd)", ".").replace("`pwd`", ".").replace("~+", ".");
    let mut scan = ScriptCommandScanner {
        command: ScannedCommand::default(),
        word: WordBuffer::default(),
        is_after_cd: false,
        substitution_depth: 0,
    };
    let mut chars = text.chars().peekable();
    let mut last = ' ';
    while let Some(mark) = chars.next() {
        let next = chars.peek().copied();
        match (mark, next) {
            ('\\', Some(escaped)) => {
                chars.next();
                scan.push_chars(Some(escaped).filter(|escaped| *escaped != '\n'));
            }
            ('$', Some('\'')) => {
                chars.next();
                let literal: String = chars.by_ref().take_while(|mark| *mark != '\'').collect();
                scan.command.has_dynamic_words |= literal.contains('\\');
                scan.push_chars(literal.chars());
            }
            ('$', Some('"')) => {}
            ('\'', _) => {
                let literal: Vec<char> = chars.by_ref().take_while(|mark| *mark != '\'').collect();
                scan.push_chars(literal);
            }
            // Their content is split like the rest; whitespace in it only makes more words of one.
            ('"', _) => scan.word.is_there = true,
            ('$', Some('(')) => {
                chars.next();
                scan.command.has_dynamic_words |= scan.word.text.chars().next_back().is_some_and(is_word_char);
                scan.end_word();
                scan.substitution_depth += 1;
            }
            (')', _) if scan.substitution_depth > 0 => {
                scan.end_word();
                scan.substitution_depth -= 1;
                scan.command.has_dynamic_words |= next.is_some_and(is_word_char);
            }
            ('`', _) => {
                scan.command.has_dynamic_words |= is_word_char(last) && next.is_some_and(|next| !next.is_whitespace());
                scan.end_word();
            }
            (mark, _) if mark.is_whitespace() => scan.end_word(),
            (';' | '|' | '&' | '(' | ')' | '<' | '>', _) => {
                scan.end_word();
                scan.end_command();
            }
            (mark, _) => {
                scan.word.is_pattern |= matches!(mark, '*' | '?' | '[');
                scan.push_chars(Some(mark));
            }
        }
        last = mark;
    }
    scan.end_word();
    scan.end_command();
    scan.command
}

/// Returns true if the character continues a word.
fn is_word_char(mark: char) -> bool {
    mark.is_alphanumeric() || "_./-".contains(mark)
}

#[derive(Default)]
struct WordBuffer {
    text: String,
    is_there: bool,
    is_pattern: bool,
}

struct ScriptCommandScanner {
    command: ScannedCommand,
    word: WordBuffer,
    /// True if the previous word changes the directory.
    is_after_cd: bool,
    /// Depth of command substitutions.
    substitution_depth: usize,
}

impl ScriptCommandScanner {
    fn push_chars(&mut self, marks: impl IntoIterator<Item = char>) {
        self.word.is_there = true;
        self.word.text.extend(marks);
    }

    fn end_word(&mut self) {
        let WordBuffer { text, is_there, is_pattern } = std::mem::take(&mut self.word);
        if !is_there || text.is_empty() {
            return;
        }
        // Another user's home folder, or the previous one.
        self.command.has_dynamic_words |=
            text.strip_prefix('~').is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
        if self.is_after_cd && (!text.starts_with('-') || text == "-") {
            self.is_after_cd = false;
            self.command.directories.push(Some(text.clone()).filter(|text| text != "-"));
        }
        self.is_after_cd |= GOING.contains(&text.as_str());
        if is_pattern && !text.starts_with('-') {
            self.command.patterns.push(text.clone());
        }
        if let Some((_, value)) = text.rsplit_once('=') {
            self.command.words.push(value.to_owned());
        }
        self.command.words.push(text);
    }

    /// Ends a command. A `cd` without a target leads to the home folder, which is not followed.
    fn end_command(&mut self) {
        self.is_after_cd = false;
    }
}

/// Returns a path without `.` and `..`, by its text alone.
pub(super) fn normalize_path(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            other => plain.push(other),
        }
    }
    plain
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum GlobPart {
    Any,
    One,
    Just(char),
}

/// Returns true if a name matches a shell pattern; a set of characters matches any one.
pub(super) fn matches_glob(pattern: &str, name: &str) -> bool {
    let parts = parse_glob(pattern);
    let name: Vec<char> = name.chars().collect();
    let (mut part, mut at) = (0, 0);
    // Position of the last `*`, and how far it reaches so far.
    let mut reach: Option<(usize, usize)> = None;
    while at < name.len() {
        match parts.get(part) {
            Some(GlobPart::Any) => {
                reach = Some((part + 1, at));
                part += 1;
            }
            Some(GlobPart::One) => (part, at) = (part + 1, at + 1),
            Some(GlobPart::Just(mark)) if *mark == name[at] => (part, at) = (part + 1, at + 1),
            _ => match reach {
                Some((after, reached)) => {
                    reach = Some((after, reached + 1));
                    (part, at) = (after, reached + 1);
                }
                None => return false,
            },
        }
    }
    parts[part..].iter().all(|part| *part == GlobPart::Any)
}

fn parse_glob(pattern: &str) -> Vec<GlobPart> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while let Some(mark) = rest.chars().next() {
        rest = &rest[mark.len_utf8()..];
        parts.push(match (mark, rest.split_once(']')) {
            ('*', _) => GlobPart::Any,
            ('?', _) => GlobPart::One,
            ('[', Some((_, after))) => {
                rest = after;
                GlobPart::One
            }
            (mark, _) => GlobPart::Just(mark),
        });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_what_a_shell_makes_of_them() {
        for (text, wanted) in [
            (r"./ke\y.sh", "./key.sh"),
            (r"sh my\ script.sh", "my script.sh"),
            ("$'./key.sh'", "./key.sh"),
            (r#"./k"e"'y'.sh"#, "./key.sh"),
            ("~+/key.sh", "./key.sh"),
            ("$(pwd)/key.sh", "./key.sh"),
            ("\"`pwd`/key.sh\"", "./key.sh"),
            ("X=1 A=./key.sh", "./key.sh"),
            ("a;./key.sh|b", "./key.sh"),
        ] {
            let spoken = scan_command(text);
            assert!(spoken.words.iter().any(|word| word == wanted) && !spoken.has_dynamic_words, "{text}: {spoken:?}");
        }
    }

    #[test]
    fn what_is_put_together_later_is_told() {
        for text in
            [r"$'\x2e/key.sh'", "./$(echo key).sh", "$(dirname x)/key.sh", "./`echo key`.sh", "~me/key.sh", "~-/key.sh"]
        {
            assert!(scan_command(text).has_dynamic_words, "{text}");
        }
        for text in
            ["echo $(cat key)", "X=$(cat key); echo \"$X\"", "echo `cat key`", "cat ~/key", "(cd x; ls)", "a ~ b"]
        {
            assert!(!scan_command(text).has_dynamic_words, "{text}");
        }
    }

    #[test]
    fn places_that_a_command_goes_to_are_found() {
        for (text, wanted) in [
            ("cd .claude && ../key.sh", vec![Some(".claude")]),
            ("pushd -n a; cd 'b c'; ./x", vec![Some("a"), Some("b c")]),
            ("cd - && ./x", vec![None]),
            ("cd; ./x", vec![]),
            ("echo abcd x", vec![]),
        ] {
            let goes_to = scan_command(text).directories;
            assert_eq!(goes_to.iter().map(Option::as_deref).collect::<Vec<_>>(), wanted, "{text}");
        }
    }

    #[test]
    fn names_fit_patterns() {
        for (pattern, name, is_fit) in [
            ("key.s?", "key.sh", true),
            ("*", "key.sh", true),
            ("k*.sh", "key.sh", true),
            ("k**h", "key.sh", true),
            ("k[a-f]y.sh", "key.sh", true),
            ("k[", "k[", true),
            ("k?", "key", false),
            ("*.py", "key.sh", false),
            ("", "", true),
        ] {
            assert_eq!(matches_glob(pattern, name), is_fit, "{pattern} {name}");
        }
        assert_eq!(normalize_path(Path::new("/a/./b/../c")), Path::new("/a/c"));
    }
}
