//! `/sandbox`: what commands of this folder may reach, and whether sessions use the sandbox.

use gimlet_app::ProcessEnv;
use gimlet_core::commands::{CommandContext, CommandOutput, SlashCommand};
use gimlet_proto::BoxFuture;

use crate::args::{SandboxExplainArgs, WritableScope};
use crate::config_cmd::{ConfigAnswer, SettingEdit};
use crate::sandbox_cmd;

/// The setting that this command changes.
const KEY: &str = "sandbox.enabled";

/// The command `/sandbox`.
pub(super) struct SandboxSlashCommand {
    around: ProcessEnv,
}

impl SandboxSlashCommand {
    pub(super) fn new(around: ProcessEnv) -> Self {
        Self { around }
    }
}

impl SlashCommand for SandboxSlashCommand {
    fn name(&self) -> &str {
        "sandbox"
    }

    fn description(&self) -> &str {
        "Show what commands may reach in the sandbox, or turn it on or off for this project"
    }

    fn argument_hint(&self) -> &str {
        "[on or off]"
    }

    fn run<'a>(&'a self, args: &'a str, _cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        Box::pin(async move {
            let value = match args {
                "" => {
                    let text = sandbox_cmd::explain(&SandboxExplainArgs::default(), &self.around).await;
                    return text.map(CommandOutput::Text).map_err(|report| report.text());
                }
                "on" => "true",
                "off" => "false",
                other => return Err(format!("/sandbox takes on or off, not '{other}'")),
            };
            let around = self.around.clone();
            let work =
                tokio::task::spawn_blocking(move || SettingEdit::new(&around, WritableScope::Local, KEY).set(value));
            let done = work.await.map_err(|error| format!("the setting cannot be written: {error}"))?;
            done.map(ConfigAnswer::into_text).map(CommandOutput::Text).map_err(|report| report.text())
        })
    }
}
