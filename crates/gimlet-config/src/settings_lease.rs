//! Settings files while sandboxed commands run. Such a command could write one that lies in a folder of its own, and what it
//! wrote there is looked after only when it has ended. Until then a file says what it said when the command began.
//!
//! What that was is kept in the config home, where no sandboxed command can write, so that every gimlet knows of it; and
//! in this process, for a config home that cannot be written at all. What gimlet itself writes meanwhile is added there:
//! it is the person's.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::atomic_write;
use crate::bounded_read::{self, SETTINGS_MAX_BYTES};
use crate::locations::SettingsLocations;
use crate::symlink_names::symlink_names;

/// A record holds a handful of settings files.
const RECORD_MAX_BYTES: u64 = 16 * SETTINGS_MAX_BYTES;

/// What a settings file is known to say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeasedContent {
    /// `None` where there is no such file.
    pub text: Option<String>,
    /// gimlet itself has written it since.
    #[serde(default)]
    pub rewritten: bool,
}

/// What one command's record says, by file.
type LeaseRecord = BTreeMap<PathBuf, LeasedContent>;

/// The records of this process.
static OWN: Mutex<BTreeMap<String, LeaseRecord>> = Mutex::new(BTreeMap::new());

fn own_records() -> MutexGuard<'static, BTreeMap<String, LeaseRecord>> {
    // Every record is whole at any moment.
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lease_folder(config_dir: &Path) -> PathBuf {
    config_dir.join("gimlet/running")
}

/// Vouches for settings files for as long as a command runs that could write them. Whoever drops it without a word leaves a
/// record that nobody looks after.
#[derive(Debug)]
pub struct SettingsLease {
    folder: PathBuf,
    id: String,
    /// Held by this process alone, so that others can tell whether it still lives.
    lock: Option<File>,
}

impl SettingsLease {
    /// Takes down what these files say. To be called before the command starts. One that is in doubt already says what it
    /// said before it was.
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
        // The oldest is the first by name.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let id = format!("{since:020}-{}-{count}", std::process::id());
        // Where it cannot be written, this process knows of it and others do not.
        let lock = if record.is_empty() { None } else { write_record(&folder, &id, &record).ok() };
        own_records().insert(id.clone(), record);
        Self { folder, id, lock }
    }

    /// What the files have to say when the command has ended.
    pub fn files(&self) -> Vec<(PathBuf, LeasedContent)> {
        let here = own_records().get(&self.id).cloned().unwrap_or_default();
        read_record(&record_path(&self.folder, &self.id)).unwrap_or(here).into_iter().collect()
    }

    /// The command has ended and its traces were looked for, or it never ran: files say what they say.
    pub fn release(self) {
        own_records().remove(&self.id);
        remove_record(&self.folder, &self.id);
    }
}

impl Drop for SettingsLease {
    fn drop(&mut self) {
        // The record stays and loses its lock: it is that of a gimlet that is gone. Where none could be written, this
        // process goes on knowing.
        if self.lock.is_some() {
            own_records().remove(&self.id);
        }
    }
}

/// What is vouched for at one moment, by all commands that run.
#[derive(Debug, Default)]
struct ActiveLeases {
    files: BTreeMap<PathBuf, LeasedContent>,
    /// Those of commands whose gimlet is gone: nobody looked after them.
    abandoned: BTreeMap<PathBuf, LeasedContent>,
}

