//! How a protected place is: kept, so that it can be put back, or at least told from what it becomes. Blocking.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::reach::{is_absence, is_there};
use super::small;

/// The most that is kept of one protected place. A larger one is known by the marks of all that is in it, and cannot be
/// put back.
const MAX_KEPT_BYTES: u64 = 4 << 20;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Absent,
    /// Nobody but somebody else can see what is there.
    Hidden,
    Link(PathBuf),
    Tree(BTreeMap<PathBuf, Node>),
    /// Too large to keep.
    Marks(BTreeMap<PathBuf, Mark>),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Node {
    Folder,
    Link(PathBuf),
    File { bytes: Vec<u8>, mode: u32 },
}

/// What tells one state of a file from another: nobody can set the time of its last change.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mark {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

/// What tells a file or folder from any other that gets its name later.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
    /// Numbers are given again. Where no time of birth is kept, every change makes another one of it.
    born: Result<SystemTime, (i64, i64)>,
}

impl Identity {
    /// Nothing for what can be reached by another name as well, itself or something in it, or is neither file nor
    /// folder: a mount holds names, and such a file is written by its other one.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let metadata = fs::symlink_metadata(path).ok()?;
        let is_one = match metadata.is_dir() {
            true => has_no_second_names(path),
            false => metadata.is_file() && metadata.nlink() == 1,
        };
        is_one.then(|| Self::from(&metadata))
    }

    /// Of anything, whatever other names it or something in it has.
    pub(super) fn of_any(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().as_ref().map(Self::from)
    }
}

impl From<&fs::Metadata> for Identity {
    fn from(metadata: &fs::Metadata) -> Self {
        let born = metadata.created().map_err(|_| (metadata.ctime(), metadata.ctime_nsec()));
        Self { device: metadata.dev(), inode: metadata.ino(), born }
    }
}

impl State {
    pub(super) fn of(path: &Path) -> Self {
        match fs::symlink_metadata(path) {
            Err(error) if is_absence(&error) => return Self::Absent,
            Err(_) => return Self::Hidden,
            Ok(_) => {}
        }
        if let Ok(target) = fs::read_link(path) {
            return Self::Link(target);
        }
        Self::kept(path).unwrap_or_else(|| {
            let mut marks = BTreeMap::new();
            mark(path, Path::new(""), &mut marks, usize::MAX);
            Self::Marks(marks)
        })
    }

    /// A file or folder with all that is in it, if it is small and can be read.
    pub(super) fn kept(path: &Path) -> Option<Self> {
        let (mut nodes, mut left) = (BTreeMap::new(), MAX_KEPT_BYTES);
        collect(path, Path::new(""), &mut nodes, &mut left).ok().map(|()| Self::Tree(nodes))
    }

    /// The state of a file with this text, where it is another one than `before` and that was a file or nothing.
    pub(super) fn known(path: &Path, before: &Self, text: Option<&str>) -> Option<Self> {
        let content = |state: &Self| match state {
            Self::Absent => Some((None, 0o600)),
            Self::Tree(nodes) => match nodes.get(Path::new("")) {
                Some(Node::File { bytes, mode }) => Some((Some(String::from_utf8_lossy(bytes).into_owned()), *mode)),
                _ => None,
            },
            Self::Hidden | Self::Link(_) | Self::Marks(_) => None,
        };
        let (was, mode) = content(before)?;
        if was.as_deref() == text {
            return None;
        }
        let now = Self::of(path);
        if content(&now).is_some_and(|(now, _)| now.as_deref() == text) {
            return Some(now);
        }
        let file = |text: &str| Node::File { bytes: text.as_bytes().to_vec(), mode };
        Some(text.map_or(Self::Absent, |text| Self::Tree(BTreeMap::from([(PathBuf::new(), file(text))]))))
    }

    /// What is in a file.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Tree(nodes) => match nodes.get(Path::new(""))? {
                Node::File { bytes, .. } => Some(bytes),
                Node::Folder | Node::Link(_) => None,
            },
            Self::Absent | Self::Hidden | Self::Link(_) | Self::Marks(_) => None,
        }
    }

    /// What a file said.
    pub(super) fn text(&self) -> Option<&str> {
        self.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// The links in a folder, by their names there.
    pub(super) fn links(&self) -> impl Iterator<Item = &Path> {
        let nodes = if let Self::Tree(nodes) = self { Some(nodes) } else { None };
        let links = nodes.into_iter().flatten().filter(|(_, node)| matches!(node, Node::Link(_)));
        links.map(|(name, _)| name.as_path())
    }

    /// Whether a path is as it was. However much is there now, no more is read than there was.
    pub(super) fn is_still(&self, path: &Path) -> bool {
        match self {
            Self::Absent => !is_there(path),
            Self::Hidden => Self::of(path) == Self::Hidden,
            Self::Link(target) => fs::read_link(path).is_ok_and(|now| now == *target),
            Self::Tree(_) => Self::kept(path).is_some_and(|now| now == *self),
            Self::Marks(before) => {
                let mut now = BTreeMap::new();
                mark(path, Path::new(""), &mut now, before.len() + 1);
                now == *before
            }
        }
    }

    pub(super) fn restore(&self, path: &Path) -> io::Result<()> {
        match self {
            Self::Absent | Self::Hidden => Ok(()),
            Self::Marks(_) => Err(io::Error::new(io::ErrorKind::FileTooLarge, "it was too large to be kept")),
            Self::Link(target) => symlink(target, path),
            Self::Tree(nodes) => nodes.iter().try_for_each(|(name, node)| {
                let path = if name.as_os_str().is_empty() { path.to_owned() } else { path.join(name) };
                match node {
                    Node::Folder => fs::create_dir(&path),
                    Node::Link(target) => symlink(target, &path),
                    Node::File { bytes, mode } => {
                        let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
                        file.write_all(bytes)?;
                        file.set_permissions(fs::Permissions::from_mode(*mode))
                    }
                }
            }),
        }
    }
}

