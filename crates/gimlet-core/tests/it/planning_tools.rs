//! Plan mode by way of tools: how the mode changes, what comes back afterwards, and what the model is told.

use std::borrow::Cow;
use std::sync::Arc;

use gimlet_core::tool::{
    CallSite, ModeChangeRequest, PathContext, PromptContext, Tool, ToolContext, ToolError, ToolResult,
};
use gimlet_core::{PlanConfig, SessionServices};
use gimlet_proto::{
    AccessNeed, Approval, AskAnswer, Block, EventBody, ModelEvent, Op, OpReply, PermissionMode, ResultContent,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::session_bench::{BenchSetup, SessionBench, call, reply};

/// Begins (`begin`) or ends planning; the end is a question to a person.
pub(crate) struct PlannerTool;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PlannerInput {
    #[serde(default)]
    begin: bool,
    #[serde(default)]
    seen: String,
}

impl Tool for PlannerTool {
    const NAME: &'static str = "Planner";
    type Input = PlannerInput;
    type Output = String;
    fn prompt(&self, _cx: &PromptContext) -> Cow<'static, str> {
        "Plans.".into()
    }
    fn needs(&self, _input: &PlannerInput, _cx: &PathContext) -> Vec<AccessNeed> {
        vec![AccessNeed::Session]
    }
    fn requires_user_interaction(&self, input: &PlannerInput) -> bool {
        !input.begin
    }
    fn misplaced_reason(&self, scene: CallSite) -> Option<&'static str> {
        (scene.mode == PermissionMode::DontAsk).then_some("not in this mode")
    }
    fn complete_input(
        &self,
        input: &Map<String, Value>,
        services: &SessionServices,
    ) -> Result<Option<Map<String, Value>>, ToolError> {
        let seen = std::fs::read_to_string(services.results_dir().join("plan")).unwrap_or_default();
        let mut input = input.clone();
        input.insert("seen".into(), seen.into());
        Ok(Some(input))
    }
    async fn call(&self, input: PlannerInput, cx: &ToolContext) -> Result<ToolResult<String>, ToolError> {
        let folder = cx.services.results_dir();
        std::fs::create_dir_all(folder).and_then(|()| std::fs::write(folder.join("plan"), "a plan")).unwrap();
        let wish = if input.begin { ModeChangeRequest::BeginPlan } else { ModeChangeRequest::EndPlan };
        Ok(ToolResult::new(input.seen).with_change(move |session| session.mode_request = Some(wish)))
    }
    fn to_blocks(&self, output: &String) -> ResultContent {
        output.clone().into()
    }
}

fn begin() -> Block {
    call("begin", "Planner", json!({"begin": true}))
}

fn end(id: &str) -> Block {
    call(id, "Planner", json!({}))
}

fn touch(id: &str) -> Block {
    call(id, "Touch", json!({"name": id}))
}

fn bench(mode: PermissionMode, replies: Vec<Vec<ModelEvent>>) -> SessionBench {
    SessionBench::new(BenchSetup { mode, attended: true, ..BenchSetup::default() }, replies)
}

/// Runs a turn with one answer for every question; gives the modes that were announced and the inputs asked about.
async fn run(bench: &mut SessionBench, answer: impl Fn() -> AskAnswer) -> (Vec<PermissionMode>, Vec<String>) {
    let (mut modes, mut asked) = (Vec::new(), Vec::new());
    bench.say("go");
    bench
        .turn(|event, handle| match &event.body {
            EventBody::ModeChanged(mode) => modes.push(*mode),
            EventBody::Ask(ask) => {
                let gimlet_proto::PermissionAsk { input, .. } = ask.body.call().unwrap();
                asked.push(input.get().to_owned());
                handle.send(Op::Answer { ask: ask.id, answer: answer() });
            }
            _ => {}
        })
        .await;
    (modes, asked)
}

fn texts(bench: &SessionBench, request: usize) -> Vec<String> {
    let messages = &bench.model.requests()[request].messages;
    let blocks = messages.iter().flat_map(|message| &message.blocks);
    blocks.filter_map(Block::as_text).map(Cow::into_owned).filter(|text| text.contains("<plan-mode>")).collect()
}

