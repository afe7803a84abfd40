//! What keys and events lead to.

use std::sync::Arc;

use gimlet_proto::{
    AgentPath, AskAnswer, AskView, CommandInfo, CommandKind, PermissionAsk, SessionId, SessionReplacement,
    SessionScope, TokenUsage, ToolUseId, TurnEnd, TurnReport, TurnSetup, View,
};
use serde_json::value::RawValue;

use super::*;
use crate::screen::ScreenSize;
use crate::theme::{ColorDepth, ScreenBackground};

const SIZE: ScreenSize = ScreenSize { columns: 80, rows: 24 };

fn options() -> AppOptions {
    AppOptions {
        theme: ColorTheme { background: ScreenBackground::Dark, depth: ColorDepth::None },
        glyphs: &GlyphSet::UNICODE,
        motion: MotionMode::Reduced,
        bindings: KeyBindings::default(),
        uses_vim: false,
        word_flavor: WordFlavor::Classic,
        new_entry_id: || EntryId::new("p1"),
        now_ms_since_1970: || 0,
        time_zone: || jiff::tz::TimeZone::UTC,
        remarks: Vec::new(),
        version: "1.0".to_owned(),
        branch: Some("main".to_owned()),
        first_prompt: None,
        notifies: true,
    }
}

fn snapshot() -> SessionSnapshot {
    let status = CommandInfo {
        name: "status".to_owned(),
        aliases: Vec::new(),
        description: "Show the state".to_owned(),
        argument_hint: String::new(),
        kind: CommandKind::Local,
    };
    SessionSnapshot {
        model: "claude-test-1".to_owned(),
        cwd: "/code/parser".into(),
        commands: Arc::from([status]),
        ..SessionSnapshot::default()
    }
}

/// An application with an open session.
pub(crate) struct TestApp {
    pub(crate) app: TerminalApp,
    pub(crate) now_ms: u64,
}

impl TestApp {
    pub(crate) fn new() -> Self {
        Self::with(options())
    }

    fn with(options: AppOptions) -> Self {
        let mut app = TerminalApp::new(options);
        drop(app.begin_session(&snapshot(), true, 0));
        Self { app, now_ms: 0 }
    }

    fn press(&mut self, code: KeyCode, modifiers: KeyModifiers) -> Vec<AppEffect> {
        self.now_ms += 10;
        self.app.update(AppInput::Terminal(TerminalInput::Key(KeyEvent::new(code, modifiers))), self.now_ms)
    }

    pub(crate) fn key(&mut self, code: KeyCode) -> Vec<AppEffect> {
        self.press(code, KeyModifiers::NONE)
    }

    fn control(&mut self, char: char) -> Vec<AppEffect> {
        self.press(KeyCode::Char(char), KeyModifiers::CONTROL)
    }

    fn type_text(&mut self, text: &str) {
        for char in text.chars() {
            let effects = self.key(KeyCode::Char(char));
            assert!(effects.is_empty(), "{char}: {effects:?}");
        }
    }

    /// Types a line and sends it; returns what it leads to, without the record in the history of prompts.
    pub(crate) fn enter(&mut self, text: &str) -> Vec<AppEffect> {
        self.type_text(text);
        let mut effects = self.key(KeyCode::Enter);
        effects.retain(|effect| !matches!(effect, AppEffect::SaveHistory(_)));
        effects
    }

    fn event(&mut self, body: EventBody) -> Vec<AppEffect> {
        let event = Event {
            seq: 0,
            session: SessionId::new("s"),
            agent: AgentPath::default(),
            at: Arc::from("2026-01-01T00:00:00.000Z"),
            body,
        };
        self.app.update(AppInput::Session(event), self.now_ms)
    }

    fn begin_turn(&mut self) {
        self.event(EventBody::TurnStarting(Arc::new(TurnSetup { model: "m".to_owned(), ..TurnSetup::default() })));
    }

    fn ask(&mut self, id: u64) {
        let call = PermissionAsk {
            tool: "Shell".to_owned(),
            server: None,
            call: ToolUseId::new(format!("call-{id}")),
            input: Arc::from(RawValue::from_string("{}".to_owned()).unwrap()),
            label: "Shell".to_owned(),
            summary: format!("rm file-{id}"),
            reason: "No rule allows it".to_owned(),
            reason_kind: "mode",
            path: None,
            suggestions: Vec::new(),
            preview: View::Text(format!("rm file-{id}")),
            destructive: true,
        };
        let body = AskBody::Permission(Box::new(call));
        let ask = AskView { id: AskId(id), agent: AgentPath::default(), agent_id: None, agent_type: None, body };
        self.event(EventBody::Ask(Box::new(ask)));
    }

