//! The model of the feed: a session's events in, finished and live lines out.

use gimlet_proto::{
    AcceptedPrompt, AskBody, AssistantBlock, BlockDelta, BlockKind, CompactionView, DeltaKind, Denial, Event,
    EventBody, HistoryBody, HistoryItem, ItemId, Notice, NoticeLevel, StoredToolResult, TaskState, TaskView, TodoItem,
    TodoStatus, ToolCallPhase, ToolCallView, ToolUseId, TurnReport, View,
};

use super::activity::{MotionMode, SPINNER_FRAME_MS, TurnActivity, TurnStep};
use super::call_block::{CallBlock, CallOutcome};
use super::feed_block::{BlockSpacing, FeedBlock, TEXT_INDENT, from_reply_block};
use super::row_layout::{ViewDetail, fit_rows, format_elapsed, indent_lines, join_facts};
use super::task_tree::TaskTree;
use super::view_lines::render_todos;
use crate::glyphs::RenderContext;
use crate::markdown::MarkdownStream;
use crate::styled_line::{StyledLine, TextTone};
use crate::text_width::clean_line;

/// Running calls that are shown; more are counted.
const MAX_RUNNING: usize = 4;
/// Messages and calls of a resumed conversation that are shown again.
const MAX_HISTORY: usize = 400;
/// Time after which figures in whole seconds have changed.
const FIGURES_MS: u64 = 1_000;
/// Rows of the to-do list.
const MAX_TODOS: usize = 8;

/// The feed of one session.
#[derive(Debug, Default)]
pub struct FeedModel {
    now_ms: u64,
    motion: MotionMode,
    finished: Vec<FinishedItem>,
    /// Blocks that wait for the end of a text of which a part was handed out.
    waiting: Vec<FeedBlock>,
    text: Option<OpenText>,
    thinking: Option<OpenThinking>,
    calls: Vec<OpenCall>,
    tasks: TaskTree,
    todos: Vec<TodoItem>,
    todos_hidden: bool,
    turn: Option<TurnActivity>,
    spacing: BlockSpacing,
}

/// Something that is ready to be handed out.
#[derive(Debug)]
enum FinishedItem {
    Block(FeedBlock),
    /// The rest of a text.
    Text(OpenText),
}

/// Text of the model while it streams.
#[derive(Debug, Default)]
struct OpenText {
    item: Option<ItemId>,
    stream: MarkdownStream,
    /// True once a line of it was handed out.
    is_started: bool,
}

#[derive(Debug)]
struct OpenThinking {
    started_ms: u64,
}

/// A call whose end is not known.
#[derive(Debug)]
struct OpenCall {
    id: ToolUseId,
    name: String,
    summary: String,
    tail: String,
    /// Markdown that the user is asked to approve.
    document: Option<String>,
    started_ms: u64,
    state: OpenCallState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenCallState {
    /// The model wrote it; it does not run yet.
    Written,
    /// The user is asked about it.
    Asked,
    Running,
}

impl FeedModel {
    pub fn new(motion: MotionMode) -> Self {
        Self { motion, ..Self::default() }
    }

