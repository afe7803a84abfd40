use gimlet_text::InvisibleChar;
use proptest::prelude::*;

use super::*;
use crate::styled_line::TextTone;

fn rows(text: &str, width: usize, rule: BreakRule) -> Vec<&str> {
    wrap_ranges(text, width, width, rule).into_iter().map(|range| &text[range]).collect()
}

#[test]
fn width_counts_what_is_seen() {
    for (text, width) in [
        ("", 0),
        ("plain", 5),
        ("日本", 4),
        ("e\u{301}", 1),
        ("👩\u{200d}💻", 2),
        ("👨\u{200d}👩\u{200d}👧\u{200d}👦!", 3),
        ("🇩🇪🇫🇷", 4),
        ("❤\u{fe0f}", 2),
        ("1\u{fe0f}\u{20e3}", 2),
        ("ｶﾞ", 2),
        ("한글", 4),
        ("naïve", 5),
    ] {
        assert_eq!(display_width(text), width, "{text:?}");
    }
}

#[test]
fn prose_breaks_at_words_and_long_words_go_on() {
    assert_eq!(rows("the quick brown fox", 10, BreakRule::Words), ["the quick", "brown fox"]);
    assert_eq!(rows("a abcdefghijklmno z", 6, BreakRule::Words), ["a", "abcdef", "ghijkl", "mno z"]);
    assert_eq!(rows("    indented text here", 12, BreakRule::Words), ["    indented", "text here"]);
    assert_eq!(rows("two  spaces", 5, BreakRule::Words), ["two", "space", "s"]);
    assert_eq!(rows("exactly", 7, BreakRule::Words), ["exactly"]);
    assert_eq!(rows("", 7, BreakRule::Words), [""]);
    assert_eq!(rows("space \u{301}with a mark", 6, BreakRule::Words), ["space \u{301}", "with a", "mark"]);
}

#[test]
fn scripts_without_spaces_break_between_characters_but_not_before_a_full_stop() {
    assert_eq!(rows("日本語の文章。終", 6, BreakRule::Words), ["日本語", "の文", "章。終"]);
    assert_eq!(rows("abc日本", 4, BreakRule::Words), ["abc", "日本"]);
}

#[test]
fn code_breaks_at_cells() {
    assert_eq!(rows("let x = 日本;", 5, BreakRule::Cells), ["let x", " = 日", "本;"]);
    assert_eq!(rows("日本", 1, BreakRule::Cells), ["日", "本"]);
}

#[test]
fn a_wrapped_line_keeps_its_styles_and_hangs() {
    let line = StyledLine::of("• ", TextTone::Dim)
        .with("one two ", TextTone::Text)
        .with("three four", TextTone::Code)
        .hanging(2);
    let rows = wrap_line(&line, 10, BreakRule::Words);
    let shown: Vec<String> = rows.iter().map(StyledLine::text).collect();
    assert_eq!(shown, ["• one two", "  three", "  four"]);
    assert_eq!(rows[1].spans.last().unwrap().style.tone, TextTone::Code);
}

#[test]
fn cutting_leaves_room_for_the_mark() {
    assert_eq!(truncate_end("abcdef", 6), "abcdef");
    assert_eq!(truncate_end("abcdefg", 6), "abcde…");
    assert_eq!(truncate_end("日本語", 4), "日…");
    assert_eq!(truncate_end("abc", 0), "");
    assert_eq!(truncate_start("/home/me/src/main.rs", 11), "…rc/main.rs");
    let line = StyledLine::plain("ab").with("cdef", TextTone::Code);
    assert_eq!(truncate_line(&line, 4).text(), "abc…");
    assert_eq!(truncate_line(&line, 6), line);
    assert_eq!(truncate_line(&line, 0).text(), "");
}

