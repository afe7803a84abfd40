//! The damaged transcripts: a whole one, and ways to break it. Everything follows from the number of a case.

use serde_json::{Value, json};

/// One damaged file, and the names of which the check must give at least one.
pub(super) struct DamageCase {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
    pub(super) named: Vec<&'static str>,
}

impl DamageCase {
    /// Whether it holds a block of a type that no server knows.
    pub(super) fn has_unknown_block(&self) -> bool {
        let name = b"hologram";
        self.bytes.windows(name.len()).any(|bytes| bytes == name)
    }
}

/// Ways to break a file, each done ten times in different places.
type DamageMethod = fn(&mut BrokenTranscript, usize) -> Vec<&'static str>;

const WAYS: [(&str, DamageMethod); 20] = [
    ("cut", cut_file),
    ("fused", fuse_lines),
    ("duplicated", duplicate_line),
    ("reordered", reorder_lines),
    ("orphaned", orphan_entry),
    ("lost call", remove_call),
    ("lost result", remove_result),
    ("oversized image", add_bad_image),
    ("lone surrogate", add_lone_surrogate),
    ("wrong type", change_type),
    ("circle", make_cycle),
    ("two roots", add_root),
    ("giant line", grow_line),
    ("zero bytes", insert_zeros),
    ("torn characters", tear_characters),
    ("answered twice", answer_twice),
    ("empty text", blank_text),
    ("flipped bytes", flip_bytes),
    ("lost beginning", remove_beginning),
    ("several at once", damage_several),
];

pub(super) fn all_cases(cwd: &str) -> Vec<DamageCase> {
    let mut cases = Vec::new();
    for (name, way) in WAYS {
        for number in 0..10 {
            let mut broken = BrokenTranscript { lines: whole_transcript(cwd), tail: Vec::new() };
            let named = way(&mut broken, number);
            cases.push(DamageCase { name: format!("{name} {number}"), bytes: broken.bytes(), named });
        }
    }
    cases
}

/// A file under the hammer: its lines, and bytes behind the last line break.
struct BrokenTranscript {
    lines: Vec<Vec<u8>>,
    tail: Vec<u8>,
}

/// Lines of each turn: prompt, text, two calls, two results, text, last prompt.
const TURN: usize = 8;
const TURNS: usize = 6;

impl BrokenTranscript {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.lines.join(&b'\n');
        bytes.push(b'\n');
        bytes.extend(&self.tail);
        bytes
    }

    /// The line of a turn by its place in it.
    fn line_index(turn: usize, place: usize) -> usize {
        turn % TURNS * TURN + place
    }

    fn edit_line(&mut self, line: usize, change: impl FnOnce(&mut Value)) {
        let mut value: Value = serde_json::from_slice(&self.lines[line]).unwrap();
        change(&mut value);
        self.lines[line] = value.to_string().into_bytes();
    }

    fn replace_in_line(&mut self, line: usize, from: &str, to: &str) {
        let text = String::from_utf8(self.lines[line].clone()).unwrap();
        assert!(text.contains(from), "{text}");
        self.lines[line] = text.replacen(from, to, 1).into_bytes();
    }
}

