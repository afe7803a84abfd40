//! Parser of git's configuration files: everything that git parses, and no more. Pure.

use std::iter::Peekable;
use std::str::Chars;

/// One key of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitConfigEntry {
    /// Section in lower case.
    pub section: String,
    /// Quoted part of the section's head, such as the name of a remote.
    pub subsection: Option<String>,
    /// Key in lower case.
    pub key: String,
    /// Value without quotes, escapes and comment; empty for a key without one.
    pub value: String,
}

/// Returns the entries of a configuration file up to the first thing that git does not understand. Git does nothing at
/// all then.
pub fn parse_git_config(bytes: &[u8]) -> Vec<GitConfigEntry> {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    let ahead = text.chars().peekable();
    let mut reader = GitConfigReader { ahead, section: String::new(), subsection: None, found: Vec::new() };
    while reader.parse_line().is_some() {}
    reader.found
}

struct GitConfigReader<'a> {
    ahead: Peekable<Chars<'a>>,
    /// In lower case, without its quoted part.
    section: String,
    subsection: Option<String>,
    found: Vec<GitConfigEntry>,
}

impl GitConfigReader<'_> {
    /// Parses one section header, one key or one comment; returns `None` at the end, or where git would fail.
    fn parse_line(&mut self) -> Option<()> {
        while self.ahead.next_if(|c| c.is_ascii_whitespace()).is_some() {}
        match self.ahead.next()? {
            '#' | ';' => self.skip_comment(),
            '[' => self.parse_section_head()?,
            first if first.is_ascii_alphabetic() => {
                let mut key = String::from(first.to_ascii_lowercase());
                while let Some(c) = self.ahead.next_if(|c| c.is_ascii_alphanumeric() || *c == '-') {
                    key.push(c.to_ascii_lowercase());
                }
                let value = self.parse_value()?;
                let (section, subsection) = (self.section.clone(), self.subsection.clone());
                self.found.push(GitConfigEntry { section, subsection, key, value });
            }
            // A mark of the order of bytes, which git skips at the beginning.
            '\u{feff}' => {}
            _ => return None,
        }
        Some(())
    }

    fn skip_comment(&mut self) {
        while self.ahead.next().is_some_and(|c| c != '\n') {}
    }

    fn parse_section_head(&mut self) -> Option<()> {
        self.section.clear();
        self.subsection = None;
        loop {
            match self.ahead.next()? {
                ']' => return Some(()),
                '"' => self.parse_subsection()?,
                c if c.is_ascii_whitespace() => {}
                c => self.section.push(c.to_ascii_lowercase()),
            }
        }
    }

    fn parse_subsection(&mut self) -> Option<()> {
        let name = self.subsection.get_or_insert_default();
        loop {
            match self.ahead.next()? {
                '"' => return Some(()),
                '\\' => name.push(self.ahead.next()?),
                c => name.push(c),
            }
        }
    }

    fn parse_value(&mut self) -> Option<String> {
        while self.ahead.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        let mut value = String::new();
        match self.ahead.next() {
            Some('=') => {}
            // A key without a value.
            Some('\n') | None => return Some(value),
            Some(_) => return None,
        }
        // Trailing whitespace does not belong to it, unless it is in quotes.
        let (mut is_quoted, mut len) = (false, 0);
        while let Some(c) = self.ahead.next() {
            match c {
                '\n' if is_quoted => return None,
                '\n' => break,
                '#' | ';' if !is_quoted => {
                    self.skip_comment();
                    break;
                }
                '"' => is_quoted = !is_quoted,
                '\\' => match self.ahead.next()? {
                    '\n' => continue,
                    't' => value.push('\t'),
                    'n' => value.push('\n'),
                    'b' => value.push('\u{8}'),
                    c @ ('\\' | '"') => value.push(c),
                    _ => return None,
                },
                c if c.is_ascii_whitespace() && !is_quoted => {
                    if !value.is_empty() {
                        value.push(c);
                    }
                    continue;
                }
                c => value.push(c),
            }
            len = value.len();
        }
        value.truncate(len);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(section: &str, subsection: Option<&str>, key: &str, value: &str) -> GitConfigEntry {
        let [section, key, value] = [section, key, value].map(str::to_owned);
        GitConfigEntry { section, subsection: subsection.map(str::to_owned), key, value }
    }

    #[test]
    fn entries_have_their_section_and_their_value_as_git_reads_them() {
        let text = "\u{feff}; x\n[Core] bare ; no\n[core]\r\n\tbare\n\tPath = a \\\n b # c\n\
                    [remote \"o\\\"r\"]\n url=\" x;y \" z\t\n[branch.main]\nx-1=\\t\n";
        assert_eq!(parse_git_config(text.as_bytes()), [], "`bare ;` is an error to git");
        let wanted = [
            entry("core", None, "bare", ""),
            entry("core", None, "path", "a  b"),
            entry("remote", Some("o\"r"), "url", " x;y  z"),
            entry("branch.main", None, "x-1", "\t"),
        ];
        assert_eq!(parse_git_config(text.replace(" bare ; no", "").as_bytes()), wanted);
    }

    #[test]
    fn what_git_does_not_understand_ends_the_list() {
        for broken in ["[x]\n=a\n", "[x]\na = \"b\n", "[x]\na = \\q\n", "[x]\n1a = b\n"] {
            assert_eq!(parse_git_config(format!("[a]\nb = c\n{broken}[d]\ne = f\n").as_bytes()).len(), 1, "{broken}");
        }
    }
}
