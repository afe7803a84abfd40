//! Characters that users do not see, or that change how others are displayed: the one table of them, by class.
//!
//! The caller decides how to handle a character; this module only classifies it.

/// Reason why a character is not displayed as what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvisibleChar {
    /// A control character, line feed and tab among them.
    Control,
    /// Changes the order in which other characters are shown.
    Direction,
    /// Displayed like a space, but not one.
    Blank,
    /// Has no width, or changes the look of its neighbour.
    ZeroWidth,
    /// Carries text that is never shown: tags, variants beyond the first sixteen, and their empty neighbours.
    Tag,
}

impl InvisibleChar {
    /// Returns the class of a character; `None` for visible ones, the plain space included.
    pub fn classify(char: char) -> Option<Self> {
        match char {
            ' '..='~' => None,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                Some(InvisibleChar::Direction)
            }
            // Fillers of Hangul and the empty pattern of Braille are letters and symbols by name only.
            '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}' => Some(InvisibleChar::Blank),
            '\u{ad}'
            | '\u{34f}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200d}'
            | '\u{2060}'..='\u{2065}'
            | '\u{206a}'..='\u{206f}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{1d173}'..='\u{1d17a}' => Some(InvisibleChar::ZeroWidth),
            '\u{e0000}'..='\u{e0fff}' => Some(InvisibleChar::Tag),
            _ if char.is_control() => Some(InvisibleChar::Control),
            _ if char.is_whitespace() => Some(InvisibleChar::Blank),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::InvisibleChar;

    #[test]
    fn every_class_has_its_characters_from_the_first_to_the_last() {
        for (class, characters) in [
            (None, " a~é日\u{10ffff}😀\u{180a}\u{2070}\u{e1000}"),
            (Some(InvisibleChar::Control), "\u{0}\t\n\r\u{1b}\u{7f}\u{85}\u{9f}"),
            (Some(InvisibleChar::Direction), "\u{61c}\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}"),
            (
                Some(InvisibleChar::Blank),
                "\u{a0}\u{1680}\u{2000}\u{2028}\u{2029}\u{202f}\u{205f}\u{2800}\u{3000}\u{3164}",
            ),
            (
                Some(InvisibleChar::ZeroWidth),
                "\u{ad}\u{180b}\u{180f}\u{200b}\u{200d}\u{2060}\u{206f}\u{fe0f}\u{feff}\u{1d173}",
            ),
            (Some(InvisibleChar::Tag), "\u{e0000}\u{e0041}\u{e007f}\u{e0080}\u{e0100}\u{e01ef}\u{e0fff}"),
        ] {
            for char in characters.chars() {
                assert_eq!(InvisibleChar::classify(char), class, "{char:?}");
            }
        }
    }
}
