//! A config home that others could have written.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use gimlet_config::{Inventory, TrustStore};

use crate::world::World;

#[test]
fn settings_that_others_could_have_written_only_forbid_and_their_trust_does_not_count() {
    let mode = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    let world = World::new();
    let file = world.user(
        r#"{"permissions": {"allow": ["Bash(touch *)"], "deny": ["Bash(rm *)"]}, "apiKeyHelper": "echo key",
            "env": {"A": "1"}, "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}}"#,
    );
    world.project(r#"{"permissions": {"allow": ["Bash(make)"]}}"#);
    let store = || TrustStore::new(&world.locations());
    let items = Inventory::collect(&world.load()).items;
    store().accept(&items).1.unwrap();
    assert!(store().trust().is_known());
    let folder = world.home.join(".claude");
    for (folder_mode, file_mode) in [(0o777, 0o600), (0o700, 0o666), (0o777, 0o666)] {
        mode(&folder, folder_mode);
        mode(&file, file_mode);
        let loaded = world.load();
        let effective = world.untrusted();
        let rules: Vec<&str> = effective.rules.iter().map(|rule| rule.text.as_str()).collect();
        assert_eq!(rules, ["Bash(rm *)"]);
        assert_eq!(effective.settings.api_key_helper, None);
        assert!(effective.env.is_empty() && effective.hooks.is_empty());
        let errors: Vec<String> = loaded.errors().map(ToString::to_string).collect();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains("chmod go-w '") && errors[0].contains("only what they forbid"), "{errors:?}");
        let open_folder = folder_mode == 0o777;
        // What other programs recorded in the home directory is left.
        assert_eq!(store().trust().is_by_others(), open_folder, "a record in an open folder could be anybody's");
        assert_eq!(store().accept(&items).1.is_err(), open_folder);
    }
    mode(&folder, 0o755);
    mode(&file, 0o644);
    assert_eq!(world.untrusted().settings.api_key_helper.as_deref(), Some("echo key"));
    assert_eq!(world.load().errors().count(), 0);
    assert!(!store().trust().is_by_others());
    mode(&folder, 0o777);
    std::fs::remove_file(&file).unwrap();
    let loaded = world.load();
    assert!(loaded.errors().any(|problem| problem.file == folder), "said without a file too");
}
