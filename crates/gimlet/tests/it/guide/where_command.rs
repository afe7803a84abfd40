//! `/where`: the folder and the model of the session.

use gimlet_proto::BoxFuture;

use super::{CommandContext, CommandOutput, SlashCommand};

/// The command `/where`.
pub(super) struct WhereCommand;

impl SlashCommand for WhereCommand {
    fn name(&self) -> &str {
        "where"
    }

    fn description(&self) -> &str {
        "Show the folder and the model of this session"
    }

    fn argument_hint(&self) -> &str {
        "[folder|model]"
    }
    fn run<'a>(&'a self, args: &'a str, cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        Box::pin(async move {
            let now = cx.snapshot();
            let (folder, model) = (now.cwd.display().to_string(), now.turn_setup.model.clone());
            let text = match args {
                "" => format!("{model} in {folder}"),
                "folder" => folder,
                "model" => model,
                other => return Err(format!("/where knows nothing about '{other}'. Choose folder or model")),
            };
            Ok(CommandOutput::Text(text))
        })
    }
}
