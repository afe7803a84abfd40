//! Answers in a form that the caller asked for.

use gimlet_core::OutputSchema;
use gimlet_proto::{Block, Env, ModelEvent, PermissionMode, TurnEnd, TurnReport};
use serde_json::{Value, json};

use crate::session_bench::{BenchSetup, SessionBench, call, reply};

const SCHEMA: &str = r#"{"type":"object","properties":{"count":{"type":"integer"}},"required":["count"]}"#;

fn answer(id: &str, input: Value) -> Block {
    call(id, "StructuredOutput", input)
}

fn bench(replies: Vec<Vec<ModelEvent>>) -> SessionBench {
    let output = Some(OutputSchema::parse(SCHEMA, &Env::default()).unwrap());
    // Not even the mode that asks nothing and the one that changes nothing stand in the way of an answer.
    SessionBench::new(BenchSetup { mode: PermissionMode::DontAsk, output, ..BenchSetup::default() }, replies)
}

fn given(report: &TurnReport) -> Option<&str> {
    report.structured_output.as_deref().map(|answer| answer.get())
}

#[tokio::test]
async fn a_valid_answer_ends_the_turn_and_what_follows_it_does_not_run() {
    let later =
        [answer("a", json!({"count": 3})), answer("b", json!({"count": 4})), call("c", "Look", json!({"name": "c"}))];
    let mut bench = bench(vec![reply(&later), reply(&[answer("d", json!({"count": 5}))])]);
    let report = bench.run("how many?").await;
    assert!(matches!(report.end, TurnEnd::Completed), "{:?}", report.end);
    assert_eq!((given(&report), report.text.as_str()), (Some(r#"{"count":3}"#), r#"{"count":3}"#));
    assert_eq!(bench.model.requests().len(), 1);
    assert_eq!(bench.lines(), Vec::<String>::new());
    // The next turn may answer again.
    let report = bench.run("and now?").await;
    assert_eq!(given(&report), Some(r#"{"count":5}"#));
    let results = bench.results(1);
    assert_eq!(results[0], ("a".to_owned(), false, "Structured output provided successfully".to_owned()));
    assert!(results[1].1 && results[2].1 && results[2].2.contains("ended the turn"), "{results:?}");
    bench.close().await;
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_told_where_and_why() {
    let mut bench =
        bench(vec![reply(&[answer("a", json!({"count": "three"}))]), reply(&[answer("b", json!({"count": 3}))])]);
    let report = bench.run("how many?").await;
    assert_eq!(given(&report), Some(r#"{"count":3}"#));
    let (_, is_error, text) = &bench.results(1)[0];
    assert!(*is_error && text.contains("/count"), "{text}");
    bench.close().await;
}

#[tokio::test]
async fn a_model_that_only_talks_is_reminded() {
    let mut bench = bench(vec![reply(&[Block::text("It is three.")]), reply(&[answer("a", json!({"count": 3}))])]);
    let report = bench.run("how many?").await;
    assert_eq!(given(&report), Some(r#"{"count":3}"#));
    let requests = bench.model.requests();
    let last = requests[1].messages.last().unwrap().blocks.last().unwrap().as_text().unwrap().into_owned();
    assert!(last.contains("StructuredOutput"), "{last}");
    bench.close().await;
}

#[tokio::test]
async fn five_failed_attempts_end_the_turn_with_an_error_of_its_own() {
    let wrong = |n: usize| reply(&[answer(&format!("a{n}"), json!({"count": "x"}))]);
    let mut bench = bench((0..5).map(wrong).collect());
    let report = bench.run("how many?").await;
    assert!(matches!(report.end, TurnEnd::StructuredOutputRetries(5)), "{:?}", report.end);
    assert_eq!(given(&report), None);
    assert_eq!(bench.model.requests().len(), 5);
    bench.close().await;
}

#[tokio::test]
async fn there_is_always_one_attempt() {
    let env = Env::default().with("MAX_STRUCTURED_OUTPUT_RETRIES", "0");
    let replies = vec![
        reply(&[call("a", "Look", json!({"name": "a"}))]),
        reply(&[answer("b", json!({"count": 3}))]),
        reply(&[answer("c", json!({"count": "x"}))]),
    ];
    let output = Some(OutputSchema::parse(SCHEMA, &env).unwrap());
    let mut bench = SessionBench::new(BenchSetup { output, ..BenchSetup::default() }, replies);
    assert_eq!(given(&bench.run("how many?").await), Some(r#"{"count":3}"#));
    let report = bench.run("and now?").await;
    assert!(matches!(report.end, TurnEnd::StructuredOutputRetries(1)), "{:?}", report.end);
    bench.close().await;
}
