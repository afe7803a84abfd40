use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use gimlet_proto::{AgentSummary, CommandInfo, PromptHistoryEntry};

use super::*;
use crate::glyphs::{GlyphSet, RenderContext};
use crate::key_bindings::KeyStrokes;
use crate::theme::{ColorDepth, ColorTheme, ScreenBackground};

const THEME: ColorTheme = ColorTheme { background: ScreenBackground::Dark, depth: ColorDepth::None };

/// Presses keys: letters as they stand, `<ctrl+a>` and the like by name. Returns the outcome of the last.
fn press(composer: &mut PromptComposer, keys: &str) -> ComposerOutcome {
    let mut outcome = ComposerOutcome::Ignored;
    let mut rest = keys;
    while let Some(first) = rest.chars().next() {
        let named = rest.strip_prefix('<').and_then(|rest| rest.split_once('>'));
        let event = match named {
            Some((name, after)) => {
                rest = after;
                let strokes = KeyStrokes::parse(name).expect(name);
                let stroke = strokes.as_slice()[0];
                KeyEvent::new(stroke.code(), stroke.modifiers())
            }
            None => {
                rest = &rest[first.len_utf8()..];
                KeyEvent::new(KeyCode::Char(first), KeyModifiers::NONE)
            }
        };
        outcome = composer.handle_key(event);
    }
    outcome
}

/// Returns the text with `|` at the cursor after pressing keys in an empty editor.
fn typed(keys: &str) -> String {
    let mut composer = PromptComposer::default();
    press(&mut composer, keys);
    with_cursor(&composer)
}

fn with_cursor(composer: &PromptComposer) -> String {
    let mut text = composer.text().to_owned();
    text.insert(composer.editor.buffer.cursor(), '|');
    text
}

fn entry(text: &str) -> PromptHistoryEntry {
    PromptHistoryEntry { text: text.to_owned(), ..PromptHistoryEntry::default() }
}

fn submitted(outcome: ComposerOutcome) -> ComposedPrompt {
    match outcome {
        ComposerOutcome::Submit(prompt) => prompt,
        other => panic!("not sent: {other:?}"),
    }
}

fn screen(composer: &mut PromptComposer, width: usize, rows: usize) -> String {
    let context = RenderContext { theme: &THEME, glyphs: &GlyphSet::UNICODE, width };
    let view = composer.render(width, rows, &context);
    let mut out = String::new();
    for (index, line) in view.lines.iter().enumerate() {
        out.push_str(&format!("|{}\n", line.text()));
        if let Some((row, column)) = view.cursor
            && row == index
        {
            out.push_str(&format!("|{}^\n", " ".repeat(column)));
        }
    }
    for line in &view.popup {
        out.push_str(&format!("+{}\n", line.text()));
    }
    out
}

#[test]
fn readline_keys_move_and_cut() {
    for (keys, expected) in [
        ("hello<ctrl+a>X", "X|hello"),
        ("hello<ctrl+a><ctrl+e>X", "helloX|"),
        ("hello<home><right>X<end>Y", "hXelloY|"),
        ("hello<ctrl+b><ctrl+b>X", "helX|lo"),
        ("hello<left><left><ctrl+f>X", "hellX|o"),
        ("one two-three<alt+b>X", "one two-X|three"),
        ("one two-three<ctrl+left><ctrl+left>X", "one X|two-three"),
        ("one two<ctrl+a><alt+f>X", "oneX| two"),
        ("one two<ctrl+a><ctrl+right><ctrl+right>X", "one twoX|"),
        ("one two<ctrl+w>", "one |"),
        ("one two-three<ctrl+w>", "one two-|"),
        ("one two<alt+backspace><ctrl+h>", "one|"),
        ("one two<ctrl+a><alt+d>", "| two"),
        ("one two<ctrl+a><alt+f><ctrl+k>", "one|"),
        ("one two<alt+b><ctrl+u>", "|two"),
        ("one two<ctrl+u><ctrl+y><ctrl+y>", "one twoone two|"),
        ("one two<ctrl+w><ctrl+w><ctrl+y>", "one two|"),
        ("one<ctrl+u>two<ctrl+u><ctrl+y><alt+y>", "one|"),
        ("one<ctrl+u>two<ctrl+u><ctrl+y><alt+y><alt+y>", "two|"),
        ("a<ctrl+j>b<ctrl+a><ctrl+u>", "a|b"),
        ("a<ctrl+j>b<up><ctrl+e><ctrl+k>", "a|b"),
        ("abc<left><left><delete>", "a|c"),
        ("abc<left><left><ctrl+d>", "a|c"),
        ("word<ctrl+a><alt+u>", "WORD|"),
        ("wORD<ctrl+a><alt+c>", "Word|"),
        ("e\u{301}漢👩‍👧<backspace><backspace><backspace>", "|"),
        ("a<ctrl+j>bc<ctrl+home>X<ctrl+end>Y", "Xa\nbcY|"),
    ] {
        assert_eq!(typed(keys), expected, "{keys}");
    }
}

