//! Matching of a few typed letters against names.

/// Rank of a match; the smallest is the best.
pub(crate) type MatchRank = (u8, usize);

/// Returns how well a query matches a name, `None` if it does not: the name itself, its beginning, the beginning of one of
/// its words, a part of it, or its letters in their order. `:`, `_`, `-` and spaces are ignored.
pub(crate) fn rank_match(name: &str, query: &str) -> Option<MatchRank> {
    let simple = |text: &str| -> String {
        text.chars().filter(|char| !is_word_gap(*char)).flat_map(char::to_lowercase).collect()
    };
    let (whole, wanted) = (simple(name), simple(query));
    let length = whole.chars().count();
    if wanted.is_empty() || whole == wanted {
        return Some((0, 0));
    }
    if whole.starts_with(&wanted) {
        return Some((1, length));
    }
    let mut rest = name;
    while let Some(at) = rest.find(is_word_gap) {
        rest = rest.get(at..).unwrap_or_default().trim_start_matches(is_word_gap);
        if simple(rest).starts_with(&wanted) {
            return Some((2, length));
        }
    }
    if whole.contains(&wanted) {
        return Some((3, length));
    }
    // Letters that are spread over a long name match by chance.
    let mut letters = whole.chars();
    let mut spread = 0;
    for wanted in wanted.chars() {
        spread += letters.by_ref().position(|letter| letter == wanted)?;
    }
    if wanted.chars().count() < 2 { None } else { Some((4, spread * 100 + length)) }
}

fn is_word_gap(char: char) -> bool {
    matches!(char, ':' | '_' | '-' | ' ' | '.' | '/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_matches_come_first() {
        let mut names =
            vec!["pr-comments", "my:review", "code-review", "preview", "review", "reviews", "re-visit-all-we"];
        names.retain(|name| rank_match(name, "review").is_some());
        names.sort_by_key(|name| rank_match(name, "review"));
        assert_eq!(names, ["review", "reviews", "my:review", "code-review", "preview"]);
        assert_eq!(rank_match("add-dir", "adddir"), Some((0, 0)));
        assert!(rank_match("add-dir", "dir").is_some_and(|rank| rank.0 == 2));
        assert!(rank_match("compact", "cpt").is_some_and(|rank| rank.0 == 4));
        assert!(rank_match("compact", "x").is_none());
    }
}
