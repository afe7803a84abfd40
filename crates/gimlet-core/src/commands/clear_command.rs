//! `/clear`: an empty conversation.

use gimlet_proto::{BoxFuture, CommandKind};

use super::{CommandContext, CommandOutput, SlashCommand};

/// The command `/clear`.
pub(super) struct ClearCommand;

impl SlashCommand for ClearCommand {
    fn name(&self) -> &str {
        "clear"
    }

    fn aliases(&self) -> Vec<&str> {
        vec!["reset", "new"]
    }

    fn description(&self) -> &str {
        "Go on with an empty conversation"
    }

    fn kind(&self) -> CommandKind {
        CommandKind::Host
    }

    fn run<'a>(&'a self, _args: &'a str, _cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        Box::pin(async move {
            // A front end that can replace its session does so and never gets here.
            Err("/clear begins a new session, which cannot be done from here. Start gimlet without --resume and \
                 --continue instead"
                .to_owned())
        })
    }
}
