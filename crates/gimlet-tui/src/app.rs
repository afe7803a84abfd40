//! State of the terminal front end and how keys, events and time change it. Does no I/O: what is to be done comes out as
//! effects, what is to be shown as lines.

mod app_view;
mod effects;
mod header;
mod held_input;
mod help_view;
mod pager_control;
mod pager_view;
mod prompt_queue;
mod repeated_keys;
mod reply_handler;
mod status_facts;
mod text_page;

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use gimlet_proto::{
    AskBody, AskId, EntryId, Event, EventBody, NoticeLevel, Op, PermissionMode, PromptOutcome, PromptTiming,
    SessionSnapshot, SubmittedPrompt, ThinkingMode,
};

pub use app_view::AppView;
pub use effects::{
    AppEffect, AppReply, HistoryUse, RewindRequest, RewindTarget, ServerChange, ServerListUse, ShellOutput,
    TerminalSignal,
};
pub use pager_view::TaskLabel;
pub use status_facts::StatusFacts;
pub(crate) use text_page::PageContent;

use crate::commands;
use crate::composer::{
    ComposedPrompt, ComposerOutcome, ComposerRequest, ComposerSurroundings, InputKind, PromptComposer, WordFlavor,
};
use crate::dialogs::{AskQueue, CommandForm, DialogEffect, DialogOutcome};
use crate::feed::{FeedBlock, FeedModel, MotionMode};
use crate::glyphs::{GlyphSet, RenderContext};
use crate::key_bindings::{KeyAction, KeyBindings};
use crate::pickers::{AppPicker, ChoicePicker, PickerOutcome};
use crate::screen::key_reader::TerminalInput;
use crate::styled_line::StyledLine;
use crate::theme::ColorTheme;
use held_input::{HeldInput, HeldKind};
use pager_control::PagerRefresh;
use pager_view::PagerView;
use prompt_queue::PromptQueue;
use repeated_keys::RepeatedKey;
use text_page::TextPage;

/// A draft counts as being typed until so long after its last key.
const TYPING_PAUSE_MS: u64 = 700;
/// Time after which the output of a command that is shown is read again.
const OUTPUT_REFRESH_MS: u64 = 1_000;
/// Time for which a question that opens meanwhile takes no key.
const ASK_GUARD_MS: u64 = 500;

/// Something that happened.
#[derive(Debug)]
pub enum AppInput {
    Terminal(TerminalInput),
    /// The session published an event.
    Session(Event),
    Snapshot(Arc<SessionSnapshot>),
    Reply(AppReply),
    /// Time passed.
    Tick,
}

/// What the front end is set to and cannot find out by itself.
#[derive(Clone, Debug)]
pub struct AppOptions {
    pub theme: ColorTheme,
    pub glyphs: &'static GlyphSet,
    pub motion: MotionMode,
    pub bindings: KeyBindings,
    /// True if the prompt is edited in vim's modes.
    pub uses_vim: bool,
    pub word_flavor: WordFlavor,
    /// Makes ids for prompts.
    pub new_entry_id: fn() -> EntryId,
    /// Reads the clock: milliseconds since 1970.
    pub now_ms_since_1970: fn() -> i64,
    /// Returns the zone in which times are shown.
    pub time_zone: fn() -> jiff::tz::TimeZone,
    /// Warnings about the user's own files, shown above the first prompt.
    pub remarks: Vec<String>,
    /// The program's version.
    pub version: String,
    /// The branch of the repository around the folder.
    pub branch: Option<String>,
    /// Sent as soon as the session is open.
    pub first_prompt: Option<String>,
    pub notifies: bool,
}

