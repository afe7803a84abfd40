//! Leases on settings files while sandboxed commands run. A sandboxed command can write a settings file in its own
//! folder, and its changes are checked only after it has ended. Until then, the content from before the command
//! counts.
//!
//! That content is kept in the config home, where no sandboxed command can write, so that every gimlet process can
//! read it; and in this process, in case the config home is read-only. What gimlet itself writes meanwhile is added
//! to the record.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use gimlet_fs::read_file;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::file_update;
use crate::locations::SettingsLocations;
use crate::size_limits::SETTINGS_MAX_BYTES;
use crate::symlink_names::symlink_names;

/// Maximum size of a record, which holds a few settings files.
const RECORD_MAX_BYTES: u64 = 16 * SETTINGS_MAX_BYTES;

/// Content of a settings file that counts while a command runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeasedContent {
    /// Text of the file; `None` if it does not exist.
    pub text: Option<String>,
    /// True if gimlet itself has written the file since the command began.
    #[serde(default)]
    pub rewritten: bool,
}

/// Record of one command: leased content by file.
type LeaseRecord = BTreeMap<PathBuf, LeasedContent>;

/// Records of this process, by id.
static OWN: Mutex<BTreeMap<String, LeaseRecord>> = Mutex::new(BTreeMap::new());

fn own_records() -> MutexGuard<'static, BTreeMap<String, LeaseRecord>> {
    // Records are replaced as a whole, so a poisoned lock still guards consistent data.
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lease_folder(config_dir: &Path) -> PathBuf {
    config_dir.join("gimlet/running")
}

/// Lease on settings files while a command runs that could write them. Call [`SettingsLease::release`] when the
/// command has been checked; dropping the lease leaves an abandoned record on disk.
#[derive(Debug)]
pub struct SettingsLease {
    folder: PathBuf,
    id: String,
    /// Lock that this process holds, so that others can check whether it still runs.
    lock: Option<File>,
}

impl SettingsLease {
    /// Records the content of these files. Must be called before the command starts. For a file that is already
    /// leased, the leased content is recorded.
    pub fn begin(locations: &SettingsLocations, files: impl IntoIterator<Item = PathBuf>) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let now = |file: PathBuf| (LeasedContent { text: read_lossy_text(&file), rewritten: false }, file);
        let (standing, files) =
            LeaseWindow::read_with_leases(locations, || files.into_iter().map(now).collect::<Vec<_>>());
        let vouched =
            |(now, file): (LeasedContent, PathBuf)| (standing.leased_content(&file).cloned().unwrap_or(now), file);
        let record: LeaseRecord = files.into_iter().map(vouched).map(|(vouched, file)| (file, vouched)).collect();
        let folder = lease_folder(&locations.config_dir);
        remove_stale_records(&folder);
        // The name begins with the time, so that the oldest record sorts first.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let id = format!("{since:020}-{}-{count}", std::process::id());
        // If the record cannot be written, only this process knows about the lease.
        let lock = if record.is_empty() { None } else { write_record(&folder, &id, &record).ok() };
        own_records().insert(id.clone(), record);
        Self { folder, id, lock }
    }

    /// Returns the content that the files must have when the command has ended.
    pub fn files(&self) -> Vec<(PathBuf, LeasedContent)> {
        let here = own_records().get(&self.id).cloned().unwrap_or_default();
        read_record(&record_path(&self.folder, &self.id)).unwrap_or(here).into_iter().collect()
    }

    /// Ends the lease: the command was checked or never ran, so that the files count as they are.
    pub fn release(self) {
        own_records().remove(&self.id);
        remove_record(&self.folder, &self.id);
    }
}

impl Drop for SettingsLease {
    fn drop(&mut self) {
        // The record stays without its lock, like that of a process that has ended. If no record could be written, the
        // lease stays in this process.
        if self.lock.is_some() {
            own_records().remove(&self.id);
        }
    }
}

