//! Construction of the process for a command text: the shell, the wrapper around the text, the environment and the
//! directory.
//!
//! The text is passed to the shell as one word and nothing is ever interpolated into it; so are the paths that gimlet
//! adds: as arguments, or on the standard input of a prestarted shell. The wrapper is a constant line that runs the
//! text with `eval`. The keeper knows the shell's final directory without the shell's help.

mod command_env;
mod prestarted_shell;
mod shell_snapshot;
mod shell_wrapper;

use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use gimlet_proto::Env;

use crate::exec::{
    DirectoryReporter, Exec, ExecError, RunningCommand, SpawnRequest, StdinMode, StreamMode, find_in_path, is_runnable,
};
use crate::sandbox::{Confinement, Sandbox, SandboxError};
pub(crate) use command_env::for_helper_commands as errand_environment;
pub use command_env::{InheritedEnv, is_credential_name, service_environment};
use prestarted_shell::{PrestartedShell, SharedEnvironment, ShellContext};
use shell_snapshot::ShellSnapshot;
use shell_wrapper::ShellLanguage;

/// Largest file of variables that commands read.
const MAX_ENV_FILE: u64 = 1 << 20;
/// The kernel's limit for one argument, its terminator included.
const MAX_ARGUMENT_BYTES: usize = 128 * 1024;

/// Configuration of a shell.
#[derive(Debug, Clone)]
pub struct ShellConfig {
    /// gimlet's own environment, with what the settings add to it.
    pub env: Env,
    pub session_id: String,
    /// The effort level that is passed to commands.
    pub effort: Option<String>,
    /// File for the functions, aliases and options of the user's start-up file during this session; this process's id
    /// is added to the name. Without it commands run in a plain shell.
    pub snapshot_file: Option<PathBuf>,
    /// True if a shell may be started before there is a command for it.
    pub prestart: bool,
}

/// One command.
#[derive(Debug, Clone)]
pub struct ShellCommand<'a> {
    pub text: &'a str,
    pub cwd: &'a Path,
    /// Set on top of the shell's environment.
    pub env: Vec<(OsString, OsString)>,
}

/// A command that was started.
#[derive(Debug)]
pub struct ShellRun {
    pub running: RunningCommand,
    /// The directory it really started in.
    pub cwd: PathBuf,
    /// The wanted directory, when it was gone and `cwd` is its nearest existing parent.
    pub vanished_cwd: Option<PathBuf>,
}

