//! `/hooks`: lists the hooks of the settings files with what becomes of each.

use gimlet_app::{LaunchRequest, ProcessEnv};
use gimlet_core::commands::{CommandContext, CommandOutput, SlashCommand};
use gimlet_proto::BoxFuture;

use crate::hooks_cmd;

/// The command `/hooks`.
pub(super) struct HooksSlashCommand {
    request: LaunchRequest,
    around: ProcessEnv,
}

impl HooksSlashCommand {
    pub(super) fn new(request: LaunchRequest, around: ProcessEnv) -> Self {
        Self { request, around }
    }
}

impl SlashCommand for HooksSlashCommand {
    fn name(&self) -> &str {
        "hooks"
    }

    fn description(&self) -> &str {
        "Show the hooks of your settings, and whether they run"
    }

    fn run<'a>(&'a self, _args: &'a str, _cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        let (request, around) = (self.request.clone(), self.around.clone());
        Box::pin(async move {
            let work = tokio::task::spawn_blocking(move || hooks_cmd::describe_hooks(&request, &around));
            let text = work.await.map_err(|error| format!("the hooks cannot be read: {error}"))?;
            text.map(CommandOutput::Text).map_err(|report| report.text())
        })
    }
}
