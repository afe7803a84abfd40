//! A cheap look at the outermost members of a JSON object, without parsing what is inside them.
//!
//! It checks brackets and strings only as far as it must to find where each value ends; whoever uses a value parses it
//! properly. It never panics on any bytes.

use memchr::memchr;

/// One member: the key without its quotes (escapes left alone) and the value's exact bytes.
pub(crate) type Member<'a> = (&'a [u8], &'a [u8]);

/// Walks over the members of the object at the start of some bytes.
pub(crate) struct Members<'a> {
    bytes: &'a [u8],
    at: usize,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    Between,
    /// The closing brace was seen.
    Closed,
    Broken,
}

impl<'a> Members<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, state: State::Start }
    }

    /// What follows the object, once all its members were walked over; `None` while it has not been seen to close.
    pub(crate) fn rest(&self) -> Option<&'a [u8]> {
        (self.state == State::Closed).then(|| &self.bytes[self.at..])
    }

    fn blanks(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn peek(&mut self) -> Option<u8> {
        self.blanks();
        self.bytes.get(self.at).copied()
    }

    fn eat(&mut self, wanted: u8) -> Option<()> {
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    fn member(&mut self) -> Option<Member<'a>> {
        let key_start = self.at + 1;
        self.at = string_end(self.bytes, self.at)?;
        let key = &self.bytes[key_start..self.at - 1];
        self.eat(b':')?;
        self.blanks();
        let start = self.at;
        self.at = value_end(self.bytes, start)?;
        Some((key, &self.bytes[start..self.at]))
    }

    /// The next member, `Ok(None)` after the closing brace.
    fn step(&mut self) -> Option<Option<Member<'a>>> {
        if self.state == State::Start {
            self.eat(b'{')?;
            if self.peek()? == b'}' {
                self.at += 1;
                self.state = State::Closed;
                return Some(None);
            }
        } else {
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    self.state = State::Closed;
                    return Some(None);
                }
                _ => return None,
            }
        }
        self.state = State::Between;
        if self.peek()? != b'"' {
            return None;
        }
        self.member().map(Some)
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        if matches!(self.state, State::Closed | State::Broken) {
            return None;
        }
        match self.step() {
            Some(member) => member,
            None => {
                self.state = State::Broken;
                None
            }
        }
    }
}

/// The offset behind the string that begins at `at`.
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

/// The offset behind the value that begins at `at`.
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

/// The inside of a JSON string that has no escapes.
pub(crate) fn plain_string(value: &[u8]) -> Option<&[u8]> {
    let inner = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    memchr(b'\\', inner).is_none().then_some(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(text: &str) -> (Vec<(String, String)>, Option<String>) {
        let mut members = Members::of(text.as_bytes());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let seen = members.by_ref().map(|(key, value)| (text(key), text(value))).collect();
        (seen, members.rest().map(text))
    }

    #[test]
    fn finds_members_around_nested_values_and_escapes() {
        let (seen, rest) = walk(r#"{"a":{"x":["}",1]}, "b" : "q\"\\" ,"c":-1.5e3,"d":null}{"next":1}"#);
        let seen: Vec<(&str, &str)> = seen.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(seen, [("a", r#"{"x":["}",1]}"#), ("b", r#""q\"\\""#), ("c", "-1.5e3"), ("d", "null")]);
        assert_eq!(rest.as_deref(), Some(r#"{"next":1}"#));
    }

    #[test]
    fn a_cut_object_never_closes() {
        let whole = r#"{"a":"x\"y","b":[{"c":1}],"d":true}"#;
        for end in 0..whole.len() {
            assert_eq!(walk(&whole[..end]).1, None, "{}", &whole[..end]);
        }
        assert_eq!(walk(whole).1.as_deref(), Some(""));
        assert_eq!(walk("{}").1.as_deref(), Some(""));
    }
}