    /// Returns the live region as text.
    pub(crate) fn screen(&mut self) -> String {
        let view = self.app.render(SIZE);
        view.full.as_ref().unwrap_or(&view.live).iter().map(|line| line.text().trim_end().to_owned() + "\n").collect()
    }

    /// Returns what is printed and the live region below it.
    pub(crate) fn whole_screen(&mut self) -> String {
        self.whole_screen_at(SIZE.columns, SIZE.rows)
    }

    pub(crate) fn whole_screen_at(&mut self, columns: usize, rows: usize) -> String {
        let view = self.app.render(ScreenSize { columns, rows });
        let lines = view.finished.iter().chain(&view.live);
        lines.map(|line| line.text().trim_end().to_owned() + "\n").collect()
    }
}

fn turn_report() -> TurnReport {
    TurnReport {
        end: TurnEnd::Completed,
        text: String::new(),
        stop_reason: None,
        num_turns: 1,
        duration_ms: 1,
        api_ms: 1,
        usage: TokenUsage::default(),
        last_usage: None,
        total_cost_usd: Some(0.0),
        by_model: Vec::new(),
        denials: Vec::new(),
        origin: None,
        queued: 0,
        structured_output: None,
    }
}

fn is_interrupt(effects: &[AppEffect]) -> bool {
    matches!(effects, [AppEffect::Send(Op::Interrupt { cancel_queued: false, .. })])
}

#[test]
fn enter_sends_a_prompt_and_commands_of_the_session_go_to_it() {
    let mut test = TestApp::new();
    let effects = test.enter("fix it");
    let [AppEffect::Send(Op::Submit(prompt))] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(prompt.typed_text().as_deref(), Some("fix it"));
    assert_eq!(prompt.uuid, Some(EntryId::new("p1")));
    assert!(matches!(test.enter("/status").as_slice(), [AppEffect::Send(Op::Submit(_))]));
    assert!(matches!(test.enter("/nonsense x").as_slice(), [AppEffect::Send(Op::Submit(_))]));
    assert!(matches!(test.enter("!ls").as_slice(), [AppEffect::RunShell(command)] if command == "ls"));
}

#[test]
fn commands_of_the_front_end_run_here() {
    let mut test = TestApp::new();
    assert!(matches!(test.enter("/resume").as_slice(), [AppEffect::ListSessions(SessionScope::Folder)]));
    let effects = test.enter("/clear");
    assert!(matches!(
        effects.as_slice(),
        [AppEffect::ClearScreen, AppEffect::ReplaceSession(SessionReplacement::Cleared { .. })]
    ));
    assert!(test.enter("/help").is_empty());
    let page = test.screen();
    assert!(page.contains("/branch [title]"), "{page}");
    test.key(KeyCode::End);
    let page = test.screen();
    assert!(page.contains("/status") && page.contains("Show the state") && page.contains("/rewind"), "{page}");
    test.key(KeyCode::Esc);
    assert!(test.screen().contains("Ask, or type / for commands"));
    test.enter("/theme");
    assert!(matches!(
        test.key(KeyCode::Char('2')).as_slice(),
        [AppEffect::SetTheme(ScreenBackground::Light), AppEffect::SaveUserSetting { key: "theme", .. }]
    ));
}

#[test]
fn escape_stops_a_turn_and_twice_clears_or_goes_back() {
    let mut test = TestApp::new();
    test.begin_turn();
    assert!(is_interrupt(&test.key(KeyCode::Esc)));
    let mut idle = TestApp::new();
    idle.type_text("a draft");
    assert!(idle.key(KeyCode::Esc).is_empty());
    assert!(idle.screen().contains("Press Esc again to clear"));
    assert!(matches!(idle.key(KeyCode::Esc).as_slice(), [AppEffect::SaveHistory(_)]));
    assert!(idle.app.composer.is_empty());
    idle.key(KeyCode::Esc);
    assert!(matches!(idle.key(KeyCode::Esc).as_slice(), [AppEffect::QueryHistory(HistoryUse::Rewind)]));
    // The two must follow each other closely, with nothing between them.
    idle.key(KeyCode::Esc);
    idle.now_ms += 2000;
    assert!(idle.key(KeyCode::Esc).is_empty());
    idle.key(KeyCode::Left);
    assert!(idle.key(KeyCode::Esc).is_empty());
}

