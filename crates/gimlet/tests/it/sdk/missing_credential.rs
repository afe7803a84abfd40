//! A program whose person has no credential: it can greet, and hears of it in the way that it knows.

use gimlet_script::Script;
use serde_json::json;

use super::SdkHost;
use crate::world;

#[tokio::test]
async fn the_greeting_is_answered_and_the_turn_says_what_to_do() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).without_env("ANTHROPIC_API_KEY"));
    let welcome = host.send_request(json!({"subtype": "initialize"})).await;
    assert_eq!(welcome["subtype"], "success");
    for _ in 0..2 {
        host.say("hi");
        let init = host.until(|line| line["subtype"] == "init").await;
        assert_eq!(init["apiKeySource"], "none");
        let said = host.until(|line| line["type"] == "assistant").await;
        assert_eq!(
            (&said["error"], &said["message"]["model"]),
            (&json!("authentication_failed"), &json!("<synthetic>"))
        );
        let words = json!("Not logged in · Please run /login");
        assert_eq!(said["message"]["content"][0]["text"], words);
        let result = host.result().await;
        assert_eq!(
            (&result["subtype"], &result["is_error"], &result["result"]),
            (&json!("success"), &json!(true), &words)
        );
        assert!(result.get("terminal_reason").is_none() && result["api_error_status"].is_null(), "{result}");
    }
    host.end().await.clean(1);
    assert_eq!(model.requests().len(), 0, "nothing was sent");
}

#[tokio::test]
async fn people_are_told_before_anything_begins() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let run = world.run(&model).without_env("ANTHROPIC_API_KEY").args(["-p", "hi"]).finish().await;
    run.expect_code(1);
    assert!(run.stderr.contains("no credentials were found") && run.stdout.is_empty(), "{}", run.stderr);
}
