//! The files of a project that its commands name are part of what was accepted of it.

use gimlet_config::{TrustInventory, TrustStore};
use serde_json::json;

use crate::fixture::SettingsFixture;

const FIRST: &str = "echo one\n";
const SECOND: &str = "echo two\n";

/// Accepts everything, changes one file, and gives the titles of what waits then.
fn withheld_after_change(world: &SettingsFixture, file: &str) -> Vec<String> {
    let store = TrustStore::new(&world.locations());
    let items = TrustInventory::collect(&world.load()).items;
    store.accept_folder(&items).1.unwrap();
    assert!(world.settings_with_trust(&store.load_trust()).withheld.is_empty(), "all of it was accepted");
    world.write_file(file, SECOND);
    let waiting = world.settings_with_trust(&store.load_trust()).withheld;
    world.write_file(file, FIRST);
    waiting.iter().map(gimlet_config::ProjectItem::title).collect()
}

#[test]
fn a_script_that_a_document_runs_is_part_of_what_was_accepted() {
    let world = SettingsFixture::new();
    world.write_file(
        ".claude/skills/run/SKILL.md",
        "Look: !`./x.sh now` and then\n```!\nsh scripts/y.sh\n```\nread ./z.sh\n",
    );
    world.write_file(".claude/commands/c.md", "!`\"${CLAUDE_PROJECT_DIR}/x.sh\"`\n");
    for script in ["x.sh", ".claude/skills/run/scripts/y.sh", "z.sh"] {
        world.write_file(script, FIRST);
    }
    for (script, waiting) in [
        ("x.sh", &["skill .claude/skills/run/SKILL.md", "command .claude/commands/c.md"][..]),
        (".claude/skills/run/scripts/y.sh", &["skill .claude/skills/run/SKILL.md"]),
        ("z.sh", &[]),
    ] {
        assert_eq!(withheld_after_change(&world, script), waiting, "{script}");
    }
}

#[test]
fn a_script_that_front_matter_runs_is_part_of_what_was_accepted() {
    let skill = "skill .claude/skills/s/SKILL.md";
    let files = ["block.sh", "flow.sh", ".claude/skills/s/own.sh", "server.py", "granted.sh", "spoken.sh", "bare"];
    for (front_matter, acting) in [
        ("hooks:\n  Stop:\n  - hooks:\n    - type: command\n      command: ./block.sh now\n", "block.sh"),
        ("hooks: {Stop: [{hooks: [{type: command, command: ./flow.sh}]}]}\n", "flow.sh"),
        ("\"hooks\":\n- command: \"${CLAUDE_SKILL_DIR}/own.sh\"\n", ".claude/skills/s/own.sh"),
        ("mcpServers:\n  a:\n    command: python3\n    args: [server.py]\n", "server.py"),
        ("hooks:\n- command: bash bare\n", "bare"),
    ] {
        let world = SettingsFixture::new();
        let speaking = "allowed-tools:\n- Bash(./granted.sh)\ndescription: see ./spoken.sh\n";
        world.write_file(".claude/skills/s/SKILL.md", format!("---\n{speaking}{front_matter}---\nRead ./spoken.sh\n"));
        for file in files {
            world.write_file(file, FIRST);
        }
        for file in files {
            let waiting = withheld_after_change(&world, file);
            assert_eq!(waiting, if file == acting { vec![skill] } else { vec![] }, "{file}: {front_matter}");
        }
    }
}

#[test]
fn a_script_that_a_plugins_files_run_is_part_of_what_was_accepted() {
    let world = SettingsFixture::new();
    let hooks = |command: &str| json!({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}});
    let plugin = |path: &str, value: serde_json::Value| {
        world.write_file(&format!(".claude/skills/p/{path}"), value.to_string());
    };
    plugin(
        ".claude-plugin/plugin.json",
        json!({"name": "p", "description": "./said.sh", "hooks": "./lists/more.json"}),
    );
    plugin("lists/more.json", hooks("${CLAUDE_PLUGIN_ROOT}/scripts/listed.sh"));
    plugin("hooks/hooks.json", hooks("sh \"$CLAUDE_PLUGIN_ROOT/scripts/hook.sh\""));
    plugin(".mcp.json", json!({"mcpServers": {"description": {"command": "${CLAUDE_PLUGIN_ROOT}/server.sh"}}}));
    plugin(".lsp.json", json!({"rust": {"command": "./lsp.sh"}}));
    plugin("monitors/monitors.json", json!([{"name": "m", "command": "${CLAUDE_PROJECT_DIR}/watch.sh"}]));
    world.write_file(".claude/skills/p/commands/go.md", "!`${CLAUDE_PLUGIN_ROOT}/scripts/go.sh`\n");
    let named = |file: &str| format!("skill .claude/skills/p/{file}");
    let cases = [
        (".claude/skills/p/scripts/listed.sh", vec![named(".claude-plugin/plugin.json")]),
        (".claude/skills/p/scripts/hook.sh", vec![named("hooks/hooks.json")]),
        (".claude/skills/p/server.sh", vec![named(".mcp.json")]),
        (".claude/skills/p/lsp.sh", vec![named(".lsp.json")]),
        ("watch.sh", vec![named("monitors/monitors.json")]),
        (".claude/skills/p/scripts/go.sh", vec![named("commands/go.md")]),
        (".claude/skills/p/said.sh", vec![]),
        // Each variable has one folder.
        ("scripts/hook.sh", vec![]),
        (".claude/skills/p/hooks/scripts/hook.sh", vec![]),
        (".claude/skills/p/monitors/watch.sh", vec![]),
        (".claude/skills/p/watch.sh", vec![]),
    ];
    for (file, _) in &cases {
        world.write_file(file, FIRST);
    }
    for (file, waiting) in cases {
        assert_eq!(withheld_after_change(&world, file), waiting, "{file}");
    }
}

#[test]
fn a_difference_names_the_one_of_two_files_with_the_same_name_that_changed() {
    let world = SettingsFixture::new();
    world.write_file(".claude/skills/s/SKILL.md", "!`sh x.sh`\n");
    for file in ["x.sh", ".claude/skills/s/x.sh"] {
        world.write_file(file, FIRST);
    }
    let store = TrustStore::new(&world.locations());
    store.accept_folder(&TrustInventory::collect(&world.load()).items).1.unwrap();
    world.write_file(".claude/skills/s/x.sh", SECOND);
    let changes = store.list_changes(&TrustInventory::collect(&world.load()), &store.load_trust());
    let shown = &changes[0].shown;
    assert!(
        shown.starts_with("--- .claude/skills/s/x.sh as trusted\n") && shown.ends_with("-echo one\n+echo two"),
        "{shown}"
    );
}
