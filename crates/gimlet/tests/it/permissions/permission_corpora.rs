//! Both corpora through the binary. Three figures each: what is allowed and must not be, what is denied and was softened,
//! and what is harmless and still asks.

use serde_json::Value;

use super::run_check;
use crate::world;

const SHELL: &str = include_str!("../../../../gimlet-policy/tests/corpus/shell-permissions.jsonl");
const PATHS: &str = include_str!("../../../../gimlet-policy/tests/corpus/path-permissions.jsonl");

/// Rows of one run: few enough that questions and answers fit into their pipes.
const ROWS_AT_ONCE: usize = 100;

#[derive(Debug, Default, PartialEq, Eq)]
struct CorpusFigures {
    rows: usize,
    unsafe_allows: Vec<String>,
    weakened_denies: Vec<String>,
    false_prompts: Vec<String>,
}

async fn run_corpus(corpus: &str) -> CorpusFigures {
    let world = world();
    let rows: Vec<&str> = corpus.lines().collect();
    let mut figures = CorpusFigures::default();
    for rows in rows.chunks(ROWS_AT_ONCE) {
        let run = run_check(&world, &["--batch"], &(rows.join("\n") + "\n")).await;
        run.expect_code(0);
        let answers = run.lines();
        assert_eq!(answers.len(), rows.len());
        for (row, answer) in rows.iter().zip(&answers) {
            figures.add_row(&serde_json::from_str(row).unwrap_or_else(|error| panic!("{error} in {row}")), answer);
        }
    }
    figures
}

impl CorpusFigures {
    fn add_row(&mut self, row: &Value, answer: &Value) {
        assert_eq!(row["id"], answer["id"]);
        assert!(answer["because"].as_array().is_some_and(|because| !because.is_empty()), "{answer}");
        self.rows += 1;
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned();
        let (id, expected, got) = (text(&row["id"]), text(&row["expect"]), text(&answer["decision"]));
        match (expected.as_str(), got.as_str()) {
            ("allow", "allow") => {}
            ("allow", _) => self.false_prompts.push(id),
            ("deny", "ask" | "allow") => self.weakened_denies.push(id),
            (_, "allow") => self.unsafe_allows.push(id),
            ("deny", "deny") | ("not-allow", "ask" | "deny") | ("ask", "ask") => {}
            other => panic!("{id}: {other:?}"),
        }
    }

    fn assert_safe(&self) {
        assert_eq!(self.unsafe_allows, Vec::<String>::new(), "must not be allowed");
        assert_eq!(self.weakened_denies, Vec::<String>::new(), "must stay denied");
    }
}

#[tokio::test]
async fn the_shell_corpus_is_answered_exactly_by_the_binary() {
    let figures = run_corpus(SHELL).await;
    figures.assert_safe();
    assert_eq!(figures, CorpusFigures { rows: 452, ..CorpusFigures::default() });
}

#[tokio::test]
async fn the_path_corpus_is_answered_exactly_by_the_binary() {
    let figures = run_corpus(PATHS).await;
    figures.assert_safe();
    assert_eq!(figures, CorpusFigures { rows: 158, ..CorpusFigures::default() });
}
