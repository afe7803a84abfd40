//! `/plugin`: lists the plugins of this session.

use gimlet_app::{LaunchRequest, ProcessEnv};
use gimlet_core::commands::{CommandContext, CommandOutput, SlashCommand};
use gimlet_proto::BoxFuture;

use crate::plugin_cmd;

/// The command `/plugin`.
pub(super) struct PluginSlashCommand {
    request: LaunchRequest,
    around: ProcessEnv,
}

impl PluginSlashCommand {
    pub(super) fn new(request: LaunchRequest, around: ProcessEnv) -> Self {
        Self { request, around }
    }
}

impl SlashCommand for PluginSlashCommand {
    fn name(&self) -> &str {
        "plugin"
    }

    fn aliases(&self) -> Vec<&str> {
        vec!["plugins"]
    }

    fn description(&self) -> &str {
        "Show the plugins, and what each brings"
    }

    fn run<'a>(&'a self, args: &'a str, _cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        let (request, around, args) = (self.request.clone(), self.around.clone(), args.trim().to_owned());
        Box::pin(async move {
            if !matches!(args.as_str(), "" | "list") {
                return Err(
                    "/plugin lists the plugins; 'gimlet plugin' in a terminal installs and changes them".to_owned()
                );
            }
            let work = tokio::task::spawn_blocking(move || plugin_cmd::describe_plugins(&request, &around));
            let text = work.await.map_err(|error| format!("the plugins cannot be read: {error}"))?;
            text.map(CommandOutput::Text).map_err(|report| report.text())
        })
    }
}
