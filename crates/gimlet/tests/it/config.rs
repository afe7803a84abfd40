//! `gimlet config` and `gimlet doctor` over real settings files.
#![allow(clippy::unwrap_used, reason = "in a test a broken world is a failed test")]

use std::os::unix::fs::symlink;

use gimlet_testkit::{RunOutput, TestWorld};
use serde_json::json;

use crate::world;

/// Runs a command that needs no model: nothing listens there.
async fn run_gimlet(world: &TestWorld, args: &[&str]) -> RunOutput {
    world.run_at("http://127.0.0.1:9").args(args.iter().copied()).finish().await
}

fn write_user_settings(world: &TestWorld, text: &str) -> String {
    std::fs::create_dir_all(world.home.join(".claude")).unwrap();
    let file = world.home.join(".claude/settings.json");
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

fn make_repository(world: &TestWorld) {
    world.file(".git/HEAD", "ref: refs/heads/main\n");
}

#[tokio::test]
async fn a_setting_is_shown_with_its_file_and_line() {
    let world = world();
    let file = write_user_settings(&world, "{\n  \"model\": \"a\",\n  \"permissions\": {\"deny\": [\"Read(x)\"]}\n}\n");
    let shown = run_gimlet(&world, &["config", "get", "model"]).await;
    shown.expect_code(0);
    assert_eq!(shown.stdout, format!("model = \"a\"\n    {file}:2 (user)\n"));
    let shown = run_gimlet(&world, &["config", "get", "permissions.deny", "--json"]).await;
    assert_eq!(
        shown.expect_code(0).json(),
        json!({"key": "permissions.deny", "value": ["Read(x)"], "withheld": [],
            "sources": [{"value": "Read(x)", "scope": "user", "file": file, "line": 3}]})
    );
    let listed = run_gimlet(&world, &["config", "list"]).await;
    listed.expect_code(0);
    assert_eq!(
        listed.stdout,
        format!("model = \"a\"\n    {file}:2 (user)\npermissions.deny: 1 entry\n    \"Read(x)\"  {file}:3 (user)\n")
    );
    let missing = run_gimlet(&world, &["config", "get", "language"]).await;
    missing.expect_code(1);
    assert_eq!(missing.stderr, "gimlet: language is not set in any settings file\n");
    let mistyped = run_gimlet(&world, &["config", "get", "modle"]).await;
    assert_eq!(mistyped.expect_code(1).stderr, "gimlet: there is no setting modle; did you mean model?\n");
}

#[tokio::test]
async fn settings_are_set_and_removed_in_the_file_that_was_named() {
    let world = world();
    make_repository(&world);
    let file = write_user_settings(&world, "{\n\t\"theirs\": [1,2],\n\t\"model\": \"a\"\n}");
    run_gimlet(&world, &["config", "set", "model", "b"]).await.expect_code(0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\n\t\"theirs\": [1,2],\n\t\"model\": \"b\"\n}");
    // 5 is a name here and a number there.
    run_gimlet(&world, &["config", "set", "model", "5"]).await.expect_code(0);
    run_gimlet(&world, &["config", "set", "cleanupPeriodDays", "5"]).await.expect_code(0);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("\"model\": \"5\"") && text.contains("\"cleanupPeriodDays\": 5"), "{text}");
    run_gimlet(&world, &["config", "unset", "model"]).await.expect_code(0);
    assert!(!std::fs::read_to_string(&file).unwrap().contains("model"));

    run_gimlet(&world, &["config", "set", "permissions.allow", "[\"Read\"]", "--scope", "local"]).await.expect_code(0);
    assert_eq!(
        world.read(".claude/settings.local.json"),
        "{\n  \"permissions\": {\n    \"allow\": [\n      \"Read\"\n    ]\n  }\n}\n"
    );
    let ignored = world.read(".git/info/exclude");
    assert_eq!(ignored, "**/.claude/settings.local.json\n");
    run_gimlet(&world, &["config", "set", "language", "fi", "--scope", "project"]).await.expect_code(0);
    assert_eq!(world.read(".claude/settings.json"), "{\n  \"language\": \"fi\"\n}\n");
}

