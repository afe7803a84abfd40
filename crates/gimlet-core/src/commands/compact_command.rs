//! `/compact`: continues the conversation from a summary.

use gimlet_proto::BoxFuture;

use super::{CommandContext, CommandOutput, SlashCommand};

/// The command `/compact`.
pub(super) struct CompactCommand;

impl SlashCommand for CompactCommand {
    fn name(&self) -> &str {
        "compact"
    }

    fn description(&self) -> &str {
        "Continue the conversation from a summary of it"
    }

    fn argument_hint(&self) -> &str {
        "[what the summary is to dwell on]"
    }

    fn run<'a>(&'a self, args: &'a str, _cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        let focus = Some(args.trim()).filter(|focus| !focus.is_empty()).map(str::to_owned);
        Box::pin(async move { Ok(CommandOutput::Compaction(focus)) })
    }
}
