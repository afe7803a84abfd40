//! `/status`: version, model, mode, folders and settings files of the session.

use gimlet_app::{LaunchRequest, ProcessEnv};
use gimlet_core::commands::{CommandContext, CommandOutput, SlashCommand, text_table};
use gimlet_proto::BoxFuture;

use crate::config_cmd;

/// The command `/status`.
pub(super) struct StatusCommand {
    request: LaunchRequest,
    around: ProcessEnv,
}

impl StatusCommand {
    pub(super) fn new(request: LaunchRequest, around: ProcessEnv) -> Self {
        Self { request, around }
    }
}

impl SlashCommand for StatusCommand {
    fn name(&self) -> &str {
        "status"
    }

    fn description(&self) -> &str {
        "Show version, model, mode, folder and settings files of this session"
    }

    fn run<'a>(&'a self, _args: &'a str, cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        Box::pin(async move {
            let (request, around) = (self.request.clone(), self.around.clone());
            let files = tokio::task::spawn_blocking(move || settings_table(&request, &around));
            let files = files.await.map_err(|error| format!("the settings cannot be read: {error}"))?;
            Ok(CommandOutput::Text(format!("{}\nSettings files:\n{files}", session_table(cx))))
        })
    }
}

fn session_table(cx: &CommandContext) -> String {
    let snapshot = cx.snapshot();
    let transcript = cx.transcript().map_or("not kept".to_owned(), |path| path.display().to_string());
    let rows = [
        ("Version", format!("gimlet {} (compatible with {})", gimlet_proto::VERSION, gimlet_proto::COMPAT_VERSION)),
        ("Session", cx.session_id().to_string()),
        ("Transcript", transcript),
        ("Folder", snapshot.cwd.display().to_string()),
        ("Model", snapshot.turn_setup.model.clone()),
        ("Effort", snapshot.effort.clone().unwrap_or_else(|| "the model's default".to_owned())),
        ("Mode", snapshot.mode.to_string()),
        ("API key", snapshot.turn_setup.api_key_source.clone()),
    ];
    text_table(&rows.map(|(name, value)| vec![name.to_owned(), value]), false)
}

/// Returns the settings files that this session looks for, in ascending precedence.
fn settings_table(request: &LaunchRequest, around: &ProcessEnv) -> String {
    let found = config_cmd::read_for_session(request, around);
    config_cmd::file_table(&config_cmd::settings_files(&found.loaded))
}