#[tokio::test]
async fn what_cannot_be_set_is_refused_with_the_reason() {
    let world = world();
    for (args, part) in [
        (&["config", "set", "verbose", "perhaps"][..], "expected true or false"),
        (&["config", "set", "modle", "a"], "did you mean model?"),
        (&["config", "add", "permissions.allow", "Bsh(x"], "there is no tool named 'Bsh'. Did you mean Bash?"),
        (&["config", "add", "permissions.deny", "Bash(x"], "Write rules as Tool or Tool(pattern)"),
        (&["config", "set", "claudeMd", "a"], "only managed settings can"),
        (
            &["config", "set", "enableAllProjectMcpServers", "true", "--scope", "project"],
            "the project settings cannot set",
        ),
        (&["config", "set", "env.LD_PRELOAD", "x", "--scope", "project"], "load code"),
    ] {
        let refused = run_gimlet(&world, args).await;
        refused.expect_code(1);
        assert!(
            refused.stderr.starts_with("gimlet: ") && refused.stderr.contains(part),
            "{args:?}: {}",
            refused.stderr
        );
    }
    let file = write_user_settings(&world, "{\n  \"model\": \"a\",\n}\n");
    let refused = run_gimlet(&world, &["config", "set", "model", "b"]).await;
    refused.expect_code(1);
    assert!(refused.stderr.contains(&format!("{file}: line 2, column 15")), "{}", refused.stderr);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\n  \"model\": \"a\",\n}\n");
}

#[tokio::test]
async fn the_lists_of_a_block_are_shown_by_name_and_only_what_is_there_is_taken_out() {
    let world = world();
    let file = write_user_settings(&world, "{\"permissions\": {\"allow\": [\"Bsh(x)\"],\n\"deny\": [\"Read(y)\"]}}");
    let shown = run_gimlet(&world, &["config", "get", "permissions"]).await;
    let lists = format!(
        "permissions.allow: 1 entry\n    \"Bsh(x)\"  {file}:1 (user)\npermissions.deny: 1 entry\n    \"Read(y)\"  {file}:2 (user)\n"
    );
    assert_eq!(shown.expect_code(0).stdout, lists);
    let nothing = run_gimlet(&world, &["config", "remove", "permissions.allow", "nope"]).await;
    assert_eq!(nothing.expect_code(1).stdout, "");
    assert!(nothing.stderr.contains("has no such entry"), "{}", nothing.stderr);
    let doctor = run_gimlet(&world, &["doctor"]).await;
    assert!(doctor.stdout.contains("there is no tool named `Bsh`; did you mean `Bash`?"), "{}", doctor.stdout);
}

#[tokio::test]
async fn without_saying_what_to_do_the_help_is_shown() {
    let shown = run_gimlet(&world(), &["config"]).await;
    shown.expect_code(1);
    assert!(shown.stderr.contains("Usage: gimlet config"), "{}", shown.stderr);
}

#[tokio::test]
async fn the_files_and_what_became_of_them_are_listed() {
    let world = world();
    let file = write_user_settings(&world, "{");
    world.file(".claude/settings.json", "{}");
    let shown = run_gimlet(&world, &["config", "path"]).await;
    let lines: Vec<&str> = shown.expect_code(0).stdout.lines().collect();
    assert_eq!(lines[0], format!("user    broken     {file}"));
    assert_eq!(lines[1], format!("project read       {}", world.path(".claude/settings.json")));
    assert_eq!(lines[2], format!("local   not there  {}", world.path(".claude/settings.local.json")));
    assert!(lines[3].starts_with("managed "), "{lines:?}");
}