fn entry_uuid(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

fn whole_transcript(cwd: &str) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    let mut last = Value::Null;
    let entry = |place: usize, parent: &Value, kind: &str, message: Value| {
        json!({"parentUuid": parent, "isSidechain": false, "userType": "external", "cwd": cwd, "sessionId": "s",
            "version": "2.1.325", "gitBranch": "main", "type": kind, "message": message, "uuid": entry_uuid(place),
            "timestamp": format!("2026-01-02T03:04:{:02}.000Z", place % 60)})
    };
    for turn in 0..TURNS {
        let id = |place: usize| BrokenTranscript::line_index(turn, place) + 1;
        let said = |number: usize, block: Value| {
            json!({"id": format!("msg_{turn}_{number}"), "type": "message", "role": "assistant", "model": "claude-sonnet-5-5",
                "content": [block], "stop_reason": null, "stop_sequence": null, "usage": {}})
        };
        let call = |name: &str| json!({"type": "tool_use", "id": format!("toolu_{turn}_{name}"), "name": "Read", "input": {"file_path": "/a"}});
        let result = |name: &str| {
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": format!("toolu_{turn}_{name}"),
                "content": [{"type": "text", "text": format!("result {turn} {name}")}]}]})
        };
        let text = |text: String| json!({"type": "text", "text": text});
        let here = |place: usize| json!(entry_uuid(id(place)));
        lines.push(entry(id(0), &last, "user", json!({"role": "user", "content": format!("prompt {turn}")})));
        lines.push(entry(id(1), &here(0), "assistant", said(0, text(format!("I look {turn}")))));
        lines.push(entry(id(2), &here(1), "assistant", said(0, call("a"))));
        lines.push(entry(id(3), &here(2), "assistant", said(0, call("b"))));
        lines.push(entry(id(4), &here(2), "user", result("a")));
        lines.push(entry(id(5), &here(3), "user", result("b")));
        lines.push(entry(id(6), &here(5), "assistant", said(1, text(format!("done {turn}")))));
        lines.push(json!({"type": "last-prompt", "lastPrompt": format!("prompt {turn}"), "leafUuid": here(6), "sessionId": "s"}));
        last = here(6);
    }
    lines.iter().map(|line| line.to_string().into_bytes()).collect()
}

fn cut_file(file: &mut BrokenTranscript, number: usize) -> Vec<&'static str> {
    let line = BrokenTranscript::line_index(number, 2 + number % 5);
    file.tail = file.lines[line][..20 + number * 17].to_vec();
    file.lines.truncate(line);
    vec!["torn-tail"]
}

fn fuse_lines(file: &mut BrokenTranscript, number: usize) -> Vec<&'static str> {
    let line = BrokenTranscript::line_index(number, number % 7);
    let next = file.lines.remove(line + 1);
    file.lines[line].truncate(30 + number * 11);
    file.lines[line].extend(next);
    vec!["fused-line", "broken-line"]
}

fn duplicate_line(file: &mut BrokenTranscript, number: usize) -> Vec<&'static str> {
    let line = file.lines[BrokenTranscript::line_index(number, number % 7)].clone();
    let place = if number.is_multiple_of(2) { file.lines.len() } else { BrokenTranscript::line_index(number + 1, 3) };
    file.lines.insert(place, line);
    vec!["duplicate-entry"]
}

fn reorder_lines(file: &mut BrokenTranscript, number: usize) -> Vec<&'static str> {
    let line = BrokenTranscript::line_index(number, number % 6);
    match number % 3 {
        0 => file.lines.swap(line, line + 1),
        1 => file.lines[line / TURN * TURN..line / TURN * TURN + 7].reverse(),
        _ => file.lines.reverse(),
    }
    // Two results may stand in any order; only links against the order of lines are odd.
    if number.is_multiple_of(3) && number % 6 >= 3 { vec![] } else { vec!["out-of-order"] }
}

fn orphan_entry(file: &mut BrokenTranscript, number: usize) -> Vec<&'static str> {
    // What something else follows: a prompt, a text, a call, or the last text of a turn.
    file.lines.remove(BrokenTranscript::line_index(number % (TURNS - 1), [0, 1, 3, 6][number % 4]));
    vec!["missing-parent"]
}

fn remove_call(file: &mut BrokenTranscript, number: usize) -> Vec<&'static str> {
    file.lines.remove(BrokenTranscript::line_index(number, 2 + number % 2));
    vec!["orphan-result", "missing-parent"]
}

fn remove_result(file: &mut BrokenTranscript, number: usize) -> Vec<&'static str> {
    file.lines.remove(BrokenTranscript::line_index(number, 4 + number % 2));
    vec!["missing-result"]
}

fn png_base64(width: u32) -> String {
    use std::fmt::Write;
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    bytes.extend(width.to_be_bytes());
    bytes.extend(16u32.to_be_bytes());
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks_exact(3) {
        let bits = three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
        for shift in [18, 12, 6, 0] {
            write!(text, "{}", char::from(alphabet[(bits >> shift & 63) as usize])).unwrap();
        }
    }
    text
}

