//! `gimlet permissions check` through the real binary: the corpora row by row, single questions, and what goes wrong.

mod permission_corpora;
mod simulate;

use gimlet_script::Script;
use gimlet_testkit::{RunOutput, TestWorld};
use serde_json::json;

use crate::world;

/// Nothing may be asked of a model: this address answers nobody.
const NOWHERE: &str = "http://127.0.0.1:9";

async fn run_check(world: &TestWorld, args: &[&str], stdin: &str) -> RunOutput {
    let run = world.run_at(NOWHERE).args(["permissions", "check"]).args(args.iter().copied()).stdin(stdin);
    run.without_env("ANTHROPIC_API_KEY").finish().await
}

#[tokio::test]
async fn each_outcome_has_its_exit_code_and_its_reason() {
    let world = world();
    let rules = json!({"permissions": {"deny": ["Bash(curl *)"], "allow": ["Bash(make *)"]}, "model": "x"});
    world.file("rules.json", serde_json::to_string_pretty(&rules).unwrap());
    for (command, code, said) in [
        ("make test", 0, "allow\n  because the allow rule `Bash(make *)` from --rules ("),
        ("ls", 0, "allow\n  because it only reads"),
        ("git push origin", 3, "ask\n  because no rule allows it\n  would be allowed by Bash(git push *)\n"),
        ("sudo curl x", 4, "deny\n  because the deny rule `Bash(curl *)` from --rules ("),
    ] {
        let run = run_check(&world, &["--rules", "rules.json", "--command", command], "").await;
        run.expect_code(code);
        assert!(run.stdout.starts_with(said), "{command}: {}", run.stdout);
        assert_eq!(run.stderr, "", "{command}");
    }
}

#[tokio::test]
async fn where_zsh_runs_commands_only_what_both_shells_read_alike_needs_no_question() {
    let world = world();
    world.file("a.rs", "");
    // It only has to go by that name.
    let zsh = world.home.join("zsh");
    std::os::unix::fs::symlink("/bin/bash", &zsh).unwrap();
    let rules = json!({"permissions": {"allow": ["Edit(**)"]}});
    world.file("rules.json", rules.to_string());
    for (command, here, there) in [
        ("cat a.rs | head -3", 0, 0),
        ("echo x > made", 0, 3),
        ("echo x >! .git/hooks/pre-commit", 0, 3),
        ("cat =ls", 0, 3),
    ] {
        run_check(&world, &["--rules", "rules.json", "--command", command], "").await.expect_code(here);
        let run = world.run_at(NOWHERE).env("CLAUDE_CODE_SHELL", zsh.to_str().unwrap());
        let run = run.args(["permissions", "check", "--rules", "rules.json", "--command", command]).finish().await;
        run.expect_code(there);
        assert_eq!(run.stdout.contains("zsh may read it otherwise"), there == 3, "{command}: {}", run.stdout);
    }
    let model = Script::new().call("Bash", json!({"command": "cat =ls"})).then().say("done").serve().await.unwrap();
    let run = world.run(&model).env("CLAUDE_CODE_SHELL", zsh.to_str().unwrap()).args(["-p", "go"]).finish().await;
    run.expect_code(0);
    let result = model.request(1).tool_result(0);
    assert!(result.contains("zsh may read it otherwise"), "{result}");
}

/// What a project's own file sets for `npm run` must not become a name that nobody was asked about.
#[tokio::test]
async fn a_variable_that_is_inherited_or_may_be_set_before_the_command_asks() {
    let world = world();
    world.file("a", "kept\n");
    let script = world.file("env.sh", "k=/etc/hostname\n");
    let command = "cat \"$npm_package_config_k\" a";
    let asked = |run: &RunOutput, name: &str| {
        run.expect_code(3);
        assert!(run.stdout.starts_with("ask\n"), "{name}: {}", run.stdout);
    };
    run_check(&world, &["--command", command], "").await.expect_code(0);
    for (name, value) in [("npm_package_config_k", "/etc/hostname"), ("CLAUDE_ENV_FILE", script.to_str().unwrap())] {
        let run = world.run_at(NOWHERE).env(name, value).args(["permissions", "check", "--command", command]);
        asked(&run.finish().await, name);
        let model = Script::new().call("Bash", json!({"command": command})).then().say("done").serve().await.unwrap();
        let run = world.run(&model).env(name, value).args(["-p", "go"]).finish().await;
        run.expect_code(0);
        let result = model.request(1).tool_result(0);
        assert!(!result.contains("kept"), "{name}: it ran: {result}");
    }
    let model = Script::new().call("Bash", json!({"command": command})).then().say("done").serve().await.unwrap();
    world.run(&model).args(["-p", "go"]).finish().await.expect_code(0);
    let result = model.request(1).tool_result(0);
    assert!(result.contains("kept"), "{result}");
}

