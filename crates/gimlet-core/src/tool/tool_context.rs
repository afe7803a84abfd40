//! Context of a call: the data and services that it can use.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use gimlet_exec::Confinement;
use gimlet_policy::DeniedFiles;
use gimlet_policy::shell::{EnvironmentNames, ShellFacts};
use gimlet_proto::{AgentPath, AgentSummary, Block, Env, ToolUseId};
use tokio_util::sync::CancellationToken;

use crate::call::CallScope;
use crate::sandbox::CallSandbox;
use crate::services::SessionServices;
use crate::session::SessionState;
use crate::skills::SkillSet;
use crate::write_barrier::DurableBarrier;

/// Longest side in pixels of an image that every model makes use of.
const DEFAULT_IMAGE_SIDE: u32 = 1_568;

/// Data that a tool's description may depend on. Fixed for a conversation segment.
#[derive(Clone, Debug, Default)]
pub struct PromptContext {
    pub env: Env,
    /// Names of the tools that are offered together.
    pub tools: Vec<String>,
    /// Set if commands may run in the background.
    pub background: bool,
    /// Set if commands run in a sandbox; the value is true if a call may ask to leave it.
    pub sandbox: Option<bool>,
    /// Kinds of subagents that can be launched.
    pub agents: Vec<AgentSummary>,
}

/// Directories against which paths are judged. Plain values: reading them does no I/O.
#[derive(Clone, Debug)]
pub struct PathContext {
    pub cwd: PathBuf,
    /// Directory in which the session was started.
    pub project_dir: PathBuf,
    /// Working directories: the project and the added ones.
    pub roots: Vec<PathBuf>,
    pub home: Option<PathBuf>,
    pub env: Env,
    /// Names of the initial variables of a command's shell, if they are known.
    pub environment: Option<Arc<EnvironmentNames>>,
    /// Skills that a call can load.
    pub skills: Arc<SkillSet>,
}

impl PathContext {
    /// Returns the facts for the analysis of a command.
    pub fn shell_facts(&self) -> ShellFacts<'_> {
        let environment = self.environment.as_deref();
        ShellFacts { cwd: &self.cwd, roots: &self.roots, home: self.home.as_deref(), environment }
    }

    /// Expands `~`, resolves against the working directory and removes `.` and `..` lexically.
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

    /// Formats a path for display: relative if inside the working directory.
    pub fn display(&self, path: &Path) -> String {
        match path.strip_prefix(&self.cwd) {
            Ok(inside) if !inside.as_os_str().is_empty() => inside.display().to_string(),
            Ok(_) => ".".to_owned(),
            Err(_) => path.display().to_string(),
        }
    }

    /// Returns true if the path lies in one of the working directories, judged lexically.
    pub fn is_in_roots(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }
}

/// Context of a running call.
pub struct ToolContext {
    pub call: ToolUseId,
    pub agent: AgentPath,
    /// Cancelled with the turn; a child of the turn's token.
    pub cancel: CancellationToken,
    pub paths: PathContext,
    pub services: Arc<SessionServices>,
    pub(crate) started: Instant,
    pub(crate) tool: Arc<str>,
    pub(crate) summary: String,
    /// Paths that the gate judged, each with its resolved path.
    pub(crate) resolved: Vec<(PathBuf, PathBuf)>,
    pub(crate) closed: Option<Arc<DeniedFiles>>,
    pub(crate) sandbox: Option<CallSandbox>,
    pub(crate) confinement: Option<Arc<Confinement>>,
    pub(crate) amended: bool,
    /// Blocks of the reply up to and including the call.
    pub(crate) reply: Arc<[Block]>,
    /// Scope of the call; `None` outside a session.
    pub(crate) scope: Option<Arc<CallScope>>,
    pub(crate) recorded: DurableBarrier,
}

impl ToolContext {
    /// Returns the assistant message that made the call, up to and including the call: a call may start while the rest
    /// of the reply still streams. Empty for a call that no reply made.
    pub fn assistant_message(&self) -> &[Block] {
        &self.reply
    }

    /// Returns true if the call's conversation has a tool of this name.
    pub fn has_tool(&self, tool: &str) -> bool {
        self.scope.as_ref().is_some_and(|scope| scope.tools.offered().any(|offered| offered.name() == tool))
    }

