//! Decodes bytes and splits them into lines in constant memory, for any file size or line length.

use crate::text_file::TextEncoding;

/// Takes the lines of a file one by one.
pub(super) trait LineSink {
    /// Returns true if the bytes of the next line are needed; otherwise only its end is searched for.
    fn wants_next(&self) -> bool;

    fn push_line(&mut self, line: DecodedLine<'_>);
}

/// One line without its end. The bytes are UTF-8 unless the file is broken.
pub(super) struct DecodedLine<'a> {
    /// The line, or its start when it is longer than is kept.
    pub(super) bytes: &'a [u8],
    /// Characters beyond those in `bytes`.
    pub(super) dropped_chars: usize,
    /// True if a line end followed (only the last line may have none).
    pub(super) ended: bool,
}

/// Splits chunks of a file into lines.
pub(super) struct LineSplitter {
    decoder: Option<Utf16Decoder>,
    decoded: Vec<u8>,
    mark_left: usize,
    carry: Vec<u8>,
    dropped_chars: usize,
    in_line: bool,
    /// Bytes of a line that are kept when it spans chunks.
    keep: usize,
}

impl LineSplitter {
    pub(super) fn new(encoding: TextEncoding, keep: usize) -> Self {
        Self {
            decoder: encoding.is_utf16().then(|| Utf16Decoder::new(encoding)),
            decoded: Vec::new(),
            mark_left: encoding.byte_order_mark().len(),
            carry: Vec::new(),
            dropped_chars: 0,
            in_line: false,
            keep,
        }
    }

    /// Takes the next chunk of the file.
    pub(super) fn feed(&mut self, chunk: &[u8], sink: &mut impl LineSink) {
        let skip = self.mark_left.min(chunk.len());
        self.mark_left -= skip;
        let chunk = &chunk[skip..];
        let Some(decoder) = &mut self.decoder else { return self.split(chunk, sink) };
        let mut decoded = std::mem::take(&mut self.decoded);
        decoded.clear();
        decoder.decode(chunk, &mut decoded);
        self.split(&decoded, sink);
        self.decoded = decoded;
    }

    /// Emits the last line when the file does not end with a line end.
    pub(super) fn finish(mut self, sink: &mut impl LineSink) {
        if let Some(decoder) = &mut self.decoder {
            let mut rest = Vec::new();
            decoder.finish(&mut rest);
            self.split(&rest, sink);
        }
        if self.in_line {
            sink.push_line(DecodedLine { bytes: &self.carry, dropped_chars: self.dropped_chars, ended: false });
        }
    }

    fn split(&mut self, mut chunk: &[u8], sink: &mut impl LineSink) {
        while let Some(at) = memchr::memchr(b'\n', chunk) {
            if self.in_line {
                self.keep_piece(&chunk[..at], sink.wants_next());
                sink.push_line(DecodedLine {
                    bytes: without_cr(&self.carry),
                    dropped_chars: self.dropped_chars,
                    ended: true,
                });
                self.carry.clear();
                self.dropped_chars = 0;
                self.in_line = false;
            } else {
                sink.push_line(DecodedLine { bytes: without_cr(&chunk[..at]), dropped_chars: 0, ended: true });
            }
            chunk = &chunk[at + 1..];
        }
        if !chunk.is_empty() {
            self.in_line = true;
            self.keep_piece(chunk, sink.wants_next());
        }
    }

    fn keep_piece(&mut self, piece: &[u8], wanted: bool) {
        if !wanted {
            return;
        }
        // Once something was dropped, all that follows is.
        let free = if self.dropped_chars > 0 { 0 } else { self.keep.saturating_sub(self.carry.len()) };
        let (kept, dropped) = piece.split_at(free.min(piece.len()));
        self.carry.extend_from_slice(kept);
        self.dropped_chars += count_chars(dropped);
    }
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

pub(super) fn count_chars(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| !is_continuation(**byte)).count()
}

/// Converter from UTF-16 to UTF-8 across chunk borders; invalid units become a replacement character.
struct Utf16Decoder {
    encoding: TextEncoding,
    half: Option<u8>,
    high: Option<u16>,
}

impl Utf16Decoder {
    fn new(encoding: TextEncoding) -> Self {
        Self { encoding, half: None, high: None }
    }

    fn decode(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        for byte in chunk {
            match self.half.take() {
                None => self.half = Some(*byte),
                Some(first) => self.push_unit(self.encoding.unit([first, *byte]), out),
            }
        }
    }

    fn push_unit(&mut self, unit: u16, out: &mut Vec<u8>) {
        if let Some(high) = self.high.take() {
            let mut pair = char::decode_utf16([high, unit]);
            match pair.next() {
                Some(Ok(character)) => push(character, out),
                Some(Err(_)) | None => {
                    push(char::REPLACEMENT_CHARACTER, out);
                    self.push_unit(unit, out);
                }
            }
        } else if (0xD800..0xDC00).contains(&unit) {
            self.high = Some(unit);
        } else {
            push(char::from_u32(u32::from(unit)).unwrap_or(char::REPLACEMENT_CHARACTER), out);
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        if self.half.take().is_some() | self.high.take().is_some() {
            push(char::REPLACEMENT_CHARACTER, out);
        }
    }
}

fn push(character: char, out: &mut Vec<u8>) {
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Default)]
    struct AllLines(Vec<(String, usize)>);

    impl LineSink for AllLines {
        fn wants_next(&self) -> bool {
            true
        }

        fn push_line(&mut self, line: DecodedLine<'_>) {
            self.0.push((String::from_utf8_lossy(line.bytes).into_owned(), line.dropped_chars));
        }
    }

    fn lines(bytes: &[u8], chunk: usize, keep: usize) -> Vec<(String, usize)> {
        let mut all = AllLines::default();
        let mut splitter = LineSplitter::new(TextEncoding::from_head(bytes), keep);
        for chunk in bytes.chunks(chunk) {
            splitter.feed(chunk, &mut all);
        }
        splitter.finish(&mut all);
        all.0
    }

    #[test]
    fn a_long_line_is_kept_in_part_and_counted_in_full() {
        for chunk in 1..9 {
            let found = lines("ééééé\nshort\n".as_bytes(), chunk, 5);
            let (start, dropped) = &found[0];
            assert_eq!(start.chars().count() + dropped, 5, "{found:?}");
            assert_eq!(found[1], ("short".to_owned(), 0));
        }
    }

    proptest! {
        #[test]
        fn chunk_borders_do_not_matter(text in "(a|é|😀|\r\n|\n|\r){0,20}", chunk in 1usize..7, wide in any::<bool>()) {
            let encoding = if wide { TextEncoding::Utf16Le } else { TextEncoding::Utf8Bom };
            let expected: Vec<(String, usize)> = {
                let mut parts: Vec<&str> = text.split('\n').collect();
                let ended = parts.pop().unwrap_or_default();
                let mut all: Vec<_> = parts.iter().map(|p| (p.strip_suffix('\r').unwrap_or(p).to_owned(), 0)).collect();
                if !ended.is_empty() {
                    all.push((ended.to_owned(), 0));
                }
                all
            };
            prop_assert_eq!(lines(&encoding.encode(&text), chunk, usize::MAX), expected);
        }
    }
}
