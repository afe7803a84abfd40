//! AskUserQuestion: asks the user questions and returns the answers to the model.
//!
//! The gate asks before the call runs, as for any other call; the reply carries the input with `answers` filled in, and
//! the tool passes them on. It never answers in the user's place, and answers written by the model are dropped before
//! the question is shown.

mod preview;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::Duration;

use gimlet_core::tool::{
    AgentAvailability, CallSite, InputProblem, PathContext, PromptContext, Tool, ToolContext, ToolError, ToolResult,
};
use gimlet_proto::{AccessNeed, CallQuestion, QuestionAnswers, QuestionChoice, ResultContent, UserReply, View};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use self::preview::PreviewFormat;

/// Codes of refused inputs.
const QUESTION_COUNT: u32 = 1;
const OPTION_COUNT: u32 = 2;
const SAME_QUESTION: u32 = 3;
const SAME_LABEL: u32 = 4;
const UNFIT_PREVIEW: u32 = 5;

/// Input members that only the reply may set.
const ANSWERED: &[&str] = &["answers", "annotations", "response", "metadata"];

/// Input members hidden from the model when the host does not show previews.
const NOT_OFFERED: &[&str] = &["answers", "annotations", "response", "metadata", "questions[].options[].preview"];

const NOBODY: &str = "Nobody can answer questions in this run. Decide yourself: take the option that you would \
                      recommend, go on, and say in your answer what you assumed.";

const NO_ANSWER: &str = "Nobody answered these questions. Decide yourself: take the options that you would recommend, \
                         and say in your answer what you assumed.";

/// Metadata key that records an answer timeout.
const WAITED: &str = "afkTimeoutMs";

pub(crate) struct AskUserQuestion;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AskUserQuestionInput {
    /// What to ask, all at once
    #[schemars(length(min = 1, max = 4))]
    questions: Vec<UserQuestion>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answers: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    annotations: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    response: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Map<String, Value>>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UserQuestion {
    /// The whole question
    question: String,
    /// A tag for it
    header: String,
    /// Answers to choose from
    #[schemars(length(min = 2, max = 4))]
    options: Vec<QuestionOption>,
    /// Several may be chosen
    #[serde(default)]
    multi_select: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuestionOption {
    /// 1 to 5 words
    label: String,
    /// What choosing it means
    #[serde(default)]
    description: String,
    /// What it would look like
    #[serde(default, skip_serializing_if = "Option::is_none")]
    preview: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AskUserQuestionOutput {
    questions: Vec<UserQuestion>,
    /// By the text of the question.
    answers: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<Map<String, Value>>,
    /// Time waited, in milliseconds, when no answer came.
    #[serde(skip_serializing_if = "Option::is_none")]
    afk_timeout_ms: Option<u64>,
}

impl Tool for AskUserQuestion {
    const NAME: &'static str = "AskUserQuestion";
    type Input = AskUserQuestionInput;
    type Output = AskUserQuestionOutput;

    fn prompt(&self, cx: &PromptContext) -> Cow<'static, str> {
        let text = include_str!("ask_user_question.md").trim_ascii_end();
        match PreviewFormat::from_env(&cx.env) {
            Some(format) => Cow::Owned(format!("{text}{}", format.prompt())),
            None => Cow::Borrowed(text),
        }
    }

    fn hidden_parameters(&self, cx: &PromptContext) -> &'static [&'static str] {
        if PreviewFormat::from_env(&cx.env).is_some() { ANSWERED } else { NOT_OFFERED }
    }

    fn reserved_parameters(&self) -> &'static [&'static str] {
        ANSWERED
    }

