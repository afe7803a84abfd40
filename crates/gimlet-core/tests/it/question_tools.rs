//! Tools that are questions by nature: who is asked, what an answer changes, and what happens where nobody can answer.

use std::borrow::Cow;
use std::time::Duration;

use gimlet_core::tool::{PathContext, PromptContext, Tool, ToolContext, ToolError, ToolResult};
use gimlet_proto::{
    AccessNeed, Approval, AskAnswer, AskBody, Block, CallQuestion, EventBody, Op, PermissionMode, QuestionAnswers,
    ResultContent, UserQuestion, UserReply,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::session_bench::{BenchSetup, SessionBench, answer_all, call, reply};

/// Asks one thing; only whoever is asked may fill in the answer.
pub(crate) struct QuizTool;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuizInput {
    question: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
}

impl Tool for QuizTool {
    const NAME: &'static str = "Quiz";
    type Input = QuizInput;
    type Output = String;
    fn prompt(&self, _cx: &PromptContext) -> Cow<'static, str> {
        "A question.".into()
    }
    fn needs(&self, _input: &QuizInput, _cx: &PathContext) -> Vec<AccessNeed> {
        vec![AccessNeed::Session]
    }
    fn requires_user_interaction(&self, input: &QuizInput) -> bool {
        input.answer.is_none()
    }
    fn reserved_parameters(&self) -> &'static [&'static str] {
        &["answer"]
    }
    fn unanswered_message(&self) -> Option<&'static str> {
        Some("nobody is here: decide yourself")
    }
    fn input_without_answer(&self, input: &Value, waited: Duration) -> Option<Value> {
        let mut input = input.clone();
        input["answer"] = json!(format!("none within {} ms", waited.as_millis()));
        Some(input)
    }
    fn question(&self, input: &QuizInput) -> Option<CallQuestion> {
        let (question, header) = (input.question.clone(), "Quiz".to_owned());
        Some(CallQuestion::Questions(vec![UserQuestion { question, header, options: Vec::new(), multi_select: false }]))
    }
    fn input_with_reply(&self, input: &Value, reply: &UserReply) -> Option<Value> {
        let UserReply::Answers(given) = reply else { return None };
        let mut input = input.clone();
        input["answer"] = json!(given.answers[0].1.join(" and "));
        Some(input)
    }
    fn requires_attended_session(&self) -> bool {
        true
    }
    async fn call(&self, input: QuizInput, _cx: &ToolContext) -> Result<ToolResult<String>, ToolError> {
        Ok(ToolResult::new(input.answer.unwrap_or_else(|| "no answer".to_owned())))
    }
    fn to_blocks(&self, output: &String) -> ResultContent {
        output.clone().into()
    }
}

/// The model answers its own question, which must never count.
fn bench(mode: PermissionMode, attended: bool) -> SessionBench {
    let quiz = call("a", "Quiz", json!({"question": "Which?", "answer": "the model's own"}));
    SessionBench::new(
        BenchSetup { mode, attended, ..BenchSetup::default() },
        vec![reply(&[quiz]), reply(&[Block::text("done")])],
    )
}

