//! What becomes of results: those that are large, and those of a server that gives all its replies the same id.

use gimlet_proto::Block;
use gimlet_store::{LoadOptions, load_conversation};
use serde_json::json;

use crate::session_bench::{BenchSetup, SessionBench, call, reply};

#[tokio::test]
async fn a_result_over_the_cap_goes_to_a_file_and_leaves_a_preview_with_both_ends() {
    let calls = [call("toolu_big", "Look", json!({"name": "a", "manner": "big"}))];
    let mut bench = SessionBench::new(BenchSetup::default(), vec![reply(&calls), reply(&[Block::text("done")])]);
    bench.run("go").await;
    let (_, is_error, text) = bench.results(1).remove(0);
    assert!(!is_error && text.starts_with("<persisted-output>") && text.len() < 3_000, "{text}");
    assert!(text.contains("200000 bytes"), "{text}");
    let path = text.lines().find_map(|line| line.split("saved to ").nth(1)).expect("a path").to_owned();
    assert_eq!(std::fs::read_to_string(path.trim_end_matches('.')).unwrap().len(), 200_000);
    bench.close().await;
}

#[tokio::test]
async fn results_are_found_again_where_every_reply_has_the_same_id() {
    let look = |id: &str| reply(&[call(id, "Look", json!({"name": id}))]);
    let replies = vec![look("a"), look("b"), reply(&[Block::text("done")])];
    let mut bench = SessionBench::new(BenchSetup { saved: true, ..BenchSetup::default() }, replies);
    bench.run("go").await;
    let files = bench.files.clone();
    let _dir = bench.close().await;
    let loaded = load_conversation(&files.transcript(), &LoadOptions::default()).unwrap();
    assert!(loaded.damage.is_empty(), "{:?}", loaded.damage);
    let blocks: Vec<usize> = loaded.messages.iter().map(|message| message.blocks.len()).collect();
    assert_eq!(blocks[blocks.len() - 5..], [1; 5], "each call, its result, and the answer");
}

#[tokio::test]
async fn a_long_failure_goes_to_a_file_too_and_the_transcript_stays_small() {
    let calls = [call("toolu_moan", "Look", json!({"name": "a", "manner": "moan"}))];
    let mut bench = SessionBench::new(
        BenchSetup { saved: true, ..BenchSetup::default() },
        vec![reply(&calls), reply(&[Block::text("done")])],
    );
    bench.run("go").await;
    let (_, is_error, text) = bench.results(1).remove(0);
    assert!(is_error && text.starts_with("<persisted-output>") && text.len() < 3_000, "{text}");
    let path = text.lines().find_map(|line| line.split("saved to ").nth(1)).expect("a path").to_owned();
    assert_eq!(std::fs::read_to_string(path.trim_end_matches('.')).unwrap().len(), 2_000_000);
    let transcript = std::fs::read_to_string(bench.files.transcript()).unwrap();
    assert!(transcript.len() < 20_000 && transcript.contains("persistedOutputPath"), "{}", transcript.len());
    bench.close().await;
}

#[tokio::test]
async fn a_batch_that_would_eat_the_context_is_persisted_largest_first() {
    // Each is under the tool's cap; together they are more than a quarter of the window of 200,000 tokens.
    let mut calls = vec![call("small", "Look", json!({"name": "a"}))];
    calls.extend((0..5).map(|n| call(&format!("c{n}"), "Look", json!({"name": "a", "manner": "large"}))));
    let mut bench = SessionBench::new(BenchSetup::default(), vec![reply(&calls), reply(&[Block::text("done")])]);
    bench.run("go").await;
    let results = bench.results(1);
    assert_eq!(results[0].2, "a done", "a small result stays as it is");
    let persisted = results.iter().filter(|(_, _, text)| text.starts_with("<persisted-output>")).count();
    assert_eq!(persisted, 1, "as few as needed");
    assert!(results.iter().map(|(_, _, text)| text.len()).sum::<usize>() <= 200_000);
    bench.close().await;
}

#[tokio::test]
async fn the_cap_counts_characters_not_bytes() {
    // 49,000 characters of 3 bytes are below the cap of 50,000 and within the context.
    let calls = [call("toolu_wide", "Look", json!({"name": "a", "manner": "wide"}))];
    let mut bench = SessionBench::new(BenchSetup::default(), vec![reply(&calls), reply(&[Block::text("done")])]);
    bench.run("go").await;
    let (_, _, text) = bench.results(1).remove(0);
    assert_eq!((text.chars().count(), text.len()), (49_000, 147_000));
    bench.close().await;
}