#[tokio::test]
async fn values_of_variables_stay_out_of_lists() {
    let world = world();
    write_user_settings(&world, r#"{"env":{"SERVICE_TOKEN":"hunter2","OTHER":"x"}}"#);
    let listed = run_gimlet(&world, &["config", "list"]).await;
    assert!(!listed.stdout.contains("hunter2"), "{}", listed.stdout);
    for name in ["SERVICE_TOKEN", "OTHER"] {
        assert!(listed.stdout.contains(&format!("    {name} = ***  ")), "{}", listed.stdout);
    }
    for args in [&["get", "env"][..], &["get", "env", "--json"], &["list", "--json"]] {
        let named = run_gimlet(&world, &[&["config"], args].concat()).await;
        let said = &named.expect_code(0).stdout;
        assert!(said.contains("OTHER") && said.contains("***") && !said.contains("hunter2"), "{args:?}: {said}");
    }
    let asked = run_gimlet(&world, &["config", "get", "env.SERVICE_TOKEN"]).await;
    assert!(asked.stdout.contains("hunter2"), "what was asked for by name is shown");
}

#[tokio::test]
async fn what_an_untrusted_project_says_is_named_and_not_used() {
    let world = world();
    make_repository(&world);
    world.file(
        ".claude/settings.json",
        r#"{"model":"theirs","permissions":{"allow":["Bash(*)"]},"hooks":{"Stop":[{"hooks":[{"type":"command","command":"touch canary"}]}]}}"#,
    );
    world.file(".mcp.json", r#"{"mcpServers":{"s":{"command":"touch","args":["canary"]}}}"#);
    let shown = run_gimlet(&world, &["config", "get", "model"]).await;
    shown.expect_code(1);
    assert!(shown.stderr.contains("waits until you trust this folder"), "{}", shown.stderr);
    let listed = run_gimlet(&world, &["config", "list"]).await;
    assert!(
        listed.stderr.contains("this folder is not trusted, so these are not used: hook Stop *; MCP server s; allow rule Bash(*); setting model"),
        "{}",
        listed.stderr
    );
    let doctor = run_gimlet(&world, &["doctor"]).await;
    doctor.expect_code(0);
    assert!(doctor.stdout.contains(": not trusted; review: gimlet trust"), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("not used: MCP server s"), "{}", doctor.stdout);
    assert!(!world.project.join("canary").exists());
}

#[tokio::test]
async fn the_doctor_finds_everything_that_is_broken() {
    let world = world();
    let file = write_user_settings(
        &world,
        "{\n  \"permissions\": {\n    \"deny\": [\"Read(x\", \"Read(y)\"]\n  },\n  \"modle\": \"x\"\n}\n",
    );
    let sick = run_gimlet(&world, &["doctor"]).await;
    sick.expect_code(1);
    assert!(sick.stdout.contains(&format!("{file}:3: permissions.deny: the rule `Read(x`")), "{}", sick.stdout);
    assert!(sick.stdout.contains(&format!("{file}:5:3: modle: gimlet does not know this key; did you mean model?")));
    let sick = run_gimlet(&world, &["doctor", "--json"]).await;
    let report = sick.expect_code(1).json();
    assert_eq!(report["problems"][0]["severity"], "error");
    assert_eq!(report["problems"][0]["line"], 3);
    write_user_settings(&world, "{}");
    let well = run_gimlet(&world, &["doctor"]).await;
    assert!(well.expect_code(0).stdout.contains("no project settings that need trust"), "{}", well.stdout);
}

#[tokio::test]
async fn no_state_of_the_files_takes_the_doctor_down() {
    let world = world();
    let file = world.home.join(".claude/settings.json");
    write_user_settings(&world, &"[".repeat(1_000_000));
    run_gimlet(&world, &["doctor"]).await.expect_code(1);
    std::fs::File::options().write(true).open(&file).unwrap().set_len(100 << 20).unwrap();
    run_gimlet(&world, &["doctor"]).await.expect_code(1);
    std::fs::write(&file, [0_u8; 64]).unwrap();
    run_gimlet(&world, &["doctor"]).await.expect_code(1);
    std::fs::remove_file(&file).unwrap();
    symlink(&file, &file).unwrap();
    run_gimlet(&world, &["doctor"]).await.expect_code(1);
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let sick = run_gimlet(&world, &["doctor"]).await;
    sick.expect_code(1);
    assert!(sick.stdout.contains("it is a folder, not a file"), "{}", sick.stdout);
    std::fs::remove_dir(&file).unwrap();
    std::fs::write(world.home.join(".claude.json"), "{\n\"projects\": {,}}").unwrap();
    let sick = run_gimlet(&world, &["doctor"]).await;
    assert!(sick.expect_code(0).stdout.contains(".claude.json:2:14: "), "{}", sick.stdout);
    assert_eq!(std::fs::read_to_string(world.home.join(".claude.json")).unwrap(), "{\n\"projects\": {,}}");
    world.file(".claude/settings.json", r#"{"\u001b[31mred\u0007": 1}"#);
    let sick = run_gimlet(&world, &["doctor"]).await;
    assert!(sick.stdout.contains("red: gimlet does not know this key"), "{}", sick.stdout);
    assert!(!sick.stdout.contains(['\u{1b}', '\u{7}']), "{}", sick.stdout);
}

#[tokio::test]
async fn lists_are_extended_and_shortened_entry_by_entry() {
    let world = world();
    let file = write_user_settings(&world, "{}");
    let hinted = run_gimlet(&world, &["config", "set", "permissions.allow", "Bash(ls)"]).await;
    assert!(
        hinted.expect_code(1).stderr.contains("gimlet config add permissions.allow 'Bash(ls)'"),
        "{}",
        hinted.stderr
    );
    for entry in ["Bash(ls)", "Bash(make)", "Bash(ls)"] {
        run_gimlet(&world, &["config", "add", "permissions.allow", entry]).await.expect_code(0);
    }
    run_gimlet(&world, &["config", "remove", "permissions.allow", "Bash(ls)"]).await.expect_code(0);
    let gone = run_gimlet(&world, &["config", "remove", "permissions.allow", "Bash(ls)"]).await;
    assert!(gone.expect_code(1).stderr.contains("has no such entry"), "{}", gone.stderr);
    let settings: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(settings, json!({"permissions": {"allow": ["Bash(make)"]}}));
    let unset = run_gimlet(&world, &["config", "unset", "model"]).await;
    assert!(unset.expect_code(0).stdout.contains("was not set"), "{}", unset.stdout);
    run_gimlet(&world, &["config", "set", "env.WITH.DOT", "x"]).await.expect_code(0);
    let unset = run_gimlet(&world, &["config", "unset", "env.WITH.DOT"]).await;
    assert!(unset.expect_code(0).stdout.contains("env.WITH.DOT removed"), "{}", unset.stdout);
}

#[tokio::test]
async fn what_a_person_writes_for_a_project_holds_at_once_and_trusts_nothing_else_in_it() {
    let world = world();
    make_repository(&world);
    run_gimlet(&world, &["config", "set", "model", "opus", "--scope", "local"]).await.expect_code(0);
    let shown = run_gimlet(&world, &["config", "get", "model"]).await;
    assert!(shown.expect_code(0).stdout.starts_with("model = \"opus\""), "{}", shown.stdout);
    assert!(!world.home.join(".claude.json").exists(), "other programs are told nothing");
    world.file(".claude/settings.json", r#"{"permissions":{"allow":["Bash(*)"]},"env":{"A":"1"}}"#);
    let doctor = run_gimlet(&world, &["doctor"]).await;
    assert!(doctor.stdout.contains("not used: allow rule Bash(*)"), "{}", doctor.stdout);
    let waits = run_gimlet(&world, &["config", "set", "effortLevel", "low", "--scope", "local"]).await;
    assert!(waits.expect_code(0).stderr.contains("waits until you trust this folder"), "{}", waits.stderr);
}

#[tokio::test]
async fn whoever_changes_a_setting_hears_what_stands_in_its_way() {
    let world = world();
    make_repository(&world);
    for (args, said) in [
        (&["config", "set", "ultracode", "true"][..], "does not use it yet"),
        (&["config", "set", "voiceEnabled", "true"], "hosted service"),
    ] {
        let set = run_gimlet(&world, args).await;
        assert!(set.expect_code(0).stderr.contains(said), "{args:?}: {}", set.stderr);
    }
    run_gimlet(&world, &["config", "set", "model", "opus", "--scope", "local"]).await.expect_code(0);
    let weaker = run_gimlet(&world, &["config", "set", "model", "haiku"]).await;
    assert!(weaker.expect_code(0).stderr.contains("settings.local.json:2 says something else"), "{}", weaker.stderr);
    // What says the same stands in nobody's way.
    let same = run_gimlet(&world, &["config", "set", "model", "opus"]).await;
    assert_eq!(same.expect_code(0).stderr, "");
    let missing = run_gimlet(&world, &["config", "set", "model"]).await;
    assert_eq!(
        missing.expect_code(1).stderr,
        "gimlet: the following required arguments were not provided: <VALUE>. See 'gimlet config set --help'\n"
    );
}

#[tokio::test]
async fn the_doctor_names_files_for_the_model_that_are_not_used() {
    let world = world();
    for file in [
        "CLAUDE.md",
        ".claude/agents/reviewer.md",
        ".claude/commands/ship.md",
        ".claude/skills/lint/SKILL.md",
        ".claude/rules/style.md",
        ".claude/output-styles/terse.md",
    ] {
        world.file(file, "words for $1\n");
    }
    world.file(".claude/skills/loose.md", "words\n");
    world.file(".claude/skills/look/SKILL.md", "---\ncontext: fork\npaths: src/**\n---\nwords\n");
    let doctor = run_gimlet(&world, &["doctor"]).await;
    doctor.expect_code(0);
    for used in ["CLAUDE.md", "rules/style.md", "output-styles/terse.md"] {
        assert!(!doctor.stdout.contains(used), "{used} is in {}", doctor.stdout);
    }
    for words in [
        "agents/reviewer.md:1: this agent is not used: an agent begins with front matter",
        "skills/loose.md: this skill is not used: a skill is a folder with a SKILL.md",
        "commands/ship.md: it names $1 and never $0",
        "look/SKILL.md: without effect in this version of gimlet: context: fork, paths",
    ] {
        assert!(doctor.stdout.contains(words), "{words} is not in {}", doctor.stdout);
    }
}

#[tokio::test]
async fn a_rule_that_decides_nothing_is_told_when_it_is_added() {
    let world = world();
    write_user_settings(&world, "{\"permissions\": {\"deny\": [\"Bash(b*)\", \"Read(src/**)\"]}}");
    for (key, rule, said) in [
        ("permissions.allow", "Bash(b)", Some("`Bash(b*)`")),
        ("permissions.allow", "Edit(src/x)", Some("`Read(src/**)`")),
        ("permissions.allow", "Bash(make *)", None),
        ("permissions.deny", "Write(x)", Some("has no effect")),
        ("permissions.deny", "Bash(ma*)", Some("`Bash(make *)` is never reached")),
    ] {
        let added = run_gimlet(&world, &["config", "add", key, rule]).await;
        added.expect_code(0);
        match said {
            Some(said) => {
                assert!(added.stderr.contains(said) && added.stderr.starts_with("note: "), "{}", added.stderr)
            }
            None => assert_eq!(added.stderr, "", "{rule}"),
        }
    }
    let seen = run_gimlet(&world, &["doctor"]).await;
    for rule in ["`Bash(b)` is never reached", "`Edit(src/x)` is never reached", "`Bash(make *)` is never reached"] {
        assert!(seen.stdout.contains(rule), "{}", seen.stdout);
    }
}

#[tokio::test]
async fn what_other_programs_keep_about_the_interface_is_shown_with_its_file() {
    let world = world();
    std::fs::write(world.home.join(".claude.json"), r#"{"theme":"light"}"#).unwrap();
    let shown = run_gimlet(&world, &["config", "get", "theme"]).await;
    let file = world.home.join(".claude.json");
    let expected = format!("theme = \"light\"\n    {} (state of other programs)\n", file.display());
    assert_eq!(shown.expect_code(0).stdout, expected);
    let told = run_gimlet(&world, &["config", "get", "theme", "--json"]).await.expect_code(0).json();
    assert_eq!((&told["value"], &told["sources"][0]["scope"]), (&json!("light"), &json!("state")));
    write_user_settings(&world, r#"{"theme":"dark"}"#);
    assert!(run_gimlet(&world, &["config", "get", "theme"]).await.stdout.starts_with("theme = \"dark\""));
}

#[tokio::test]
async fn a_file_that_is_not_used_is_named_by_whoever_looks_for_its_settings() {
    let world = world();
    let file = world.home.join(".claude/settings.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, r#"{"model": "opus", "permissions": {"allow": ["Bash(ls)"]}"#).unwrap();
    for args in [&["config", "get", "model"][..], &["config", "list"], &["config", "list", "--json"]] {
        let said = run_gimlet(&world, args).await;
        assert!(said.stderr.contains("settings.json"), "{args:?}: {}", said.stderr);
    }
}

#[tokio::test]
async fn doctor_says_whether_a_session_would_have_a_credential() {
    let world = world();
    let run = run_gimlet(&world, &["doctor"]).await;
    assert!(run.stdout.contains("Model\n  a credential is there\n"), "{}", run.stdout);
    let keyless = || world.run_at("http://127.0.0.1:9").without_env("ANTHROPIC_API_KEY");
    let run = keyless().arg("doctor").finish().await;
    assert!(run.stdout.contains("Model\n  no API key. "), "{}", run.stdout);
    let run = keyless().env("ANTHROPIC_PROFILE", "work").args(["doctor", "--json"]).finish().await;
    assert!(run.stdout.contains("ANTHROPIC_PROFILE is set, but"), "{}", run.stdout);
}

#[tokio::test]
async fn entries_are_added_one_by_one_and_once() {
    let world = world();
    let file = write_user_settings(&world, "{}");
    let both = run_gimlet(&world, &["config", "add", "permissions.allow", r#"["Bash(a)","Bash(b)"]"#]).await;
    assert!(both.expect_code(1).stderr.contains("Add one entry at a time"), "{}", both.stderr);
    let first = run_gimlet(&world, &["config", "add", "permissions.allow", "Bash(a)"]).await;
    assert!(first.expect_code(0).stdout.contains("extended"), "{}", first.stdout);
    let again = run_gimlet(&world, &["config", "add", "permissions.allow", "Bash(a)"]).await;
    assert!(again.expect_code(0).stdout.contains("has this entry already"), "{}", again.stdout);
    run_gimlet(&world, &["config", "remove", "permissions.allow", "Bash(a)"]).await.expect_code(0);
    let left = std::fs::read_to_string(&file).unwrap();
    assert!(left.contains("\"allow\": []"), "{left}");
}

#[tokio::test]
async fn what_cannot_be_changed_is_called_by_its_name() {
    let world = world();
    write_user_settings(&world, "[]");
    for (args, said) in [
        (&["set", "model", "opus"][..], "settings.json: line 1: the file is a list, not an object with keys"),
        (&["set", "", "x"], "the name of a setting is missing"),
        (&["add", "model", "x"], "model is not a list. gimlet config set model 'x'"),
    ] {
        let run = run_gimlet(&world, &[&["config"], args].concat()).await;
        assert!(run.expect_code(1).stderr.contains(said), "{args:?}: {}", run.stderr);
    }
    let args = ["config", "set", "permissions.defaultMode", "bypassPermissions", "--scope", "project"];
    let run = run_gimlet(&world, &args).await;
    assert!(!run.expect_code(1).stderr.contains("ignored: "), "{}", run.stderr);
}

#[tokio::test]
async fn the_doctor_names_each_file_once_and_folders_that_are_not_there() {
    let world = world();
    let file = write_user_settings(&world, "{\"permissions\":\n{\"additionalDirectories\": [\"/nope\"]}}");
    let notes = world.file("CLAUDE.md", "@missing.md").display().to_string();
    let run = run_gimlet(&world, &["doctor"]).await;
    assert_eq!(run.expect_code(0).stdout.matches(&notes).count(), 1, "{}", run.stdout);
    let missing = format!("{file}:2: permissions.additionalDirectories: there is no folder /nope");
    assert!(run.stdout.contains(&missing), "{}", run.stdout);
}

#[tokio::test]
async fn a_path_that_only_looks_absolute_is_noted() {
    let world = world();
    let add = run_gimlet(&world, &["config", "add", "permissions.deny", "Read(/etc/**)"]).await;
    let note = format!("`Read(/etc/**)` is about {}/.claude/etc; did you mean `Read(//etc/**)`?", world.home.display());
    assert!(add.expect_code(0).stderr.contains(&note), "{}", add.stderr);
    let doctor = run_gimlet(&world, &["doctor"]).await;
    assert!(doctor.stdout.contains(&note), "{}", doctor.stdout);
    let add = run_gimlet(&world, &["config", "add", "permissions.deny", "Read(//etc/**)"]).await;
    assert_eq!(add.expect_code(0).stderr, "");
}
