use super::*;

const LOCAL: &str = ".claude/settings.local.json";

#[test]
fn a_repository_that_git_made_is_read_right() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap();
    let git = |args: &[&str]| {
        #[allow(clippy::disallowed_methods, reason = "git is the one that must be understood")]
        let status = std::process::Command::new("git").args(args).current_dir(&root).output().unwrap();
        assert!(status.status.success(), "{args:?}");
    };
    git(&["init", "-q"]);
    std::fs::create_dir(root.join(".claude")).unwrap();
    std::fs::write(root.join(LOCAL), "{}").unwrap();
    std::fs::write(root.join("other.txt"), "x").unwrap();
    let author_now = || {
        let locations = SettingsLocations::resolve(crate::LocationContext {
            home: None,
            config_dir: root.join("home"),
            config_dir_named: true,
            cwd: root.clone(),
            managed_dir: root.join("managed"),
            xdg_config_home: None,
            also_owner: None,
        });
        detect_author(&locations, &locations.local_file())
    };
    assert_eq!(author_now(), FileAuthor::Unknown, "no index yet");
    git(&["add", "other.txt"]);
    assert_eq!(author_now(), FileAuthor::Unknown, "tracked is only another file");
    git(&["add", LOCAL]);
    assert_eq!(author_now(), FileAuthor::Project, "tracked");
    git(&["update-index", "--index-version", "4"]);
    assert_eq!(author_now(), FileAuthor::Project, "tracked, in an index of version 4");
}
