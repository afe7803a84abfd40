//! Server-sent events from a byte stream that may be split anywhere.
//!
//! Follows the HTML event-stream rules and nothing else: it knows no JSON and no vendor. An event whose data lies in
//! one piece of input is borrowed from that piece. Data without a terminating blank line is never dispatched.

use std::borrow::Cow;

use memchr::memchr2;

use crate::size_limits::{MAX_EVENT_BYTES, MAX_REPLY_BYTES};

/// Limits on the data that a server may make us hold.
#[derive(Clone, Copy, Debug)]
pub struct SseLimits {
    /// Longest line and longest event, in bytes.
    pub event: usize,
    /// Longest whole response, in bytes.
    pub response: usize,
}

impl Default for SseLimits {
    fn default() -> Self {
        Self { event: MAX_EVENT_BYTES, response: MAX_REPLY_BYTES }
    }
}

/// Error for a server that exceeds the limits.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    #[error("one event of the answer is longer than {limit} bytes")]
    EventTooLong { limit: usize },
    #[error("the answer is longer than {limit} bytes")]
    ResponseTooLong { limit: usize },
}

/// Dispatched event.
#[derive(Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The `event` field; empty when absent.
    pub name: Cow<'a, str>,
    /// The `data` lines, joined by line feeds.
    pub data: Cow<'a, str>,
}

/// Incremental parser. Feed it pieces with [`SseParser::push`].
#[derive(Debug, Default)]
pub struct SseParser {
    limits: SseLimits,
    seen: usize,
    /// Line whose end has not arrived.
    partial: Vec<u8>,
    /// True if the last piece ended in CR: a LF at the start of the next one belongs to it.
    skip_lf: bool,
    past_first_line: bool,
    name: Vec<u8>,
    /// Data lines that had to be copied, joined by LF.
    data: Vec<u8>,
    has_data: bool,
}

impl SseParser {
    pub fn new(limits: SseLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Parses the next piece of input and passes every completed event to `sink`.
    pub fn push(&mut self, piece: &[u8], mut sink: impl FnMut(SseEvent<'_>)) -> Result<(), SseError> {
        self.seen = self.seen.saturating_add(piece.len());
        if self.seen > self.limits.response {
            return Err(SseError::ResponseTooLong { limit: self.limits.response });
        }
        let mut rest = piece;
        if self.skip_lf && !rest.is_empty() {
            self.skip_lf = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        // The only data line of the current event, as long as it can stay borrowed.
        let mut borrowed: Option<&[u8]> = None;
        while let Some(end) = memchr2(b'\n', b'\r', rest) {
            let line = &rest[..end];
            let after = &rest[end + 1..];
            rest = match (rest[end], after) {
                (b'\r', []) => {
                    self.skip_lf = true;
                    after
                }
                (b'\r', [b'\n', tail @ ..]) => tail,
                _ => after,
            };
            if self.partial.is_empty() {
                self.parse_line(line, &mut borrowed, &mut sink)?;
            } else {
                self.buffer_partial_line(line)?;
                let joined = std::mem::take(&mut self.partial);
                self.parse_buffered_line(&joined, &mut borrowed, &mut sink)?;
                self.partial = joined;
                self.partial.clear();
            }
        }
        self.own_borrowed_line(&mut borrowed)?;
        self.buffer_partial_line(rest)
    }

    /// Buffers the start of a line until its end arrives.
    fn buffer_partial_line(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        if self.partial.len() + bytes.len() > self.limits.event {
            return Err(SseError::EventTooLong { limit: self.limits.event });
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }

    /// Parses a line from our own buffer: its data cannot stay borrowed.
    fn parse_buffered_line(
        &mut self,
        line: &[u8],
        borrowed: &mut Option<&[u8]>,
        sink: &mut impl FnMut(SseEvent<'_>),
    ) -> Result<(), SseError> {
        self.own_borrowed_line(borrowed)?;
        let mut own = None;
        self.parse_line(line, &mut own, sink)?;
        self.own_borrowed_line(&mut own)
    }

    fn parse_line<'a>(
        &mut self,
        line: &'a [u8],
        borrowed: &mut Option<&'a [u8]>,
        sink: &mut impl FnMut(SseEvent<'_>),
    ) -> Result<(), SseError> {
        let line = if self.past_first_line { line } else { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line) };
        self.past_first_line = true;
        if line.is_empty() {
            self.dispatch(borrowed.take(), sink);
            return Ok(());
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(0) => return Ok(()),
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            b"data" if borrowed.is_none() && !self.has_data => *borrowed = Some(value),
            b"data" => {
                self.own_borrowed_line(borrowed)?;
                self.append(value)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Moves a borrowed data line into our own buffer, because its piece ends or another line follows.
    fn own_borrowed_line(&mut self, borrowed: &mut Option<&[u8]>) -> Result<(), SseError> {
        match borrowed.take() {
            Some(line) => self.append(line),
            None => Ok(()),
        }
    }

    fn append(&mut self, line: &[u8]) -> Result<(), SseError> {
        if self.data.len() + line.len() + 1 > self.limits.event {
            return Err(SseError::EventTooLong { limit: self.limits.event });
        }
        if self.has_data {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(line);
        self.has_data = true;
        Ok(())
    }

    fn dispatch(&mut self, borrowed: Option<&[u8]>, sink: &mut impl FnMut(SseEvent<'_>)) {
        let data = match borrowed {
            Some(line) => Some(line),
            None => self.has_data.then_some(self.data.as_slice()),
        };
        if let Some(data) = data {
            sink(SseEvent { name: String::from_utf8_lossy(&self.name), data: String::from_utf8_lossy(data) });
        }
        self.name.clear();
        self.data.clear();
        self.has_data = false;
        // One huge event must not pin its buffer for the rest of the reply.
        self.data.shrink_to(1 << 20);
        self.partial.shrink_to(1 << 20);
    }
}

#[cfg(test)]
#[path = "sse_tests.rs"]
mod tests;
