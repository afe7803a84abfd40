//! Finds paths in a git configuration that git runs or reads automatically: other hook folders, further
//! configuration.
//!
//! Parses everything that git parses, unlike the check for a plain configuration: a missed reference is not
//! protected. Pure.

use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::str::Chars;

/// A path that a configuration refers to, as it is spelled there.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GitConfigRef {
    Hooks(String),
    Configuration(String),
}

/// Returns the paths that a configuration refers to. Costs next to nothing for one that has no such key.
pub(super) fn find_config_refs(bytes: &[u8]) -> Vec<GitConfigRef> {
    let has = |word: &[u8]| bytes.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word));
    if !has(b"hookspath") && !has(b"include") {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    let mut reader = GitConfigReader { ahead: text.chars().peekable(), section: String::new(), found: Vec::new() };
    // Git stops at what it does not understand, and does nothing at all then.
    while reader.parse_line().is_some() {}
    reader.found
}

/// Returns the paths that a spelling can mean: relative to `base`, or in any home folder that contains these roots.
pub(super) fn resolve_ref_paths(spelled: &str, base: &Path, roots: &[PathBuf]) -> Vec<PathBuf> {
    match spelled.strip_prefix("~/") {
        Some(rest) => {
            let homes = roots.iter().flat_map(|root| root.ancestors().map(move |home| (root, home.join(rest))));
            homes.filter(|(root, path)| path.starts_with(root)).map(|(_, path)| path).collect()
        }
        None if spelled.is_empty() || spelled.starts_with(['~', '%']) => Vec::new(),
        None => vec![base.join(spelled)],
    }
}

struct GitConfigReader<'a> {
    ahead: Peekable<Chars<'a>>,
    /// In lower case, without its quoted part.
    section: String,
    found: Vec<GitConfigRef>,
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
                match (self.section.as_str(), key.as_str()) {
                    ("core", "hookspath") => self.found.push(GitConfigRef::Hooks(value)),
                    ("include" | "includeif", "path") => self.found.push(GitConfigRef::Configuration(value)),
                    _ => {}
                }
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
        loop {
            match self.ahead.next()? {
                '"' => return Some(()),
                '\\' => self.ahead.next().map(|_| ())?,
                _ => {}
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

    #[test]
    fn every_spelling_of_a_lead_is_found() {
        let hooks = |text: &str| find_config_refs(text.as_bytes());
        for text in [
            "[core]\n\thooksPath = .husky/_\n",
            "[Core] HOOKSPATH=.husky/_ # x",
            "; x\n[alias]\nst = \"!a; b\" ; [core]\n[core]bare\nhookspath = \".husky\"/_  \n",
            "[core]\r\n\tbare = false\r\n\thooksPath = .hus\\\nky/_\r\n",
            "\u{feff}[core]\nhooksPath = .husky/_",
        ] {
            assert_eq!(hooks(text), [GitConfigRef::Hooks(".husky/_".to_owned())], "{text}");
        }
        let included = "[include]\n\tpath = a\n\tpath = \"b \\\"c\\\" \"\n[includeIf \"gitdir:~/x/\"]\n\tpath = d e\n";
        let wanted = ["a", "b \"c\" ", "d e"].map(|path| GitConfigRef::Configuration(path.to_owned()));
        assert_eq!(hooks(included), wanted);
        for nothing in ["[x \"core\"]\nhooksPath = a\n", "[alias]\n\tinclude = log\n", "hooksPath = a\n", "", "[core"] {
            assert_eq!(hooks(nothing), [], "{nothing}");
        }
    }

    #[test]
    fn a_home_is_looked_for_around_the_folders() {
        let roots = [PathBuf::from("/home/u/w")];
        assert!(resolve_ref_paths("~/w/hooks", Path::new("/x"), &roots).contains(&"/home/u/w/hooks".into()));
        assert_eq!(resolve_ref_paths("a", Path::new("/x"), &roots), [PathBuf::from("/x/a")]);
        assert_eq!(resolve_ref_paths("/a", Path::new("/x"), &roots), [PathBuf::from("/a")]);
        assert!(
            resolve_ref_paths("", Path::new("/x"), &roots).is_empty()
                && resolve_ref_paths("~u/a", Path::new("/x"), &roots).is_empty()
        );
    }
}