#[test]
fn lines_are_broken_by_every_usual_key() {
    for key in ["<shift+enter>", "<alt+enter>", "<ctrl+j>", "\\<enter>"] {
        assert_eq!(typed(&format!("a{key}b")), "a\nb|", "{key}");
    }
}

#[test]
fn undo_and_redo_by_keys() {
    assert_eq!(typed("one two<ctrl+_>"), "one|");
    assert_eq!(typed("one two<ctrl+_><ctrl+_><alt+_>"), "one|");
    assert_eq!(typed("one two<ctrl+u><ctrl+_>"), "one two|");
}

#[test]
fn enter_sends_and_empties() {
    let mut composer = PromptComposer::default();
    let prompt = submitted(press(&mut composer, "do it  <enter>"));
    assert_eq!((prompt.text().as_str(), prompt.kind), ("do it", InputKind::Prompt));
    assert!(composer.is_empty());
    assert!(matches!(press(&mut composer, " <enter>"), ComposerOutcome::Changed), "blanks are not sent");
    assert!(matches!(press(&mut composer, "<ctrl+_>"), ComposerOutcome::Changed));
}

#[test]
fn keys_of_the_front_end_are_handed_on() {
    for (keys, expected) in [
        ("<ctrl+c>", KeyAction::AppInterrupt),
        ("<ctrl+d>", KeyAction::AppExit),
        ("<escape>", KeyAction::ChatCancel),
        ("<shift+tab>", KeyAction::ChatCycleMode),
        ("<ctrl+o>", KeyAction::AppToggleTranscript),
        ("<ctrl+t>", KeyAction::AppToggleTodos),
        ("<alt+t>", KeyAction::ChatThinkingToggle),
        ("<alt+p>", KeyAction::ChatModelPicker),
        ("<ctrl+x><ctrl+k>", KeyAction::ChatKillAgents),
        ("<ctrl+l>", KeyAction::AppRedraw),
        ("<ctrl+z>", KeyAction::AppSuspend),
    ] {
        let outcome = press(&mut PromptComposer::default(), keys);
        assert!(matches!(outcome, ComposerOutcome::Action(action) if action == expected), "{keys}: {outcome:?}");
    }
    for key in ["<pageup>", "<f5>", "<ctrl+q>", "<insert>"] {
        assert!(matches!(press(&mut PromptComposer::default(), key), ComposerOutcome::Ignored), "{key}");
    }
    let mut composer = PromptComposer::default();
    assert!(matches!(press(&mut composer, "a<ctrl+b>"), ComposerOutcome::Changed), "moves left");
    composer.set_surroundings(ComposerSurroundings { has_foreground_call: true, ..Default::default() });
    assert!(matches!(press(&mut composer, "<ctrl+b>"), ComposerOutcome::Action(KeyAction::TaskBackground)));
}

