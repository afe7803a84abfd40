//! Matchers: the subjects that a hook is called for.
//!
//! Patterns follow JavaScript's syntax, look-around and back-references included. An invalid pattern is an error that
//! names it, and never a hook that is called for something else.

use fancy_regex::Regex;

use super::HookEvent;

/// Error for an invalid matcher.
#[derive(Debug, thiserror::Error)]
#[error("the matcher `{text}` of a {} hook is no usable pattern: {source}", event.name())]
pub struct HookMatcherError {
    pub event: HookEvent,
    pub text: String,
    pub source: Box<fancy_regex::Error>,
}

/// Matcher of the subjects that a hook is called for.
#[derive(Clone, Debug)]
pub struct HookMatcher(MatcherKind);

#[derive(Clone, Debug)]
enum MatcherKind {
    All,
    Names(Vec<String>),
    /// Matches anywhere in the subject.
    Pattern(Regex),
}

impl HookMatcher {
    /// Parses a matcher: nothing, `*`, a list of names, or else a pattern. A matcher of an event without a subject is
    /// ignored.
    pub fn new(event: HookEvent, text: Option<&str>) -> Result<Self, HookMatcherError> {
        let text = text.map(str::trim).unwrap_or_default();
        if text.is_empty() || text == "*" || !event.has_subject() {
            return Ok(Self(MatcherKind::All));
        }
        let plain = |c: char| c.is_alphanumeric() || c == '_' || c == '|';
        let listed = |c: char| plain(c) || matches!(c, '-' | ' ' | ',');
        let is_list = match event {
            HookEvent::StopFailure | HookEvent::FileChanged => text.chars().all(plain),
            _ => text.chars().all(listed),
        };
        if is_list {
            let names = text.split(['|', ',']).map(str::trim).filter(|name| !name.is_empty());
            return Ok(Self(MatcherKind::Names(names.map(str::to_owned).collect())));
        }
        match Regex::new(text) {
            Ok(pattern) => Ok(Self(MatcherKind::Pattern(pattern))),
            Err(source) => Err(HookMatcherError { event, text: text.to_owned(), source: Box::new(source) }),
        }
    }

    pub fn matches(&self, subject: &str) -> bool {
        match &self.0 {
            MatcherKind::All => true,
            MatcherKind::Names(names) => names.iter().any(|name| name == subject),
            // If matching fails with an error the hook is called: it may be there to deny.
            MatcherKind::Pattern(pattern) => pattern.is_match(subject).unwrap_or(true),
        }
    }

    /// Returns the matcher as the user would write it; empty when everything matches.
    pub(super) fn text(&self) -> String {
        match &self.0 {
            MatcherKind::All => String::new(),
            MatcherKind::Names(names) => names.join("|"),
            MatcherKind::Pattern(pattern) => pattern.as_str().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_exact_and_anything_else_is_a_pattern_found_anywhere() {
        let cases: &[(Option<&str>, &str, bool)] = &[
            (None, "Bash", true),
            (Some(""), "Bash", true),
            (Some("*"), "Bash", true),
            (Some("Bash"), "Bash", true),
            (Some("Bash"), "bash", false),
            (Some("Bash"), "BashOutput", false),
            (Some("Edit | Write"), "Write", true),
            (Some("Edit,Write"), "Edit", true),
            (Some("my-tool"), "my-tool", true),
            (Some("mcp__mem"), "mcp__mem__get", false),
            (Some("mcp__mem__.*"), "mcp__mem__get", true),
            (Some("^Notebook"), "NotebookEdit", true),
            (Some("^Notebook"), "MyNotebook", false),
            (Some("Bash.*"), "MyBashTool", true),
            (Some("(Read|Grep)$"), "Grep", true),
            (Some("^(?!Read).*$"), "Bash", true),
            (Some("^(?!Read).*$"), "Read", false),
        ];
        for (text, subject, expected) in cases {
            let matcher = HookMatcher::new(HookEvent::PreToolUse, *text).unwrap();
            assert_eq!(matcher.matches(subject), *expected, "{text:?} on {subject}");
        }
    }

    #[test]
    fn events_differ_in_what_a_matcher_means() {
        assert!(HookMatcher::new(HookEvent::Stop, Some("nothing")).unwrap().matches("anything"));
        // Here a comma is part of a pattern.
        let pattern = HookMatcher::new(HookEvent::StopFailure, Some("rate_limit,overloaded")).unwrap();
        assert!(!pattern.matches("rate_limit"));
        assert!(HookMatcher::new(HookEvent::StopFailure, Some("rate_limit|overloaded")).unwrap().matches("overloaded"));
    }

    #[test]
    fn a_text_that_is_no_pattern_is_named() {
        let error = HookMatcher::new(HookEvent::PreToolUse, Some("^(Read")).unwrap_err();
        assert!(error.to_string().contains("^(Read"), "{error}");
    }
}
