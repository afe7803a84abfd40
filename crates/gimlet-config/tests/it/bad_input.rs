//! Files that are broken in every way somebody has thought of: gimlet says so with line and reason, and goes on.

use std::os::unix::fs::{PermissionsExt, symlink};

use gimlet_config::{ProblemSeverity, RuleBehavior};

use crate::fixture::{SettingsFixture, problem_messages, write_file_at};

fn error_messages(world: &SettingsFixture) -> Vec<String> {
    problem_messages(&world.load().problems, ProblemSeverity::Error)
}

#[test]
fn bad_json_is_told_with_its_line_and_the_other_files_count() {
    for (text, place, why) in [
        ("{\n  \"model\": \"x\",\n}", ":2:15: ", "nothing after it"),
        ("{\n  // why not\n}", ":2:3: ", "comments"),
        ("{\n  \"model\": \"x\"\n", ":3:1: ", "unexpected end of file"),
        ("", ":1:1: ", "unexpected end of file"),
        ("\0\0\0", ":1:1: ", "a value"),
        ("[]", ":1:1: ", "object in braces"),
        ("null", ":1:1: ", "object in braces"),
    ] {
        let world = SettingsFixture::new();
        let file = world.write_user(text);
        world.write_local(r#"{"language":"fi"}"#);
        let errors = error_messages(&world);
        assert_eq!(errors.len(), 1, "{text:?}: {errors:?}");
        assert!(errors[0].starts_with(&format!("{}{place}", file.display())), "{text:?}: {errors:?}");
        assert!(errors[0].contains(why), "{text:?}: {errors:?}");
        let settings = world.trusted_settings().settings;
        assert_eq!((settings.model, settings.language.as_deref()), (None, Some("fi")));
    }
}

#[test]
fn what_is_wrong_with_variables_is_said_without_their_values() {
    for env in [r#""secret""#, r#"{"A":["secret"]}"#, r#"{"A":123456}"#] {
        let world = SettingsFixture::new();
        world.write_user(format!(r#"{{"env":{env}}}"#));
        let errors = error_messages(&world);
        assert_eq!(errors.len(), 1, "{env}: {errors:?}");
        assert!(errors[0].contains("; the file is ignored"), "{env}: {errors:?}");
    }
}

#[test]
fn a_value_of_the_wrong_type_rejects_its_file_but_not_what_it_forbids() {
    for (text, place, why) in [
        (
            r#"{"model":3,"permissions":{"deny":["D"],"ask":["A"],"allow":["Y"]}}"#,
            ":1:10: model",
            "expected a string, got 3",
        ),
        (
            r#"{"verbose":"yes","permissions":{"deny":["D"],"ask":["A"],"allow":["Y"]}}"#,
            ":1:12: verbose",
            "true or false",
        ),
        (
            r#"{"permissions":{"deny":["D"],"ask":["A"],"allow":["Y"],"defaultMode":"fast"}}"#,
            "defaultMode",
            "none of default, ",
        ),
        (r#"{"env":{"A":1},"permissions":{"deny":["D"],"ask":["A"],"allow":["Y"]}}"#, "env.A", "a string"),
        (
            r#"{"cleanupPeriodDays":0,"permissions":{"deny":["D"],"ask":["A"],"allow":["Y"]}}"#,
            "cleanupPeriodDays",
            "above 0",
        ),
        (
            r#"{"read":{"default_lines":0},"permissions":{"deny":["D"],"ask":["A"],"allow":["Y"]}}"#,
            ":1:26: read.default_lines",
            "above 0",
        ),
        (
            r#"{"edit":{"require_read":"sometimes"},"permissions":{"deny":["D"],"ask":["A"],"allow":["Y"]}}"#,
            ":1:25: edit.require_read",
            "none of always, model",
        ),
        (
            r#"{"autoCompactWindow":5,"permissions":{"deny":["D"],"ask":["A"],"allow":["Y"]}}"#,
            "autoCompactWindow",
            "100000",
        ),
        (
            r#"{"skillListingBudgetFraction":2,"permissions":{"deny":["D"],"ask":["A"],"allow":["Y"]}}"#,
            "Fraction",
            "up to 1",
        ),
        (
            r#"{"hooks":{"Stop":[{"matcher":["a"],"hooks":[]}]},"permissions":{"deny":["D"],"ask":["A"],"allow":["Y"]}}"#,
            "matcher",
            "a string",
        ),
        (r#"{"fastMode":"x","permissions":{"deny":["D"],"ask":["A"],"allow":["Y"]}}"#, "fastMode", "true or false"),
    ] {
        let world = SettingsFixture::new();
        world.write_user(text);
        let errors = error_messages(&world);
        assert_eq!(errors.len(), 1, "{text}: {errors:?}");
        assert!(errors[0].contains(place) && errors[0].contains(why), "{text}: {errors:?}");
        let rules: Vec<_> = world.trusted_settings().rules.into_iter().map(|rule| (rule.behavior, rule.text)).collect();
        assert_eq!(rules, [(RuleBehavior::Deny, "D".into()), (RuleBehavior::Ask, "A".into())], "{text}");
    }
}

#[test]
fn of_a_rejected_file_everything_that_is_strict_holds_and_nothing_that_is_not() {
    let world = SettingsFixture::new();
    world.write_user(
        r#"{"cleanupPeriodDays":0,"model":"x","env":{"A":"b"},"skipDangerousModePermissionPrompt":true,
            "permissions":{"disableBypassPermissionsMode":"disable","disableAutoMode":"disable","defaultMode":"plan",
                "allow":["Y"],"additionalDirectories":["/"]},
            "autoMode":{"hard_deny":["x"],"allow":["y"]},
            "sandbox":{"enabled":true,"autoAllowBashIfSandboxed":true,"allowUnsandboxedCommands":false,
                "excludedCommands":["git"],"filesystem":{"denyRead":["/a"],"allowWrite":["/b"]},
                "network":{"deniedDomains":["c"],"allowedDomains":["d"]},
                "credentials":{"files":[{"path":"/e","mode":"deny"},{"path":"/f","mode":"mask"}]}}}"#,
    );
    assert_eq!(error_messages(&world).len(), 1, "{:?}", error_messages(&world));
    assert!(error_messages(&world)[0].contains("except its restrictions"), "{:?}", error_messages(&world));
    let held = world.trusted_settings().merged.to_value();
    assert_eq!(
        held,
        serde_json::json!({
            "permissions": {"disableBypassPermissionsMode": "disable", "disableAutoMode": "disable", "defaultMode": "plan"},
            "autoMode": {"hard_deny": ["x"]},
            "sandbox": {"enabled": true, "allowUnsandboxedCommands": false, "filesystem": {"denyRead": ["/a"]},
                "network": {"deniedDomains": ["c"]}, "credentials": {"files": [{"path": "/e", "mode": "deny"}]}},
        })
    );
    // Strict values that cannot be read themselves are missed aloud, and cost no other.
    world.write_user(r#"{"model":3,"permissions":{"deny":{"D":1},"defaultMode":"acceptEdits"},"sandbox":{"enabled":true,"filesystem":{"denyRead":7}}}"#);
    assert_eq!(error_messages(&world).len(), 3, "{:?}", error_messages(&world));
    assert_eq!(world.trusted_settings().merged.keys(), ["sandbox.enabled"]);
}

#[test]
fn single_bad_entries_are_skipped_alone() {
    let world = SettingsFixture::new();
    world.write_user(
        r#"{"language":"de","permissions":{"allow":[1,"A",""]},
            "hooks":{"PreToolUsed":[],"PreModelSwitch":[],"PostModelSwitch":[],"Stop":[{"hooks":[{"type":"shell"},{"type":"command"},{"type":"command","command":"ok"}]}]}}"#,
    );
    assert_eq!(error_messages(&world), Vec::<String>::new());
    assert_eq!(problem_messages(&world.load().problems, ProblemSeverity::Warning).len(), 5);
    let effective = world.trusted_settings();
    assert_eq!(effective.settings.language.as_deref(), Some("de"));
    assert_eq!((effective.rules.len(), effective.hooks.len()), (1, 1));
    world.write_user(r#"{"permissions":{"deny":[["x"],"D"]}}"#);
    assert_eq!(error_messages(&world).len(), 1, "a rule that was to forbid is never lost in silence");
    assert_eq!(world.trusted_settings().rules.len(), 1);
}

#[test]
fn managed_settings_hold_as_far_as_they_can_be_read() {
    let world = SettingsFixture::new();
    world.write_managed(
        r#"{"model":3,"language":"en","allowedMcpServers":"all","availableModels":7,"allowManagedHooksOnly":"yes",
            "permissions":{"deny":["D"],"defaultMode":"quick"},"env":{"A":1,"B":"2"},
            "deniedMcpServers":[3,{"serverName":"x"}],
            "sandbox":{"credentials":{"files":[{"path":"/a","mode":"hide"},{"mode":"deny","path":3},{"path":"/b"}]}}}"#,
    );
    let effective = world.trusted_settings();
    let settings = &effective.settings;
    assert_eq!((settings.model.as_deref(), settings.language.as_deref()), (None, Some("en")));
    assert_eq!(settings.allowed_mcp_servers.as_deref(), Some(&[][..]));
    assert_eq!(settings.available_models.as_deref(), Some(&[][..]));
    assert_eq!(settings.allow_managed_hooks_only, Some(true));
    assert_eq!(settings.denied_mcp_servers.as_ref().map(Vec::len), Some(1));
    assert_eq!(effective.merged.get("permissions"), Some(serde_json::json!({"deny": ["D"]})));
    assert_eq!(effective.merged.get("env"), Some(serde_json::json!({"B": "2"})));
    let hidden = effective.merged.get("sandbox.credentials.files").unwrap().to_string();
    assert_eq!(hidden, r#"[{"path":"/a","mode":"deny"},{"path":"/b","mode":"deny"}]"#);
    assert_eq!(error_messages(&world).len(), 10, "{:#?}", error_messages(&world));
}

#[test]
fn what_is_no_readable_file_is_told_and_passed_over() {
    let world = SettingsFixture::new();
    let file = world.home.join(".claude/settings.json");
    std::fs::create_dir_all(&file).unwrap();
    assert!(error_messages(&world)[0].contains("a folder"), "{:?}", error_messages(&world));

    std::fs::remove_dir(&file).unwrap();
    symlink(&file, &file).unwrap();
    assert_eq!(error_messages(&world).len(), 1, "a link to itself");

    std::fs::remove_file(&file).unwrap();
    let pipe = world.project.join(".claude/settings.json");
    std::fs::create_dir_all(pipe.parent().unwrap()).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(error_messages(&world)[0].contains("a pipe, a socket or a device"), "{:?}", error_messages(&world));
}

#[test]
fn a_file_that_may_not_be_read_is_an_error() {
    let world = SettingsFixture::new();
    let file = world.write_user("{}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).unwrap();
    // Whoever is above permissions can read it after all.
    if std::fs::read(&file).is_err() {
        assert!(error_messages(&world)[0].contains("cannot be read"), "{:?}", error_messages(&world));
    } else {
        assert_eq!(error_messages(&world), Vec::<String>::new());
    }
}

#[test]
fn size_depth_and_odd_bytes_are_bounded() {
    let world = SettingsFixture::new();
    let file = world.write_user("");
    std::fs::File::options().write(true).open(&file).unwrap().set_len(100 * 1024 * 1024).unwrap();
    assert!(error_messages(&world)[0].contains("larger than"), "{:?}", error_messages(&world));
    world.write_user("[".repeat(1_000_000));
    assert!(error_messages(&world)[0].contains("128 deep"), "{:?}", error_messages(&world));
    world.write_user(b"{\n\"model\": \"\xff\xfe\"}");
    assert!(error_messages(&world)[0].contains(":2:11: this byte is not UTF-8"), "{:?}", error_messages(&world));
    world.write_user(r#"{"model":"\ud800","model":"b"}"#);
    assert_eq!(error_messages(&world), Vec::<String>::new());
    assert_eq!(problem_messages(&world.load().problems, ProblemSeverity::Warning).len(), 2);
    assert_eq!(world.trusted_settings().settings.model.as_deref(), Some("b"));
}

#[test]
fn a_project_file_that_leads_elsewhere_is_not_read() {
    let world = SettingsFixture::new();
    let secret = write_file_at(&world.home.join("secret.json"), r#"{"language":"xx"}"#);
    std::fs::create_dir(world.project.join(".claude")).unwrap();
    symlink(&secret, world.project.join(".claude/settings.json")).unwrap();
    assert!(error_messages(&world)[0].contains("leads out of the folder"), "{:?}", error_messages(&world));
    assert_eq!(world.trusted_settings().settings.language, None);
}

#[test]
fn the_settings_flag_is_text_or_a_file_and_says_when_it_is_neither() {
    let mut world = SettingsFixture::new();
    world.write_file("extra.json", r#"{"language":"sv"}"#);
    world.options.settings_flag = Some("extra.json".into());
    assert_eq!(world.trusted_settings().settings.language.as_deref(), Some("sv"));
    world.options.settings_flag = Some("missing.json".into());
    assert!(error_messages(&world)[0].contains("does not exist"), "{:?}", error_messages(&world));
    world.options.settings_flag = Some("{\"language\":}".into());
    assert!(error_messages(&world)[0].starts_with("--settings:1:13: "), "{:?}", error_messages(&world));
    world.options.settings_flag = Some(r#"{"claudeMd":"x","autoConnectIde":true}"#.into());
    assert_eq!(world.trusted_settings().merged.get("claudeMd"), None, "what only the administrator may say");
}

#[test]
fn unknown_keys_are_kept_and_named() {
    let world = SettingsFixture::new();
    world.write_user(r#"{"$schema":"x","modle":"a","future":{"x":1},"mcpServers":{},"permissions":{"alow":[]}}"#);
    let infos = problem_messages(&world.load().problems, ProblemSeverity::Info);
    assert_eq!(infos.len(), 4, "{infos:?}");
    assert!(infos[0].contains("did you mean model?"), "{infos:?}");
    assert!(infos[3].contains("did you mean permissions.allow?"), "{infos:?}");
    assert_eq!(world.trusted_settings().merged.get("future.x"), Some(serde_json::json!(1)));
}

/// A file with something of everything.
const FULL: &str = r#"{"permissions":{"deny":["Read(a)"],"allow":["B"]},"env":{"A":"\u00e9"},"model":"x","hooks":{"Stop":[{"matcher":"a",
    "hooks":[{"type":"command","command":"c","timeout":1.5}]}]},"sandbox":{"enabled":true,"network":{"httpProxyPort":1}}}"#;

#[test]
fn a_file_cut_anywhere_is_read_whole_or_told_of() {
    let world = SettingsFixture::new();
    for cut in 0..FULL.len() {
        world.write_user(&FULL.as_bytes()[..cut]);
        world.write_managed(&FULL.as_bytes()[..cut]);
        assert_eq!(error_messages(&world).len(), 2, "cut at {cut}");
    }
    world.write_user(FULL);
    world.write_managed(FULL);
    assert_eq!(error_messages(&world), Vec::<String>::new());
}

proptest::proptest! {
    #[test]
    fn no_bytes_take_it_down_and_what_forbids_is_there_or_missed(at in 0..FULL.len(), byte: u8) {
        let world = SettingsFixture::new();
        let mut bytes = FULL.as_bytes().to_vec();
        bytes[at] = byte;
        world.write_user(&bytes);
        world.write_project(&bytes);
        let loaded = world.load();
        let denied = world.untrusted_settings().rules.iter().filter(|rule| rule.behavior == RuleBehavior::Deny).count();
        // A changed byte may rename a key; then the file is odd, and said to be.
        proptest::prop_assert!(denied == 2 || !loaded.problems.is_empty());
    }
}

#[test]
fn a_link_that_leads_nowhere_is_missed_rather_than_passed_over() {
    let world = SettingsFixture::new();
    let file = world.write_user("{}");
    std::fs::remove_file(&file).unwrap();
    symlink("nowhere", &file).unwrap();
    assert!(error_messages(&world)[0].contains("it is a link that leads nowhere"), "{:?}", error_messages(&world));
}

#[test]
fn everything_that_does_not_fit_is_named_at_once() {
    let world = SettingsFixture::new();
    world.write_user("{\"model\": 7,\n\"permissions\": {\"defaultMode\": \"yolo\"},\n\"cleanupPeriodDays\": 0}");
    let said = error_messages(&world);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("also wrong: permissions.defaultMode (line 2), cleanupPeriodDays (line 3);"), "{said:?}");
    let many: Vec<String> = ["model", "agent", "language", "theme", "outputStyle", "apiKeyHelper", "editorMode"]
        .iter()
        .map(|key| format!("\"{key}\": 7"))
        .collect();
    world.write_user(format!("{{{}}}", many.join(",")));
    assert!(error_messages(&world)[0].contains(" and more; the file is ignored"), "{:?}", error_messages(&world));
}

#[test]
fn one_text_where_a_list_forbids_is_its_only_entry_and_is_named() {
    let world = SettingsFixture::new();
    world.write_user(
        r#"{"model":"x","permissions":{"deny":"Read(.env)","ask":"Bash"},"sandbox":{"filesystem":{"denyRead":"/a"}}}"#,
    );
    assert_eq!(error_messages(&world).len(), 3, "{:?}", error_messages(&world));
    assert!(
        error_messages(&world).iter().all(|error| error.contains("its only entry")),
        "{:?}",
        error_messages(&world)
    );
    assert_eq!(
        world.trusted_settings().merged.to_value(),
        serde_json::json!({"model": "x", "permissions": {"deny": ["Read(.env)"], "ask": ["Bash"]},
            "sandbox": {"filesystem": {"denyRead": ["/a"]}}})
    );
    // A text does not open anything.
    world.write_user(r#"{"permissions":{"allow":"Bash"}}"#);
    assert!(world.trusted_settings().merged.keys().is_empty());
}

#[test]
fn a_sandbox_that_is_not_switched_off_in_so_many_words_is_on() {
    let world = SettingsFixture::new();
    for text in [
        r#"{"sandbox":{"enabled":"true"}}"#,
        r#"{"sandbox":{"enabled":1}}"#,
        r#"{"sandbox":"on"}"#,
        r#"{"sandbox":{"enabled":true},"sandbox":{"network":{}}}"#,
        r#"{"sandbox":{"enabled":true,"enabled":false}}"#,
        r#"[{"sandbox":{"enabled":true}}]"#,
    ] {
        world.write_user(text);
        assert_eq!(world.trusted_settings().settings.sandbox.enabled, Some(true), "{text}");
        world.write_managed(text);
        assert_eq!(world.trusted_settings().settings.sandbox.enabled, Some(true), "managed: {text}");
        std::fs::remove_file(world.locations().managed_file()).unwrap();
    }
    for text in [r#"{"sandbox":{"enabled":false}}"#, r#"{"sandbox":{"enabled":null}}"#, r#"{"sandbox":false}"#] {
        world.write_user(text);
        assert_ne!(world.trusted_settings().settings.sandbox.enabled, Some(true), "{text}");
    }
}

#[test]
fn what_a_broken_file_closes_stays_closed_and_that_it_is_broken_is_known() {
    let world = SettingsFixture::new();
    let closing = r#"{"sandbox":{"enabled":true,"filesystem":{"denyRead":["/a"]},"network":{"deniedDomains":["b"]}}"#;
    for (text, damaged) in
        [(closing.to_owned(), true), (format!("[{closing}}}]"), true), (format!("{closing}}}"), false)]
    {
        world.write_user(&text);
        let sandbox = world.trusted_settings().settings.sandbox;
        assert_eq!(sandbox.filesystem.deny_read.as_deref(), Some(&["/a".to_owned()][..]), "{text}");
        assert_eq!(sandbox.network.denied_domains.as_deref(), Some(&["b".to_owned()][..]), "{text}");
        assert_eq!(world.load().has_damaged_file(), damaged, "{text}");
    }
    world.write_user(r#"{"sandbox":["/a"]}"#);
    assert!(world.load().has_damaged_file());
    world.write_user(format!("{closing}}}"));
    // One that breaks later goes on saying what it said, and one that never could be read is known.
    let good = world.load();
    let file = world.write_user("{");
    assert!(!good.reload(&world.options).has_damaged_file());
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    assert!(good.reload(&world.options).unreadable_files.is_empty() && world.load().has_damaged_file());
    assert_eq!(world.load().unreadable_files, [file]);
}
