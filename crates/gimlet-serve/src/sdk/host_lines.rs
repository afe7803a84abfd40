//! Lines from the host: one JSON object per line, read on a separate thread.
//!
//! The reader never waits for the session: a host that writes faster than its lines are processed must still be able to
//! read our output.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read};

use gimlet_text::replace_lone_surrogates;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

/// Reason why no further line will come.
#[derive(Debug, thiserror::Error)]
pub enum HostLineError {
    #[error("a line on standard input is not a JSON object: {start}")]
    NotAnObject { start: String },
    #[error("a line on standard input is longer than {} MiB", MOST_BYTES >> 20)]
    TooLong,
    #[error("standard input cannot be read: {0}")]
    Unreadable(io::Error),
}

/// Maximum length of a line; a request that a model accepts is shorter.
const MOST_BYTES: u64 = 64 << 20;
/// Number of characters of an invalid line shown in the error.
const SHOWN: usize = 80;

/// One line, split into its members.
#[derive(Clone, Debug)]
pub struct HostLine {
    members: HashMap<String, Box<RawValue>>,
}

impl HostLine {
    fn parse(bytes: &[u8]) -> Result<Self, HostLineError> {
        let refused = || {
            let start: String = String::from_utf8_lossy(bytes).trim().chars().take(SHOWN).collect();
            HostLineError::NotAnObject { start }
        };
        // Invalid UTF-8 and lone surrogates become replacement characters: later parsing of a part of this line must
        // not fail because of them.
        let text = String::from_utf8_lossy(bytes);
        let has_halves = ["\\ud", "\\uD"].iter().any(|escape| text.contains(escape));
        let text = if has_halves { Cow::Owned(replace_lone_surrogates(&text).into_owned()) } else { text };
        let members = serde_json::from_str(&text).map_err(|_| refused())?;
        Ok(Self { members })
    }

    pub(super) fn from_members(members: HashMap<String, Box<RawValue>>) -> Self {
        Self { members }
    }

    /// Returns true if the line requests something, and is more than a keep-alive or a line that only another version
    /// understands.
    pub fn has_request(&self) -> bool {
        matches!(self.kind().as_deref(), Some("user" | "control_request"))
    }

    pub(super) fn kind(&self) -> Option<String> {
        self.text("type")
    }

    /// Returns a member as raw JSON.
    pub(super) fn raw(&self, name: &str) -> Option<&RawValue> {
        self.members.get(name).map(Box::as_ref)
    }

    /// Parses a member as the given type; `None` when it is absent or of another type.
    pub(super) fn get<T: serde::de::DeserializeOwned>(&self, name: &str) -> Option<T> {
        parse_lossy(self.raw(name)?)
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.get(name)
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        self.get(name).unwrap_or(false)
    }
}

/// Parses a value; a lone surrogate in a string becomes a replacement character.
pub(super) fn parse_lossy<T: serde::de::DeserializeOwned>(raw: &RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).or_else(|_| serde_json::from_str(&replace_lone_surrogates(raw.get()))).ok()
}

/// Stream of the host's lines.
pub struct HostLines {
    lines: mpsc::UnboundedReceiver<Result<HostLine, HostLineError>>,
}

impl HostLines {
    /// Starts reading (a blocked `read` cannot be cancelled, only abandoned).
    pub fn start(source: impl Read + Send + 'static) -> io::Result<Self> {
        let (sender, lines) = mpsc::unbounded_channel();
        std::thread::Builder::new().name("stdin".to_owned()).stack_size(256 * 1024).spawn(move || {
            let mut source = BufReader::with_capacity(64 * 1024, source);
            let mut line = Vec::new();
            loop {
                line.clear();
                let parsed = match source.by_ref().take(MOST_BYTES + 1).read_until(b'\n', &mut line) {
                    Ok(0) => return,
                    Ok(length) if length as u64 > MOST_BYTES => Err(HostLineError::TooLong),
                    Ok(_) if line.iter().all(u8::is_ascii_whitespace) => continue,
                    Ok(_) => HostLine::parse(&line),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(HostLineError::Unreadable(error)),
                };
                let failed = parsed.is_err();
                if sender.send(parsed).is_err() || failed {
                    return;
                }
                // One line with an image must not hold its memory for the rest of the session.
                if line.capacity() > 1 << 20 {
                    line = Vec::new();
                }
            }
        })?;
        Ok(Self { lines })
    }

    /// Returns the next line; `None` at the end of the input.
    pub async fn next(&mut self) -> Option<Result<HostLine, HostLineError>> {
        self.lines.recv().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_all(text: &str) -> Vec<Result<HostLine, HostLineError>> {
        let mut lines = HostLines::start(io::Cursor::new(text.as_bytes().to_vec())).unwrap();
        let mut all = Vec::new();
        while let Some(line) = lines.next().await {
            all.push(line);
        }
        all
    }

    #[tokio::test]
    async fn blank_lines_are_passed_over_and_the_last_needs_no_break() {
        let lines = read_all("\n \r\n\r\n{\"type\": \"a\"}\r\n\t\n{\"type\":\"b\"}").await;
        let kinds: Vec<_> = lines.into_iter().map(|line| line.unwrap().kind().unwrap()).collect();
        assert_eq!(kinds, ["a", "b"]);
    }

    #[tokio::test]
    async fn a_line_may_be_long_but_not_without_end() {
        let text = format!("{{\"type\":\"{}\"}}\n", "x".repeat(5 << 20));
        assert_eq!(read_all(&text).await[0].as_ref().unwrap().kind().unwrap().len(), 5 << 20);
        let mut lines = HostLines::start(b"{}\n".chain(io::repeat(b'x'))).unwrap();
        assert!(lines.next().await.unwrap().is_ok());
        assert!(matches!(lines.next().await, Some(Err(HostLineError::TooLong))));
        assert!(lines.next().await.is_none());
    }

    #[tokio::test]
    async fn nothing_is_read_after_a_line_that_is_no_object() {
        for bad in ["hello", "[1]", "{\"type\":", "null", "{} {}"] {
            let lines = read_all(&format!("{{}}\n{bad}\n{{}}\n")).await;
            assert_eq!(lines.len(), 2, "{bad}");
            let error = lines[1].as_ref().unwrap_err().to_string();
            assert!(error.ends_with(&format!(": {bad}")), "{error}");
        }
    }

    #[test]
    fn invalid_utf8_and_lone_surrogates_cost_only_themselves() {
        for line in [&b"{\"a\":\"x\xffy\"}"[..], br#"{"a":"x\udfffy"}"#] {
            let line = HostLine::parse(line).unwrap();
            assert_eq!(serde_json::from_str::<String>(line.raw("a").unwrap().get()).unwrap(), "x\u{fffd}y");
        }
    }

    #[test]
    fn lone_surrogates_become_replacement_characters() {
        for (json, text) in [
            (r#""a\ud83dz""#, "a\u{fffd}z"),
            (r#""\ude00\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\\ud83d\ud83d""#, "\\ud83d\u{fffd}"),
            (r#""\"\u00e9""#, "\"é"),
        ] {
            assert_eq!(serde_json::from_str::<String>(&replace_lone_surrogates(json)).unwrap(), text, "{json}");
        }
    }
}
