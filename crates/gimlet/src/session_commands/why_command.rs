//! `/why`: the decisions about the calls of this session, with decider and reasons.

use gimlet_app::ProcessEnv;
use gimlet_core::commands::{CommandContext, CommandOutput, SlashCommand};
use gimlet_proto::BoxFuture;

use crate::why_cmd;

/// The command `/why`.
pub(super) struct WhyCommand {
    around: ProcessEnv,
}

impl WhyCommand {
    pub(super) fn new(around: ProcessEnv) -> Self {
        Self { around }
    }
}

impl SlashCommand for WhyCommand {
    fn name(&self) -> &str {
        "why"
    }

    fn description(&self) -> &str {
        "Show why calls of this session were allowed or refused"
    }

    fn argument_hint(&self) -> &str {
        "[number]"
    }

    fn run<'a>(&'a self, args: &'a str, cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        let (around, session, call) = (self.around.clone(), cx.session_id().to_string(), args.to_owned());
        let is_kept = cx.transcript().is_some();
        Box::pin(async move {
            if !is_kept {
                return Err("this session is not kept, so its decisions are not either".to_owned());
            }
            let call = (!call.is_empty()).then_some(call);
            let work =
                tokio::task::spawn_blocking(move || why_cmd::describe_session(&around, &session, call.as_deref()));
            let text = work.await.map_err(|error| format!("the decisions cannot be read: {error}"))?;
            text.map(CommandOutput::Text).map_err(|report| report.text())
        })
    }
}
