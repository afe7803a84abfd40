//! One row of the fault matrix: how it is written, played and judged.

use std::sync::Arc;

use gimlet_script::{ReceivedRequest, Script, ScriptServer};
use gimlet_testkit::{RunBuilder, RunOutput, TestWorld};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::network_front::NetworkFront;
use crate::world;

/// Rows under way at once: most of them wait.
const AT_ONCE: usize = 6;
/// What is said when a session is resumed.
const RESUMED_PROMPT: &str = "and now?";

/// The history after a prompt that got no answer.
const UNANSWERED: &str = "u:text+text u:text";

/// One injection and what must come of it.
pub(super) struct FaultRow {
    script: Script,
    plan: FaultPlan,
}

struct FaultPlan {
    name: &'static str,
    args: Vec<&'static str>,
    env: Vec<(&'static str, &'static str)>,
    stdin: Option<String>,
    settings: Option<&'static str>,
    front: Option<NetworkFront>,
    requests: usize,
    fewer: usize,
    end: ExpectedEnd,
    retries: usize,
    later_retries: usize,
    notices: Vec<&'static str>,
    history: &'static str,
    lacks: Vec<&'static str>,
    resumed_by: fn(Script) -> Script,
    resumed_with: Option<&'static str>,
    refuses: bool,
    extends: bool,
    further: Option<fn(&ScriptServer, &RunOutput)>,
}

