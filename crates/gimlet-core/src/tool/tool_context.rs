//! What a call can see and use.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use gimlet_exec::Confinement;
use gimlet_policy::DeniedFiles;
use gimlet_policy::shell::{EnvironmentNames, ShellFacts};
use gimlet_proto::{AgentPath, AgentSummary, Env, ToolUseId};
use tokio_util::sync::CancellationToken;

use crate::call::CallScope;
use crate::sandbox::CallSandbox;
use crate::services::SessionServices;
use crate::session::SessionState;
use crate::write_barrier::DurableBarrier;

/// What a tool's description may depend on. Fixed for a conversation segment.
#[derive(Clone, Debug, Default)]
pub struct PromptContext {
    pub env: Env,
    /// Names of the tools that are offered together.
    pub tools: Vec<String>,
    /// Whether commands may run in the background.
    pub background: bool,
    /// Whether commands run in a sandbox, and if so whether a call may ask to leave it.
    pub sandbox: Option<bool>,
    /// The kinds of subagents that can be launched.
    pub agents: Vec<AgentSummary>,
}

/// The places that paths are judged against. Plain values: looking at them does no I/O.
#[derive(Clone, Debug)]
pub struct PathContext {
    pub cwd: PathBuf,
    /// The folder the session was started in.
    pub project_dir: PathBuf,
    /// Working directories: the project and what was added to it.
    pub roots: Vec<PathBuf>,
    pub home: Option<PathBuf>,
    pub env: Env,
    /// The variables that the shell of a command begins with, if they are known.
    pub environment: Option<Arc<EnvironmentNames>>,
}

impl PathContext {
    /// What the analysis of a command has to know.
    pub fn shell_facts(&self) -> ShellFacts<'_> {
        let environment = self.environment.as_deref();
        ShellFacts { cwd: &self.cwd, roots: &self.roots, home: self.home.as_deref(), environment }
    }

    /// Expands `~`, resolves against the working directory and removes `.` and `..` by spelling.
    pub fn expand_path(&self, path: &Path) -> PathBuf {
        let path = match (path.strip_prefix("~"), &self.home) {
            (Ok(rest), Some(home)) => home.join(rest),
            (Ok(_) | Err(_), _) => self.cwd.join(path),
        };
        let mut clean = PathBuf::new();
        for part in path.components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => {
                    clean.pop();
                }
                Component::Prefix(_) | Component::RootDir | Component::Normal(_) => clean.push(part),
            }
        }
        clean
    }

    /// How a path is shown: relative when inside the working directory.
    pub fn display(&self, path: &Path) -> String {
        match path.strip_prefix(&self.cwd) {
            Ok(inside) if !inside.as_os_str().is_empty() => inside.display().to_string(),
            Ok(_) => ".".to_owned(),
            Err(_) => path.display().to_string(),
        }
    }

    /// Whether a path lies in one of the working directories, by spelling.
    pub fn is_in_roots(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }
}

/// Everything a running call has.
pub struct ToolContext {
    pub call: ToolUseId,
    pub agent: AgentPath,
    /// Cancelled when the turn is; a child of the turn's token.
    pub cancel: CancellationToken,
    pub paths: PathContext,
    pub services: Arc<SessionServices>,
    pub(crate) started: Instant,
    pub(crate) tool: Arc<str>,
    pub(crate) summary: String,
    /// Each path the gate looked at and what it really is.
    pub(crate) resolved: Vec<(PathBuf, PathBuf)>,
    pub(crate) closed: Option<Arc<DeniedFiles>>,
    pub(crate) sandbox: Option<CallSandbox>,
    pub(crate) confinement: Option<Arc<Confinement>>,
    pub(crate) amended: bool,
    /// Where the call comes from; `None` for one outside a session.
    pub(crate) scope: Option<Arc<CallScope>>,
    pub(crate) recorded: DurableBarrier,
}

impl ToolContext {
    /// Whether the conversation that the call belongs to has a tool of this name.
    pub fn has_tool(&self, tool: &str) -> bool {
        self.scope.as_ref().is_some_and(|scope| scope.tools.offered().any(|offered| offered.name() == tool))
    }