#[test]
fn an_unknown_sequence_types_nothing() {
    let mut composer = PromptComposer::default();
    press(&mut composer, "a<ctrl+x>");
    assert_eq!(composer.pending_keys(), "ctrl+x");
    press(&mut composer, "z");
    assert_eq!((composer.text(), composer.pending_keys().as_str()), ("a", ""));
}

#[test]
fn a_question_mark_asks_for_help_only_in_an_empty_prompt() {
    let outcome = press(&mut PromptComposer::default(), "?");
    assert!(matches!(outcome, ComposerOutcome::Request(ComposerRequest::ShowHelp)));
    assert_eq!(typed("why?"), "why?|");
    assert_eq!(typed("!?"), "?|");
}

#[test]
fn shell_mode_holds_for_one_command() {
    let mut composer = PromptComposer::default();
    let prompt = submitted(press(&mut composer, "!ls -l<enter>"));
    assert_eq!((prompt.text().as_str(), prompt.kind), ("ls -l", InputKind::Shell));
    assert_eq!(composer.kind(), InputKind::Prompt);
    for keys in ["!<backspace>", "!<escape>"] {
        press(&mut composer, keys);
        assert_eq!(composer.kind(), InputKind::Prompt, "{keys}");
    }
    press(&mut composer, "ls<home>!");
    assert_eq!((composer.text(), composer.kind()), ("ls", InputKind::Shell));
    press(&mut composer, "<backspace>");
    assert_eq!((composer.text(), composer.kind()), ("ls", InputKind::Prompt));
    assert_eq!(typed("a!"), "a!|");
}

#[test]
fn long_pastes_fold_and_expand_when_sent() {
    let mut composer = PromptComposer::default();
    composer.handle_paste("one\r\ntwo");
    assert_eq!(composer.text(), "one\ntwo");
    press(&mut composer, "<ctrl+u><ctrl+u><ctrl+u>see ");
    composer.handle_paste("1\r2\r3\r4");
    press(&mut composer, " and");
    assert_eq!(composer.text(), "see [Pasted text #1 +3 lines] and");
    let prompt = submitted(press(&mut composer, "<enter>"));
    assert_eq!(prompt.text(), "see 1\n2\n3\n4 and");
    composer.handle_paste(&"y\n".repeat(9));
    assert_eq!(composer.text(), "[Pasted text #2 +9 lines]");
    press(&mut composer, "<backspace>");
    assert_eq!(composer.text(), "", "a placeholder goes as one");
    press(&mut composer, "<ctrl+_>");
    assert_eq!(composer.text(), "[Pasted text #2 +9 lines]");
}

#[test]
fn pasted_control_characters_are_removed_and_invisible_ones_stay() {
    let mut composer = PromptComposer::default();
    composer.handle_paste("a\u{1b}[31mred\u{1b}[0m\u{7}\tb\u{200b}c\u{1b}]0;title\u{7}d");
    assert_eq!(composer.text(), "ared\tb\u{200b}cd");
}

#[test]
fn images_are_asked_for_and_attached() {
    let mut composer = PromptComposer::default();
    let outcome = composer.handle_paste("/tmp/a\\ b.png");
    let expected =
        ComposerRequest::ReadImages { paths: vec!["/tmp/a b.png".into()], pasted: "/tmp/a\\ b.png".to_owned() };
    assert!(matches!(outcome, ComposerOutcome::Request(request) if request == expected));
    for outcome in [press(&mut composer, "<ctrl+v>"), composer.handle_paste("")] {
        assert!(matches!(outcome, ComposerOutcome::Request(ComposerRequest::ReadClipboard)));
    }
    composer.attach_image(Block::text("stands for an image"));
    press(&mut composer, " what is it?");
    let prompt = submitted(press(&mut composer, "<enter>"));
    assert_eq!(prompt.shown, "[Image #1] what is it?");
    let sent = prompt.to_submitted();
    assert_eq!((sent.blocks.len(), sent.plain), (2, false));
}