    fn key_repairs(&self) -> &'static [(&'static str, &'static str)] {
        &[("questions[].multi_select", "multiSelect")]
    }

    fn needs(&self, _input: &AskUserQuestionInput, _cx: &PathContext) -> Vec<AccessNeed> {
        vec![AccessNeed::Session]
    }

    /// Removes previews that the host did not ask for.
    fn backfill_observable_input(&self, input: &mut AskUserQuestionInput, cx: &PathContext) {
        if PreviewFormat::from_env(&cx.env).is_none() {
            remove_previews(&mut input.questions);
        }
    }

    fn requires_attended_session(&self) -> bool {
        true
    }

    fn unanswered_message(&self) -> Option<&'static str> {
        Some(NOBODY)
    }

    fn question(&self, input: &AskUserQuestionInput) -> Option<CallQuestion> {
        let choice = |option: &QuestionOption| QuestionChoice {
            label: option.label.clone(),
            description: option.description.clone(),
            preview: option.preview.clone(),
        };
        let shown = |asked: &UserQuestion| gimlet_proto::UserQuestion {
            question: asked.question.clone(),
            header: asked.header.clone(),
            options: asked.options.iter().map(choice).collect(),
            multi_select: asked.multi_select,
        };
        Some(CallQuestion::Questions(input.questions.iter().map(shown).collect()))
    }

    fn input_with_reply(&self, input: &Value, reply: &UserReply) -> Option<Value> {
        let UserReply::Answers(QuestionAnswers { answers, response, notes }) = reply else { return None };
        let mut input = input.clone();
        let answers: Map<String, Value> =
            answers.iter().map(|(asked, chosen)| (asked.clone(), json!(chosen))).collect();
        input["answers"] = answers.into();
        if let Some(response) = response {
            input["response"] = json!(response);
        }
        if !notes.is_empty() {
            let notes = notes.iter().map(|(asked, notes)| (asked.clone(), json!({"notes": notes})));
            input["annotations"] = notes.collect::<Map<String, Value>>().into();
        }
        Some(input)
    }

    fn input_without_answer(&self, input: &Value, waited: Duration) -> Option<Value> {
        let mut input = input.clone();
        input["answers"] = json!({});
        input["metadata"] = json!({WAITED: u64::try_from(waited.as_millis()).ok()?});
        Some(input)
    }

    /// Returns false if the input already has answers from a user, a program or a hook.
    fn requires_user_interaction(&self, input: &AskUserQuestionInput) -> bool {
        input.answers.is_none() && input.response.is_none()
    }

    fn misplaced_reason(&self, scene: CallSite) -> Option<&'static str> {
        scene
            .is_subagent
            .then_some("Only the main conversation asks the user. Decide yourself, and report what you assumed.")
    }

    fn validate_input(&self, input: &AskUserQuestionInput, cx: &PathContext) -> Result<(), InputProblem> {
        let count = input.questions.len();
        if !(1..=4).contains(&count) {
            let text = format!("Ask one to four questions in a call, not {count}.");
            return Err(InputProblem::new(QUESTION_COUNT, text));
        }
        if let Some(twice) = first_duplicate(input.questions.iter().map(|question| question.question.as_str())) {
            let text = format!("The question {twice:?} is there twice; answers could not be told apart.");
            return Err(InputProblem::new(SAME_QUESTION, text));
        }
        input.questions.iter().try_for_each(check_options)?;
        match PreviewFormat::from_env(&cx.env) {
            Some(format) => input.questions.iter().try_for_each(|question| check_previews(question, format)),
            None => Ok(()),
        }
    }

    async fn call(
        &self,
        mut input: AskUserQuestionInput,
        cx: &ToolContext,
    ) -> Result<ToolResult<AskUserQuestionOutput>, ToolError> {
        self.backfill_observable_input(&mut input, &cx.paths);
        let given = input.answers.unwrap_or_default();
        let answers = given.into_iter().map(|(question, answer)| (question, Value::from(join_choices(answer))));
        Ok(ToolResult::new(AskUserQuestionOutput {
            questions: input.questions,
            answers: answers.filter(|(_, answer)| answer != "").collect(),
            response: input.response.filter(|response| !response.trim().is_empty()),
            annotations: input.annotations,
            afk_timeout_ms: input.metadata.and_then(|metadata| metadata.get(WAITED)?.as_u64()),
        }))
    }

    fn to_blocks(&self, output: &AskUserQuestionOutput) -> ResultContent {
        // Neutral wording: an answer such as "wait" or "explain first" must be followed, not overridden.
        if let Some(response) = &output.response {
            return format!("The user replied to the questions as a whole: {response}").into();
        }
        if output.answers.is_empty() {
            return match output.afk_timeout_ms {
                Some(ms) => format!("The user may be away: nothing came within {} s. {NO_ANSWER}", ms / 1_000).into(),
                None => NO_ANSWER.into(),
            };
        }
        let mut text = String::from("The user answered:");
        for (question, answer) in ordered_answers(output) {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n- {question} -> {answer}");
            if let Some(notes) = answer_notes(output, question) {
                let _ = write!(text, " (note: {notes})");
            }
        }
        for UserQuestion { question, .. } in
            output.questions.iter().filter(|asked| !output.answers.contains_key(&asked.question))
        {
            let _ = write!(text, "\n- {question} -> no answer");
        }
        text.into()
    }

    fn view(&self, _input: &AskUserQuestionInput, output: &AskUserQuestionOutput) -> View {
        if output.response.is_some() || output.answers.is_empty() {
            return View::Text(self.to_blocks(output).to_text());
        }
        let rows = ordered_answers(output).map(|(question, answer)| vec![question.to_owned(), answer.to_owned()]);
        View::Table { head: vec!["Question".to_owned(), "Answer".to_owned()], rows: rows.collect() }
    }

    fn description(&self, input: &AskUserQuestionInput, _cx: &PathContext) -> String {
        let questions: Vec<&str> = input.questions.iter().map(|question| question.question.as_str()).collect();
        questions.join(" / ")
    }

    fn agent_availability(&self) -> AgentAvailability {
        AgentAvailability::Never
    }

    fn search_hint(&self) -> &'static str {
        "ask user question clarify choose options"
    }
}