/// Leases of all running commands at one moment.
#[derive(Debug, Default)]
struct ActiveLeases {
    files: BTreeMap<PathBuf, LeasedContent>,
    /// Leases of commands whose gimlet process ended before the command was checked.
    abandoned: BTreeMap<PathBuf, LeasedContent>,
}

impl ActiveLeases {
    fn read(locations: &SettingsLocations) -> Self {
        let folder = lease_folder(&locations.config_dir);
        let mut standing = Self::default();
        for id in list_record_ids(&folder) {
            let Some(mut record) = read_record(&record_path(&folder, &id)) else { continue };
            if !locations.user.check_config_home(&locations.config_dir, &record_path(&folder, &id)).is_empty() {
                // Another user could have written the record, so it does not count.
                record.values_mut().for_each(|vouched| vouched.text = None);
            }
            let list = if is_owner_alive(&folder, &id) { &mut standing.files } else { &mut standing.abandoned };
            for (file, vouched) in record {
                list.entry(file).or_insert(vouched);
            }
        }
        for (file, vouched) in own_records().values().flatten() {
            standing.files.entry(file.clone()).or_insert_with(|| vouched.clone());
        }
        standing
    }

    /// Returns the leased content of a file, or `None` if no running command could write it.
    fn leased_content(&self, file: &Path) -> Option<&LeasedContent> {
        self.files.get(file)
    }

    fn is_abandoned_change(&self, file: &Path, now: Option<&[u8]>) -> bool {
        self.abandoned.get(file).is_some_and(|vouched| !is_unchanged(vouched, now))
    }
}

/// Leases before and after a read. A command can begin or end in between.
#[derive(Debug, Default)]
pub(crate) struct LeaseWindow {
    before: ActiveLeases,
    after: ActiveLeases,
}

impl LeaseWindow {
    /// Runs a read and returns its result with the leases around it.
    pub(crate) fn read_with_leases<T>(locations: &SettingsLocations, read: impl FnOnce() -> T) -> (Self, T) {
        let before = ActiveLeases::read(locations);
        let read = read();
        (Self { before, after: ActiveLeases::read(locations) }, read)
    }

    fn leased_content(&self, file: &Path) -> Option<&LeasedContent> {
        self.after.leased_content(file).or_else(|| self.before.leased_content(file))
    }

    /// Returns true if a file with these bytes could have been written by a command before or after the read.
    pub(crate) fn suspect_content(&self, file: &Path, read: Option<&[u8]>) -> Option<&LeasedContent> {
        // gimlet itself may have written the file in between; then both contents are known.
        let known = [&self.after, &self.before].map(|standing| standing.leased_content(file));
        let is_known = known.into_iter().flatten().any(|vouched| is_unchanged(vouched, read));
        if is_known { None } else { self.leased_content(file) }
    }

    /// Returns true if the content could come from a command that will never be checked.
    pub(crate) fn is_abandoned_change(&self, file: &Path, read: Option<&[u8]>) -> bool {
        [&self.before, &self.after].iter().any(|standing| standing.is_abandoned_change(file, read))
    }
}

/// Returns true if there is no lease on this file, so that its content counts.
pub(crate) fn is_released(locations: &SettingsLocations, file: &Path) -> bool {
    ActiveLeases::read(locations).leased_content(file).is_none()
}

