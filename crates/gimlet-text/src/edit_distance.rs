//! Edit distance between a mistyped name and a known one.

/// Returns the number of edits that turn one text into the other: a character inserted, missing or wrong, or two
/// neighbours swapped. Meant for names, which are short.
pub fn edit_distance(a: &str, b: &str) -> usize {
    strsim::osa_distance(a, b)
}

#[cfg(test)]
mod tests {
    use super::edit_distance;

    #[test]
    fn edits_are_counted() {
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("Read", "Read"), 0);
        assert_eq!(edit_distance("abc", ""), 3);
    }

    #[test]
    fn a_transposition_counts_as_one_edit() {
        assert_eq!(edit_distance("Raed", "Read"), 1);
        assert_eq!(edit_distance("ba", "ab"), 1);
        assert_eq!(edit_distance("--modle", "--model"), 1);
        assert_eq!(edit_distance("abcd", "badc"), 2);
    }
}