/// The front end of one terminal.
pub struct TerminalApp {
    options: AppOptions,
    feed: FeedModel,
    composer: PromptComposer,
    facts: StatusFacts,
    queue: PromptQueue,
    /// What was typed during a turn and waits for its end.
    held: HeldInput,
    asks: AskQueue,
    /// The question whether the folder is trusted, while it is open.
    trust_ask: Option<AskId>,
    overlay: Option<AppOverlay>,
    pager_refresh: PagerRefresh,
    /// A question beside the conversation that has no answer yet.
    pending_aside: Option<String>,
    /// Lines that are to be printed before what the feed has.
    printed: Vec<StyledLine>,
    /// A remark in the footer until the next key.
    hint: Option<String>,
    escape_twice: RepeatedKey,
    interrupt_twice: RepeatedKey,
    exit_twice: RepeatedKey,
    leaving: LeavingState,
    has_focus: bool,
    /// True if the last line that was printed is blank.
    ends_blank: bool,
    /// Width of the last picture.
    columns: usize,
    thinking_off: bool,
    now_ms: u64,
    /// Time of the last key in the input.
    typed_at_ms: Option<u64>,
    /// Until then a question takes no key: what was typed for the input must not answer it.
    ask_opens_at_ms: u64,
}

/// Something that takes the place of the input or of the whole screen.
enum AppOverlay {
    AppPicker(AppPicker),
    Page(TextPage),
    /// A long text that takes the whole screen.
    Pager(PagerView),
}

/// How far the front end is from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeavingState {
    Staying,
    /// The session was asked to close.
    Closing,
}

impl TerminalApp {
    pub fn new(options: AppOptions) -> Self {
        let mut composer = PromptComposer::new(options.bindings.clone());
        composer.set_vim(options.uses_vim);
        composer.set_word_flavor(options.word_flavor);
        Self {
            feed: FeedModel::new(options.motion),
            composer,
            facts: StatusFacts::default(),
            queue: PromptQueue::default(),
            held: HeldInput::default(),
            asks: AskQueue::default(),
            trust_ask: None,
            overlay: None,
            pager_refresh: PagerRefresh::default(),
            pending_aside: None,
            printed: Vec::new(),
            hint: None,
            escape_twice: RepeatedKey::new(800),
            interrupt_twice: RepeatedKey::new(1500),
            exit_twice: RepeatedKey::new(800),
            leaving: LeavingState::Staying,
            has_focus: true,
            ends_blank: false,
            columns: 80,
            thinking_off: false,
            now_ms: 0,
            typed_at_ms: None,
            ask_opens_at_ms: 0,
            options,
        }
    }

    /// Returns the time after which what is shown has changed without an event; `None` if it stays as it is.
    pub fn tick_ms(&self) -> Option<u64> {
        match &self.overlay {
            Some(AppOverlay::Pager(view)) => view.command().map(|_| OUTPUT_REFRESH_MS),
            _ => self.feed.tick_ms(),
        }
    }

    pub fn is_busy(&self) -> bool {
        self.feed.is_busy()
    }

    pub fn composer_mut(&mut self) -> &mut PromptComposer {
        &mut self.composer
    }

    pub fn facts_mut(&mut self) -> &mut StatusFacts {
        &mut self.facts
    }

    /// Takes in what happened at this time (milliseconds since the start); returns what is to be done.
    pub fn update(&mut self, input: AppInput, now_ms: u64) -> Vec<AppEffect> {
        self.now_ms = now_ms;
        self.feed.set_clock(now_ms);
        let mut effects = match input {
            AppInput::Terminal(TerminalInput::Key(key)) => self.handle_key(key),
            AppInput::Terminal(TerminalInput::Paste(text)) => self.handle_paste(&text),
            AppInput::Terminal(TerminalInput::Focus(has_focus)) => {
                self.has_focus = has_focus;
                Vec::new()
            }
            AppInput::Terminal(TerminalInput::Wheel(lines)) => {
                if let Some(AppOverlay::Pager(view)) = &mut self.overlay {
                    view.scroll(i64::from(lines));
                }
                Vec::new()
            }
            AppInput::Terminal(TerminalInput::Closed) => vec![AppEffect::Exit],
            AppInput::Session(event) => self.handle_event(&event),
            AppInput::Snapshot(snapshot) => {
                self.take_snapshot(&snapshot);
                Vec::new()
            }
            AppInput::Reply(reply) => self.handle_reply(reply),
            AppInput::Tick => self.follow_output().into_iter().collect(),
        };
        self.composer.set_surroundings(ComposerSurroundings {
            queued: self.queue.len() + self.held.len(),
            has_foreground_call: self.feed.is_busy(),
        });
        effects.retain(|effect| !matches!(effect, AppEffect::Nothing));
        effects
    }

