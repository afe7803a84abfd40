//! Writing settings, and noticing that they were written.

use std::os::unix::fs::{PermissionsExt, symlink};

use gimlet_config::{
    JsonEdit, KeyChange, LoadedSettings, ProblemSeverity, ProjectTrust, ReloadTiming, RuleBehavior, Scope,
    SettingsWatcher, TrustInventory, changed_keys, save_setting,
};
use serde_json::json;

use crate::fixture::{SettingsFixture, problem_messages, write_file_at};

fn save_value(
    world: &SettingsFixture,
    scope: Scope,
    key: &str,
    value: serde_json::Value,
) -> Result<std::path::PathBuf, String> {
    save_setting(&world.locations(), scope, key, &JsonEdit::Set(value)).map_err(|error| error.to_string())
}

#[test]
fn a_setting_is_written_where_it_belongs_and_read_back() {
    let world = SettingsFixture::new();
    let user = save_value(&world, Scope::User, "model", json!("a")).unwrap();
    assert_eq!(user, world.home.join(".claude/settings.json"));
    assert_eq!(std::fs::read_to_string(&user).unwrap(), "{\n  \"model\": \"a\"\n}\n");
    assert_eq!(user.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    save_value(&world, Scope::Project, "env.SOME.NAME", json!("v")).unwrap();
    assert_eq!(world.trusted_settings().env[0].name, "SOME.NAME");
    save_setting(&world.locations(), Scope::Local, "permissions.allow", &JsonEdit::Append(json!("Bash(make)")))
        .unwrap();
    assert_eq!(world.trusted_settings().rules[0].text, "Bash(make)");
}

#[test]
fn the_mode_and_the_link_of_a_file_stay() {
    let world = SettingsFixture::new();
    let real = write_file_at(&world.home.join("dotfiles/settings.json"), "{}");
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::fs::create_dir(world.home.join(".claude")).unwrap();
    let link = world.home.join(".claude/settings.json");
    symlink(&real, &link).unwrap();
    save_value(&world, Scope::User, "model", json!("a")).unwrap();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert!(std::fs::read_to_string(&real).unwrap().contains("\"a\""));
    assert_eq!(real.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(real.parent().unwrap().read_dir().unwrap().count(), 1, "nothing is left behind");
}

#[test]
fn what_would_not_count_is_refused() {
    let world = SettingsFixture::new();
    for (scope, key, value, part) in [
        (Scope::User, "modle", json!("a"), "did you mean model?"),
        (Scope::User, "", json!("a"), "no setting"),
        (Scope::User, "env.", json!("a"), "no setting"),
        (Scope::User, "model", json!(3), "expected a string"),
        (Scope::User, "claudeMd", json!("x"), "only managed settings can"),
        (Scope::Project, "enableAllProjectMcpServers", json!(true), "cannot set"),
        (Scope::Project, "permissions.defaultMode", json!("bypassPermissions"), "cannot turn permission checks off"),
        (Scope::Project, "sandbox.enabled", json!(false), "stricter"),
        (Scope::Local, "env.LD_PRELOAD", json!("x"), "load code"),
        (Scope::Managed, "model", json!("a"), "cannot be written"),
        (Scope::User, "cleanupPeriodDays", json!(0), "above 0"),
    ] {
        let error = save_value(&world, scope, key, value).expect_err(key);
        assert!(error.contains(part), "{key}: {error}");
    }
    assert!(!world.home.join(".claude").exists());
    world.write_user("{\n  \"model\": \"a\",\n}");
    let error = save_value(&world, Scope::User, "model", json!("b")).unwrap_err();
    assert!(error.contains("settings.json: line 2, column 15"), "{error}");
    assert!(world.project.join(".claude").symlink_metadata().is_err());
    symlink(&world.home, world.project.join(".claude")).unwrap();
    let error = save_value(&world, Scope::Local, "model", json!("b")).unwrap_err();
    assert!(error.contains("link"), "{error}");
}

const HIDDEN: &str = "**/.claude/settings.local.json\n";

fn read_text(path: &std::path::Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[test]
fn the_local_file_is_hidden_from_git_once_by_the_private_list_of_the_repository() {
    let world = SettingsFixture::new();
    let list = write_file_at(&world.project.join(".git/info/exclude"), "# mine\n*.o");
    for value in ["a", "b"] {
        save_value(&world, Scope::Local, "model", json!(value)).unwrap();
        assert_eq!(read_text(&list), Some(format!("# mine\n*.o\n{HIDDEN}")));
        std::fs::remove_file(world.locations().local_file()).unwrap();
    }
    assert!(!world.home.join(".config").exists());
}

#[test]
fn what_the_persons_own_list_hides_already_is_added_nowhere() {
    let usual = [("", ".config/git/ignore"), ("[core]\n\texcludesFile = ~/dotfiles/ignore\n", "dotfiles/ignore")];
    for (config, list) in usual {
        let world = SettingsFixture::new();
        write_file_at(&world.home.join(".config/git/config"), "[core]\n\texcludesFile =\n");
        write_file_at(&world.home.join(".gitconfig"), config);
        write_file_at(&world.home.join(list), HIDDEN);
        save_value(&world, Scope::Local, "model", json!("a")).unwrap();
        assert_eq!(read_text(&world.home.join(list)).as_deref(), Some(HIDDEN));
        assert!(!world.project.join(".git/info/exclude").exists(), "{list}");
    }
}

#[test]
fn a_private_list_behind_a_link_is_left_alone() {
    for link in [".git/info/exclude", ".git/info", ".git"] {
        let world = SettingsFixture::new();
        let outside = write_file_at(&world.home.join("outside/info/exclude"), "# another's\n");
        write_file_at(&world.home.join("outside/HEAD"), "ref: refs/heads/main\n");
        let target = match link {
            ".git" => world.home.join("outside"),
            ".git/info" => world.home.join("outside/info"),
            _ => outside.clone(),
        };
        let link = world.project.join(link);
        if link.is_dir() {
            std::fs::remove_dir_all(&link).unwrap();
        }
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(target, &link).unwrap();
        save_value(&world, Scope::Local, "model", json!("a")).unwrap();
        assert_eq!(read_text(&outside).as_deref(), Some("# another's\n"), "{}", link.display());
    }
}

#[test]
fn whatever_list_hides_the_local_file_already_no_other_is_written() {
    for list in [".gitignore", ".claude/.gitignore", ".git/info/exclude"] {
        let world = SettingsFixture::new();
        world.write_file(list, "settings.local.json\n");
        save_value(&world, Scope::Local, "model", json!("a")).unwrap();
        assert_eq!(read_text(&world.project.join(list)).as_deref(), Some("settings.local.json\n"));
        assert!(!world.home.join(".config").exists(), "{list}");
    }
    let world = SettingsFixture::without_repository();
    save_value(&world, Scope::Local, "model", json!("a")).unwrap();
    assert!(!world.home.join(".config").exists(), "without a repository there is nothing to hide it from");
}

#[test]
fn writers_side_by_side_lose_nothing() {
    let world = SettingsFixture::new();
    world.write_user("{}");
    let threads: Vec<_> = (0..8)
        .map(|at| {
            let locations = world.locations();
            std::thread::spawn(move || {
                for n in 0..10 {
                    let rule = json!(format!("Bash(t{at} {n})"));
                    save_setting(&locations, Scope::User, "permissions.allow", &JsonEdit::Append(rule)).unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(world.trusted_settings().rules.len(), 80);
}

#[test]
fn changes_are_noticed_and_sorted_by_when_they_take_effect() {
    let world = SettingsFixture::new();
    let user = world.write_user(r#"{"model":"a","theme":"dark"}"#);
    let before = world.trusted_settings();
    let mut watch = SettingsWatcher::new(&world.locations());
    assert_eq!(watch.take_changed_files(), Vec::<std::path::PathBuf>::new());
    world.write_user(r#"{"model":"b","theme":"dark","permissions":{"deny":["Read"]},"unheardOf":1}"#);
    let drop_in = write_file_at(&world.managed.join("managed-settings.d/a.json"), r#"{"verbose":true}"#);
    assert_eq!(watch.take_changed_files(), [user, drop_in.clone()]);
    assert_eq!(watch.take_changed_files(), Vec::<std::path::PathBuf>::new());
    let changes: Vec<KeyChange> = changed_keys(&before, &world.trusted_settings());
    let changes: Vec<_> = changes.iter().map(|change| (change.key.as_str(), change.reload)).collect();
    // Keys that do nothing change nothing.
    assert_eq!(changes, [("model", ReloadTiming::Start), ("permissions.deny", ReloadTiming::Live)]);
    std::fs::remove_file(&drop_in).unwrap();
    assert_eq!(watch.take_changed_files(), [drop_in]);
}

#[test]
fn a_file_that_breaks_while_gimlet_runs_goes_on_forbidding() {
    let world = SettingsFixture::new();
    world.write_user(r#"{"permissions":{"deny":["Read(a)"]}}"#);
    world.write_local(r#"{"theme":"fi"}"#);
    let loaded = world.load();
    world.write_user(r#"{"permissions":{"deny":["#);
    let now = loaded.reload(&world.options);
    assert!(now.problems[0].message.contains("still holds"), "{:?}", now.problems);
    let effective = now.effective_settings(&TrustInventory::collect(&now), &ProjectTrust::none());
    assert_eq!((effective.rules.len(), effective.settings.theme.as_deref()), (1, Some("fi")));
    std::fs::remove_file(world.home.join(".claude/settings.json")).unwrap();
    let gone = now.reload(&world.options);
    assert_eq!(
        gone.effective_settings(&TrustInventory::collect(&gone), &ProjectTrust::none()).rules,
        [],
        "taken away on purpose"
    );
}

#[test]
fn a_bad_value_that_comes_while_gimlet_runs_takes_nothing_away() {
    let good = r#"{"permissions":{"deny":["Read(a)"]},"sandbox":{"enabled":true}}"#;
    for bad in [
        r#"{"permissions":{"deny":["Read(a)"]},"sandbox":{"enabled":true},"cleanupPeriodDays":0}"#,
        r#"{"permissions":{"deny":"Read(a)"},"sandbox":{"enabled":true}}"#,
        r#"{"permissions":{"deny":["Read(a)"]},"sandbox":{"enabled":"yes"}}"#,
    ] {
        let world = SettingsFixture::new();
        world.write_user(good);
        let loaded = world.load();
        world.write_user(bad);
        let now = loaded.reload(&world.options);
        let effective = now.effective_settings(&TrustInventory::collect(&now), &ProjectTrust::none());
        assert_eq!((effective.rules.len(), effective.settings.sandbox.enabled), (1, Some(true)), "{bad}");
        assert!(now.problems.iter().any(|problem| problem.message.contains("still holds")), "{:?}", now.problems);
        // The same again, and the person's next word counts.
        let again = now.reload(&world.options);
        let effective = again.effective_settings(&TrustInventory::collect(&again), &ProjectTrust::none());
        assert_eq!((effective.rules.len(), effective.settings.sandbox.enabled), (1, Some(true)), "{bad}, again");
        world.write_user("{}");
        let changed = again.reload(&world.options);
        assert_eq!(
            changed.effective_settings(&TrustInventory::collect(&changed), &ProjectTrust::none()).rules,
            [],
            "{bad}"
        );
    }
}

#[test]
fn a_rule_that_forbids_and_becomes_malformed_while_gimlet_runs_is_not_lost() {
    fn objection(_: RuleBehavior, rule: &str) -> Option<String> {
        (rule.contains('(') && !rule.ends_with(')')).then(|| format!("{rule} is not closed"))
    }
    for list in ["deny", "ask"] {
        let mut world = SettingsFixture::new();
        world.options.rule_objection = Some(objection);
        let with = |rules: &str| format!("{{\"permissions\":{{\n\"{list}\":[{rules}],\"allow\":[\"A(\"]}}}}");
        let rules = |loaded: &LoadedSettings| -> Vec<String> {
            let effective = loaded.effective_settings(&TrustInventory::collect(loaded), &ProjectTrust::none());
            let forbids = effective.rules.into_iter().filter(|rule| rule.behavior != RuleBehavior::Allow);
            forbids.map(|rule| rule.text).collect()
        };
        // What is malformed from the start is said by whoever reads rules, and holds nothing up.
        let file = world.write_user(with("\"Bash(old\",\"Bash(id)\""));
        let loaded = world.load();
        world.write_user(with("\"Bash(old\",\"Bash(id\""));
        let now = loaded.reload(&world.options);
        assert_eq!(rules(&now), ["Bash(old", "Bash(id)"], "{list}");
        let said = problem_messages(&now.problems, ProblemSeverity::Error);
        assert_eq!(said.len(), 1, "{said:?}");
        let place = format!("{}:2:", file.display());
        assert!(
            said[0].starts_with(&place) && said[0].contains(&format!(": permissions.{list}: Bash(id is not closed")),
            "{said:?}"
        );
        assert!(said[0].ends_with("what it said before still holds"), "{said:?}");
        // Some other file changes meanwhile, then this one is mended.
        let again = now.reload(&world.options);
        assert_eq!(rules(&again), ["Bash(old", "Bash(id)"], "{list}");
        world.write_user(with("\"Bash(old\",\"Bash(id -u)\""));
        let mended = again.reload(&world.options);
        assert_eq!(rules(&mended), ["Bash(old", "Bash(id -u)"], "{list}");
        assert!(mended.problems.is_empty(), "{:?}", mended.problems);
    }
}
