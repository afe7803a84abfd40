//! Access to processes: how a session starts commands, and the limits that apply to them.

use std::ffi::OsString;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use gimlet_exec::{Confinement, Exec, Shell, ShellError};
use gimlet_policy::shell::EnvironmentNames;
use gimlet_proto::Env;

use crate::confinement::{ConfinedReach, SessionConfinement};
use crate::sandbox::{ActiveSandbox, SessionSandbox};
use crate::tool::ToolError;

/// Process execution of a session: executor, shell, sandbox and confinement. The default value starts no processes.
#[derive(Default)]
pub struct ProcessAccess {
    launcher: Option<ProcessLauncher>,
    sandbox: ActiveSandbox,
    /// Confinement of commands that run without approval, if there is any.
    confinement: Option<Arc<SessionConfinement>>,
    environment_names: Mutex<Option<KnownVariableNames>>,
}

struct ProcessLauncher {
    exec: Exec,
    /// Detected once; without a usable shell every other tool still works.
    shell: Result<Shell, ShellError>,
}

/// Variable names of an environment, together with that environment.
struct KnownVariableNames {
    variables: Arc<[(OsString, OsString)]>,
    names: Arc<EnvironmentNames>,
}

impl ProcessAccess {
    pub fn new(exec: Exec, shell: Result<Shell, ShellError>) -> Self {
        Self { launcher: Some(ProcessLauncher { exec, shell }), ..Self::default() }
    }

    /// Sets the sandbox for commands.
    pub fn with_sandbox(self, sandbox: Option<Arc<SessionSandbox>>) -> Self {
        self.sandbox.replace(sandbox);
        self
    }

    /// Sets the confinement of commands that run without approval.
    pub fn with_confinement(mut self, confinement: Option<Arc<SessionConfinement>>) -> Self {
        self.confinement = confinement;
        self
    }

    /// Returns the executor, unless the session cannot start processes.
    pub fn exec(&self) -> Option<&Exec> {
        self.launcher.as_ref().map(|launcher| &launcher.exec)
    }

    /// Returns executor and shell, or an error if no command can run now.
    pub(super) fn exec_and_shell(&self) -> Result<(&Exec, &Shell), ToolError> {
        let launcher =
            self.launcher.as_ref().ok_or_else(|| ToolError::failed("this session cannot start processes"))?;
        if let Some(sandbox) = self.sandbox.latest() {
            sandbox.check_no_leftovers()?;
        }
        match &launcher.shell {
            Ok(shell) => Ok((&launcher.exec, shell)),
            Err(error) => Err(ToolError::failed(format!("commands cannot run: {error}"))),
        }
    }

    /// Returns the shell that commands would run in, if there is a usable one.
    pub(super) fn shell(&self) -> Option<&Shell> {
        self.launcher.as_ref().and_then(|launcher| launcher.shell.as_ref().ok())
    }

    pub(super) fn sandbox(&self) -> &ActiveSandbox {
        &self.sandbox
    }

    /// Returns the confinement for this reach; `None` if the session confines no commands. The shell's own start-up
    /// files become readable too.
    pub(super) fn confinement_for(&self, mut reach: ConfinedReach, env: &Env) -> Option<io::Result<Arc<Confinement>>> {
        let confinement = self.confinement.as_ref()?;
        reach.readable.extend(self.shell()?.start_up_files());
        Some(confinement.confinement_for(reach, env))
    }

    /// Returns the names of the variables that commands get, or `None` if others could be added. Cached per
    /// environment.
    pub(super) fn environment_names(&self) -> Option<Arc<EnvironmentNames>> {
        let variables = self.shell().and_then(Shell::known_environment)?;
        // Values under this lock are replaced as a whole, so a poisoned lock still holds a complete value.
        let mut known = self.environment_names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*known
            && Arc::ptr_eq(&known.variables, &variables)
        {
            return Some(Arc::clone(&known.names));
        }
        let names = Arc::new(EnvironmentNames::new(variables.iter().map(|(name, _)| name)));
        *known = Some(KnownVariableNames { variables, names: Arc::clone(&names) });
        Some(names)
    }
}