    // For commands

    pub(crate) fn facts(&self) -> &StatusFacts {
        &self.facts
    }

    pub(crate) fn theme(&self) -> ColorTheme {
        self.options.theme
    }

    /// Shows a page of text in place of the input.
    pub(crate) fn open_page(&mut self, title: &str, lines: Vec<StyledLine>) {
        self.overlay = Some(AppOverlay::Page(TextPage::new(title, lines)));
    }

    /// Shows a page that is laid out for the screen's width.
    pub(crate) fn open_page_of(&mut self, title: &str, content: PageContent) {
        self.overlay = Some(AppOverlay::Page(TextPage::with_content(title, content)));
    }

    /// Shows a form in place of the input.
    pub(crate) fn open_form(&mut self, form: CommandForm) {
        let form = form.with_bindings(self.composer.bindings());
        self.overlay = Some(AppOverlay::AppPicker(AppPicker::Form(form)));
    }

    /// Shows that a question beside the conversation is being answered.
    pub(crate) fn open_aside(&mut self, question: &str) {
        self.pending_aside = Some(question.to_owned());
        self.overlay =
            Some(AppOverlay::Page(TextPage::with_content(question, PageContent::Markdown("Asking…".to_owned()))));
    }

    /// Returns true in vim's modes.
    pub(crate) fn uses_vim(&self) -> bool {
        self.composer.vim_mode().is_some()
    }

    /// Shows a list of choices in place of the input.
    pub(crate) fn open_choices(&mut self, picker: ChoicePicker) {
        self.open_app_picker(AppPicker::Choices(picker));
    }

    /// Shows a picker in place of the input.
    pub(crate) fn open_app_picker(&mut self, picker: AppPicker) {
        self.overlay = Some(AppOverlay::AppPicker(picker));
    }

    /// Prints a line about what was done.
    pub(crate) fn remark(&mut self, text: impl Into<String>) {
        self.feed.push_notice(NoticeLevel::Info, text);
    }

    /// Prints a line about what cannot be done; returns no effects.
    pub(crate) fn warn(&mut self, text: &str) -> Vec<AppEffect> {
        self.feed.push_notice(NoticeLevel::Warning, text);
        Vec::new()
    }

    /// Notes what effects change here; returns them to be carried out.
    pub(crate) fn apply(&mut self, effects: Vec<AppEffect>) -> Vec<AppEffect> {
        self.prepare_effects(effects)
    }

    // The session

    /// Takes up a session: the first one, or one in place of another.
    pub fn begin_session(&mut self, snapshot: &SessionSnapshot, is_first: bool, now_ms: u64) -> Vec<AppEffect> {
        self.now_ms = now_ms;
        self.feed.set_clock(now_ms);
        if !is_first {
            self.facts.forget_session();
        }
        self.take_snapshot(snapshot);
        self.asks.clear();
        self.trust_ask = None;
        if is_first {
            self.printed.extend(header::header_lines(&self.options, &self.facts, snapshot));
            for remark in std::mem::take(&mut self.options.remarks) {
                self.feed.push_notice(NoticeLevel::Warning, remark);
            }
        } else {
            // What was said last is still to be printed.
            let cx = RenderContext { theme: &self.options.theme, glyphs: self.options.glyphs, width: self.columns };
            self.printed.extend(self.feed.take_finished(&cx));
            self.feed = FeedModel::new(self.options.motion);
            self.feed.set_clock(self.now_ms);
        }
        let mut effects = vec![AppEffect::QueryContext, self.title_effect()];
        if let Some(prompt) = self.options.first_prompt.take() {
            effects.extend(self.submit(&ComposedPrompt::from_text(&prompt)));
        }
        effects
    }

    fn take_snapshot(&mut self, snapshot: &SessionSnapshot) {
        let has_new_commands = !Arc::ptr_eq(&self.facts.commands, &snapshot.commands);
        self.facts.take_snapshot(snapshot);
        if has_new_commands {
            self.composer.set_commands(commands::all_commands(&self.facts.commands));
        }
    }

