use std::path::PathBuf;
use std::sync::Arc;

use gimlet_proto::*;
use serde_json::value::RawValue;

use super::*;
use crate::glyphs::{GlyphSet, RenderContext};
use crate::styled_line::StyledLine;
use crate::text_width::line_width;
use crate::theme::{ColorDepth, ColorTheme, ScreenBackground};

pub(crate) const THEME: ColorTheme = ColorTheme { background: ScreenBackground::Dark, depth: ColorDepth::TrueColor };

pub(crate) fn context(width: usize) -> RenderContext<'static> {
    RenderContext { theme: &THEME, glyphs: &GlyphSet::UNICODE, width }
}

/// A feed and the lines that it handed out.
struct FeedBench {
    model: FeedModel,
    cx: RenderContext<'static>,
    printed: Vec<StyledLine>,
    now_ms: u64,
}

impl FeedBench {
    fn new(width: usize) -> Self {
        Self { model: FeedModel::new(MotionMode::Reduced), cx: context(width), printed: Vec::new(), now_ms: 1_000 }
    }

    fn apply(&mut self, body: EventBody) {
        self.apply_of(AgentPath::default(), body);
    }

    fn apply_of(&mut self, agent: AgentPath, body: EventBody) {
        self.model.set_clock(self.now_ms);
        let event = Event { seq: 0, session: SessionId::new("s"), agent, at: Arc::from(""), body };
        self.model.apply(&event);
        let lines = self.model.take_finished(&self.cx);
        self.printed.extend(lines);
    }

    fn prompt(&mut self, text: &str) {
        self.apply(EventBody::TurnStarting(Arc::default()));
        self.apply(EventBody::Prompt(AcceptedPrompt {
            uuid: EntryId::new("p"),
            blocks: vec![Block::text(text)],
            plain: true,
            synthetic: false,
            origin: None,
        }));
        self.apply(EventBody::Requesting);
    }

    fn begin_text(&mut self, item: u64) {
        self.apply(EventBody::BlockStarted { item: ItemId(item), kind: BlockKind::Text, name: None });
    }

    fn delta(&mut self, item: u64, text: &str) {
        let delta = BlockDelta { item: ItemId(item), kind: DeltaKind::Text, text: text.to_owned() };
        self.apply(EventBody::Delta(delta));
    }

    fn text(&mut self, item: u64, text: &str) {
        self.begin_text(item);
        self.delta(item, text);
        self.block(Block::text(text));
    }

    fn block(&mut self, block: Block) {
        self.apply(EventBody::Block(Box::new(AssistantBlock {
            uuid: EntryId::new("b"),
            message_id: "m".into(),
            model: "model".into(),
            request_id: None,
            block,
            usage: TokenUsage::default(),
            aborted: false,
            error: None,
        })));
    }

    fn call(&mut self, id: &str, name: &str, summary: &str, phase: ToolCallPhase) {
        self.apply(EventBody::Tool(Box::new(ToolCallView {
            call: ToolUseId::new(id),
            name: name.into(),
            summary: summary.into(),
            phase,
        })));
    }

    fn done(&mut self, name: &str, summary: &str, view: View, elapsed_ms: u64) {
        self.call("c", name, summary, ToolCallPhase::Running);
        self.call("c", name, summary, ToolCallPhase::Done { view, elapsed_ms });
    }

    fn end(&mut self, end: TurnEnd) {
        self.apply(EventBody::TurnEnded(Box::new(TurnReport {
            end,
            text: String::new(),
            stop_reason: None,
            num_turns: 1,
            duration_ms: 0,
            api_ms: 0,
            usage: TokenUsage::default(),
            last_usage: None,
            total_cost_usd: None,
            by_model: Vec::new(),
            denials: Vec::new(),
            origin: None,
            queued: 0,
            structured_output: None,
        })));
    }

    /// Returns what is printed, and below a mark what is live. Checks what holds for all lines.
    fn screen(&self) -> String {
        let mut text = show(&self.printed, self.cx.width);
        let live = self.model.live_lines(&self.cx);
        if !live.is_empty() {
            text.push_str("- - -\n");
            text.push_str(&show(&live, self.cx.width));
        }
        text
    }
}

