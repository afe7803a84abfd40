//! One protected place: how it was before a command, and how it becomes that again. Blocking.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use gimlet_proto::SandboxViolation;

use super::dir_handle::{HandleLookup, PathHandle, may_exist};
use super::git_config_check::{adds_no_commands, is_harmless};
use super::path_state::{FileIdentity, PathState, TreeNode, join_part};
use super::restore_log::RestoredPaths;

/// The most that is copied to a quarantine on another file system; what is larger is removed.
const MAX_COPIED_BYTES: u64 = 64 << 20;

#[derive(Debug)]
pub(super) struct ProtectedPath {
    /// The writable folder that it lies in.
    root: PathBuf,
    path: PathBuf,
    /// The first link among the folders on the way there, if one was there already.
    link: Option<PathBuf>,
    before: Arc<PathState>,
    /// What a mount keeps as it is, for as long as it is there.
    mounted: Option<FileIdentity>,
    source: StateSource,
    allowed_change: AllowedChange,
}

/// What the command may make of a place.
#[derive(Debug, Clone, PartialEq, Eq)]
enum AllowedChange {
    Unchanged,
    /// Whatever a new repository could have there: nothing that others would run, or what lies at one of these places.
    Plain {
        twins: Vec<PathBuf>,
    },
}

/// How it is known what a place is without the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StateSource {
    /// It was so when the command began.
    Seen,
    /// Settings are on record.
    Recorded,
    /// gimlet wrote them itself meanwhile.
    Rewritten,
}

impl ProtectedPath {
    /// Notes how a place is. A mount holds it if it `may_be_mounted` and is there.
    pub(super) fn capture(root: &Path, path: &Path, may_be_mounted: bool) -> Self {
        // First: what comes in its place from here on is another one.
        let mounted = Some(path).filter(|_| may_be_mounted).and_then(FileIdentity::for_unaliased);
        let (before, link) = (Arc::new(PathState::capture(path)), find_symlink_ancestor(root, path));
        let (root, path) = (root.to_owned(), path.to_owned());
        Self { root, path, link, before, mounted, source: StateSource::Seen, allowed_change: AllowedChange::Unchanged }
    }

    /// Notes a place of a repository that an earlier command made.
    pub(super) fn capture_plain(root: &Path, path: &Path, twins: Vec<PathBuf>) -> Self {
        Self { allowed_change: AllowedChange::Plain { twins }, ..Self::capture(root, path, false) }
    }

    /// A settings file that gimlet wrote, and that nobody noted.
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

    /// Whether it is a link, or lies behind one.
    pub(super) fn has_symlink(&self) -> bool {
        self.link.is_some() || matches!(*self.before, PathState::Link(_))
    }

    /// Takes this for what a settings file says. One that was rewritten is no longer the one that a mount holds.
    pub(super) fn expect_text(&mut self, text: Option<&str>, rewritten: bool) {
        if let Some(known) = PathState::with_file_text(&self.path, &self.before, text) {
            self.before = Arc::new(known);
        }
        self.source = if rewritten { StateSource::Rewritten } else { StateSource::Recorded };
        self.mounted = self.mounted.take().filter(|_| !rewritten);
    }

    /// Takes over what gimlet itself made of a file here, or of one in it.
    pub(super) fn record_own_write(&mut self, path: &Path, was: Option<&[u8]>, now: Option<&[u8]>) {
        let Ok(part) = path.strip_prefix(&self.path) else { return };
        let mode = fs::symlink_metadata(path).map_or(0o600, |metadata| metadata.mode() & 0o7777);
        let file = now.map(|bytes| TreeNode::File { bytes: bytes.to_owned(), mode });
        if let Some(state) = self.before.with_part(part, was, file) {
            self.before = Arc::new(state);
            // A file that takes another's place is not the one that a mount holds; a folder stays the same.
            self.mounted = self.mounted.take().filter(|_| !part.as_os_str().is_empty());
        }
    }

    /// Takes over what older guards put back since: what was noted here may be what another command had made.
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