    /// Prints a line of the program's own.
    pub fn notice(&mut self, level: NoticeLevel, text: impl Into<String>) {
        self.feed.push_notice(level, text);
    }

    /// Prints a block of the program's own.
    pub(crate) fn show_block(&mut self, block: FeedBlock) {
        self.feed.push_block(block);
    }

    /// Asks for a key, because there is none; closing the form leaves.
    pub(crate) fn ask_for_key(&mut self, advice: &str) {
        self.open_form(commands::login_form(&[advice]));
    }

    /// Prints lines above the input.
    pub fn print(&mut self, lines: impl IntoIterator<Item = StyledLine>) {
        self.printed.extend(lines);
    }

    fn handle_event(&mut self, event: &Event) -> Vec<AppEffect> {
        self.feed.apply(event);
        let mut effects: Vec<AppEffect> = self.follow_conversation(event).into_iter().collect();
        match &event.body {
            EventBody::TurnStarting(setup) if event.agent.parent_tool_use().is_none() => {
                self.facts.model.clone_from(&setup.model);
                effects.push(AppEffect::Signal(TerminalSignal::Progress(true)));
                effects.push(self.title_effect());
            }
            EventBody::Prompt(prompt) => self.queue.remove(&prompt.uuid),
            EventBody::PromptOutcome { prompt, outcome } => {
                if let Some(text) = self.queue.take(prompt)
                    && *outcome != PromptOutcome::Accepted
                {
                    // What was typed is never lost.
                    self.composer.recall_text(&text);
                }
            }
            EventBody::Ask(ask) => {
                if matches!(ask.body, AskBody::Trust(_)) {
                    self.trust_ask = Some(ask.id);
                }
                self.guard_against_typing();
                self.asks.push((**ask).clone(), self.composer.bindings());
                self.overlay_gives_way();
                effects.extend(self.attention("gimlet needs an answer"));
            }
            EventBody::AskClosed(id) => self.close_ask(*id),
            EventBody::ModeChanged(mode) => self.facts.mode = *mode,
            EventBody::Tool(call) => self.facts.take_call(call),
            EventBody::TurnEnded(report) if event.agent.parent_tool_use().is_none() => {
                self.facts.take_report(report);
                effects.push(AppEffect::QueryContext);
                effects.push(AppEffect::Signal(TerminalSignal::Progress(false)));
                effects.push(self.title_effect());
                effects.extend(self.attention("gimlet is done"));
                effects.extend(self.run_held_input());
            }
            EventBody::Task(task) => self.facts.take_task(task),
            EventBody::Closed if self.leaving == LeavingState::Closing => effects.push(AppEffect::Exit),
            _ => {}
        }
        effects
    }

    /// A question takes precedence over pickers and pages; the transcript stays until it is left.
    fn overlay_gives_way(&mut self) {
        if matches!(self.overlay, Some(AppOverlay::Page(_))) {
            self.overlay = None;
        }
    }

    fn attention(&self, text: &str) -> Option<AppEffect> {
        let wants = self.options.notifies && !self.has_focus;
        wants.then(|| AppEffect::Signal(TerminalSignal::Notify(text.to_owned())))
    }

    fn title_effect(&self) -> AppEffect {
        let mark = if self.feed.is_busy() { "* " } else { "" };
        AppEffect::Signal(TerminalSignal::Title(format!("{mark}gimlet · {}", self.facts.folder_name())))
    }

    // Keys

    fn handle_paste(&mut self, text: &str) -> Vec<AppEffect> {
        if let Some(dialog) = self.asks.open() {
            dialog.handle_paste(text);
            return Vec::new();
        }
        if let Some(AppOverlay::AppPicker(picker)) = &mut self.overlay {
            picker.paste(text);
            return Vec::new();
        }
        let outcome = self.composer.handle_paste(text);
        self.take_composer_outcome(outcome)
    }