#[tokio::test]
async fn programs_are_told_file_and_line_of_the_rule() {
    let world = world();
    world.file("rules.json", "{\"permissions\": {\n  \"deny\": [\n    \"Bash(curl *)\"\n  ]\n}}");
    let run = run_check(&world, &["--rules", "rules.json", "--json", "--command", "curl x"], "").await;
    run.expect_code(4);
    let answer = run.json();
    assert_eq!(answer["decision"], "deny");
    assert_eq!(answer["reasons"][0]["kind"], "rule");
    assert_eq!(answer["reasons"][0]["rule"], "Bash(curl *)");
    assert_eq!(answer["reasons"][0]["source"]["line"], 3);
    assert_eq!(answer["reasons"][0]["source"]["file"], world.path("rules.json"));
}

#[tokio::test]
async fn any_tool_is_asked_by_its_own_reading_of_the_input() {
    let world = world();
    world.file("a.rs", "fn main() {}\n");
    std::os::unix::fs::symlink("/etc/hostname", world.path("link")).unwrap();
    let read = |path: &str| json!({"file_path": path}).to_string();
    let edit = json!({"file_path": "a.rs", "old_string": "a", "new_string": "b"}).to_string();
    for (tool, input, mode, code) in [
        ("Read", read("a.rs"), "default", 0),
        ("Read", read("link"), "default", 3),
        ("Read", read("/etc/hostname"), "dontAsk", 4),
        ("Edit", edit.clone(), "default", 3),
        ("Edit", edit.clone(), "acceptEdits", 0),
        ("Edit", edit, "plan", 4),
        ("TodoWrite", json!({"todos": []}).to_string(), "manual", 0),
    ] {
        let run = run_check(&world, &["--tool", tool, "--input", &input, "--mode", mode], "").await;
        run.expect_code(code);
    }
    assert_eq!(world.read("a.rs"), "fn main() {}\n", "nothing is ever run");
}

#[tokio::test]
async fn a_bare_edit_rule_decides_about_every_tool_that_edits() {
    let world = world();
    let write = json!({"file_path": world.path("a.rs"), "content": ""}).to_string();
    let notebook = json!({"notebook_path": world.path("a.ipynb"), "cell_id": "a", "new_source": ""}).to_string();
    for (list, code) in [("allow", 0), ("ask", 3), ("deny", 4)] {
        world.file("rules.json", json!({"permissions": {list: ["Edit"]}}).to_string());
        for (tool, input) in [("Write", &write), ("NotebookEdit", &notebook)] {
            let flags = ["--rules", "rules.json", "--tool", tool, "--input", input, "--json"];
            let run = run_check(&world, &flags, "").await;
            run.expect_code(code);
            assert_eq!(run.json()["reasons"][0]["rule"], "Edit", "{list} {tool}: {}", run.stdout);
        }
    }
}

