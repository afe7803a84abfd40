//! JSON escapes that encode half of a surrogate pair. Programs whose strings may contain such halves write them; Rust
//! text cannot contain one, and JSON parsers may reject it.

use std::borrow::Cow;

/// Returns the JSON with `\\ufffd` in place of every `\\u` escape that is half of a pair; borrowed when there is
/// none.
pub fn replace_lone_surrogates(json: &str) -> Cow<'_, str> {
    let unit = |at: usize| -> Option<u32> {
        let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
        u32::from_str_radix(digits, 16).ok()
    };
    let mut out = String::new();
    let (mut at, mut copied) = (0, 0);
    while let Some(found) = json.as_bytes().get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'\\')) {
        at += found;
        match unit(at) {
            Some(0xd800..=0xdbff) if matches!(unit(at + 6), Some(0xdc00..=0xdfff)) => at += 12,
            Some(0xd800..=0xdfff) => {
                out.push_str(&json[copied..at]);
                out.push_str("\\ufffd");
                at += 6;
                copied = at;
            }
            _ => at += 2,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    out.push_str(&json[copied..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::replace_lone_surrogates;

    #[test]
    fn only_lone_surrogates_are_replaced() {
        for (given, whole) in [
            (r#""plain \n \u00e9 \ud83d\ude00""#, r#""plain \n \u00e9 \ud83d\ude00""#),
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\ude00\ud83d""#, r#""\ufffd\ufffd""#),
            (r#""\ud83d\ud83d\ude00 x""#, r#""\ufffd\ud83d\ude00 x""#),
            (r#""\\ud83d \\\ud83d""#, r#""\\ud83d \\\ufffd""#),
            (r#""\"#, r#""\"#),
            (r#""\ud8"#, r#""\ud8"#),
            (r#""\é\ud800é""#, r#""\é\ufffdé""#),
        ] {
            assert_eq!(replace_lone_surrogates(given), whole, "{given}");
        }
    }
}
