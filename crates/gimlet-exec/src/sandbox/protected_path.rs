//! One protected place: how it was before a command, and how it becomes that again. Blocking.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use gimlet_proto::SandboxViolation;

use super::dir_handle::{HandleLookup, PathHandle, may_exist};
use super::git_config_check::{adds_no_commands, is_harmless};
use super::path_state::{FileIdentity, PathState, TreeNode, join_part};
use super::restore_log::RestoredPaths;

/// Maximum size that is copied to a quarantine on another file system; larger files are removed.
const MAX_COPIED_BYTES: u64 = 64 << 20;

#[derive(Debug)]
pub(super) struct ProtectedPath {
    /// The writable folder that contains it.
    root: PathBuf,
    path: PathBuf,
    /// The first symlink among its parent folders, if one existed already.
    link: Option<PathBuf>,
    before: Arc<PathState>,
    /// File that a mount keeps unchanged, for as long as it exists.
    mounted: Option<FileIdentity>,
    source: StateSource,
    allowed_change: AllowedChange,
}

/// Changes that the command may make to a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum AllowedChange {
    Unchanged,
    /// Anything that a new repository could have there: nothing that other programs would run, or what is at one of
    /// these paths.
    Plain {
        twins: Vec<PathBuf>,
    },
}

/// Source of the knowledge about a path's state without the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StateSource {
    /// Observed when the command began.
    Seen,
    /// Recorded settings.
    Recorded,
    /// Written by gimlet itself meanwhile.
    Rewritten,
}

impl ProtectedPath {
    /// Captures the state of a path. A mount protects it if it `may_be_mounted` and exists.
    pub(super) fn capture(root: &Path, path: &Path, may_be_mounted: bool) -> Self {
        // First: a file that replaces it from here on has another identity.
        let mounted = if may_be_mounted { FileIdentity::for_unaliased(path) } else { None };
        let (before, link) = (Arc::new(PathState::capture(path)), find_symlink_ancestor(root, path));
        let (root, path) = (root.to_owned(), path.to_owned());
        Self { root, path, link, before, mounted, source: StateSource::Seen, allowed_change: AllowedChange::Unchanged }
    }

    /// Captures a path of a repository that an earlier command created.
    pub(super) fn capture_plain(root: &Path, path: &Path, twins: Vec<PathBuf>) -> Self {
        Self { allowed_change: AllowedChange::Plain { twins }, ..Self::capture(root, path, false) }
    }