#[test]
fn up_and_down_go_through_rows_first_and_then_through_history() {
    let mut composer = PromptComposer::default();
    composer.set_history(vec![entry("first"), entry("second\nline")]);
    press(&mut composer, "draft<up>");
    assert_eq!(with_cursor(&composer), "second\nline|");
    press(&mut composer, "<up>");
    assert_eq!(with_cursor(&composer), "seco|nd\nline");
    press(&mut composer, "<up>");
    assert_eq!(with_cursor(&composer), "first|");
    press(&mut composer, "<up>");
    assert_eq!(with_cursor(&composer), "|first", "there is none before");
    press(&mut composer, "X<down>");
    assert_eq!(with_cursor(&composer), "seco|nd\nline", "as it was left");
    press(&mut composer, "<ctrl+n><ctrl+n>");
    assert_eq!(with_cursor(&composer), "draft|", "the draft is kept");
    press(&mut composer, "<up><up><up>");
    assert_eq!(composer.text(), "Xfirst", "a change on the way is kept, too");
}

#[test]
fn an_earlier_prompt_comes_back_with_what_was_pasted_and_as_what_it_was() {
    let mut composer = PromptComposer::default();
    composer.set_history(vec![
        entry("!make test"),
        PromptHistoryEntry {
            text: "fix [Pasted text #4 +2 lines] please".to_owned(),
            pasted: vec![(4, "a\nb\nc".to_owned())],
            at_ms: 0,
        },
    ]);
    press(&mut composer, "<up>");
    assert_eq!(composer.text(), "fix [Pasted text #1 +2 lines] please");
    assert_eq!(submitted(press(&mut composer, "<enter>")).text(), "fix a\nb\nc please");
    press(&mut composer, "<up><up>");
    assert_eq!((composer.text(), composer.kind()), ("make test", InputKind::Shell));
}

#[test]
fn sent_prompts_join_the_history_once() {
    let mut composer = PromptComposer::default();
    for text in ["a", "a", "b"] {
        press(&mut composer, text);
        let prompt = submitted(press(&mut composer, "<enter>"));
        composer.remember(prompt.history_entry(0));
    }
    press(&mut composer, "<up><up>");
    assert_eq!(composer.text(), "a");
    press(&mut composer, "<up>");
    assert_eq!(composer.text(), "a");
    press(&mut composer, "<down><down><down>c");
    let entry = composer.clear_to_history(5).expect("an entry");
    assert_eq!((entry.text.as_str(), entry.at_ms), ("c", 5));
    press(&mut composer, "<up>");
    assert_eq!(composer.text(), "c");
}

#[test]
fn up_recalls_prompts_that_wait() {
    let mut composer = PromptComposer::default();
    composer.set_surroundings(ComposerSurroundings { queued: 1, ..Default::default() });
    let outcome = press(&mut composer, "more<up>");
    assert!(matches!(outcome, ComposerOutcome::Request(ComposerRequest::RecallQueued)));
    composer.recall_text("waited");
    assert_eq!(with_cursor(&composer), "waited\n|more");
}

#[test]
fn stash_puts_aside_and_returns() {
    let mut composer = PromptComposer::default();
    press(&mut composer, "draft<left><ctrl+s>");
    assert!(composer.is_empty() && composer.has_stash());
    submitted(press(&mut composer, "quick<enter>"));
    assert_eq!(with_cursor(&composer), "draf|t", "it comes back by itself");
    press(&mut composer, "<ctrl+s><ctrl+s>");
    assert_eq!(with_cursor(&composer), "draf|t", "or by the same key");
    composer.handle_paste("1\n2\n3");
    press(&mut composer, "<ctrl+s>other<enter><enter>");
    assert_eq!(composer.text(), "");
}

