//! `/config`: lists the effective settings with their sources, shows one, or sets one in the user's file.

use gimlet_app::{LaunchRequest, ProcessEnv};
use gimlet_core::commands::{CommandContext, CommandOutput, SlashCommand};
use gimlet_proto::BoxFuture;

use super::output_style_command;
use crate::args::WritableScope;
use crate::config_cmd::{self, ConfigAnswer, SettingEdit};

/// The command `/config`.
pub(super) struct ConfigSlashCommand {
    request: LaunchRequest,
    around: ProcessEnv,
}

impl ConfigSlashCommand {
    pub(super) fn new(request: LaunchRequest, around: ProcessEnv) -> Self {
        Self { request, around }
    }
}

impl SlashCommand for ConfigSlashCommand {
    fn name(&self) -> &str {
        "config"
    }

    fn aliases(&self) -> Vec<&str> {
        vec!["settings"]
    }

    fn description(&self) -> &str {
        "Show the settings and where they come from, or set one for yourself"
    }

    fn argument_hint(&self) -> &str {
        "[key[=value]]"
    }

    fn run<'a>(&'a self, args: &'a str, _cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        let (request, around, args) = (self.request.clone(), self.around.clone(), args.to_owned());
        Box::pin(async move {
            let work = tokio::task::spawn_blocking(move || answer(&request, &around, &args));
            let text = work.await.map_err(|error| format!("the settings cannot be read: {error}"))??;
            Ok(CommandOutput::Text(text))
        })
    }
}

/// Returns the output for these arguments.
fn answer(request: &LaunchRequest, around: &ProcessEnv, args: &str) -> Result<String, String> {
    let sources = request.settings.sources.unwrap_or_default();
    match args.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
        Some(("", _)) => Err("the name of the setting is missing: /config key=value".to_owned()),
        Some((key, "")) => Err(format!("the value of {key} is missing: /config {key}=value")),
        Some((output_style_command::SETTING, name)) => output_style_command::choose_style(request, around, name),
        // The session would not see the change, so it would look lost.
        Some(_) if !sources.user => {
            Err("this session does not read your own settings, so nothing is written there".to_owned())
        }
        Some((key, value)) => {
            let done = SettingEdit::new(around, WritableScope::User, key).set(value);
            done.map(ConfigAnswer::into_text).map_err(|report| report.text())
        }
        None if args.is_empty() => {
            let found = config_cmd::read_for_session(request, around);
            let lines = std::iter::once(config_cmd::describe_settings(&found)).chain(config_cmd::withheld_line(&found));
            Ok(lines.collect::<Vec<_>>().join("\n"))
        }
        None => {
            let found = config_cmd::read_for_session(request, around);
            config_cmd::describe_setting(&found, args).map_err(|report| report.text())
        }
    }
}