    /// Creates an entry for a settings file that gimlet wrote and that was not captured.
    pub(super) fn from_own_write(root: &Path, path: &Path, text: Option<&str>) -> Option<Self> {
        let before = Arc::new(PathState::with_file_text(path, &PathState::Absent, text)?);
        let (root, path) = (root.to_owned(), path.to_owned());
        let may_become = AllowedChange::Unchanged;
        Some(Self {
            root,
            path,
            link: None,
            before,
            mounted: None,
            source: StateSource::Rewritten,
            allowed_change: may_become,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn before(&self) -> &Arc<PathState> {
        &self.before
    }

    /// Returns true if it is a symlink, or lies behind one.
    pub(super) fn has_symlink(&self) -> bool {
        self.link.is_some() || matches!(*self.before, PathState::Link(_))
    }

    /// Sets the expected text of a settings file. A rewritten file is no longer the one that a mount protects.
    pub(super) fn expect_text(&mut self, text: Option<&str>, rewritten: bool) {
        if let Some(known) = PathState::with_file_text(&self.path, &self.before, text) {
            self.before = Arc::new(known);
        }
        self.source = if rewritten { StateSource::Rewritten } else { StateSource::Recorded };
        if rewritten {
            self.mounted = None;
        }
    }

    /// Records gimlet's own change of this file, or of one in this folder.
    pub(super) fn record_own_write(&mut self, path: &Path, was: Option<&[u8]>, now: Option<&[u8]>) {
        let Ok(part) = path.strip_prefix(&self.path) else { return };
        let mode = fs::symlink_metadata(path).map_or(0o600, |metadata| metadata.mode() & 0o7777);
        let file = now.map(|bytes| TreeNode::File { bytes: bytes.to_owned(), mode });
        if let Some(state) = self.before.with_part(part, was, file) {
            self.before = Arc::new(state);
            // A file that replaces another is not the one that a mount protects; a folder keeps its identity.
            if part.as_os_str().is_empty() {
                self.mounted = None;
            }
        }
    }

    /// Applies restores by older guards: the state captured here may be what another command had made.
    pub(super) fn apply_restores(&mut self, told: &BTreeMap<PathBuf, Arc<PathState>>) {
        let is_link = |state: &Arc<PathState>| matches!(**state, PathState::Link(_));
        let lost_link = self.link.as_ref().and_then(|link| told.get(link)).is_some_and(|state| !is_link(state));
        let state = told.get(&self.path).cloned().or_else(|| lost_link.then(Arc::default));
        if lost_link {
            self.link = None;
        }
        let Some(state) = state else { return };
        self.mounted = None;
        if self.source != StateSource::Rewritten {
            self.before = state;
        }
    }

    /// Restores the path and returns the violations found.
    pub(super) fn restore(&self, quarantine: &Path, mended: &mut RestoredPaths) -> Vec<SandboxViolation> {
        let Self { root, path, link, before, .. } = self;
        let new_link = find_symlink_ancestor(root, path).filter(|new| link.as_ref() != Some(new));
        let wrong = match new_link {
            Some(new) => new,
            None if self.is_acceptable() => return Vec::new(),
            // Including a symlink that was not visible so far.
            None => match PathHandle::open_parent(root, path) {
                Ok(HandleLookup::BehindSymlink(new)) if link.as_ref() != Some(&new) => new,
                _ => path.clone(),
            },
        };
        // Within a folder only the changed parts are removed: the rest is the user's.
        let parts = if wrong == *path { before.changed_parts(path) } else { vec![PathBuf::new()] };
        let (mut found, mut is_whole) = (Vec::new(), true);
        for part in parts {
            let otherwise = if before.is_unrestorable(&part) { IfImmovable::Leave } else { IfImmovable::Remove };
            let taken = quarantine_path(root, &join_part(&wrong, &part), quarantine, otherwise);
            let is_left = matches!(taken, Some(SandboxViolation::Left { .. }));
            found.extend(taken.map(|taken| if self.mounted.is_some() { as_replaced(taken) } else { taken }));
            if is_left {
                is_whole = false;
                continue;
            }
            let place = join_part(path, &part);
            let lost = restore_at(before, &part, root, &place).err();
            found.extend(lost.map(|error| SandboxViolation::Lost { path: place, why: error.to_string() }));
        }
        if is_whole {
            mended.extend(Some((wrong, Arc::default())).filter(|(wrong, _)| wrong != path));
            mended.push((path.clone(), before.clone()));
        }
        found
    }

    fn is_acceptable(&self) -> bool {
        let Self { path, before, mounted, .. } = self;
        let is_held = || mounted.as_ref().is_some_and(|held| self.may_keep_replacement(held));
        is_held() || before.is_unchanged(path) || self.may_be_new_content(path)
    }

    /// Returns true if the current content may exist in a repository that a command created.
    fn may_be_new_content(&self, path: &Path) -> bool {
        match &self.allowed_change {
            AllowedChange::Unchanged => *self.before == PathState::Absent && is_harmless(path),
            AllowedChange::Plain { twins } => is_harmless(path) || matches_any(path, twins),
        }
    }

    /// Returns true if the current content of a mounted path can stay. A mount is detached from a path that is
    /// replaced from outside the sandbox, and then the command can write the replacement.
    fn may_keep_replacement(&self, held: &FileIdentity) -> bool {
        let Self { path, before, source: known, .. } = self;
        if FileIdentity::for_unaliased(path).as_ref() == Some(held) {
            return true;
        }
        // It was removed from outside, perhaps by another gimlet that has a reason; nothing is left that a program
        // would run.
        let is_gone = *known == StateSource::Seen && !may_exist(path);
        is_gone || before.text().is_some_and(|before| adds_no_commands(path, before))
    }
}

/// Returns true if identical content is at one of these paths.
pub(super) fn matches_any(path: &Path, twins: &[PathBuf]) -> bool {
    let is_same = |known: PathState| matches!(known, PathState::Tree(_)) && known.is_unchanged(path);
    twins.iter().filter(|twin| *twin != path).any(|twin| is_same(PathState::capture(twin)))
}

/// Reports it as replaced: for a mounted path, it is not known who replaced it.
fn as_replaced(found: SandboxViolation) -> SandboxViolation {
    match found {
        SandboxViolation::Tampered { path, moved_to: Some(moved_to) } => SandboxViolation::Replaced { path, moved_to },
        other => other,
    }
}

/// Action for a path that cannot be moved away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfImmovable {
    Remove,
    Leave,
}

/// Moves a path away under a new name and returns the outcome; `None` when it does not exist.
pub(super) fn quarantine_path(
    root: &Path,
    path: &Path,
    quarantine: &Path,
    otherwise: IfImmovable,
) -> Option<SandboxViolation> {
    let left = |error: io::Error| Some(SandboxViolation::Left { path: path.to_owned(), why: error.to_string() });
    let held = match PathHandle::open_parent(root, path) {
        Ok(HandleLookup::Found(held)) => held,
        // A symlink that existed before points to files that are not the command's.
        Ok(HandleLookup::Missing | HandleLookup::BehindSymlink(_)) => return None,
        Err(error) => return left(error),
    };
    if !held.may_exist() {
        return None;
    }
    match move_to_quarantine(&held, path, quarantine) {
        Ok(moved_to) => Some(SandboxViolation::Tampered { path: path.to_owned(), moved_to: Some(moved_to) }),
        Err(error) if otherwise == IfImmovable::Leave => left(error),
        Err(_) => match held.remove() {
            Ok(()) => Some(SandboxViolation::Tampered { path: path.to_owned(), moved_to: None }),
            Err(error) => left(error),
        },
    }
}

/// Returns the path that it was moved to. On an error it has not been moved.
fn move_to_quarantine(held: &PathHandle, path: &Path, quarantine: &Path) -> io::Result<PathBuf> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // Private to the user, as are the folders on the way to it, regardless of the umask.
    gimlet_fs::create_private_dir_all(quarantine)?;
    let name: String = path.file_name().unwrap_or_default().to_string_lossy().chars().take(50).collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let moved_to = quarantine.join(format!("{name}.{now}-{}-{count}", std::process::id()));
    match held.rename(&moved_to) {
        // Another file system.
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            PathState::capture_within(&held.path(), MAX_COPIED_BYTES)
                .ok_or(error)?
                .restore(Path::new(""), &moved_to)?;
            held.remove()?;
        }
        renamed => renamed?,
    }
    Ok(moved_to)
}

/// Restores a path to the state of a part of another, below its root and through no symlink.
fn restore_at(before: &PathState, part: &Path, root: &Path, path: &Path) -> io::Result<()> {
    if matches!(before, PathState::Absent | PathState::Hidden) {
        return Ok(());
    }
    if let Some(way) = path.parent().and_then(|parent| parent.strip_prefix(root).ok()) {
        let mut folder = root.to_owned();
        for name in way {
            folder.push(name);
            // It exists already, or the next step fails.
            drop(fs::create_dir(open_handle(root, &folder)?.path()));
        }
    }
    before.restore(part, &open_handle(root, path)?.path())
}

fn open_handle(root: &Path, path: &Path) -> io::Result<PathHandle> {
    match PathHandle::open_parent(root, path)? {
        HandleLookup::Found(held) => Ok(held),
        HandleLookup::Missing | HandleLookup::BehindSymlink(_) => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Returns the first symlink among the folders between a root and a path: files behind it are not this command's.
fn find_symlink_ancestor(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut way: Vec<&Path> = path.ancestors().skip(1).take_while(|dir| *dir != root).collect();
    way.reverse();
    way.into_iter().find(|dir| dir.is_symlink()).map(Path::to_owned)
}
