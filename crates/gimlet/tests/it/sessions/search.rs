//! What a search finds, and what is left of a session after its end.

use gimlet_script::Script;
use serde_json::json;

use super::sessions;
use crate::world;

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