    /// Sets the time, in milliseconds since any moment. To be called before events and before rendering.
    pub fn set_clock(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// Returns true while a turn runs.
    pub fn is_busy(&self) -> bool {
        self.turn.is_some()
    }

    /// Returns the time after which the live lines have changed without an event; `None` if they stay as they are.
    pub fn tick_ms(&self) -> Option<u64> {
        let is_asking = self.turn.as_ref().is_some_and(|turn| turn.step == TurnStep::Asking);
        match (&self.turn, self.motion) {
            (Some(_), MotionMode::Animated) if !is_asking => Some(SPINNER_FRAME_MS),
            (Some(_), _) if !is_asking => Some(FIGURES_MS),
            _ if !self.tasks.is_empty() => Some(FIGURES_MS),
            _ => None,
        }
    }

    /// Shows or hides the to-do list. Returns true if it is shown now.
    pub fn toggle_todos(&mut self) -> bool {
        self.todos_hidden = !self.todos_hidden;
        !self.todos_hidden
    }

    /// Returns the to-do list as the model wrote it last.
    pub fn todos(&self) -> &[TodoItem] {
        &self.todos
    }

    /// Adds a block that no event brought.
    pub fn push_block(&mut self, block: FeedBlock) {
        match &self.text {
            Some(text) if text.is_started => self.waiting.push(block),
            _ => self.finished.push(FinishedItem::Block(block)),
        }
    }

    /// Adds the blocks of a conversation that is resumed; of a long one the last part.
    pub fn push_history(&mut self, items: &[HistoryItem]) {
        let skipped = items.len().saturating_sub(MAX_HISTORY);
        // A part begins with a prompt, if one is near.
        let shown = items.get(skipped..).unwrap_or_default();
        let first = shown.iter().take(MAX_HISTORY / 2).position(|item| matches!(item.body, HistoryBody::Prompt(_)));
        let first = if skipped > 0 { first.unwrap_or(0) } else { 0 };
        if skipped + first > 0 {
            self.push_notice(NoticeLevel::Info, format!("{} earlier messages and calls (ctrl+o)", skipped + first));
        }
        for block in shown.iter().skip(first).flat_map(FeedBlock::from_history) {
            self.push_block(block);
        }
        self.todos = last_todos(items);
    }

    /// Adds a line of the program's own.
    pub fn push_notice(&mut self, level: NoticeLevel, text: impl Into<String>) {
        let tone = match level {
            NoticeLevel::Error => TextTone::Error,
            NoticeLevel::Warning => TextTone::Warn,
            NoticeLevel::Info | NoticeLevel::Status | NoticeLevel::Debug => TextTone::Dim,
        };
        self.push_block(FeedBlock::Notice { tone, text: text.into() });
    }

    /// Takes an event in.
    pub fn apply(&mut self, event: &Event) {
        if event.agent.parent_tool_use().is_some() {
            return self.apply_of_subagent(event);
        }
        match &event.body {
            EventBody::TurnStarting(_) => {
                self.turn.get_or_insert_with(|| TurnActivity::new(self.now_ms));
            }
            EventBody::Prompt(prompt) => self.apply_prompt(prompt),
            EventBody::Requesting => self.set_step(TurnStep::Waiting),
            EventBody::BlockStarted { item, kind, name } => self.begin_block(*item, *kind, name.as_deref()),
            EventBody::Delta(delta) => self.apply_delta(delta),
            EventBody::ReplyDiscarded => self.discard_reply(),
            EventBody::Block(block) => self.finish_block(block),
            EventBody::Tool(call) => self.apply_call(call),
            EventBody::ToolFinished(result) => self.finish_call_without_view(result),
            EventBody::Denied(denial) => self.apply_denial(denial),
            EventBody::Ask(ask) => {
                if let Some(asked) = ask.body.call() {
                    let call = self.open_call(&asked.call, &asked.label);
                    call.summary.clone_from(&asked.summary);
                    call.state = OpenCallState::Asked;
                    if let AskBody::Plan { plan, .. } = &ask.body {
                        call.document = Some(plan.clone());
                    }
                }
                self.set_step(TurnStep::Asking);
            }
            EventBody::AskClosed(_) => self.set_step(TurnStep::Waiting),
            EventBody::Task(task) => self.apply_task(task),
            EventBody::Retry(retry) => self.set_step(TurnStep::from_retry(retry, self.now_ms)),
            EventBody::Notice(notice) => self.apply_notice(notice, None),
            EventBody::CommandReply(reply) => {
                if !reply.text.trim().is_empty() {
                    self.push_block(FeedBlock::Preformatted(reply.text.clone()));
                }
            }
            EventBody::UnknownCommand { name, nearest } => self.push_notice(
                NoticeLevel::Info,
                match nearest.first() {
                    Some(near) => format!("There is no command /{name}. Did you mean /{near}? It is sent as it is"),
                    None => format!("There is no command /{name}. It is sent as it is"),
                },
            ),
            EventBody::TurnEnded(report) => self.end_turn(report),
            EventBody::Closed => {
                self.finish_text();
                self.turn = None;
            }
            EventBody::Compaction(view) => self.apply_compaction(view),
            // The footer shows modes; hooks publish notices of their own; the rest is for diagnosis.
            EventBody::PromptOutcome { .. }
            | EventBody::Wire(_)
            | EventBody::RateLimits(_)
            | EventBody::CacheBreak(_)
            | EventBody::ReplyAnomalies(_)
            | EventBody::Hook(_)
            | EventBody::ModeChanged(_) => {}
        }
    }

    /// Says how a compaction ended.
    fn apply_compaction(&mut self, view: &CompactionView) {
        match view {
            CompactionView::Started(_) => {}
            CompactionView::Finished(segment) => {
                let (before, after) = (segment.pre_tokens, segment.post_tokens);
                let text = format!("The conversation was compacted: about {before} tokens before, {after} after");
                self.push_notice(NoticeLevel::Info, text);
            }
            CompactionView::Failed(reason) => {
                self.push_notice(NoticeLevel::Warning, format!("The conversation was not compacted: {reason}"));
            }
        }
    }

    /// Takes in what a subagent did: the tree shows it; only what the user must know becomes a block.
    fn apply_of_subagent(&mut self, event: &Event) {
        match &event.body {
            EventBody::Notice(notice) => self.apply_notice(notice, Some("subagent")),
            EventBody::Denied(denial) => {
                let text = format!("A subagent was refused {}: {}", denial.tool, denial.reason);
                self.push_notice(NoticeLevel::Warning, text);
            }
            EventBody::Ask(_) => self.set_step(TurnStep::Asking),
            EventBody::AskClosed(_) => self.set_step(TurnStep::Waiting),
            EventBody::Task(task) => self.apply_task(task),
            _ => {}
        }
    }

    fn set_step(&mut self, step: TurnStep) {
        let now_ms = self.now_ms;
        if let Some(turn) = &mut self.turn {
            turn.set_step(step, now_ms);
        }
    }

    fn apply_prompt(&mut self, prompt: &AcceptedPrompt) {
        if !prompt.synthetic {
            self.finish_text();
            self.push_block(FeedBlock::Prompt(prompt.blocks.clone()));
        }
    }

    fn begin_block(&mut self, item: ItemId, kind: BlockKind, name: Option<&str>) {
        match kind {
            BlockKind::Text => {
                self.finish_text();
                self.text = Some(OpenText { item: Some(item), ..OpenText::default() });
                self.set_step(TurnStep::Writing);
            }
            BlockKind::Thinking => {
                self.thinking = Some(OpenThinking { started_ms: self.now_ms });
                self.set_step(TurnStep::Thinking);
            }
            BlockKind::RedactedThinking => self.set_step(TurnStep::Thinking),
            BlockKind::ToolUse | BlockKind::ServerToolUse => {
                self.set_step(TurnStep::Preparing(name.map(|name| clean_line(name).into_owned())));
            }
            _ => {}
        }
    }

    fn apply_delta(&mut self, delta: &BlockDelta) {
        if let Some(turn) = &mut self.turn {
            turn.received_bytes += delta.text.len() as u64;
        }
        match delta.kind {
            DeltaKind::Text => {
                if let Some(text) = self.text.as_mut().filter(|text| text.item == Some(delta.item)) {
                    text.stream.push(&delta.text);
                }
            }
            // Thinking is shown once it is complete.
            DeltaKind::Thinking | DeltaKind::Input => {}
        }
    }

    fn finish_block(&mut self, block: &AssistantBlock) {
        if block.error.is_some() {
            // The end of the turn says the same.
            return;
        }
        match block.block.kind() {
            BlockKind::Text => {
                // Text that did not stream comes all at once.
                if self.text.is_some() {
                    self.finish_text();
                } else if let Some(text) = from_reply_block(&block.block) {
                    self.push_block(text);
                }
            }
            BlockKind::Thinking => {
                let elapsed_ms = self.thinking.take().map(|open| self.now_ms.saturating_sub(open.started_ms));
                if let Some(FeedBlock::Thinking { text, .. }) = from_reply_block(&block.block) {
                    self.push_block(FeedBlock::Thinking { text, elapsed_ms });
                }
            }
            BlockKind::ToolUse => {
                if let Some(parts) = block.block.as_tool_use() {
                    self.open_call(&ToolUseId::new(parts.id.as_ref()), &parts.name);
                }
            }
            _ => {
                if let Some(shown) = from_reply_block(&block.block) {
                    self.push_block(shown);
                }
            }
        }
    }

    fn finish_text(&mut self) {
        if let Some(mut text) = self.text.take() {
            text.stream.finish();
            self.finished.push(FinishedItem::Text(text));
            self.finished.extend(self.waiting.drain(..).map(FinishedItem::Block));
        }
    }

    /// Forgets what is shown of the current reply; of what was handed out it can only be said that it does not count.
    fn discard_reply(&mut self) {
        self.thinking = None;
        self.calls.clear();
        if let Some(text) = self.text.take() {
            let was_shown = text.is_started;
            self.finished.extend(self.waiting.drain(..).map(FinishedItem::Block));
            if was_shown {
                self.push_notice(NoticeLevel::Warning, "The answer was cut off. It starts again:");
            }
        }
    }

    fn open_call(&mut self, id: &ToolUseId, name: &str) -> &mut OpenCall {
        let known = self.calls.iter().position(|call| call.id == *id);
        let index = known.unwrap_or_else(|| {
            self.calls.push(OpenCall {
                id: id.clone(),
                name: name.to_owned(),
                summary: String::new(),
                tail: String::new(),
                document: None,
                started_ms: self.now_ms,
                state: OpenCallState::Written,
            });
            self.calls.len() - 1
        });
        &mut self.calls[index]
    }

    fn close_call(&mut self, id: &ToolUseId) -> Option<OpenCall> {
        let index = self.calls.iter().position(|call| call.id == *id)?;
        Some(self.calls.remove(index))
    }

    fn apply_call(&mut self, view: &ToolCallView) {
        let now_ms = self.now_ms;
        let mut outcome = match &view.phase {
            ToolCallPhase::Running => {
                let call = self.open_call(&view.call, &view.name);
                call.name.clone_from(&view.name);
                call.summary.clone_from(&view.summary);
                call.state = OpenCallState::Running;
                call.started_ms = now_ms;
                self.set_step(TurnStep::Waiting);
                return;
            }
            ToolCallPhase::Progress { text, elapsed_ms } => {
                let call = self.open_call(&view.call, &view.name);
                call.summary.clone_from(&view.summary);
                call.state = OpenCallState::Running;
                call.started_ms = now_ms.saturating_sub(*elapsed_ms);
                if !text.is_empty() {
                    call.tail.clone_from(text);
                }
                return;
            }
            ToolCallPhase::Done { view, elapsed_ms } => {
                if let View::Todos(items) = view {
                    self.todos.clone_from(items);
                }
                CallOutcome::Done { view: view.clone(), elapsed_ms: Some(*elapsed_ms) }
            }
            ToolCallPhase::Failed { view, elapsed_ms, .. } => {
                CallOutcome::Failed { view: view.clone(), elapsed_ms: Some(*elapsed_ms) }
            }
        };
        let mut document = self.close_call(&view.call).and_then(|call| call.document);
        if let (Some(document), CallOutcome::Done { view: View::Text(text), .. }) = (&mut document, &mut outcome) {
            // What was approved, perhaps with changes, is shown as what it is.
            if !text.trim().is_empty() {
                *document = std::mem::take(text);
            }
        }
        let is_done = matches!(outcome, CallOutcome::Done { .. });
        let (name, summary) = (view.name.clone(), view.summary.clone());
        self.push_block(FeedBlock::Call(CallBlock { name, summary, outcome }));
        if let Some(document) = document.filter(|_| is_done) {
            self.push_block(FeedBlock::Text(document));
        }
    }

    /// Ends a call that never ran: it was invalid, or was refused.
    fn finish_call_without_view(&mut self, result: &StoredToolResult) {
        let Some(call) = self.close_call(&result.call) else { return };
        let text = result_text(result);
        let outcome = match call.state {
            OpenCallState::Asked => CallOutcome::Refused { reason: text },
            OpenCallState::Written | OpenCallState::Running => {
                CallOutcome::Failed { view: View::Text(text), elapsed_ms: None }
            }
        };
        self.push_block(FeedBlock::Call(CallBlock { name: call.name, summary: call.summary, outcome }));
    }

    fn apply_denial(&mut self, denial: &Denial) {
        let open = self.close_call(&denial.call);
        let name = open.map_or_else(|| denial.tool.clone(), |call| call.name);
        self.push_block(FeedBlock::Call(CallBlock {
            name,
            summary: denial.summary.clone(),
            outcome: CallOutcome::Refused { reason: denial.reason.clone() },
        }));
    }

    fn apply_task(&mut self, task: &TaskView) {
        let Some(elapsed_ms) = self.tasks.update(task, self.now_ms) else { return };
        if !task.backgrounded {
            return;
        }
        let (verb, level) = match task.state {
            TaskState::Completed | TaskState::Running => ("finished", NoticeLevel::Info),
            TaskState::Failed => ("failed", NoticeLevel::Warning),
            TaskState::Killed => ("was stopped", NoticeLevel::Info),
        };
        let mut text = format!("In the background: {} {verb} after {}", task.description, format_elapsed(elapsed_ms));
        if let Some(code) = task.exit_code.filter(|code| *code != 0) {
            text.push_str(&format!(" with exit code {code}"));
        }
        self.push_notice(level, text);
    }

    fn apply_notice(&mut self, notice: &Notice, who: Option<&str>) {
        match notice.level {
            NoticeLevel::Debug => {}
            NoticeLevel::Status => self.set_step(TurnStep::Remark(clean_line(&notice.text).into_owned())),
            level => {
                let text = match who {
                    Some(who) => format!("{who}: {}", notice.text),
                    None => notice.text.clone(),
                };
                self.push_notice(level, text);
            }
        }
    }

    fn end_turn(&mut self, report: &TurnReport) {
        self.finish_text();
        self.thinking = None;
        self.turn = None;
        for call in std::mem::take(&mut self.calls) {
            if call.state != OpenCallState::Written {
                let outcome = CallOutcome::Stopped;
                self.push_block(FeedBlock::Call(CallBlock { name: call.name, summary: call.summary, outcome }));
            }
        }
        if let Some(block) = FeedBlock::from_turn_end(&report.end) {
            self.push_block(block);
        }
        if is_all_done(&self.todos) {
            self.todos.clear();
        }
    }

    /// Returns the lines that are finished since the last call; they are not handed out again.
    pub fn take_finished(&mut self, cx: &RenderContext<'_>) -> Vec<StyledLine> {
        let mut out = Vec::new();
        for item in std::mem::take(&mut self.finished) {
            match item {
                FinishedItem::Block(block) => {
                    let rows = block.render(ViewDetail::Compact, cx);
                    self.spacing.push_block(rows, matches!(block, FeedBlock::Call(_)), &mut out);
                }
                FinishedItem::Text(mut text) => text.take_rows(&mut self.spacing, cx, &mut out),
            }
        }
        if let Some(text) = &mut self.text {
            text.take_rows(&mut self.spacing, cx, &mut out);
        }
        fit_rows(out, cx.width)
    }

    /// Returns the lines below the finished ones: what may still change, and what goes on.
    pub fn live_lines(&self, cx: &RenderContext<'_>) -> Vec<StyledLine> {
        let mut spacing = self.spacing;
        let mut out = Vec::new();
        if let Some(text) = &self.text {
            let rows = text.live_rows(cx);
            if text.is_started {
                out.extend(rows);
            } else {
                spacing.push_block(rows, false, &mut out);
            }
        }
        let running: Vec<&OpenCall> = self.shown_calls().collect();
        for call in running.iter().take(MAX_RUNNING) {
            spacing.push_block(call.block(self.now_ms).render(ViewDetail::Compact, cx), true, &mut out);
        }
        if running.len() > MAX_RUNNING {
            let text = format!("  {} more running", running.len() - MAX_RUNNING);
            out.push(StyledLine::of(text, TextTone::Dim));
        }
        let status = self.status_lines(cx);
        if !status.is_empty() && (spacing != BlockSpacing::Start || !out.is_empty()) {
            out.push(StyledLine::blank());
        }
        out.extend(status);
        fit_rows(out, cx.width)
    }

    /// Returns the calls that run and that no task shows.
    fn shown_calls(&self) -> impl Iterator<Item = &OpenCall> {
        self.calls.iter().filter(|call| call.state == OpenCallState::Running && !self.tasks.has_call(&call.id))
    }

    /// Returns the activity, the to-do list and the tasks.
    fn status_lines(&self, cx: &RenderContext<'_>) -> Vec<StyledLine> {
        let mut out = Vec::new();
        if let Some(turn) = &self.turn {
            out.extend(turn.render(self.describe_running(), self.now_ms, self.motion, cx));
        }
        if !self.todos_hidden {
            out.extend(self.todo_rows(cx));
        }
        out.extend(self.tasks.render(self.now_ms, cx));
        out
    }

    fn todo_rows(&self, cx: &RenderContext<'_>) -> Vec<StyledLine> {
        if self.todos.is_empty() {
            return Vec::new();
        }
        let inner = RenderContext { width: cx.width.saturating_sub(TEXT_INDENT).max(1), ..*cx };
        // The first open item and what follows it matter more than what is done.
        let first_open = self.todos.iter().position(|item| item.status != TodoStatus::Completed).unwrap_or(0);
        let start = first_open.saturating_sub(1).min(self.todos.len().saturating_sub(MAX_TODOS));
        let shown = self.todos.get(start..).unwrap_or_default();
        let shown = shown.get(..shown.len().min(MAX_TODOS)).unwrap_or_default();
        let mut rows = render_todos(shown, &inner);
        let hidden = self.todos.len() - shown.len();
        if hidden > 0 {
            let done = self.todos.iter().filter(|item| item.status == TodoStatus::Completed).count();
            let facts = [format!("{hidden} more"), format!("{done} of {} done", self.todos.len())];
            rows.push(StyledLine::of(join_facts(&facts, cx.glyphs), TextTone::Dim));
        }
        indent_lines(rows, TEXT_INDENT)
    }

    /// Returns what runs, in a few words.
    fn describe_running(&self) -> Option<String> {
        let mut running = self.calls.iter().filter(|call| call.state == OpenCallState::Running);
        let first = running.next()?;
        match running.count() {
            // What it runs stands in its own row above.
            0 => Some(clean_line(&first.name).into_owned()),
            others => Some(format!("{} tools", others + 1)),
        }
    }
}

impl OpenText {
    fn take_rows(&mut self, spacing: &mut BlockSpacing, cx: &RenderContext<'_>, out: &mut Vec<StyledLine>) {
        let rows = indent_lines(self.stream.take_finished(&inner_context(cx)), TEXT_INDENT);
        if rows.is_empty() {
            return;
        }
        if self.is_started {
            out.extend(rows);
        } else {
            spacing.push_block(rows, false, out);
            self.is_started = true;
        }
    }

