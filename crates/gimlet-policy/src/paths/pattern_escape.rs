//! Escaping of a path for a generated rule. Patterns that a user writes are never escaped.

use std::path::Path;

/// Returns a path pattern that matches exactly this normalised absolute path, or with `below` everything in that
/// folder. `None` for a path that no rule can express.
pub fn pattern_for_path(path: &Path, below: bool) -> Option<String> {
    let text = path.to_str().filter(|text| !text.chars().any(char::is_control))?;
    let names = text.strip_prefix('/')?.trim_end_matches('/');
    if names.ends_with(char::is_whitespace) {
        return None;
    }
    let mut pattern = String::from("//");
    for c in names.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '!' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    match (below, names.is_empty()) {
        (true, true) => pattern.push_str("**"),
        (true, false) => pattern.push_str("/**"),
        (false, true) => return None,
        (false, false) => {}
    }
    Some(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::{AnchorDirs, MatchStrictness, PathPattern};
    use proptest::prelude::*;

    fn matches(pattern: &str, path: &str) -> bool {
        let places = AnchorDirs { working_dirs: &[], home: None, source: Path::new("/elsewhere") };
        PathPattern::parse(pattern).unwrap().matches(Path::new(path), places, MatchStrictness::Allow)
    }

    #[test]
    fn metacharacters_lose_their_meaning() {
        let pattern = pattern_for_path(Path::new("/srv/[a]*?/!x"), false).unwrap();
        assert_eq!(pattern, r"//srv/\[a\]\*\?/\!x");
        assert!(matches(&pattern, "/srv/[a]*?/!x"));
        assert!(!matches(&pattern, "/srv/abc/!x"));
        assert_eq!(pattern_for_path(Path::new("/srv"), true).as_deref(), Some("//srv/**"));
        assert_eq!(pattern_for_path(Path::new("/srv/a "), false), None, "blanks at the end of a rule are not kept");
    }

    proptest! {
        #[test]
        fn a_generated_pattern_means_its_path_and_no_other(
            name in "[a-c*?!\\[\\]\\\\ ]{1,6}x", other in "[a-c*?!\\[\\]\\\\ ]{1,6}x",
        ) {
            let (path, other) = (format!("/srv/{name}"), format!("/srv/{other}"));
            let pattern = pattern_for_path(Path::new(&path), false).unwrap();
            prop_assert!(matches(&pattern, &path), "{} for {}", pattern, path);
            prop_assert_eq!(matches(&pattern, &other), path == other, "{} for {}", pattern, other);
        }
    }
}