    fn handle_key(&mut self, key: KeyEvent) -> Vec<AppEffect> {
        self.hint = None;
        if matches!(self.overlay, Some(AppOverlay::Pager(_))) {
            return self.handle_pager_key(key);
        }
        if self.asks.is_open() {
            return self.handle_ask_key(key);
        }
        match &mut self.overlay {
            Some(AppOverlay::AppPicker(picker)) => {
                let outcome = picker.handle_key(key);
                self.take_picker_outcome(outcome)
            }
            Some(AppOverlay::Page(page)) => {
                if page.handle_key(key) {
                    return Vec::new();
                }
                self.overlay = None;
                match self.pending_aside.take() {
                    Some(_) => vec![AppEffect::CancelAside],
                    None => Vec::new(),
                }
            }
            Some(AppOverlay::Pager(_)) | None => {
                self.typed_at_ms = Some(self.now_ms);
                let outcome = self.composer.handle_key(key);
                let must_keep_escape = key.code == KeyCode::Esc;
                if !must_keep_escape {
                    self.escape_twice.forget();
                }
                self.take_composer_outcome(outcome)
            }
        }
    }

    fn handle_ask_key(&mut self, key: KeyEvent) -> Vec<AppEffect> {
        let is_interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        let is_transcript = key.code == KeyCode::Char('o') && key.modifiers.contains(KeyModifiers::CONTROL);
        if is_transcript {
            return vec![AppEffect::QueryHistory(HistoryUse::Transcript(None))];
        }
        let is_typed_ahead = self.now_ms < self.ask_opens_at_ms && key.code != KeyCode::Esc;
        let Some(dialog) = self.asks.open() else { return Vec::new() };
        let id = *dialog.id();
        if is_typed_ahead && !is_interrupt {
            return Vec::new();
        }
        if is_interrupt {
            self.asks.clear();
            return if self.trust_ask == Some(id) { self.leave() } else { vec![AppEffect::Send(Op::interrupt())] };
        }
        match dialog.handle_key(key) {
            DialogOutcome::Ignored | DialogOutcome::Changed => Vec::new(),
            DialogOutcome::EditExternally { text } => vec![AppEffect::EditExternally(text)],
            DialogOutcome::Answer { answer, effect } => {
                self.escape_twice.forget();
                self.close_ask(id);
                let mut effects = vec![AppEffect::Send(Op::Answer { ask: id, answer })];
                match effect {
                    None => {}
                    Some(DialogEffect::SetMode(mode)) => effects.push(AppEffect::SetMode(mode)),
                    Some(DialogEffect::OpenUrl(url)) => effects.push(AppEffect::OpenUrl(url)),
                    Some(DialogEffect::Leave) => effects.extend(self.leave()),
                }
                effects
            }
        }
    }

    /// Keeps a question that opens while a draft is being typed from taking the letters meant for the draft.
    fn guard_against_typing(&mut self) {
        let is_typing = self.typed_at_ms.is_some_and(|typed| self.now_ms.saturating_sub(typed) < TYPING_PAUSE_MS);
        if is_typing && !self.asks.is_open() && !self.composer.is_empty() {
            self.ask_opens_at_ms = self.now_ms + ASK_GUARD_MS;
        }
    }

    fn close_ask(&mut self, id: AskId) {
        if self.trust_ask == Some(id) {
            self.trust_ask = None;
        }
        self.asks.close(&id, self.composer.bindings());
    }

    fn take_picker_outcome(&mut self, outcome: PickerOutcome) -> Vec<AppEffect> {
        match outcome {
            PickerOutcome::Stays => Vec::new(),
            PickerOutcome::StaysAnd(effects) => effects,
            PickerOutcome::Closes => {
                self.overlay = None;
                if self.facts.is_open { Vec::new() } else { vec![AppEffect::Exit] }
            }
            PickerOutcome::Chooses(effects) => {
                self.overlay = None;
                self.prepare_effects(effects)
            }
            PickerOutcome::Opens(picker) => {
                self.overlay = Some(AppOverlay::AppPicker(*picker));
                Vec::new()
            }
            PickerOutcome::Restores { text, effects } => {
                self.overlay = None;
                self.composer.replace_text(&text);
                self.prepare_effects(effects)
            }
        }
    }

