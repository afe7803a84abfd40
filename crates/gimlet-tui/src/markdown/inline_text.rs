//! Text inside a block: emphasis, code, links. Everything that pulldown-cmark makes of it is cleaned once more, because
//! an entity can stand for any character.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, TextMergeStream};

use super::line_kind::{is_thematic_break, parse_fence, parse_heading, parse_list_marker, parse_underline};
use crate::styled_line::{StyledLine, TextStyle, TextTone};
use crate::text_width::clean_line;

/// Rendered text of a block: one line for each line of the source.
#[derive(Debug)]
pub(super) struct InlineText {
    pub(super) lines: Vec<StyledLine>,
    /// True if no text that follows can change what these lines look like.
    pub(super) is_settled: bool,
}

/// Renders lines of text that belong to one block, on top of a style.
pub(super) fn render_inline(text: &str, base: TextStyle) -> InlineText {
    let source = escape_block_starts(text);
    let mut writer = InlineWriter {
        lines: vec![StyledLine::blank()],
        base,
        bold: 0,
        italic: 0,
        strike: 0,
        links: Vec::new(),
        open_brackets: 0,
        is_settled: true,
    };
    for event in TextMergeStream::new(Parser::new_ext(&source, Options::ENABLE_STRIKETHROUGH)) {
        writer.take_event(event);
    }
    writer.is_settled &= writer.open_brackets <= 0;
    InlineText { lines: writer.lines, is_settled: writer.is_settled }
}

/// Link or image under way.
struct OpenLink {
    address: String,
    text: String,
    is_image: bool,
}

struct InlineWriter {
    lines: Vec<StyledLine>,
    base: TextStyle,
    bold: usize,
    italic: usize,
    strike: usize,
    links: Vec<OpenLink>,
    /// Brackets of the literal text that no other one closes.
    open_brackets: i64,
    is_settled: bool,
}

impl InlineWriter {
    fn style(&self) -> TextStyle {
        let mut style = self.base;
        style.bold |= self.bold > 0;
        style.italic |= self.italic > 0;
        style.strike |= self.strike > 0;
        if !self.links.is_empty() && style.tone == TextTone::Text {
            style.tone = TextTone::Link;
        }
        style
    }

    fn push(&mut self, text: &str, style: TextStyle) {
        for link in &mut self.links {
            link.text.push_str(text);
        }
        if let Some(line) = self.lines.last_mut() {
            line.push(clean_line(text), style);
        }
    }

    fn push_line_break(&mut self) {
        self.lines.push(StyledLine::blank());
    }

    fn push_literal(&mut self, text: &str) {
        for (index, line) in text.trim_end_matches('\n').split('\n').enumerate() {
            if index > 0 {
                self.push_line_break();
            }
            self.push(line, TextStyle::of(TextTone::Dim));
        }
        if text.ends_with('\n') {
            self.push_line_break();
        }
    }

