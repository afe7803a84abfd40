use proptest::prelude::*;

use super::*;

fn all(pieces: &[&[u8]]) -> Vec<(String, String)> {
    let mut parser = SseParser::default();
    let mut events = Vec::new();
    for piece in pieces {
        parser.push(piece, |event| events.push((event.name.into_owned(), event.data.into_owned()))).unwrap();
    }
    events
}

fn pair(name: &str, data: &str) -> (String, String) {
    (name.to_owned(), data.to_owned())
}

#[test]
fn fields_comments_and_line_ends_follow_the_event_stream_rules() {
    let text =
        b"\xEF\xBB\xBF: hello\nevent: a\ndata: 1\n\ndata:2\r\ndata:  3\r\r\nid: 9\nretry: 1\nodd\nevent: x\n\ndata\n\n";
    assert_eq!(all(&[text]), [pair("a", "1"), pair("", "2\n 3"), pair("", "")]);
}

#[test]
fn an_event_without_its_blank_line_is_not_dispatched() {
    assert_eq!(all(&[b"data: 1\n\ndata: 2\n"]), [pair("", "1")]);
}

#[test]
fn invalid_utf8_is_replaced_and_split_code_points_are_joined() {
    assert_eq!(all(&[b"data: \xC3", b"\xA9 \xFF\n", b"\n"]), [pair("", "é \u{FFFD}")]);
}

#[test]
fn data_in_one_piece_is_borrowed() {
    let mut parser = SseParser::default();
    let mut seen = 0;
    parser
        .push(b"event: e\ndata: {}\n\n", |event| {
            assert!(matches!(event.data, Cow::Borrowed("{}")));
            seen += 1;
        })
        .unwrap();
    assert_eq!(seen, 1);
}

#[test]
fn limits_hold_for_lines_events_and_responses() {
    let limits = SseLimits { event: 16, response: 64 };
    let too_long = Err(SseError::EventTooLong { limit: 16 });
    assert_eq!(SseParser::new(limits).push(b"data: 0123456789abcdef0", |_| ()), too_long);
    assert_eq!(SseParser::new(limits).push(b"data: 01234567\ndata: 01234567\n", |_| ()), too_long);
    let mut parser = SseParser::new(limits);
    assert_eq!(parser.push(&b":\n".repeat(32), |_| ()), Ok(()));
    assert_eq!(parser.push(b":", |_| ()), Err(SseError::ResponseTooLong { limit: 64 }));
}

proptest! {
    #[test]
    fn chunking_never_changes_the_events(
        lines in prop::collection::vec(("(data|event|id|:|)", ":? ?[a-zé\\x00-\\x1f😀]{0,6}", "(\n|\r|\r\n)"), 0..40),
        cuts in prop::collection::vec(1usize..9, 1..30),
    ) {
        let text: String = lines.iter().flat_map(|(a, b, c)| [a.as_str(), b, c]).collect();
        let bytes = text.as_bytes();
        let mut pieces = Vec::new();
        let mut at = 0;
        for cut in cuts.iter().cycle() {
            if at >= bytes.len() { break; }
            let end = (at + cut).min(bytes.len());
            pieces.push(&bytes[at..end]);
            at = end;
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        let whole = all(&[bytes]);
        prop_assert_eq!(&all(&pieces), &whole);
        prop_assert_eq!(&all(&single), &whole);
    }

    #[test]
    fn line_ends_mean_the_same(lines in prop::collection::vec("(data: [a-z]{0,4}|event: [a-z]|)", 0..30)) {
        let with = |end: &str| all(&[lines.iter().flat_map(|line| [line.as_str(), end]).collect::<String>().as_bytes()]);
        prop_assert_eq!(with("\n"), with("\r\n"));
        prop_assert_eq!(with("\n"), with("\r"));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        all(&[&bytes]);
    }
}
