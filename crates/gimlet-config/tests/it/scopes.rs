//! Which file wins, what adds up, and what a file may not say.

use gimlet_config::{
    DefaultMode, KEYS, KeySource, OTHER_SPELLINGS, ProblemSeverity, RuleBehavior, Scope, SettingSources, StateSettings,
};
use serde_json::{Value, json};

use crate::fixture::{SettingsFixture, problem_messages, write_file_at};

fn allow_rules(world: &SettingsFixture) -> Vec<String> {
    let rules = world.trusted_settings().rules.into_iter().filter(|rule| rule.behavior == RuleBehavior::Allow);
    rules.map(|rule| rule.text).collect()
}

#[test]
fn the_strongest_file_wins_key_by_key_and_lists_add_up() {
    let mut world = SettingsFixture::new();
    world.write_user(
        r#"{"model":"user","language":"de","permissions":{"allow":["Bash(make *)","Read"]},"env":{"A":"1","B":"1"}}"#,
    );
    world.write_project(r#"{"model":"project","permissions":{"allow":["Bash(ninja *)","Read"]},"env":{"B":"2"}}"#);
    world.write_local(r#"{"model":"local"}"#);
    let effective = world.trusted_settings();
    assert_eq!(effective.settings.model.as_deref(), Some("local"));
    assert_eq!(effective.settings.language.as_deref(), Some("de"));
    assert_eq!(effective.merged.get("permissions.allow"), Some(json!(["Bash(make *)", "Read", "Bash(ninja *)"])));
    assert_eq!(effective.merged.get("env"), Some(json!({"A": "1", "B": "2"})));

    world.options.settings_flag = Some(r#"{"model":"flag"}"#.into());
    assert_eq!(world.trusted_settings().settings.model.as_deref(), Some("flag"));
    world.write_managed(r#"{"model":"managed"}"#);
    assert_eq!(world.trusted_settings().settings.model.as_deref(), Some("managed"));
    world.options.settings_flag = None;
    world.options.sources = "project".parse().unwrap();
    let effective = world.trusted_settings();
    assert_eq!(effective.settings.language, None, "the user settings are left out");
    assert_eq!(effective.settings.model.as_deref(), Some("managed"), "managed settings never are");
}

#[test]
fn a_name_with_dots_stands_for_no_key_below_another() {
    let world = SettingsFixture::new();
    world.write_user(
        r#"{"sandbox":{"enabled":true,"filesystem":{"denyRead":["~/own"]}},"permissions":{"deny":["Own"]},"env":{"a.b":"1"}}"#,
    );
    world.write_project(
        r#"{"sandbox.filesystem.denyRead":["/x"],"sandbox":{"filesystem.denyRead":[]},"sandbox.filesystem":{"denyRead":[]},
        "sandbox.enabled":false,"permissions.deny":[],"permissions.defaultMode":"bypassPermissions","env.a":"2","x.y":1}"#,
    );
    for effective in [world.trusted_settings(), world.untrusted_settings()] {
        let entries = |key: &str| effective.merged.get(key).unwrap_or_default();
        assert_eq!(entries("sandbox.filesystem.denyRead"), json!(["~/own"]));
        assert_eq!(entries("permissions.deny"), json!(["Own"]));
        assert_eq!(entries("sandbox.enabled"), json!(true));
        assert_eq!(entries("env"), json!({"a.b": "1"}));
        assert_eq!(effective.merged.get("permissions.defaultMode"), None);
    }
    let warnings = problem_messages(&world.load().problems, ProblemSeverity::Warning);
    assert_eq!(warnings.len(), 7, "{warnings:?}");
    assert!(warnings.iter().any(|warning| warning.contains("sandbox.enabled: ignored: a key has no dots")));
}

#[test]
fn every_value_knows_its_file_and_line() {
    let world = SettingsFixture::new();
    let user = world
        .write_user("{\n  \"permissions\": {\n    \"deny\": [\n      \"Read(a)\",\n      \"Read(b)\"\n    ]\n  }\n}");
    let project = world.write_project("{\n\n  \"model\": \"x\"}");
    let effective = world.trusted_settings();
    let rule = effective.rules.iter().find(|rule| rule.text == "Read(b)").unwrap();
    assert_eq!((rule.origin.file.as_path(), rule.origin.line, rule.origin.scope), (user.as_path(), 5, Scope::User));
    assert_eq!(rule.anchor, world.home.join(".claude"));
    let model = effective.merged.sources("model").remove(0);
    assert_eq!((model.origin.file, model.origin.line), (project, 3));
}

#[test]
fn drop_ins_follow_the_managed_file_in_the_order_of_their_names() {
    let world = SettingsFixture::new();
    world.write_managed(r#"{"model":"base","permissions":{"deny":["A"]}}"#);
    write_file_at(&world.managed.join("managed-settings.d/20.json"), r#"{"model":"twenty"}"#);
    write_file_at(&world.managed.join("managed-settings.d/10.json"), r#"{"model":"ten","permissions":{"deny":["B"]}}"#);
    write_file_at(&world.managed.join("managed-settings.d/.hidden.json"), r#"{"model":"hidden"}"#);
    write_file_at(&world.managed.join("managed-settings.d/note.txt"), "not JSON");
    let effective = world.trusted_settings();
    assert_eq!(effective.settings.model.as_deref(), Some("twenty"));
    assert_eq!(effective.merged.get("permissions.deny"), Some(json!(["A", "B"])));
}

#[test]
fn some_lists_are_taken_whole() {
    let world = SettingsFixture::new();
    world.write_user(r#"{"fallbackModel":["a","b"],"availableModels":["a"],"extraKnownMarketplaces":{"m":{"source":"one","autoUpdate":true}}}"#);
    world.write_local(
        r#"{"fallbackModel":["c"],"availableModels":["b"],"extraKnownMarketplaces":{"m":{"source":"two"}}}"#,
    );
    let effective = world.trusted_settings();
    assert_eq!(effective.merged.get("fallbackModel"), Some(json!(["c"])));
    assert_eq!(effective.merged.get("availableModels"), Some(json!(["a", "b"])));
    assert_eq!(effective.merged.get("extraKnownMarketplaces.m"), Some(json!({"source": "two"})));
    world.write_managed(r#"{"availableModels":["m"]}"#);
    assert_eq!(world.trusted_settings().merged.get("availableModels"), Some(json!(["m"])));
    write_file_at(&world.managed.join("managed-settings.d/10.json"), r#"{"availableModels":["n"]}"#);
    assert_eq!(
        world.trusted_settings().merged.get("availableModels"),
        Some(json!(["m", "n"])),
        "one voice in several files"
    );
}

#[test]
fn a_key_counts_only_where_its_row_says() {
    let mut world = SettingsFixture::new();
    for key in KEYS.iter().filter(|key| !key.path.contains('.')) {
        let text = json!({ key.path: sample_value(&mut world, key.path) }).to_string();
        for scope in Scope::ALL {
            let at = |here: Scope| if here == scope { text.as_str() } else { "{}" };
            world.write_user(at(Scope::User));
            world.write_project(at(Scope::Project));
            world.write_local(at(Scope::Local));
            world.options.settings_flag = Some(at(Scope::Flag).to_owned());
            world.write_managed(at(Scope::Managed));
            let loaded = world.load();
            let errors: Vec<_> = loaded.errors().collect();
            assert!(errors.is_empty(), "{scope} {}: {errors:?}", key.path);
            let name = OTHER_SPELLINGS.iter().find(|(other, _)| *other == key.path).map_or(key.path, |(_, name)| name);
            let read = world.trusted_settings().merged.get(name).is_some();
            let wanted = match key.source {
                KeySource::Any => true,
                KeySource::NotProject => scope != Scope::Project,
                KeySource::User => !matches!(scope, Scope::Project | Scope::Local),
                KeySource::Managed => scope == Scope::Managed,
                KeySource::State => false,
            };
            assert_eq!(read, wanted, "{} in {scope}", key.path);
            let told = loaded.problems.iter().any(|problem| problem.key == key.path && problem.line == Some(1));
            assert_eq!(told, !wanted, "{} in {scope}: {:?}", key.path, loaded.problems);
        }
    }
}

/// A value that fits a key, found by trying the few shapes there are.
fn sample_value(world: &mut SettingsFixture, key: &str) -> Value {
    let shapes = [
        json!(true),
        json!("x"),
        json!(["x"]),
        json!({}),
        json!({"a": "b"}),
        json!({"a": true}),
        json!([]),
        json!(150_000),
        json!(1),
        json!({"type": "command", "command": "x"}),
        json!({"source": "x"}),
        json!({"path": "/x"}),
        json!({"a": "on"}),
        json!({"tips": []}),
        json!({"mode": "append", "verbs": []}),
        json!("disable"),
        json!("low"),
        json!("vim"),
        json!("classic"),
        json!("default"),
        json!("bash"),
        json!("never"),
        json!("auto"),
        json!("small"),
        json!("hold"),
        json!("latest"),
        json!("merge"),
        json!("turn"),
    ];
    let mut fits = |value: &Value| {
        let text = json!({ key: value }).to_string();
        world.write_managed(&text);
        world.options.settings_flag = Some(text);
        world.load().errors().count() == 0
    };
    shapes.into_iter().find(|value| fits(value)).unwrap_or_else(|| panic!("no shape fits {key}"))
}

#[test]
fn the_project_can_only_make_the_sandbox_stricter() {
    let world = SettingsFixture::new();
    world.write_project(
        r#"{"sandbox":{"enabled":false,"autoAllowBashIfSandboxed":true,"allowUnsandboxedCommands":true,
            "excludedCommands":["git *"],"filesystem":{"allowWrite":["/"],"denyRead":["/x"]},
            "network":{"allowedDomains":["evil.example"],"deniedDomains":["a.example"]},
            "credentials":{"files":[{"path":"/k","mode":"mask"},{"path":"/s","mode":"deny"}]}}}"#,
    );
    let effective = world.trusted_settings();
    assert_eq!(
        effective.merged.get("sandbox"),
        Some(json!({"filesystem": {"denyRead": ["/x"]}, "network": {"deniedDomains": ["a.example"]},
            "credentials": {"files": [{"path": "/s", "mode": "deny"}]}}))
    );
    assert_eq!(problem_messages(&world.load().problems, ProblemSeverity::Warning).len(), 7);
    world.write_project(r#"{"sandbox":{"enabled":true,"allowUnsandboxedCommands":false}}"#);
    let sandbox = world.untrusted_settings().settings.sandbox;
    assert_eq!((sandbox.enabled, sandbox.allow_unsandboxed_commands), (Some(true), Some(false)));
}

#[test]
fn modes_that_stop_asking_come_from_the_person() {
    let world = SettingsFixture::new();
    world.write_user(r#"{"permissions":{"defaultMode":"acceptEdits"}}"#);
    let mode =
        |world: &SettingsFixture| world.trusted_settings().default_mode.map(|(mode, origin)| (mode, origin.scope));
    assert_eq!(mode(&world), Some((DefaultMode::AcceptEdits, Scope::User)));
    world.write_project(r#"{"permissions":{"defaultMode":"bypassPermissions"}}"#);
    assert_eq!(mode(&world), Some((DefaultMode::AcceptEdits, Scope::User)));
    world.write_project(r#"{"permissions":{"defaultMode":"auto"}}"#);
    assert_eq!(mode(&world), Some((DefaultMode::Default, Scope::Project)));
    world.write_project(r#"{"permissions":{"defaultMode":"plan"}}"#);
    assert_eq!(mode(&world), Some((DefaultMode::Plan, Scope::Project)));
    world.write_local(r#"{"permissions":{"defaultMode":"manual"}}"#);
    assert_eq!(mode(&world), Some((DefaultMode::Default, Scope::Local)));
}

#[test]
fn variables_by_which_a_project_could_run_code_are_refused() {
    let world = SettingsFixture::new();
    let names = [
        "LD_PRELOAD",
        "BASH_ENV",
        "GIT_SSH_COMMAND",
        "PATH",
        "NODE_OPTIONS",
        "RIPGREP_CONFIG_PATH",
        "CLAUDE_CONFIG_DIR",
        "GIMLET_TRUST",
        "CLAUDE_ENV_FILE",
        "GIMLET_ENV_FILE",
        "CLAUDE_CODE_SHELL",
        "GIMLET_SHELL_PREFIX",
        "HTTPS_PROXY",
        "all_proxy",
        "SSL_CERT_FILE",
        "NODE_EXTRA_CA_CERTS",
        "CLAUDE_CODE_CLIENT_CERT",
    ];
    let text = json!({ "env": names.iter().map(|name| (*name, "x")).collect::<std::collections::BTreeMap<_, _>>() });
    world.write_project(text.to_string());
    assert_eq!(world.trusted_settings().env, []);
    assert_eq!(problem_messages(&world.load().problems, ProblemSeverity::Warning).len(), names.len());
    world.write_local(text.to_string());
    assert_eq!(world.trusted_settings().env, []);
    world.write_user(text.to_string());
    assert_eq!(world.trusted_settings().env.len(), names.len(), "a person may set what they like");
    world.write_user(r#"{"env":{"CLAUDE_CODE_REMOTE":"true","A=B":"x","N":"a\u0000b"}}"#);
    assert_eq!(world.trusted_settings().env, []);
}

#[test]
fn local_settings_lie_at_the_top_of_the_repository_and_shared_ones_where_gimlet_starts() {
    let mut world = SettingsFixture::new();
    world.write_project(r#"{"permissions":{"allow":["at the top"]}}"#);
    world.write_local(r#"{"language":"top","permissions":{"allow":["local"]}}"#);
    world.write_file("sub/.claude/settings.json", r#"{"permissions":{"allow":["below"]}}"#);
    world.write_file("sub/.claude/settings.local.json", r#"{"language":"below","permissions":{"allow":["legacy"]}}"#);
    world.cwd = world.project.join("sub");
    assert_eq!(allow_rules(&world), ["below", "legacy", "local"]);
    assert_eq!(world.trusted_settings().settings.language.as_deref(), Some("top"));
    // gimlet writes the one at the top; whoever made the other may say no more than the project.
    world.write_file("sub/.claude/settings.local.json", r#"{"sandbox":{"enabled":false}}"#);
    assert_eq!(world.trusted_settings().settings.sandbox.enabled, None);
}

#[test]
fn a_linked_worktree_shares_the_local_settings_of_its_main_checkout() {
    let mut world = SettingsFixture::new();
    world.write_local(r#"{"language":"main"}"#);
    let worktree = world.project.with_file_name("linked");
    let record = world.project.join(".git/worktrees/linked");
    write_file_at(&worktree.join(".git"), format!("gitdir: {}\n", record.display()));
    write_file_at(&record.join("HEAD"), "ref: refs/heads/other\n");
    write_file_at(&record.join("commondir"), "../..\n");
    write_file_at(&record.join("gitdir"), format!("{}\n", worktree.join(".git").display()));
    world.cwd = worktree.clone();
    let repo = world.locations().repo.unwrap();
    assert_eq!((repo.root, repo.main_root), (worktree.clone(), world.project.clone()));
    assert_eq!(world.trusted_settings().settings.language.as_deref(), Some("main"));

    // A folder that only claims to be a worktree of somebody's repository.
    let liar = world.project.with_file_name("liar");
    write_file_at(&liar.join(".git"), format!("gitdir: {}\n", record.display()));
    world.cwd = liar.clone();
    let repo = world.locations().repo.unwrap();
    assert_eq!((repo.root, repo.main_root), (liar.clone(), liar));
}

#[test]
fn restrictions_beat_the_administrator_where_they_may() {
    let world = SettingsFixture::new();
    world.write_user(r#"{"isolatePeerMachines":true,"useAutoModeDuringPlan":false,"crossSessionInbound":"refuse"}"#);
    world.write_project(r#"{"crossSessionInbound":"hold"}"#);
    world.write_managed(r#"{"isolatePeerMachines":false,"useAutoModeDuringPlan":true,"crossSessionInbound":"accept"}"#);
    let settings = world.trusted_settings().settings;
    assert_eq!((settings.isolate_peer_machines, settings.use_auto_mode_during_plan), (Some(true), Some(false)));
    assert_eq!(settings.cross_session_inbound, Some(gimlet_config::InboundPolicy::Hold));
}

#[test]
fn the_administrator_can_keep_others_from_allowing_but_not_from_forbidding() {
    let world = SettingsFixture::new();
    world.write_user(r#"{"permissions":{"allow":["A"],"deny":["B"]},"hooks":{"Stop":[{"hooks":[{"type":"command","command":"user"}]}]}}"#);
    world.write_managed(
        r#"{"allowManagedPermissionRulesOnly":true,"allowManagedHooksOnly":true,"permissions":{"allow":["M"]},
            "hooks":{"Stop":[{"hooks":[{"type":"command","command":"managed"}]}]}}"#,
    );
    let effective = world.trusted_settings();
    let rules: Vec<&str> = effective.rules.iter().map(|rule| rule.text.as_str()).collect();
    assert_eq!(rules, ["B", "M"]);
    let hooks: Vec<_> = effective.hooks.iter().filter_map(|hook| hook.handler.command.as_deref()).collect();
    assert_eq!(hooks, ["managed"]);
}

#[test]
fn hooks_of_the_administrator_outlive_everybody_elses_switch() {
    let world = SettingsFixture::new();
    world.write_user(r#"{"disableAllHooks":true,"hooks":{"Stop":[{"hooks":[{"type":"command","command":"user"}]}]}}"#);
    world.write_managed(r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"managed"}]}]}}"#);
    assert_eq!(world.trusted_settings().hooks.len(), 1);
    world.write_managed(
        r#"{"disableAllHooks":true,"hooks":{"Stop":[{"hooks":[{"type":"command","command":"managed"}]}]}}"#,
    );
    assert_eq!(world.trusted_settings().hooks, []);
}

#[test]
fn sources_are_named_with_commas() {
    assert_eq!("user,local".parse(), Ok(SettingSources { user: true, project: false, local: true }));
    assert_eq!("".parse(), Ok(SettingSources { user: false, project: false, local: false }));
    assert!("users".parse::<SettingSources>().is_err());
}

#[test]
fn interface_settings_of_the_state_file_are_the_weakest_and_nothing_else_of_it_counts() {
    let world = SettingsFixture::new();
    write_file_at(
        &world.home.join(".claude.json"),
        r#"{"theme":"light","verbose":true,"teammateMode":7,"diffTool":"meld","env":{"A":"1"},"permissions":{"allow":["A"]}}"#,
    );
    world.write_user(r#"{"theme":"dark"}"#);
    let state = StateSettings::read(&world.locations());
    let mut effective = world.trusted_settings();
    state.fill_unset(&mut effective.settings);
    assert_eq!((effective.settings.theme.as_deref(), effective.settings.verbose), (Some("dark"), Some(true)));
    assert_eq!((effective.settings.teammate_mode, state.diff_tool.as_deref()), (None, Some("meld")));
    assert_eq!((state.get("diffTool"), state.get("teammateMode")), (Some("meld".into()), None));
    assert_eq!((effective.rules.len(), effective.env.len()), (0, 0));
    write_file_at(&world.home.join(".claude.json"), "{\"theme\":");
    assert_eq!(StateSettings::read(&world.locations()), StateSettings::default());
}

#[test]
fn two_spellings_of_one_key_do_not_undo_everything_else() {
    let world = SettingsFixture::new();
    world.write_user(r#"{"extraKnownMarketplaces":{"a":{"source":"1"}},"sandbox":{"enabled":true}}"#);
    world.write_project(r#"{"additionalMarketplaces":{"b":{"source":"2"}}}"#);
    for effective in [world.trusted_settings(), world.untrusted_settings()] {
        assert_eq!(effective.settings.sandbox.enabled, Some(true));
        assert_eq!(effective.problems, []);
    }
    let known = world.trusted_settings().settings.extra_known_marketplaces.unwrap();
    assert_eq!(known.into_keys().collect::<Vec<String>>(), ["a", "b"]);
}

#[test]
fn a_mode_that_is_not_a_projects_to_choose_is_remarked_on_without_a_claim_about_the_session() {
    let world = SettingsFixture::new();
    world.write_user(r#"{"permissions": {"defaultMode": "acceptEdits"}}"#);
    world.write_project(r#"{"permissions": {"defaultMode": "auto"}}"#);
    let said = problem_messages(&world.load().problems, ProblemSeverity::Warning);
    assert!(said[0].ends_with("in this file it counts as default"), "{said:?}");
    // The session's own mode depends on trust.
    let mode = |effective: gimlet_config::EffectiveSettings| effective.default_mode.map(|(mode, _)| mode);
    assert_eq!(mode(world.untrusted_settings()), Some(DefaultMode::AcceptEdits));
    assert_eq!(mode(world.trusted_settings()), Some(DefaultMode::Default));
}