    /// Whether the call may change a file that its conversation has not read: the person leaves that to the model, it is
    /// one that looks by itself, and the tool `reader` could show it the file without a question.
    pub fn may_change_unread(&self, path: &Path, reader: &str) -> bool {
        let Some(scope) = self.scope.as_ref().filter(|_| self.services.file_preferences().trusts_models) else {
            return false;
        };
        scope.agent_runtime.model_facts(&scope.model()).edits_unread
            && self.has_tool(reader)
            && scope.gate.resolve_readable(&self.services, path).is_ok()
    }

    /// Whether the conversation may look at a file without anybody being asked. Outside a session that is what lies in
    /// the working directories.
    pub fn may_read_unasked(&self, path: &Path) -> bool {
        match &self.scope {
            Some(scope) => scope.gate.may_read_unasked(scope, path),
            None => self.paths.is_in_roots(path),
        }
    }

    /// What to wait for before the first effect, for a tool that [begins unrecorded](super::Tool::begins_unrecorded).
    pub fn durable_barrier(&self) -> DurableBarrier {
        self.recorded.clone()
    }

    /// Whether whoever was asked about the call changed its input: then the model does not know what was done.
    pub fn is_input_edited(&self) -> bool {
        self.amended
    }

    /// Puts the call's commands behind these walls.
    pub(crate) fn with_sandbox(mut self, sandbox: Option<CallSandbox>) -> Self {
        self.sandbox = sandbox;
        self
    }

    /// The walls that commands of this call must run behind.
    pub fn sandbox(&self) -> Option<&CallSandbox> {
        self.sandbox.as_ref()
    }

    /// What commands of this call must be held to, because nobody was asked about them.
    pub fn confinement(&self) -> Option<&Arc<Confinement>> {
        self.confinement.as_ref()
    }

    /// Lets the call know which files rules keep closed.
    pub fn with_denied_files(mut self, closed: Option<Arc<DeniedFiles>>) -> Self {
        self.closed = closed;
        self
    }

    /// Files that rules keep closed, if there are any. Whoever reads more than the paths it named must leave them out.
    pub fn denied_files(&self) -> Option<Arc<DeniedFiles>> {
        self.closed.clone()
    }

    /// What `path` really is: the file the gate judged, links followed. Act on this, not on the spelling.
    pub fn resolved_path<'a>(&'a self, path: &'a Path) -> &'a Path {
        self.resolved.iter().find(|(spelled, _)| spelled == path).map_or(path, |(_, real)| real)
    }

    /// Looks at session state. Changes go through [`ToolResult::with_change`](super::ToolResult::with_change), so
    /// that they happen in the order of the calls and not at all for a discarded one.
    pub fn with_session_state<T>(&self, look: impl FnOnce(&SessionState) -> T) -> T {
        look(&self.services.lock_state())
    }

    /// State of the tool's own that lives as long as the session.
    pub fn state<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.services.tool_state()
    }

    /// Says what the call is doing now.
    pub fn report_progress(&self, text: impl Into<String>) {
        self.services.publish_progress(self, text.into());
    }

    /// How long the call has been running.
    pub fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_expanded_by_spelling() {
        let cx = PathContext {
            cwd: "/p/app".into(),
            project_dir: "/p/app".into(),
            roots: vec!["/p/app".into()],
            home: Some("/home/ada".into()),
            env: Env::default(),
            environment: None,
        };
        assert_eq!(cx.expand_path(Path::new("~/x/../y")), Path::new("/home/ada/y"));
        assert_eq!(cx.expand_path(Path::new("src/./a.rs")), Path::new("/p/app/src/a.rs"));
        assert_eq!(cx.expand_path(Path::new("/../../etc")), Path::new("/etc"));
        assert_eq!(cx.display(Path::new("/p/app/src/a.rs")), "src/a.rs");
        assert_eq!(cx.display(Path::new("/p/other")), "/p/other");
        assert!(cx.is_in_roots(Path::new("/p/app/x")) && !cx.is_in_roots(Path::new("/p/app2/x")));
    }
}
