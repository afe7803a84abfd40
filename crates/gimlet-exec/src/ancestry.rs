//! Detection of processes that descend from a session's commands. Every process that a command starts, even a
//! detached one, stays below the session's custodian, which adopts every orphan; so the chain of parents is reliable,
//! and no command can forge it.

use crate::custodian;
use crate::procfs::ProcessEntry;
use crate::sandbox::HELPER_ARGUMENT;

/// Maximum length of a chain of parents; a longer one cannot be trusted to have been read to its end.
const LONGEST_LINE: usize = 4096;

/// Returns true if a command of a session started this process, directly or indirectly. Also true in doubt.
pub fn is_started_by_session() -> bool {
    let mut pid = i32::try_from(std::process::id()).unwrap_or_default();
    for _ in 0..LONGEST_LINE {
        let Some(process) = ProcessEntry::read(pid) else { return true };
        if is_custody_process(process.parent) {
            return true;
        }
        match process.parent {
            // The first process of this machine or container.
            0 | 1 => return false,
            parent => pid = parent,
        }
    }
    true
}

/// Returns true if a process is a custodian or keeper of a session's commands.
fn is_custody_process(pid: i32) -> bool {
    let Ok(line) = std::fs::read(format!("/proc/{pid}/cmdline")) else { return false };
    let argument = line.split(|byte| *byte == 0).nth(1).unwrap_or_default();
    [custodian::ARGUMENT, HELPER_ARGUMENT].iter().any(|own| own.as_bytes() == argument)
}