fn add_bad_image(file: &mut BrokenTranscript, number: usize) -> Vec<&'static str> {
    let (kind, data) = match number % 5 {
        0 => ("image/png", "A".repeat(if number == 0 { 10_400_000 } else { 16 })),
        1 => ("image/png", png_base64(9000 + number as u32)),
        2 => ("image/jpeg", png_base64(10)),
        3 => ("image/png", "this is not base64!".to_owned()),
        _ => ("image/png", "AAAA".to_owned()),
    };
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}});
    match number % 2 {
        0 => file.edit_line(BrokenTranscript::line_index(number, 4), |entry| {
            entry["message"]["content"][0]["content"] = json!([image])
        }),
        _ => file.edit_line(BrokenTranscript::line_index(number, 0), |entry| {
            entry["message"]["content"] = json!([{"type": "text", "text": "look"}, image]);
        }),
    }
    // A wrong label can be put right; then the image stays.
    if number % 5 == 2 { vec!["bad-block"] } else { vec!["bad-image"] }
}

fn add_lone_surrogate(file: &mut BrokenTranscript, number: usize) -> Vec<&'static str> {
    let half = ["\\ud800", "\\udc00", "\\ud83d", "\\udfff\\ud800", "\\uDBFF"][number % 5];
    match number % 2 {
        0 => file.replace_in_line(BrokenTranscript::line_index(number, 0), "prompt ", &format!("prompt {half} ")),
        _ => file.replace_in_line(BrokenTranscript::line_index(number, 5), "result ", &format!("{half}result ")),
    }
    vec!["half-character"]
}

fn change_type(file: &mut BrokenTranscript, number: usize) -> Vec<&'static str> {
    let call = BrokenTranscript::line_index(number, 2);
    let result = BrokenTranscript::line_index(number, 4);
    let prompt = BrokenTranscript::line_index(number, 0);
    let content = |entry: &mut Value, name: &str, value: Value| entry["message"]["content"][0][name] = value;
    match number {
        0 => file.edit_line(prompt, |entry| entry["message"]["content"] = json!(5)),
        1 => file.edit_line(prompt, |entry| entry["message"] = Value::Null),
        2 => file.edit_line(call, |entry| content(entry, "input", json!("text"))),
        3 => file.edit_line(call, |entry| content(entry, "name", json!(7))),
        4 => file.edit_line(result, |entry| content(entry, "content", json!({"a": 1}))),
        5 => file.edit_line(result, |entry| content(entry, "content", json!([5, null, {"type": 3}]))),
        6 => {
            let said = BrokenTranscript::line_index(number, 1);
            file.edit_line(said, |entry| entry["message"]["content"] = json!([{"type": "hologram", "depth": 3}]));
            return vec!["unknown-block"];
        }
        7 => file.edit_line(prompt, |entry| entry["message"]["content"] = json!([{"type": 9}, "loose", {"text": "x"}])),
        8 => file.edit_line(call, |entry| entry["uuid"] = json!(12)),
        _ => file.edit_line(call, |entry| content(entry, "id", json!("not an id!"))),
    }
    vec!["bad-message", "bad-block", "bad-call", "missing-parent", "orphan-result"]
}

fn make_cycle(file: &mut BrokenTranscript, number: usize) -> Vec<&'static str> {
    let own = |line: usize| json!(entry_uuid(line + 1));
    match number % 3 {
        0 => file.edit_line(0, |entry| entry["parentUuid"] = own(BrokenTranscript::line_index(TURNS - 1, 6))),
        1 => file.edit_line(BrokenTranscript::line_index(number, 0), |entry| {
            entry["parentUuid"] = own(BrokenTranscript::line_index(number, 0))
        }),
        _ => file.edit_line(BrokenTranscript::line_index(number, 1), |entry| {
            entry["parentUuid"] = own(BrokenTranscript::line_index(number, 6))
        }),
    }
    vec!["cycle"]
}

fn add_root(file: &mut BrokenTranscript, number: usize) -> Vec<&'static str> {
    let prompt = BrokenTranscript::line_index(number % (TURNS - 1) + 1, 0);
    file.edit_line(prompt, |entry| entry["parentUuid"] = Value::Null);
    vec!["second-root"]
}

