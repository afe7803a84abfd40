//! What a search finds, and what is left of a session after its end.

use gimlet_script::Script;
use serde_json::json;

use super::{run_sessions, run_turn, search_results, transcript_path};
use crate::world;

#[tokio::test]
async fn no_word_of_a_deleted_session_is_left_in_the_index() {
    let world = world();
    let gone = run_turn(&world, "tell the xylophonesecret", "done", &[]).await;
    run_turn(&world, "play the marimba", "done", &[]).await;
    assert_eq!(search_results(&world, &["xylophonesecret"]).await.len(), 1);
    run_sessions(&world, &["rm", &gone, "--yes"]).await.expect_code(0);
    for file in std::fs::read_dir(world.home.join(".claude/gimlet/cache")).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let word = b"xylophonesecret";
        assert!(!bytes.windows(word.len()).any(|part| part == word), "{}", path.display());
    }
    assert_eq!(search_results(&world, &["marimba"]).await.len(), 1, "the others stay");
}

#[tokio::test]
async fn words_in_results_that_have_a_file_of_their_own_are_found() {
    let world = world();
    let print = "seq 20000; echo need''leword; seq 20000";
    let model = Script::new().call("Bash", json!({"command": print})).then().say("done").serve().await.unwrap();
    let run = world.run(&model).stream("go").arg("--dangerously-skip-permissions").finish().await;
    run.expect_code(0);
    let id = run.result()["session_id"].clone();
    for _ in 0..2 {
        let hits = search_results(&world, &["needleword"]).await;
        assert_eq!((hits.len(), &hits[0]["session"], &hits[0]["role"]), (1, &id, &json!("result")));
        assert!(hits[0]["path"].as_str().unwrap().contains("tool-results") && hits[0]["cwd"].is_string());
    }
    std::fs::remove_dir_all(transcript_path(&world, id.as_str().unwrap()).with_extension("").join("tool-results"))
        .unwrap();
    assert!(search_results(&world, &["needleword"]).await.is_empty());
    let checked = run_sessions(&world, &["fsck"]).await;
    checked.expect_code(0);
    assert!(
        checked.stdout.contains("missing-output") && checked.stdout.contains("tool-results/"),
        "{}",
        checked.stdout
    );
}

#[tokio::test]
async fn words_may_begin_with_a_dash_and_only_the_present_title_is_found() {
    let world = world();
    let id = run_turn(&world, "count zebras", "done", &["--name", "Zebra crossing"]).await;
    run_turn(&world, "zebras and a penguin", "done", &[]).await;
    assert_eq!(search_results(&world, &["zebras", "-penguin"]).await.len(), 1);
    assert_eq!(search_results(&world, &["crossing"]).await.len(), 1);
    run_turn(&world, "more", "done", &["--resume", &id]).await;
    assert_eq!(search_results(&world, &["crossing"]).await.len(), 1, "it is written again and again");
    run_sessions(&world, &["rename", &id, "Striped horse"]).await.expect_code(0);
    assert!(search_results(&world, &["crossing"]).await.is_empty());
    assert_eq!(search_results(&world, &["striped"]).await.len(), 1);
}

#[tokio::test]
async fn transcripts_with_blanks_after_colons_are_listed() {
    let world = world();
    let id = run_turn(&world, "fix the parser", "done", &[]).await;
    let path = transcript_path(&world, &id);
    let spaced: String =
        std::fs::read_to_string(&path).unwrap().lines().map(|line| line.replace("\":", "\": ") + "\n").collect();
    std::fs::write(&path, spaced).unwrap();
    let rows = run_sessions(&world, &["ls", "--json"]).await.lines();
    assert_eq!((rows.len(), &rows[0]["firstPrompt"]), (1, &json!("fix the parser")));
}

#[tokio::test]
async fn damage_in_a_subagents_transcript_is_found() {
    let world = world();
    let task = json!({"description": "d", "prompt": "p", "subagent_type": "general-purpose",
        "run_in_background": false});
    let model = Script::new().call("Agent", task).then().say("sub").then().say("done").serve().await.unwrap();
    let run = world.run(&model).stream("go").finish().await;
    run.expect_code(0);
    let id = run.result()["session_id"].as_str().unwrap().to_owned();
    run_sessions(&world, &["fsck", &id]).await.expect_code(0);
    let path = world.transcripts().into_iter().find(|path| path.to_string_lossy().contains("/subagents/")).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend(b"{\"broken\n");
    std::fs::write(&path, bytes).unwrap();
    let checked = run_sessions(&world, &["fsck", &id]).await;
    checked.expect_code(1);
    assert!(checked.stdout.contains("(agent ") && !checked.stdout.contains("--repair OUT"), "{}", checked.stdout);
}
