//! Saved state of a protected path: full content to restore, or at least a fingerprint to detect changes. Blocking.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gimlet_fs::read_file_nofollow;

use super::dir_handle::{is_not_found_error, may_exist};

/// Maximum bytes kept of one protected path. A larger one is known by the fingerprints of its entries, and cannot be
/// restored.
const MAX_KEPT_BYTES: u64 = 4 << 20;
/// Maximum number of parts in one folder that are restored individually; with more, the whole folder is.
const MAX_PARTS: usize = 20;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum PathState {
    #[default]
    Absent,
    /// Content that only another user can read.
    Hidden,
    Link(PathBuf),
    Tree(BTreeMap<PathBuf, TreeNode>),
    /// Too large to keep.
    Fingerprints(BTreeMap<PathBuf, FileFingerprint>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TreeNode {
    Folder,
    Link(PathBuf),
    File { bytes: Vec<u8>, mode: u32 },
}

impl TreeNode {
    /// Returns true if a path has this state, apart from a folder's entries.
    fn matches(&self, path: &Path) -> bool {
        match self {
            // One that cannot be seen into may hold anything.
            Self::Folder => read_visible_dir(path).is_some(),
            Self::Link(target) => fs::read_link(path).is_ok_and(|now| now == *target),
            Self::File { bytes, mode } => {
                let metadata = fs::symlink_metadata(path);
                metadata.is_ok_and(|metadata| metadata.mode() & 0o7777 == *mode)
                    && read_file_nofollow(path, bytes.len() as u64).is_ok_and(|now| now == *bytes)
            }
        }
    }
}

/// Fingerprint that distinguishes states of a file: the time of its last change cannot be set.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileFingerprint {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl FileFingerprint {
    fn read(path: &Path) -> Option<Self> {
        let metadata = fs::symlink_metadata(path).ok()?;
        let (inode, size, changed) = (metadata.ino(), metadata.len(), (metadata.ctime(), metadata.ctime_nsec()));
        // A readable folder is defined by its entries; opening it and closing it again must not count as a change.
        let (size, changed) = if read_visible_dir(path).is_some() { (0, (0, 0)) } else { (size, changed) };
        Some(Self { inode, size, changed })
    }
}

/// Returns the entries of a folder, if it is one that can be listed.
fn read_visible_dir(path: &Path) -> Option<fs::ReadDir> {
    let is_folder = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    if is_folder { fs::read_dir(path).ok() } else { None }
}

/// Identity that distinguishes a file or folder from any other that gets its name later.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileIdentity {
    device: u64,
    inode: u64,
    /// Inode numbers are reused. Where no birth time is recorded, every change counts as a new file.
    born: Result<SystemTime, (i64, i64)>,
}

impl FileIdentity {
    /// Returns the identity of a path; `None` if it or something in it has another hard link, or if it is neither
    /// file nor folder: a mount protects names, and such a file can be written by its other one.
    pub(super) fn for_unaliased(path: &Path) -> Option<Self> {
        let metadata = fs::symlink_metadata(path).ok()?;
        let is_one = match metadata.is_dir() {
            true => has_no_hard_links(path),
            false => metadata.is_file() && metadata.nlink() == 1,
        };
        is_one.then(|| Self::from(&metadata))
    }

    /// Returns the identity of any path, regardless of hard links to it or its content.
    pub(super) fn for_path(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().as_ref().map(Self::from)
    }
}

impl From<&fs::Metadata> for FileIdentity {
    fn from(metadata: &fs::Metadata) -> Self {
        let born = metadata.created().map_err(|_| (metadata.ctime(), metadata.ctime_nsec()));
        Self { device: metadata.dev(), inode: metadata.ino(), born }
    }
}

impl PathState {
    pub(super) fn capture(path: &Path) -> Self {
        match fs::symlink_metadata(path) {
            Err(error) if is_not_found_error(&error) => return Self::Absent,
            Err(_) => return Self::Hidden,
            Ok(_) => {}
        }
        if let Ok(target) = fs::read_link(path) {
            return Self::Link(target);
        }
        Self::capture_small(path).unwrap_or_else(|| {
            let mut marks = BTreeMap::new();
            collect_fingerprints(path, Path::new(""), &mut marks);
            Self::Fingerprints(marks)
        })
    }

    /// Captures a file or folder with all its content, if it is small and readable.
    fn capture_small(path: &Path) -> Option<Self> {
        Self::capture_within(path, MAX_KEPT_BYTES)
    }

    /// Captures the state, if it takes no more than this many bytes.
    pub(super) fn capture_within(path: &Path, mut most: u64) -> Option<Self> {
        let mut nodes = BTreeMap::new();
        collect_nodes(path, Path::new(""), &mut nodes, &mut most).ok().map(|()| Self::Tree(nodes))
    }

