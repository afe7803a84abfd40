//! `/doctor`: what is wrong with settings, rules, agents and programs here, as `gimlet doctor` reports it.

use gimlet_app::ProcessEnv;
use gimlet_core::commands::{CommandContext, CommandOutput, SlashCommand};
use gimlet_proto::BoxFuture;

use crate::doctor_cmd;

/// The command `/doctor`.
pub(super) struct DoctorCommand {
    around: ProcessEnv,
}

impl DoctorCommand {
    pub(super) fn new(around: ProcessEnv) -> Self {
        Self { around }
    }
}

impl SlashCommand for DoctorCommand {
    fn name(&self) -> &str {
        "doctor"
    }

    fn aliases(&self) -> Vec<&str> {
        vec!["checkup"]
    }

    fn description(&self) -> &str {
        "Report problems of settings, rules, hooks and programs"
    }

    fn run<'a>(&'a self, _args: &'a str, _cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        let around = self.around.clone();
        Box::pin(async move {
            let work = tokio::task::spawn_blocking(move || doctor_cmd::report_text(&around));
            let text = work.await.map_err(|error| format!("the checks ended early: {error}"))?;
            Ok(CommandOutput::Text(text))
        })
    }
}
