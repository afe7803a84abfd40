//! `/output-style`: lists the output styles, or chooses one for the user's sessions in this folder.

use gimlet_app::start::SessionSettings;
use gimlet_app::{LaunchRequest, ProcessEnv};
use gimlet_core::commands::{CommandContext, CommandOutput, SlashCommand, text_table};
use gimlet_proto::BoxFuture;

use crate::args::WritableScope;
use crate::config_cmd::{ConfigAnswer, SettingEdit};

/// The setting that names a style.
pub(super) const SETTING: &str = "outputStyle";

/// The command `/output-style`.
pub(super) struct OutputStyleCommand {
    request: LaunchRequest,
    around: ProcessEnv,
}

impl OutputStyleCommand {
    pub(super) fn new(request: LaunchRequest, around: ProcessEnv) -> Self {
        Self { request, around }
    }
}

impl SlashCommand for OutputStyleCommand {
    fn name(&self) -> &str {
        "output-style"
    }

    fn description(&self) -> &str {
        "Show the output styles, or choose one for this folder"
    }

    fn argument_hint(&self) -> &str {
        "[style]"
    }

    fn run<'a>(&'a self, args: &'a str, _cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        let (request, around, name) = (self.request.clone(), self.around.clone(), args.trim().to_owned());
        Box::pin(async move {
            let work = tokio::task::spawn_blocking(move || match name.as_str() {
                "" => list_styles(&request, &around),
                name => choose_style(&request, &around, name),
            });
            let text = work.await.map_err(|error| format!("the output styles cannot be read: {error}"))?;
            text.map(CommandOutput::Text)
        })
    }
}

/// Lists the styles; the one that a new session would have is marked.
fn list_styles(request: &LaunchRequest, around: &ProcessEnv) -> Result<String, String> {
    let settings = SessionSettings::read(request, around).map_err(|error| error.text())?;
    let (chosen, remark) = settings.style_of_new_sessions();
    let styles = settings.available_styles();
    let rows: Vec<Vec<String>> = styles
        .iter()
        .map(|style| {
            let mark = if style.name == chosen { "*" } else { "" };
            let place = style.file.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
            let description = style.description.clone().unwrap_or_default();
            vec![mark.to_owned(), style.name.clone(), style.source.to_owned(), description, place]
        })
        .collect();
    let mut lines = vec![text_table(&rows, false)];
    lines.extend(remark);
    lines.push("* is what new conversations begin with. /output-style <name> chooses another".to_owned());
    Ok(lines.join("\n"))
}

/// Saves the choice of a style in the user's settings for this folder.
pub(super) fn choose_style(request: &LaunchRequest, around: &ProcessEnv, name: &str) -> Result<String, String> {
    if !request.settings.sources.unwrap_or_default().local {
        return Err("this session does not read local settings, so nothing is written there".to_owned());
    }
    let settings = SessionSettings::read(request, around).map_err(|error| error.text())?;
    let styles = settings.available_styles();
    let exact = styles.iter().find(|style| style.name == name);
    let Some(style) = exact.or_else(|| styles.iter().find(|style| style.name.eq_ignore_ascii_case(name))) else {
        let names: Vec<&str> = styles.iter().map(|style| style.name.as_str()).collect();
        return Err(format!("there is no output style '{name}'; there are: {}", names.join(", ")));
    };
    let value = serde_json::Value::from(style.name.as_str()).to_string();
    let saved = SettingEdit::new(around, WritableScope::Local, SETTING).set(&value);
    let text = saved.map(ConfigAnswer::into_text).map_err(|report| report.text())?;
    Ok(format!("{text}\nConversations begin with the style {} from the next one on (/clear)", style.name))
}
