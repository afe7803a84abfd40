//! Typography normalized for searching: curly quotes, long dashes and odd spaces become their plain forms. Written text
//! is never normalized.

use std::borrow::Cow;
use std::ops::Range;

/// Text with plain punctuation, and the way back to the original.
pub(super) struct TypographyFold<'a> {
    pub(super) text: Cow<'a, str>,
    /// Folded offset of each replaced character, and how many bytes longer the original is up to and with it.
    shifts: Vec<(usize, usize)>,
}

fn plain_form(character: char) -> Option<char> {
    match character {
        '\u{2018}'..='\u{201B}' | '\u{2032}' | '\u{FF07}' => Some('\''),
        '\u{201C}'..='\u{201F}' | '\u{2033}' | '\u{FF02}' => Some('"'),
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{FE58}' | '\u{FE63}' | '\u{FF0D}' => Some('-'),
        '\u{A0}' | '\u{2000}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{3000}' => Some(' '),
        _ => None,
    }
}

/// Folds a text.
pub(super) fn fold(text: &str) -> TypographyFold<'_> {
    if text.is_ascii() || !text.chars().any(|character| plain_form(character).is_some()) {
        return TypographyFold { text: Cow::Borrowed(text), shifts: Vec::new() };
    }
    let mut folded = String::with_capacity(text.len());
    let mut shifts = Vec::new();
    let mut longer = 0;
    for character in text.chars() {
        match plain_form(character) {
            Some(ascii) => {
                longer += character.len_utf8() - 1;
                shifts.push((folded.len(), longer));
                folded.push(ascii);
            }
            None => folded.push(character),
        }
    }
    TypographyFold { text: Cow::Owned(folded), shifts }
}

impl TypographyFold<'_> {
    pub(super) fn is_changed(&self) -> bool {
        !self.shifts.is_empty()
    }

    /// Returns the original range of a range of the folded text.
    pub(super) fn original_range(&self, range: &Range<usize>) -> Range<usize> {
        self.offset(range.start)..self.offset(range.end)
    }

    fn offset(&self, offset: usize) -> usize {
        let before = self.shifts.partition_point(|(at, _)| *at < offset);
        offset + before.checked_sub(1).map_or(0, |index| self.shifts[index].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folded_range_leads_back_to_its_original() {
        let text = "a \u{201C}b\u{201D} \u{2014}\u{A0}é ‘c’";
        let folded = fold(text);
        assert_eq!(folded.text, "a \"b\" - é 'c'");
        for (part, original) in [("\"b\"", "\u{201C}b\u{201D}"), ("- é", "\u{2014}\u{A0}é"), ("c", "c"), ("a", "a")] {
            let at = folded.text.find(part).unwrap();
            assert_eq!(&text[folded.original_range(&(at..at + part.len()))], original);
        }
        assert!(!fold("plain é").is_changed());
    }
}