    /// Returns true if the call may change a file that its conversation has not read: the user trusts models with
    /// that, the model is one that reads files by itself, and the tool `reader` may read the file without a question.
    pub fn may_change_unread(&self, path: &Path, reader: &str) -> bool {
        let Some(scope) = &self.scope else { return false };
        if !self.services.file_preferences().trusts_models {
            return false;
        }
        scope.model_facts().edits_unread
            && self.has_tool(reader)
            && scope.gate.resolve_readable(&self.services, path).is_ok()
    }

    /// Returns the longest side in pixels of images for the model of this conversation.
    pub fn image_side(&self) -> u32 {
        self.scope.as_ref().map_or(DEFAULT_IMAGE_SIDE, |scope| scope.model_facts().image_side)
    }

    /// Returns true if the conversation may read a file without a permission question. Outside a session this applies
    /// to the working directories.
    pub fn may_read_unasked(&self, path: &Path) -> bool {
        match &self.scope {
            Some(scope) => scope.gate.may_read_unasked(scope, path),
            None => self.paths.is_in_roots(path),
        }
    }

    /// Returns the barrier to await before the first effect, for a tool that [starts before its request is
    /// durable](super::Tool::may_start_before_durable).
    pub fn durable_barrier(&self) -> DurableBarrier {
        self.recorded.clone()
    }

    /// Returns true if the input was edited in the answer to the permission question: the model then does not know
    /// what was done.
    pub fn is_input_edited(&self) -> bool {
        self.amended
    }

    /// Sets the sandbox for the call's commands.
    pub(crate) fn with_sandbox(mut self, sandbox: Option<CallSandbox>) -> Self {
        self.sandbox = sandbox;
        self
    }

    /// Returns the sandbox that commands of this call must run in, if any.
    pub fn sandbox(&self) -> Option<&CallSandbox> {
        self.sandbox.as_ref()
    }

    /// Returns the confinement of this call's commands, if they run without approval.
    pub fn confinement(&self) -> Option<&Arc<Confinement>> {
        self.confinement.as_ref()
    }

    /// Sets the files that rules deny.
    pub fn with_denied_files(mut self, closed: Option<Arc<DeniedFiles>>) -> Self {
        self.closed = closed;
        self
    }

    /// Returns the files that rules deny, if there are any. A tool that reads more than the paths in its input must
    /// leave them out.
    pub fn denied_files(&self) -> Option<Arc<DeniedFiles>> {
        self.closed.clone()
    }

    /// Returns the resolved form of `path`: the file that the gate judged, with symlinks resolved. Use this for
    /// access, not the original spelling.
    pub fn resolved_path<'a>(&'a self, path: &'a Path) -> &'a Path {
        self.resolved.iter().find(|(spelled, _)| spelled == path).map_or(path, |(_, real)| real)
    }

    /// Reads session state. Changes go through [`ToolResult::with_change`](super::ToolResult::with_change), so that
    /// they are applied in the order of the calls and never for a discarded call.
    pub fn with_session_state<T>(&self, look: impl FnOnce(&SessionState) -> T) -> T {
        look(&self.services.lock_state())
    }

    /// Returns the tool's own state, which lives as long as the session.
    pub fn state<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.services.tool_state()
    }

    /// Reports the current progress of the call.
    pub fn report_progress(&self, text: impl Into<String>) {
        self.services.publish_progress(self, text.into());
    }

    /// Returns the running time of the call.
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
            skills: Arc::default(),
        };
        assert_eq!(cx.expand_path(Path::new("~/x/../y")), Path::new("/home/ada/y"));
        assert_eq!(cx.expand_path(Path::new("src/./a.rs")), Path::new("/p/app/src/a.rs"));
        assert_eq!(cx.expand_path(Path::new("/../../etc")), Path::new("/etc"));
        assert_eq!(cx.display(Path::new("/p/app/src/a.rs")), "src/a.rs");
        assert_eq!(cx.display(Path::new("/p/other")), "/p/other");
        assert!(cx.is_in_roots(Path::new("/p/app/x")) && !cx.is_in_roots(Path::new("/p/app2/x")));
    }
}
