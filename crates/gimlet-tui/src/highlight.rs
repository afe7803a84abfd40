//! Highlighting of code in answers and diffs.