#[test]
fn interrupt_and_exit_keys_need_a_second_press_to_leave() {
    let mut test = TestApp::new();
    test.begin_turn();
    assert!(is_interrupt(&test.control('c')));
    let mut idle = TestApp::new();
    idle.type_text("words");
    assert!(matches!(idle.control('c').as_slice(), [AppEffect::SaveHistory(_)]));
    assert!(idle.control('c').is_empty());
    assert!(idle.screen().contains("Press Ctrl+C again to exit"));
    assert!(matches!(idle.control('c').as_slice(), [AppEffect::Send(Op::Close)]));
    assert!(matches!(idle.event(EventBody::Closed).as_slice(), [AppEffect::Exit]));
    let mut other = TestApp::new();
    assert!(other.control('d').is_empty());
    assert!(matches!(other.control('d').as_slice(), [AppEffect::Send(Op::Close)]));
    // With text in front of it the key deletes.
    let mut text = TestApp::new();
    text.type_text("ab");
    text.key(KeyCode::Left);
    assert!(text.control('d').is_empty());
    assert_eq!(text.app.composer.text(), "a");
}

#[test]
fn modes_go_round_and_thinking_is_switched() {
    let mut test = TestApp::new();
    for mode in [PermissionMode::AcceptEdits, PermissionMode::Plan, PermissionMode::Default] {
        let effects = test.press(KeyCode::BackTab, KeyModifiers::SHIFT);
        assert!(matches!(effects.as_slice(), [AppEffect::SetMode(next)] if *next == mode), "{effects:?}");
        test.event(EventBody::ModeChanged(mode));
    }
    let alt = |test: &mut TestApp| test.press(KeyCode::Char('t'), KeyModifiers::ALT);
    assert!(matches!(alt(&mut test).as_slice(), [AppEffect::SetThinking(Some(ThinkingMode::Off))]));
    assert!(matches!(alt(&mut test).as_slice(), [AppEffect::SetThinking(None)]));
    assert!(matches!(test.control('o').as_slice(), [AppEffect::QueryHistory(HistoryUse::Transcript(None))]));
    assert!(matches!(test.control('z').as_slice(), [AppEffect::Suspend]));
}

#[test]
fn prompts_wait_while_a_turn_runs_and_can_be_called_back() {
    let mut test = TestApp::new();
    test.begin_turn();
    test.enter("and the lexer");
    let screen = test.screen();
    assert!(screen.contains("1 queued") && screen.contains("❯ and the lexer"), "{screen}");
    let effects = test.key(KeyCode::Up);
    assert!(matches!(effects.as_slice(), [AppEffect::Withdraw(id)] if *id == EntryId::new("p1")));
    let reply = AppReply::Withdrawn { prompt: EntryId::new("p1"), was_waiting: true };
    test.app.update(AppInput::Reply(reply), test.now_ms);
    assert_eq!(test.app.composer.text(), "and the lexer");
    assert!(!test.screen().contains("queued"));
}

#[test]
fn what_is_typed_for_the_draft_does_not_answer_a_question_that_opens_meanwhile() {
    let mut test = TestApp::new();
    test.begin_turn();
    test.type_text("step ");
    test.ask(1);
    assert_eq!(test.key(KeyCode::Char('1')).len(), 0);
    assert_eq!(test.key(KeyCode::Enter).len(), 0);
    assert!(test.screen().contains("rm file-1"), "it is still open");
    test.now_ms += 500;
    assert!(matches!(test.key(KeyCode::Char('1')).as_slice(), [AppEffect::Send(Op::Answer { .. })]));
    assert_eq!(test.app.composer.text(), "step ");
}

#[test]
fn a_question_after_a_sent_prompt_takes_keys_at_once() {
    let mut test = TestApp::new();
    test.enter("go");
    test.begin_turn();
    test.ask(1);
    assert!(matches!(test.key(KeyCode::Enter).as_slice(), [AppEffect::Send(Op::Answer { .. })]));
}