#[tokio::test]
async fn it_is_asked_in_every_mode_once_and_the_answer_comes_back() {
    for mode in
        [PermissionMode::Default, PermissionMode::AcceptEdits, PermissionMode::Plan, PermissionMode::BypassPermissions]
    {
        let mut bench = bench(mode, true);
        bench.say("go");
        let mut asked = Vec::new();
        bench
            .turn(|event, handle| {
                let EventBody::Ask(ask) = &event.body else { return };
                let gimlet_proto::PermissionAsk { input, .. } = ask.body.call().unwrap();
                asked.push(input.get().to_owned());
                let input = RawValue::from_string(r#"{"question":"Which?","answer":"that one"}"#.to_owned()).unwrap();
                let answer = AskAnswer::Yes(Approval { input: Some(input), changes: Vec::new() });
                handle.send(Op::Answer { ask: ask.id, answer });
            })
            .await;
        assert_eq!(asked, [r#"{"question":"Which?"}"#], "in {mode}");
        assert_eq!(bench.results(1)[0].2, "that one", "in {mode}");
        bench.close().await;
    }
}

#[tokio::test]
async fn a_front_end_reads_the_question_and_replies_without_knowing_the_tool() {
    let fits = UserReply::Answers(QuestionAnswers {
        answers: vec![("Which?".to_owned(), vec!["this".to_owned(), "that".to_owned()])],
        ..QuestionAnswers::default()
    });
    let unfit = UserReply::Plan("1. no question".to_owned());
    for (given, is_error, text) in [(fits, false, "this and that"), (unfit, true, "does not fit the question")] {
        let mut bench = bench(PermissionMode::Default, true);
        bench.say("go");
        let mut asked = Vec::new();
        bench
            .turn(|event, handle| {
                let EventBody::Ask(ask) = &event.body else { return };
                let AskBody::Question { questions, .. } = &ask.body else { panic!("{:?}", ask.body) };
                asked.extend(questions.iter().map(|asked| asked.question.clone()));
                handle.send(Op::Answer { ask: ask.id, answer: AskAnswer::Replied(given.clone()) });
            })
            .await;
        assert_eq!(asked, ["Which?"]);
        let (_, failed, said) = &bench.results(1)[0];
        assert!(*failed == is_error && said.contains(text), "{said}");
        bench.close().await;
    }
}

#[tokio::test]
async fn a_yes_without_an_answer_is_no_answer_and_never_the_models_own() {
    let mut bench = bench(PermissionMode::Default, true);
    bench.say("go");
    bench.turn(answer_all(AskAnswer::yes)).await;
    assert_eq!(bench.results(1)[0].2, "no answer");
    bench.close().await;
}

#[tokio::test]
async fn where_nobody_can_answer_it_is_refused_with_advice_and_runs_unanswered_where_permissions_are_bypassed() {
    for (mode, is_error, text) in [
        (PermissionMode::Default, true, "nobody is here: decide yourself"),
        (PermissionMode::BypassPermissions, false, "no answer"),
    ] {
        let mut bench = bench(mode, false);
        let report = bench.run("go").await;
        assert_eq!(bench.results(1), [("a".to_owned(), is_error, text.to_owned())], "in {mode}");
        assert_eq!(report.denials.len(), usize::from(is_error));
        bench.close().await;
    }
}

#[tokio::test]
async fn the_mode_that_asks_nothing_refuses_it() {
    let mut bench = bench(PermissionMode::DontAsk, true);
    bench.say("go");
    let report = bench.turn(answer_all(AskAnswer::yes)).await;
    assert_eq!(report.denials[0].origin, "mode");
    assert!(bench.results(1)[0].1);
    bench.close().await;
}

#[tokio::test]
async fn it_is_offered_only_where_someone_can_answer() {
    for attended in [true, false] {
        let mut bench = bench(PermissionMode::BypassPermissions, attended);
        bench.say("go");
        let mut offered = Vec::new();
        bench
            .turn(|event, handle| {
                if let EventBody::TurnStarting(opened) = &event.body {
                    offered = opened.tools.clone();
                }
                answer_all(AskAnswer::yes)(event, handle);
            })
            .await;
        assert_eq!(offered.contains(&"Quiz".to_owned()), attended);
        assert_eq!(bench.model.requests()[0].tools.iter().any(|tool| tool.name == "Quiz"), attended);
        bench.close().await;
    }
}

#[tokio::test]
async fn a_question_that_waited_long_enough_is_withdrawn_and_goes_on_without_an_answer() {
    let quiz = call("a", "Quiz", json!({"question": "Which?"}));
    let patience = Some(Duration::from_millis(20));
    let setup = BenchSetup {
        mode: PermissionMode::Default,
        attended: true,
        question_patience: patience,
        ..BenchSetup::default()
    };
    let mut bench = SessionBench::new(setup, vec![reply(&[quiz]), reply(&[Block::text("done")])]);
    bench.say("go");
    let (mut open, mut closed) = (Vec::new(), Vec::new());
    let report = bench
        .turn(|event, _| match &event.body {
            EventBody::Ask(ask) => open.push(ask.id),
            EventBody::AskClosed(id) => closed.push(*id),
            _ => {}
        })
        .await;
    assert_eq!(bench.results(1)[0].2, "none within 20 ms");
    assert_eq!((open.len(), closed, report.denials.len()), (1, open, 0));
    bench.close().await;
}
