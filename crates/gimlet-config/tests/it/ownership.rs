//! A config home that others could have written.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use gimlet_config::{TrustInventory, TrustStore};

use crate::fixture::SettingsFixture;

#[test]
fn settings_that_others_could_have_written_only_forbid_and_their_trust_does_not_count() {
    let mode = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    let world = SettingsFixture::new();
    let file = world.write_user(
        r#"{"permissions": {"allow": ["Bash(touch *)"], "deny": ["Bash(rm *)"]}, "apiKeyHelper": "echo key",
            "env": {"A": "1"}, "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}}"#,
    );
    world.write_project(r#"{"permissions": {"allow": ["Bash(make)"]}}"#);
    let store = || TrustStore::new(&world.locations());
    let items = TrustInventory::collect(&world.load()).items;
    store().accept_folder(&items).1.unwrap();
    assert!(store().load_trust().has_accepted_folder());
    let folder = world.home.join(".claude");
    for (folder_mode, file_mode) in [(0o777, 0o600), (0o700, 0o666), (0o777, 0o666)] {
        mode(&folder, folder_mode);
        mode(&file, file_mode);
        let loaded = world.load();
        let effective = world.untrusted_settings();
        let rules: Vec<&str> = effective.rules.iter().map(|rule| rule.text.as_str()).collect();
        assert_eq!(rules, ["Bash(rm *)"]);
        assert_eq!(effective.settings.api_key_helper, None);
        assert!(effective.env.is_empty() && effective.hooks.is_empty());
        let errors: Vec<String> = loaded.errors().map(ToString::to_string).collect();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains("chmod go-w '") && errors[0].contains("only what they forbid"), "{errors:?}");
        let open_folder = folder_mode == 0o777;
        // What other programs recorded in the home directory is left.
        assert_eq!(
            store().load_trust().is_accepted_elsewhere_only(),
            open_folder,
            "a record in an open folder could be anybody's"
        );
        assert_eq!(store().accept_folder(&items).1.is_err(), open_folder);
    }
    mode(&folder, 0o755);
    mode(&file, 0o644);
    assert_eq!(world.untrusted_settings().settings.api_key_helper.as_deref(), Some("echo key"));
    assert_eq!(world.load().errors().count(), 0);
    assert!(!store().load_trust().is_accepted_elsewhere_only());
    mode(&folder, 0o777);
    std::fs::remove_file(&file).unwrap();
    let loaded = world.load();
    assert!(loaded.errors().any(|problem| problem.file == folder), "said without a file too");
}

#[test]
fn managed_settings_that_others_could_have_written_only_forbid() {
    let world = SettingsFixture::new();
    let text = r#"{"permissions": {"allow": ["Bash(touch *)"], "deny": ["Bash(rm *)"]}, "env": {"A": "1"},
        "availableModels": ["sonnet"], "policyHelper": {"path": "/usr/bin/true"}}"#;
    let file = world.write_managed(text);
    assert!(world.load().policy_helper().is_some());
    std::fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
    let loaded = world.load();
    assert!(loaded.policy_helper().is_none(), "a program that anybody could have named is not run");
    let errors: Vec<String> = loaded.errors().map(ToString::to_string).collect();
    assert!(errors.len() == 1 && errors[0].contains("of these managed settings only what they forbid"), "{errors:?}");
    let effective = world.untrusted_settings();
    let rules: Vec<&str> = effective.rules.iter().map(|rule| rule.text.as_str()).collect();
    assert_eq!(rules, ["Bash(rm *)"]);
    assert!(effective.env.is_empty());
    assert_eq!(effective.settings.available_models.as_deref(), Some(&["sonnet".to_owned()][..]), "a limit stays");
}

#[test]
fn what_lies_in_a_home_directory_that_everybody_may_write_is_not_believed() {
    let world = SettingsFixture::new();
    world.write_user(r#"{"permissions": {"allow": ["Bash(touch *)"]}}"#);
    let key = world.project.to_str().unwrap();
    let state = world.home.join(".claude.json");
    std::fs::write(&state, format!(r#"{{"projects": {{"{key}": {{"hasTrustDialogAccepted": true}}}}}}"#)).unwrap();
    assert!(TrustStore::new(&world.locations()).load_trust().is_accepted_elsewhere_only());
    std::fs::set_permissions(&world.home, Permissions::from_mode(0o777)).unwrap();
    assert!(!TrustStore::new(&world.locations()).load_trust().has_accepted_folder());
    assert_eq!(world.untrusted_settings().rules.len(), 0);
    let said = gimlet_config::check_and_back_up_state_file(&world.locations()).unwrap().to_string();
    assert!(said.contains(&format!("chmod go-w '{}'", world.home.display())), "{said}");
    // Not even a broken one is copied while it could be anybody's.
    std::fs::write(&state, "{broken").unwrap();
    assert!(gimlet_config::check_and_back_up_state_file(&world.locations()).is_some());
    assert!(!world.home.join(".claude/backups").exists());
    std::fs::set_permissions(&world.home, Permissions::from_mode(0o755)).unwrap();
    let said = gimlet_config::check_and_back_up_state_file(&world.locations()).unwrap().to_string();
    assert!(said.contains("a copy is in"), "{said}");
}
