//! Cleanup of processes that an earlier run lost: after `kill -9` of gimlet and its custodian together, no process is
//! left to do it then.
//!
//! A run that starts commands leaves a small record in the runtime directory, locked for as long as it lives, and
//! removes it at its orderly end. Only an unlocked record makes the next start inspect other processes at all: a lock
//! is visible from every container that shares the directory, a process id is not. The processes that are then killed
//! carry that run's mark, are pinned by a descriptor before they are inspected, and belong to this user.

use std::fs::{self, File, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Signal;

use crate::exec::MARKER_VARIABLE;
use crate::procfs::{self, ProcessEntry};

const EXTENSION: &str = "run";
/// Extension of a record that is being written; a sweep skips it.
const UNFINISHED_EXTENSION: &str = "new";
/// Maximum number of passes: killing reparents children, but they stay visible; more passes mean that something keeps
/// forking.
const MAX_ROUNDS: usize = 20;

/// Reason why a sweep could not run.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    #[error("cannot look for records of earlier runs in {path}", path = path.display())]
    Read { path: PathBuf, source: io::Error },
}

/// Result of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SweepReport {
    /// Runs that had died without removing their record.
    pub dead_runs: usize,
    /// Processes of theirs that were still alive and are now ended.
    pub ended_processes: usize,
}

/// Kills the processes that dead runs left behind. Costs one directory listing when there is nothing to do.
pub fn sweep_orphans(runtime_dir: &Path) -> Result<SweepReport, SweepError> {
    let entries = match fs::read_dir(runtime_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(SweepReport::default()),
        Err(source) => return Err(SweepError::Read { path: runtime_dir.to_owned(), source }),
    };
    let here = PidSpace::for_this_process();
    let mut swept = SweepReport::default();
    for path in entries.flatten().map(|entry| entry.path()) {
        // Held until the record is gone, so that two starts do not sweep one run.
        let Some((mut file, marker)) = lock_abandoned_record(&path) else { continue };
        let record = RunRecord::read(marker, &mut file);
        match record {
            // Its processes are not visible here; a start that can see them will find the record.
            Some((_, place)) if place.boot == here.boot && place.pids != here.pids => continue,
            Some((run, place)) if place == here => {
                swept.dead_runs += 1;
                swept.ended_processes += run.kill_all();
            }
            // No process outlives a boot, and text that is not a record identifies no process.
            Some(_) | None => {}
        }
        // A failure leaves the record for the next start.
        drop(fs::remove_file(path));
    }
    Ok(swept)
}

/// Opens and locks the record at a path, and returns it with its marker; `None` when it is not a record or its run
/// may be alive.
fn lock_abandoned_record(path: &Path) -> Option<(File, String)> {
    if path.extension()? != EXTENSION {
        return None;
    }
    let marker = path.file_stem()?.to_str()?.to_owned();
    let file = fs::OpenOptions::new().read(true).write(true).open(path).ok()?;
    match file.try_lock() {
        Ok(()) => Some((file, marker)),
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => None,
    }
}

/// Scope in which the process ids of a record are valid: one boot of one machine, and one pid namespace in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PidSpace {
    boot: String,
    pids: String,
}

impl PidSpace {
    fn for_this_process() -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let pids = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Self { boot: boot.trim().to_owned(), pids: pids.display().to_string() }
    }
}

/// One run of gimlet and the means to identify the processes that it started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunRecord {
    /// Marker in the environment of commands: the session, this process's id and start time, and a count.
    marker: String,
    /// Mark of custodian, keepers and commands, stored as a resource limit that no system enforces. Unlike a variable
    /// it persists when a command clears its environment.
    mark: u64,
}