    fn take_event(&mut self, event: Event<'_>) {
        match event {
            Event::Text(text) => {
                self.note_open_marks(&text);
                let style = self.style();
                self.push(&text, style);
            }
            Event::Code(code) => {
                let style = TextStyle { tone: TextTone::Code, ..self.style() };
                self.push(&code, style);
            }
            Event::Html(html) | Event::InlineHtml(html) => self.push_literal(&html),
            Event::SoftBreak | Event::HardBreak => self.push_line_break(),
            Event::Start(tag) => self.open_tag(tag),
            Event::End(tag) => self.close_tag(tag),
            Event::Rule => self.push("---", self.base),
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                let style = self.style();
                self.push(&text, style);
            }
            Event::TaskListMarker(_) => {}
        }
    }

    fn open_tag(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Emphasis => self.italic += 1,
            Tag::Strong => self.bold += 1,
            Tag::Strikethrough => self.strike += 1,
            Tag::Link { dest_url, .. } => {
                self.links.push(OpenLink { address: dest_url.into_string(), text: String::new(), is_image: false });
            }
            Tag::Image { dest_url, .. } => {
                self.push("[image: ", TextStyle::of(TextTone::Dim));
                self.links.push(OpenLink { address: dest_url.into_string(), text: String::new(), is_image: true });
            }
            Tag::Paragraph if self.lines.last().is_some_and(|line| !line.spans.is_empty()) => self.push_line_break(),
            // Every line was kept from beginning a block of its own.
            _ => {}
        }
    }

    fn close_tag(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Emphasis => self.italic = self.italic.saturating_sub(1),
            TagEnd::Strong => self.bold = self.bold.saturating_sub(1),
            TagEnd::Strikethrough => self.strike = self.strike.saturating_sub(1),
            TagEnd::Link | TagEnd::Image => {
                let Some(link) = self.links.pop() else { return };
                let dim = TextStyle::of(TextTone::Dim);
                if link.is_image {
                    self.push("]", dim);
                }
                if link.is_address_worth_showing() {
                    self.push(&format!(" ({})", link.address), dim);
                }
            }
            _ => {}
        }
    }

    /// Notes marks in literal text that later text could close.
    fn note_open_marks(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let is_word =
            |index: Option<usize>| index.and_then(|index| bytes.get(index)).is_some_and(u8::is_ascii_alphanumeric);
        let is_space = |index: usize| bytes.get(index).is_none_or(u8::is_ascii_whitespace);
        for (index, byte) in bytes.iter().enumerate() {
            match byte {
                b'`' => self.is_settled = false,
                b'*' | b'~' => self.is_settled &= is_space(index + 1) && index + 1 < bytes.len(),
                b'_' => self.is_settled &= is_word(index.checked_sub(1)) && is_word(Some(index + 1)),
                b'<' => self.is_settled &= is_space(index + 1) && index + 1 < bytes.len(),
                b'[' => self.open_brackets += 1,
                b']' => self.open_brackets = (self.open_brackets - 1).max(0),
                _ => {}
            }
        }
    }
}

impl OpenLink {
    fn is_address_worth_showing(&self) -> bool {
        let address = self.address.strip_prefix("mailto:").unwrap_or(&self.address);
        !address.is_empty() && !address.starts_with('#') && address != self.text
    }
}

/// Keeps each line from beginning a block of its own: that was decided before.
fn escape_block_starts(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let line = line.trim();
        let at = escape_position(line);
        let (start, rest) = line.split_at(at.unwrap_or(0));
        out.push_str(start);
        if at.is_some() {
            out.push('\\');
        }
        out.push_str(rest);
    }
    out
}

/// Returns where a backslash keeps the line from beginning a block.
fn escape_position(line: &str) -> Option<usize> {
    match line.bytes().next()? {
        b'#' => parse_heading(line).map(|_| 0),
        b'>' => Some(0),
        b'-' | b'+' | b'*' | b'_' | b'=' => {
            let begins =
                parse_list_marker(line).is_some() || is_thematic_break(line) || parse_underline(line).is_some();
            if begins { Some(0) } else { None }
        }
        b'0'..=b'9' => parse_list_marker(line)?.number.map(|number| number.len() - 1),
        b'`' | b'~' => parse_fence(line).map(|_| 0),
        b'[' => {
            if line.contains("]:") {
                Some(0)
            } else {
                None
            }
        }
        b'<' => {
            let tag = line.get(1..)?;
            let end = tag.find(|char: char| !char.is_ascii_alphanumeric()).unwrap_or(tag.len());
            // An address in angle brackets is a link.
            let is_address = end > 0 && matches!(tag.as_bytes().get(end), Some(b':' | b'@' | b'.' | b'+' | b'-'));
            if is_address { None } else { Some(0) }
        }
        _ => None,
    }
}

/// Closes the marks that are open at the end of a text which still grows, so that it looks as it will.
pub(super) fn close_open_marks(text: &mut String) {
    let kept = text.trim_end_matches(['*', '_', '`', '~']).len();
    let mut open: Vec<&'static str> = Vec::new();
    let mut code_run = 0;
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < kept {
        let byte = bytes[at];
        let run = bytes[at..].iter().take_while(|other| **other == byte).count();
        match byte {
            b'\\' if code_run == 0 => at += 2,
            b'`' => {
                code_run = match code_run {
                    0 => run,
                    open if open == run => 0,
                    open => open,
                };
                at += run;
            }
            b'*' | b'~' if code_run == 0 => {
                let mark = match (byte, run) {
                    (b'*', 1) => "*",
                    (b'*', 2) => "**",
                    (b'*', _) => "***",
                    (_, 2) => "~~",
                    _ => "",
                };
                let opens = bytes.get(at + run).is_some_and(|next| !next.is_ascii_whitespace());
                if open.last() == Some(&mark) {
                    open.pop();
                } else if opens && !mark.is_empty() {
                    open.push(mark);
                }
                at += run;
            }
            _ => at += 1,
        }
    }
    if code_run == 0 && open.is_empty() && !has_open_address(text) {
        return;
    }
    text.truncate(kept);
    if has_open_address(text) {
        text.push(')');
    }
    text.push_str(&"`".repeat(code_run));
    while let Some(mark) = open.pop() {
        text.push_str(mark);
    }
}

