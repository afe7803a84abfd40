//! Replacing a file's content so that a reader, or a crash at any moment, sees the old bytes or the new ones.
//!
//! The normal way is a temporary file beside the target and a rename. Where a rename would break something (hard
//! links, a foreign owner) or cannot work (a read-only folder, a bind mount), the file is written in place after a
//! backup was stored. No temporary file outlives a failure.

use std::fs::{File, Metadata, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use gimlet_core::files::FileLocation;
use gimlet_core::tool::ToolError;
use gimlet_core::{DurableBarrier, NotDurableError};
use rustix::fs::{Access, AtFlags, Mode, OFlags, RenameFlags, XattrFlags};
use rustix::io::Errno;

use super::open::{LoadedFile, open_regular_at};

/// File times move in ticks; a file that is younger than this may have changed without its time showing it.
const SETTLED: Duration = Duration::from_secs(2);

/// Reason why a file was not replaced. The model reads the texts.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplaceError {
    #[error("{0} changed while it was being written, so nothing was written. Read it again.")]
    Changed(PathBuf),
    #[error("{0} is read-only, so nothing was written. Ask before you change its mode.")]
    ReadOnly(PathBuf),
    #[error("{path} was not written: {source}")]
    Stopped { path: PathBuf, source: NotDurableError },
    #[error("the folder {path} could not be created: {source}")]
    Parent { path: PathBuf, source: io::Error },
    #[error("{path} could not be created: {source}")]
    Create { path: PathBuf, source: io::Error },
    #[error("{path} could not be written: {source}. It still has its old content.")]
    Write { path: PathBuf, source: io::Error },
    #[error("{path} could not be written completely: {source}. Its old content is in {backup}.")]
    PartialWrite { path: PathBuf, backup: PathBuf, source: io::Error },
}

impl From<ReplaceError> for ToolError {
    fn from(error: ReplaceError) -> Self {
        ToolError::failed(error.to_string())
    }
}

/// Creates `path` with its missing parents; a file that appears meanwhile is not overwritten.
pub(crate) fn create(path: &Path, bytes: &[u8], recorded: &DurableBarrier) -> Result<Metadata, ReplaceError> {
    recorded.wait().map_err(|source| ReplaceError::Stopped { path: path.to_owned(), source })?;
    let failed = |source| ReplaceError::Create { path: path.to_owned(), source };
    let parent = path.parent().unwrap_or(path);
    let made = std::fs::create_dir_all(parent).and_then(|()| Ok(FileLocation::for_path(path)?));
    let place = made.map_err(|source| ReplaceError::Parent { path: parent.to_owned(), source })?;
    // Sets the final mode from the start: the kernel applies the user's umask.
    let mut temporary = TemporaryFile::create(&place.folder, 0o666).map_err(failed)?;
    let metadata = temporary.fill(bytes).map_err(failed)?;
    match temporary.rename(&place, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(ReplaceError::Changed(path.to_owned())),
        // Some file systems have no exclusive rename; a look just before is the best there is.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            if rustix::fs::statat(&place.folder, &place.name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                return Err(ReplaceError::Changed(path.to_owned()));
            }
            temporary.rename(&place, RenameFlags::empty()).map_err(|source| failed(source.into()))?;
        }
        Err(source) => return Err(failed(source.into())),
    }
    temporary.persist();
    sync_folder(place.folder);
    Ok(metadata)
}

/// Replaces the content of the file that was loaded as `old`, if it is unchanged. Only a temporary file exists until
/// the intent to write is recorded.
pub(crate) fn replace(
    path: &Path,
    old: &LoadedFile,
    new: &[u8],
    backups: &Path,
    recorded: &DurableBarrier,
) -> Result<Metadata, ReplaceError> {
    let place = FileLocation::for_path(path)
        .map_err(|source| ReplaceError::Write { path: path.to_owned(), source: source.into() })?;
    let target = ReplaceTarget { place, path, old, backups, recorded };
    if !target.is_writable() {
        return Err(ReplaceError::ReadOnly(path.to_owned()));
    }
    if old.metadata.nlink() > 1 {
        return target.write_in_place(new);
    }
    match target.replace_by_rename(new)? {
        Some(metadata) => {
            sync_folder(target.place.folder);
            Ok(metadata)
        }
        None => target.write_in_place(new),
    }
}

