//! `/memory`: lists the memory files of this session, and those that could exist.

use gimlet_app::{LaunchRequest, ProcessEnv};
use gimlet_core::commands::{CommandContext, CommandOutput, SlashCommand};
use gimlet_proto::BoxFuture;

use crate::memory_list;

/// The command `/memory`.
pub(super) struct MemoryCommand {
    request: LaunchRequest,
    around: ProcessEnv,
}

impl MemoryCommand {
    pub(super) fn new(request: LaunchRequest, around: ProcessEnv) -> Self {
        Self { request, around }
    }
}

impl SlashCommand for MemoryCommand {
    fn name(&self) -> &str {
        "memory"
    }

    fn description(&self) -> &str {
        "List the memory files that the model gets, and those that could exist"
    }

    fn run<'a>(&'a self, _args: &'a str, _cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        let (request, around) = (self.request.clone(), self.around.clone());
        Box::pin(async move {
            let work = tokio::task::spawn_blocking(move || memory_list::describe_memory(&request, &around));
            let text = work.await.map_err(|error| format!("the memory files cannot be read: {error}"))?;
            text.map(CommandOutput::Text).map_err(|report| report.text())
        })
    }
}
