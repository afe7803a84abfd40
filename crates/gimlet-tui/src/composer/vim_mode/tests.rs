use crossterm::event::KeyEvent;
use proptest::prelude::*;

use super::super::{ComposerOutcome, ComposerRequest, PromptComposer};
use super::*;
use crate::key_bindings::KeyStrokes;

/// Presses keys in an editor with vim's modes; `<esc>` and the like by name, `⏎` for a line break.
fn press(composer: &mut PromptComposer, keys: &str) -> ComposerOutcome {
    let mut outcome = ComposerOutcome::Ignored;
    let mut rest = keys;
    while let Some(first) = rest.chars().next() {
        let named = rest.strip_prefix('<').and_then(|rest| rest.split_once('>')).and_then(|(name, after)| {
            let strokes = KeyStrokes::parse(name).ok()?;
            if name.len() < 2 { None } else { Some((strokes.as_slice()[0], after)) }
        });
        let event = match named {
            Some((stroke, after)) => {
                rest = after;
                KeyEvent::new(stroke.code(), stroke.modifiers())
            }
            None => {
                rest = &rest[first.len_utf8()..];
                match first {
                    '⏎' => KeyEvent::new(KeyCode::Enter, KeyModifiers::SHIFT),
                    char => KeyEvent::new(KeyCode::Char(char), KeyModifiers::NONE),
                }
            }
        };
        outcome = composer.handle_key(event);
    }
    outcome
}

fn vim() -> PromptComposer {
    let mut composer = PromptComposer::default();
    composer.set_vim(true);
    composer
}

/// Returns the text with `|` before the cursor after keys that begin in insert mode.
fn typed(keys: &str) -> String {
    let mut composer = vim();
    press(&mut composer, keys);
    with_cursor(&composer)
}

fn with_cursor(composer: &PromptComposer) -> String {
    let mut text = composer.text().to_owned();
    text.insert(composer.editor.buffer.cursor(), '|');
    text
}

#[test]
fn motions() {
    for (keys, expected) in [
        ("hello<esc>", "hell|o"),
        ("hello<esc>0", "|hello"),
        ("hello<esc>0l", "h|ello"),
        ("hello<esc>03l", "hel|lo"),
        ("hello<esc>09l", "hell|o"),
        ("hello<esc>h", "hel|lo"),
        ("one two-three<esc>0w", "one |two-three"),
        ("one two-three<esc>02w", "one two|-three"),
        ("one two-three<esc>0W", "one |two-three"),
        ("one two-three<esc>0e", "on|e two-three"),
        ("one two-three<esc>02e", "one tw|o-three"),
        ("one two-three<esc>0wE", "one two-thre|e"),
        ("one two-three<esc>b", "one two-|three"),
        ("one two-three<esc>B", "one |two-three"),
        ("one two-three<esc>3b", "one |two-three"),
        ("  one<esc>0", "|  one"),
        ("  one<esc>^", "  |one"),
        ("one<esc>0$", "on|e"),
        ("a⏎⏎b<esc>gg", "|a\n\nb"),
        ("a⏎⏎b<esc>ggw", "a\n|\nb"),
        ("a⏎  b⏎c<esc>gg2G", "a\n  |b\nc"),
        ("a⏎b⏎c<esc>ggG", "a\nb\n|c"),
        ("a,b,c,d<esc>0f,", "a|,b,c,d"),
        ("a,b,c,d<esc>02f,", "a,b|,c,d"),
        ("a,b,c,d<esc>0t,;", "a,|b,c,d"),
        ("a,b,c,d<esc>0f,;;,", "a,b|,c,d"),
        ("a,b,c,d<esc>F,", "a,b,c|,d"),
        ("a,b,c,d<esc>T,;", "a,b,|c,d"),
        ("a,b<esc>0fx", "|a,b"),
        ("f(a[1])<esc>0%", "f(a[1]|)"),
        ("f(a[1])<esc>%", "f|(a[1])"),
        ("ab⏎cd<esc>k", "a|b\ncd"),
        ("ab⏎cd<esc>kj", "ab\nc|d"),
    ] {
        assert_eq!(typed(keys), expected, "{keys}");
    }
}