#[test]
fn settings_change_at_once_and_for_later_sessions() {
    let mut test = TestApp::new();
    assert!(matches!(test.enter("/config").as_slice(), [AppEffect::QuerySettings]));
    let settings = gimlet_proto::SettingsView { effective: serde_json::json!({}), ..Default::default() };
    test.app.update(AppInput::Reply(AppReply::Settings(Ok(settings))), test.now_ms);
    assert!(test.screen().contains("Editing: normal"));
    for code in [KeyCode::Down, KeyCode::Down, KeyCode::Char(' '), KeyCode::Up, KeyCode::Up, KeyCode::Up, KeyCode::Up] {
        test.key(code);
    }
    let effects = test.key(KeyCode::Enter);
    let [AppEffect::SaveUserSetting { key: "editorMode", value }] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(value, "vim");
    assert!(test.screen().contains("INSERT"));
    test.type_text("hello");
    test.key(KeyCode::Esc);
    assert!(test.screen().contains("NORMAL"));
    let effects = test.key(KeyCode::Enter);
    assert!(matches!(effects.last(), Some(AppEffect::Send(Op::Submit(_)))), "Enter sends in both: {effects:?}");
}

#[test]
fn questions_come_one_after_the_other_and_keep_the_draft() {
    let mut test = TestApp::new();
    test.type_text("my draft");
    test.now_ms += 1000;
    test.begin_turn();
    test.ask(1);
    test.ask(2);
    let screen = test.screen();
    assert!(screen.contains("rm file-1") && screen.contains("1 more after this"), "{screen}");
    assert!(!screen.contains("my draft"));
    let effects = test.key(KeyCode::Enter);
    let [AppEffect::Send(Op::Answer { ask: AskId(1), answer: AskAnswer::Yes(_) })] = effects.as_slice() else {
        panic!("{effects:?}")
    };
    assert!(test.screen().contains("rm file-2"));
    test.event(EventBody::AskClosed(AskId(2)));
    assert!(test.screen().contains("my draft"));
}

#[test]
fn a_question_can_be_refused_and_interrupted() {
    let mut test = TestApp::new();
    test.begin_turn();
    test.ask(1);
    let effects = test.key(KeyCode::Esc);
    assert!(matches!(effects.as_slice(), [AppEffect::Send(Op::Answer { answer: AskAnswer::No { .. }, .. })]));
    test.ask(2);
    assert!(is_interrupt(&test.control('c')));
    assert!(!test.app.asks.is_open());
}

#[test]
fn the_first_prompt_is_sent_and_the_header_names_what_runs() {
    let mut app = TerminalApp::new(AppOptions { first_prompt: Some("go".to_owned()), ..options() });
    let effects = app.begin_session(&snapshot(), true, 0);
    assert!(effects.iter().any(|effect| matches!(effect, AppEffect::Send(Op::Submit(_)))));
    let finished: Vec<String> = app.render(SIZE).finished.iter().map(StyledLine::text).collect();
    assert_eq!(finished[1], "  gimlet 1.0 · test-1 · /code/parser  main");
    assert!(app.render(SIZE).finished.is_empty(), "finished lines are handed out once");
}

#[test]
fn what_was_said_last_is_printed_although_another_session_begins() {
    let mut test = TestApp::new();
    test.app.render(SIZE);
    test.app.notice(NoticeLevel::Info, "Restored 2 files");
    drop(test.app.begin_session(&snapshot(), false, 5));
    let finished: Vec<String> = test.app.render(SIZE).finished.iter().map(StyledLine::text).collect();
    assert!(finished.iter().any(|line| line.contains("Restored 2 files")), "{finished:?}");
}

#[test]
fn every_size_of_screen_shows_the_input() {
    for (columns, rows) in [(80, 24), (40, 15), (20, 8), (10, 3), (5, 1), (1, 1)] {
        let mut test = TestApp::new();
        test.type_text("x");
        test.begin_turn();
        let view = test.app.render(ScreenSize { columns, rows });
        assert!(view.live.len() <= rows, "{columns}×{rows}: {} rows", view.live.len());
        assert!(view.cursor.is_some_and(|cursor| cursor.row < rows), "{columns}×{rows}: {:?}", view.cursor);
    }
}

