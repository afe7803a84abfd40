//! Tests of the attributes that a replaced file keeps, and that a failure leaves nothing behind.

use std::fs;
use std::os::unix::fs::symlink;

use gimlet_core::DurableSignal;

use super::super::open::{MOST_BYTES, load};
use super::*;

struct ReplaceFolder(tempfile::TempDir);

impl ReplaceFolder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        fs::create_dir(folder.path("in")).unwrap();
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn file(&self, name: &str, content: &str, mode: u32) -> (PathBuf, LoadedFile) {
        let path = self.path("in").join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let loaded = load(&path, MOST_BYTES).unwrap();
        (path, loaded)
    }

    fn replace(&self, path: &Path, old: &LoadedFile, new: &str) -> Result<Metadata, ReplaceError> {
        replace(path, old, new.as_bytes(), &self.path("backups"), &DurableBarrier::default())
    }

    /// All names in the folder of the files and in that of the backups.
    fn names(&self) -> Vec<String> {
        let folders = [self.path("in"), self.path("backups")];
        let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn mode_is_kept_and_set_id_bits_are_not() {
    let folder = ReplaceFolder::new();
    for (mode, kept) in [(0o644, 0o644), (0o755, 0o755), (0o600, 0o600), (0o4755, 0o755)] {
        let (path, old) = folder.file("f", "old", mode);
        folder.replace(&path, &old, "new").unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, kept);
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_ne!(path.metadata().unwrap().ino(), old.metadata.ino(), "replaced, not rewritten");
    }
    assert_eq!(folder.names(), ["f"]);
}

#[test]
fn extended_attributes_are_kept() {
    let folder = ReplaceFolder::new();
    let (path, old) = folder.file("f", "old", 0o644);
    if rustix::fs::setxattr(&path, "user.note", b"kept", XattrFlags::empty()).is_err() {
        return; // this file system has none
    }
    folder.replace(&path, &old, "new").unwrap();
    let mut value = [0; 16];
    let size = rustix::fs::getxattr(&path, "user.note", &mut value[..]).unwrap();
    assert_eq!(&value[..size], b"kept");
}

#[test]
fn hard_links_stay_linked_and_the_backup_goes_when_the_write_is_done() {
    let folder = ReplaceFolder::new();
    let (path, _) = folder.file("f", "old content", 0o644);
    let other = folder.path("in").join("other");
    fs::hard_link(&path, &other).unwrap();
    let old = load(&path, MOST_BYTES).unwrap();
    folder.replace(&path, &old, "new").unwrap();
    assert_eq!(fs::read_to_string(&other).unwrap(), "new");
    assert_eq!(path.metadata().unwrap().nlink(), 2);
    assert_eq!(folder.names(), ["f", "other"]);
}

#[test]
fn a_read_only_file_is_left_alone() {
    let folder = ReplaceFolder::new();
    let (path, old) = folder.file("f", "old", 0o444);
    assert!(matches!(folder.replace(&path, &old, "new"), Err(ReplaceError::ReadOnly(_))));
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), folder.names()), ("old", vec!["f".to_owned()]));
}

#[test]
fn a_file_in_a_read_only_folder_is_written_in_place() {
    let folder = ReplaceFolder::new();
    let (path, old) = folder.file("f", "old", 0o644);
    fs::set_permissions(folder.path("in"), Permissions::from_mode(0o555)).unwrap();
    let result = folder.replace(&path, &old, "new");
    fs::set_permissions(folder.path("in"), Permissions::from_mode(0o755)).unwrap();
    result.unwrap();
    // Root may write everywhere; for other users the file must have been kept.
    if !rustix::process::geteuid().is_root() {
        assert_eq!(path.metadata().unwrap().ino(), old.metadata.ino());
    }
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), folder.names()), ("new", vec!["f".to_owned()]));
}

#[test]
fn errors_that_forbid_a_rename_lead_to_writing_in_place() {
    for code in [Errno::ACCESS, Errno::PERM, Errno::ROFS, Errno::BUSY, Errno::XDEV] {
        assert!(forbids_renaming(&code.into()));
    }
    assert!(!forbids_renaming(&Errno::NOSPC.into()));
}

#[test]
fn a_change_in_between_is_noticed_even_with_the_same_time_and_size() {
    let folder = ReplaceFolder::new();
    let (path, old) = folder.file("f", "old", 0o644);
    fs::write(&path, "abc").unwrap();
    let time = old.metadata.modified().unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    assert!(matches!(folder.replace(&path, &old, "new"), Err(ReplaceError::Changed(_))));
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), folder.names()), ("abc", vec!["f".to_owned()]));

    let other = folder.path("in").join("other");
    fs::hard_link(&path, &other).unwrap();
    let old = LoadedFile { bytes: b"old".to_vec(), metadata: path.metadata().unwrap() };
    assert!(matches!(folder.replace(&path, &old, "new"), Err(ReplaceError::Changed(_))));
    assert_eq!(
        (fs::read_to_string(&path).unwrap().as_str(), folder.names()),
        ("abc", vec!["f".to_owned(), "other".to_owned()])
    );
}

