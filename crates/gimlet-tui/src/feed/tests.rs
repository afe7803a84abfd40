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
    let (_, end) = bench.screen().rsplit_once("TodoWrite").map(|(start, end)| (start.len(), end.to_owned())).unwrap();
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