#[test]
fn a_stashed_paste_survives_the_next_prompt() {
    let mut composer = PromptComposer::default();
    composer.handle_paste("1\n2\n3");
    press(&mut composer, "<ctrl+s>quick<enter>");
    assert_eq!(submitted(press(&mut composer, "<enter>")).text(), "1\n2\n3");
}

#[test]
fn search_finds_older_prompts_and_edits_runs_or_cancels() {
    let mut composer = PromptComposer::default();
    composer.set_history(vec![entry("run the Tests"), entry("other"), entry("fix the test"), entry("run the Tests")]);
    press(&mut composer, "draft<ctrl+r>test");
    assert_eq!(with_cursor(&composer), "run the |Tests");
    press(&mut composer, "<ctrl+r>");
    assert_eq!(with_cursor(&composer), "fix the |test");
    press(&mut composer, "<ctrl+r>");
    assert_eq!(composer.text(), "fix the test", "no text comes twice");
    press(&mut composer, "<tab>!");
    assert_eq!(with_cursor(&composer), "fix the !|test");
    press(&mut composer, "<ctrl+u><ctrl+k>draft<ctrl+r>oth<ctrl+c>");
    assert_eq!(composer.text(), "draft");
    press(&mut composer, "<ctrl+r>nothing like it");
    assert_eq!(composer.text(), "draft");
    press(&mut composer, "<escape>");
    let prompt = submitted(press(&mut composer, "<ctrl+r>oth<enter>"));
    assert_eq!(prompt.text(), "other");
    press(&mut composer, "<ctrl+r>oth<end>X");
    assert_eq!(with_cursor(&composer), "otherX|", "another key takes the match");
}

#[test]
fn search_reaches_other_folders() {
    let mut composer = PromptComposer::default();
    let outcome = press(&mut composer, "<ctrl+r>far<ctrl+s>");
    assert!(matches!(outcome, ComposerOutcome::Request(ComposerRequest::ReadFullHistory)));
    composer.set_full_history(vec![entry("far away")]);
    assert_eq!(composer.text(), "far away");
    press(&mut composer, "<ctrl+s>");
    assert_eq!(composer.text(), "", "not of this folder");
}

#[test]
fn the_external_editor_gets_and_returns_the_whole_text() {
    let mut composer = PromptComposer::default();
    press(&mut composer, "see ");
    composer.handle_paste("1\n2\n3");
    for keys in ["<ctrl+g>", "<ctrl+x><ctrl+e>"] {
        let outcome = press(&mut composer, keys);
        let expected = ComposerRequest::EditExternally { text: "see 1\n2\n3".to_owned() };
        assert!(matches!(outcome, ComposerOutcome::Request(request) if request == expected));
    }
    composer.replace_text("changed\r\ntext\n");
    assert_eq!(with_cursor(&composer), "changed\ntext|");
    press(&mut composer, "<ctrl+_>");
    assert_eq!(composer.text(), "see [Pasted text #1 +2 lines]");
}

#[test]
fn rebound_keys_take_precedence_over_the_editor() {
    let text = r#"{"bindings":[{"context":"Chat","bindings":{"ctrl+a":"chat:stash","ctrl+s":null}}]}"#;
    let (bindings, problems) = KeyBindings::parse(text);
    assert_eq!(problems, []);
    let mut composer = PromptComposer::new(bindings);
    press(&mut composer, "x<ctrl+s>");
    assert!(!composer.has_stash());
    press(&mut composer, "<ctrl+a>");
    assert!(composer.has_stash());
}

fn command(name: &str, hint: &str, description: &str) -> CommandInfo {
    CommandInfo {
        name: name.to_owned(),
        aliases: if name == "cost" { vec!["usage".to_owned()] } else { Vec::new() },
        description: description.to_owned(),
        argument_hint: hint.to_owned(),
        kind: gimlet_proto::CommandKind::Local,
    }
}

