//! Process ancestry, read from `/proc`, and signals that cannot reach another process that reused a process id.

use std::collections::HashMap;
use std::fs;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

/// One process at one moment. Process id and start time together identify it permanently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessEntry {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// In clock ticks since boot.
    pub(crate) started: u64,
    pub(crate) zombie: bool,
}

impl ProcessEntry {
    /// Reads the process with this id, if there is one.
    pub(crate) fn read(pid: i32) -> Option<Self> {
        parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Signals exactly this process: the descriptor pins it, and the start time proves that the id was not reused.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Errno> {
        let pid = Pid::from_raw(self.pid).ok_or(Errno::SRCH)?;
        match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pinned) if Self::read(self.pid).is_some_and(|now| now.started == self.started) => {
                rustix::process::pidfd_send_signal(pinned, signal)
            }
            Ok(_) => Err(Errno::SRCH),
            Err(Errno::NOSYS) => rustix::process::kill_process(pid, signal),
            Err(error) => Err(error),
        }
    }

    /// Returns the value of an environment variable that the process was started with.
    pub(crate) fn initial_env_var(&self, name: &[u8]) -> Option<Vec<u8>> {
        let environ = fs::read(format!("/proc/{}/environ", self.pid)).ok()?;
        environ
            .split(|byte| *byte == 0)
            .find_map(|entry| entry.strip_prefix(name)?.strip_prefix(b"="))
            .map(<[u8]>::to_vec)
    }

    /// Returns the soft limit of file locks, which Linux inherits from parent to child but has not enforced for
    /// decades.
    pub(crate) fn file_lock_limit(&self) -> Option<u64> {
        let limits = fs::read_to_string(format!("/proc/{}/limits", self.pid)).ok()?;
        let limit = limits.lines().find_map(|line| line.strip_prefix("Max file locks"))?;
        limit.split_ascii_whitespace().next()?.parse().ok()
    }

    /// Returns the name that the process set for itself.
    pub(crate) fn name(&self) -> Option<String> {
        fs::read_to_string(format!("/proc/{}/comm", self.pid)).ok().map(|name| name.trim_end().to_owned())
    }
}

/// Returns every visible process.
pub(crate) fn list_processes() -> Vec<ProcessEntry> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok()))
        .filter_map(ProcessEntry::read)
        .collect()
}

/// Returns all of `processes` that descend from one of `roots`, without the roots themselves and zombies.
pub(crate) fn living_descendants(processes: &[ProcessEntry], roots: &[i32]) -> Vec<ProcessEntry> {
    let mut children: HashMap<i32, Vec<ProcessEntry>> = HashMap::new();
    for process in processes {
        children.entry(process.parent).or_default().push(*process);
    }
    let mut found: Vec<ProcessEntry> = Vec::new();
    let mut parents = roots.to_vec();
    while let Some(parent) = parents.pop() {
        // Removed, so that a table read while processes moved cannot cause a cycle.
        for child in children.remove(&parent).unwrap_or_default() {
            parents.push(child.pid);
            found.push(child);
        }
    }
    found.retain(|process| !process.zombie);
    found
}

/// Reads the fields that matter from `/proc/PID/stat`. The name in parentheses may itself hold parentheses and spaces.
fn parse_stat(stat: &[u8]) -> Option<ProcessEntry> {
    let (head, tail) = stat.split_at(memchr::memrchr(b')', stat)?);
    let pid = std::str::from_utf8(head.get(..memchr::memchr(b' ', head)?)?).ok()?.parse().ok()?;
    let mut fields = std::str::from_utf8(tail.get(2..)?).ok()?.split_ascii_whitespace();
    let zombie = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    // Field 22 of the line; session is field 6.
    let started = fields.nth(15)?.parse().ok()?;
    Some(ProcessEntry { pid, parent, group, session, started, zombie })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let line = b"42 (a) b (c)) S 7 8 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 123456 1 2 3";
        let process = ProcessEntry { pid: 42, parent: 7, group: 8, session: 9, started: 123_456, zombie: false };
        assert_eq!(parse_stat(line), Some(process));
    }

    #[test]
    fn this_process_can_read_itself() {
        let own = std::process::id() as i32;
        let process = ProcessEntry::read(own).unwrap();
        assert_eq!(process.pid, own);
        assert!(!process.zombie && process.started > 0);
    }

    #[test]
    fn descendants_cross_generations_and_skip_zombies() {
        let process = |pid, parent, zombie| ProcessEntry { pid, parent, group: pid, session: pid, started: 1, zombie };
        let table = [process(2, 1, false), process(3, 2, true), process(4, 3, false), process(5, 9, false)];
        let pids: Vec<i32> = living_descendants(&table, &[1]).iter().map(|process| process.pid).collect();
        assert_eq!(pids, [2, 4]);
    }
}