#[test]
fn notifications_come_only_while_the_terminal_is_not_watched() {
    let mut test = TestApp::new();
    let notifies = |effects: &[AppEffect]| {
        effects.iter().any(|effect| matches!(effect, AppEffect::Signal(TerminalSignal::Notify(_))))
    };
    test.begin_turn();
    assert!(!notifies(&test.event(EventBody::AskClosed(AskId(9)))));
    test.app.update(AppInput::Terminal(TerminalInput::Focus(false)), 5);
    let call = EventBody::Notice(gimlet_proto::Notice { level: NoticeLevel::Info, text: "x".to_owned() });
    assert!(!notifies(&test.event(call)));
    test.ask(1);
    assert!(test.app.attention("x").is_some());
}

fn prompt_event() -> EventBody {
    EventBody::Prompt(gimlet_proto::AcceptedPrompt {
        uuid: EntryId::new("e"),
        blocks: Vec::new(),
        plain: true,
        synthetic: true,
        origin: None,
    })
}

#[test]
fn an_open_transcript_follows_the_conversation() {
    let mut test = TestApp::new();
    let item = |text: &str| gimlet_proto::HistoryItem {
        entry: EntryId::new("e"),
        role: gimlet_proto::Role::User,
        at: None,
        body: gimlet_proto::HistoryBody::Prompt(vec![gimlet_proto::Block::text(text)]),
    };
    let reply = |used_for| AppInput::Reply(AppReply::History { items: vec![item("first"), item("second")], used_for });
    assert!(test.event(prompt_event()).iter().all(|effect| !matches!(effect, AppEffect::QueryHistory(_))));
    test.app.update(reply(HistoryUse::Transcript(None)), 10);
    assert!(test.screen().contains("❯ second"));
    assert!(test.app.tick_ms().is_none(), "nothing moves");
    let is_query = |effects: &[AppEffect]| {
        effects.iter().any(|effect| matches!(effect, AppEffect::QueryHistory(HistoryUse::Refresh(None))))
    };
    assert!(is_query(&test.event(prompt_event())));
    assert!(!is_query(&test.event(prompt_event())), "one at a time");
    assert!(is_query(&test.app.update(reply(HistoryUse::Refresh(None)), 20)), "and once more for what came meanwhile");
    assert!(!is_query(&test.app.update(reply(HistoryUse::Refresh(None)), 30)));
    test.key(KeyCode::Esc);
    test.app.update(reply(HistoryUse::Refresh(None)), 40);
    assert!(test.screen().contains("Ask, or type"), "a late answer opens nothing");
}

#[test]
fn what_would_end_a_turn_waits_for_its_end() {
    let mut test = TestApp::new();
    test.begin_turn();
    assert!(test.enter("/clear").is_empty());
    assert!(test.enter("!ls").is_empty());
    assert!(matches!(test.enter("/permissions").as_slice(), [AppEffect::QueryPermissions]), "this one does not wait");
    let screen = test.screen();
    assert!(screen.contains("2 queued") && screen.contains("❯ /clear") && screen.contains("❯ !ls"), "{screen}");
    let effects = test.event(EventBody::TurnEnded(Box::new(turn_report())));
    let ran: Vec<&AppEffect> = effects
        .iter()
        .filter(|effect| matches!(effect, AppEffect::ReplaceSession(_) | AppEffect::RunShell(_)))
        .collect();
    assert!(matches!(ran.as_slice(), [AppEffect::ReplaceSession(_), AppEffect::RunShell(_)]), "{effects:?}");
    assert!(!test.screen().contains("queued"));
}

#[test]
fn waiting_commands_come_back_with_the_up_key() {
    let mut test = TestApp::new();
    test.begin_turn();
    test.enter("/clear");
    test.key(KeyCode::Up);
    assert_eq!(test.app.composer.text(), "/clear");
    let effects = test.event(EventBody::TurnEnded(Box::new(turn_report())));
    assert!(!effects.iter().any(|effect| matches!(effect, AppEffect::ReplaceSession(_))), "{effects:?}");
}

#[test]
fn a_side_question_is_given_up_with_its_page() {
    let mut test = TestApp::new();
    assert!(matches!(test.enter("/btw why?").as_slice(), [AppEffect::AskAside(question)] if question == "why?"));
    assert!(test.screen().contains("Asking…"));
    assert!(matches!(test.key(KeyCode::Esc).as_slice(), [AppEffect::CancelAside]));
    let late = AppReply::Aside { question: "why?".to_owned(), answer: Ok("Because.".to_owned()) };
    test.app.update(AppInput::Reply(late), test.now_ms);
    assert!(!test.whole_screen().contains("Because."));
}