#[test]
fn changes() {
    for (keys, expected) in [
        ("hello<esc>x", "hel|l"),
        ("hello<esc>03x", "|lo"),
        ("hello<esc>X", "hel|o"),
        ("one two<esc>0dw", "|two"),
        ("one two<esc>dw", "one t|w"),
        ("one two three<esc>0d2w", "|three"),
        ("one two three<esc>02dw", "|three"),
        ("one two<esc>0wdb", "|two"),
        ("one two<esc>0de", "| two"),
        ("one two<esc>0wD", "one| "),
        ("one⏎two⏎three<esc>kdd", "one\n|three"),
        ("one⏎two⏎three<esc>dd", "one\n|two"),
        ("one⏎two⏎three<esc>gg2dd", "|three"),
        ("one<esc>dd", "|"),
        ("one⏎two⏎three<esc>ggdj", "|three"),
        ("one⏎two<esc>ggdw", "|\ntwo"),
        ("one two<esc>0cwX", "X| two"),
        ("one two<esc>bcwX", "one X|"),
        ("one two<esc>0CX", "X|"),
        ("one⏎two<esc>ccX", "one\nX|"),
        ("one⏎two<esc>SX", "one\nX|"),
        ("one<esc>0sX", "X|ne"),
        ("one two<esc>0ctwX", "X|wo"),
        ("hello<esc>0rX", "|Xello"),
        ("hello<esc>03rX", "XX|Xlo"),
        ("hello<esc>9rX", "hell|o"),
        ("hello<esc>0~~", "HE|llo"),
        ("one⏎two<esc>ggJ", "one| two"),
        ("one⏎  two⏎three<esc>gg3J", "one two| three"),
        ("one<esc>>>", "  |one"),
        ("    one<esc><<", "  |one"),
        ("a⏎b⏎c<esc>gg2>>", "  |a\n  b\nc"),
        ("hello<esc>iX", "hellX|o"),
        ("hello<esc>aX", "helloX|"),
        ("  hello<esc>IX", "  X|hello"),
        ("hello<esc>0AX", "helloX|"),
        ("one⏎two<esc>ggoX", "one\nX|\ntwo"),
        ("one⏎two<esc>OX", "one\nX|\ntwo"),
        ("hello<esc>0d$", "|"),
        ("a(b)c<esc>0d%", "|c"),
    ] {
        assert_eq!(typed(keys), expected, "{keys}");
    }
}

#[test]
fn text_is_copied_and_put() {
    for (keys, expected) in [
        ("one two<esc>0dwP", "one| two"),
        ("one two<esc>0dwA <esc>p", "two one| "),
        ("ab<esc>0xp", "b|a"),
        ("one<esc>yyp", "one\n|one"),
        ("one<esc>yy2p", "one\n|one\none"),
        ("one⏎two<esc>YggP", "|two\none\ntwo"),
        ("one two<esc>0yw$p", "one twoone| "),
        ("one<esc>0yiwP", "on|eone"),
    ] {
        assert_eq!(typed(keys), expected, "{keys}");
    }
}

#[test]
fn text_objects() {
    for (keys, expected) in [
        ("one two three<esc>0wdiw", "one | three"),
        ("one two three<esc>0wdaw", "one |three"),
        ("one two<esc>daw", "on|e"),
        ("a b-c d<esc>0wciWX", "a X| d"),
        ("say \"hi you\" now<esc>0ci\"X", "say \"X|\" now"),
        ("say \"hi you\" now<esc>0da\"", "say | now"),
        ("f(a, (b))<esc>0fadi(", "f(|)"),
        ("f(a, (b))<esc>0fbda)", "f(a, |)"),
        ("f(a, (b))<esc>0facibX", "f(X|)"),
        ("x[1]{2}<esc>0f1di[", "x[|]{2}"),
        ("x[1]{2}<esc>0f2da{", "x[1|]"),
        ("none<esc>di(", "non|e"),
    ] {
        assert_eq!(typed(keys), expected, "{keys}");
    }
}

#[test]
fn a_change_is_repeated_and_taken_back_as_one() {
    for (keys, expected) in [
        ("one two three<esc>0dw.", "|three"),
        ("one two three<esc>0cwX<esc>w.", "X |X three"),
        ("one<esc>AX Y<esc>.", "oneX YX |Y"),
        ("one two<esc>0cwthree four<esc>u", "|one two"),
        ("one two<esc>0dwdwuu", "|one two"),
        ("one<esc>xxx2u", "o|n"),
        ("a⏎b<esc>ggoX<esc>j.", "a\nX\nb\n|X"),
    ] {
        assert_eq!(typed(keys), expected, "{keys}");
    }
    assert_eq!(typed("abcdef<esc>0x2."), "|def");
    assert_eq!(typed("abc<esc>0rXl."), "X|Xc");
}

