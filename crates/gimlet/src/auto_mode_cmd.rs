//! `gimlet auto-mode`: shows the instructions of auto mode's reviewer, built in and from settings. Sends no model
//! request.

use std::io::{BufRead, IsTerminal};
use std::process::ExitCode;

use gimlet_app::{ProcessEnv, settings_mapping};
use gimlet_config::{JsonEdit, Scope};
use gimlet_core::ReviewRules;
use serde_json::{Value, json};

use crate::args::AutoModeCommand;
use crate::config_cmd;
use crate::report::Report;

pub(crate) fn run(command: &AutoModeCommand, around: &ProcessEnv) -> Result<ExitCode, Report> {
    match command {
        AutoModeCommand::Defaults { label } => show_defaults(label.as_deref()),
        AutoModeCommand::Config => {
            let auto = config_cmd::find(around).effective.settings.auto_mode.unwrap_or_default();
            print_rules(&rules_json(&settings_mapping::review_rules(&auto).expand_defaults()));
            Ok(ExitCode::SUCCESS)
        }
        AutoModeCommand::Reset { yes } => reset_rules(around, *yes),
    }
}

fn show_defaults(label: Option<&str>) -> Result<ExitCode, Report> {
    let mut rules = rules_json(&ReviewRules::default().expand_defaults());
    if let Some(label) = label {
        keep_matching_rules(&mut rules, label);
        if rules.as_object().is_some_and(serde_json::Map::is_empty) {
            return Err(Report::new(format!("no built-in rule and no list begins with '{label}'"))
                .with_hint("See 'gimlet auto-mode defaults'"));
        }
    }
    print_rules(&rules);
    Ok(ExitCode::SUCCESS)
}

/// Keeps whole lists whose name begins with the label, and of the other lists the rules that do.
fn keep_matching_rules(rules: &mut Value, label: &str) {
    let label = label.to_lowercase();
    let Some(lists) = rules.as_object_mut() else { return };
    for (name, list) in lists.iter_mut() {
        if let Some(entries) = list.as_array_mut()
            && !name.starts_with(&label)
        {
            entries.retain(|entry| entry.as_str().is_some_and(|rule| rule.to_lowercase().starts_with(&label)));
        }
    }
    lists.retain(|_, list| list.as_array().is_some_and(|entries| !entries.is_empty()));
}

fn reset_rules(around: &ProcessEnv, yes: bool) -> Result<ExitCode, Report> {
    let locations = settings_mapping::find_locations(around);
    let file = locations.user_file();
    let loaded = gimlet_config::load_settings(&locations, &gimlet_config::SettingsLoadOptions::default());
    let has_own =
        loaded.layers.iter().any(|layer| layer.scope == Scope::User && layer.line_of_key("autoMode").is_some());
    if !has_own {
        crate::print_line(&format!("{} has no autoMode; nothing to remove", file.display()));
        return Ok(ExitCode::SUCCESS);
    }
    if !yes && !confirm(&format!("Remove autoMode from {}?", file.display()))? {
        crate::print_line("nothing was removed");
        return Ok(ExitCode::from(1));
    }
    let file = gimlet_config::save_setting(&locations, Scope::User, "autoMode", &JsonEdit::RemoveKey)
        .map_err(|error| Report::new(error.to_string()))?;
    crate::print_line(&format!("autoMode removed from {}", file.display()));
    Ok(ExitCode::SUCCESS)
}

/// Asks the user for confirmation; an error without a terminal.
fn confirm(question: &str) -> Result<bool, Report> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Err(Report::new("nobody is there to be asked").with_hint("Add -y to remove it without a question"));
    }
    crate::print_error_line(&format!("{question} [y/N]"));
    let mut answer = String::new();
    input.lock().read_line(&mut answer).map_err(|error| Report::new(format!("no answer could be read: {error}")))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn rules_json(rules: &ReviewRules) -> Value {
    let ReviewRules { environment, allow, soft_deny, hard_deny } = rules;
    json!({ "environment": environment, "allow": allow, "soft_deny": soft_deny, "hard_deny": hard_deny })
}

/// Prints rules, sanitized: settings are text from files that others may have written.
fn print_rules(rules: &Value) {
    crate::print_line(&gimlet_serve::sanitise(&format!("{rules:#}")));
}
