//! A bench for tool tests: real files in a temporary folder, real session state, changes applied as a scheduler would.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_core::files::FilePreferences;
use gimlet_core::tool::{AnyTool, Tool, ToolError, ToolResult};
use gimlet_core::{SessionServices, SessionShared, SessionState};
use gimlet_proto::{AccessNeed, AgentPath, Env, EventHub, SessionId, ToolUseId, View};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub(crate) struct ToolBench {
    folder: tempfile::TempDir,
    pub(crate) state: SessionState,
    pub(crate) env: Env,
    pub(crate) habits: FilePreferences,
    pub(crate) cancel: CancellationToken,
}

/// Result of a call in all its forms.
#[derive(Debug)]
pub(crate) struct ToolCallResult {
    /// Text for the model.
    pub(crate) text: String,
    /// Output for programs.
    pub(crate) output: Value,
    /// View for the user.
    pub(crate) view: View,
}

impl ToolBench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().canonicalize().unwrap().join("project");
        std::fs::create_dir(&project).unwrap();
        let state = SessionState::new(project, Vec::new());
        Self {
            folder,
            state,
            env: Env::default(),
            habits: FilePreferences::default(),
            cancel: CancellationToken::new(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.state.cwd.join(name)
    }

    pub(crate) fn results(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("results")
    }

    /// Creates a file that is older than what counts as fresh.
    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        backdate(&path);
        path
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).unwrap()
    }

    /// Names in the project, to see that nothing was left behind.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.state.cwd).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub(crate) fn services(&self) -> Arc<SessionServices> {
        self.services_with(|services| services)
    }

    pub(crate) fn services_with(&self, more: impl FnOnce(SessionServices) -> SessionServices) -> Arc<SessionServices> {
        let home = Some(self.folder.path().to_owned());
        let shared = SessionShared::new(SessionId::new("s"), self.env.clone(), home, EventHub::default())
            .with_file_preferences(self.habits);
        Arc::new(more(SessionServices::new(shared, self.state.clone(), self.results())))
    }

    /// Returns the needs and the description of a call, or the reason why it is refused before it runs.
    pub(crate) fn prepare(&self, tool: &impl Tool, input: Value) -> Result<(Vec<AccessNeed>, String), ToolError> {
        let prepared = AnyTool::prepare(tool, input, &self.services().paths())?;
        Ok((prepared.needs, prepared.description))
    }

    /// Runs a call without applying its changes.
    pub(crate) async fn call_on<T: Tool>(
        &self,
        services: &Arc<SessionServices>,
        tool: &T,
        input: Value,
    ) -> Result<ToolResult<T::Output>, ToolError> {
        let prepared = AnyTool::prepare(tool, input, &services.paths())?;
        let resolved = prepared.path.iter().map(|path| (path.clone(), resolve(path))).collect();
        let cx = services.tool_context(
            T::NAME,
            ToolUseId::new("toolu_1"),
            AgentPath::default(),
            self.cancel.clone(),
            String::new(),
            resolved,
        );
        tool.call(serde_json::from_value(prepared.input).unwrap(), &cx).await
    }

    /// Runs a call and applies its changes.
    pub(crate) async fn call<T: Tool>(&mut self, tool: &T, input: Value) -> Result<ToolCallResult, ToolError> {
        let typed = AnyTool::prepare(tool, input.clone(), &self.services().paths())?.input;
        let result = self.call_on(&self.services(), tool, input).await?;
        result.changes.into_iter().for_each(|change| change(&mut self.state));
        Ok(ToolCallResult {
            text: tool.to_blocks(&result.data).to_text(),
            output: serde_json::to_value(&result.data).unwrap(),
            view: tool.view(&serde_json::from_value(typed).unwrap(), &result.data),
        })
    }
}

/// Sets a file's time far enough back that it counts as settled.
pub(crate) fn backdate(path: &Path) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    let then = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    file.set_modified(then).unwrap();
}

/// Resolves symlinks as the gate does: as far as the path exists.
fn resolve(path: &Path) -> PathBuf {
    let mut rest = Vec::new();
    for prefix in path.ancestors() {
        if let Ok(real) = prefix.canonicalize() {
            return rest.iter().rev().fold(real, |path, name| path.join(name));
        }
        if let Ok(target) = std::fs::read_link(prefix) {
            let target = resolve(&prefix.parent().unwrap().join(target));
            return rest.iter().rev().fold(target, |path, name| path.join(name));
        }
        rest.extend(prefix.file_name());
    }
    path.to_owned()
}