    /// Notes what effects change here before they are carried out.
    fn prepare_effects(&mut self, effects: Vec<AppEffect>) -> Vec<AppEffect> {
        let mut prepared = Vec::with_capacity(effects.len());
        for effect in effects {
            match &effect {
                AppEffect::SetTheme(theme) => self.options.theme.background = *theme,
                AppEffect::SaveUserSetting { key: "editorMode", value } => self.composer.set_vim(value == "vim"),
                AppEffect::SaveUserSetting { key: "keybindingFlavor", value } => {
                    self.composer.set_word_flavor(WordFlavor::from_setting(value));
                }
                AppEffect::SetModel(Some(model)) => self.facts.model.clone_from(model),
                _ => {}
            }
            match effect {
                AppEffect::Open(picker) => self.overlay = Some(AppOverlay::AppPicker(*picker)),
                effect => prepared.push(effect),
            }
        }
        prepared
    }

    fn take_composer_outcome(&mut self, outcome: ComposerOutcome) -> Vec<AppEffect> {
        match outcome {
            ComposerOutcome::Ignored | ComposerOutcome::Changed => Vec::new(),
            ComposerOutcome::Submit(prompt) => self.submit(&prompt),
            ComposerOutcome::Request(request) => self.take_request(request),
            ComposerOutcome::Action(action) => self.run_action(action),
        }
    }

    fn take_request(&mut self, request: ComposerRequest) -> Vec<AppEffect> {
        match request {
            ComposerRequest::ShowHelp => {
                self.overlay = Some(AppOverlay::Page(help_view::key_page(self.composer.bindings())));
                Vec::new()
            }
            ComposerRequest::EditExternally { text } => vec![AppEffect::EditExternally(text)],
            ComposerRequest::ReadClipboard => vec![AppEffect::ReadClipboard],
            ComposerRequest::ReadImages { paths, pasted } => vec![AppEffect::ReadImages { paths, pasted }],
            ComposerRequest::RecallQueued => {
                for text in self.held.take_texts() {
                    self.composer.recall_text(&text);
                }
                self.queue.ids().map(AppEffect::Withdraw).collect()
            }
            ComposerRequest::SuggestFiles { query, generation } => vec![AppEffect::SuggestFiles { query, generation }],
            ComposerRequest::ReadFullHistory => vec![AppEffect::ReadFullHistory],
        }
    }

    /// Carries out an action that is not the editor's.
    fn run_action(&mut self, action: KeyAction) -> Vec<AppEffect> {
        match action {
            KeyAction::AppInterrupt => self.press_interrupt(),
            KeyAction::AppExit => self.press_exit(),
            KeyAction::AppRedraw => vec![AppEffect::Redraw],
            KeyAction::ChatClearScreen => vec![AppEffect::ClearScreen],
            KeyAction::AppToggleTodos => {
                self.feed.toggle_todos();
                Vec::new()
            }
            KeyAction::AppToggleTranscript => vec![AppEffect::QueryHistory(HistoryUse::Transcript(None))],
            KeyAction::AppSuspend => vec![AppEffect::Suspend],
            KeyAction::ChatCancel => self.press_escape(),
            KeyAction::ChatCycleMode => vec![AppEffect::SetMode(next_mode(self.facts.mode))],
            KeyAction::ChatModelPicker => commands::run_by_name(self, "model", ""),
            KeyAction::ChatThinkingToggle => self.toggle_thinking(),
            KeyAction::ChatKillAgents => vec![AppEffect::StopAgents],
            KeyAction::TaskBackground => vec![AppEffect::MoveToBackground],
            _ => Vec::new(),
        }
    }

    fn press_escape(&mut self) -> Vec<AppEffect> {
        if self.feed.is_busy() {
            self.escape_twice.forget();
            return vec![AppEffect::Send(Op::interrupt())];
        }
        if !self.escape_twice.press(self.now_ms) {
            if !self.composer.is_empty() {
                self.hint = Some("Press Esc again to clear".to_owned());
            }
            return Vec::new();
        }
        self.hint = None;
        if self.composer.is_empty() {
            return commands::run_by_name(self, "rewind", "");
        }
        self.clear_draft()
    }

    fn clear_draft(&mut self) -> Vec<AppEffect> {
        let now = (self.options.now_ms_since_1970)();
        self.composer.clear_to_history(now).map(AppEffect::SaveHistory).into_iter().collect()
    }