/// Returns true if the text ends inside the address of a link.
fn has_open_address(text: &str) -> bool {
    let Some((_, address)) = text.rsplit_once("](") else { return false };
    !address.contains([')', ' ', '\n'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::styled_line::StyledSpan;

    fn text(source: &str) -> Vec<String> {
        render_inline(source, TextStyle::default()).lines.iter().map(StyledLine::text).collect()
    }

    #[test]
    fn marks_become_styles_and_addresses_are_shown() {
        let rendered = render_inline("a *b* **c** `d` ~~e~~ [f](http://g)", TextStyle::default());
        let plain = TextStyle::default();
        let wanted = [
            StyledSpan::new("a ", plain),
            StyledSpan::new("b", plain.italic()),
            StyledSpan::new(" ", plain),
            StyledSpan::new("c", plain.bold()),
            StyledSpan::new(" ", plain),
            StyledSpan::new("d", TextTone::Code),
            StyledSpan::new(" ", plain),
            StyledSpan::new("e", plain.strike()),
            StyledSpan::new(" ", plain),
            StyledSpan::new("f", TextTone::Link),
            StyledSpan::new(" (http://g)", TextTone::Dim),
        ];
        assert_eq!(rendered.lines, [StyledLine { spans: wanted.to_vec(), hang: 0 }]);
        assert!(rendered.is_settled);
        assert_eq!(text("<https://a.b> and [https://a.b](https://a.b)"), ["https://a.b and https://a.b"]);
        assert_eq!(text("![alt](x.png)"), ["[image: alt] (x.png)"]);
    }

    #[test]
    fn lines_stay_lines_and_begin_nothing() {
        for source in ["# a", "- a", "2. a", "> a", "---", "===", "```", "~~~ x", "| a |", "* * *", "+ a", "[a]: b"] {
            assert_eq!(text(source), [source], "{source}");
            assert_eq!(text(&format!("text\n{source}\nmore")), ["text", source, "more"], "{source}");
        }
        assert_eq!(text("<div>\n**b** <br/>\n</div>"), ["<div>", "b <br/>", "</div>"]);
        assert_eq!(text("<!-- a\n\nb -->"), ["<!-- a", "b -->"]);
    }

    #[test]
    fn entities_bring_no_control_characters() {
        let shown = text("&#27;[31m &#x202e; &#10; &#x9b;2J &lt;b&gt;").join("");
        assert!(!shown.chars().any(char::is_control), "{shown:?}");
        assert!(shown.contains("<U+202E>") && shown.contains("<b>"), "{shown:?}");
    }

    #[test]
    fn open_marks_keep_text_unsettled() {
        for (source, is_settled) in [
            ("plain text", true),
            ("snake_case and 2 * 3 < 4", true),
            ("**done** `code` [a](b)", true),
            ("**open", false),
            ("an `open", false),
            ("an _open", false),
            ("an [open", false),
            ("array[0]", true),
            ("a <b", false),
            ("ends with *", false),
        ] {
            assert_eq!(render_inline(source, TextStyle::default()).is_settled, is_settled, "{source}");
        }
    }

    #[test]
    fn growing_text_looks_as_it_will() {
        for (source, wanted) in [
            ("**bo", "**bo**"),
            ("**bold*", "**bold**"),
            ("**bold** *it", "**bold** *it*"),
            ("`co", "`co`"),
            ("a [b](http://c", "a [b](http://c)"),
            ("2 * 3", "2 * 3"),
            ("done **x**", "done **x**"),
            ("~~a", "~~a~~"),
        ] {
            let mut text = source.to_owned();
            close_open_marks(&mut text);
            assert_eq!(text, wanted, "{source}");
        }
    }
}