/// A file about to be replaced.
struct ReplaceTarget<'a> {
    place: FileLocation,
    path: &'a Path,
    old: &'a LoadedFile,
    backups: &'a Path,
    recorded: &'a DurableBarrier,
}

impl ReplaceTarget<'_> {
    fn wait_for_record(&self) -> Result<(), ReplaceError> {
        self.recorded.wait().map_err(|source| ReplaceError::Stopped { path: self.path.to_owned(), source })
    }

    fn write_error(&self, source: impl Into<io::Error>) -> ReplaceError {
        ReplaceError::Write { path: self.path.to_owned(), source: source.into() }
    }

    fn is_writable(&self) -> bool {
        let may = rustix::fs::accessat(&self.place.folder, &self.place.name, Access::WRITE_OK, AtFlags::empty());
        self.old.metadata.mode() & 0o222 != 0 && may.is_ok()
    }

    /// Replaces the file by a rename; returns `None` when the folder does not allow it.
    fn replace_by_rename(&self, new: &[u8]) -> Result<Option<Metadata>, ReplaceError> {
        let mut temporary = match TemporaryFile::create(&self.place.folder, 0o600) {
            Ok(temporary) => temporary,
            Err(error) if forbids_renaming(&error) => return Ok(None),
            Err(error) => return Err(self.write_error(error)),
        };
        let Ok((model, _)) = open_regular_at(&self.place, self.path) else {
            return Err(ReplaceError::Changed(self.path.to_owned()));
        };
        if !temporary.copy_owner_and_mode(&model, &self.old.metadata) {
            return Ok(None);
        }
        let metadata = temporary.fill(new).map_err(|error| self.write_error(error))?;
        self.wait_for_record()?;
        if !self.is_unchanged() {
            return Err(ReplaceError::Changed(self.path.to_owned()));
        }
        match temporary.rename(&self.place, RenameFlags::empty()).map_err(io::Error::from) {
            Ok(()) => {}
            Err(error) if forbids_renaming(&error) => return Ok(None),
            Err(error) => return Err(self.write_error(error)),
        }
        temporary.persist();
        Ok(Some(metadata))
    }

    /// Writes into the file itself. The old bytes are stored first and put back when the write fails.
    fn write_in_place(&self, new: &[u8]) -> Result<Metadata, ReplaceError> {
        self.wait_for_record()?;
        gimlet_store::create_private_dirs(self.backups).map_err(|error| self.write_error(error))?;
        let backups = File::open(self.backups).map_err(|error| self.write_error(error))?.into();
        let mut backup = TemporaryFile::create(&backups, 0o600).map_err(|error| self.write_error(error))?;
        backup.fill(&self.old.bytes).map_err(|error| self.write_error(error))?;
        let mut file = self.place.open(OFlags::RDWR).map_err(|error| self.write_error(error))?;
        if !self.is_unchanged() {
            return Err(ReplaceError::Changed(self.path.to_owned()));
        }
        let Err(source) = overwrite(&mut file, new) else {
            return file.metadata().map_err(|error| self.write_error(error));
        };
        match overwrite(&mut file, &self.old.bytes) {
            Ok(()) => Err(self.write_error(source)),
            Err(_) => {
                let backup = self.backups.join(backup.persist());
                Err(ReplaceError::PartialWrite { path: self.path.to_owned(), backup, source })
            }
        }
    }

    /// Returns true if the file still holds what was loaded.
    fn is_unchanged(&self) -> bool {
        let Ok((_, now)) = open_regular_at(&self.place, self.path) else { return false };
        let identity = |m: &Metadata| (m.dev(), m.ino(), m.len(), m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec());
        if identity(&now) == identity(&self.old.metadata) && now.modified().is_ok_and(is_old_enough) {
            return true;
        }
        open_regular_at(&self.place, self.path).is_ok_and(|(now, _)| has_content(now, &self.old.bytes))
    }
}