fn with_commands() -> PromptComposer {
    let mut composer = PromptComposer::default();
    composer.set_commands(vec![
        command("compact", "[instructions]", "Summarise the conversation so far and go on with the summary"),
        command("config", "", "Settings"),
        command("cost", "", "What this session has cost"),
        command("code-review", "[target]", "Review a change"),
    ]);
    composer.set_agents(vec![AgentSummary {
        name: "reviewer".to_owned(),
        description: "Reads changes".to_owned(),
        model: None,
    }]);
    composer
}

#[test]
fn commands_are_completed_and_run() {
    let mut composer = with_commands();
    press(&mut composer, "/co<tab>");
    assert_eq!(with_cursor(&composer), "/cost |", "the shortest name first");
    assert!(!composer.has_completions());
    press(&mut composer, "<ctrl+u>/co<down><down><tab>");
    assert_eq!(with_cursor(&composer), "/compact |");
    press(&mut composer, "<ctrl+u>/co<up><tab>");
    assert_eq!(with_cursor(&composer), "/code-review |", "it goes around");
    press(&mut composer, "<ctrl+u>/rev<tab>");
    assert_eq!(with_cursor(&composer), "/code-review |", "a word inside a name");
    press(&mut composer, "<ctrl+u>/usa<tab>");
    assert_eq!(with_cursor(&composer), "/cost |", "an alias");
    press(&mut composer, "<ctrl+u>");
    assert_eq!(submitted(press(&mut composer, "/compa<enter>")).text(), "/compact");
    assert_eq!(submitted(press(&mut composer, "/cost<enter>")).text(), "/cost");
    assert_eq!(submitted(press(&mut composer, "/compact soon<enter>")).text(), "/compact soon");
    assert_eq!(submitted(press(&mut composer, "/zzz<enter>")).text(), "/zzz", "nothing fits");
    press(&mut composer, "/co<escape>");
    assert!(!composer.has_completions());
    assert_eq!(submitted(press(&mut composer, "s<enter>")).text(), "/cos", "it was sent away");
    press(&mut composer, "/etc/ho");
    assert!(!composer.has_completions(), "a path");
    press(&mut composer, "<ctrl+u>see /co");
    assert!(!composer.has_completions(), "not at the start");
}

fn suggestion_request(outcome: ComposerOutcome) -> (String, u64) {
    match outcome {
        ComposerOutcome::Request(ComposerRequest::SuggestFiles { query, generation }) => (query, generation),
        other => panic!("no request: {other:?}"),
    }
}

#[test]
fn files_are_asked_for_and_completed() {
    let mut composer = with_commands();
    let (query, old) = suggestion_request(press(&mut composer, "fix @sr"));
    assert_eq!(query, "sr");
    let (query, new) = suggestion_request(press(&mut composer, "c"));
    assert_eq!(query, "src");
    composer.set_file_suggestions(old, vec!["stale.rs".to_owned()]);
    assert!(!composer.has_completions(), "too late");
    composer.set_file_suggestions(new, vec!["src/lib.rs".to_owned(), "src/main.rs".to_owned()]);
    press(&mut composer, "<down><down><tab>");
    assert_eq!(with_cursor(&composer), "fix @src/main.rs |");
    assert!(!composer.has_completions());
    let (_, generation) = suggestion_request(press(&mut composer, "and @src"));
    composer.set_file_suggestions(generation, vec!["src/lib.rs".to_owned()]);
    let (query, generation) = suggestion_request(press(&mut composer, "<tab>"));
    assert_eq!((with_cursor(&composer).as_str(), query.as_str()), ("fix @src/main.rs and @src/|", "src/"));
    composer.set_file_suggestions(generation, vec!["src/a b.rs".to_owned()]);
    press(&mut composer, "<enter>");
    assert_eq!(with_cursor(&composer), "fix @src/main.rs and @\"src/a b.rs\" |", "Enter completes a file");
    assert_eq!(submitted(press(&mut composer, "<enter>")).shown, "fix @src/main.rs and @\"src/a b.rs\"");
    press(&mut composer, "mail@example");
    assert!(!composer.has_completions());
}

