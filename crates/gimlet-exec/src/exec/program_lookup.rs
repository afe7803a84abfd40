//! Finding a program by name in the path of the environment it is about to get, not in gimlet's own.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::{ExecError, SpawnRequest};

/// Search path used when the environment has no `PATH`, as in `execvp`.
const DEFAULT_PATH: &str = "/usr/local/bin:/bin:/usr/bin";

/// Resolves the program file of a spawn request.
pub(super) fn resolve_program(spawn: &SpawnRequest) -> Result<PathBuf, ExecError> {
    let path = spawn.env.iter().rfind(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    find_in_path(&spawn.program, path, &spawn.cwd).ok_or_else(|| ExecError::NotFound { program: spawn.program.clone() })
}

/// Resolves a program: a name with a slash is a path; any other is searched. Relative entries of the path are
/// relative to `cwd`.
pub(crate) fn find_in_path(program: &OsStr, path: Option<&OsStr>, cwd: &Path) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    std::env::split_paths(path.unwrap_or(OsStr::new(DEFAULT_PATH)))
        .map(|dir| cwd.join(dir).join(program))
        .find(|candidate| is_runnable(candidate))
}

pub(crate) fn is_runnable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok()
}
