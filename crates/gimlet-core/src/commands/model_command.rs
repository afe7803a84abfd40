//! `/model`: the model of the session.

use gimlet_proto::{BoxFuture, Op};

use super::{CommandContext, CommandOutput, SlashCommand, text_table};

/// The command `/model`.
pub(super) struct ModelCommand;

impl SlashCommand for ModelCommand {
    fn name(&self) -> &str {
        "model"
    }

    fn description(&self) -> &str {
        "Show or change the model"
    }

    fn argument_hint(&self) -> &str {
        "[model]"
    }

    fn run<'a>(&'a self, args: &'a str, cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        Box::pin(async move {
            if args.is_empty() {
                return Ok(CommandOutput::Text(format!("Model: {}\n{}", current_model(cx), choice_table(cx))));
            }
            check_name(cx, args)?;
            cx.request(|reply| Op::SetModel { model: Some(args.to_owned()), reply }).await?;
            let facts = cx.model().facts(args);
            let text = match facts.known {
                _ if args == "default" => "The model is the one that this session started with".to_owned(),
                true => format!("The model is {} for this session", facts.id),
                false => format!(
                    "The model is {} for this session. It is not in the catalogue: the server decides",
                    facts.id
                ),
            };
            Ok(CommandOutput::Text(text))
        })
    }
}

fn current_model(cx: &CommandContext) -> String {
    cx.model().facts(&cx.snapshot().model).id
}

/// Returns an error with the valid names if the model may not be chosen, or if the name is neither a short name nor
/// has the form of an id: no server would know it.
fn check_name(cx: &CommandContext, name: &str) -> Result<(), String> {
    let names = || -> Vec<String> { permitted(cx).map(|(alias, _)| alias).collect() };
    let with_names =
        |problem: String| format!("{problem}. Choose one of: {}, or the id of a model", names().join(", "));
    cx.model().check_choice(name).map_err(with_names)?;
    let has_form_of_id = name.contains(|char: char| !char.is_ascii_alphabetic());
    if !cx.model().facts(name).known && !has_form_of_id {
        return Err(with_names(format!("there is no model '{name}'")));
    }
    Ok(())
}

/// Returns the short names that may be chosen, with the ids that they stand for.
fn permitted(cx: &CommandContext) -> impl Iterator<Item = (String, String)> {
    let choices = cx.model().choices().into_iter();
    choices
        .filter(|choice| cx.model().check_choice(choice.alias).is_ok())
        .map(|choice| (choice.alias.to_owned(), choice.id))
}

fn choice_table(cx: &CommandContext) -> String {
    let rows: Vec<Vec<String>> = permitted(cx).map(|(alias, id)| vec![alias, id]).collect();
    text_table(&rows, false)
}
