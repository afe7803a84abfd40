//! Terminal output as a reader would see it: colours gone, overwritten text gone, bytes that are no text replaced.
//!
//! Pure. One line is replayed at a time on an endless row of cells, which is all that progress bars and spinners need;
//! movement between lines is ignored, because what was printed matters more than where.

/// Returns the text as displayed on a terminal, without blank lines at either end.
pub fn render_for_model(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let mut page = TerminalPage { done: String::with_capacity(text.len()), row: Vec::new(), cursor: 0 };
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' => page.end_line(),
            '\r' => page.cursor = 0,
            '\u{8}' => page.cursor = page.cursor.saturating_sub(1),
            '\u{1b}' => handle_escape(&mut chars, &mut page),
            '\u{9b}' => handle_control_sequence(&mut chars, &mut page),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => skip_control_string(&mut chars),
            '\t' => page.put(c),
            c if c.is_control() => {}
            c => page.put(c),
        }
    }
    page.finish()
}

/// The finished lines and the one that is being written.
struct TerminalPage {
    done: String,
    row: Vec<char>,
    cursor: usize,
}

impl TerminalPage {
    fn put(&mut self, c: char) {
        match self.row.get_mut(self.cursor) {
            Some(cell) => *cell = c,
            None => self.row.push(c),
        }
        self.cursor += 1;
    }

    fn end_line(&mut self) {
        self.done.extend(self.row.drain(..));
        self.done.push('\n');
        self.cursor = 0;
    }

    /// Handles `ESC [ K` by its parameter: erases to the end of the row, to its start, or all of it.
    fn erase(&mut self, which: u32) {
        match which {
            0 => self.row.truncate(self.cursor),
            1 => self.row.iter_mut().take(self.cursor + 1).for_each(|cell| *cell = ' '),
            // A terminal keeps the cursor's column; here the next text begins a new row.
            _ => {
                self.row.clear();
                self.cursor = 0;
            }
        }
    }

    fn finish(mut self) -> String {
        self.end_line();
        let is_blank = |line: &&str| line.trim().is_empty();
        let lines: Vec<&str> = self.done.lines().collect();
        let start = lines.iter().take_while(|line| is_blank(line)).count();
        let end = lines.len() - lines.iter().rev().take_while(|line| is_blank(line)).count();
        lines.get(start..end).map(|lines| lines.join("\n")).unwrap_or_default()
    }
}

type OutputChars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Handles the sequence after an escape character.
fn handle_escape(chars: &mut OutputChars<'_>, page: &mut TerminalPage) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            handle_control_sequence(chars, page);
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            chars.next();
            skip_control_string(chars);
        }
        // Intermediate characters, then one final one: character sets, keypad modes and the like.
        Some(' '..='~') => {
            while chars.next_if(|c| (' '..='/').contains(c)).is_some() {}
            chars.next_if(|c| ('0'..='~').contains(c));
        }
        _ => {}
    }
}

/// Handles parameters and one final character; only erasing in the line has an effect here.
fn handle_control_sequence(chars: &mut OutputChars<'_>, page: &mut TerminalPage) {
    let mut number = 0u32;
    while let Some(c) = chars.next_if(|c| (' '..='?').contains(c)) {
        if let Some(digit) = c.to_digit(10) {
            number = number.saturating_mul(10).saturating_add(digit);
        }
    }
    if chars.next_if(|c| ('@'..='~').contains(c)) == Some('K') {
        page.erase(number);
    }
}

/// Skips titles, hyperlinks and other strings up to their terminator. An unfinished one ends with its line, so that a
/// truncated sequence cannot hide what follows.
fn skip_control_string(chars: &mut OutputChars<'_>) {
    while let Some(c) = chars.next_if(|c| *c != '\n') {
        match c {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' if chars.next_if_eq(&'\\').is_some() => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn colours_titles_and_links_are_gone() {
        assert_eq!(render_for_model(b"\x1b[1;31merror\x1b[0m: no"), "error: no");
        assert_eq!(render_for_model(b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\"), "alink");
        assert_eq!(render_for_model(b"\x1b(Bplain\x1b=\x1b[?25l"), "plain");
        assert_eq!(render_for_model("\u{9b}31mred".as_bytes()), "red");
    }

    #[test]
    fn a_progress_bar_leaves_only_its_last_state() {
        assert_eq!(render_for_model(b"10%\r50%\r100%\ndone\r\n"), "100%\ndone");
        assert_eq!(render_for_model(b"Downloading...\r\x1b[KOK"), "OK");
        assert_eq!(render_for_model(b"Downloading...\x1b[2KOK"), "OK");
        assert_eq!(render_for_model(b"longer line\rshort"), "shortr line");
        assert_eq!(render_for_model(b"a\x08bold"), "bold");
    }

    #[test]
    fn windows_line_ends_and_blank_borders_go_and_inner_blank_lines_stay() {
        assert_eq!(render_for_model(b"\n  \r\n a\r\n\r\nb  \n\n"), " a\n\nb  ");
        assert_eq!(render_for_model(b""), "");
        assert_eq!(render_for_model(b"\n\n"), "");
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(render_for_model(b"a\xff\xfeb\0c"), "a\u{fffd}\u{fffd}bc");
    }

    #[test]
    fn an_unfinished_title_hides_only_its_own_line() {
        assert_eq!(render_for_model(b"a\x1b]0;never ends\nb"), "a\nb");
    }

    proptest! {
        #[test]
        fn any_bytes_give_text_without_controls(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let text = render_for_model(&bytes);
            prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
        }

        #[test]
        fn any_mix_of_sequences_gives_text_without_escapes(
            pieces in prop::collection::vec("(\u{1b}[\\[\\]P(]?|[0-9;?]{0,3}|[a-zA-Z]|\r|\n|\u{8}|\u{7}|\u{9b}|\u{9d})", 0..60)
        ) {
            let text = render_for_model(pieces.concat().as_bytes());
            let left = text.contains(['\u{1b}', '\u{9b}', '\r', '\u{7}']);
            prop_assert!(!left, "{text:?}");
        }

        #[test]
        fn plain_text_stays_as_it_is(text in "[a-zA-Z0-9 .,äé漢]{1,40}(\n[a-z]{1,9}){0,3}") {
            prop_assume!(!text.lines().next().unwrap_or_default().trim().is_empty());
            prop_assert_eq!(render_for_model(text.as_bytes()), text);
        }
    }
}
