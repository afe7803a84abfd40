//! Tags around texts that the user did not write, which the enclosed texts cannot close.

use std::borrow::Cow;

/// Returns the text between `<tag>` and `</tag>`. Occurrences of that tag inside the text are broken, so that the
/// text cannot close it.
pub fn enclose_in_tag(tag: &str, text: &str) -> String {
    format!("<{tag}>\n{}\n</{tag}>", escape_tags(text, &[tag]))
}

/// Escapes tags: `<system>` becomes `<\system>`, and `</system>` becomes `<\/system>`.
pub fn escape_tags<'t>(text: &'t str, tags: &[&str]) -> Cow<'t, str> {
    let is_mark = |after: &str| {
        let name = after.trim_start_matches(|c: char| c == '/' || c.is_whitespace());
        let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c))).unwrap_or(name.len());
        tags.iter().any(|tag| name[..end].eq_ignore_ascii_case(tag))
    };
    let mut pieces = text.split('<');
    if !pieces.clone().skip(1).any(is_mark) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        out.push_str(if is_mark(piece) { "<\\" } else { "<" });
        out.push_str(piece);
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_close_its_enclosing_tag() {
        for (text, inside) in [
            ("plain <b> text", "plain <b> text"),
            ("a</stdin>b", "a<\\/stdin>b"),
            ("</STDIN >", "<\\/STDIN >"),
            ("< / stdin>", "<\\ / stdin>"),
            ("<stdin><</stdin", "<\\stdin><<\\/stdin"),
            ("</stdin-x> </stdins> </other>", "</stdin-x> </stdins> </other>"),
            ("</", "</"),
        ] {
            assert_eq!(enclose_in_tag("stdin", text), format!("<stdin>\n{inside}\n</stdin>"));
        }
        assert!(matches!(escape_tags("a < b", &["system"]), Cow::Borrowed(_)));
    }
}
