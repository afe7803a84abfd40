//! The search in earlier prompts: letters typed narrow it, the key that opened it goes on to older ones.

use gimlet_proto::PromptHistoryEntry;

use super::prompt_history::PromptDraft;

/// Which prompts are searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HistoryScope {
    /// Those that were sent in this folder.
    #[default]
    Folder,
    Everywhere,
}

/// An open search.
#[derive(Clone, Debug)]
pub(crate) struct HistorySearch {
    pub(crate) query: String,
    pub(crate) scope: HistoryScope,
    /// What was in the input before.
    pub(crate) original: PromptDraft,
    /// Prompts that match, newest first, each text once.
    matches: Vec<PromptHistoryEntry>,
    selected: usize,
}

impl HistorySearch {
    pub(crate) fn new(original: PromptDraft) -> Self {
        Self { query: String::new(), scope: HistoryScope::Folder, original, matches: Vec::new(), selected: 0 }
    }

    /// Searches again, from the newest.
    pub(crate) fn update(&mut self, entries: &[PromptHistoryEntry]) {
        self.selected = 0;
        self.matches.clear();
        if self.query.is_empty() {
            return;
        }
        let wanted = self.query.to_lowercase();
        for entry in entries.iter().rev() {
            let is_match = entry.text.to_lowercase().contains(&wanted);
            if is_match && !self.matches.iter().any(|known| known.text == entry.text) {
                self.matches.push(entry.clone());
            }
        }
    }

    /// Goes on to an older match.
    pub(crate) fn select_next(&mut self) {
        if self.selected + 1 < self.matches.len() {
            self.selected += 1;
        }
    }

    pub(crate) fn selected(&self) -> Option<&PromptHistoryEntry> {
        self.matches.get(self.selected)
    }

    /// Returns the place of the selected match, from 1, and the number of matches.
    pub(crate) fn place(&self) -> (usize, usize) {
        (self.selected + 1, self.matches.len())
    }
}

/// Returns the first place of a query in a text, without regard to case.
pub(crate) fn find_ignoring_case(text: &str, query: &str) -> Option<std::ops::Range<usize>> {
    if query.is_empty() {
        return None;
    }
    let wanted: Vec<char> = query.to_lowercase().chars().collect();
    text.char_indices().find_map(|(start, _)| {
        let mut left = wanted.iter();
        let mut expected = left.next();
        for (at, char) in text.get(start..)?.char_indices() {
            for lower in char.to_lowercase() {
                if expected != Some(&lower) {
                    return None;
                }
                expected = left.next();
            }
            if expected.is_none() {
                return Some(start..start + at + char.len_utf8());
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_found_without_regard_to_case() {
        assert_eq!(find_ignoring_case("run the Tests", "tEst"), Some(8..12));
        assert_eq!(find_ignoring_case("Ärger", "är"), Some(0..3));
        assert_eq!(find_ignoring_case("abc", "abd"), None);
        assert_eq!(find_ignoring_case("abc", ""), None);
        assert_eq!(find_ignoring_case("İx", "x"), Some(2..3));
    }
}
