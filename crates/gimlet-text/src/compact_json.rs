//! Rendering of a block: removes whitespace outside strings and keeps everything else byte for byte.

/// Removes insignificant white space from valid JSON text. Tokens, escapes, numbers and key order are kept.
pub fn compact_json(json: &str) -> String {
    let bytes = json.as_bytes();
    let mut out = String::with_capacity(json.len());
    let mut start = 0; // start of the run not yet copied
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b' ' | b'\t' | b'\n' | b'\r' => {
                out.push_str(&json[start..at]);
                at += 1;
                start = at;
            }
            _ => at += 1,
        }
    }
    out.push_str(&json[start..]);
    out
}

/// Maximum nesting depth. Most JSON parsers fail not far beyond it; nothing deeper may become part of a conversation.
pub const MAX_JSON_DEPTH: usize = 100;

/// Returns true if arrays and objects of this JSON text are nested deeper than [`MAX_JSON_DEPTH`].
pub fn is_too_deep(json: &str) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                if depth > MAX_JSON_DEPTH {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// Returns true if this (valid) JSON text is an object.
pub fn is_json_object(json: &str) -> bool {
    json.trim_start().starts_with('{')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_tokens_and_drops_blanks() {
        let text = "{ \"a b\" : [ 1.0 , 1e400 ,\n\t\"x \\\" y\" , \"\\u00e9 \" ] }";
        assert_eq!(compact_json(text), "{\"a b\":[1.0,1e400,\"x \\\" y\",\"\\u00e9 \"]}");
    }

    #[test]
    fn json_depth_ignores_brackets_in_strings() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(!is_too_deep(&nested(MAX_JSON_DEPTH)) && is_too_deep(&nested(MAX_JSON_DEPTH + 1)));
        assert!(!is_too_deep(&format!("[{}]", vec!["{}"; 1000].join(","))));
        assert!(!is_too_deep(&format!("[\"\\\"{}\"]", "[".repeat(1000))));
    }

    #[test]
    fn is_idempotent() {
        let once = compact_json("[ {\"k\": \"é \\\\\"} ]");
        assert_eq!(compact_json(&once), once);
    }
}