/// Reason why a command could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    #[error("{name} names {path}, which is not a bash or zsh that can be run", path = path.display())]
    Unsupported { name: &'static str, path: PathBuf },
    #[error("no bash was found: install bash, or name one in CLAUDE_CODE_SHELL")]
    NoShell,
    #[error(
        "the command is {bytes} bytes long and the system takes at most {limit}: write it to a script file and run that"
    )]
    TooLong { bytes: usize, limit: usize },
    #[error(transparent)]
    Exec(#[from] ExecError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

/// Turns command texts into processes. Made once a session.
#[derive(Debug)]
pub struct Shell {
    path: PathBuf,
    language: ShellLanguage,
    env: Mutex<SharedEnvironment>,
    session_id: String,
    effort: Option<String>,
    prefix: Vec<OsString>,
    env_file: Option<PathBuf>,
    /// File of variables that the session itself collects; read after the user's.
    session_env_file: Option<PathBuf>,
    snapshot: ShellSnapshot,
    prestart: bool,
    prestarted: PrestartedShell,
    prestarted_confined: PrestartedShell,
    confined_env: Mutex<Option<ConfinedEnvironment>>,
}

/// The environment of confined commands, with the one that it was derived from.
#[derive(Debug)]
struct ConfinedEnvironment {
    base: SharedEnvironment,
    temp_dir: PathBuf,
    environment: SharedEnvironment,
}

/// Placement of a command.
#[derive(Debug, Clone, Copy)]
enum CommandPlacement<'a> {
    /// As the user's own commands do.
    Open,
    Sandboxed(&'a Sandbox),
    Confined(&'a Arc<Confinement>),
}

impl Shell {
    /// Finds the shell and prepares its environment; starts nothing.
    pub fn find(config: ShellConfig) -> Result<Self, ShellError> {
        let (path, language) = find_shell(&config.env)?;
        let snapshot = match language {
            ShellLanguage::Bash => {
                ShellSnapshot::new(config.snapshot_file, config.env.exact("HOME").map(PathBuf::from))
            }
            ShellLanguage::Zsh => ShellSnapshot::disabled(),
        };
        Ok(Self {
            prefix: config.env.get("CLAUDE_CODE_SHELL_PREFIX").map(split_prefix).unwrap_or_default(),
            env_file: config.env.get("CLAUDE_ENV_FILE").map(PathBuf::from),
            session_env_file: None,
            env: Mutex::new(
                command_env::for_commands(&config.env, &config.session_id, config.effort.as_deref()).into(),
            ),
            session_id: config.session_id,
            effort: config.effort,
            path,
            language,
            snapshot,
            prestart: config.prestart,
            prestarted: PrestartedShell::default(),
            prestarted_confined: PrestartedShell::default(),
            confined_env: Mutex::default(),
        })
    }

    /// Reads this file before each command once it has content, after the user's own. A file that grew too large is
    /// passed over.
    pub fn with_session_env_file(mut self, file: PathBuf) -> Self {
        self.session_env_file = Some(file);
        self
    }

    /// Returns the session's file of variables if commands read it.
    fn filled_session_env_file(&self) -> Option<&Path> {
        let file = self.session_env_file.as_deref()?;
        let length = std::fs::metadata(file).ok().filter(Metadata::is_file)?.len();
        (1..=MAX_ENV_FILE).contains(&length).then_some(file)
    }

    /// Returns the program that runs the command texts.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if it is a zsh, which parses some texts differently from bash.
    pub fn is_zsh(&self) -> bool {
        self.language == ShellLanguage::Zsh
    }

    /// Returns the environment of every command, for other children of the session.
    pub fn environment(&self) -> Arc<[(OsString, OsString)]> {
        // The environment is replaced as a whole; a poisoned lock still holds a complete one.
        Arc::clone(&self.env.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the files and folders that a shell reads before its command.
    pub fn start_up_files(&self) -> Vec<PathBuf> {
        let snapshots = self.snapshot.folder().map(Path::to_owned);
        snapshots.into_iter().chain(self.env_file.clone()).chain(self.session_env_file.clone()).collect()
    }

    /// Returns the environment of commands where nothing but bash adds variables to it. `None` when other sources
    /// may: a file that is read before each command, a program that starts the shell, or a shell whose own variables
    /// are not listed.
    pub fn known_environment(&self) -> Option<Arc<[(OsString, OsString)]>> {
        let reads_none = self.env_file.is_none() && self.filled_session_env_file().is_none();
        let plain = self.language == ShellLanguage::Bash && self.prefix.is_empty() && reads_none;
        plain.then(|| self.environment())
    }

    /// Sets the environment of later commands from this one, filtered for commands.
    pub fn set_environment(&self, env: &Env) {
        let env = command_env::for_commands(env, &self.session_id, self.effort.as_deref());
        *self.env.lock().unwrap_or_else(PoisonError::into_inner) = env.into();
    }

    /// Starts a shell in the background for a command that is about to arrive.
    pub fn prestart_shell(&self, exec: &Exec) {
        if self.can_prestart() {
            self.prestarted.ensure_started(exec, &self.path, &self.open_context());
        }
    }

    /// Returns true if a shell can be started before its command is known.
    fn can_prestart(&self) -> bool {
        self.prestart && self.language == ShellLanguage::Bash && self.prefix.is_empty()
    }

    /// Returns, once, the reason why commands run without the definitions of the user's start-up file, if something
    /// failed.
    pub fn take_snapshot_error(&self) -> Option<String> {
        self.snapshot.take_error()
    }

    /// Starts a command. The first one may wait for the snapshot of the user's start-up file.
    pub async fn start(&self, exec: &Exec, command: ShellCommand<'_>) -> Result<ShellRun, ShellError> {
        self.start_placed(exec, command, CommandPlacement::Open).await
    }

    /// Starts a command inside a sandbox.
    pub async fn start_sandboxed(
        &self,
        exec: &Exec,
        command: ShellCommand<'_>,
        sandbox: &Sandbox,
    ) -> Result<ShellRun, ShellError> {
        self.start_placed(exec, command, CommandPlacement::Sandboxed(sandbox)).await
    }

    /// Starts a confined command, with an environment that has no credentials.
    pub async fn start_confined(
        &self,
        exec: &Exec,
        command: ShellCommand<'_>,
        confinement: &Arc<Confinement>,
    ) -> Result<ShellRun, ShellError> {
        self.start_placed(exec, command, CommandPlacement::Confined(confinement)).await
    }

    async fn start_placed(
        &self,
        exec: &Exec,
        command: ShellCommand<'_>,
        placement: CommandPlacement<'_>,
    ) -> Result<ShellRun, ShellError> {
        let limit = MAX_ARGUMENT_BYTES - 1;
        if command.text.len() > limit {
            return Err(ShellError::TooLong { bytes: command.text.len(), limit });
        }
        let snapshot = self.snapshot.get_or_take(exec, &self.path, &self.environment()).await;
        let surroundings = match placement {
            CommandPlacement::Open | CommandPlacement::Sandboxed(_) => self.open_context(),
            CommandPlacement::Confined(confinement) => self.confined_context(confinement),
        };
        let env_files = [self.env_file.as_deref().filter(|file| file.exists()), self.filled_session_env_file()];
        let (cwd, vanished_cwd) = nearest_directory(command.cwd);
        let waiting = match placement {
            CommandPlacement::Open => Some(&self.prestarted),
            CommandPlacement::Confined(_) => Some(&self.prestarted_confined),
            CommandPlacement::Sandboxed(_) => None,
        };
        if let Some(waiting) = waiting
            && command.env.is_empty()
            && self.can_prestart()
            && can_enter(&cwd)
        {
            let order = shell_wrapper::encode_waiting_order(&cwd, command.text, snapshot, env_files);
            let running = waiting.send_order(&surroundings, &order).await;
            waiting.ensure_started(exec, &self.path, &surroundings);
            if let Some(running) = running {
                return Ok(ShellRun { running, cwd, vanished_cwd });
            }
        }
        let args = shell_wrapper::wrapper_arguments(self.language, command.text, snapshot, env_files);
        let (program, args) = self.apply_prefix(args)?;
        let mut env = surroundings.environment.to_vec();
        env.retain(|(name, _)| name != "PWD" && !command.env.iter().any(|(own, _)| own == name));
        env.push(("PWD".into(), cwd.clone().into()));
        env.extend(command.env);
        let report = if self.prefix.is_empty() || !runs_as_other_user(&program, &env) {
            DirectoryReporter::Keeper
        } else {
            DirectoryReporter::Disabled
        };
        let (stdin, streams, confinement) = (StdinMode::Null, StreamMode::Merged, surroundings.confinement);
        let spawn = SpawnRequest { program, args, cwd: cwd.clone(), env, stdin, streams, report, confinement };
        let spawn = match placement {
            CommandPlacement::Sandboxed(sandbox) => {
                let needed: Vec<&Path> = [snapshot].into_iter().chain(env_files).flatten().collect();
                sandbox.wrap_spawn(SpawnRequest { report: DirectoryReporter::Program, ..spawn }, &needed)?
            }
            CommandPlacement::Open | CommandPlacement::Confined(_) => spawn,
        };
        let running = exec.spawn(spawn).await?;
        Ok(ShellRun { running, cwd, vanished_cwd })
    }

    fn open_context(&self) -> ShellContext {
        ShellContext { environment: self.environment(), confinement: None }
    }

    /// Returns the context of confined commands; its environment without credentials is cached for as long as the one
    /// that it is derived from.
    fn confined_context(&self, confinement: &Arc<Confinement>) -> ShellContext {
        let base = self.environment();
        let mut known = self.confined_env.lock().unwrap_or_else(PoisonError::into_inner);
        let environment = match &*known {
            Some(known) if Arc::ptr_eq(&known.base, &base) && known.temp_dir == confinement.temp_dir() => {
                Arc::clone(&known.environment)
            }
            _ => {
                let temp_dir = confinement.temp_dir();
                let environment: SharedEnvironment = command_env::for_confined(&base, temp_dir).into();
                let temp_dir = temp_dir.to_owned();
                *known = Some(ConfinedEnvironment { base, temp_dir, environment: Arc::clone(&environment) });
                environment
            }
        };
        ShellContext { environment, confinement: Some(Arc::clone(confinement)) }
    }

    /// Returns the shell itself, or the user's wrapper with the whole invocation as one quoted argument.
    fn apply_prefix(&self, args: Vec<OsString>) -> Result<(OsString, Vec<OsString>), ShellError> {
        let Some((program, first)) = self.prefix.split_first() else {
            return Ok((self.path.clone().into_os_string(), args));
        };
        let words = std::iter::once(self.path.as_os_str()).chain(args.iter().map(OsString::as_os_str));
        let invocation = shell_wrapper::quote_words(words);
        let limit = MAX_ARGUMENT_BYTES - 1;
        if invocation.len() > limit {
            return Err(ShellError::TooLong { bytes: invocation.len(), limit });
        }
        Ok((program.clone(), first.iter().cloned().chain([invocation]).collect()))
    }
}

/// Returns the initial environment of commands in a session with this environment; `None` as for
/// [`Shell::known_environment`].
pub fn known_environment(env: &Env) -> Option<Vec<(OsString, OsString)>> {
    let adds = ["CLAUDE_ENV_FILE", "CLAUDE_CODE_SHELL_PREFIX"];
    let plain = !runs_zsh(env) && adds.iter().all(|name| env.get(name).is_none());
    plain.then(|| command_env::for_commands(env, "", Some("")))
}

/// Returns true if a session with this environment runs its commands with zsh.
pub fn runs_zsh(env: &Env) -> bool {
    find_shell(env).is_ok_and(|(_, language)| language == ShellLanguage::Zsh)
}

/// Finds the shell that the user named, else their bash, else any bash. Another login shell is not an error: the
/// analyser parses bash, so bash runs the commands.
fn find_shell(env: &Env) -> Result<(PathBuf, ShellLanguage), ShellError> {
    if let Some(named) = env.get("CLAUDE_CODE_SHELL") {
        let path = PathBuf::from(named);
        return match ShellLanguage::from_path(&path) {
            Some(language) if is_runnable(&path) => Ok((path, language)),
            _ => Err(ShellError::Unsupported { name: "CLAUDE_CODE_SHELL", path }),
        };
    }
    let login = env.exact("SHELL").map(PathBuf::from);
    let login = login.filter(|path| ShellLanguage::from_path(path) == Some(ShellLanguage::Bash) && is_runnable(path));
    let search = || find_in_path("bash".as_ref(), env.exact("PATH").map(AsRef::as_ref), Path::new("/"));
    let usual = || ["/bin/bash", "/usr/bin/bash"].map(PathBuf::from).into_iter().find(|path| is_runnable(path));
    // The system's own shell takes precedence over the first in PATH, which may be in a folder of the project.
    login.or_else(usual).or_else(search).map(|path| (path, ShellLanguage::Bash)).ok_or(ShellError::NoShell)
}

/// Splits a prefix, which is a program, or a program with arguments; an existing path with spaces is a program.
fn split_prefix(prefix: &str) -> Vec<OsString> {
    if Path::new(prefix).is_file() {
        return vec![prefix.into()];
    }
    prefix.split_whitespace().map(OsString::from).collect()
}

/// Returns true if the system runs a program as another user than its caller. It does not do so where the directory
/// is shared.
fn runs_as_other_user(program: &OsStr, env: &[(OsString, OsString)]) -> bool {
    use std::os::unix::fs::PermissionsExt;
    const SET_USER_OR_GROUP: u32 = 0o6000;
    let path = env.iter().rfind(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let Some(program) = find_in_path(program, path, Path::new("/")) else { return false };
    let metadata = std::fs::metadata(program);
    metadata.is_ok_and(|metadata| metadata.permissions().mode() & SET_USER_OR_GROUP != 0)
}

fn can_enter(directory: &Path) -> bool {
    rustix::fs::access(directory, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Returns the directory, or its nearest existing parent together with the requested one.
fn nearest_directory(wanted: &Path) -> (PathBuf, Option<PathBuf>) {
    let found = wanted.ancestors().find(|dir| !dir.as_os_str().as_bytes().is_empty() && dir.is_dir());
    match found {
        Some(dir) if dir == wanted => (dir.to_owned(), None),
        found => (found.unwrap_or(Path::new("/")).to_owned(), Some(wanted.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vanished_directory_gives_its_nearest_parent() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(nearest_directory(dir.path()), (dir.path().to_owned(), None));
        let gone = dir.path().join("a/b");
        assert_eq!(nearest_directory(&gone), (dir.path().to_owned(), Some(gone)));
    }

    #[test]
    fn only_a_named_shell_may_be_other_than_bash_and_fish_is_refused() {
        let found = find_shell(&Env::default().with("SHELL", "/usr/bin/fish").with("PATH", "/usr/bin:/bin")).unwrap();
        assert_eq!(found.1, ShellLanguage::Bash);
        assert!(matches!(
            find_shell(&Env::default().with("CLAUDE_CODE_SHELL", "/bin/cat")),
            Err(ShellError::Unsupported { .. })
        ));
    }

    #[test]
    fn a_prefix_may_have_arguments() {
        assert_eq!(split_prefix("nice -n 5"), ["nice", "-n", "5"]);
        assert_eq!(split_prefix("/bin/sh"), ["/bin/sh"]);
    }
}
