//! Finds the comment with which a model leaves code out ("rest of the file unchanged"), before it replaces that code.

use std::collections::HashSet;

/// Comments are short; a longer line is prose or code.
const MOST_WORDS: usize = 14;

/// Returns the first placeholder line of `new`, if `old` had content that `new` leaves out.
pub(super) fn find_placeholder<'a>(old: &str, new: &'a str) -> Option<&'a str> {
    let placeholder = new.lines().map(str::trim).find(|line| is_placeholder(line))?;
    let in_old: HashSet<&str> = old.lines().map(str::trim).collect();
    // A file that is about placeholders, or that already had this one, may say so.
    if in_old.contains(placeholder) {
        return None;
    }
    let in_new: HashSet<&str> = new.lines().map(str::trim).collect();
    in_old.iter().any(|line| !line.is_empty() && !in_new.contains(line)).then_some(placeholder)
}

fn is_placeholder(line: &str) -> bool {
    const COMMENTS: [&str; 9] = ["//", "#", "/*", "*", "<!--", "--", ";", "{/*", "%"];
    let has_dots = line.contains("...") || line.contains('…');
    let is_comment = COMMENTS.iter().any(|mark| line.starts_with(mark));
    if !is_comment && !line.starts_with("...") && !line.starts_with('…') {
        return false;
    }
    let lower = line.to_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    if words.is_empty() || words.len() > MOST_WORDS {
        return false;
    }
    let has = |list: &[&str]| words.iter().any(|word| list.contains(word));
    let which = ["rest", "remaining", "remainder", "existing", "previous", "other", "original", "everything"];
    let what = [
        "code",
        "file",
        "function",
        "functions",
        "method",
        "methods",
        "class",
        "classes",
        "implementation",
        "content",
        "contents",
        "lines",
        "imports",
        "logic",
        "tests",
        "section",
        "sections",
        "fields",
        "else",
        "body",
    ];
    let left_out = ["unchanged", "omitted", "elided", "unmodified", "untouched"];
    let stays = ["same", "remains", "remain", "stays", "stay", "before"];
    (has(&which) && has(&what) && (has_dots || has(&left_out) || has(&stays)))
        || (has(&what) && has(&left_out) && (has_dots || has(&["rest", "remains", "stays"])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_known_in_many_spellings() {
        for line in [
            "// ... rest of the code unchanged ...",
            "# rest of file remains the same",
            "<!-- existing content ... -->",
            "/* ... other methods ... */",
            "{/* … existing code … */}",
            "... remaining functions ...",
            "-- previous code unchanged",
            "// ... implementation omitted",
        ] {
            assert!(is_placeholder(line), "{line}");
        }
        for line in [
            "// returns the rest of the file as bytes",
            "let rest = file.remaining();",
            "# other methods are documented below",
            "* Previous code paths are tried first",
            "Some prose about the rest of the code being unchanged",
            "// ...",
            "# unchanged",
        ] {
            assert!(!is_placeholder(line), "{line}");
        }
    }

    #[test]
    fn a_placeholder_matters_only_where_something_is_lost() {
        let new = "fn a() {}\n// ... rest of the code unchanged\n";
        assert_eq!(find_placeholder("fn a() {}\nfn b() {}\n", new), Some("// ... rest of the code unchanged"));
        assert_eq!(find_placeholder("fn a() {}\n", new), None);
        assert_eq!(find_placeholder("// ... rest of the code unchanged\nfn b() {}\n", new), None);
        assert_eq!(find_placeholder("fn a() {}\nfn b() {}\n", "fn a() {}\n"), None);
    }
}