/// Returns lines as text; checks that none is wider than the screen or has a control character.
pub(crate) fn show(lines: &[StyledLine], width: usize) -> String {
    let mut text = String::new();
    for line in lines {
        assert!(line_width(line) <= width, "{} > {width}: {:?}", line_width(line), line.text());
        assert!(!line.text().chars().any(char::is_control), "{:?}", line.text());
        text.push_str(line.text().trim_end());
        text.push('\n');
    }
    text
}

pub(crate) fn hunk(old_start: usize, new_start: usize, lines: &[&str]) -> DiffHunk {
    let count = |sign: char| lines.iter().filter(|line| !line.starts_with(sign)).count();
    DiffHunk {
        old_start,
        old_lines: count('+'),
        new_start,
        new_lines: count('-'),
        lines: lines.iter().map(|line| (*line).to_owned()).collect(),
    }
}

fn terminal(command: &str, output: &str, exit_code: i32) -> View {
    View::Terminal { command: command.into(), output: output.into(), exit_code: Some(exit_code) }
}

/// The turn that the front end's description draws.
fn sample_turn(bench: &mut FeedBench) {
    bench.prompt("the nested test fails, find out why");
    bench.text(1, "I'll run it first.");
    let output = (1..=43).map(|line| format!("line {line} of what the test printed\n")).collect::<String>();
    bench.call("c1", "Bash", "cargo test parser::nested", ToolCallPhase::Running);
    let view = terminal("cargo test parser::nested", &output, 101);
    let message = "Exit code 101".to_owned();
    bench.call("c1", "Bash", "cargo test parser::nested", ToolCallPhase::Failed { message, view, elapsed_ms: 2_345 });
    let view = View::Files { paths: vec!["/src/parser.rs".into()], note: Some("lines 90-160".into()) };
    bench.done("Read", "src/parser.rs", view, 12);
    let hunks = vec![hunk(
        117,
        117,
        &[
            "     let mut depth = 0;",
            "-    while let Some(t) = it.next() {",
            "+    while let Some(t) = it.next_token() {",
            "+        depth += usize::from(t.opens());",
            "     }",
        ],
    )];
    bench.done("Edit", "src/parser.rs", View::Diff { path: "src/parser.rs".into(), hunks }, 3);
    let todo = |text: &str, status| TodoItem { text: text.into(), status };
    let todos = vec![
        todo("Find the cause", TodoStatus::Completed),
        todo("Fixing the nested case", TodoStatus::InProgress),
        todo("Run the whole suite", TodoStatus::Pending),
    ];
    bench.done("TodoWrite", "1 of 3 done", View::Todos(todos), 1);
    bench.call("c2", "Bash", "cargo test", ToolCallPhase::Running);
    bench.now_ms += 12_400;
    let text = "12 s of 120 s, 2 lines\nrunning 212 tests\ntest lexer::empty ... ok".to_owned();
    bench.call("c2", "Bash", "cargo test", ToolCallPhase::Progress { text, elapsed_ms: 12_300 });
    let mut task = task("a1", "local_agent", "find other callers of next()");
    task.subagent_type = Some("Explore".into());
    task.progress = Some(TaskProgress {
        total_tokens: 3_120,
        tool_uses: 6,
        duration_ms: 14_000,
        last_tool: Some("Grep".into()),
        description: "Grep next\\(\\)".into(),
    });
    bench.apply(EventBody::Task(Box::new(task)));
    bench.apply(EventBody::Task(Box::new(self::task("b1", "local_bash", "npm run dev"))));
    bench.now_ms += 14_000;
    bench.model.set_clock(bench.now_ms);
}

fn task(id: &str, kind: &'static str, description: &str) -> TaskView {
    TaskView {
        id: id.into(),
        kind,
        description: description.into(),
        call: None,
        parent: None,
        state: TaskState::Running,
        output_file: PathBuf::new(),
        exit_code: None,
        backgrounded: kind == "local_bash",
        subagent_type: None,
        prompt: None,
        depth: 1,
        progress: None,
        summary: None,
    }
}

