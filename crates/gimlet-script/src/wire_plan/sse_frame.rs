//! Rendering of one event as lines.

use crate::script::{EventNames, LineEnding, WireShape};

/// Renders an event in the wire's style.
pub(super) fn frame_event(name: &str, data: &str, wire: &WireShape) -> Vec<u8> {
    let end = match wire.newline {
        LineEnding::Lf => "\n",
        LineEnding::Crlf => "\r\n",
        LineEnding::Cr => "\r",
    };
    let space = if wire.tight_data { "" } else { " " };
    let mut lines = Vec::new();
    if wire.comments {
        lines.push(": keep-alive".to_owned());
    }
    match wire.event_names {
        EventNames::Normal => lines.push(format!("event:{space}{name}")),
        EventNames::Wrong => lines.push(format!("event:{space}not_{name}")),
        EventNames::Missing => {}
    }
    if wire.extra_fields {
        lines.extend(["id: 7", "retry: 1500", "x-note: nothing", "lonely"].map(str::to_owned));
    }
    let escaped;
    let data = if wire.ascii {
        escaped = ascii_only(data);
        &escaped
    } else {
        data
    };
    let pieces = if wire.split_data { split_between_tokens(data) } else { vec![data] };
    lines.extend(pieces.iter().map(|piece| format!("data:{space}{piece}")));
    lines.push(String::new());
    lines.iter().flat_map(|line| [line.as_str(), end]).collect::<String>().into_bytes()
}

/// Splits compact JSON after its first two commas outside strings, where a line break is only whitespace.
fn split_between_tokens(json: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let (mut in_string, mut escaped) = (false, false);
    for (at, byte) in json.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' if !in_string && pieces.len() < 2 => {
                pieces.push(&json[start..=at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&json[start..]);
    pieces
}

/// Escapes characters beyond ASCII. They stand only inside JSON's strings, where an escape is equivalent.
fn ascii_only(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() {
            out.push(character);
        } else {
            let mut units = [0; 2];
            let escapes = character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}"));
            out.extend(escapes);
        }
    }
    out
}