    /// Returns the state of a file with this text, if it differs from `before` and that was a file or nothing.
    pub(super) fn with_file_text(path: &Path, before: &Self, text: Option<&str>) -> Option<Self> {
        let content = |state: &Self| match state {
            Self::Absent => Some((None, 0o600)),
            Self::Tree(nodes) => match nodes.get(Path::new("")) {
                Some(TreeNode::File { bytes, mode }) => {
                    Some((Some(String::from_utf8_lossy(bytes).into_owned()), *mode))
                }
                _ => None,
            },
            Self::Hidden | Self::Link(_) | Self::Fingerprints(_) => None,
        };
        let (was, mode) = content(before)?;
        if was.as_deref() == text {
            return None;
        }
        let now = Self::capture(path);
        if content(&now).is_some_and(|(now, _)| now.as_deref() == text) {
            return Some(now);
        }
        let file = |text: &str| TreeNode::File { bytes: text.as_bytes().to_vec(), mode };
        Some(text.map_or(Self::Absent, |text| Self::Tree(BTreeMap::from([(PathBuf::new(), file(text))]))))
    }

    /// Returns the state with another file at a name below it, or none, if this state contains what `was` there.
    /// Content that is too large to be kept is known only by its fingerprints, which cannot confirm that.
    pub(super) fn with_part(&self, part: &Path, was: Option<&[u8]>, now: Option<TreeNode>) -> Option<Self> {
        let mut nodes = match self {
            Self::Absent => BTreeMap::new(),
            Self::Tree(nodes) => nodes.clone(),
            Self::Hidden | Self::Link(_) | Self::Fingerprints(_) => return None,
        };
        let known = match nodes.get(part) {
            Some(TreeNode::File { bytes, .. }) => Some(bytes.as_slice()),
            Some(TreeNode::Folder | TreeNode::Link(_)) => return None,
            None => None,
        };
        let is_folder = |node: &mut TreeNode| *node == TreeNode::Folder;
        let can_hold = |nodes: &mut BTreeMap<PathBuf, TreeNode>| {
            part.ancestors().skip(1).all(|way| is_folder(nodes.entry(way.to_owned()).or_insert(TreeNode::Folder)))
        };
        if known != was || !can_hold(&mut nodes) {
            return None;
        }
        match now {
            Some(node) => drop(nodes.insert(part.to_owned(), node)),
            None => drop(nodes.remove(part)),
        }
        Some(if nodes.is_empty() { Self::Absent } else { Self::Tree(nodes) })
    }

    /// Returns the bytes of a file.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Tree(nodes) => match nodes.get(Path::new(""))? {
                TreeNode::File { bytes, .. } => Some(bytes),
                TreeNode::Folder | TreeNode::Link(_) => None,
            },
            Self::Absent | Self::Hidden | Self::Link(_) | Self::Fingerprints(_) => None,
        }
    }

    /// Returns the text of a file.
    pub(super) fn text(&self) -> Option<&str> {
        self.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// Returns the symlinks in a folder, by their names there.
    pub(super) fn links(&self) -> impl Iterator<Item = &Path> {
        let nodes = if let Self::Tree(nodes) = self { Some(nodes) } else { None };
        let links = nodes.into_iter().flatten().filter(|(_, node)| matches!(node, TreeNode::Link(_)));
        links.map(|(name, _)| name.as_path())
    }

    /// Returns true if a path is unchanged.
    pub(super) fn is_unchanged(&self, path: &Path) -> bool {
        self.changed_parts(path).is_empty()
    }

    /// Returns the changed names below a path, none of them inside another; an empty name stands for the whole path.
    /// Regardless of the current size, no more is read than there was before.
    pub(super) fn changed_parts(&self, path: &Path) -> Vec<PathBuf> {
        let all_unless = |is_still: bool| if is_still { Vec::new() } else { vec![PathBuf::new()] };
        match self {
            Self::Absent => all_unless(!may_exist(path)),
            Self::Hidden => all_unless(Self::capture(path) == Self::Hidden),
            Self::Link(target) => all_unless(fs::read_link(path).is_ok_and(|now| now == *target)),
            Self::Tree(nodes) => find_changes(nodes, path, TreeNode::matches),
            Self::Fingerprints(marks) => {
                find_changes(marks, path, |mark, path| FileFingerprint::read(path).as_ref() == Some(mark))
            }
        }
    }

    /// Returns true if the earlier content exists nowhere but in the current one.
    pub(super) fn is_unrestorable(&self, part: &Path) -> bool {
        matches!(self, Self::Fingerprints(marks) if marks.contains_key(part))
    }

    /// Restores a path to this state at a name below it, or as a whole where the name is empty.
    pub(super) fn restore(&self, part: &Path, path: &Path) -> io::Result<()> {
        match self {
            Self::Absent | Self::Hidden => Ok(()),
            Self::Fingerprints(_) if self.is_unrestorable(part) => {
                Err(io::Error::new(io::ErrorKind::FileTooLarge, "it was too large to be kept"))
            }
            Self::Fingerprints(_) => Ok(()),
            Self::Link(target) => symlink(target, path),
            Self::Tree(nodes) => nodes.iter().try_for_each(|(name, node)| {
                let Ok(name) = name.strip_prefix(part) else { return Ok(()) };
                let path = join_part(path, name);
                match node {
                    TreeNode::Folder => fs::create_dir(&path),
                    TreeNode::Link(target) => symlink(target, &path),
                    TreeNode::File { bytes, mode } => {
                        let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
                        file.write_all(bytes)?;
                        file.set_permissions(fs::Permissions::from_mode(*mode))
                    }
                }
            }),
        }
    }
}