    /// Makes it what it was, and says what that took.
    pub(super) fn restore(&self, quarantine: &Path, mended: &mut RestoredPaths) -> Vec<SandboxViolation> {
        let Self { root, path, link, before, .. } = self;
        let new_link = find_symlink_ancestor(root, path).filter(|new| link.as_ref() != Some(new));
        let wrong = match new_link {
            Some(new) => new,
            None if self.is_acceptable() => return Vec::new(),
            // Also a link that could not be seen so far.
            None => match PathHandle::open_parent(root, path) {
                Ok(HandleLookup::BehindSymlink(new)) if link.as_ref() != Some(&new) => new,
                _ => path.clone(),
            },
        };
        // Of a folder only what is another one goes: the rest is the person's.
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

    /// Whether what is there now may be there in a repository that a command made.
    fn may_be_new_content(&self, path: &Path) -> bool {
        match &self.allowed_change {
            AllowedChange::Unchanged => *self.before == PathState::Absent && is_harmless(path),
            AllowedChange::Plain { twins } => is_harmless(path) || matches_any(path, twins),
        }
    }

    /// A mount comes off what somebody outside replaces, and then the command can write what is there instead.
    fn may_keep_replacement(&self, held: &FileIdentity) -> bool {
        let Self { path, before, source: known, .. } = self;
        if FileIdentity::for_unaliased(path).as_ref() == Some(held) {
            return true;
        }
        // Somebody outside removed it, maybe another gimlet that knows why; nothing is there that anybody would run.
        let is_gone = *known == StateSource::Seen && !may_exist(path);
        is_gone || before.text().is_some_and(|before| adds_no_commands(path, before))
    }
}

/// Whether the same lies at one of these places.
pub(super) fn matches_any(path: &Path, twins: &[PathBuf]) -> bool {
    let is_same = |known: PathState| matches!(known, PathState::Tree(_)) && known.is_unchanged(path);
    twins.iter().filter(|twin| *twin != path).any(|twin| is_same(PathState::capture(twin)))
}

/// Of what a mount held, it cannot be told who replaced it.
fn as_replaced(found: SandboxViolation) -> SandboxViolation {
    match found {
        SandboxViolation::Tampered { path, moved_to: Some(moved_to) } => SandboxViolation::Replaced { path, moved_to },
        other => other,
    }
}

/// What becomes of something that cannot be moved away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfImmovable {
    Remove,
    Leave,
}

/// Moves something away under a new name; nothing when it is not there. Whatever comes of it is told.
pub(super) fn quarantine_path(
    root: &Path,
    path: &Path,
    quarantine: &Path,
    otherwise: IfImmovable,
) -> Option<SandboxViolation> {
    let left = |error: io::Error| Some(SandboxViolation::Left { path: path.to_owned(), why: error.to_string() });
    let held = match PathHandle::open_parent(root, path) {
        Ok(HandleLookup::Found(held)) => held,
        // A link that was there before leads to what is not the command's.
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

/// Where it went. On an error it is still there.
fn move_to_quarantine(held: &PathHandle, path: &Path, quarantine: &Path) -> io::Result<PathBuf> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // Neither it nor a folder on the way to it is for others, whatever the mask says.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(quarantine)?;
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

/// Makes a path what a part of another was, below its root and through no link.
fn restore_at(before: &PathState, part: &Path, root: &Path, path: &Path) -> io::Result<()> {
    if matches!(before, PathState::Absent | PathState::Hidden) {
        return Ok(());
    }
    if let Some(way) = path.parent().and_then(|parent| parent.strip_prefix(root).ok()) {
        let mut folder = root.to_owned();
        for name in way {
            folder.push(name);
            // It is there already, or the next step finds that it is not.
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

/// A link among the folders between a root and a path: what lies behind it is not this command's.
fn find_symlink_ancestor(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut way: Vec<&Path> = path.ancestors().skip(1).take_while(|dir| *dir != root).collect();
    way.reverse();
    way.into_iter().find(|dir| dir.is_symlink()).map(Path::to_owned)
}