fn check_options(question: &UserQuestion) -> Result<(), InputProblem> {
    let (asked, count) = (&question.question, question.options.len());
    if !(2..=4).contains(&count) {
        let text = format!("The question {asked:?} needs two to four options, not {count}.");
        return Err(InputProblem::new(OPTION_COUNT, text));
    }
    match first_duplicate(question.options.iter().map(|option| option.label.as_str())) {
        Some(twice) => {
            let text = format!("The question {asked:?} has the option {twice:?} twice.");
            Err(InputProblem::new(SAME_LABEL, text))
        }
        None => Ok(()),
    }
}

fn check_previews(question: &UserQuestion, format: PreviewFormat) -> Result<(), InputProblem> {
    for option in &question.options {
        if let Some(part) = option.preview.as_deref().and_then(|preview| format.find_problem(preview)) {
            let text = format!(
                "The preview of the option {:?} has `{part}`; it must be a piece of HTML without script, style sheet and \
                 doctype. Write styles inline.",
                option.label
            );
            return Err(InputProblem::new(UNFIT_PREVIEW, text));
        }
    }
    Ok(())
}

fn remove_previews(questions: &mut [UserQuestion]) {
    questions.iter_mut().flat_map(|question| &mut question.options).for_each(|option| option.preview = None);
}

/// Returns the first text that occurs twice.
fn first_duplicate<'a>(mut texts: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = HashSet::new();
    texts.find(|text| !seen.insert(text.trim()))
}