#[test]
fn a_turn_is_shown_step_by_step() {
    let mut bench = FeedBench::new(80);
    sample_turn(&mut bench);
    insta::assert_snapshot!("turn_80", bench.screen());
    bench.end(TurnEnd::Aborted { in_tools: true });
    let (_, end) =
        bench.screen().rsplit_once("src/parser.rs").map(|(start, end)| (start.len(), end.to_owned())).unwrap();
    insta::assert_snapshot!("turn_interrupted", end);
}

#[test]
fn a_turn_fits_forty_columns() {
    let mut bench = FeedBench::new(40);
    sample_turn(&mut bench);
    insta::assert_snapshot!("turn_40", bench.screen());
}

#[test]
fn a_turn_needs_no_unicode() {
    let mut bench = FeedBench::new(80);
    bench.cx.glyphs = &GlyphSet::ASCII;
    sample_turn(&mut bench);
    let screen = bench.screen();
    assert!(screen.is_ascii(), "{screen}");
}

fn denial(call: &str, reason: &str) -> Denial {
    Denial {
        tool: "Bash".into(),
        call: ToolUseId::new(call),
        input: Arc::from(RawValue::NULL.to_owned()),
        origin: "rule".into(),
        message: "no".into(),
        summary: "rm -rf build".into(),
        reason: reason.into(),
        remedies: Vec::new(),
        view: View::Text("no".into()),
    }
}