#[test]
fn selected_text_is_changed() {
    for (keys, expected) in [
        ("hello<esc>0vlld", "|lo"),
        ("hello<esc>vhhx", "h|e"),
        ("hello<esc>0vlcX", "X|llo"),
        ("hello<esc>0vly$p", "helloh|e"),
        ("hello<esc>0vlrX", "|XXllo"),
        ("hello<esc>0vl~", "|HEllo"),
        ("hello<esc>0vlU", "|HEllo"),
        ("HELLO<esc>0v$u", "|hello"),
        ("one⏎two⏎three<esc>ggVjd", "|three"),
        ("one⏎two<esc>ggVj>", "  |one\n  two"),
        ("one⏎two<esc>ggVjJ", "one| two"),
        ("one two<esc>0wviwd", "one| "),
        ("hello<esc>0vlohd", "|llo"),
        ("one two<esc>0ywwvep", "one |one "),
        ("hello<esc>0vl<esc>x", "h|llo"),
        ("hello<esc>0vlVd", "|"),
    ] {
        assert_eq!(typed(keys), expected, "{keys}");
    }
}

#[test]
fn modes_are_named_and_keys_go_where_they_belong() {
    let mut composer = vim();
    assert_eq!(composer.vim_mode(), Some(VimMode::Insert));
    press(&mut composer, "hello<esc>");
    assert_eq!(composer.vim_mode().map(VimMode::label), Some("NORMAL"));
    press(&mut composer, "2d");
    assert_eq!(composer.pending_keys(), "2d");
    press(&mut composer, "<esc>");
    assert_eq!(composer.pending_keys(), "");
    press(&mut composer, "v");
    assert_eq!(composer.vim_mode(), Some(VimMode::Visual));
    press(&mut composer, "<esc>V");
    assert_eq!(composer.vim_mode(), Some(VimMode::VisualLine));
    press(&mut composer, "<esc>?!z");
    assert_eq!(composer.text(), "hello", "nothing is typed");
    let outcome = press(&mut composer, "<esc>");
    assert!(matches!(outcome, ComposerOutcome::Action(crate::key_bindings::KeyAction::ChatCancel)), "{outcome:?}");
    assert!(matches!(press(&mut composer, "<enter>"), ComposerOutcome::Submit(_)), "Enter sends in normal mode, too");
    assert_eq!(composer.vim_mode(), Some(VimMode::Insert), "the next prompt begins with typing");
    press(&mut composer, "<esc>/");
    press(&mut composer, "x");
    assert_eq!(composer.text(), "", "the letter went into the search");
    composer.set_vim(false);
    assert_eq!(composer.vim_mode(), None);
}

#[test]
fn j_and_k_reach_the_history_and_escape_closes_the_list_first() {
    let mut composer = vim();
    composer.set_history(vec![gimlet_proto::PromptHistoryEntry { text: "earlier".to_owned(), ..Default::default() }]);
    press(&mut composer, "now<esc>k");
    assert_eq!(composer.text(), "earlier");
    press(&mut composer, "j");
    assert_eq!(composer.text(), "now");
    press(&mut composer, "ccsee @sr");
    let outcome = press(&mut composer, "c");
    let ComposerOutcome::Request(ComposerRequest::SuggestFiles { generation, .. }) = outcome else {
        panic!("no request")
    };
    composer.set_file_suggestions(generation, vec!["src/a.rs".to_owned()]);
    press(&mut composer, "<esc>");
    assert_eq!((composer.has_completions(), composer.vim_mode()), (false, Some(VimMode::Insert)));
    press(&mut composer, "<esc>");
    assert_eq!(composer.vim_mode(), Some(VimMode::Normal));
}

proptest! {
    #[test]
    fn no_sequence_of_keys_leaves_the_cursor_inside_a_character(
        text in "[a-c é漢👩‍👧(\"\\[⏎]{0,12}",
        keys in prop::collection::vec(prop::sample::select(vec![
            "h", "j", "k", "l", "w", "b", "e", "W", "B", "E", "0", "$", "^", "g", "G", "f", "t", "F", "T", ";", ",", "%",
            "x", "X", "d", "D", "c", "C", "y", "Y", "p", "P", "s", "S", "J", "u", ".", "~", "r", "i", "a", "o", "O", "I",
            "A", "v", "V", ">", "<", "U", "2", "3", "(", "\"", "漢", " ", "<esc>", "<esc>", "<backspace>",
        ]), 0..40),
    ) {
        let mut composer = vim();
        press(&mut composer, &text);
        press(&mut composer, "<esc>");
        for key in keys {
            press(&mut composer, key);
            let buffer = &composer.editor.buffer;
            prop_assert!(buffer.text().len() < 1_000_000);
            prop_assert_eq!(buffer.floor_border(buffer.cursor()), buffer.cursor(), "{:?} after {}", buffer.text(), key);
        }
        while composer.editor.buffer.undo() {}
        prop_assert_eq!(composer.text(), "");
    }
}
