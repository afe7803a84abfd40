//! Snippets of search hits: the text around the words, read from the transcript itself.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use gimlet_proto::SessionId;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::index_update::is_result_file;
use super::search_query::{IndexedEntry, SearchQuery, SearchTerm};
use super::searchable_text::{read_entry_text, read_result_text};
use super::{HitRole, SearchHit};

/// Characters before the first word that was found, and in all.
const BEFORE: usize = 50;
const LENGTH: usize = 200;

/// Piece of a text in one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snippet {
    pub text: String,
    /// Byte ranges of the found words in the text.
    pub marks: Vec<Range<usize>>,
}

/// Reads the hits, leaves out copies of one entry, and keeps at most `limit`.
pub(super) fn load_hits(places: Vec<IndexedEntry>, words: &SearchQuery, limit: usize) -> Vec<SearchHit> {
    let mut open: HashMap<PathBuf, Option<File>> = HashMap::new();
    let mut titles: HashMap<PathBuf, Vec<String>> = HashMap::new();
    let mut seen = HashSet::new();
    let mut hits = Vec::new();
    for place in places {
        if hits.len() == limit {
            break;
        }
        let file = open.entry(place.path.clone()).or_insert_with(|| crate::disk::open_regular(&place.path).ok());
        let Some((hit, text)) = file.as_ref().and_then(|file| read_hit(place, file, words)) else { continue };
        if hit.role == HitRole::Title {
            // Titles are written repeatedly, and a replaced title no longer counts.
            let now = titles.entry(hit.path.clone()).or_insert_with(|| session_titles(&hit.path));
            let Some(at) = now.iter().position(|title| *title == text) else { continue };
            now.remove(at);
            hits.push(hit);
        // Forks share entries.
        } else if seen.insert((hit.entry.clone(), hit.at_ms, hit.snippet.text.clone())) {
            hits.push(hit);
        }
    }
    hits
}

/// Returns the current titles of a session: the user's, gimlet's, and those of older programs.
fn session_titles(transcript: &Path) -> Vec<String> {
    let summary = crate::session_summary::read_summary(transcript).ok().flatten();
    summary.map_or_else(Vec::new, |summary| {
        [summary.labels.title, summary.labels.ai_title, summary.old_summary].into_iter().flatten().collect()
    })
}

/// Reads the hit and its whole text. Returns `None` when the transcript no longer has it there.
fn read_hit(place: IndexedEntry, file: &File, words: &SearchQuery) -> Option<(SearchHit, String)> {
    let mut line = vec![0; place.length];
    file.read_exact_at(&mut line, place.at).ok()?;
    let said = if is_result_file(&place.path) { read_result_text(&line)? } else { read_entry_text(&line)? };
    let hit = SearchHit {
        session: SessionId::new(place.session),
        agent: place.agent,
        path: place.path,
        cwd: place.cwd.map(PathBuf::from),
        at_ms: place.time_ms,
        role: place.role,
        entry: said.entry,
        snippet: make_snippet(&said.text, &words.wanted),
    };
    Some((hit, said.text))
}

/// Returns the text around the first word that was found.
fn make_snippet(text: &str, terms: &[SearchTerm]) -> Snippet {
    let folded = FoldedText::new(text);
    let mut found: Vec<Range<usize>> = terms.iter().flat_map(|term| folded.find_term(term)).collect();
    found.sort_by_key(|range| range.start);
    let first = found.first().map_or(0, |range| range.start);
    let from = text[..first].char_indices().rev().take(BEFORE).last().map_or(0, |(at, _)| at);
    let to = text[from..].char_indices().nth(LENGTH).map_or(text.len(), |(at, _)| from + at);
    let mut snippet = Snippet::default();
    if from > 0 {
        snippet.text.push('…');
    }
    let mut blank = true;
    let mut starts: Vec<(usize, usize)> = Vec::new();
    for (at, char) in text[from..to].char_indices() {
        starts.push((from + at, snippet.text.len()));
        // One line: every run of whitespace becomes one space.
        if !char.is_whitespace() {
            snippet.text.push(char);
        } else if !blank {
            snippet.text.push(' ');
        }
        blank = char.is_whitespace();
    }
    starts.push((to, snippet.text.len()));
    let place =
        |at: usize| starts.binary_search_by_key(&at, |(original, _)| *original).ok().map(|found| starts[found].1);
    let marks = found.iter().filter_map(|range| Some(place(range.start)?..place(range.end)?));
    for mark in marks.filter(|mark| mark.start < mark.end) {
        if snippet.marks.last().is_none_or(|last: &Range<usize>| last.end <= mark.start) {
            snippet.marks.push(mark);
        }
    }
    if to < text.len() {
        snippet.text.push('…');
    }
    snippet
}