impl ActiveLeases {
    fn read(locations: &SettingsLocations) -> Self {
        let folder = lease_folder(&locations.config_dir);
        let mut standing = Self::default();
        for id in list_record_ids(&folder) {
            let Some(mut record) = read_record(&record_path(&folder, &id)) else { continue };
            if !locations.user.check_config_home(&locations.config_dir, &record_path(&folder, &id)).is_empty() {
                // Somebody else could have written it, and may say nothing in a file's name.
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

    /// What a file is known to say, while a command runs that could write it.
    fn leased_content(&self, file: &Path) -> Option<&LeasedContent> {
        self.files.get(file)
    }

    fn is_abandoned_change(&self, file: &Path, now: Option<&[u8]>) -> bool {
        self.abandoned.get(file).is_some_and(|vouched| !is_unchanged(vouched, now))
    }
}

/// What was vouched for before something was read and after it. A command can begin or end in between.
#[derive(Debug, Default)]
pub(crate) struct LeaseWindow {
    before: ActiveLeases,
    after: ActiveLeases,
}

impl LeaseWindow {
    /// Reads something, and what is vouched for meanwhile.
    pub(crate) fn read_with_leases<T>(locations: &SettingsLocations, read: impl FnOnce() -> T) -> (Self, T) {
        let before = ActiveLeases::read(locations);
        let read = read();
        (Self { before, after: ActiveLeases::read(locations) }, read)
    }

    fn leased_content(&self, file: &Path) -> Option<&LeasedContent> {
        self.after.leased_content(file).or_else(|| self.before.leased_content(file))
    }

    /// Whether a file that had these bytes could have been a command's work at either time.
    pub(crate) fn suspect_content(&self, file: &Path, read: Option<&[u8]>) -> Option<&LeasedContent> {
        // gimlet itself may have written it in between, and then both are known.
        let known = [&self.after, &self.before].map(|standing| standing.leased_content(file));
        let is_known = known.into_iter().flatten().any(|vouched| is_unchanged(vouched, read));
        self.leased_content(file).filter(|_| !is_known)
    }

    /// Whether it could be the work of a command that nobody will look after any more.
    pub(crate) fn is_abandoned_change(&self, file: &Path, read: Option<&[u8]>) -> bool {
        [&self.before, &self.after].iter().any(|standing| standing.is_abandoned_change(file, read))
    }
}

/// Whether nobody vouches for this file any more, so that it says what it says.
pub(crate) fn is_released(locations: &SettingsLocations, file: &Path) -> bool {
    ActiveLeases::read(locations).leased_content(file).is_none()
}

/// Takes note that gimlet itself has made this text of a file that said that `before`. Whoever else wrote in between is not
/// vouched for by this.
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
        // A record that cannot be changed takes the file away, as it would any other.
        drop(atomic_write::update_file(&record_path(&folder, &id), RECORD_MAX_BYTES, change));
    }
}

/// Forgets what commands left behind in these files whose gimlet is gone: the person has looked at them.
pub fn forget_abandoned_leases(locations: &SettingsLocations) {
    let folder = lease_folder(&locations.config_dir);
    let here = locations.permission_files();
    for id in list_record_ids(&folder).into_iter().filter(|id| !is_owner_alive(&folder, id)) {
        if read_record(&record_path(&folder, &id)).is_some_and(|record| record.keys().any(|file| here.contains(file))) {
            remove_record(&folder, &id);
        }
    }
}

/// Removes the records of processes that are gone and left every file as it was.
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

/// What a file says, whatever its bytes are; what cannot be read says nothing.
fn read_lossy_text(file: &Path) -> Option<String> {
    let bytes = bounded_read::read_file(file, 2 * SETTINGS_MAX_BYTES).ok().flatten()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn record_path(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.json"))
}

fn lock_path(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.lock"))
}

/// The records there are, the oldest first.
fn list_record_ids(folder: &Path) -> Vec<String> {
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    let name = |entry: io::Result<std::fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
    let names = entries.filter_map(name).filter(|name| !name.starts_with('.'));
    let mut ids: Vec<String> = names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned)).collect();
    ids.sort_unstable();
    ids
}

fn read_record(record: &Path) -> Option<LeaseRecord> {
    serde_json::from_slice(&bounded_read::read_file(record, RECORD_MAX_BYTES).ok().flatten()?).ok()
}

fn write_record(folder: &Path, id: &str, record: &LeaseRecord) -> io::Result<File> {
    atomic_write::create_private_folder(folder)?;
    let private = |path: &Path| File::options().write(true).create_new(true).mode(0o600).open(path);
    let lock = private(&lock_path(folder, id))?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    // Nobody reads a part of it. It need not outlive the machine, so it is not forced to disk.
    let temporary = folder.join(format!(".{id}.tmp"));
    serde_json::to_writer(private(&temporary)?, record)?;
    std::fs::rename(temporary, record_path(folder, id))?;
    Ok(lock)
}

fn remove_record(folder: &Path, id: &str) {
    // What is not there need not be removed; what cannot be removed is tidied up by a later command.
    drop(std::fs::remove_file(record_path(folder, id)));
    drop(std::fs::remove_file(lock_path(folder, id)));
}

/// Whether the process that wrote a record still runs. Where nobody can tell, it may.
fn is_owner_alive(folder: &Path, id: &str) -> bool {
    match File::open(lock_path(folder, id)) {
        Ok(lock) => rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).is_err(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
#[path = "vouched_tests.rs"]
mod tests;
