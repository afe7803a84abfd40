//! Processes of a session's commands, leftovers of earlier sessions, and the session's own folders.

use std::path::{Path, PathBuf};

use gimlet_core::ProcessAccess;
use gimlet_exec::{CustodianProgram, Exec, ExecConfig, Shell, ShellConfig};
use gimlet_proto::{Env, SessionId};
use gimlet_store::StoreLocations;

use crate::process_env::ProcessEnv;
use crate::settings_mapping;

/// Kills the processes of an earlier run whose custodian was killed, too. Otherwise costs one read of a folder.
pub(super) fn kill_orphans(runtime_dir: &Path) -> Option<String> {
    if !runtime_dir.is_dir() {
        return None;
    }
    match gimlet_exec::sweep_orphans(runtime_dir) {
        Ok(swept) if swept.ended_processes > 0 => {
            Some(format!("ended {} processes that a killed run had left", swept.ended_processes))
        }
        Ok(_) => None,
        Err(error) => Some(format!("looking for processes of killed runs failed: {error}")),
    }
}

/// Returns the folders that a session writes plans and memories to. A folder moved by a setting gets no permission by
/// that.
pub fn session_folders(around: &ProcessEnv) -> Vec<PathBuf> {
    // All worktrees and folders of a repository share one.
    let locations = settings_mapping::find_locations(around);
    let memory = StoreLocations::new(&around.config_home).project(locations.trust_root()).dir().join("memory");
    let project = around.cwd.join(".claude");
    vec![
        around.config_home.join("plans"),
        memory,
        around.config_home.join("agent-memory"),
        project.join("agent-memory"),
        project.join("agent-memory-local"),
    ]
}

/// Returns the file to which hooks of a session append variables for its commands. Two processes may run one session.
pub(super) fn session_env_file(config_home: &Path, id: &SessionId) -> PathBuf {
    config_home.join("shell-snapshots").join(format!("{id}.{}.env.sh", std::process::id()))
}

/// Returns the executor, and the access to processes that a session gets.
pub(super) fn build_processes(
    env: &Env,
    id: &SessionId,
    effort: Option<String>,
    config_home: &Path,
    runtime_dir: PathBuf,
) -> (Exec, ProcessAccess) {
    let own = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("gimlet"));
    let exec = Exec::new(ExecConfig {
        custodian: CustodianProgram::Reexec(own),
        session_marker: id.to_string(),
        runtime_dir: Some(runtime_dir),
    });
    let shell = Shell::find(ShellConfig {
        env: env.clone(),
        session_id: id.to_string(),
        effort,
        snapshot_file: Some(config_home.join("shell-snapshots").join(format!("{id}.sh"))),
        prestart: true,
    });
    let env_file = session_env_file(config_home, id);
    exec.remove_at_end(env_file.clone());
    let shell = shell.map(|shell| shell.with_session_env_file(env_file));
    (exec.clone(), ProcessAccess::new(exec, shell))
}
