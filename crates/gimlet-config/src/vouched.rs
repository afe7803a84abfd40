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

use crate::atomic;
use crate::files::{self, SETTINGS_MAX_BYTES};
use crate::locations::Locations;
use crate::spellings::spellings;

/// A record holds a handful of settings files.
const RECORD_MAX_BYTES: u64 = 16 * SETTINGS_MAX_BYTES;

/// What a settings file is known to say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vouched {
    /// `None` where there is no such file.
    pub text: Option<String>,
    /// gimlet itself has written it since.
    #[serde(default)]
    pub rewritten: bool,
}

/// What one command's record says, by file.
type Record = BTreeMap<PathBuf, Vouched>;

/// The records of this process.
static OWN: Mutex<BTreeMap<String, Record>> = Mutex::new(BTreeMap::new());

fn own() -> MutexGuard<'static, BTreeMap<String, Record>> {
    // Every record is whole at any moment.
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn folder_in(config_dir: &Path) -> PathBuf {
    config_dir.join("gimlet/running")
}

/// Vouches for settings files for as long as a command runs that could write them. Whoever drops it without a word leaves a
/// record that nobody looks after.
#[derive(Debug)]
pub struct Vouching {
    folder: PathBuf,
    id: String,
    /// Held by this process alone, so that others can tell whether it still lives.
    lock: Option<File>,
}

impl Vouching {
    /// Takes down what these files say. To be called before the command starts. One that is in doubt already says what it
    /// said before it was.
    pub fn begin(locations: &Locations, files: impl IntoIterator<Item = PathBuf>) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let now = |file: PathBuf| (Vouched { text: text_of(&file), rewritten: false }, file);
        let (standing, files) = Around::read(locations, || files.into_iter().map(now).collect::<Vec<_>>());
        let vouched = |(now, file): (Vouched, PathBuf)| (standing.vouched(&file).cloned().unwrap_or(now), file);
        let record: Record = files.into_iter().map(vouched).map(|(vouched, file)| (file, vouched)).collect();
        let folder = folder_in(&locations.config_dir);
        tidy(&folder);
        // The oldest is the first by name.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let id = format!("{since:020}-{}-{count}", std::process::id());
        // Where it cannot be written, this process knows of it and others do not.
        let lock = if record.is_empty() { None } else { write(&folder, &id, &record).ok() };
        own().insert(id.clone(), record);
        Self { folder, id, lock }
    }

    /// What the files have to say when the command has ended.
    pub fn files(&self) -> Vec<(PathBuf, Vouched)> {
        let here = own().get(&self.id).cloned().unwrap_or_default();
        read(&place(&self.folder, &self.id)).unwrap_or(here).into_iter().collect()
    }

    /// The command has ended and its traces were looked for, or it never ran: files say what they say.
    pub fn settled(self) {
        own().remove(&self.id);
        remove(&self.folder, &self.id);
    }
}

impl Drop for Vouching {
    fn drop(&mut self) {
        // The record stays and loses its lock: it is that of a gimlet that is gone. Where none could be written, this
        // process goes on knowing.
        if self.lock.is_some() {
            own().remove(&self.id);
        }
    }
}

/// What is vouched for at one moment, by all commands that run.
#[derive(Debug, Default)]
struct Standing {
    files: BTreeMap<PathBuf, Vouched>,
    /// Those of commands whose gimlet is gone: nobody looked after them.
    abandoned: BTreeMap<PathBuf, Vouched>,
}

impl Standing {
    fn read(locations: &Locations) -> Self {
        let folder = folder_in(&locations.config_dir);
        let mut standing = Self::default();
        for id in ids(&folder) {
            let Some(mut record) = read(&place(&folder, &id)) else { continue };
            if !locations.person.home_doubts(&locations.config_dir, &place(&folder, &id)).is_empty() {
                // Somebody else could have written it, and may say nothing in a file's name.
                record.values_mut().for_each(|vouched| vouched.text = None);
            }
            let list = if is_alive(&folder, &id) { &mut standing.files } else { &mut standing.abandoned };
            for (file, vouched) in record {
                list.entry(file).or_insert(vouched);
            }
        }
        for (file, vouched) in own().values().flatten() {
            standing.files.entry(file.clone()).or_insert_with(|| vouched.clone());
        }
        standing
    }

    /// What a file is known to say, while a command runs that could write it.
    fn vouched(&self, file: &Path) -> Option<&Vouched> {
        self.files.get(file)
    }

    fn was_abandoned(&self, file: &Path, now: Option<&[u8]>) -> bool {
        self.abandoned.get(file).is_some_and(|vouched| !is_same(vouched, now))
    }
}

/// What was vouched for before something was read and after it. A command can begin or end in between.
#[derive(Debug, Default)]
pub(crate) struct Around {
    before: Standing,
    after: Standing,
}

impl Around {
    /// Reads something, and what is vouched for meanwhile.
    pub(crate) fn read<T>(locations: &Locations, read: impl FnOnce() -> T) -> (Self, T) {
        let before = Standing::read(locations);
        let read = read();
        (Self { before, after: Standing::read(locations) }, read)
    }

    fn vouched(&self, file: &Path) -> Option<&Vouched> {
        self.after.vouched(file).or_else(|| self.before.vouched(file))
    }

