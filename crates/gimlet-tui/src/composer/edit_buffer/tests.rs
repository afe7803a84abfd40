use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation;

use super::super::input_layout::InputLayout;
use super::*;

fn buffer(text: &str) -> EditBuffer {
    let mut buffer = EditBuffer::default();
    buffer.insert(text, EditKind::Other);
    buffer
}

#[test]
fn a_visible_character_is_never_divided() {
    for unit in ["a", "é", "e\u{301}", "漢", "👩‍👩‍👧", "🇩🇪", "각", "1\u{fe0f}\u{20e3}"] {
        let mut buffer = buffer(&format!("x{unit}y"));
        buffer.set_cursor(1 + unit.len());
        assert_eq!(buffer.previous_border(buffer.cursor()), 1, "{unit}");
        assert_eq!(buffer.next_border(1), 1 + unit.len(), "{unit}");
        for inside in 1..=unit.len() {
            buffer.set_cursor(inside);
            assert!(buffer.cursor() == 1 || inside == unit.len(), "{unit} {inside}");
        }
    }
}

#[test]
fn an_inserted_mark_joins_the_letter_before_and_the_cursor_stays_on_a_border() {
    let mut buffer = buffer("e");
    buffer.insert("\u{301}", EditKind::Typing);
    assert_eq!((buffer.text(), buffer.cursor()), ("e\u{301}", 3));
    let mut flag = self::buffer("🇪");
    flag.set_cursor(0);
    flag.insert("🇩", EditKind::Typing);
    assert_eq!(flag.cursor(), flag.text().len(), "both are one flag now");
}

#[test]
fn placeholders_are_one_unit() {
    let mut buffer = EditBuffer::default();
    buffer.add_atom("[Image #1]".to_owned());
    buffer.insert("a[Image #1]b", EditKind::Other);
    assert_eq!(buffer.next_border(1), 11);
    assert_eq!(buffer.previous_border(11), 1);
    buffer.set_cursor(5);
    assert_eq!(buffer.cursor(), 1);
    assert_eq!(buffer.word_start_before(11, WordRule::Letters), 0);
}

#[test]
fn undo_goes_back_word_by_word_and_redo_forward() {
    let mut buffer = EditBuffer::default();
    for char in "one two".chars() {
        buffer.insert(&char.to_string(), EditKind::Typing);
    }
    assert!(buffer.undo());
    assert_eq!(buffer.text(), "one");
    assert!(buffer.undo());
    assert_eq!((buffer.text(), buffer.cursor()), ("", 0));
    assert!(!buffer.undo());
    assert!(buffer.redo() && buffer.redo());
    assert_eq!((buffer.text(), buffer.cursor()), ("one two", 7));
    assert!(!buffer.redo());
}

/// A change or a movement.
#[derive(Clone, Debug)]
enum EditStep {
    Insert(String),
    Erase,
    EraseAfter,
    Left,
    Right,
    Word,
    Cursor(usize),
    Undo,
    Redo,
}

fn any_step() -> impl Strategy<Value = EditStep> {
    let piece = prop::sample::select(vec![
        "a",
        "b c",
        " ",
        "\n",
        "é",
        "e\u{301}",
        "\u{301}",
        "漢字",
        "👩‍👧",
        "👩",
        "\u{200d}",
        "🇩",
        "🇪",
        "\t",
        "\u{1b}[31m",
        "\u{202e}",
        "[Image #1]",
        "[Image",
        " #1]",
        "word word word word",
    ]);
    prop_oneof![
        4 => piece.prop_map(|text| EditStep::Insert(text.to_owned())),
        2 => Just(EditStep::Erase),
        1 => Just(EditStep::EraseAfter),
        1 => Just(EditStep::Left),
        1 => Just(EditStep::Right),
        1 => Just(EditStep::Word),
        1 => (0..80usize).prop_map(EditStep::Cursor),
        1 => Just(EditStep::Undo),
        1 => Just(EditStep::Redo),
    ]
}

