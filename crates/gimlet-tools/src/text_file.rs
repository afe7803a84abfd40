//! Text files as editors must treat them: an encoding, a line ending per line, and bytes that are not ours to change.
//!
//! Searching happens on text whose line ends are all LF; changes are carried back to the text as it stands on disk.
//! Nothing here ever repairs, trims or re-encodes what was not asked for: a file that is not text in its encoding is
//! refused, never rewritten lossily.

pub(crate) mod file_path;
pub(crate) mod open;
pub(crate) mod read_state;
pub(crate) mod replace;
mod resumed_reads;
pub(crate) mod write_lock;

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr_iter;

/// Character encoding, determined by the byte order mark; UTF-8 without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextEncoding {
    Utf8,
    Utf8Bom,
    Utf16Le,
    Utf16Be,
}

/// The bytes are not text in the encoding that they declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are not valid {}", .0.name())]
pub(crate) struct NotTextError(pub(crate) TextEncoding);

impl TextEncoding {
    /// Returns the encoding that the first bytes of a file declare.
    pub(crate) fn from_head(head: &[u8]) -> Self {
        let marked = [TextEncoding::Utf8Bom, TextEncoding::Utf16Le, TextEncoding::Utf16Be];
        marked.into_iter().find(|encoding| head.starts_with(encoding.byte_order_mark())).unwrap_or(TextEncoding::Utf8)
    }

    /// Returns the byte order mark.
    pub(crate) fn byte_order_mark(self) -> &'static [u8] {
        match self {
            TextEncoding::Utf8 => b"",
            TextEncoding::Utf8Bom => b"\xEF\xBB\xBF",
            TextEncoding::Utf16Le => b"\xFF\xFE",
            TextEncoding::Utf16Be => b"\xFE\xFF",
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            TextEncoding::Utf8 => "UTF-8",
            TextEncoding::Utf8Bom => "UTF-8 with a byte order mark",
            TextEncoding::Utf16Le => "UTF-16LE",
            TextEncoding::Utf16Be => "UTF-16BE",
        }
    }

    pub(crate) fn is_utf16(self) -> bool {
        matches!(self, TextEncoding::Utf16Le | TextEncoding::Utf16Be)
    }

    /// Returns one UTF-16 unit from its two bytes.
    pub(crate) fn unit(self, pair: [u8; 2]) -> u16 {
        if self == TextEncoding::Utf16Be { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
    }

    /// Returns the bytes of `text`, mark included.
    pub(crate) fn encode(self, text: &str) -> Cow<'_, [u8]> {
        let mark = self.byte_order_mark();
        match self {
            TextEncoding::Utf8 => Cow::Borrowed(text.as_bytes()),
            TextEncoding::Utf8Bom => Cow::Owned([mark, text.as_bytes()].concat()),
            TextEncoding::Utf16Le => {
                mark.iter().copied().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect::<Vec<u8>>().into()
            }
            TextEncoding::Utf16Be => {
                mark.iter().copied().chain(text.encode_utf16().flat_map(u16::to_be_bytes)).collect::<Vec<u8>>().into()
            }
        }
    }

    /// Decodes strictly, so that encoding the result restores the original bytes.
    fn decode(self, bytes: &[u8]) -> Result<Cow<'_, str>, NotTextError> {
        let body = bytes.get(self.byte_order_mark().len()..).unwrap_or_default();
        if !self.is_utf16() {
            return std::str::from_utf8(body).map(Cow::Borrowed).map_err(|_| NotTextError(self));
        }
        let (pairs, odd) = body.as_chunks::<2>();
        if !odd.is_empty() {
            return Err(NotTextError(self));
        }
        let units = pairs.iter().map(|pair| self.unit(*pair));
        char::decode_utf16(units).collect::<Result<String, _>>().map(Cow::Owned).map_err(|_| NotTextError(self))
    }
}

/// A decoded text file. Mostly a view of its bytes: large files are not copied.
#[derive(Debug)]
pub(crate) struct TextFile<'a> {
    encoding: TextEncoding,
    /// The text with its line ends as on disk.
    raw: Cow<'a, str>,
    /// The text with LF only; `None` when `raw` already is.
    normal: Option<String>,
    /// Offsets in the LF text where a line end is CRLF on disk, ascending.
    crlf: Vec<usize>,
}

/// One change: `range` of the LF text becomes `with` (LF text too).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextSplice {
    pub(crate) range: Range<usize>,
    pub(crate) with: String,
}