#[tokio::test]
async fn tools_of_servers_and_of_other_versions_are_judged_by_their_names() {
    let world = world();
    let rules = json!({"permissions": {
        "deny": ["WebFetch(domain:evil.org)", "Agent(Explore)", "mcp__git__push"],
        "allow": ["WebFetch(domain:*.example.com)", "mcp__git", "Skill(commit)"],
    }});
    world.file("rules.json", rules.to_string());
    for (tool, input, code) in [
        ("WebFetch", json!({"url": "https://a.example.com/x", "prompt": "p"}), 0),
        ("WebFetch", json!({"url": "https://example.org/x", "prompt": "p"}), 3),
        ("WebFetch", json!({"url": "https://evil.org/x", "prompt": "p"}), 4),
        ("mcp__git__log", json!({"count": 3}), 0),
        ("mcp__git__push", json!({}), 4),
        ("mcp__other__log", json!({}), 3),
        ("Skill", json!({"skill": "commit"}), 0),
        ("Skill", json!({"skill": "deploy"}), 3),
        ("Agent", json!({"subagent_type": "Explore", "prompt": "x", "description": "d"}), 4),
        ("NotebookEdit", json!({"notebook_path": "a.ipynb", "cell_id": "a", "new_source": ""}), 3),
    ] {
        let input = input.to_string();
        let run = run_check(&world, &["--rules", "rules.json", "--tool", tool, "--input", &input], "").await;
        run.expect_code(code);
        assert_eq!(run.stderr, "", "{tool}");
    }
}

#[tokio::test]
async fn what_of_the_settings_does_not_count_is_said() {
    let world = world();
    let settings = world.home.join(".claude/settings.json");
    std::fs::create_dir_all(world.home.join(".claude")).unwrap();
    for (text, said) in [
        ("{\"permissions\": {\n\"deny\": [\"Bash(rm\"]}}", vec!["settings.json:2", "`Bash(rm`", "denies nothing"]),
        ("{\"permissions\": {\n\"deny\": [5]}}", vec!["settings.json:2", "permissions.deny"]),
        ("{\"permissions\": {\n\"deny\": [\"Bash(rm *)\"", vec!["settings.json:2"]),
    ] {
        std::fs::write(&settings, text).unwrap();
        let shown = run_check(&world, &["--command", "ls"], "").await;
        let programs = run_check(&world, &["--command", "ls", "--json"], "").await;
        let warnings = programs.expect_code(0).json()["warnings"].to_string();
        for words in said {
            assert!(shown.expect_code(0).stderr.contains(words), "{text}: {}", shown.stderr);
            assert!(warnings.contains(words), "{text}: {warnings}");
        }
    }
    std::fs::write(&settings, "{\"permissions\": {\"deny\": [\"Bash(rm *)\"]}}").unwrap();
    assert_eq!(run_check(&world, &["--command", "ls"], "").await.expect_code(0).stderr, "");
}

#[tokio::test]
async fn another_folder_can_be_asked_about() {
    let world = world();
    world.file("sub/x", "");
    let input = json!({"file_path": world.path("outside")}).to_string();
    run_check(&world, &["--cwd", "sub", "--tool", "Read", "--input", &input], "").await.expect_code(3);
    run_check(&world, &["--tool", "Read", "--input", &input], "").await.expect_code(0);
}

#[tokio::test]
async fn doubtful_rules_are_reported_and_the_others_count() {
    let world = world();
    let rules =
        "{\"permissions\":{\"deny\":[\n\"Bash(rm\",\n\"Write(x)\",\n\"Bash(curl *)\"],\"allow\":[\"Bash(curl x)\"]}}";
    world.file("rules.json", rules);
    let run = run_check(&world, &["--rules", "rules.json", "--command", "curl x"], "").await;
    run.expect_code(4);
    for said in ["rules.json:2", "denies nothing", "`Write(x)` has no effect", "`Bash(curl x)` is never reached"] {
        assert!(run.stderr.contains(said), "{said} is missing in {}", run.stderr);
    }
}

