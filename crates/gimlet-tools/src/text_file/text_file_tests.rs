//! Tests of what an edit may and may not change, on real and on arbitrary bytes.

use proptest::prelude::*;

use super::*;

fn edited(bytes: &[u8], old: &str, new: &str) -> Vec<u8> {
    let file = TextFile::decode(bytes).unwrap();
    let at = file.text().find(old).unwrap();
    let splice = TextSplice { range: at..at + old.len(), with: new.to_owned() };
    file.encoding().encode(&file.spliced(&[splice])).into_owned()
}

fn utf16le(text: &str) -> Vec<u8> {
    TextEncoding::Utf16Le.encode(text).into_owned()
}

#[test]
fn crlf_files_stay_crlf_and_never_get_a_second_cr() {
    assert_eq!(edited(b"a\r\nb\r\nc\r\n", "b\n", "x\ny\n"), b"a\r\nx\r\ny\r\nc\r\n");
    assert_eq!(edited(b"a\r\nb", "b", "b\nc"), b"a\r\nb\r\nc");
}

#[test]
fn every_untouched_line_of_a_mixed_file_keeps_its_own_ending() {
    let mixed = b"one\r\ntwo\nthree\r\nfour\n";
    assert_eq!(edited(mixed, "one\ntwo\nthree\nfour", "one\ntwo\n3\nfour"), b"one\r\ntwo\n3\r\nfour\n");
    assert_eq!(edited(mixed, "two\nthree\n", "2\nthree\n"), b"one\r\n2\nthree\r\nfour\n");
    assert_eq!(edited(mixed, "three", "three\nand a half"), b"one\r\ntwo\nthree\r\nand a half\r\nfour\n");
    assert_eq!(edited(mixed, "two\n", "two\nnew\n"), b"one\r\ntwo\nnew\nthree\r\nfour\n");
}

#[test]
fn marks_and_utf16_survive() {
    assert_eq!(edited(b"\xEF\xBB\xBFa\nb\n", "a", "\u{e9}"), b"\xEF\xBB\xBF\xC3\xA9\nb\n");
    assert_eq!(edited(&utf16le("a\r\n\u{1F600}b\r\n"), "b", "c\nd"), utf16le("a\r\n\u{1F600}c\r\nd\r\n"));
    let big_endian = TextEncoding::Utf16Be.encode("x y");
    assert_eq!(edited(&big_endian, "x", "z"), TextEncoding::Utf16Be.encode("z y").into_owned());
}

#[test]
fn what_is_not_text_in_its_encoding_is_refused() {
    assert_eq!(TextFile::decode(b"caf\xE9").unwrap_err(), NotTextError(TextEncoding::Utf8));
    assert!(TextFile::decode(b"\xFF\xFEa\0b").is_err(), "odd length");
    assert!(TextFile::decode(b"\xFF\xFE\x00\xD8a\0").is_err(), "lone surrogate");
}

/// Bytes with many line ends, marks and broken sequences.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"\r\n".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r".to_vec()),
        Just("\u{201C}é漢😀".as_bytes().to_vec()),
        "[ab]{0,3}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..2),
    ];
    let mark = prop_oneof![Just(&b""[..]), Just(&b"\xEF\xBB\xBF"[..]), Just(&b"\xFF\xFE"[..])];
    (mark, proptest::collection::vec(piece, 0..12)).prop_map(|(mark, pieces)| [mark, &pieces.concat()].concat())
}

proptest! {
    #[test]
    fn decoding_and_encoding_give_the_same_bytes(bytes in bytes()) {
        if let Ok(file) = TextFile::decode(&bytes) {
            prop_assert_eq!(file.encoding().encode(&file.spliced(&[])).into_owned(), bytes);
        }
    }

    #[test]
    fn bytes_outside_the_edited_range_do_not_change(bytes in bytes(), a in 0usize..40, b in 0usize..40, new in "[ab\n]{0,4}") {
        let Ok(file) = TextFile::decode(&bytes) else { return Ok(()) };
        let text = file.text();
        let boundary = |at: usize| (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap();
        let (start, end) = (boundary(a.min(b)), boundary(a.max(b)));
        let after = file.spliced(&[TextSplice { range: start..end, with: new.clone() }]);
        let (head, tail) = (&file.raw()[..file.raw_offset(start)], &file.raw()[file.raw_offset(end)..]);
        prop_assert!(after.starts_with(head) && after.ends_with(tail) && after.len() >= head.len() + tail.len());
        let middle = &after[head.len()..after.len() - tail.len()];
        prop_assert_eq!(middle.replace("\r\n", "\n"), new.replace("\r\n", "\n"));
    }
}
