//! Large results: on disk in full, in history as a preview, and the same again after a resume.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use gimlet_script::Script;
use serde_json::json;

use super::*;
use crate::world;

#[tokio::test]
async fn probe_10_a_large_result_goes_to_a_file_and_history_stays_small_and_stable() {
    let world = world();
    let lines: Vec<String> =
        (1..=4_000).map(|number| format!("needle number {number:05} {}", "x".repeat(40))).collect();
    world.file("big.txt", lines.join("\n"));
    let script = Script::new()
        .call("Grep", json!({"pattern": "needle", "output_mode": "content", "head_limit": 0}))
        .then()
        .say("Seen.")
        .then()
        .say("Still seen.");
    let model = serve_script(script).await;
    world.run(&model).stream("look").finish().await.expect_code(0);

    let shown = tool_success(&model, 1);
    let path = shown.split_once("was saved to ").and_then(|(_, rest)| rest.lines().next()).map(PathBuf::from).unwrap();
    assert!(shown.starts_with("<persisted-output>"), "{shown}");
    assert!(path.parent().is_some_and(|folder| folder.ends_with("tool-results")), "{path:?}");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let stored = std::fs::read_to_string(&path).unwrap();
    assert!(stored.len() > 200_000 && stored.contains("number 02000"), "{}", stored.len());
    let preview = shown.split_once("Preview:\n").and_then(|(_, rest)| rest.split_once("\n\nTo see more")).unwrap().0;
    assert!(preview.len() <= 2_000, "{}", preview.len());
    assert!(preview.contains("number 00001") && preview.contains("number 04000"), "{preview}");

    let transcript = world.transcripts()[0].metadata().unwrap().len();
    assert!(transcript < 40_000, "the transcript has {transcript} bytes");

    world.run(&model).stream("and now?").arg("--continue").finish().await.expect_code(0);
    assert_all_played(&model);
    assert!(model.prefix_equal(1, 2), "{:?}", model.prefix_difference(1, 2));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), stored);
}

#[tokio::test]
async fn a_stored_result_can_be_read_without_being_asked_for_leave() {
    let world = world();
    let lines: Vec<String> =
        (1..=4_000).map(|number| format!("needle number {number:05} {}", "x".repeat(40))).collect();
    world.file("big.txt", lines.join("\n"));
    let script = Script::new()
        .call("Grep", json!({"pattern": "needle", "output_mode": "content", "head_limit": 0}))
        .then()
        .reply_with(|request| {
            let text = request.tool_result(0);
            let path = text.split_once("was saved to ").and_then(|(_, rest)| rest.lines().next()).unwrap_or_default();
            gimlet_script::ScriptedReply::call("Read", json!({"file_path": path, "offset": 2000, "limit": 1}))
        })
        .then()
        .say("done");
    let model = serve_script(script).await;
    world.run(&model).print_text("go").finish().await.expect_code(0);
    assert_all_played(&model);
    assert!(tool_success(&model, 2).contains("needle number 02000"), "{}", tool_success(&model, 2));
}

#[tokio::test]
async fn empty_output_is_stated_and_never_sent_as_nothing() {
    let world = world();
    let model = serve_in_one_reply([bash_call("true"), bash_call("printf ' \\n\\n'")]).await;
    run_to_end(&world, &model).await;
    let results = model.request(1).tool_results();
    assert!(results.iter().all(|text| !text.trim().is_empty()), "{results:?}");
}
