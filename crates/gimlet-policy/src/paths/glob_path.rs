//! Patterns as a shell expands them into names, matched against names one segment at a time. A pattern here matches at
//! least what the shell's would: a class in brackets matches any characters up to the end of its segment.

use std::ffi::OsStr;

/// A path of which some segments have wildcards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GlobPath {
    pub(crate) absolute: bool,
    /// True if it begins with `./`, so that no name in it is taken for an option.
    pub(crate) prefixed: bool,
    pub(crate) segments: Vec<GlobSegment>,
}

/// Part of a pattern between two slashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GlobSegment(Vec<GlobToken>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GlobToken {
    Letter(char),
    /// `?`
    One,
    /// `*`
    Any,
}

/// Builder of a pattern from the pieces of a word.
#[derive(Default)]
pub(crate) struct GlobPathBuilder {
    pattern: GlobPath,
    begun: bool,
    segment: Vec<GlobToken>,
    /// True after a bracket: the rest of the segment matches anything.
    bracket: bool,
}

impl GlobPathBuilder {
    pub(crate) fn push_text(&mut self, text: &str) {
        for letter in text.chars() {
            if letter == '/' {
                self.pattern.absolute |= !self.begun;
                self.end_segment();
            } else if !self.bracket {
                self.segment.push(GlobToken::Letter(letter));
            }
            self.begun = true;
        }
    }

    pub(crate) fn push_wildcard(&mut self, wildcard: char) {
        self.begun = true;
        if !self.bracket {
            self.segment.push(if wildcard == '?' { GlobToken::One } else { GlobToken::Any });
            self.bracket = wildcard == '[';
        }
    }

    fn end_segment(&mut self) {
        self.bracket = false;
        let tokens = std::mem::take(&mut self.segment);
        if tokens == [GlobToken::Letter('.')] {
            self.pattern.prefixed |= self.pattern.segments.is_empty();
        } else if !tokens.is_empty() {
            self.pattern.segments.push(GlobSegment(tokens));
        }
    }

    pub(crate) fn finish(mut self) -> GlobPath {
        self.end_segment();
        self.pattern
    }
}

impl GlobSegment {
    /// Parses a pattern of `find -name`, in which a leading dot is an ordinary character.
    pub(crate) fn from_find_pattern(pattern: &str) -> Self {
        let mut builder = GlobPathBuilder::default();
        for letter in pattern.chars() {
            match letter {
                '*' | '?' | '[' => builder.push_wildcard(letter),
                // The characters that a backslash escapes are not followed.
                '\\' => builder.push_wildcard('*'),
                _ => builder.push_text(letter.encode_utf8(&mut [0; 4])),
            }
        }
        Self(builder.segment)
    }

    pub(super) fn tokens(&self) -> &[GlobToken] {
        &self.0
    }

    /// Returns true for `**`, which crosses folders if the shell's option for that is set.
    pub(crate) fn is_any_depth(&self) -> bool {
        self.0.len() > 1 && self.0.iter().all(|token| *token == GlobToken::Any)
    }

    /// Returns the segment as text; `None` if it has a wildcard.
    pub(crate) fn to_literal(&self) -> Option<String> {
        let letter = |token: &GlobToken| if let GlobToken::Letter(letter) = token { Some(*letter) } else { None };
        self.0.iter().map(letter).collect()
    }

    pub(crate) fn starts_with_dot(&self) -> bool {
        self.0.first() == Some(&GlobToken::Letter('.'))
    }

    /// Returns true if the shell may expand the pattern to this name; a leading dot has to be written out.
    pub(crate) fn may_expand_to(&self, name: &OsStr) -> bool {
        (self.starts_with_dot() || !name.as_encoded_bytes().starts_with(b".")) && self.matches(name)
    }

    pub(crate) fn matches(&self, name: &OsStr) -> bool {
        // A name that is not UTF-8 may match any pattern.
        let Some(name) = name.to_str() else { return true };
        let name: Vec<char> = name.chars().collect();
        let (mut at, mut token) = (0, 0);
        let mut back: Option<(usize, usize)> = None;
        while at < name.len() {
            match self.0.get(token) {
                Some(GlobToken::Any) => {
                    back = Some((token, at));
                    token += 1;
                }
                Some(GlobToken::One) => (at, token) = (at + 1, token + 1),
                Some(GlobToken::Letter(letter)) if *letter == name[at] => (at, token) = (at + 1, token + 1),
                _ => {
                    // The last `*` matches one character more.
                    let Some((star, taken)) = back else { return false };
                    back = Some((star, taken + 1));
                    (at, token) = (taken + 1, star + 1);
                }
            }
        }
        self.0[token..].iter().all(|token| *token == GlobToken::Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_glob(text: &str) -> GlobPath {
        let mut builder = GlobPathBuilder::default();
        for letter in text.chars() {
            match letter {
                '*' | '?' | '[' => builder.push_wildcard(letter),
                _ => builder.push_text(&letter.to_string()),
            }
        }
        builder.finish()
    }

    #[test]
    fn segments_match_what_a_shell_would_put_there() {
        for (text, names, others) in [
            ("*", "a ab -x", ".a .."),
            (".*", ".a .. .", "a"),
            ("s*", "s src", "a"),
            ("*.rs", "a.rs", ".rs a.rsx"),
            ("a?c", "abc", "ac abbc"),
            ("a*b*c", "abc axbxbxc", "ab"),
            ("x[ab].rs", "xa.rs xc.rs x", "y"),
            ("", "", "a"),
        ] {
            let segment = parse_glob(text).segments.pop().unwrap_or_default();
            for name in names.split(' ') {
                assert!(segment.may_expand_to(name.as_ref()), "{text} {name}");
            }
            for name in others.split(' ') {
                assert!(!segment.may_expand_to(name.as_ref()), "{text} {name}");
            }
        }
        assert!(GlobSegment::from_find_pattern("*.md").matches(".md".as_ref()), "find takes the dot for a letter");
    }

    #[test]
    fn a_path_is_cut_at_its_slashes() {
        let found = parse_glob("/a//./b*/c");
        assert!(found.absolute && found.segments.len() == 3);
        assert_eq!(found.segments[0].to_literal().as_deref(), Some("a"));
        assert_eq!(found.segments[1].to_literal(), None);
        assert!(!parse_glob("a/*").absolute);
    }
}
