//! `/effort`: the thinking effort.

use gimlet_proto::{BoxFuture, EFFORTS, Op};

use super::{CommandContext, CommandOutput, SlashCommand};

/// Word for the effort that the session started with.
const INITIAL: &str = "auto";

/// The command `/effort`.
pub(super) struct EffortCommand;

impl SlashCommand for EffortCommand {
    fn name(&self) -> &str {
        "effort"
    }

    fn description(&self) -> &str {
        "Show or set how much effort the model puts into thinking"
    }

    fn argument_hint(&self) -> &str {
        "[level]"
    }

    fn run<'a>(&'a self, args: &'a str, cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        Box::pin(async move {
            let levels = effort_levels(cx);
            let valid = || format!("{}, {INITIAL}", levels.join(", "));
            let text = match args {
                "" => {
                    let now = cx.snapshot().effort.clone().unwrap_or_else(|| "the model's default".to_owned());
                    format!("Effort: {now}. Levels: {}", valid())
                }
                INITIAL => {
                    cx.request(|reply| Op::SetEffort { effort: None, reply }).await?;
                    "Effort is as it was at the start of this session".to_owned()
                }
                level if levels.contains(&level) => {
                    cx.request(|reply| Op::SetEffort { effort: Some(level.to_owned()), reply }).await?;
                    format!("Effort is {level} for this session")
                }
                other => return Err(format!("there is no effort level '{other}' here. Choose one of: {}", valid())),
            };
            Ok(CommandOutput::Text(text))
        })
    }
}

/// Returns the levels that the current model accepts, or all if they are not known.
fn effort_levels(cx: &CommandContext) -> Vec<&'static str> {
    let id = cx.model().facts(&cx.snapshot().model).id;
    let known = cx.model().choices().into_iter().find(|choice| choice.id == id).map(|choice| choice.efforts);
    known.filter(|levels| !levels.is_empty()).unwrap_or(&EFFORTS).to_vec()
}