impl RunRecord {
    pub(crate) fn for_this_process(session: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let started = ProcessEntry::read(pid).map_or(0, |process| process.started);
        // The marker is also a file name.
        let session: String = session.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')).collect();
        let marker = format!("{session}.{pid}.{started}.{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let mut hasher = DefaultHasher::new();
        (&marker, PidSpace::for_this_process().boot).hash(&mut hasher);
        // Above every limit that a user would set on purpose, below the value for "none".
        let mark = (hasher.finish() >> 2) | 1 << 61;
        Self { marker, mark }
    }

    pub(crate) fn marker(&self) -> &str {
        &self.marker
    }

    pub(crate) fn mark(&self) -> u64 {
        self.mark
    }

    /// Kills every process of this run except this one; returns their number.
    pub(crate) fn kill_all(&self) -> usize {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let mut ended = Vec::new();
        for _ in 0..MAX_ROUNDS {
            let belongs = |process: &ProcessEntry| process.pid != own && !process.zombie && self.has_started(process);
            let found: Vec<ProcessEntry> = procfs::list_processes().into_iter().filter(belongs).collect();
            if found.is_empty() {
                break;
            }
            for process in found {
                // `signal` pins the process and compares its start time, so the id cannot have been reused.
                if process.signal(Signal::KILL).is_ok() && !ended.contains(&process.pid) {
                    ended.push(process.pid);
                }
            }
        }
        ended.len()
    }

    fn has_started(&self, process: &ProcessEntry) -> bool {
        process.file_lock_limit() == Some(self.mark)
            || process.initial_env_var(MARKER_VARIABLE.as_bytes()).as_deref() == Some(self.marker.as_bytes())
    }

    /// Parses a record written by [`Self::write_locked`]; returns `None` for anything else.
    fn read(marker: String, file: &mut File) -> Option<(Self, PidSpace)> {
        let mut text = String::new();
        file.take(4096).read_to_string(&mut text).ok()?;
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let place = PidSpace { boot: field("boot")?.to_owned(), pids: field("pids")?.to_owned() };
        Some((Self { marker, mark: field("mark")?.parse().ok()? }, place))
    }

    fn path_in(&self, dir: &Path) -> PathBuf {
        dir.join(format!("{}.{EXTENSION}", self.marker))
    }

    /// Writes the record and locks it. Where locks do not work there is no record: without a lock a sweep could not
    /// distinguish living runs from dead ones.
    pub(crate) fn write_locked(&self, dir: &Path) -> io::Result<LockedRecord> {
        gimlet_fs::create_private_dir_all(dir)?;
        let path = self.path_in(dir);
        let unfinished = path.with_extension(UNFINISHED_EXTENSION);
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        let PidSpace { boot, pids } = PidSpace::for_this_process();
        // It gets its name when it is whole and locked, so that no sweep can see it otherwise.
        let written = file.try_lock().map_err(io::Error::from).and_then(|()| {
            write!(
                file,
                "a gimlet that runs commands holds this file\nboot {boot}\npids {pids}\nmark {}\n",
                self.mark
            )?;
            fs::rename(&unfinished, &path)
        });
        if let Err(error) = written {
            drop(fs::remove_file(unfinished));
            return Err(error);
        }
        Ok(LockedRecord { path, _lock: file })
    }
}

/// A record on disk whose run is alive. If it is dropped without [`Self::remove`] the file stays, for a later sweep.
#[derive(Debug)]
pub(crate) struct LockedRecord {
    path: PathBuf,
    /// Close-on-exec, so the lock ends with this process however that ends.
    _lock: File,
}

impl LockedRecord {
    pub(crate) fn remove(self) {
        // A record that could not be removed is found unlocked by the next start, which then has nothing to kill.
        drop(fs::remove_file(&self.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING_ENDED: SweepReport = SweepReport { dead_runs: 1, ended_processes: 0 };

    fn rewrite_record(path: &Path, from: &str, to: &str) {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(path, text.replace(from, to)).unwrap();
    }

    #[test]
    fn a_record_says_what_its_run_is_known_by() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunRecord::for_this_process("a.b/c-1");
        assert!(run.marker.starts_with("abc-1."));
        let path = run.write_locked(dir.path()).unwrap().path;
        let read = RunRecord::read(run.marker.clone(), &mut File::open(path).unwrap());
        assert_eq!(read, Some((run, PidSpace::for_this_process())));
    }

    #[test]
    fn every_run_of_a_process_has_a_mark_of_its_own() {
        let (one, other) = (RunRecord::for_this_process("s"), RunRecord::for_this_process("s"));
        assert!(one.marker != other.marker && one.mark != other.mark);
    }

    #[test]
    fn a_held_record_is_left_alone_and_an_abandoned_one_is_cleared() {
        let dir = tempfile::tempdir().unwrap();
        let alive = RunRecord::for_this_process("s").write_locked(dir.path()).unwrap();
        let dead = RunRecord::for_this_process("s").write_locked(dir.path()).unwrap().path;
        assert_eq!(sweep_orphans(dir.path()).unwrap(), NOTHING_ENDED);
        assert!(alive.path.exists() && !dead.exists());
        alive.remove();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_record_from_another_space_of_process_numbers_stays_and_one_of_another_boot_goes() {
        let dir = tempfile::tempdir().unwrap();
        let here = PidSpace::for_this_process();
        let elsewhere = RunRecord::for_this_process("s").write_locked(dir.path()).unwrap().path;
        rewrite_record(&elsewhere, &here.pids, "pid:[1]");
        let before = RunRecord::for_this_process("s").write_locked(dir.path()).unwrap().path;
        rewrite_record(&before, &here.boot, "another");
        assert_eq!(sweep_orphans(dir.path()).unwrap(), SweepReport::default());
        assert!(elsewhere.exists() && !before.exists());
    }

    #[test]
    fn text_that_is_no_record_ends_nothing() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("other.txt"), "kept").unwrap();
        fs::write(dir.path().join("s.1.2.run"), "no record").unwrap();
        assert_eq!(sweep_orphans(dir.path()).unwrap(), SweepReport::default());
        assert!(dir.path().join("other.txt").exists() && !dir.path().join("s.1.2.run").exists());
    }
}
