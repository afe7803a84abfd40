//! Searching: what is not found, what is cut and what is wrong are three different answers.

use serde_json::json;

use super::*;
use crate::world;

#[tokio::test]
async fn probe_21_grep_tells_a_bad_pattern_no_match_and_a_page_apart() {
    let world = world();
    for number in 1..=3 {
        world.file(&format!("f{number}.txt"), "needle\nneedle -v\n".repeat(200));
    }
    let grep = |input: Value| ("Grep", input);
    let model = serve_in_one_reply([
        grep(json!({"pattern": "needle("})),
        grep(json!({"pattern": "needle", "output_mode": "content", "head_limit": 0})),
        grep(json!({"pattern": "needle", "output_mode": "content"})),
        grep(json!({"pattern": "needle", "offset": 50})),
        grep(json!({"pattern": "needle", "output_mode": "count", "head_limit": 1})),
        grep(json!({"pattern": "-v", "output_mode": "count"})),
        grep(json!({"pattern": "absent"})),
        grep(json!({"pattern": "needle", "type": "no-such-type"})),
    ])
    .await;
    run_to_end(&world, &model).await;
    let answers = tool_answers(&model.request(1));
    let failed: Vec<bool> = answers.iter().map(|(_, failed)| *failed).collect();
    assert_eq!(failed, [true, false, false, false, false, false, false, true], "{answers:?}");
    assert!(answers[0].0.contains("unclosed"), "{}", answers[0].0);
    assert_eq!(answers[1].0.matches("needle").count(), 1_200);
    assert!(answers[2].0.contains("Showing 1-250 of 1200 lines in 3 files"), "{}", answers[2].0);
    assert!(answers[3].0.contains("No entries at offset 50"), "{}", answers[3].0);
    assert!(answers[4].0.contains("3 files with 1200 matches"), "{}", answers[4].0);
    assert!(answers[5].0.contains("3 files with 600 matches"), "{}", answers[5].0);
    assert!(answers[6].0.starts_with("No match"), "{}", answers[6].0);
}

#[tokio::test]
async fn probe_22_glob_gives_the_hundred_newest_and_the_total() {
    let world = world();
    let now = SystemTime::now();
    for number in 0..150_u64 {
        let path = world.file(&format!("d{}/f{number:03}.txt", number % 7), "");
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(now - Duration::from_secs(1_000 + number)).unwrap();
    }
    let model =
        serve_in_one_reply([("Glob", json!({"pattern": "**/*.txt"})), ("Glob", json!({"pattern": "*.rs"}))]).await;
    run_to_end(&world, &model).await;
    let text = model.request(1).tool_result(0);
    let files: Vec<&str> = text.lines().filter(|line| line.ends_with(".txt")).collect();
    assert_eq!(files.len(), 100, "{text}");
    assert_eq!((files[0], files[99]), ("d0/f000.txt", "d1/f099.txt"));
    assert!(text.contains("150"), "{text}");
    let found =
        world.transcript_entries().into_iter().find(|entry| entry["toolUseResult"]["totalMatches"] == 150).unwrap();
    assert_eq!(found["toolUseResult"]["truncated"], true);
    assert!(!tool_answers(&model.request(1))[1].1);
}

#[tokio::test]
async fn ignored_and_hidden_files_are_where_they_should_be() {
    let world = world();
    world.file(".gitignore", "ignored.txt\n");
    world.file(".git/HEAD", "ref: refs/heads/main\n");
    for name in ["ignored.txt", "seen.txt", ".hidden.txt", ".git/needle.txt"] {
        world.file(name, "needle\n");
    }
    let model = serve_in_one_reply([
        ("Grep", json!({"pattern": "needle"})),
        ("Glob", json!({"pattern": "**/*.txt"})),
        ("Grep", json!({"pattern": "needle", "path": world.path("ignored.txt")})),
    ])
    .await;
    run_to_end(&world, &model).await;
    let results = model.request(1).tool_results();
    assert!(results[0].contains("seen.txt") && results[0].contains(".hidden.txt"), "{}", results[0]);
    assert!(!results[0].contains("ignored.txt") && !results[0].contains(".git/"), "{}", results[0]);
    assert!(results[1].contains("ignored.txt") && !results[1].contains(".git/"), "{}", results[1]);
    assert!(results[2].contains("ignored.txt"), "{}", results[2]);
}