    fn live_rows(&self, cx: &RenderContext<'_>) -> Vec<StyledLine> {
        indent_lines(self.stream.live_lines(&inner_context(cx)), TEXT_INDENT)
    }
}

fn inner_context<'a>(cx: &RenderContext<'a>) -> RenderContext<'a> {
    RenderContext { width: cx.width.saturating_sub(TEXT_INDENT).max(1), ..*cx }
}

impl OpenCall {
    fn block(&self, now_ms: u64) -> CallBlock {
        let elapsed_ms = now_ms.saturating_sub(self.started_ms);
        let outcome = CallOutcome::Running { tail: self.tail.clone(), elapsed_ms };
        CallBlock { name: self.name.clone(), summary: self.summary.clone(), outcome }
    }
}

/// Returns the to-do list that a conversation left, unless all of it is done.
fn last_todos(items: &[HistoryItem]) -> Vec<TodoItem> {
    let todos = items.iter().rev().find_map(|item| match &item.body {
        HistoryBody::Call(call) => match &call.result.as_ref()?.view {
            View::Todos(todos) => Some(todos),
            _ => None,
        },
        _ => None,
    });
    let todos = todos.map(Vec::as_slice).unwrap_or_default();
    if is_all_done(todos) { Vec::new() } else { todos.to_vec() }
}

fn is_all_done(todos: &[TodoItem]) -> bool {
    todos.iter().all(|item| item.status == TodoStatus::Completed)
}

/// Returns the text of a result.
fn result_text(result: &StoredToolResult) -> String {
    let Some(parts) = result.block.as_tool_result() else { return String::new() };
    let Some(content) = parts.content else { return String::new() };
    match serde_json::from_str(content.get()) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(serde_json::Value::Array(parts)) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        Ok(_) | Err(_) => String::new(),
    }
}