/// Joins a path and a name below it, which may be empty.
pub(super) fn join_part(path: &Path, name: &Path) -> PathBuf {
    if name.as_os_str().is_empty() { path.to_owned() } else { path.join(name) }
}

/// Returns the names at which a path differs from the known state. New folders are not descended into.
fn find_changes<T>(known: &BTreeMap<PathBuf, T>, root: &Path, is_at: impl Fn(&T, &Path) -> bool) -> Vec<PathBuf> {
    let is_same = |name: &Path| known.get(name).is_some_and(|known| is_at(known, &join_part(root, name)));
    // Parents come before what is in them.
    let mut found: Vec<PathBuf> = Vec::new();
    for name in known.keys() {
        if found.len() > MAX_PARTS {
            return vec![PathBuf::new()];
        }
        if found.iter().any(|part| name.starts_with(part)) {
            continue;
        }
        if !is_same(name) {
            found.push(name.clone());
            continue;
        }
        let new = read_visible_dir(&join_part(root, name))
            .into_iter()
            .flatten()
            .map(|entry| entry.map(|entry| entry.file_name()));
        for entry in new {
            // A folder that cannot be listed to its end counts as changed.
            let Ok(entry) = entry else { return vec![PathBuf::new()] };
            let inner = name.join(entry);
            if !known.contains_key(&inner) {
                found.push(inner);
            }
            if found.len() > MAX_PARTS {
                return vec![PathBuf::new()];
            }
        }
    }
    found
}

/// Returns true if every file in a folder has a single name; false if that cannot be determined.
fn has_no_hard_links(folder: &Path) -> bool {
    let Ok(mut entries) = fs::read_dir(folder) else { return false };
    entries.all(|entry| {
        entry.is_ok_and(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => has_no_hard_links(&entry.path()),
            Ok(metadata) => metadata.is_symlink() || metadata.nlink() == 1,
            Err(_) => false,
        })
    })
}

/// Collects everything at and below a path, as long as it is small.
fn collect_nodes(root: &Path, name: &Path, nodes: &mut BTreeMap<PathBuf, TreeNode>, left: &mut u64) -> io::Result<()> {
    let path = join_part(root, name);
    let metadata = fs::symlink_metadata(&path)?;
    let too_large = || io::Error::from(io::ErrorKind::FileTooLarge);
    // An entry costs something too.
    *left = left.checked_sub(64).ok_or_else(too_large)?;
    let node = if metadata.is_symlink() {
        TreeNode::Link(fs::read_link(&path)?)
    } else if metadata.is_dir() {
        TreeNode::Folder
    } else if metadata.is_file() {
        // A process that still runs may have replaced the content by now.
        let bytes = read_file_nofollow(&path, *left)?;
        *left = left.checked_sub(bytes.len() as u64).ok_or_else(too_large)?;
        TreeNode::File { bytes, mode: metadata.mode() & 0o7777 }
    } else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let is_folder = node == TreeNode::Folder;
    nodes.insert(name.to_owned(), node);
    if is_folder {
        for entry in fs::read_dir(&path)? {
            collect_nodes(root, &name.join(entry?.file_name()), nodes, left)?;
        }
    }
    Ok(())
}

/// Collects the fingerprints of everything at and below a path.
fn collect_fingerprints(root: &Path, name: &Path, marks: &mut BTreeMap<PathBuf, FileFingerprint>) {
    let path = join_part(root, name);
    // A file that vanishes meanwhile has no fingerprint, which is a difference.
    let Some(mark_here) = FileFingerprint::read(&path) else { return };
    marks.insert(name.to_owned(), mark_here);
    for entry in read_visible_dir(&path).into_iter().flatten().flatten() {
        collect_fingerprints(root, &name.join(entry.file_name()), marks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type PathMutation = fn(&Path);

    #[test]
    fn a_change_deep_in_what_is_too_large_to_keep_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let (skill, large) = (dir.path().join("s/SKILL.md"), dir.path().join("s/large"));
        let changes: [(&str, PathMutation); 4] = [
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
            let before = PathState::capture(dir.path());
            assert!(matches!(before, PathState::Fingerprints(_)) && before.is_unchanged(dir.path()), "{what}");
            #[allow(
                clippy::disallowed_methods,
                reason = "within one tick of the kernel's clock two changes look like one"
            )]
            std::thread::sleep(std::time::Duration::from_millis(20));
            change(&skill);
            assert!(!before.is_unchanged(dir.path()), "{what}");
            fs::remove_dir_all(dir.path().join("s")).unwrap();
        }
    }
}