/// Records that gimlet itself replaced the content `before` of a file by this text. Writes of other programs in
/// between are not covered.
pub fn record_rewrite(locations: &SettingsLocations, file: &Path, before: Option<&str>, after: &str) {
    let names = symlink_names(file);
    let renew = |record: &mut LeaseRecord| {
        let known = record.iter_mut().filter(|(name, _)| names.contains(name)).map(|(_, vouched)| vouched);
        let mut same = known.filter(|vouched| vouched.text.as_deref() == before).peekable();
        let is_new = same.peek().is_some();
        same.for_each(|vouched| *vouched = LeasedContent { text: Some(after.to_owned()), rewritten: true });
        is_new
    };
    for record in own_records().values_mut() {
        renew(record);
    }
    let folder = lease_folder(&locations.config_dir);
    for id in list_record_ids(&folder) {
        let change = |text: Option<&str>| -> Result<Option<String>, serde_json::Error> {
            let Some(text) = text else { return Ok(None) };
            let mut record: LeaseRecord = serde_json::from_str(text)?;
            if renew(&mut record) { serde_json::to_string(&record).map(Some) } else { Ok(None) }
        };
        // If the record cannot be updated, the new content counts as a change by the command.
        drop(file_update::update_file(&record_path(&folder, &id), RECORD_MAX_BYTES, change));
    }
}

/// Removes abandoned leases on these files after the user has reviewed them.
pub fn forget_abandoned_leases(locations: &SettingsLocations) {
    let folder = lease_folder(&locations.config_dir);
    let here = locations.permission_files();
    for id in list_record_ids(&folder).into_iter().filter(|id| !is_owner_alive(&folder, id)) {
        if read_record(&record_path(&folder, &id)).is_some_and(|record| record.keys().any(|file| here.contains(file))) {
            remove_record(&folder, &id);
        }
    }
}

/// Removes records of ended processes if every file still has its leased content.
fn remove_stale_records(folder: &Path) {
    for id in list_record_ids(folder).into_iter().filter(|id| !is_owner_alive(folder, id)) {
        let is_settled =
            |record: &LeaseRecord| record.iter().all(|(file, vouched)| read_lossy_text(file) == vouched.text);
        if read_record(&record_path(folder, &id)).is_none_or(|record| is_settled(&record)) {
            remove_record(folder, &id);
        }
    }
}

fn is_unchanged(vouched: &LeasedContent, now: Option<&[u8]>) -> bool {
    vouched.text.as_deref() == now.map(String::from_utf8_lossy).as_deref()
}

/// Returns the text of a file, invalid UTF-8 replaced; `None` if it cannot be read.
fn read_lossy_text(file: &Path) -> Option<String> {
    let bytes = read_file(file, 2 * SETTINGS_MAX_BYTES).ok().flatten()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn record_path(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.json"))
}

fn lock_path(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.lock"))
}

/// Returns the ids of all records, the oldest first.
fn list_record_ids(folder: &Path) -> Vec<String> {
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    let name = |entry: io::Result<std::fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
    let names = entries.filter_map(name).filter(|name| !name.starts_with('.'));
    let mut ids: Vec<String> = names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned)).collect();
    ids.sort_unstable();
    ids
}

fn read_record(record: &Path) -> Option<LeaseRecord> {
    serde_json::from_slice(&read_file(record, RECORD_MAX_BYTES).ok().flatten()?).ok()
}

fn write_record(folder: &Path, id: &str, record: &LeaseRecord) -> io::Result<File> {
    gimlet_fs::create_private_dir_all(folder)?;
    let private = |path: &Path| File::options().write(true).create_new(true).mode(0o600).open(path);
    let lock = private(&lock_path(folder, id))?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    // Written atomically. It need not survive a reboot, so it is not synced.
    let temporary = folder.join(format!(".{id}.tmp"));
    serde_json::to_writer(private(&temporary)?, record)?;
    std::fs::rename(temporary, record_path(folder, id))?;
    Ok(lock)
}

fn remove_record(folder: &Path, id: &str) {
    // A missing record is fine; one that cannot be removed is removed by a later command.
    drop(std::fs::remove_file(record_path(folder, id)));
    drop(std::fs::remove_file(lock_path(folder, id)));
}

/// Returns true if the process that wrote a record may still run.
fn is_owner_alive(folder: &Path, id: &str) -> bool {
    match File::open(lock_path(folder, id)) {
        Ok(lock) => rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).is_err(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
#[path = "vouched_tests.rs"]
mod tests;
