//! Diffs as styled lines: line numbers, marks and changed words.
