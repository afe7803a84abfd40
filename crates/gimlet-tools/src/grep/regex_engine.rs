//! Compiles the pattern of a call.
//!
//! The Rust engine is tried first: it is the fast one and its time is linear. A pattern that it refuses because of
//! look-around or backreferences is compiled by PCRE2 instead; every other refusal is an error with the engine's
//! message.

use gimlet_core::tool::ToolError;
use grep_matcher::LineTerminator;
use grep_regex::ErrorKind;

/// Options for parsing a pattern.
#[derive(Clone, Copy, Debug)]
pub(super) struct PatternOptions {
    pub(super) ignore_case: bool,
    /// The pattern may span lines and `.` matches a line break.
    pub(super) multiline: bool,
}

/// A compiled pattern.
pub(super) enum RegexEngine {
    Rust { matcher: grep_regex::RegexMatcher, line_end: LineTerminator },
    Pcre2(grep_pcre2::RegexMatcher),
}

impl RegexEngine {
    pub(super) fn new(pattern: &str, options: PatternOptions) -> Result<Self, ToolError> {
        // In CRLF mode `$` matches before `\r\n`, as users expect. The price is that no `\r` can be part of a match, so
        // a pattern that asks for one is compiled without the mode.
        let rust = match rust_matcher(pattern, options, LineTerminator::crlf()) {
            Err(error) if is_refusal_of(&error, "\r") => rust_matcher(pattern, options, LineTerminator::byte(b'\n'))
                .map(|matcher| (matcher, LineTerminator::byte(b'\n'))),
            result => result.map(|matcher| (matcher, LineTerminator::crlf())),
        };
        match rust {
            Ok((matcher, line_end)) => Ok(RegexEngine::Rust { matcher, line_end }),
            Err(error) if needs_pcre2(&error) => pcre2_matcher(pattern, options)
                .map(RegexEngine::Pcre2)
                .map_err(|error| ToolError::input(pattern_error_text(pattern, &error.to_string()))),
            Err(error) => Err(ToolError::input(pattern_error_text(pattern, &error.to_string()))),
        }
    }
}

fn rust_matcher(
    pattern: &str,
    options: PatternOptions,
    line_end: LineTerminator,
) -> Result<grep_regex::RegexMatcher, grep_regex::Error> {
    let mut builder = grep_regex::RegexMatcherBuilder::new();
    builder.multi_line(true).case_insensitive(options.ignore_case).crlf(line_end.is_crlf());
    if options.multiline {
        builder.line_terminator(None).dot_matches_new_line(true);
    } else if !line_end.is_crlf() {
        builder.line_terminator(Some(line_end.as_byte()));
    }
    builder.build(pattern)
}

fn pcre2_matcher(pattern: &str, options: PatternOptions) -> Result<grep_pcre2::RegexMatcher, grep_pcre2::Error> {
    grep_pcre2::RegexMatcherBuilder::new()
        .multi_line(true)
        .crlf(true)
        .dotall(options.multiline)
        .caseless(options.ignore_case)
        .utf(true)
        .ucp(true)
        .jit_if_available(true)
        .build(pattern)
}

fn is_refusal_of(error: &grep_regex::Error, literal: &str) -> bool {
    matches!(error.kind(), ErrorKind::NotAllowed(refused) if refused == literal)
}

/// Returns true if the pattern needs PCRE2. The engine reports the reason only as text; these two messages have never
/// changed.
fn needs_pcre2(error: &grep_regex::Error) -> bool {
    match error.kind() {
        ErrorKind::Regex(words) => words.contains("look-around") || words.contains("backreferences are not supported"),
        _ => false,
    }
}

fn pattern_error_text(pattern: &str, diagnostic: &str) -> String {
    let hint = if diagnostic.contains(r#""\n""#) {
        "To match across lines, set `multiline` to true."
    } else if pattern.contains(['{', '}']) {
        r"To match braces as text, escape them: `\{` and `\}`."
    } else {
        r"To match `. * + ? ( ) [ ] | ^ $ \` as text, put a backslash before each."
    };
    format!("The pattern is not a valid regular expression: {}\n{hint}", diagnostic.trim_end())
}
