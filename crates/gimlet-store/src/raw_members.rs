//! Cheap scan of the outermost members of a JSON object, without parsing their values.
//!
//! It checks brackets and strings only as far as needed to find the end of each value; the caller parses a value that
//! it uses. It never panics on any bytes.

use memchr::memchr;

/// One member: the key without its quotes (escapes left alone) and the value's exact bytes.
pub(crate) type RawJsonMember<'a> = (&'a [u8], &'a [u8]);

/// Walks over the members of the object at the start of some bytes.
pub(crate) struct RawJsonMembers<'a> {
    bytes: &'a [u8],
    at: usize,
    state: MemberScanState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MemberScanState {
    Start,
    Between,
    /// The closing brace was seen.
    Closed,
    Broken,
}

impl<'a> RawJsonMembers<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, state: MemberScanState::Start }
    }

    /// Returns the bytes after the object, once all its members were visited; `None` while it has not been seen to
    /// close.
    pub(crate) fn rest(&self) -> Option<&'a [u8]> {
        (self.state == MemberScanState::Closed).then(|| &self.bytes[self.at..])
    }

    fn skip_blanks(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn peek(&mut self) -> Option<u8> {
        self.skip_blanks();
        self.bytes.get(self.at).copied()
    }

    fn eat(&mut self, wanted: u8) -> Option<()> {
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    fn read_member(&mut self) -> Option<RawJsonMember<'a>> {
        let key_start = self.at + 1;
        self.at = string_end(self.bytes, self.at)?;
        let key = &self.bytes[key_start..self.at - 1];
        self.eat(b':')?;
        self.skip_blanks();
        let start = self.at;
        self.at = value_end(self.bytes, start)?;
        Some((key, &self.bytes[start..self.at]))
    }

    /// Returns the next member; the inner `None` after the closing brace.
    fn next_member(&mut self) -> Option<Option<RawJsonMember<'a>>> {
        if self.state == MemberScanState::Start {
            self.eat(b'{')?;
            if self.peek()? == b'}' {
                self.at += 1;
                self.state = MemberScanState::Closed;
                return Some(None);
            }
        } else {
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    self.state = MemberScanState::Closed;
                    return Some(None);
                }
                _ => return None,
            }
        }
        self.state = MemberScanState::Between;
        if self.peek()? != b'"' {
            return None;
        }
        self.read_member().map(Some)
    }
}

impl<'a> Iterator for RawJsonMembers<'a> {
    type Item = RawJsonMember<'a>;

    fn next(&mut self) -> Option<RawJsonMember<'a>> {
        if matches!(self.state, MemberScanState::Closed | MemberScanState::Broken) {
            return None;
        }
        match self.next_member() {
            Some(member) => member,
            None => {
                self.state = MemberScanState::Broken;
                None
            }
        }
    }
}

/// Returns the offset behind the string that begins at `at`.
fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut from = at + 1;
    loop {
        let quote = from + memchr(b'"', bytes.get(from..)?)?;
        let escapes = bytes[at + 1..quote].iter().rev().take_while(|byte| **byte == b'\\').count();
        if escapes % 2 == 0 {
            return Some(quote + 1);
        }
        from = quote + 1;
    }
}

/// Returns the offset behind the value that begins at `at`.
fn value_end(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at)? {
        b'"' => string_end(bytes, at),
        b'{' | b'[' => container_end(bytes, at),
        _ => {
            let length = bytes[at..]
                .iter()
                .position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n'))?;
            (length > 0).then_some(at + length)
        }
    }
}

fn container_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0usize;
    loop {
        match bytes.get(at)? {
            b'"' => {
                at = string_end(bytes, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1; // at least one: this function starts on an opening bracket
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

/// Returns the content of a JSON string; `None` if it has escapes.
pub(crate) fn unescaped_string(value: &[u8]) -> Option<&[u8]> {
    let inner = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    memchr(b'\\', inner).is_none().then_some(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect_members(text: &str) -> (Vec<(String, String)>, Option<String>) {
        let mut members = RawJsonMembers::new(text.as_bytes());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let seen = members.by_ref().map(|(key, value)| (text(key), text(value))).collect();
        (seen, members.rest().map(text))
    }

    #[test]
    fn finds_members_around_nested_values_and_escapes() {
        let (seen, rest) = collect_members(r#"{"a":{"x":["}",1]}, "b" : "q\"\\" ,"c":-1.5e3,"d":null}{"next":1}"#);
        let seen: Vec<(&str, &str)> = seen.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(seen, [("a", r#"{"x":["}",1]}"#), ("b", r#""q\"\\""#), ("c", "-1.5e3"), ("d", "null")]);
        assert_eq!(rest.as_deref(), Some(r#"{"next":1}"#));
    }

    #[test]
    fn a_cut_object_never_closes() {
        let whole = r#"{"a":"x\"y","b":[{"c":1}],"d":true}"#;
        for end in 0..whole.len() {
            assert_eq!(collect_members(&whole[..end]).1, None, "{}", &whole[..end]);
        }
        assert_eq!(collect_members(whole).1.as_deref(), Some(""));
        assert_eq!(collect_members("{}").1.as_deref(), Some(""));
    }
}