/// How the faulty run must end.
#[derive(Clone, Copy)]
enum ExpectedEnd {
    /// Exit 0 with exactly this as the result.
    Answer(&'static str),
    /// Exit 0; the row looks at the result itself.
    AnyAnswer,
    /// Exit 1, told once, with this in the message.
    Error(&'static str),
}

/// A script that misbehaves, and the outcome that most rows share: one request, answered with "done".
pub(super) fn new_row(name: &'static str, script: Script) -> FaultRow {
    let plan = FaultPlan {
        name,
        args: Vec::new(),
        env: vec![("GIMLET_TEST_RETRY_DELAY_MS", "5")],
        stdin: None,
        settings: None,
        front: None,
        requests: 1,
        fewer: 0,
        end: ExpectedEnd::Answer("done"),
        retries: 0,
        later_retries: 0,
        notices: Vec::new(),
        history: "u:text+text a:text u:text",
        lacks: Vec::new(),
        resumed_by: |script| script,
        resumed_with: None,
        refuses: false,
        extends: true,
        further: None,
    };
    FaultRow { script, plan }
}

impl FaultRow {
    fn change_plan(mut self, change: impl FnOnce(&mut FaultPlan)) -> Self {
        change(&mut self.plan);
        self
    }

    pub(super) fn with_args(self, args: &[&'static str]) -> Self {
        self.change_plan(|plan| plan.args.extend(args))
    }

    pub(super) fn with_env(self, name: &'static str, value: &'static str) -> Self {
        self.change_plan(|plan| plan.env.push((name, value)))
    }

    pub(super) fn expect_requests(self, count: usize) -> Self {
        self.change_plan(|plan| plan.requests = count)
    }

    pub(super) fn expect_answer(self, text: &'static str) -> Self {
        self.change_plan(|plan| plan.end = ExpectedEnd::Answer(text))
    }

    /// Exit 0, whatever the answer is.
    pub(super) fn expect_any_answer(self) -> Self {
        self.change_plan(|plan| plan.end = ExpectedEnd::AnyAnswer)
    }

    pub(super) fn expect_error(self, part: &'static str) -> Self {
        self.change_plan(|plan| {
            plan.end = ExpectedEnd::Error(part);
            plan.history = UNANSWERED;
        })
    }

    /// The first request was sent this many times more, byte for byte, and each time that was told.
    pub(super) fn expect_retries(self, times: usize) -> Self {
        self.change_plan(|plan| {
            plan.retries = times;
            plan.requests = plan.requests.max(times + 1);
        })
    }

    /// Retries of later requests than the first.
    pub(super) fn expect_later_retries(self, times: usize) -> Self {
        self.change_plan(|plan| plan.later_retries = times)
    }

    /// Something the person must be told. A row without this must tell nothing.
    pub(super) fn expect_notice(self, part: &'static str) -> Self {
        self.change_plan(|plan| plan.notices.push(part))
    }

    /// The messages of the request that resumes, such as `u:text+text a:text u:text`.
    pub(super) fn expect_history(self, shape: &'static str) -> Self {
        self.change_plan(|plan| plan.history = shape)
    }

    /// What the resumed history must not have.
    pub(super) fn expect_absent(self, text: &'static str) -> Self {
        self.change_plan(|plan| plan.lacks.push(text))
    }

    /// For rows whose history only some models take: what the one that resumes is like.
    pub(super) fn with_resuming_script(self, model: fn(Script) -> Script) -> Self {
        self.change_plan(|plan| plan.resumed_by = model)
    }

    /// For rows that end with another model than they began with: that is the one that goes on.
    pub(super) fn with_resuming_model(self, model: &'static str) -> Self {
        self.change_plan(|plan| plan.resumed_with = Some(model))
    }

    /// For rows in which the model refuses a request by its own rules.
    pub(super) fn expect_rule_refusal(self) -> Self {
        self.change_plan(|plan| plan.refuses = true)
    }

    /// What stands between gimlet and the model that misbehaves.
    pub(super) fn with_front(self, front: NetworkFront) -> Self {
        self.change_plan(|plan| plan.front = Some(front))
    }

    /// What the prompt is said with.
    pub(super) fn with_stdin(self, text: String) -> Self {
        self.change_plan(|plan| plan.stdin = Some(text))
    }

    /// The key comes from a command of the person's settings.
    pub(super) fn with_key_helper(self, settings: &'static str) -> Self {
        self.change_plan(|plan| plan.settings = Some(settings))
    }

    /// Of the requests, how many may be missing: an answer can get lost with its connection, and then there is a retry.
    pub(super) fn allow_fewer(self, fewer: usize) -> Self {
        self.change_plan(|plan| plan.fewer = fewer)
    }

    /// For rows in which the server made gimlet leave something out of what it sends.
    pub(super) fn allow_changed_history(self) -> Self {
        self.change_plan(|plan| plan.extends = false)
    }

    /// Whatever this row alone must hold.
    pub(super) fn check_also(self, check: fn(&ScriptServer, &RunOutput)) -> Self {
        self.change_plan(|plan| plan.further = Some(check))
    }

    async fn play_row(self) -> Vec<String> {
        let FaultRow { script, plan } = self;
        let world = world();
        world.file("a.txt", "alpha\n");
        world.file("b.txt", "beta\n");
        let model = script.var("dir", world.project.to_string_lossy()).serve().await.unwrap();
        let front = match plan.front {
            Some(front) => Some(front.start(&world, &model).await),
            None => None,
        };
        let url = front.as_ref().map_or_else(|| model.url(), |front| front.url.clone());
        let mut run = start_run(&plan, &world, &url, "go").args(plan.args.iter().copied());
        for (name, value) in front.iter().flat_map(|front| &front.env) {
            run = run.env(name, value);
        }
        if let Some(stdin) = &plan.stdin {
            run = run.stdin(stdin.clone());
        }
        let run = run.finish().await;
        let mut problems = RowProblems { name: plan.name, found: Vec::new() };
        check_run(&plan, &model, &run, &mut problems);
        if problems.found.is_empty() {
            check_resume(&plan, &world, &model, &run, &mut problems).await;
        }
        if let Some(check) = plan.further
            && problems.found.is_empty()
        {
            check(&model, &run);
        }
        problems.found
    }
}

/// A run in the surroundings of the row.
fn start_run<'a>(plan: &FaultPlan, world: &'a TestWorld, url: &str, prompt: &str) -> RunBuilder<'a> {
    let mut run = world.run_at(url).stream(prompt);
    if let Some(settings) = plan.settings {
        let folder = world.home.join(".claude");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("settings.json"), settings).unwrap();
        run = run.without_env("ANTHROPIC_API_KEY");
    }
    for (name, value) in &plan.env {
        run = run.env(name, *value);
    }
    run
}