#[test]
fn hostile_text_becomes_visible_or_goes() {
    for (given, wanted) in [
        ("plain\ntext", "plain\ntext"),
        ("a\tb\tc", "a   b   c"),
        ("日\tx", "日  x"),
        ("\u{1b}[2J\u{1b}]0;title\u{7}ok", "ok"),
        ("\u{1b}]52;c;aGk=\u{1b}\\ok\u{9b}31m!", "ok!"),
        ("pay\u{202e}txt", "pay<U+202E>txt"),
        ("zero\u{200b}width\u{feff}", "zero<U+200B>width<U+FEFF>"),
        ("rm\u{200d}x soft\u{ad}", "rm<U+200D>x soft<U+00AD>"),
        (
            "👩\u{200d}💻 ❤\u{fe0f} 1\u{fe0f}\u{20e3} می\u{200c}خواهم",
            "👩\u{200d}💻 ❤\u{fe0f} 1\u{fe0f}\u{20e3} می\u{200c}خواهم",
        ),
        ("line\u{2028}sep", "line<U+2028>sep"),
        ("x\u{e0041}", "x<U+E0041>"),
        ("\u{7f}\u{0}del", "del"),
    ] {
        assert_eq!(clean_text(given), wanted, "{given:?}");
    }
    assert_eq!(clean_line("two\nlines\n"), "two␊lines");
    let piled = format!("a{}b", "\u{301}".repeat(1000));
    assert!(clean_text(&piled).chars().count() < 20);
}

#[test]
fn very_long_lines_are_read_once() {
    // A step that is repeated for each character would take minutes here.
    let words = "word ".repeat(250_000);
    assert_eq!(rows(&words, 80, BreakRule::Words).len(), 15_625);
    let long = "x".repeat(1_250_000);
    assert_eq!(rows(&long, 100, BreakRule::Words).len(), 12_500);
    assert_eq!(truncate_end(&long, 10).chars().count(), 10);
    let mut line = StyledLine::blank();
    for index in 0..100_000 {
        line.push("ab ", if index % 2 == 0 { TextTone::Text } else { TextTone::Code });
    }
    assert_eq!(wrap_line(&line, 30, BreakRule::Words).len(), 10_000);
}

fn any_text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => "[a-z]{1,12}",
        3 => " {1,3}",
        1 => "[\u{3041}-\u{3060}。、]{1,5}",
        1 => Just("👩\u{200d}💻".to_owned()),
        1 => Just("e\u{301}".to_owned()),
        1 => Just("🇩🇪".to_owned()),
        1 => Just("\t".to_owned()),
        1 => "\\PC{0,4}",
        1 => any::<char>().prop_map(String::from),
        1 => Just("\u{1b}[31m\u{202e}\u{200b}".to_owned()),
    ];
    proptest::collection::vec(part, 0..30).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cleaned_text_holds_nothing_that_acts_or_hides(text in any_text()) {
        let clean = clean_text(&text);
        for char in clean.chars() {
            prop_assert!(char == '\n' || !char.is_control(), "{char:?}");
            let class = InvisibleChar::classify(char);
            prop_assert!(!matches!(class, Some(InvisibleChar::Direction | InvisibleChar::Tag)), "{char:?}");
        }
        let again = clean_text(&clean);
        prop_assert_eq!(again.as_ref(), clean.as_ref());
    }

    #[test]
    fn wrapping_keeps_every_character_and_the_width(text in any_text(), width in 2_usize..30) {
        let line = clean_line(&text).into_owned();
        let cells = rows(&line, width, BreakRule::Cells);
        prop_assert_eq!(cells.concat(), line.clone());
        let words = rows(&line, width, BreakRule::Words);
        prop_assert_eq!(words.concat().replace(' ', ""), line.replace(' ', ""));
        for row in cells.iter().chain(&words) {
            let shown = TextCells::new(row).map(|cell| cell.width).sum::<usize>();
            prop_assert!(shown <= width, "{row:?}");
        }
        let cut = truncate_end(&line, width);
        prop_assert!(display_width(&cut) <= width);
        prop_assert!(display_width(&truncate_start(&line, width)) <= width);
    }
}
