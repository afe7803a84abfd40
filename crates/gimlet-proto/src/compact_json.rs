//! Rendering a block once: white space outside strings goes, everything else stays byte for byte.

/// Removes insignificant white space from valid JSON text. Tokens, escapes, numbers and key order are kept.
pub fn compact(json: &str) -> String {
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

/// Whether this (valid) JSON text is an object.
pub fn is_json_object(json: &str) -> bool {
    json.trim_start().starts_with('{')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_tokens_and_drops_blanks() {
        let text = "{ \"a b\" : [ 1.0 , 1e400 ,\n\t\"x \\\" y\" , \"\\u00e9 \" ] }";
        assert_eq!(compact(text), "{\"a b\":[1.0,1e400,\"x \\\" y\",\"\\u00e9 \"]}");
    }

    #[test]
    fn is_idempotent() {
        let once = compact("[ {\"k\": \"é \\\\\"} ]");
        assert_eq!(compact(&once), once);
    }
}
