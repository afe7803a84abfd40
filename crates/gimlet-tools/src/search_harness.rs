//! A real directory tree and a real call context for the tests of the searching tools.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gimlet_core::tool::{AnyTool, Tool, ToolContext, ToolError};
use gimlet_core::{SessionServices, SessionShared, SessionState};
use gimlet_proto::{AgentPath, Env, EventHub, SessionId, ToolUseId, View};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A temporary directory that serves as the working directory of calls.
pub(crate) struct SearchTree {
    dir: tempfile::TempDir,
    env: Env,
    pub(crate) cancel: CancellationToken,
}

/// Result of a call.
pub(crate) struct SearchCallResult {
    pub(crate) text: String,
    pub(crate) output: Value,
    pub(crate) view: View,
}

impl SearchTree {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), env: Env::default(), cancel: CancellationToken::new() }
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env = self.env.with(name, value);
        self
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file, with its directories.
    pub(crate) fn file(&self, path: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root().join(OsStr::from_bytes(path.as_ref()));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Writes a file that was last changed so many seconds ago.
    pub(crate) fn aged_file(&self, path: &str, content: &str, seconds: u64) {
        let path = self.file(path, content);
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    }

    /// A context as the scheduler makes one.
    pub(crate) fn context(&self, tool: &'static str) -> ToolContext {
        self.context_with(tool, Vec::new())
    }

    fn context_with(&self, tool: &'static str, resolved: Vec<(PathBuf, PathBuf)>) -> ToolContext {
        let state = SessionState::new(self.root().to_owned(), Vec::new());
        let results = self.root().join("results");
        let shared = SessionShared::new(SessionId::new("session"), self.env.clone(), None, EventHub::default());
        let services = SessionServices::new(shared, state, results);
        let (call, agent) = (ToolUseId::new("call"), AgentPath::default());
        Arc::new(services).tool_context(tool, call, agent, self.cancel.clone(), String::new(), resolved)
    }

    /// Parses and validates the input as the pipeline does, then calls the tool.
    pub(crate) async fn call<T: Tool>(&self, tool: T, input: Value) -> Result<SearchCallResult, ToolError> {
        let mut cx = self.context(T::NAME);
        let prepared = AnyTool::prepare(&tool, input, &cx.paths)?;
        // Resolves symlinks once before the call, as the gate does.
        if let Some((path, real)) = prepared.path.as_ref().and_then(|path| Some((path, path.canonicalize().ok()?))) {
            cx = self.context_with(T::NAME, vec![(path.clone(), real)]);
        }
        let input: T::Input = serde_json::from_value(prepared.input).unwrap();
        let data = tool.call(input.clone(), &cx).await?.data;
        Ok(SearchCallResult {
            text: tool.to_blocks(&data).to_text(),
            output: serde_json::to_value(&data).unwrap(),
            view: tool.view(&input, &data),
        })
    }
}