    fn press_interrupt(&mut self) -> Vec<AppEffect> {
        if self.leaving == LeavingState::Closing {
            return vec![AppEffect::Exit];
        }
        if self.feed.is_busy() {
            return vec![AppEffect::Send(Op::interrupt())];
        }
        if !self.composer.is_empty() {
            return self.clear_draft();
        }
        if self.interrupt_twice.press(self.now_ms) {
            return self.leave();
        }
        self.hint = Some("Press Ctrl+C again to exit".to_owned());
        Vec::new()
    }

    fn press_exit(&mut self) -> Vec<AppEffect> {
        if self.leaving == LeavingState::Closing {
            return vec![AppEffect::Exit];
        }
        if self.exit_twice.press(self.now_ms) {
            return self.leave();
        }
        self.hint = Some("Press Ctrl+D again to exit".to_owned());
        Vec::new()
    }

    /// Ends the session; the front end ends with it.
    pub fn leave(&mut self) -> Vec<AppEffect> {
        if !self.facts.is_open || self.leaving == LeavingState::Closing {
            return vec![AppEffect::Exit];
        }
        self.leaving = LeavingState::Closing;
        vec![AppEffect::Send(Op::Close)]
    }

    fn toggle_thinking(&mut self) -> Vec<AppEffect> {
        self.thinking_off = !self.thinking_off;
        let (thinking, text) =
            if self.thinking_off { (Some(ThinkingMode::Off), "Thinking off") } else { (None, "Thinking on") };
        self.hint = Some(text.to_owned());
        vec![AppEffect::SetThinking(thinking)]
    }

    // Prompts

    fn submit(&mut self, prompt: &ComposedPrompt) -> Vec<AppEffect> {
        let entry = prompt.history_entry((self.options.now_ms_since_1970)());
        self.composer.remember(entry.clone());
        let mut effects = vec![AppEffect::SaveHistory(entry)];
        let text = prompt.text();
        if prompt.kind == InputKind::Shell {
            if self.feed.is_busy() {
                self.held.push(HeldKind::Shell, text);
            } else {
                effects.push(AppEffect::RunShell(text));
            }
            return effects;
        }
        if self.feed.is_busy() && commands::waits_for_turn(&text) {
            self.held.push(HeldKind::Command, text);
            return effects;
        }
        match commands::run_typed(self, &text) {
            Some(more) => effects.extend(more),
            None => effects.push(self.submit_to_session(prompt.to_submitted(), &text)),
        }
        effects
    }

    /// Carries out what waited for the end of the turn.
    fn run_held_input(&mut self) -> Vec<AppEffect> {
        // A prompt that was sent before them comes first.
        if self.queue.len() > 0 {
            return Vec::new();
        }
        let mut effects = Vec::new();
        while let Some((kind, text)) = self.held.pop() {
            match kind {
                HeldKind::Shell => effects.push(AppEffect::RunShell(text)),
                HeldKind::Command => effects.extend(commands::run_typed(self, &text).unwrap_or_default()),
            }
        }
        effects
    }

    /// Sends a text to the session as if it had been typed.
    pub(crate) fn submit_text(&mut self, text: &str) -> AppEffect {
        self.submit_to_session(ComposedPrompt::from_text(text).to_submitted(), text)
    }

    fn submit_to_session(&mut self, prompt: SubmittedPrompt, text: &str) -> AppEffect {
        let uuid = (self.options.new_entry_id)();
        self.queue.push(uuid.clone(), text);
        AppEffect::Send(Op::Submit(SubmittedPrompt { uuid: Some(uuid), timing: PromptTiming::Next, ..prompt }))
    }
}

/// Returns the mode after this one in the order of Shift+Tab.
fn next_mode(mode: PermissionMode) -> PermissionMode {
    match mode {
        PermissionMode::Default => PermissionMode::AcceptEdits,
        PermissionMode::AcceptEdits => PermissionMode::Plan,
        PermissionMode::Plan | PermissionMode::Auto | PermissionMode::DontAsk | PermissionMode::BypassPermissions => {
            PermissionMode::Default
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
