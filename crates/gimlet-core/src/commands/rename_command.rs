//! `/rename`: the title of the session.

use std::path::Path;

use gimlet_proto::{BoxFuture, Op};

use super::{CommandContext, CommandOutput, SlashCommand};

/// The command `/rename`.
pub(super) struct RenameCommand;

impl SlashCommand for RenameCommand {
    fn name(&self) -> &str {
        "rename"
    }

    fn description(&self) -> &str {
        "Show or set the title of this session"
    }

    fn argument_hint(&self) -> &str {
        "[title]"
    }

    fn run<'a>(&'a self, args: &'a str, cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        Box::pin(async move {
            if args.is_empty() {
                let path = cx.transcript().map(Path::to_owned);
                let title = tokio::task::spawn_blocking(move || read_title(path.as_deref())).await;
                return Ok(CommandOutput::Text(match title.ok().flatten() {
                    Some(title) => format!("This session is called: {title}"),
                    None => "This session has no title. /rename <title> sets one".to_owned(),
                }));
            }
            cx.request(|reply| Op::SetTitle { title: args.to_owned(), reply }).await?;
            Ok(CommandOutput::Text(format!("This session is now called: {args}")))
        })
    }
}

/// Returns the title in the session's file, whoever wrote it.
fn read_title(transcript: Option<&Path>) -> Option<String> {
    let labels = gimlet_store::read_summary(transcript?).ok()??.labels;
    labels.display_title().map(str::to_owned)
}