/// Text as the index compares it: lower case, without accents; every character with its offset.
struct FoldedText {
    chars: Vec<(char, usize)>,
    end: usize,
}

impl FoldedText {
    fn new(text: &str) -> Self {
        let fold = |char: char| char.to_lowercase().nfd().filter(|char| !is_combining_mark(*char)).collect::<Vec<_>>();
        let chars = text.char_indices().flat_map(|(at, char)| fold(char).into_iter().map(move |char| (char, at)));
        Self { chars: chars.collect(), end: text.len() }
    }

    /// Returns the byte ranges of a term's words in the text. Words match at their beginning.
    fn find_term(&self, term: &SearchTerm) -> Vec<Range<usize>> {
        const MOST: usize = 100;
        let words: Vec<Vec<char>> = FoldedText::new(&term.text)
            .chars
            .split(|(char, _)| !char.is_alphanumeric())
            .map(|word| word.iter().map(|(char, _)| *char).collect())
            .filter(|word: &Vec<char>| !word.is_empty())
            .collect();
        let Some(first) = words.first() else { return Vec::new() };
        let mut found = Vec::new();
        let mut at = 0;
        while at < self.chars.len() && found.len() < MOST {
            let begins = at == 0 || !self.chars[at - 1].0.is_alphanumeric() || !first[0].is_ascii();
            let end = if begins { self.phrase_end(at, &words, term.open) } else { None };
            match end {
                Some(end) => {
                    found.push(self.chars[at].1..self.chars.get(end).map_or(self.end, |(_, byte)| *byte));
                    at = end.max(at + 1);
                }
                None => at += 1,
            }
        }
        found
    }

    /// Returns the end of the words if they begin here, in sequence with only punctuation between them; `None` if they
    /// do not.
    fn phrase_end(&self, start: usize, words: &[Vec<char>], open: bool) -> Option<usize> {
        let mut at = start;
        for (number, word) in words.iter().enumerate() {
            if number > 0 {
                while self.chars.get(at).is_some_and(|(char, _)| !char.is_alphanumeric()) {
                    at += 1;
                }
            }
            for char in word {
                if self.chars.get(at)?.0 != *char {
                    return None;
                }
                at += 1;
            }
        }
        let goes_on = self.chars.get(at).is_some_and(|(char, _)| char.is_alphanumeric() && char.is_ascii());
        (open || !goes_on).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked_snippet(text: &str, typed: &str) -> String {
        let snippet = make_snippet(text, &SearchQuery::parse(typed).unwrap().wanted);
        let mut shown = snippet.text.clone();
        for mark in snippet.marks.iter().rev() {
            shown.insert(mark.end, ']');
            shown.insert(mark.start, '[');
        }
        shown
    }

    #[test]
    fn the_words_are_marked_in_one_line_around_the_first_of_them() {
        let cases = [
            ("Fix the\n\n  failing test", "failing fix", "[Fix] the [failing] test".to_owned()),
            ("une Été à la plage", "ete", "une [Été] à la plage".to_owned()),
            ("contest test testing", "test", "contest [test] testing".to_owned()),
            ("contest testing", "test*", "contest [test]ing".to_owned()),
            ("call foo_bar(x) now", "foo_bar", "call [foo_bar](x) now".to_owned()),
            ("我喜欢日本菜", "日本", "我喜欢[日本]菜".to_owned()),
            ("nothing of it", "else", "nothing of it".to_owned()),
        ];
        for (text, typed, shown) in cases {
            assert_eq!(marked_snippet(text, typed), shown);
        }
        let long = format!("{} needle {}", "é".repeat(500), "x".repeat(500));
        let shown = marked_snippet(&long, "needle");
        assert!(shown.starts_with("…éé") && shown.contains("[needle]") && shown.ends_with("xx…"), "{shown}");
    }
}
