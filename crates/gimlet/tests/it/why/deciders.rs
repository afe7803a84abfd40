//! A session in which not only the rules decide: a person, a hook, a reviewer and the sandbox do, too.

use gimlet_script::Script;
use serde_json::{Value, json};

use super::{SESSION, steady, why};
use crate::sdk::SdkHost;
use crate::world;

fn bash(command: &str) -> Value {
    json!({"reply": {"blocks": [{"tool": "Bash", "input": {"command": command}}]}})
}

fn review(answer: Value) -> Value {
    json!({"when": {"tools_include": ["verdict"]}, "reply": {"blocks": [{"tool": "verdict", "input": answer}]}})
}

async fn model(steps: &[Value]) -> gimlet_script::ScriptServer {
    let steps = [steps, &[json!({"reply": {"blocks": [{"text": "done"}]}})]].concat();
    Script::from_json(&json!({ "steps": steps }).to_string()).unwrap().serve().await.unwrap()
}

/// A program that answers questions and has a hook before every call.
async fn driven(world: &gimlet_testkit::TestWorld) {
    let write = |name: &str| json!({"reply": {"blocks": [{"tool": "Write", "input": {"file_path": world.path(name), "content": "x"}}]}});
    let model = model(&[write("a"), write("b"), bash("npm install"), bash("npm ci")]).await;
    let run = world.run(&model).args(["--permission-prompt-tool", "stdio", "--session-id", SESSION]);
    let mut host = SdkHost::start(run);
    let hooks = json!({"PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["hook_0"]}]});
    host.send_request(json!({"subtype": "initialize", "hooks": hooks})).await;
    host.say("go");
    for answer in [json!({"behavior": "allow"}), json!({"behavior": "deny", "message": "not that file"})] {
        let question = host.wait_for_request("can_use_tool").await;
        host.answer(&question, answer);
    }
    for (decision, reason) in [("deny", "no packages here"), ("allow", "the lock file is known")] {
        let hook = host.wait_for_request("hook_callback").await;
        let output = json!({"hookEventName": "PreToolUse", "permissionDecision": decision,
            "permissionDecisionReason": reason});
        host.answer(&hook, json!({"hookSpecificOutput": output}));
    }
    host.result().await;
    host.end().await.output.expect_code(0);
}

#[tokio::test]
async fn decisions_of_people_hooks_reviewers_and_the_sandbox_are_explained() {
    let world = world();
    driven(&world).await;
    let again = async |steps: &[Value], flags: &[&str]| {
        let model = model(steps).await;
        let run = world.run(&model).args(["-p", "--resume", SESSION]).args(flags.iter().copied());
        run.args(["--", "go on"]).finish().await.expect_code(0);
        assert!(model.failures().is_empty(), "{:?}", model.failures());
    };
    for (file, answer) in [
        ("made", json!({"allow": true, "reason": "part of the task"})),
        ("twice", json!({"allow": false, "reason": "nobody asked for it"})),
    ] {
        let steps = [bash(&format!("install /dev/null {file}")), review(answer)];
        again(&steps, &["--permission-mode", "auto"]).await;
    }
    again(&[bash("touch inside")], &["--settings", r#"{"sandbox": {"enabled": true}}"#]).await;
    let list = why(&world, &[SESSION]).await;
    insta::assert_snapshot!("other_deciders", steady(&world, &list.expect_code(0).stdout));
    let lines = why(&world, &[SESSION, "--json"]).await.expect_code(0).lines();
    let by: Vec<&str> = lines.iter().map(|line| line["by"].as_str().unwrap()).collect();
    assert_eq!(by, ["person", "person", "hook", "hook", "classifier", "classifier", "policy"]);
    assert!(lines[6].to_string().contains("sandbox"), "{}", lines[6]);
    let mut pages = Vec::new();
    for number in ["2", "3", "6", "7"] {
        pages.push(steady(&world, &why(&world, &[SESSION, number]).await.expect_code(0).stdout));
    }
    insta::assert_snapshot!("other_deciders_in_full", pages.join("\n"));
}
