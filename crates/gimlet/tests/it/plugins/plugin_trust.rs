//! Plugins that a project brings: they wait for trust, and what changes waits again.

use gimlet_script::Script;
use gimlet_testkit::TestWorld;
use serde_json::json;

use super::{names, run_with, write, write_json, write_manifest};
use crate::world;

/// Writes a plugin among the project's skills, whose hook runs a script of its own.
fn write_project_plugin(world: &TestWorld) {
    let root = world.project.join(".claude/skills/theirs");
    write_manifest(&root, &json!({"name": "theirs"}));
    write(root.join("agents/a.md"), "---\nname: a\ndescription: Does\n---\nYou are theirs.\n");
    write(root.join("guard.sh"), "#!/bin/sh\ntouch \"$HOME/ran\"\n");
    let hook = json!({"type": "command", "command": "${CLAUDE_PLUGIN_ROOT}/guard.sh"});
    write_json(root.join("hooks/hooks.json"), &json!({"hooks": {"PreToolUse": [{"hooks": [hook]}]}}));
    write_json(
        root.join(".mcp.json"),
        &json!({"mcpServers": {"s": {"command": "touch", "args": [world.home.join("served")]}}}),
    );
}

#[tokio::test]
async fn a_plugin_of_the_project_does_nothing_before_trust_and_a_changed_one_waits_again() {
    let world = world();
    write_project_plugin(&world);
    let marks = ["ran", "served"].map(|name| world.home.join(name));
    let (_, run) = run_with(&world, &[]).await;
    let init = &run.lines()[0];
    assert_eq!((names(&init["plugins"]), names(&init["mcp_servers"])), (vec![], vec![]));
    assert!(!names(&init["agents"]).contains(&"theirs:a".to_owned()));
    assert!(run.stderr.contains(".claude/skills/theirs/.claude-plugin/plugin.json"), "{}", run.stderr);
    assert!(marks.iter().all(|mark| !mark.exists()));
    let model = Script::new().serve().await.unwrap();
    world.run(&model).args(["trust", "--yes"]).finish().await.expect_code(0);
    let (_, run) = run_with(&world, &[]).await;
    assert_eq!(names(&run.lines()[0]["plugins"]), ["theirs"], "{}", run.stderr);
    assert!(names(&run.lines()[0]["agents"]).contains(&"theirs:a".to_owned()));
    assert!(marks.iter().all(|mark| mark.exists()));
    marks.iter().for_each(|mark| std::fs::remove_file(mark).unwrap());
    write(world.project.join(".claude/skills/theirs/guard.sh"), "#!/bin/sh\ntouch \"$HOME/ran\" # another\n");
    let (_, run) = run_with(&world, &[]).await;
    assert_eq!(names(&run.lines()[0]["plugins"]), Vec::<String>::new());
    assert!(run.stderr.contains("new or changed since you trusted"), "{}", run.stderr);
    assert!(marks.iter().all(|mark| !mark.exists()));
}

#[tokio::test]
async fn a_script_that_changes_while_a_session_runs_blocks_what_it_guards() {
    for flag in [false, true] {
        let world = world();
        write_project_plugin(&world);
        let script = world.project.join(".claude/skills/theirs/guard.sh");
        let change = json!({"file_path": script, "content": "#!/bin/sh\ntouch \"$HOME/changed\"\n"});
        let read = json!({"file_path": script});
        let model = Script::new()
            .call("Read", read)
            .then()
            .call("Write", change)
            .then()
            .call("Bash", json!({"command": "true"}))
            .then()
            .say("ok")
            .serve()
            .await
            .unwrap();
        let dir = world.project.join(".claude/skills/theirs");
        let args = if flag { ["--plugin-dir", dir.to_str().unwrap()] } else { ["--trust", "--verbose"] };
        let run = world.run(&model).stream("go").args(args).finish().await;
        run.expect_code(0);
        let refused = model.request(3).tool_result(0);
        assert!(refused.contains("changed since"), "{flag}: {refused}");
        assert!(world.home.join("ran").exists() && !world.home.join("changed").exists(), "{flag}");
    }
}

#[tokio::test]
async fn a_project_turns_no_plugin_of_the_user_on_or_off_before_trust() {
    let world = world();
    for name in ["on", "off"] {
        let root = world.home.join(".claude/skills").join(name);
        write_manifest(&root, &json!({"name": name, "defaultEnabled": name == "on"}));
    }
    let settings = json!({"enabledPlugins": {"on@skills-dir": false, "off@skills-dir": true}});
    write_json(world.project.join(".claude/settings.json"), &settings);
    let (_, run) = run_with(&world, &[]).await;
    assert_eq!(names(&run.lines()[0]["plugins"]), ["on"]);
    assert!(run.stderr.contains("enabledPlugins off@skills-dir"), "{}", run.stderr);
    let (_, run) = run_with(&world, &["--trust"]).await;
    assert_eq!(names(&run.lines()[0]["plugins"]), ["off"]);
}
