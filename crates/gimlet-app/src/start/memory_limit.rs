//! Memory limit for a session's commands, from the environment.

use std::error::Error;

use gimlet_exec::{MemoryGroup, parse_memory_limit};
use gimlet_proto::Env;

/// Outcome of a requested memory limit.
#[derive(Default)]
pub(super) struct MemoryLimit {
    /// Limit for all commands together.
    pub(super) group: Option<MemoryGroup>,
    /// Limit for each process of a sandboxed command, where there is no group.
    pub(super) per_process: Option<u64>,
    pub(super) remark: Option<String>,
}

impl MemoryLimit {
    /// Creates the requested group, or records why there is none.
    pub(super) fn from_env(env: &Env) -> Self {
        const NAME: &str = "CLAUDE_CODE_TOOL_MEMORY_LIMIT";
        let limit = match env.get(NAME).map_or(Ok(None), parse_memory_limit) {
            Ok(None) => return Self::default(),
            Ok(Some(limit)) => limit,
            Err(why) => return Self { remark: Some(format!("{NAME} is not used: {why}")), ..Self::default() },
        };
        match MemoryGroup::create(limit) {
            Ok(group) => Self { group: Some(group), ..Self::default() },
            Err(error) => {
                let cause = error.source().map(|cause| format!(" ({cause})")).unwrap_or_default();
                let text = format!(
                    "{NAME} holds only for each process in the sandbox, not for all commands together: {error}{cause}"
                );
                Self { group: None, per_process: Some(limit), remark: Some(text) }
            }
        }
    }
}
