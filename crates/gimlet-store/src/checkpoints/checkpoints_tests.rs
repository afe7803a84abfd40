use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

struct CheckpointFixture {
    dir: tempfile::TempDir,
    id: SessionId,
}

impl CheckpointFixture {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), id: SessionId::new("123e4567-e89b-42d3-a456-426614174000") }
    }

    fn open(&self) -> SessionCheckpoints {
        SessionCheckpoints::open(&StoreLocations::new(self.dir.path()), &self.id)
    }

    fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }
}

fn entry_id(text: &str) -> EntryId {
    EntryId::new(text)
}

fn prior_file(text: &str) -> PriorContent<'_> {
    PriorContent::File { bytes: text.as_bytes(), mode: 0o640 }
}

/// Returns each file's content at a prompt, as text.
fn texts_at(checkpoints: &SessionCheckpoints, prompt: &str) -> Option<Vec<(String, Option<String>)>> {
    let text = |kept: KeptFile| String::from_utf8(kept.read(checkpoints.folder()).unwrap()).unwrap();
    let files = checkpoints.files_at(&entry_id(prompt))?.into_iter();
    Some(files.map(|(path, was)| (path.display().to_string(), was.map(text))).collect())
}

#[test]
fn the_first_change_after_each_prompt_is_kept_and_survives_a_resume() {
    let world = CheckpointFixture::new();
    let (a, b) = (Path::new("/p/a"), Path::new("/p/b"));
    let mut checkpoints = world.open();
    checkpoints.keep_file(a, prior_file("before any prompt")).unwrap();
    checkpoints.begin_prompt(&entry_id("one")).unwrap();
    checkpoints.keep_file(a, prior_file("1")).unwrap();
    checkpoints.keep_file(a, prior_file("changed again")).unwrap();
    checkpoints.begin_prompt(&entry_id("two")).unwrap();
    checkpoints.begin_prompt(&entry_id("three")).unwrap();
    checkpoints.keep_file(a, prior_file("2")).unwrap();
    checkpoints.keep_file(b, PriorContent::Absent).unwrap();
    drop(checkpoints);
    let mut checkpoints = world.open();
    let some = |path: &str, text: &str| (path.to_owned(), Some(text.to_owned()));
    let none = |path: &str| (path.to_owned(), None);
    assert_eq!(texts_at(&checkpoints, "one"), Some(vec![some("/p/a", "1"), none("/p/b")]));
    assert_eq!(texts_at(&checkpoints, "two"), Some(vec![some("/p/a", "2"), none("/p/b")]));
    checkpoints.begin_prompt(&entry_id("four")).unwrap();
    assert_eq!(texts_at(&checkpoints, "four"), Some(vec![]), "nothing was changed since");
    assert_eq!(texts_at(&checkpoints, "none"), None);
}

#[test]
fn equal_contents_are_stored_once_for_the_owner_alone() {
    let world = CheckpointFixture::new();
    let mut checkpoints = world.open();
    checkpoints.begin_prompt(&entry_id("one")).unwrap();
    for name in ["/a", "/b", "/c"] {
        checkpoints.keep_file(Path::new(name), prior_file("same")).unwrap();
    }
    let entries: Vec<_> = std::fs::read_dir(checkpoints.folder()).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(entries.len(), 2, "the journal and one content");
    for entry in entries {
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.path());
    }
}

#[test]
fn what_is_too_large_is_refused_and_a_damaged_copy_is_noticed() {
    let world = CheckpointFixture::new();
    let mut checkpoints = world.open();
    checkpoints.begin_prompt(&entry_id("one")).unwrap();
    let large = vec![0; LARGEST_FILE + 1];
    let error = checkpoints.keep_file(Path::new("/a"), PriorContent::File { bytes: &large, mode: 0o600 }).unwrap_err();
    assert!(error.to_string().contains("too much"), "{error}");
    checkpoints.keep_file(Path::new("/b"), prior_file("x")).unwrap();
    let kept = checkpoints.files_at(&entry_id("one")).unwrap()[0].1.clone().unwrap();
    std::fs::write(checkpoints.folder().join(&kept.blob), "y").unwrap();
    assert!(kept.read(checkpoints.folder()).is_err());
}

#[test]
fn old_prompts_and_what_only_they_need_are_let_go() {
    let world = CheckpointFixture::new();
    let mut checkpoints = world.open();
    for n in 0..=MOST_PROMPTS {
        checkpoints.begin_prompt(&entry_id(&n.to_string())).unwrap();
        if n < 2 {
            checkpoints.keep_file(Path::new("/a"), prior_file(&n.to_string())).unwrap();
        }
    }
    assert!(checkpoints.files_at(&entry_id("0")).is_none() && checkpoints.files_at(&entry_id("1")).is_some());
    assert_eq!(std::fs::read_dir(checkpoints.folder()).unwrap().count(), 2);
    assert!(world.open().files_at(&entry_id("0")).is_none());
}