#[test]
fn agents_are_completed() {
    let mut composer = with_commands();
    press(&mut composer, "ask @rev<tab>");
    assert_eq!(with_cursor(&composer), "ask @agent-reviewer |");
    press(&mut composer, "<ctrl+u>@agent-re<enter>");
    assert_eq!(with_cursor(&composer), "@agent-reviewer |");
}

#[test]
fn a_completion_in_the_middle_keeps_what_follows() {
    let mut composer = with_commands();
    press(&mut composer, " soon<home>/compa<tab>");
    assert_eq!(with_cursor(&composer), "/compact |soon");
    press(&mut composer, "<ctrl+e><ctrl+u>see  there<alt+b><left>@src");
    composer.set_file_suggestions(7, Vec::new());
    let (_, generation) = suggestion_request(press(&mut composer, "/"));
    composer.set_file_suggestions(generation, vec!["src/lib.rs".to_owned()]);
    press(&mut composer, "<tab>");
    assert_eq!(with_cursor(&composer), "see @src/lib.rs |there");
}

#[test]
fn shell_commands_are_completed_from_earlier_ones() {
    let mut composer = PromptComposer::default();
    composer.set_history(vec![entry("!make test"), entry("make it"), entry("!make all")]);
    press(&mut composer, "!ma<tab>");
    assert_eq!((composer.text(), composer.kind()), ("make all", InputKind::Shell));
    assert!(matches!(press(&mut composer, "<tab>"), ComposerOutcome::Ignored));
}

#[test]
fn completion_screens() {
    let mut composer = with_commands();
    let mut out = String::new();
    press(&mut composer, "/c<down>");
    out.push_str(&screen(&mut composer, 80, 5));
    out.push_str(&screen(&mut composer, 40, 5));
    press(&mut composer, "<ctrl+u>/compact ");
    out.push_str(&screen(&mut composer, 40, 5));
    let (_, generation) = suggestion_request(press(&mut composer, "<ctrl+u>see @re"));
    composer.set_file_suggestions(generation, (1..=12).map(|number| format!("reader/part_{number}.rs")).collect());
    out.push_str(&screen(&mut composer, 80, 5));
    insta::assert_snapshot!(out);
}

#[test]
fn screens() {
    let mut composer = PromptComposer::default();
    let mut out = String::new();
    let mut show = |title: &str, composer: &mut PromptComposer, width: usize, rows: usize| {
        out.push_str(&format!("{title}\n{}\n", screen(composer, width, rows)));
    };
    show("empty", &mut composer, 40, 5);
    press(&mut composer, "also check the lexer, and then the parser of 漢字 and the rest of it");
    show("wrapped at 40", &mut composer, 40, 5);
    show("wrapped at 80", &mut composer, 80, 5);
    show("scrolled to the cursor", &mut composer, 24, 2);
    press(&mut composer, "<ctrl+home>");
    show("scrolled back", &mut composer, 24, 2);
    press(&mut composer, "<ctrl+end><ctrl+u>");
    press(&mut composer, "a line that ends with the screen  <ctrl+j>next\u{202e}\u{1b}");
    show("trailing spaces and hostile characters", &mut composer, 35, 5);
    press(&mut composer, "<ctrl+u><ctrl+u><ctrl+u>see ");
    composer.handle_paste(&"line\n".repeat(12));
    press(&mut composer, " for it");
    show("a placeholder wraps", &mut composer, 20, 5);
    press(&mut composer, "<ctrl+u>!");
    show("shell", &mut composer, 40, 5);
    composer.set_history(vec![entry("run the tests of the parser")]);
    press(&mut composer, "<ctrl+r>tests");
    show("search", &mut composer, 80, 5);
    show("search", &mut composer, 40, 5);
    show("one column", &mut composer, 1, 1);
    insta::assert_snapshot!(out);
}