/// Joins several choices into one text, as front ends send them.
fn join_choices(answer: Value) -> String {
    match answer {
        Value::String(text) => text,
        Value::Array(choices) => choices.into_iter().map(join_choices).collect::<Vec<_>>().join(", "),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Returns the answers, those to the questions first and in their order.
fn ordered_answers(output: &AskUserQuestionOutput) -> impl Iterator<Item = (&str, &str)> {
    let asked = output.questions.iter().map(|asked| asked.question.as_str());
    let others = output.answers.keys().map(String::as_str);
    let others = others.filter(|key| output.questions.iter().all(|asked| asked.question != *key));
    asked.chain(others).filter_map(|question| Some((question, output.answers.get(question)?.as_str()?)))
}

/// Returns the user's notes beside an answer, if any.
fn answer_notes<'a>(output: &'a AskUserQuestionOutput, question: &str) -> Option<&'a str> {
    output.annotations.as_ref()?.get(question)?.get("notes")?.as_str().filter(|notes| !notes.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use gimlet_core::offered_schema;
    use gimlet_core::tool::AnyTool;
    use gimlet_proto::Env;
    use serde_json::json;

    use super::*;
    use crate::harness::ToolBench;

    fn questions() -> Value {
        json!([
            {"question": "Which store?", "header": "Store", "multiSelect": false, "options": [
                {"label": "SQLite", "description": "single file"}, {"label": "Postgres", "description": "server"}]},
            {"question": "Which targets?", "header": "A header that is long", "multiSelect": true, "options": [
                {"label": "Linux", "description": ""}, {"label": "macOS", "preview": "ignored"}]}
        ])
    }

    #[tokio::test]
    async fn a_front_end_gets_the_questions_as_data_and_its_reply_becomes_the_input() {
        let input: AskUserQuestionInput = serde_json::from_value(json!({ "questions": questions() })).unwrap();
        let Some(CallQuestion::Questions(asked)) = Tool::question(&AskUserQuestion, &input) else {
            panic!("questions")
        };
        assert_eq!((asked[0].header.as_str(), asked[0].options[1].label.as_str()), ("Store", "Postgres"));
        assert!(asked[1].multi_select);
        let answers = vec![("Which targets?".to_owned(), vec!["Linux".to_owned(), "macOS".to_owned()])];
        let notes = vec![("Which targets?".to_owned(), "both".to_owned())];
        let reply = UserReply::Answers(QuestionAnswers { answers, notes, response: None });
        let input = Tool::input_with_reply(&AskUserQuestion, &json!({ "questions": questions() }), &reply).unwrap();
        let (text, _) = told(input).await;
        assert!(text.contains("Which targets? -> Linux, macOS (note: both)"), "{text}");
        assert!(Tool::input_with_reply(&AskUserQuestion, &json!({}), &UserReply::Plan(String::new())).is_none());
    }

    async fn told(rest: Value) -> (String, Value) {
        let mut input = json!({ "questions": questions() });
        input.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        let given = ToolBench::new().call(&AskUserQuestion, input).await.unwrap();
        (given.text, given.output)
    }

    #[tokio::test]
    async fn answers_come_back_by_question_with_several_choices_as_one_text() {
        let (text, output) = told(json!({
            "answers": {"Which targets?": ["Linux", "macOS"], "Which store?": "SQLite"},
            "annotations": {"Which store?": {"notes": "for now"}},
        }))
        .await;
        assert_eq!(
            text,
            "The user answered:\n- Which store? -> SQLite (note: for now)\n- Which targets? -> Linux, macOS"
        );
        assert_eq!(output["answers"], json!({"Which targets?": "Linux, macOS", "Which store?": "SQLite"}));
        assert_eq!(output["questions"][0]["options"][0]["label"], "SQLite");
    }

    #[tokio::test]
    async fn a_question_left_open_is_said_and_so_is_no_answer_at_all() {
        let (text, _) = told(json!({"answers": {"Which store?": "wait, explain first"}})).await;
        assert!(text.contains("-> wait, explain first") && text.ends_with("Which targets? -> no answer"), "{text}");
        for nothing in [json!({}), json!({"answers": {}}), json!({"answers": {"Which store?": ""}})] {
            let (text, output) = told(nothing).await;
            assert!(text.starts_with("Nobody answered"), "{text}");
            assert_eq!(output["answers"], json!({}));
        }
    }

    #[tokio::test]
    async fn a_reply_to_everything_replaces_the_list() {
        let (text, output) =
            told(json!({"answers": {"Which store?": "SQLite"}, "response": "Neither: use files"})).await;
        assert_eq!(text, "The user replied to the questions as a whole: Neither: use files");
        assert_eq!(output["response"], "Neither: use files");
    }

    #[test]
    fn what_could_not_be_answered_is_refused_before_anyone_is_asked() {
        let option = |label: &str| json!({"label": label, "description": ""});
        let question = |text: &str, options: Vec<Value>| json!({"question": text, "header": "h", "options": options});
        let two = || vec![option("a"), option("b")];
        for (input, part) in [
            (json!([]), "one to four"),
            (json!((0..5).map(|n| question(&n.to_string(), two())).collect::<Vec<_>>()), "not 5"),
            (json!([question("a", two()), question("a", two())]), "twice"),
            (json!([question("a", vec![option("x")])]), "two to four options"),
            (json!([question("a", vec![option("x"), option("x")])]), "the option \"x\" twice"),
        ] {
            let text =
                ToolBench::new().prepare(&AskUserQuestion, json!({ "questions": input })).unwrap_err().model_text;
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_slip_in_a_key_is_mended_or_named_and_never_dropped() {
        let asked = |more: Value| {
            let mut question = questions()[0].clone();
            question.as_object_mut().unwrap().shift_remove("multiSelect");
            question.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            AnyTool::prepare(&AskUserQuestion, json!({"questions": [question]}), &ToolBench::new().services().paths())
        };
        let mended = asked(json!({"multi_select": true})).unwrap().input;
        assert_eq!(mended["questions"][0]["multiSelect"], true);
        let option = |more: &str| json!({"label": "a", more: "b"});
        for (more, name) in [
            (json!({"multi": true}), "`questions[0].multi`"),
            (json!({"options": [option("description"), option("desc")]}), "`questions[0].options[1].desc`"),
        ] {
            let refused = asked(more).err().unwrap().model_text;
            assert!(refused.contains(name), "{refused}");
        }
    }

    #[tokio::test]
    async fn previews_are_for_those_who_asked_for_them() {
        const FORMAT: &str = "CLAUDE_CODE_QUESTION_PREVIEW_FORMAT";
        let asking = |format: &str| {
            let mut bench = ToolBench::new();
            bench.env = Env::default().with(FORMAT, format);
            bench
        };
        let input = |preview: &str| {
            json!({"questions": [{"question": "Which look?", "header": "Look", "options": [
                {"label": "A", "description": "", "preview": preview}, {"label": "B", "description": ""}]}],
                "answers": {"Which look?": "A"}})
        };
        let preview = |output: &Value| output["questions"][0]["options"][0]["preview"].clone();
        for (mut bench, seen) in [
            (ToolBench::new(), Value::Null),
            (asking("pdf"), Value::Null),
            (asking("markdown"), "<STYLE>b{}</STYLE>".into()),
        ] {
            let given = bench.call(&AskUserQuestion, input("<STYLE>b{}</STYLE>")).await.unwrap();
            assert_eq!(preview(&given.output), seen);
        }
        let mut html = asking("html");
        let refused = html.prepare(&AskUserQuestion, input("<STYLE>b{}</STYLE>")).unwrap_err().model_text;
        assert!(refused.contains("`<style`") && refused.contains("\"A\""), "{refused}");
        let given = html.call(&AskUserQuestion, input("<b style='color:red'>x</b>")).await.unwrap();
        assert_eq!(preview(&given.output), "<b style='color:red'>x</b>");
        // The schema offers previews to the model under that condition, too.
        for (format, offered) in [(None, false), (Some("html"), true)] {
            let env = format.map_or_else(Env::default, |format| Env::default().with(FORMAT, format));
            let cx = PromptContext { env, tools: vec![], background: false, sandbox: None, agents: vec![] };
            let schema = offered_schema(&AskUserQuestion, &cx);
            let option = &schema["properties"]["questions"]["items"]["properties"]["options"]["items"]["properties"];
            assert!(option["label"].is_object());
            assert_eq!(option["preview"].is_object(), offered);
            assert_eq!(Tool::prompt(&AskUserQuestion, &cx).contains("`preview`"), offered);
        }
    }

    #[test]
    fn it_is_a_question_until_it_is_answered() {
        let input = |rest: Value| -> AskUserQuestionInput {
            let mut input = json!({ "questions": questions() });
            input.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            serde_json::from_value(input).unwrap()
        };
        assert!(AskUserQuestion.requires_user_interaction(&input(json!({}))));
        assert!(!AskUserQuestion.requires_user_interaction(&input(json!({"answers": {}}))));
        assert!(!AskUserQuestion.requires_user_interaction(&input(json!({"response": "x"}))));
    }
}