#[test]
fn a_torn_or_foreign_journal_line_costs_only_itself() {
    let world = CheckpointFixture::new();
    let mut checkpoints = world.open();
    checkpoints.begin_prompt(&entry_id("one")).unwrap();
    let journal = checkpoints.folder().join(JOURNAL);
    let mut text = std::fs::read_to_string(&journal).unwrap();
    text.push_str(
        "{\"type\":\"file\",\"path\":\"/x\",\"was\":{\"blob\":\"../../etc/passwd\",\"mode\":420}}\n{\"type\":\"fi",
    );
    std::fs::write(&journal, text).unwrap();
    let mut checkpoints = world.open();
    checkpoints.begin_prompt(&entry_id("two")).unwrap();
    checkpoints.keep_file(Path::new("/a"), PriorContent::Absent).unwrap();
    assert_eq!(texts_at(&world.open(), "one"), Some(vec![("/a".to_owned(), None)]));
}

#[test]
fn files_are_put_back_with_their_mode_and_missing_folders_and_nothing_is_left_beside_them() {
    let world = CheckpointFixture::new();
    let path = world.root().join("new/deep/f");
    restore_file_content(&path, Some((b"x", 0o755))).unwrap();
    let now = CurrentFile { bytes: b"x".to_vec(), mode: 0o755, links: 1 };
    assert_eq!(read_current_content(&path).unwrap(), CurrentContent::File(now));
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o755);
    restore_file_content(&path, None).unwrap();
    assert_eq!(read_current_content(&path).unwrap(), CurrentContent::Absent);
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 0, "the folder stays, empty");
}

#[test]
fn links_of_every_kind_are_left_alone() {
    let world = CheckpointFixture::new();
    let root = world.root();
    std::fs::create_dir(root.join("real")).unwrap();
    for name in ["real/f", "hard"] {
        std::fs::write(root.join(name), "x").unwrap();
    }
    std::fs::hard_link(root.join("hard"), root.join("hard2")).unwrap();
    symlink("real/f", root.join("soft")).unwrap();
    symlink("real", root.join("folder")).unwrap();
    let CurrentContent::File(hard) = read_current_content(&root.join("hard")).unwrap() else { panic!("a file") };
    assert_eq!(hard.links, 2);
    for name in ["soft", "folder/f", "real"] {
        assert_eq!(read_current_content(&root.join(name)).unwrap(), CurrentContent::Link, "{name}");
    }
    assert!(restore_file_content(&root.join("folder/f"), Some((b"y", 0o600))).is_err());
    assert!(restore_file_content(&root.join("real"), None).is_err(), "a folder is never removed");
    assert_eq!(std::fs::read_to_string(root.join("real/f")).unwrap(), "x");
}

#[test]
fn a_file_under_several_names_keeps_them_when_it_is_overwritten() {
    let world = CheckpointFixture::new();
    let (one, two) = (world.root().join("one"), world.root().join("two"));
    std::fs::write(&one, "longer than before").unwrap();
    std::fs::hard_link(&one, &two).unwrap();
    overwrite_file_content(&one, b"short", 0o640).unwrap();
    assert_eq!(std::fs::read_to_string(&two).unwrap(), "short");
    assert_eq!(two.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    symlink("one", world.root().join("soft")).unwrap();
    assert!(overwrite_file_content(&world.root().join("soft"), b"x", 0o600).is_err());
}

#[test]
fn what_the_session_wrote_is_told_from_what_others_wrote_also_after_a_resume() {
    let world = CheckpointFixture::new();
    let path = world.root().join("f");
    let mut checkpoints = world.open();
    std::fs::write(&path, "of the session").unwrap();
    checkpoints.note_written(&path);
    assert!(checkpoints.last_written(&path).is_none(), "there is no checkpoint of it");
    checkpoints.begin_prompt(&entry_id("one")).unwrap();
    checkpoints.keep_file(&path, PriorContent::Absent).unwrap();
    checkpoints.note_written(&path);
    drop(checkpoints);
    let checkpoints = world.open();
    let written = checkpoints.last_written(&path).unwrap();
    let now = || read_current_content(&path).unwrap();
    assert!(written.is_same(&now()));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(!written.is_same(&now()), "the mode counts");
    std::fs::write(&path, "of someone else").unwrap();
    assert!(!written.is_same(&now()));
    std::fs::remove_file(&path).unwrap();
    assert!(!written.is_same(&now()));
}

#[test]
fn folders_that_were_created_for_a_file_are_removed_while_they_are_empty() {
    let world = CheckpointFixture::new();
    let root = world.root();
    let path = root.join("new/deep/f");
    let mut checkpoints = world.open();
    checkpoints.begin_prompt(&entry_id("one")).unwrap();
    checkpoints.keep_file(&path, PriorContent::Absent).unwrap();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    checkpoints.keep_file(&root.join("new/deep/g"), PriorContent::Absent).unwrap();
    drop(checkpoints);
    let created = world.open().folders_created_since(&entry_id("one"));
    assert_eq!(created, [CreatedFolder { deepest: root.join("new/deep"), topmost: root.join("new") }]);
    std::fs::write(root.join("new/other"), "").unwrap();
    remove_empty_folders(&created[0].deepest, &created[0].topmost);
    assert!(!root.join("new/deep").exists() && root.join("new/other").exists());
    std::fs::remove_file(root.join("new/other")).unwrap();
    remove_empty_folders(&created[0].deepest, &created[0].topmost);
    assert!(!root.join("new").exists() && root.exists());
}