/// Plays rows side by side and shows every problem of every row at once.
pub(super) async fn play_rows(rows: Vec<FaultRow>) {
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut playing = JoinSet::new();
    for row in rows {
        let permits = permits.clone();
        playing.spawn(async move {
            let _permit = permits.acquire_owned().await;
            row.play_row().await
        });
    }
    let problems: Vec<String> = playing.join_all().await.into_iter().flatten().collect();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

/// What is wrong with a row.
struct RowProblems {
    name: &'static str,
    found: Vec<String>,
}

impl RowProblems {
    fn expect(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.found.push(format!("{}: {}", self.name, otherwise()));
        }
    }
}

fn check_run(plan: &FaultPlan, model: &ScriptServer, run: &RunOutput, problems: &mut RowProblems) {
    let requests = model.requests().len();
    let missing = plan.requests.saturating_sub(requests);
    let as_many = requests <= plan.requests && missing <= plan.fewer;
    problems.expect(as_many, || format!("{requests} requests instead of {}", plan.requests));
    problems.expect(model.failures().is_empty(), || format!("{:?}", model.failures()));
    problems.expect(plan.refuses != model.rejections().is_empty(), || format!("refused: {:?}", model.rejections()));
    problems.expect(model.unplayed() == 0, || format!("{} steps were not reached", model.unplayed()));
    problems.expect(run.stderr.is_empty(), || format!("stderr: {}", run.stderr));
    for later in 1..=plan.retries.min(requests.saturating_sub(1)) {
        problems.expect(model.retry_identical(0, later), || format!("retry {later} sent other bytes"));
    }
    let lines = run.lines();
    let told = count_lines(&lines, |line| line["subtype"] == "api_retry");
    let retries = (plan.retries + plan.later_retries).saturating_sub(missing);
    problems.expect(told == retries, || format!("{told} retries told instead of {retries}"));
    check_notices(plan, &lines, problems);
    check_end(plan, run, &lines, problems);
}

fn check_notices(plan: &FaultPlan, lines: &[Value], problems: &mut RowProblems) {
    let told: Vec<&str> = lines
        .iter()
        .filter(|line| line["subtype"] == "informational")
        .filter_map(|line| line["content"].as_str())
        // Says only how slow this machine is.
        .filter(|text| !text.starts_with("still waiting for the model"))
        .collect();
    let as_expected = told.len() == plan.notices.len() && told.iter().zip(&plan.notices).all(|(a, b)| a.contains(b));
    problems.expect(as_expected, || format!("told {told:?} instead of {:?}", plan.notices));
}

fn check_end(plan: &FaultPlan, run: &RunOutput, lines: &[Value], problems: &mut RowProblems) {
    let results: Vec<&Value> = lines.iter().filter(|line| line["type"] == "result").collect();
    let [result] = results.as_slice() else {
        problems.expect(false, || format!("{} result lines, code {}: {}", results.len(), run.code, run.stdout));
        return;
    };
    problems.expect(lines.last() == Some(*result), || "something follows the result".to_owned());
    let text = result["result"].as_str().unwrap_or_default();
    let synthetic = count_lines(lines, |line| line["message"]["model"] == "<synthetic>");
    match plan.end {
        ExpectedEnd::Answer(_) | ExpectedEnd::AnyAnswer => {
            let wanted = if let ExpectedEnd::Answer(wanted) = plan.end { wanted } else { text };
            problems.expect(run.code == 0, || format!("exit code {}", run.code));
            problems.expect(result["is_error"] == false && text == wanted, || format!("ended with {result}"));
            problems.expect(synthetic == 0, || "an error was told although there is none".to_owned());
        }
        ExpectedEnd::Error(part) => {
            problems.expect(run.code == 1, || format!("exit code {}", run.code));
            let told = result["is_error"] == true && result["subtype"] == "success" && text.contains(part);
            problems.expect(told && !text.contains('\n'), || format!("ended with {result}"));
            problems.expect(synthetic == 1, || format!("the error was told {synthetic} times"));
        }
    }
}

fn count_lines(lines: &[Value], wanted: impl Fn(&Value) -> bool) -> usize {
    lines.iter().filter(|line| wanted(line)).count()
}

