//! What the screen looks like to a terminal, and that every finished line is in it exactly once.

use std::num::NonZeroU16;

use super::*;
use crate::theme::{ColorDepth, ScreenBackground};

const THEME: ColorTheme = ColorTheme { background: ScreenBackground::Dark, depth: ColorDepth::None };

fn nonzero(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

struct TestTerminal {
    screen: InlineScreen,
    terminal: vt100::Parser,
    columns: u16,
    bytes: usize,
}

impl TestTerminal {
    fn new(rows: u16, columns: u16) -> Self {
        let size = ScreenSize::new(columns.into(), rows.into());
        let screen = InlineScreen::new(size, THEME, RowCharset::Unicode, ResizeBehavior::Cuts);
        Self { screen, terminal: Self::terminal(rows, columns), columns, bytes: 0 }
    }

    fn terminal(rows: u16, columns: u16) -> vt100::Parser {
        vt100::Parser::new(nonzero(rows), nonzero(columns), 10_000)
    }

    fn draw(&mut self, finished: &[&str], live: &[&str]) {
        let cursor = live.len().checked_sub(1).map(|row| CursorPlace { row, column: 1 });
        self.draw_at(finished, live, cursor);
    }

    fn draw_at(&mut self, finished: &[&str], live: &[&str], cursor: Option<CursorPlace>) {
        let lines = |texts: &[&str]| texts.iter().map(|text| StyledLine::plain(*text)).collect::<Vec<_>>();
        let bytes = self.screen.draw(&lines(finished), &lines(live), cursor);
        self.feed(&bytes);
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.terminal.process(bytes);
    }

    /// Returns the scrollback and the screen, without blank rows at the end.
    fn everything(&mut self) -> Vec<String> {
        let columns = self.columns;
        self.terminal.screen_mut().set_scrollback(usize::MAX);
        let above = self.terminal.screen().scrollback();
        let mut rows = Vec::new();
        for offset in (1..=above).rev() {
            self.terminal.screen_mut().set_scrollback(offset);
            rows.extend(self.terminal.screen().rows(0, columns).next());
        }
        self.terminal.screen_mut().set_scrollback(0);
        rows.extend(self.terminal.screen().rows(0, columns));
        while rows.last().is_some_and(|row| row.trim().is_empty()) {
            rows.pop();
        }
        rows
    }
}

#[test]
fn finished_lines_go_above_a_region_that_stays() {
    let mut test = TestTerminal::new(6, 20);
    test.draw(&[], &["----", "> a", "footer"]);
    test.draw(&["one", "two"], &["----", "> ab", "footer"]);
    assert_eq!(test.everything(), ["one", "two", "----", "> ab", "footer"]);
    assert_eq!(test.terminal.screen().cursor_position(), (4, 1));
    test.draw(&["three", "four", "five"], &["----", "> ab", "footer"]);
    assert_eq!(test.everything(), ["one", "two", "three", "four", "five", "----", "> ab", "footer"]);
    let before = test.bytes;
    test.draw(&[], &["----", "> ab", "footer"]);
    assert_eq!(test.bytes, before, "nothing changed, so nothing is written");
}

#[test]
fn a_region_grows_and_shrinks_without_traces() {
    let mut test = TestTerminal::new(6, 20);
    test.draw(&["a", "b", "c"], &["1"]);
    test.draw(&[], &["1", "2", "3", "4"]);
    assert_eq!(test.everything(), ["a", "b", "c", "1", "2", "3", "4"]);
    test.draw(&[], &["9"]);
    assert_eq!(test.everything(), ["a", "b", "c", "9"]);
    test.draw(&["d", "e"], &["9", "8"]);
    assert_eq!(test.everything(), ["a", "b", "c", "d", "e", "9", "8"]);
    let bytes = test.screen.erase_live();
    test.feed(&bytes);
    assert_eq!(test.everything(), ["a", "b", "c", "d", "e"]);
    assert_eq!(test.terminal.screen().cursor_position().1, 0);
}

#[test]
fn every_finished_line_is_in_the_scrollback_once() {
    let mut test = TestTerminal::new(10, 30);
    let mut expected = Vec::new();
    let mut next = 0;
    for step in 0..400_usize {
        let count = [0, 1, 2, 5, 8, 13, 40][step * 7919 % 7];
        let finished: Vec<String> = (0..count)
            .map(|_| {
                next += 1;
                format!("line {next}")
            })
            .collect();
        expected.extend(finished.iter().cloned());
        let live: Vec<String> = (0..1 + step * 31 % 9).map(|row| format!("live {step} {row}")).collect();
        let texts: Vec<&str> = finished.iter().map(String::as_str).collect();
        let live_texts: Vec<&str> = live.iter().map(String::as_str).collect();
        test.draw_at(&texts, &live_texts, Some(CursorPlace { row: step % live.len(), column: 3 }));
        if step % 20 == 0 {
            let wanted: Vec<String> = expected.iter().chain(&live).cloned().collect();
            assert_eq!(test.everything(), wanted, "at step {step}");
        }
    }
}

#[test]
fn full_rows_and_rows_of_any_length_are_kept_whole() {
    let mut test = TestTerminal::new(5, 8);
    test.draw(&[], &["12345678", "> x"]);
    test.draw(&["abcdefgh", "abcdefghij", "x"], &["12345678", "> x"]);
    assert_eq!(test.everything(), ["abcdefgh", "abcdefgh", "ij", "x", "12345678", "> x"]);
    test.draw(&["full 678", "end"], &["87654321", "> 1", "12345678"]);
    let all = test.everything();
    assert_eq!(all[4..], ["full 678", "end", "87654321", "> 1", "12345678"]);
}

#[test]
fn a_region_higher_than_the_screen_shows_its_end() {
    let mut test = TestTerminal::new(3, 10);
    test.draw(&["gone"], &["1", "2", "3", "4", "5"]);
    assert_eq!(test.everything(), ["gone", "3", "4", "5"]);
    test.draw(&["new"], &["1", "2", "3", "4", "6"]);
    assert_eq!(test.everything(), ["gone", "new", "3", "4", "6"].map(str::to_owned)[..].to_vec());
}

#[test]
fn a_narrower_terminal_gets_a_new_region_and_keeps_what_is_finished() {
    let mut test = TestTerminal::new(6, 20);
    test.draw(&["kept"], &["--------------------", "> typed", "footer"]);
    test.terminal.screen_mut().set_size(nonzero(6), nonzero(10));
    test.columns = 10;
    test.screen.resize(ScreenSize::new(10, 6));
    test.draw(&[], &["----------", "> typed", "foot"]);
    assert_eq!(test.everything(), ["kept", "----------", "> typed", "foot"]);
}

#[test]
fn clearing_moves_everything_into_the_scrollback() {
    let mut test = TestTerminal::new(5, 20);
    test.draw(&["old 1", "old 2"], &["> x"]);
    let bytes = test.screen.scroll_away();
    test.feed(&bytes);
    test.draw(&[], &["> new"]);
    let visible: Vec<String> = test.terminal.screen().rows(0, 20).collect();
    assert_eq!(visible[0], "> new");
    assert!(test.everything().starts_with(&["old 1".to_owned(), "old 2".to_owned()]));
}