fn run_step(buffer: &mut EditBuffer, step: &EditStep) {
    let cursor = buffer.cursor();
    match step {
        EditStep::Insert(text) => buffer.insert(text, EditKind::Typing),
        EditStep::Erase => drop(buffer.remove(buffer.previous_border(cursor)..cursor, EditKind::Erasing)),
        EditStep::EraseAfter => drop(buffer.remove(cursor..buffer.next_border(cursor), EditKind::Erasing)),
        EditStep::Left => buffer.set_cursor(buffer.previous_border(cursor)),
        EditStep::Right => buffer.set_cursor(buffer.next_border(cursor)),
        EditStep::Word => buffer.set_cursor(buffer.word_start_before(cursor, WordRule::Letters)),
        EditStep::Cursor(at) => buffer.set_cursor(*at),
        EditStep::Undo => drop(buffer.undo()),
        EditStep::Redo => drop(buffer.redo()),
    }
}

fn is_border(buffer: &EditBuffer, at: usize) -> bool {
    let line = buffer.line_range(at);
    let text = buffer.slice(line.clone());
    let is_after_atom = buffer.slice(0..at).ends_with("[Image #1]");
    at == line.end || is_after_atom || text.grapheme_indices(true).any(|(start, _)| line.start + start == at)
}

proptest! {
    #[test]
    fn the_cursor_is_always_between_visible_characters(steps in prop::collection::vec(any_step(), 0..60)) {
        let mut buffer = EditBuffer::default();
        buffer.add_atom("[Image #1]".to_owned());
        for step in &steps {
            run_step(&mut buffer, step);
            prop_assert!(buffer.text().is_char_boundary(buffer.cursor()));
            prop_assert!(is_border(&buffer, buffer.cursor()), "{:?} at {}", buffer.text(), buffer.cursor());
            let inside = buffer.text().match_indices("[Image #1]")
                .any(|(at, atom)| at < buffer.cursor() && buffer.cursor() < at + atom.len());
            prop_assert!(!inside, "inside a placeholder");
        }
    }

    #[test]
    fn undo_and_redo_return_the_same_texts(steps in prop::collection::vec(any_step(), 0..60)) {
        let mut buffer = EditBuffer::default();
        for step in steps.iter().filter(|step| !matches!(step, EditStep::Undo | EditStep::Redo)) {
            run_step(&mut buffer, step);
        }
        let last = buffer.text().to_owned();
        while buffer.undo() {}
        prop_assert_eq!(buffer.text(), "");
        while buffer.redo() {}
        prop_assert_eq!(buffer.text(), last);
    }

    #[test]
    fn rows_are_never_wider_than_asked_and_show_every_position(
        steps in prop::collection::vec(any_step(), 0..60), width in 1..30usize,
    ) {
        let mut buffer = EditBuffer::default();
        buffer.add_atom("[Image #1]".to_owned());
        for step in &steps {
            run_step(&mut buffer, step);
        }
        let layout = InputLayout::new(&buffer, width);
        for row in &layout.rows {
            let shown: String = layout.row_texts(row, buffer.text()).map(|(_, text)| text.into_owned()).collect();
            let is_single = layout.row_texts(row, buffer.text()).count() <= 1;
            let row_width = crate::text_width::display_width(&shown);
            prop_assert!(row_width <= width || (is_single && row_width <= 2), "{shown:?}");
            prop_assert!(!shown.contains(['\u{1b}', '\u{202e}', '\t']), "hostile");
        }
        let mut at = 0;
        let mut previous = layout.position(0);
        while at < buffer.text().len() {
            at = buffer.next_border(at);
            let position = layout.position(at);
            prop_assert!(position.column <= width.max(2));
            prop_assert!((position.row, position.column) >= (previous.row, previous.column), "goes forward");
            prop_assert_eq!(buffer.floor_border(layout.border_at(position.row, position.column)),
                layout.border_at(position.row, position.column));
            previous = position;
        }
    }
}
