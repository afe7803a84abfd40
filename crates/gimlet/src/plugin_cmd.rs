//! `gimlet plugin`: lists and checks plugins.

mod plugin_list;

use std::path::Path;
use std::process::ExitCode;

use gimlet_app::ProcessEnv;
use gimlet_app::start::PluginCheck;
use gimlet_config::ProblemSeverity;

use crate::args::PluginCommand;
use crate::report::Report;

pub(crate) use plugin_list::describe_plugins;

pub(crate) fn run(command: &PluginCommand, around: &ProcessEnv) -> Result<ExitCode, Report> {
    match command {
        PluginCommand::List { json } => plugin_list::list(*json, around),
        PluginCommand::Validate { path, strict } => validate(path, *strict, around),
    }
}

/// Checks a plugin; fails if it could not be used, or with `strict` if anything of it would be ignored.
fn validate(path: &Path, strict: bool, around: &ProcessEnv) -> Result<ExitCode, Report> {
    let check = PluginCheck::read(path, around)?;
    let mut lines: Vec<String> = Vec::new();
    let is_flawed = |severity| severity != ProblemSeverity::Info;
    lines.extend(check.problems.iter().map(ToString::to_string));
    lines.extend(check.skipped.iter().map(ToString::to_string));
    let is_clean = !check.problems.iter().any(|problem| is_flawed(problem.severity)) && check.skipped.is_empty();
    let is_valid = match &check.plugin {
        Ok(found) => {
            let manifest = &found.plugin.manifest;
            let unsupported = &manifest.unsupported;
            if !unsupported.is_empty() {
                lines.push(format!("not used by this version of gimlet: {}", unsupported.join(", ")));
            }
            let version = manifest.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
            lines.push(format!("{}{version} brings {}", manifest.name, found.describe_parts()));
            true
        }
        Err(error) => {
            let line = error.line.map(|line| format!(":{line}")).unwrap_or_default();
            lines.push(format!("{}{line}: {}", error.path.display(), error.message));
            false
        }
    };
    let verdict = match (is_valid, is_clean) {
        (false, _) => "It cannot be used.",
        (true, true) => "It is valid.",
        (true, false) => "It can be used, without what is named above.",
    };
    lines.push(verdict.to_owned());
    crate::print_line(&gimlet_serve::sanitise(&lines.join("\n")));
    Ok(if is_valid && (is_clean || !strict) { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