/// The session goes on against a strict model that knows nothing of what went wrong.
async fn check_resume(
    plan: &FaultPlan,
    world: &TestWorld,
    faulty: &ScriptServer,
    run: &RunOutput,
    problems: &mut RowProblems,
) {
    let id = run.result()["session_id"].as_str().unwrap_or_default().to_owned();
    let model = (plan.resumed_by)(Script::new().say("resumed")).serve().await.unwrap();
    let resumed =
        start_run(plan, world, &model.url(), RESUMED_PROMPT).args(["--resume", &id]).env("GIMLET_MAX_RETRIES", "0");
    let resumed = resumed.finish().await;
    let requests = model.requests();
    problems.expect(model.rejections().is_empty(), || format!("resuming was refused: {:?}", model.rejections()));
    problems.expect(resumed.code == 0 && requests.len() == 1, || {
        format!("resuming ended with {} after {} requests: {}", resumed.code, requests.len(), resumed.stderr)
    });
    problems.expect(resumed.stderr.is_empty(), || format!("resuming said: {}", resumed.stderr));
    let Some(request) = requests.first() else { return };
    let (shape, wanted) = (message_shape(request), plan.history);
    problems.expect(shape == wanted, || format!("the history is\n    {shape}\n  instead of\n    {wanted}"));
    let body = request.body_text();
    for text in &plan.lacks {
        problems.expect(!body.contains(text), || format!("the history still has {text:?}"));
    }
    problems.expect(request.last_user_text().ends_with(RESUMED_PROMPT), || "the new prompt is missing".to_owned());
    let before = faulty.requests();
    let wanted = plan.resumed_with.or_else(|| before.first().map(ReceivedRequest::model));
    problems.expect(wanted.is_none_or(|wanted| wanted == request.model()), || {
        format!("resumed with the model {}", request.model())
    });
    if let Some(last) = faulty.requests().last()
        && plan.extends
    {
        problems.expect(is_extension(last, request), || {
            format!("resuming changed what was sent:\n    {}\n    {shape}", message_shape(last))
        });
    }
}

/// The messages of a request in short: `u:text+text a:think+call u:result`; a failed result is `result!`.
pub(super) fn message_shape(request: &ReceivedRequest) -> String {
    let messages: Vec<String> = request
        .messages()
        .iter()
        .map(|message| {
            let blocks: Vec<String> = message["content"].as_array().into_iter().flatten().map(block_shape).collect();
            format!("{}:{}", &message["role"].as_str().unwrap_or("?")[..1], blocks.join("+"))
        })
        .collect();
    messages.join(" ")
}

fn block_shape(block: &Value) -> String {
    match block["type"].as_str().unwrap_or("?") {
        "thinking" => "think".to_owned(),
        "tool_use" => "call".to_owned(),
        "tool_result" if block["is_error"] == true => "result!".to_owned(),
        "tool_result" => "result".to_owned(),
        other => other.to_owned(),
    }
}

/// Whether `later` sends everything that `earlier` sent, unchanged and first.
fn is_extension(earlier: &ReceivedRequest, later: &ReceivedRequest) -> bool {
    let (before, after) = (unmarked_messages(earlier), unmarked_messages(later));
    after.starts_with(&before)
        && earlier.tools().len() == later.tools().len()
        && fixed_parts(earlier) == fixed_parts(later)
}

fn fixed_parts(request: &ReceivedRequest) -> (String, String) {
    let tools: Vec<Value> = request.tools().into_iter().map(remove_cache_marker).collect();
    (request.system_text(), Value::Array(tools).to_string())
}

/// Every message as it was sent, cache markers removed.
fn unmarked_messages(request: &ReceivedRequest) -> Vec<String> {
    let messages = request.messages();
    let messages = messages.iter().map(|message| {
        let content = message["content"].as_array().into_iter().flatten().cloned().map(remove_cache_marker);
        format!("{} {}", message["role"], Value::Array(content.collect()))
    });
    messages.collect()
}

fn remove_cache_marker(mut block: Value) -> Value {
    if let Some(fields) = block.as_object_mut() {
        fields.remove("cache_control");
    }
    block
}