#[tokio::test]
async fn questions_that_cannot_be_understood_end_in_one() {
    let world = world();
    world.file("broken.json", "{\"permissions\":");
    let cases: &[(&[&str], &str)] = &[
        (&[], "--command"),
        (&["--tool", "Reed", "--input", "{}"], "Did you mean Read?"),
        (&["--tool", "Read", "--input", "{"], "--input is not JSON"),
        (&["--tool", "Read", "--input", "{}"], "file_path"),
        (&["--command", "ls", "--tool", "Read"], "--tool"),
        (&["--command", "ls", "--mode", "wild"], "not a permission mode"),
        (&["--command", "ls", "--rules", "missing.json"], "missing.json"),
        (&["--command", "ls", "--rules", "broken.json"], "broken.json"),
        (&["--command", "ls", "--cwd", "nowhere"], "no such folder"),
    ];
    for (args, said) in cases {
        let run = run_check(&world, args, "").await;
        run.expect_code(1);
        assert!(run.stderr.contains(said) && run.stdout.is_empty(), "{args:?}: {}", run.stderr);
    }
}

#[tokio::test]
async fn a_malformed_row_gets_an_error_in_its_place_and_the_batch_goes_on() {
    let world = world();
    let rows = [
        r#"{"id":"a","rules":{"allow":["Bash(make)"]},"cwd":"/repo","command":"make"}"#,
        "not json",
        "",
        r#"{"id":"b","cwd":"/repo"}"#,
        r#"{"id":"c","cwd":"/repo","rules":{"deny":["Bash("]},"command":"ls"}"#,
        r#"{"id":7,"cwd":"/repo","tool":"Read","path":"/etc/hosts"}"#,
        r#"{"id":2}"#,
        r#"{"id":6,"cwd":"/w","command":"ls","mode":"foo"}"#,
        r#"{"id":3,"cwd":"/w","command":"ls","moed":"plan"}"#,
        r#"{"id":4,"cwd":"/w","command":"ls","rules":{"alow":["Bash"]}}"#,
        r#"{"id":5,"cwd":"w","command":"ls"}"#,
        "[1]",
    ];
    let run = run_check(&world, &["--batch"], &rows.join("\n")).await;
    run.expect_code(1);
    let answers = run.lines();
    assert_eq!(answers.len(), 11);
    let errors = [
        (json!(2), "missing field `cwd`"),
        (json!(6), "foo"),
        (json!(3), "unknown field `moed`"),
        (json!(4), "unknown field `alow`"),
        (json!(5), "`cwd` is no absolute path"),
        (json!(null), "it is no object"),
    ];
    for (answer, (id, said)) in answers[5..].iter().zip(errors) {
        assert_eq!(answer["id"], id, "{answer}");
        assert!(answer["error"].as_str().unwrap().contains(said), "{answer}");
    }
    assert_eq!((&answers[0]["id"], &answers[0]["decision"]), (&json!("a"), &json!("allow")));
    assert_eq!(answers[1]["line"], 2);
    assert_eq!((&answers[2]["id"], &answers[2]["line"]), (&json!("b"), &json!(4)));
    assert!(answers[3]["error"].as_str().unwrap().contains("`Bash(`"), "{}", answers[3]);
    assert_eq!((&answers[4]["id"], &answers[4]["decision"]), (&json!(7), &json!("ask")));
    assert!(answers[4]["because"][0].as_str().unwrap().contains("/etc/hosts"));
}

#[tokio::test]
async fn a_batch_sees_only_the_links_of_its_rows() {
    let world = world();
    let real = world.path("real-link");
    std::os::unix::fs::symlink("/etc", &real).unwrap();
    let cwd = world.path("");
    let row = |symlinks: serde_json::Value| {
        let path = format!("{real}/hostname");
        json!({"id": 1, "cwd": cwd.trim_end_matches('/'), "tool": "Read", "path": path, "symlinks": symlinks})
    };
    let rows = format!("{}\n{}\n", row(json!({})), row(json!({ real.clone(): "/etc" })));
    let run = run_check(&world, &["--batch"], &rows).await;
    run.expect_code(0);
    let decisions: Vec<_> = run.lines().iter().map(|answer| answer["decision"].clone()).collect();
    assert_eq!(decisions, ["allow", "ask"]);
}