/// Whether all files in a folder have one name each; not where that cannot be found out.
fn has_no_second_names(folder: &Path) -> bool {
    let Ok(mut entries) = fs::read_dir(folder) else { return false };
    entries.all(|entry| {
        entry.is_ok_and(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => has_no_second_names(&entry.path()),
            Ok(metadata) => metadata.is_symlink() || metadata.nlink() == 1,
            Err(_) => false,
        })
    })
}

/// Everything at and below a path, as long as it is small.
fn collect(root: &Path, name: &Path, nodes: &mut BTreeMap<PathBuf, Node>, left: &mut u64) -> io::Result<()> {
    let path = if name.as_os_str().is_empty() { root.to_owned() } else { root.join(name) };
    let metadata = fs::symlink_metadata(&path)?;
    let too_large = || io::Error::from(io::ErrorKind::FileTooLarge);
    // An entry costs something too.
    *left = left.checked_sub(64).ok_or_else(too_large)?;
    let node = if metadata.is_symlink() {
        Node::Link(fs::read_link(&path)?)
    } else if metadata.is_dir() {
        Node::Folder
    } else if metadata.is_file() {
        // Whoever still runs can put something else there by now.
        let bytes = small::read(&path, *left)?;
        *left = left.checked_sub(bytes.len() as u64).ok_or_else(too_large)?;
        Node::File { bytes, mode: metadata.mode() & 0o7777 }
    } else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let is_folder = node == Node::Folder;
    nodes.insert(name.to_owned(), node);
    if is_folder {
        for entry in fs::read_dir(&path)? {
            collect(root, &name.join(entry?.file_name()), nodes, left)?;
        }
    }
    Ok(())
}

/// Marks everything at and below a path, up to a number of entries.
fn mark(root: &Path, name: &Path, marks: &mut BTreeMap<PathBuf, Mark>, most: usize) {
    let path = if name.as_os_str().is_empty() { root.to_owned() } else { root.join(name) };
    // What vanishes meanwhile has no mark, and that is a difference.
    let Ok(metadata) = fs::symlink_metadata(&path) else { return };
    if marks.len() >= most {
        return;
    }
    let entries = if metadata.is_dir() { fs::read_dir(&path).ok() } else { None };
    let changed = (metadata.ctime(), metadata.ctime_nsec());
    let (inode, size) = (metadata.ino(), metadata.len());
    // A folder is what is in it, where that can be seen; to open it and close it again leaves it the same.
    let (size, changed) = if entries.is_some() { (0, (0, 0)) } else { (size, changed) };
    marks.insert(name.to_owned(), Mark { inode, size, changed });
    for entry in entries.into_iter().flatten().flatten() {
        mark(root, &name.join(entry.file_name()), marks, most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&Path);

    #[test]
    fn a_change_deep_in_what_is_too_large_to_keep_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let (skill, large) = (dir.path().join("s/SKILL.md"), dir.path().join("s/large"));
        let changes: [(&str, Change); 4] = [
            ("content", |skill| fs::write(skill, "new").unwrap()),
            ("a neighbour", |skill| fs::write(skill.with_file_name("x"), "").unwrap()),
            ("its absence", |skill| fs::remove_file(skill).unwrap()),
            ("another file", |skill| {
                fs::write(skill.with_file_name("y"), "old").unwrap();
                fs::rename(skill.with_file_name("y"), skill).unwrap();
            }),
        ];
        for (what, change) in changes {
            fs::create_dir_all(dir.path().join("s")).unwrap();
            fs::write(&skill, "old").unwrap();
            fs::File::create(&large).unwrap().set_len(MAX_KEPT_BYTES + 1).unwrap();
            let before = State::of(dir.path());
            assert!(matches!(before, State::Marks(_)) && before.is_still(dir.path()), "{what}");
            #[allow(
                clippy::disallowed_methods,
                reason = "within one tick of the kernel's clock two changes look like one"
            )]
            std::thread::sleep(std::time::Duration::from_millis(20));
            change(&skill);
            assert!(!before.is_still(dir.path()), "{what}");
            fs::remove_dir_all(dir.path().join("s")).unwrap();
        }
    }
}
