//! Lines of text with their meaning, the one form in which content is rendered before it reaches the screen.

/// Meaning of a span of text. A theme decides what it looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TextTone {
    /// The terminal's own foreground.
    #[default]
    Text,
    /// Secondary text: details, hints, borders.
    Dim,
    /// The one accent: marks, the selected row, the name of a tool.
    Accent,
    /// What the user wrote.
    Prompt,
    Heading,
    /// Code inside a sentence.
    Code,
    Link,
    Quote,
    /// Needs the user's attention.
    Warn,
    /// Failed or refused.
    Error,
    /// Succeeded.
    Success,
    /// Added line of a diff, and the words in it that are new.
    Added,
    AddedWord,
    /// Removed line of a diff, and the words in it that are gone.
    Removed,
    RemovedWord,
    /// Parts of highlighted code.
    Keyword,
    Literal,
    Number,
    Comment,
    TypeName,
    FunctionName,
}

/// Side of a diff that a line belongs to. Highlighted code keeps its colours on it, where the screen has enough of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DiffGround {
    #[default]
    None,
    Added,
    Removed,
}

/// Look of a span: its meaning and marks of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TextStyle {
    pub tone: TextTone,
    pub bold: bool,
    pub italic: bool,
    pub underline: bool,
    pub strike: bool,
    /// Foreground and background exchanged: a selection.
    pub reverse: bool,
    pub ground: DiffGround,
}

impl TextStyle {
    pub const fn of(tone: TextTone) -> Self {
        Self {
            tone,
            bold: false,
            italic: false,
            underline: false,
            strike: false,
            reverse: false,
            ground: DiffGround::None,
        }
    }

    pub const fn bold(mut self) -> Self {
        self.bold = true;
        self
    }

    pub const fn italic(mut self) -> Self {
        self.italic = true;
        self
    }

    pub const fn underline(mut self) -> Self {
        self.underline = true;
        self
    }

    pub const fn strike(mut self) -> Self {
        self.strike = true;
        self
    }

    pub const fn reverse(mut self) -> Self {
        self.reverse = true;
        self
    }

    pub const fn on(mut self, ground: DiffGround) -> Self {
        self.ground = ground;
        self
    }
}

impl From<TextTone> for TextStyle {
    fn from(tone: TextTone) -> Self {
        TextStyle::of(tone)
    }
}

/// Text of one style, without line breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StyledSpan {
    pub text: String,
    pub style: TextStyle,
}

impl StyledSpan {
    pub fn new(text: impl Into<String>, style: impl Into<TextStyle>) -> Self {
        Self { text: text.into(), style: style.into() }
    }
}

/// One line of spans. Longer than the screen it is wrapped, the continuation indented by `hang` columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StyledLine {
    pub spans: Vec<StyledSpan>,
    pub hang: usize,
}

impl StyledLine {
    /// Creates a line without text.
    pub fn blank() -> Self {
        Self::default()
    }

    /// Creates a line of one span.
    pub fn of(text: impl Into<String>, style: impl Into<TextStyle>) -> Self {
        Self { spans: vec![StyledSpan::new(text, style)], hang: 0 }
    }

    /// Creates a line of ordinary text.
    pub fn plain(text: impl Into<String>) -> Self {
        Self::of(text, TextTone::Text)
    }

    /// Adds a span; one of the style of the last span joins it.
    pub fn push(&mut self, text: impl AsRef<str>, style: impl Into<TextStyle>) {
        let (text, style) = (text.as_ref(), style.into());
        match self.spans.last_mut() {
            Some(last) if last.style == style => last.text.push_str(text),
            _ if text.is_empty() => {}
            _ => self.spans.push(StyledSpan::new(text, style)),
        }
    }

    /// Adds a span to a line that is being built.
    #[must_use]
    pub fn with(mut self, text: impl AsRef<str>, style: impl Into<TextStyle>) -> Self {
        self.push(text, style);
        self
    }

    /// Sets the indentation of the continuation.
    #[must_use]
    pub fn hanging(mut self, columns: usize) -> Self {
        self.hang = columns;
        self
    }

    /// Returns the text of all spans.
    pub fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }

    pub fn is_blank(&self) -> bool {
        self.spans.iter().all(|span| span.text.trim().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_one_style_join() {
        let line = StyledLine::plain("a").with("b", TextTone::Text).with("", TextTone::Dim).with("c", TextTone::Dim);
        assert_eq!(line.spans, [StyledSpan::new("ab", TextTone::Text), StyledSpan::new("c", TextTone::Dim)]);
        assert_eq!(line.text(), "abc");
        assert!(StyledLine::plain("  ").is_blank() && StyledLine::blank().is_blank());
    }
}