#[tokio::test]
async fn planning_begins_and_ends_with_the_mode_before_it_and_the_model_hears_of_both_once() {
    let replies = vec![
        reply(&[begin()]),
        reply(&[touch("refused")]),
        reply(&[end("end"), touch("made")]),
        reply(&[Block::text("done")]),
    ];
    let mut bench = bench(PermissionMode::AcceptEdits, replies);
    let (modes, asked) = run(&mut bench, AskAnswer::yes).await;
    assert_eq!(modes, [PermissionMode::Plan, PermissionMode::AcceptEdits]);
    assert_eq!(asked.len(), 1, "only the end is a question: {asked:?}");
    assert!(bench.results(2)[0].2.contains("plan"), "{:?}", bench.results(2));
    assert_eq!(bench.results(3)[1].2, "made done");
    assert!(texts(&bench, 0).is_empty());
    assert!(texts(&bench, 1)[0].contains("Plan mode is on"));
    assert_eq!(texts(&bench, 2).len(), 1, "said once");
    assert!(texts(&bench, 3)[1].contains("over. The permission mode is acceptEdits"));
    bench.close().await;
}

#[tokio::test]
async fn whoever_approves_may_choose_another_mode() {
    let mut bench = bench(PermissionMode::Plan, vec![reply(&[end("end")]), reply(&[Block::text("done")])]);
    let (modes, _) = run(&mut bench, || {
        let update = r#"{"type":"setMode","mode":"acceptEdits","destination":"session"}"#;
        let update: Arc<RawValue> = RawValue::from_string(update.to_owned()).unwrap().into();
        AskAnswer::Yes(Approval { input: None, changes: vec![update] })
    })
    .await;
    assert_eq!(modes, [PermissionMode::AcceptEdits]);
    bench.close().await;
}

#[tokio::test]
async fn a_no_with_words_keeps_planning() {
    let mut bench = bench(PermissionMode::Plan, vec![reply(&[end("end")]), reply(&[Block::text("done")])]);
    let no = || AskAnswer::No { message: "smaller steps".into(), interrupt: false };
    let (modes, _) = run(&mut bench, no).await;
    assert!(modes.is_empty());
    assert!(bench.results(1)[0].2.contains("smaller steps"));
    assert_eq!(bench.handle.snapshot().mode, PermissionMode::Plan);
    bench.close().await;
}

#[tokio::test]
async fn an_input_is_completed_after_the_calls_before_it_and_before_anyone_is_asked() {
    let mut bench = bench(PermissionMode::Default, vec![reply(&[begin(), end("end")]), reply(&[Block::text("done")])]);
    let (_, asked) = run(&mut bench, AskAnswer::yes).await;
    assert_eq!(asked, [r#"{"begin":false,"seen":"a plan"}"#]);
    assert_eq!(bench.results(1)[1].2, "a plan");
    bench.close().await;
}

#[tokio::test]
async fn a_call_that_makes_no_sense_in_the_mode_is_told_so_and_nobody_is_asked() {
    let mut bench = bench(PermissionMode::DontAsk, vec![reply(&[end("end")]), reply(&[Block::text("done")])]);
    let (_, asked) = run(&mut bench, AskAnswer::yes).await;
    assert!(asked.is_empty());
    assert!(bench.results(1)[0].2.contains("not in this mode"), "{:?}", bench.results(1));
    bench.close().await;
}

#[tokio::test]
async fn the_session_may_write_its_own_plan_while_planning_and_nothing_else() {
    let writes = |writable: bool| async move {
        let mut bench = SessionBench::new_with(
            |project| {
                let own = project.join(if writable { "file" } else { "other" });
                let plans = PlanConfig { file: Some(own.clone()), ..PlanConfig::default() };
                BenchSetup {
                    mode: PermissionMode::Plan,
                    attended: true,
                    plans,
                    own: vec![own],
                    ..BenchSetup::default()
                }
            },
            vec![reply(&[touch("a")]), reply(&[Block::text("done")])],
        );
        run(&mut bench, AskAnswer::yes).await;
        let (_, is_error, _) = bench.results(1)[0].clone();
        assert!(texts(&bench, 0)[0].contains("Write the plan to"), "{:?}", texts(&bench, 0));
        bench.close().await;
        !is_error
    };
    assert!(writes(true).await);
    assert!(!writes(false).await);
}

#[tokio::test]
async fn a_conversation_that_ended_while_planning_is_told_that_it_is_over() {
    let plans = PlanConfig { was_planning: true, ..PlanConfig::default() };
    let setup = BenchSetup { mode: PermissionMode::Default, plans, ..BenchSetup::default() };
    let mut bench = SessionBench::new(setup, vec![reply(&[Block::text("done")]), reply(&[Block::text("done")])]);
    bench.run("go").await;
    assert!(texts(&bench, 0)[0].contains("Plan mode is over"));
    bench.handle.send(Op::SetMode { mode: PermissionMode::Plan, reply: OpReply::ignored() });
    bench.run("go").await;
    assert!(texts(&bench, 1)[1].contains("give the plan as your answer"), "{:?}", texts(&bench, 1));
    bench.close().await;
}