fn grow_line(file: &mut BrokenTranscript, number: usize) -> Vec<&'static str> {
    match number {
        0 => {
            file.edit_line(BrokenTranscript::line_index(1, 4), |entry| {
                entry["toolUseResult"] = json!("y".repeat(4_400_000))
            });
            vec!["giant-line"]
        }
        1 => {
            file.lines.insert(3, vec![b'{'; 3_000_000]);
            vec!["broken-line"]
        }
        number => {
            let mut line = b"{\"parentUuid\":\"".to_vec();
            line.resize(100_000 * number, b'z');
            file.lines.insert(BrokenTranscript::line_index(number, 3), line);
            vec!["broken-line"]
        }
    }
}

fn insert_zeros(file: &mut BrokenTranscript, number: usize) -> Vec<&'static str> {
    let line = BrokenTranscript::line_index(number, number % 7);
    let block = vec![0; 8 << (number % 10)];
    match number % 3 {
        0 => file.lines.insert(line, block),
        1 => {
            let middle = file.lines[line].len() / 2;
            file.lines[line].splice(middle..middle, block);
        }
        _ => file.tail = block,
    }
    vec!["zero-bytes", "bad-message", "broken-line"]
}

fn tear_characters(file: &mut BrokenTranscript, number: usize) -> Vec<&'static str> {
    let place = [0, 1, 6][number % 3];
    let line = BrokenTranscript::line_index(number, place);
    let word = [&b"prompt"[..], b"I look", b"done"][number % 3];
    let at = file.lines[line].windows(word.len()).position(|window| window == word).unwrap();
    let torn = [&b"\xe2\x82"[..], b"\xff", b"\xf0\x9f\x98"][number % 3];
    file.lines[line].splice(at..at, torn.iter().copied());
    vec!["bad-message"]
}

fn answer_twice(file: &mut BrokenTranscript, number: usize) -> Vec<&'static str> {
    let result = BrokenTranscript::line_index(number, 5);
    match number % 2 {
        0 => {
            // A second answer on the way to what follows.
            let mut second: Value = serde_json::from_slice(&file.lines[result]).unwrap();
            second["uuid"] = json!(entry_uuid(9000 + number));
            second["parentUuid"] = json!(entry_uuid(result + 1));
            file.lines.insert(result + 1, second.to_string().into_bytes());
            let next = result + 2;
            file.edit_line(next, |entry| entry["parentUuid"] = json!(entry_uuid(9000 + number)));
            vec!["duplicate-result"]
        }
        _ => {
            // Both calls of a reply have one id.
            file.edit_line(BrokenTranscript::line_index(number, 3), |entry| {
                entry["message"]["content"][0]["id"] = json!(format!("toolu_{}_a", number % TURNS));
            });
            vec!["bad-call", "orphan-result"]
        }
    }
}

fn blank_text(file: &mut BrokenTranscript, number: usize) -> Vec<&'static str> {
    let blank = ["", " ", "\n\t", "\u{a0}"][number % 4];
    match number % 2 {
        0 => {
            file.edit_line(BrokenTranscript::line_index(number, 0), |entry| entry["message"]["content"] = json!(blank))
        }
        _ => file.edit_line(BrokenTranscript::line_index(number, 6), |entry| {
            entry["message"]["content"][0]["text"] = json!(blank)
        }),
    }
    vec!["blank-text"]
}

fn flip_bytes(file: &mut BrokenTranscript, number: usize) -> Vec<&'static str> {
    for step in 0..number + 1 {
        let line = (number * 31 + step * 7) % file.lines.len();
        let length = file.lines[line].len();
        file.lines[line][(number * 97 + step * 53) % length] ^= 1 << (step % 7);
    }
    vec![]
}

fn remove_beginning(file: &mut BrokenTranscript, number: usize) -> Vec<&'static str> {
    file.lines.drain(..number + 1);
    vec!["missing-start", "missing-parent", "orphan-result"]
}

fn damage_several(file: &mut BrokenTranscript, number: usize) -> Vec<&'static str> {
    // Later places first, so that the earlier ones are still where they were.
    blank_text(file, number);
    add_lone_surrogate(file, number + 1);
    let mut named = change_type(file, number);
    insert_zeros(file, number * 3);
    named.extend(duplicate_line(file, number));
    named
}
