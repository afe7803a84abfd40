//! Finds `@names` in a text.

/// A name that may be that of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mention {
    /// As it was written, without the sign.
    pub(crate) name: String,
    quoted: bool,
}

/// What may stand right behind a name without being part of it.
const BEHIND: [char; 14] = ['.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '"', '\'', '`', '*'];

/// Every name in a text that begins with `@` at the start of a word: `@file`, `@"a file"`, `@file#3-9`.
pub(crate) fn mentions(text: &str) -> Vec<Mention> {
    let mut found = Vec::new();
    let mut before = ' ';
    for (at, char) in text.char_indices() {
        if char == '@' && (before.is_whitespace() || matches!(before, '(' | '[' | '{' | '"' | '\'' | '`' | ',' | ';')) {
            found.extend(mention(&text[at + 1..]));
        }
        before = char;
    }
    found
}

fn mention(rest: &str) -> Option<Mention> {
    let (name, quoted) = match rest.strip_prefix('"') {
        Some(quoted) => (quoted.split(['"', '\n']).next()?, true),
        None => (rest.split(char::is_whitespace).next()?, false),
    };
    // Agents and servers' resources are named in the same way; they are not files.
    let names_other = name.starts_with("agent-") || name.contains("://");
    (!name.is_empty() && !names_other).then(|| Mention { name: name.to_owned(), quoted })
}

impl Mention {
    /// What the name can mean, the likeliest first: a path, and perhaps the lines of it that are meant.
    pub(crate) fn spellings(&self) -> impl Iterator<Item = (String, Option<(u64, u64)>)> {
        let whole = self.name.as_str();
        let bare = if self.quoted { whole } else { whole.trim_end_matches(BEHIND) };
        let possible = [Some((whole, None)), with_lines(whole), Some((bare, None)), with_lines(bare)];
        let possible: Vec<_> = possible.into_iter().flatten().filter(|(path, _)| !path.is_empty()).collect();
        possible.into_iter().map(|(path, lines)| (path.to_owned(), lines))
    }
}

/// `file#5-10`, `file#L5-L10` or `file#5`.
fn with_lines(name: &str) -> Option<(&str, Option<(u64, u64)>)> {
    let (path, lines) = name.rsplit_once('#')?;
    let number = |text: &str| text.trim_start_matches('L').parse::<u64>().ok().filter(|line| *line > 0);
    let (first, last) = match lines.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(lines)?, number(lines)?),
    };
    (first <= last).then_some((path, Some((first, last))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        mentions(text).into_iter().map(|mention| mention.name).collect()
    }

    #[test]
    fn names_begin_words() {
        for (text, found) in [
            ("what does @src/main.rs do?", vec!["src/main.rs"]),
            ("@a.txt and (@b.txt)", vec!["a.txt", "b.txt)"]),
            ("mail me@example.org", vec![]),
            ("a lone @ sign, @", vec![]),
            ("look at @\"my file.txt\" now", vec!["my file.txt"]),
            ("@agent-reviewer and @docs:file://x", vec![]),
            ("zwei @größe.txt, @日本.md", vec!["größe.txt,", "日本.md"]),
            ("@a\n@b", vec!["a", "b"]),
        ] {
            assert_eq!(names(text), found, "{text}");
        }
    }

    #[test]
    fn a_name_is_tried_without_what_stands_behind_it() {
        let spellings = |text: &str| mentions(text).remove(0).spellings().collect::<Vec<_>>();
        let plain = |path: &str| (path.to_owned(), None);
        assert_eq!(spellings("is it @a.rs?)"), [plain("a.rs?)"), plain("a.rs")]);
        assert_eq!(spellings("@\"odd).txt\""), [plain("odd).txt"), plain("odd).txt")]);
        assert!(spellings("@a.rs#5-10.").contains(&("a.rs".to_owned(), Some((5, 10)))));
        assert!(spellings("@a.rs#L7").contains(&("a.rs".to_owned(), Some((7, 7)))));
        assert!(!spellings("@a.rs#9-2").iter().any(|(_, lines)| lines.is_some()));
    }
}
