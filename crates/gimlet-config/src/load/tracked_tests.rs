use super::*;

/// Builds an index as git writes it: version, paths, and a split marker.
fn build_index(version: u32, paths: &[&str], id_len: usize, extension: Option<&[u8; 4]>) -> Vec<u8> {
    let mut bytes = b"DIRC".to_vec();
    bytes.extend(version.to_be_bytes());
    bytes.extend(u32::try_from(paths.len()).unwrap().to_be_bytes());
    let mut before = "";
    for path in paths {
        let start = bytes.len();
        bytes.extend([7; 40]);
        bytes.extend(vec![9; id_len]);
        bytes.extend(u16::try_from(path.len()).unwrap().to_be_bytes());
        if version == 4 {
            let shared = before.bytes().zip(path.bytes()).take_while(|(a, b)| a == b).count();
            bytes.push(u8::try_from(before.len() - shared).unwrap());
            bytes.extend(&path.as_bytes()[shared..]);
            bytes.push(0);
        } else {
            bytes.extend(path.as_bytes());
            let length = bytes.len() - start;
            bytes.extend(vec![0; 8 - length % 8]);
        }
        before = path;
    }
    if let Some(name) = extension {
        bytes.extend(name);
        bytes.extend(4_u32.to_be_bytes());
        bytes.extend(b"link");
    }
    bytes.extend(vec![1; id_len]);
    bytes
}

const LOCAL: &str = ".claude/settings.local.json";

#[test]
fn an_index_of_every_version_says_what_it_tracks() {
    for version in [2, 3, 4] {
        for id_len in [20, 32] {
            let with = build_index(version, &[".claude/settings.json", LOCAL, "a", "src/main.rs"], id_len, None);
            let without = build_index(version, &[".claude/settings.json", "a", "src/main.rs"], id_len, Some(b"TREE"));
            assert_eq!(is_tracked(&with, LOCAL.as_bytes()), Some(true), "version {version}, {id_len} bytes");
            assert_eq!(is_tracked(&without, LOCAL.as_bytes()), Some(false), "version {version}, {id_len} bytes");
        }
    }
}

#[test]
fn an_index_that_is_not_understood_proves_nothing() {
    let whole = build_index(2, &["a", "b"], 20, Some(b"TREE"));
    assert_eq!(is_tracked(b"", LOCAL.as_bytes()), None);
    assert_eq!(is_tracked(b"DIRC", LOCAL.as_bytes()), None);
    assert_eq!(is_tracked(&build_index(5, &["a"], 20, None), LOCAL.as_bytes()), None);
    assert_eq!(is_tracked(&build_index(2, &["a"], 20, Some(b"link")), LOCAL.as_bytes()), None);
    for cut in 0..whole.len() - 20 {
        let understood = is_tracked(&whole[..cut], LOCAL.as_bytes());
        assert_ne!(understood, Some(true), "cut at {cut}");
    }
}

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