#[test]
fn refused_failed_and_interrupted_calls_say_so() {
    let mut bench = FeedBench::new(80);
    bench.prompt("clean up");
    bench.block(Block::from_json(r#"{"type":"tool_use","id":"c1","name":"Bash","input":{}}"#).unwrap());
    bench.apply(EventBody::Denied(denial("c1", "Bash(rm:*) is denied in .claude/settings.json")));
    bench.block(Block::from_json(r#"{"type":"tool_use","id":"c2","name":"Bsah","input":{}}"#).unwrap());
    bench.apply(EventBody::ToolFinished(Box::new(StoredToolResult {
        uuid: EntryId::new("r"),
        call: ToolUseId::new("c2"),
        block: Block::tool_result("c2", &"There is no tool named Bsah. Did you mean Bash?".into(), true),
        output: Arc::from(RawValue::NULL.to_owned()),
    })));
    bench.call("c3", "Fetch", "https://example.com", ToolCallPhase::Running);
    bench.call(
        "c3",
        "Fetch",
        "https://example.com",
        ToolCallPhase::Failed {
            message: "404".into(),
            view: View::Text("The server answered 404 Not Found".into()),
            elapsed_ms: 1_204,
        },
    );
    bench.end(TurnEnd::Failed(ModelError {
        kind: ModelErrorKind::Overloaded,
        status: Some(529),
        message: "the service is overloaded".into(),
        hint: Some("Try again in a minute".into()),
        request_id: Some("req_1".into()),
    }));
    insta::assert_snapshot!(bench.screen());
}

#[test]
fn calls_that_end_inside_a_text_wait_for_its_end() {
    let mut bench = FeedBench::new(80);
    bench.prompt("go");
    bench.call("c1", "Bash", "make", ToolCallPhase::Running);
    bench.begin_text(1);
    bench.delta(1, "First paragraph.\n\nSecond **par");
    bench.call("c1", "Bash", "make", ToolCallPhase::Done { view: terminal("make", "ok", 0), elapsed_ms: 5 });
    bench.apply(EventBody::Notice(Notice { level: NoticeLevel::Warning, text: "disk is full".into() }));
    assert!(bench.screen().starts_with("❯ go\n\n  First paragraph.\n- - -\n\n  Second par\n\n"), "{}", bench.screen());
    bench.delta(1, "agraph**.\n");
    bench.block(Block::text("all of it"));
    bench.end(TurnEnd::Completed);
    assert_eq!(
        bench.screen(),
        "❯ go\n\n  First paragraph.\n\n  Second paragraph.\n\n● Bash  make\n  ╰ ok\n\n  disk is full\n"
    );
}

#[test]
fn a_discarded_reply_leaves_no_live_line() {
    let mut bench = FeedBench::new(80);
    bench.prompt("go");
    bench.begin_text(1);
    bench.delta(1, "never handed out");
    bench.apply(EventBody::ReplyDiscarded);
    bench.begin_text(2);
    bench.delta(2, "handed out\n\nnot yet");
    bench.apply(EventBody::ReplyDiscarded);
    bench.text(3, "the answer");
    bench.end(TurnEnd::Completed);
    assert_eq!(bench.screen(), "❯ go\n\n  handed out\n\n  The answer was cut off. It starts again:\n\n  the answer\n");
}

#[test]
fn the_live_region_names_the_step() {
    let mut bench = FeedBench::new(80);
    let step = |bench: &FeedBench| {
        let live = bench.model.live_lines(&bench.cx);
        live.last().map(|line| line.text()).unwrap_or_default()
    };
    bench.prompt("go");
    assert_eq!(step(&bench), "✽ Waiting for the model… 0 s · esc to stop");
    bench.now_ms += 4_000;
    bench.apply(EventBody::Retry(RetryNotice {
        attempt: 2,
        max: 10,
        delay_ms: 8_000,
        error: ModelError {
            kind: ModelErrorKind::RateLimit,
            status: Some(429),
            message: "Too many requests.\nSlow down.".into(),
            hint: None,
            request_id: None,
        },
    }));
    bench.now_ms += 3_000;
    bench.model.set_clock(bench.now_ms);
    assert_eq!(step(&bench), "✽ Too many requests; attempt 2 of 10 in 5 s… 7 s · esc to stop");
    bench.apply(EventBody::BlockStarted { item: ItemId(1), kind: BlockKind::Thinking, name: None });
    assert_eq!(step(&bench), "✽ Thinking… 7 s · esc to stop");
    bench.now_ms += 12_000;
    bench.block(Block::from_json(r#"{"type":"thinking","thinking":"Let me see.","signature":""}"#).unwrap());
    bench.apply(EventBody::BlockStarted { item: ItemId(2), kind: BlockKind::ToolUse, name: Some("Write".into()) });
    let text = "x".repeat(48_000);
    bench.apply(EventBody::Delta(BlockDelta { item: ItemId(2), kind: DeltaKind::Input, text }));
    assert_eq!(step(&bench), "✽ Preparing Write… 19 s · ↓ 12k tokens · esc to stop");
    assert_eq!(show(&bench.printed, 80), "❯ go\n\n  Thought for 12 s · ctrl+o\n");
    bench.end(TurnEnd::Completed);
    assert_eq!(step(&bench), "");
    assert_eq!(bench.model.tick_ms(), None);
}

#[test]
fn agents_of_agents_stand_below_them() {
    let mut bench = FeedBench::new(80);
    let agent = |id: &str, parent: Option<&str>, depth| TaskView {
        call: Some(ToolUseId::new(format!("call-{id}"))),
        parent: parent.map(|parent| ToolUseId::new(format!("call-{parent}"))),
        depth,
        subagent_type: Some("Explore".into()),
        progress: Some(TaskProgress { description: format!("Read {id}.rs"), ..TaskProgress::default() }),
        ..task(id, "local_agent", id)
    };
    for task in [agent("one", None, 1), agent("two", None, 1), agent("below", Some("one"), 2)] {
        bench.apply(EventBody::Task(Box::new(task)));
    }
    assert_eq!(
        show(&bench.model.live_lines(&context(40)), 40),
        "  ├ Explore  one\n  │   Read one.rs\n  │ ╰ Explore  below\n  │     Read below.rs\n  ╰ Explore  two\n      Read two.rs\n"
    );
    (0..20).for_each(|index| bench.apply(EventBody::Task(Box::new(agent(&format!("a{index}"), Some("two"), 2)))));
    let screen = bench.screen();
    assert!(screen.contains("18 more") && screen.contains("    ├ Explore  a0"), "{screen}");
}

#[test]
fn tasks_in_the_background_report_their_end() {
    let mut bench = FeedBench::new(80);
    bench.apply(EventBody::Task(Box::new(task("b1", "local_bash", "npm run dev"))));
    assert!(bench.model.tick_ms().is_some());
    bench.now_ms += 61_000;
    let ended = TaskView { state: TaskState::Failed, exit_code: Some(2), ..task("b1", "local_bash", "npm run dev") };
    bench.apply(EventBody::Task(Box::new(ended)));
    assert_eq!(bench.screen(), "  In the background: npm run dev failed after 1 min 1 s with exit code 2\n");
}

#[test]
fn an_approved_plan_stays_to_be_read() {
    let mut bench = FeedBench::new(80);
    bench.prompt("plan it");
    let call = PermissionAsk {
        tool: "ExitPlanMode".into(),
        server: None,
        call: ToolUseId::new("c"),
        input: Arc::from(RawValue::NULL.to_owned()),
        label: "ExitPlanMode".into(),
        summary: "Approve the plan".into(),
        reason: String::new(),
        reason_kind: "tool",
        path: None,
        suggestions: Vec::new(),
        preview: View::Text(String::new()),
        destructive: false,
    };
    let body = AskBody::Plan { call: Box::new(call), plan: "# Plan\n1. old".into(), file: None };
    bench.apply(EventBody::Ask(Box::new(AskView {
        id: AskId(1),
        agent: AgentPath::default(),
        agent_id: None,
        agent_type: None,
        body,
    })));
    bench.apply(EventBody::AskClosed(AskId(1)));
    bench.call("c", "ExitPlanMode", "Approve the plan", ToolCallPhase::Running);
    let view = View::Text("# Plan\n1. new".into());
    bench.call("c", "ExitPlanMode", "Approve the plan", ToolCallPhase::Done { view, elapsed_ms: 1 });
    bench.end(TurnEnd::Completed);
    assert_eq!(bench.screen(), "❯ plan it\n\n● ExitPlanMode  Approve the plan\n\n  Plan\n  1. new\n");
}

fn item(at: &str, body: HistoryBody) -> HistoryItem {
    HistoryItem { entry: EntryId::new("e"), role: Role::User, at: Some(at.into()), body }
}

/// A conversation with one item of every kind.
fn sample_history() -> Vec<HistoryItem> {
    let thinking = Block::from_json(r#"{"type":"thinking","thinking":"The lexer, surely.","signature":""}"#).unwrap();
    let call = |result: Option<(bool, View)>| HistoryCall {
        call: ToolUseId::new("c"),
        name: "Bash".into(),
        summary: "cargo test".into(),
        result: result.map(|(failed, view)| HistoryResult { entry: EntryId::new("r"), failed, view }),
    };
    let output = (1..=9).map(|line| format!("line {line}\n")).collect::<String>();
    vec![
        item("2026-03-01T23:58:00.000Z", HistoryBody::Prompt(vec![Block::text("find the bug\nplease")])),
        item("2026-03-01T23:58:00.000Z", HistoryBody::Injected(vec![Block::text("<system-reminder>\nBe brief.")])),
        item("2026-03-01T23:58:10.000Z", HistoryBody::Reply(vec![thinking, Block::text("I'll *test*.")])),
        item(
            "2026-03-01T23:58:11.000Z",
            HistoryBody::Call(Box::new(call(Some((true, terminal("cargo test", &output, 1)))))),
        ),
        item("2026-03-01T23:59:00.000Z", HistoryBody::Call(Box::new(call(None)))),
        item("2026-03-02T00:00:01.000Z", HistoryBody::Failure(vec![Block::text("529 overloaded")])),
        item("2026-03-02T00:00:02.000Z", HistoryBody::Compacted),
        item("2026-03-02T00:00:03.000Z", HistoryBody::Summary(vec![Block::text("## So far\nA bug was sought.")])),
        item("2026-03-02T00:00:04.000Z", HistoryBody::Note(vec![Block::text("resumed")])),
    ]
}

#[test]
fn a_past_conversation_looks_as_it_did() {
    insta::assert_snapshot!(
        "history_80",
        show(&render_history(&sample_history(), ViewDetail::Compact, &context(80)), 80)
    );
    let transcript = TranscriptLines::render(&sample_history(), &jiff::tz::TimeZone::UTC, &context(80));
    insta::assert_snapshot!("transcript_80", show(&transcript.lines, 80));
    assert_eq!(transcript.prompt_rows, [0]);
    let transcript = TranscriptLines::render(&sample_history(), &jiff::tz::TimeZone::UTC, &context(40));
    insta::assert_snapshot!("transcript_40", show(&transcript.lines, 40));
}

#[test]
fn of_a_long_history_the_end_is_shown_again() {
    let mut items = Vec::new();
    for turn in 0..300 {
        items.push(item("", HistoryBody::Prompt(vec![Block::text(&format!("prompt {turn}"))])));
        items.push(item("", HistoryBody::Reply(vec![Block::text("answer")])));
    }
    items.insert(0, item("", HistoryBody::Note(Vec::new())));
    let mut bench = FeedBench::new(80);
    bench.model.push_history(&items);
    let lines = bench.model.take_finished(&bench.cx);
    let text = show(&lines, 80);
    assert!(
        text.starts_with("  201 earlier messages and calls (ctrl+o)\n\n❯ prompt 100\n\n  answer\n"),
        "{}",
        &text[..90]
    );
    assert!(text.ends_with("❯ prompt 299\n\n  answer\n"));
}

/// Every event with the same text in all its places.
fn hostile_events(text: &str) -> Vec<EventBody> {
    let path = || text.to_owned();
    let views = vec![
        View::Text(path()),
        View::Diff { path: path(), hunks: vec![hunk(1, 1, &[&format!("-{text}"), &format!("+{text}!"), text])] },
        View::Terminal { command: path(), output: path(), exit_code: Some(1) },
        View::Files { paths: vec![path(), path()], note: Some(path()) },
        View::Todos(vec![TodoItem { text: path(), status: TodoStatus::InProgress }]),
        View::Table { head: vec![path(), path()], rows: vec![vec![path(), path()]] },
    ];
    let tool = |phase| {
        EventBody::Tool(Box::new(ToolCallView { call: ToolUseId::new(text), name: path(), summary: path(), phase }))
    };
    let mut events = vec![
        EventBody::TurnStarting(Arc::default()),
        EventBody::Prompt(AcceptedPrompt {
            uuid: EntryId::new(text),
            blocks: vec![Block::text(text)],
            plain: true,
            synthetic: false,
            origin: None,
        }),
        EventBody::BlockStarted { item: ItemId(1), kind: BlockKind::Text, name: Some(path()) },
        EventBody::Delta(BlockDelta { item: ItemId(1), kind: DeltaKind::Text, text: path() }),
        EventBody::BlockStarted { item: ItemId(2), kind: BlockKind::ToolUse, name: Some(path()) },
        tool(ToolCallPhase::Running),
        tool(ToolCallPhase::Progress { text: path(), elapsed_ms: 1 }),
    ];
    for view in views {
        events.push(tool(ToolCallPhase::Done { view: view.clone(), elapsed_ms: 1 }));
        events.push(tool(ToolCallPhase::Failed { message: path(), view, elapsed_ms: 1 }));
    }
    let mut running = task(text, "local_agent", text);
    running.subagent_type = Some(path());
    running.progress = Some(TaskProgress { description: path(), last_tool: Some(path()), ..TaskProgress::default() });
    events.extend([
        EventBody::Task(Box::new(running)),
        EventBody::Denied(Denial { tool: path(), summary: path(), ..denial(text, text) }),
        EventBody::Notice(Notice { level: NoticeLevel::Warning, text: path() }),
        EventBody::Notice(Notice { level: NoticeLevel::Status, text: path() }),
        EventBody::CommandReply(CommandReply { name: path(), text: path() }),
        EventBody::UnknownCommand { name: path(), nearest: vec![path()] },
    ]);
    events
}

#[test]
fn hostile_text_reaches_no_line() {
    let hostile =
        "a\u{1b}[2J\u{1b}]52;c;aGk=\u{7}\u{1b}]0;title\u{1b}\\\u{9b}5A\rb\u{202e}c\u{200b}d\u{0}\u{8}\te\nf\u{85}g";
    let long = "wörd ".repeat(3_000) + &"x".repeat(30_000);
    for (text, width) in [(hostile, 80), (hostile, 40), (hostile, 3), (long.as_str(), 80)] {
        let mut bench = FeedBench::new(width);
        for event in hostile_events(text) {
            bench.apply(event);
            // Checks every line.
            let screen = bench.screen();
            assert!(!screen.contains(['\u{202e}', '\u{200b}']));
            bench.printed.clear();
        }
        let item = item("x", HistoryBody::Prompt(vec![Block::text(text)]));
        show(&TranscriptLines::render(&[item], &jiff::tz::TimeZone::UTC, &bench.cx).lines, width);
    }
}