    /// Whether a file that had these bytes could have been a command's work at either time.
    pub(crate) fn doubts(&self, file: &Path, read: Option<&[u8]>) -> Option<&Vouched> {
        // gimlet itself may have written it in between, and then both are known.
        let known = [&self.after, &self.before].map(|standing| standing.vouched(file));
        let is_known = known.into_iter().flatten().any(|vouched| is_same(vouched, read));
        self.vouched(file).filter(|_| !is_known)
    }

    /// Whether it could be the work of a command that nobody will look after any more.
    pub(crate) fn was_abandoned(&self, file: &Path, read: Option<&[u8]>) -> bool {
        [&self.before, &self.after].iter().any(|standing| standing.was_abandoned(file, read))
    }
}

/// Whether nobody vouches for this file any more, so that it says what it says.
pub(crate) fn is_over(locations: &Locations, file: &Path) -> bool {
    Standing::read(locations).vouched(file).is_none()
}

/// Takes note that gimlet itself has made this text of a file that said that `before`. Whoever else wrote in between is not
/// vouched for by this.
pub fn rewritten(locations: &Locations, file: &Path, before: Option<&str>, after: &str) {
    let names = spellings(file);
    let renew = |record: &mut Record| {
        let known = record.iter_mut().filter(|(name, _)| names.contains(name)).map(|(_, vouched)| vouched);
        let mut same = known.filter(|vouched| vouched.text.as_deref() == before).peekable();
        let is_new = same.peek().is_some();
        same.for_each(|vouched| *vouched = Vouched { text: Some(after.to_owned()), rewritten: true });
        is_new
    };
    for record in own().values_mut() {
        renew(record);
    }
    let folder = folder_in(&locations.config_dir);
    for id in ids(&folder) {
        let change = |text: Option<&str>| -> Result<Option<String>, serde_json::Error> {
            let Some(text) = text else { return Ok(None) };
            let mut record: Record = serde_json::from_str(text)?;
            if renew(&mut record) { serde_json::to_string(&record).map(Some) } else { Ok(None) }
        };
        // A record that cannot be changed takes the file away, as it would any other.
        drop(atomic::update(&place(&folder, &id), RECORD_MAX_BYTES, change));
    }
}

/// Forgets what commands left behind in these files whose gimlet is gone: the person has looked at them.
pub fn forget_abandoned(locations: &Locations) {
    let folder = folder_in(&locations.config_dir);
    let here = locations.governing();
    for id in ids(&folder).into_iter().filter(|id| !is_alive(&folder, id)) {
        if read(&place(&folder, &id)).is_some_and(|record| record.keys().any(|file| here.contains(file))) {
            remove(&folder, &id);
        }
    }
}

/// Removes the records of processes that are gone and left every file as it was.
fn tidy(folder: &Path) {
    for id in ids(folder).into_iter().filter(|id| !is_alive(folder, id)) {
        let is_settled = |record: &Record| record.iter().all(|(file, vouched)| text_of(file) == vouched.text);
        if read(&place(folder, &id)).is_none_or(|record| is_settled(&record)) {
            remove(folder, &id);
        }
    }
}

fn is_same(vouched: &Vouched, now: Option<&[u8]>) -> bool {
    vouched.text.as_deref() == now.map(String::from_utf8_lossy).as_deref()
}

/// What a file says, whatever its bytes are; what cannot be read says nothing.
fn text_of(file: &Path) -> Option<String> {
    let bytes = files::read(file, 2 * SETTINGS_MAX_BYTES).ok().flatten()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn place(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.json"))
}

fn lock_place(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.lock"))
}

/// The records there are, the oldest first.
fn ids(folder: &Path) -> Vec<String> {
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    let name = |entry: io::Result<std::fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
    let names = entries.filter_map(name).filter(|name| !name.starts_with('.'));
    let mut ids: Vec<String> = names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned)).collect();
    ids.sort_unstable();
    ids
}

fn read(record: &Path) -> Option<Record> {
    serde_json::from_slice(&files::read(record, RECORD_MAX_BYTES).ok().flatten()?).ok()
}

fn write(folder: &Path, id: &str, record: &Record) -> io::Result<File> {
    atomic::make_folder(folder)?;
    let private = |path: &Path| File::options().write(true).create_new(true).mode(0o600).open(path);
    let lock = private(&lock_place(folder, id))?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    // Nobody reads a part of it. It need not outlive the machine, so it is not forced to disk.
    let temporary = folder.join(format!(".{id}.tmp"));
    serde_json::to_writer(private(&temporary)?, record)?;
    std::fs::rename(temporary, place(folder, id))?;
    Ok(lock)
}

fn remove(folder: &Path, id: &str) {
    // What is not there need not be removed; what cannot be removed is tidied up by a later command.
    drop(std::fs::remove_file(place(folder, id)));
    drop(std::fs::remove_file(lock_place(folder, id)));
}

/// Whether the process that wrote a record still runs. Where nobody can tell, it may.
fn is_alive(folder: &Path, id: &str) -> bool {
    match File::open(lock_place(folder, id)) {
        Ok(lock) => rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).is_err(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
#[path = "vouched_tests.rs"]
mod tests;