/// Returns true if a file holds exactly these bytes. Reads in chunks, in constant memory.
fn has_content(mut file: File, mut expected: &[u8]) -> bool {
    let mut piece = vec![0; 64 * 1024];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return expected.is_empty(),
            Ok(count) => match expected.strip_prefix(&piece[..count]) {
                Some(rest) => expected = rest,
                None => return false,
            },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

fn forbids_renaming(error: &io::Error) -> bool {
    let codes = [Errno::ACCESS, Errno::PERM, Errno::ROFS, Errno::BUSY, Errno::XDEV];
    codes.iter().any(|code| error.raw_os_error() == Some(code.raw_os_error()))
}

/// Overwrites the whole content and reads it back: some network drives report success without writing.
fn overwrite(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    file.rewind()?;
    file.write_all(bytes)?;
    file.set_len(bytes.len() as u64)?;
    file.sync_all()?;
    file.rewind()?;
    let mut written = Vec::with_capacity(bytes.len());
    file.read_to_end(&mut written)?;
    if written == bytes { Ok(()) } else { Err(io::Error::other("the file does not hold what was written to it")) }
}

/// Returns true if a file time is old enough to be trusted.
pub(crate) fn is_old_enough(modified: SystemTime) -> bool {
    SystemTime::now().duration_since(modified).is_ok_and(|age| age >= SETTLED)
}

/// Makes a rename durable in the background. The content is safe already, so a file system that cannot do this is no
/// error: until it is done, a power cut leaves the old file intact.
fn sync_folder(folder: OwnedFd) {
    let sync = move || {
        // The handle may only serve for reaching files; syncing needs one that reads.
        if let Ok(folder) = rustix::fs::openat(&folder, ".", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
            let _ = rustix::fs::fsync(folder);
        }
    };
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(sync)),
        Err(_) => sync(),
    }
}

/// A file under an unguessable name that is removed again unless it is kept.
struct TemporaryFile<'a> {
    folder: &'a OwnedFd,
    name: String,
    file: File,
    kept: bool,
}

impl<'a> TemporaryFile<'a> {
    fn create(folder: &'a OwnedFd, mode: u32) -> io::Result<Self> {
        let name = format!(".gimlet-{}.tmp", uuid::Uuid::new_v4().simple());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(folder, &name, flags, Mode::from_raw_mode(mode))?.into();
        Ok(Self { folder, name, file, kept: false })
    }

    fn rename(&self, to: &FileLocation, flags: RenameFlags) -> rustix::io::Result<()> {
        if flags.is_empty() {
            return rustix::fs::renameat(self.folder, &self.name, &to.folder, &to.name);
        }
        rustix::fs::renameat_with(self.folder, &self.name, &to.folder, &to.name, flags)
    }

    /// Writes everything and waits until it is on disk.
    fn fill(&mut self, bytes: &[u8]) -> io::Result<Metadata> {
        self.file.write_all(bytes)?;
        self.file.sync_all()?;
        self.file.metadata()
    }

    /// Copies owner, extended attributes (access lists among them) and mode. Returns false when the owner would change.
    fn copy_owner_and_mode(&self, model: &File, metadata: &Metadata) -> bool {
        let Ok(own) = self.file.metadata() else { return false };
        if (own.uid(), own.gid()) != (metadata.uid(), metadata.gid())
            && std::os::unix::fs::fchown(&self.file, Some(metadata.uid()), Some(metadata.gid())).is_err()
        {
            return false;
        }
        copy_attributes(model, &self.file);
        // After the attributes, because an access list rewrites the mode. Set-id bits do not survive a write.
        self.file.set_permissions(Permissions::from_mode(metadata.mode() & 0o777)).is_ok()
    }

    /// Keeps the file, or records that it was renamed; returns the name it was created with.
    fn persist(mut self) -> String {
        self.kept = true;
        std::mem::take(&mut self.name)
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        if !self.kept {
            let _ = rustix::fs::unlinkat(self.folder, &self.name, AtFlags::empty());
        }
    }
}

/// Copies extended attributes where possible; file systems without them and attributes that only the system may set are
/// skipped.
fn copy_attributes(model: &File, file: &File) {
    let mut names = vec![0u8; 4096];
    let length = match rustix::fs::flistxattr(model, &mut names[..]) {
        Ok(length) => length,
        Err(Errno::RANGE) => {
            names.resize(64 * 1024, 0);
            rustix::fs::flistxattr(model, &mut names[..]).unwrap_or(0)
        }
        Err(_) => 0,
    };
    let mut value = Vec::new();
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        value.resize(64 * 1024, 0);
        if let Ok(size) = rustix::fs::fgetxattr(model, name, &mut value[..]) {
            let _ = rustix::fs::fsetxattr(file, name, &value[..size], XattrFlags::empty());
        }
    }
}

#[cfg(test)]
#[path = "replace_tests.rs"]
mod replace_tests;
