//! Where a session's commands run, what earlier ones left, and the folders that are a session's own.

use std::path::{Path, PathBuf};

use gimlet_core::ProcessAccess;
use gimlet_exec::{CustodianProgram, Exec, ExecConfig, Shell, ShellConfig};
use gimlet_proto::{Env, SessionId};
use gimlet_store::StoreLocations;

use crate::process_env::ProcessEnv;

/// Ends what an earlier run left when it and its custodian were both killed. Costs one look at a folder otherwise.
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

/// The folders that a session writes plans and memories to. One that a setting moved elsewhere gets no leave by that.
pub(crate) fn session_folders(around: &ProcessEnv) -> Vec<PathBuf> {
    let memory = StoreLocations::new(&around.config_home).project(&around.cwd).dir().join("memory");
    let project = around.cwd.join(".claude");
    vec![
        around.config_home.join("plans"),
        memory,
        around.config_home.join("agent-memory"),
        project.join("agent-memory"),
        project.join("agent-memory-local"),
    ]
}

pub(super) fn build_processes(
    env: &Env,
    id: &SessionId,
    effort: Option<String>,
    config_home: &Path,
    runtime_dir: PathBuf,
) -> ProcessAccess {
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
    ProcessAccess { exec, shell }
}
