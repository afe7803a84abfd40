//! Edit distance between a mistyped name and a known one.

/// Returns the number of edits that turn one text into the other: a byte inserted, missing or wrong, or two
/// neighbours swapped. Meant for names, which are short.
pub fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    // Row `i` has the distances of the first `i` bytes of `a` from every prefix of `b`; a swap reads the row two
    // before.
    let mut earlier = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(earlier[j - 2] + 1);
            }
        }
        earlier = std::mem::replace(&mut above, row);
    }
    above[b.len()]
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
