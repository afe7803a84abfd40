use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::*;

fn keys(text: &str) -> Vec<KeyStroke> {
    KeyStrokes::parse(text).expect("keys").as_slice().to_vec()
}

fn resolve(bindings: &KeyBindings, context: KeyContext, text: &str) -> KeyResolution {
    bindings.resolve(&[context, KeyContext::Global], &keys(text))
}

#[test]
fn every_default_binding_is_readable_and_in_force() {
    let bindings = KeyBindings::default();
    assert_eq!(bindings.rows.len(), actions::default_count());
    for row in &bindings.rows {
        assert!(bindings.is_in_force(row), "{:?} {} is bound twice", row.context, row.keys);
        assert_eq!(KeyStrokes::parse(&row.keys.to_string()).as_ref(), Ok(&row.keys));
    }
    for (name, action) in actions::ACTION_NAMES {
        assert_eq!(action.name(), *name);
    }
}

#[test]
fn a_key_is_the_same_however_the_terminal_reports_it() {
    let stroke = |code, modifiers| KeyStroke::from_event(&KeyEvent::new(code, modifiers));
    let (control, alt, shift, none) =
        (KeyModifiers::CONTROL, KeyModifiers::ALT, KeyModifiers::SHIFT, KeyModifiers::NONE);
    for (code, modifiers, text) in [
        (KeyCode::BackTab, shift, "shift+tab"),
        (KeyCode::BackTab, none, "shift+tab"),
        (KeyCode::Char('7'), control, "ctrl+_"),
        (KeyCode::Char('/'), control, "ctrl+_"),
        (KeyCode::Char('_'), control | shift, "ctrl+-"),
        (KeyCode::Char('K'), none, "K"),
        (KeyCode::Char('K'), shift, "shift+k"),
        (KeyCode::Char('k'), alt, "opt+K"),
        (KeyCode::Char('?'), shift, "?"),
        (KeyCode::Char(' '), control, "ctrl+space"),
        (KeyCode::Char('+'), control, "ctrl++"),
        (KeyCode::F(5), none, "F5"),
        (KeyCode::Enter, alt, "meta+return"),
    ] {
        assert_eq!(vec![stroke(code, modifiers)], keys(text), "{text}");
    }
    for wrong in ["", "ctrl+", "hyper+x", "ctrl+nonsense", "f99"] {
        assert!(KeyStrokes::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_file_rebinds_switches_off_and_adds_sequences() {
    let (bindings, problems) = KeyBindings::parse(
        r#"{"bindings": [
            {"context": "Chat", "bindings": {"alt+s": "chat:stash", "ctrl+s": null, "ctrl+x ctrl+s": "chat:submit"}},
            {"context": "Global", "bindings": {"f2": "app:toggleTodos"}}
        ]}"#,
    );
    assert_eq!(problems, []);
    let chat = KeyContext::Chat;
    assert_eq!(resolve(&bindings, chat, "alt+s"), KeyResolution::Action(KeyAction::ChatStash));
    assert_eq!(resolve(&bindings, chat, "ctrl+s"), KeyResolution::Disabled);
    assert_eq!(resolve(&bindings, chat, "ctrl+x"), KeyResolution::Prefix);
    assert_eq!(resolve(&bindings, chat, "ctrl+x ctrl+s"), KeyResolution::Action(KeyAction::ChatSubmit));
    assert_eq!(resolve(&bindings, chat, "f2"), KeyResolution::Action(KeyAction::AppToggleTodos));
    assert_eq!(resolve(&bindings, chat, "ctrl+a"), KeyResolution::Unbound);
    assert_eq!(bindings.keys_for(chat, KeyAction::ChatStash).as_deref(), Some("alt+s"));
    assert_eq!(bindings.keys_for(chat, KeyAction::ChatExternalEditor).as_deref(), Some("ctrl+g"));
}

#[test]
fn a_mistake_costs_one_binding_and_is_named() {
    let (bindings, problems) = KeyBindings::parse(
        r#"{"bindings": [
            {"context": "Chta", "bindings": {}},
            {"bindings": {}},
            {"context": "Chat", "bindings": {
                "ctrl+c": "chat:submit", "ctrl+q": "chat:sbumit", "hyper+z": "chat:undo", "f3": 7,
                "f4": "diff:back", "f5": "chat:undo", "alt+k": "chat:undo", "opt+k": "chat:redo"}}
        ]}"#,
    );
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(problems.join("\n"), @r"
    there is no context `Chta`; there are Global, Chat, Autocomplete, HistorySearch, Confirmation, Select, Tabs, Transcript, Task, Settings, Help, ThemePicker, Attachments, Footer, MessageSelector, DiffDialog, ModelPicker, Plugin, Scroll
    entry 2 of `bindings` has no `context`
    Chat: `ctrl+c` is reserved and keeps its meaning
    Chat: there is no action `chat:sbumit`; did you mean `chat:submit`?
    Chat: `hyper+z` cannot be bound: `hyper` is no modifier
    Chat: the action of `f3` must be a text or null
    Chat: `diff:back` does not exist in gimlet; `f4` does nothing
    Chat: `opt+k` is bound twice; the last one counts
    ");
    assert_eq!(resolve(&bindings, KeyContext::Chat, "f5"), KeyResolution::Action(KeyAction::ChatUndo));
    assert_eq!(resolve(&bindings, KeyContext::Chat, "alt+k"), KeyResolution::Action(KeyAction::ChatRedo));
    assert_eq!(resolve(&bindings, KeyContext::Chat, "ctrl+c"), KeyResolution::Action(KeyAction::AppInterrupt));
}

#[test]
fn a_broken_file_leaves_the_defaults() {
    for text in ["{", "[]", "{\"bindings\": 3}", "nonsense"] {
        let (bindings, problems) = KeyBindings::parse(text);
        assert_eq!((bindings, problems.len()), (KeyBindings::default(), 1), "{text}");
    }
    assert_eq!(KeyBindings::parse(" \n"), (KeyBindings::default(), Vec::new()));
}