impl<'a> TextFile<'a> {
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, NotTextError> {
        let encoding = TextEncoding::from_head(bytes);
        Ok(Self::new(encoding, encoding.decode(bytes)?))
    }

    /// Creates a file from text in memory, with its line ends as on disk.
    pub(crate) fn new(encoding: TextEncoding, raw: Cow<'a, str>) -> Self {
        let mut crlf = Vec::new();
        for at in memchr_iter(b'\n', raw.as_bytes()) {
            if at > 0 && raw.as_bytes()[at - 1] == b'\r' {
                // Each earlier CRLF made the LF text one byte shorter, and so does this one.
                crlf.push(at - crlf.len() - 1);
            }
        }
        let normal = (!crlf.is_empty()).then(|| raw.replace("\r\n", "\n"));
        Self { encoding, raw, normal, crlf }
    }

    /// Returns the text with LF line ends, for searching and for display.
    pub(crate) fn text(&self) -> &str {
        self.normal.as_deref().unwrap_or(&self.raw)
    }

    /// Returns the text with its line ends as on disk.
    pub(crate) fn raw(&self) -> &str {
        &self.raw
    }

    pub(crate) fn encoding(&self) -> TextEncoding {
        self.encoding
    }

    /// Returns the text as on disk after the changes, which must be in ascending order and must not overlap.
    pub(crate) fn spliced(&self, splices: &[TextSplice]) -> String {
        let mut result = String::with_capacity(self.raw.len() + splices.iter().map(|s| s.with.len()).sum::<usize>());
        let mut copied = 0;
        for splice in splices {
            let (range, with) = self.differing_part(splice);
            result.push_str(&self.raw[copied..self.raw_offset(range.start)]);
            result.push_str(&self.with_line_ends(&range, with));
            copied = self.raw_offset(range.end);
        }
        result.push_str(&self.raw[copied..]);
        result
    }

    /// Returns the part of a change that differs: the unchanged text at both ends keeps its line ends.
    fn differing_part<'s>(&self, splice: &'s TextSplice) -> (Range<usize>, &'s str) {
        let (old, new) = (&self.text()[splice.range.clone()], splice.with.as_str());
        let head: usize = old.chars().zip(new.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
        let (old, new) = (&old[head..], &new[head..]);
        let tail: usize =
            old.chars().rev().zip(new.chars().rev()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
        let range = splice.range.start + head..splice.range.end - tail;
        (range, &new[..new.len() - tail])
    }

    fn raw_offset(&self, offset: usize) -> usize {
        offset + self.crlf.partition_point(|at| *at < offset)
    }

    fn is_crlf(&self, newline: usize) -> bool {
        self.crlf.binary_search(&newline).is_ok()
    }

    /// Returns `new` with line ends for the place of `range`: those that were there, then the neighbour's.
    fn with_line_ends<'s>(&self, range: &Range<usize>, new: &'s str) -> Cow<'s, str> {
        if self.crlf.is_empty() || !new.contains('\n') {
            return Cow::Borrowed(new);
        }
        let mut replaced = memchr_iter(b'\n', self.text()[range.clone()].as_bytes()).map(|at| range.start + at);
        let neighbour = self.neighbour_is_crlf(range.start);
        let mut result = String::with_capacity(new.len() + 16);
        for (index, line) in new.split('\n').enumerate() {
            if index > 0 {
                let crlf = replaced.next().map_or(neighbour, |at| self.is_crlf(at));
                result.push_str(if crlf { "\r\n" } else { "\n" });
            }
            result.push_str(line);
        }
        Cow::Owned(result)
    }

    /// Returns true if lines inserted at `offset` get CRLF: as the line above when it starts a line, else as its own
    /// line.
    fn neighbour_is_crlf(&self, offset: usize) -> bool {
        let bytes = self.text().as_bytes();
        let before = memchr::memrchr(b'\n', &bytes[..offset]);
        let after = memchr::memchr(b'\n', &bytes[offset..]).map(|at| offset + at);
        let starts_line = before.is_some_and(|at| at + 1 == offset);
        let newline = if starts_line { before } else { after.or(before) };
        newline.is_some_and(|at| self.is_crlf(at))
    }
}

/// Returns the number of lines of a text; the last one need not have a line end.
pub(crate) fn count_lines(text: &str) -> u64 {
    let open = !text.is_empty() && !text.ends_with('\n');
    memchr_iter(b'\n', text.as_bytes()).count() as u64 + u64::from(open)
}

/// Returns the text with CRLF turned into LF.
pub(crate) fn normalised(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}

#[cfg(test)]
#[path = "text_file/text_file_tests.rs"]
mod text_file_tests;