#[test]
fn a_touched_file_with_the_same_content_is_no_change() {
    let folder = ReplaceFolder::new();
    let (path, old) = folder.file("f", "old", 0o644);
    File::options().write(true).open(&path).unwrap().set_modified(SystemTime::now()).unwrap();
    folder.replace(&path, &old, "new").unwrap();
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), folder.names()), ("new", vec!["f".to_owned()]));
}

#[test]
fn a_link_that_took_the_place_of_the_file_is_not_written_through() {
    let folder = ReplaceFolder::new();
    let (path, old) = folder.file("f", "old", 0o644);
    let (victim, _) = folder.file("victim", "old", 0o644);
    fs::remove_file(&path).unwrap();
    symlink(&victim, &path).unwrap();
    assert!(folder.replace(&path, &old, "new").is_err());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "old");
    assert_eq!(folder.names(), ["f", "victim"]);
}

#[test]
fn a_folder_that_became_a_link_is_not_written_through() {
    let folder = ReplaceFolder::new();
    let (path, old) = folder.file("f", "old", 0o644);
    fs::rename(folder.path("in"), folder.path("elsewhere")).unwrap();
    symlink(folder.path("elsewhere"), folder.path("in")).unwrap();
    assert!(folder.replace(&path, &old, "new").is_err());
    assert!(create(&path.with_file_name("other"), b"x", &DurableBarrier::default()).is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(folder.names(), ["f"]);
}

#[test]
fn creating_makes_parents_and_never_overwrites() {
    let folder = ReplaceFolder::new();
    let path = folder.path("in/a/b/new.txt");
    create(&path, b"x", &DurableBarrier::default()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"x");
    assert!(matches!(create(&path, b"y", &DurableBarrier::default()), Err(ReplaceError::Changed(_))));
    assert_eq!(fs::read(&path).unwrap(), b"x");
    let (file, _) = folder.file("f", "old", 0o644);
    assert!(matches!(create(&file.join("below"), b"y", &DurableBarrier::default()), Err(ReplaceError::Parent { .. })));
    assert_eq!(fs::read_dir(folder.path("in/a/b")).unwrap().count(), 1);
    assert_eq!(folder.names(), ["a", "f"]);
}

#[test]
fn a_new_file_has_the_mode_that_the_umask_gives() {
    let folder = ReplaceFolder::new();
    let (plain, new) = (folder.path("in/plain"), folder.path("in/new"));
    fs::write(&plain, "").unwrap();
    create(&new, b"", &DurableBarrier::default()).unwrap();
    assert_eq!(new.metadata().unwrap().mode(), plain.metadata().unwrap().mode());
}

#[test]
fn a_temporary_file_that_takes_nobodys_place_is_removed() {
    let folder = ReplaceFolder::new();
    let handle = File::open(folder.path("in")).unwrap().into();
    let temporary = TemporaryFile::create(&handle, 0o600).unwrap();
    assert_eq!(temporary.file.metadata().unwrap().mode() & 0o777, 0o600);
    assert_eq!(folder.names().len(), 1);
    drop(temporary);
    assert!(folder.names().is_empty());
}

/// By rename, in place, and of a new file: until the request is safe on disk, the content is what it was.
#[tokio::test]
async fn nothing_is_replaced_before_it_is_recorded_that_somebody_wants_it() {
    for (is_recorded, is_linked) in [(true, false), (true, true), (false, false), (false, true)] {
        let folder = ReplaceFolder::new();
        let (path, _) = folder.file("a", "old", 0o644);
        if is_linked {
            fs::hard_link(&path, folder.path("in").join("b")).unwrap();
        }
        let (loaded, backups, new) =
            (load(&path, MOST_BYTES).unwrap(), folder.path("backups"), folder.path("in").join("new"));
        let (recording, recorded) = DurableSignal::pair();
        let (target, created) = (path.clone(), new.clone());
        let work = tokio::task::spawn_blocking(move || {
            let replaced = replace(&target, &loaded, b"changed", &backups, &recorded);
            (replaced.is_ok(), create(&created, b"new", &recorded).is_ok())
        });
        // As far as it gets without the word.
        let ready = || is_linked || folder.names().iter().any(|name| name.ends_with(".tmp"));
        while !ready() {
            tokio::task::yield_now().await;
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert!(!work.is_finished() && !new.exists());
        if is_recorded {
            recording.mark_durable();
        } else {
            drop(recording);
        }
        assert_eq!(work.await.unwrap(), (is_recorded, is_recorded));
        assert_eq!(fs::read_to_string(&path).unwrap(), if is_recorded { "changed" } else { "old" });
        assert_eq!(new.exists(), is_recorded);
        assert!(!folder.names().iter().any(|name| name.ends_with(".tmp")), "{:?}", folder.names());
    }
}
