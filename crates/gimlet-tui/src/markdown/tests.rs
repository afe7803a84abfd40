use proptest::prelude::*;

use super::*;
use crate::glyphs::GlyphSet;
use crate::styled_line::TextTone;
use crate::text_width::line_width;
use crate::theme::{ColorDepth, ColorTheme, ScreenBackground};

const THEME: ColorTheme = ColorTheme { background: ScreenBackground::Dark, depth: ColorDepth::TrueColor };

fn context(width: usize) -> RenderContext<'static> {
    RenderContext { theme: &THEME, glyphs: &GlyphSet::UNICODE, width }
}

fn show(lines: &[StyledLine]) -> String {
    lines.iter().map(|line| line.text() + "\n").collect()
}

fn rendered(text: &str, width: usize) -> String {
    show(&render_markdown(text, &context(width)))
}

const SAMPLE: &str = r#"# Why the nested test fails

The parser counts **every** closing token, also those of `strings`. See
[the issue](https://example.com/issues/7) and *section 2*.

## What to change
1. Take `next_token()` instead of `next()`:
   ```rust
   while let Some(t) = it.next_token() {
       depth += usize::from(t.opens()); // only those
   }

   ```
2. Count only what opens
   - brackets
     that go on here
   - braces
     1. and deeper
10. A step with a number of two digits and a text that does not fit into one row of a narrow screen

> A quote with **emphasis**
> in two lines
>
> - and a list

- [x] read the code
- [ ] write a test

| Case | Result | Remark |
|:-----|-------:|:------:|
| empty | 0 | |
| nested `a|b` | 12 | a remark that is long enough to be wrapped where the screen is narrow |

---
<details>
<summary>Raw **html**</summary>
</details>

    indented code

![a picture](shot.png) and a bare https://example.com/x
Setext
======
The end
"#;

#[test]
fn every_kind_of_block_is_rendered() {
    insta::assert_snapshot!("sample_80", rendered(SAMPLE, 80));
    insta::assert_snapshot!("sample_40", rendered(SAMPLE, 40));
}

#[test]
fn ascii_screens_get_ascii() {
    let cx = RenderContext { glyphs: &GlyphSet::ASCII, ..context(80) };
    let text = show(&render_markdown(SAMPLE, &cx));
    assert!(text.is_ascii(), "{text}");
}

#[test]
fn code_is_coloured_and_prose_has_styles() {
    let lines = render_markdown("a **b** `c`\n```rust\nlet x = 1;\n```", &context(40));
    let tones: Vec<(String, TextTone, bool)> = lines
        .iter()
        .flat_map(|line| &line.spans)
        .map(|span| (span.text.clone(), span.style.tone, span.style.bold))
        .collect();
    let wanted = [
        ("a ", TextTone::Text, false),
        ("b", TextTone::Text, true),
        (" ", TextTone::Text, false),
        ("c", TextTone::Code, false),
        ("  ", TextTone::Text, false),
        ("let", TextTone::Keyword, false),
        (" x = ", TextTone::Text, false),
        ("1", TextTone::Number, false),
        (";", TextTone::Text, false),
    ];
    assert_eq!(tones, wanted.map(|(text, tone, bold)| (text.to_owned(), tone, bold)));
}

#[test]
fn lists_follow_the_source() {
    for (source, wanted) in [
        ("- a\n- b\n\n- c", "• a\n• b\n\n• c\n"),
        ("- a\n  - b\n    - c\n- d", "• a\n  • b\n    • c\n• d\n"),
        ("1. a\n  - b\n2. c", "1. a\n   • b\n2. c\n"),
        ("* a\n\n  more\n* b", "• a\n\n  more\n• b\n"),
        ("-\n- b", "•\n• b\n"),
        ("- a\nlazy", "• a\n  lazy\n"),
        ("text\n2. not a list", "text\n2. not a list\n"),
        ("- [ ] a\n- [x] b\n- [link](x)", "☐ a\n☒ b\n• link (x)\n"),
        ("- ```\n  code\n  ```\n- b", "•   code\n• b\n"),
        ("> - a\n> - b\n\nc", "▎ • a\n▎ • b\n\nc\n"),
        ("- > a\n  > b", "• ▎ a\n  ▎ b\n"),
        ("1) a\n2) b", "1) a\n2) b\n"),
    ] {
        assert_eq!(rendered(source, 40), wanted, "{source:?}");
    }
}

#[test]
fn blocks_are_set_apart_by_one_blank_row() {
    for (source, wanted) in [
        ("a\n\n\n\nb", "a\n\nb\n"),
        ("\n\na", "a\n"),
        ("# a\nb", "a\nb\n"),
        ("a\n# b", "a\n\nb\n"),
        ("a\n```\nb\n```\nc", "a\n\n  b\n\nc\n"),
        ("```\n\n\na\n\nb\n\n\n```", "  a\n\n  b\n"),
        ("```\nunclosed", "  unclosed\n"),
        ("a\n***\nb", "a\n\n──────────\n\nb\n"),
        ("> a\n\nb", "▎ a\n\nb\n"),
        ("> a\n>\n> b", "▎ a\n▎\n▎ b\n"),
        ("```\n```", ""),
        ("&nbsp;", "\u{a0}\n"),
    ] {
        assert_eq!(rendered(source, 10), wanted, "{source:?}");
    }
}

#[test]
fn tables_fit_and_stack_where_they_cannot() {
    let table = "| Name | Value |\n|---|--:|\n| alpha | 1 |\n| beta | 20 |\nafter";
    assert_eq!(rendered(table, 40), "Name  │ Value\n──────┼──────\nalpha │     1\nbeta  │    20\nafter │\n");
    assert_eq!(
        rendered("| Name | Value |\n|---|---|\n| a long text | another text |", 12),
        "Name: a long\n  text\nValue:\n  another\n  text\n"
    );
    assert_eq!(rendered("a | b\n--|--|--\nc", 40), "a | b\n--|--|--\nc\n");
    assert_eq!(rendered("| 日本語 | b |\n|--|--|\n| x | y |", 40), "日本語 │ b\n───────┼──\nx      │ y\n");
}

#[test]
fn hostile_text_is_harmless() {
    let hostile = "a\u{1b}[2J\u{1b}]52;c;aGk=\u{7}b\n```\u{1b}]0;t\u{7}\n\u{9b}1A\u{202e}x\n```\n| \u{1b}c |\n|---|\n| &#27;[1m |\n# \u{1b}[5m!\n[t](\u{1b}[3Jhttp://x)";
    let shown = rendered(hostile, 40);
    assert!(!shown.chars().any(|char| char.is_control() && char != '\n'), "{shown:?}");
    assert!(shown.contains("<U+202E>"), "{shown}");
}

#[test]
fn growing_text_shows_marks_as_closed() {
    let mut stream = MarkdownStream::default();
    stream.push("some **bold te");
    assert!(stream.take_finished(&context(40)).is_empty());
    let live = stream.live_lines(&context(40));
    assert_eq!(show(&live), "some bold te\n");
    assert!(live[0].spans[1].style.bold);
    stream.push("xt**\n\n``");
    assert_eq!(show(&stream.take_finished(&context(40))), "some bold text\n");
    assert!(stream.live_lines(&context(40)).is_empty());
}

#[test]
fn little_is_held_of_any_block() {
    let blocks = [
        "```\n".to_owned() + &"let x = 1;\n".repeat(2_000),
        "- item **bold** text\n".repeat(2_000),
        "one line of a paragraph\n".repeat(2_000),
        "| a | b |\n|---|---|\n".to_owned() + &"| cell | cell |\n".repeat(2_000),
        "> quote\n".repeat(2_000),
        "word ".repeat(10_000),
        "**open ".repeat(10_000),
        "x".repeat(50_000),
        "[".repeat(20_000),
        "> ".repeat(5_000),
        "- ".repeat(5_000),
    ];
    let cx = context(80);
    for text in &blocks {
        let mut stream = MarkdownStream::default();
        let mut handed_out = 0;
        for piece in text.as_bytes().chunks(64) {
            stream.push(std::str::from_utf8(piece).unwrap());
            handed_out += stream.take_finished(&cx).len();
        }
        let live = stream.live_lines(&cx);
        assert!(live.len() <= 230, "{} live rows of {}", live.len(), &text[..20]);
        stream.finish();
        handed_out += stream.take_finished(&cx).len();
        assert_eq!(handed_out, render_markdown(text, &cx).len(), "{}", &text[..20]);
    }
}

/// Text that is likely to be markdown.
fn markdown_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z]{1,12}",
        2 => Just(" ".to_owned()),
        2 => Just("\n".to_owned()),
        1 => Just("\n\n".to_owned()),
        4 => prop::sample::select(vec![
            "# ", "## ", "- ", "* ", "1. ", "2. ", "> ", "```", "```rust\n", "~~~", "| a | b |\n", "|---|---|\n", "| ", "**",
            "*", "_", "`", "~~", "[", "](http://x)", "](", "![", "<div>", "</div>", "<!--", "-->", "---\n", "===\n", "    ", "  ",
            "\t", "\\", "&amp;", "&#27;", "[ ] ", "[x] ", "\r", "\r\n", "\u{1b}[31m", "\u{1b}]0;", "\u{7}", "日本語", "👩\u{200d}💻",
            "e\u{301}", "\u{202e}", "\u{200b}", "\u{0}", "$", "+ ", ":", "|",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..80).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn pieces_give_the_lines_of_the_whole(text in markdown_text(), cuts in prop::collection::vec(0usize..400, 0..12), width in 1usize..90) {
        let cx = context(width);
        let whole = render_markdown(&text, &cx);
        let mut stream = MarkdownStream::default();
        let mut lines = Vec::new();
        let mut at = 0;
        let mut cuts = cuts;
        cuts.sort_unstable();
        for cut in cuts.into_iter().chain([text.len()]) {
            let cut = text.floor_char_boundary(cut.min(text.len())).max(at);
            stream.push(&text[at..cut]);
            at = cut;
            lines.extend(stream.take_finished(&cx));
            for line in stream.live_lines(&cx) {
                prop_assert!(line_width(&line) <= width.max(2), "{:?}", line.text());
            }
        }
        stream.finish();
        lines.extend(stream.take_finished(&cx));
        prop_assert_eq!(&lines, &whole);
        for line in &whole {
            prop_assert!(line_width(line) <= width.max(2), "{:?}", line.text());
            prop_assert!(!line.text().chars().any(char::is_control), "{:?}", line.text());
        }
    }
}