#[tokio::test]
async fn where_a_session_has_a_sandbox_the_answer_says_that_it_is_without_one() {
    let world = world();
    std::fs::create_dir_all(world.home.join(".claude")).unwrap();
    std::fs::write(world.home.join(".claude/settings.json"), r#"{"sandbox": {"enabled": true}}"#).unwrap();
    let run = run_check(&world, &["--command", "make"], "").await;
    assert!(run.expect_code(3).stderr.contains("sandbox.enabled is on"), "{}", run.stderr);
    let run = run_check(&world, &["--tool", "Read", "--input", r#"{"file_path":"a"}"#], "").await;
    assert_eq!(run.stderr, "");
}

#[tokio::test]
async fn a_structured_answer_is_decided_by_unchanged_settings_as_it_was() {
    let world = world();
    let model = Script::new().call("StructuredOutput", json!({"files": []})).serve().await.unwrap();
    let schema = r#"{"type":"object","properties":{"files":{"type":"array"}},"required":["files"]}"#;
    world.run(&model).args(["--json-schema", schema]).print_text("which?").finish().await.expect_code(0);
    let run = world.run_at(NOWHERE).args(["permissions", "simulate"]).finish().await;
    assert!(!run.expect_code(0).stdout.contains("StructuredOutput"), "{}", run.stdout);
}

#[tokio::test]
async fn a_compound_is_answered_part_by_part_and_a_rule_that_comes_near_says_what_is_in_its_way() {
    let world = world();
    let rules = json!({"permissions": {"deny": ["Bash(curl *)"], "allow": ["Bash(make *)", "Bash(cargo test *)"]}});
    world.file("rules.json", rules.to_string());
    let command = "cargo test && SECRET=1 make && rm out > log";
    let run = run_check(&world, &["--rules", "rules.json", "--command", command], "").await;
    run.expect_code(3);
    let expected = [
        "ask\n  because no rule allows it\n  part by part:\n",
        "    allow  cargo test\n           the allow rule `Bash(cargo test *)` from --rules (",
        "    ask    SECRET=… make\n           the allow rule `Bash(make *)` from --rules (",
        "because SECRET is set in front of the command\n",
        "    ask    rm out\n           no rule allows it\n",
        "    ask    > log\n           no rule allows it",
    ];
    for part in expected {
        assert!(run.stdout.contains(part), "{part:?} is not in {}", run.stdout);
    }
    let answer = run_check(&world, &["--rules", "rules.json", "--json", "--command", command], "").await.json();
    let parts = answer["parts"].as_array().unwrap();
    let decisions: Vec<&str> = parts.iter().map(|part| part["decision"].as_str().unwrap()).collect();
    assert_eq!(decisions, ["allow", "ask", "ask", "ask"], "{answer}");
    assert_eq!(parts[1]["reason"]["near"]["text"], "Bash(make *)", "{answer}");
    // One part alone needs no list, but the rule that comes near is still named.
    let run = run_check(&world, &["--rules", "rules.json", "--command", "sudo make x"], "").await;
    assert!(run.stdout.contains("`Bash(make *)`") && run.stdout.contains("it is run through `sudo`"), "{}", run.stdout);
    assert!(!run.stdout.contains("part by part"), "{}", run.stdout);
}

#[tokio::test]
async fn questions_that_cannot_be_asked_are_answered_in_words_for_people() {
    let world = world();
    world.file("rules.json", r#"{"permission": {"deny": ["Bash"]}}"#);
    let run = run_check(&world, &["--rules", "rules.json", "--command", "ls"], "").await;
    assert!(
        run.stderr.contains("permission: gimlet does not know this key; did you mean permissions?"),
        "{}",
        run.stderr
    );
    for (args, said) in [
        (&["--command", ""][..], "gimlet: --command: `command` is empty"),
        (&["--tool", "Bash"], "gimlet: --input: Bash was"),
    ] {
        let run = run_check(&world, args, "").await;
        assert!(run.expect_code(1).stderr.starts_with(said), "{args:?}: {}", run.stderr);
        assert!(!run.stderr.contains("(code ") && !run.stderr.contains("InputValidationError"), "{}", run.stderr);
    }
    let file = world.path("rules.json");
    let run = run_check(&world, &["--command", "ls", "--cwd", &file], "").await;
    assert!(run.expect_code(1).stderr.contains("this is no folder"), "{}", run.stderr);
}
