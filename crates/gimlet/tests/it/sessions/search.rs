//! What a search finds, and what is left of a session after its end.

use gimlet_script::Script;
use serde_json::json;

use super::{found, sessions, transcript, turn};
use crate::world;

#[tokio::test]
async fn no_word_of_a_deleted_session_is_left_in_the_index() {
    let world = world();
    let gone = turn(&world, "tell the xylophonesecret", "done", &[]).await;
    turn(&world, "play the marimba", "done", &[]).await;
    assert_eq!(found(&world, &["xylophonesecret"]).await.len(), 1);
    sessions(&world, &["rm", &gone, "--yes"]).await.expect_code(0);
    for file in std::fs::read_dir(world.home.join(".claude/gimlet/cache")).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let word = b"xylophonesecret";
        assert!(!bytes.windows(word.len()).any(|part| part == word), "{}", path.display());
    }
    assert_eq!(found(&world, &["marimba"]).await.len(), 1, "the others stay");
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
        let hits = found(&world, &["needleword"]).await;
        assert_eq!((hits.len(), &hits[0]["session"], &hits[0]["role"]), (1, &id, &json!("result")));
        assert!(hits[0]["path"].as_str().unwrap().contains("tool-results") && hits[0]["cwd"].is_string());
    }
    std::fs::remove_dir_all(transcript(&world, id.as_str().unwrap()).with_extension("").join("tool-results")).unwrap();
    assert!(found(&world, &["needleword"]).await.is_empty());
    let checked = sessions(&world, &["fsck"]).await;
    checked.expect_code(0);
    assert!(
        checked.stdout.contains("missing-output") && checked.stdout.contains("tool-results/"),
        "{}",
        checked.stdout
    );
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
    sessions(&world, &["fsck", &id]).await.expect_code(0);
    let path = world.transcripts().into_iter().find(|path| path.to_string_lossy().contains("/subagents/")).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend(b"{\"broken\n");
    std::fs::write(&path, bytes).unwrap();
    let checked = sessions(&world, &["fsck", &id]).await;
    checked.expect_code(1);
    assert!(checked.stdout.contains("(agent ") && !checked.stdout.contains("--repair OUT"), "{}", checked.stdout);
}
