//! `gimlet trust`: permanent trust in a folder's files, without the terminal UI. It shows them first and records only
//! on request; a command of a session can do neither, since the model could run it.

use std::path::Path;
use std::process::ExitCode;

use gimlet_app::ProcessEnv;
use gimlet_config::{
    ItemChange, ProjectItem, TrustStore, escape_invisible, escape_invisible_json, escape_invisible_line,
};
use serde_json::{Value, json};

use crate::args::TrustArgs;
use crate::config_cmd::{self, SettingsSnapshot};
use crate::report::Report;

/// Digits of a digest that are shown, enough to distinguish items; JSON has all of it.
const SHOWN_DIGEST: usize = 16;

pub(crate) fn run(args: &TrustArgs, around: &ProcessEnv) -> Result<ExitCode, Report> {
    let around = ProcessEnv { cwd: resolve_folder(args.folder.as_deref(), &around.cwd)?, ..around.clone() };
    if (args.yes || args.revoke) && gimlet_exec::is_started_by_session() {
        return Err(Report::new("trust is not given or taken back by a command of a session")
            .with_hint("Run this in a terminal of your own"));
    }
    let found = config_cmd::read_with_recorded_trust(&around);
    let done = match (args.yes, args.revoke) {
        (true, _) => accept_items(&found)?,
        (_, true) => revoke_trust(&found)?,
        _ => Vec::new(),
    };
    // Read again, to show the state from now on.
    let found = if done.is_empty() { found } else { config_cmd::read_with_recorded_trust(&around) };
    let page = match args.json {
        true => escape_invisible_json(&render_json(&found).to_string()).into_owned(),
        false => gimlet_serve::sanitise(&render_text(&found, &done)).into_owned(),
    };
    crate::print_line(&page);
    Ok(ExitCode::SUCCESS)
}

fn resolve_folder(wanted: Option<&Path>, current: &Path) -> Result<std::path::PathBuf, Report> {
    let Some(wanted) = wanted else { return Ok(current.to_owned()) };
    gimlet_app::session_lookup::folder(wanted, current).map_err(Report::new)
}

fn accept_items(found: &SettingsSnapshot) -> Result<Vec<String>, Report> {
    if found.store.is_in_memory_only() {
        return Err(Report::new("trust in the home directory lasts for one session and is not recorded")
            .with_hint("Add --trust to the run that needs it"));
    }
    let withheld = found.effective.withheld.clone();
    let (_, stored) = found.store.accept_folder(&withheld);
    stored.map_err(|error| Report::new(error.to_string()))?;
    gimlet_config::forget_abandoned_leases(&found.loaded.locations);
    gimlet_config::forget_seen_project_files(&found.loaded.locations);
    Ok(vec![match withheld.len() {
        0 => "Trusted. Nothing was pending.".to_owned(),
        1 => "Trusted 1 pending item.".to_owned(),
        count => format!("Trusted {count} pending items."),
    }])
}

fn revoke_trust(found: &SettingsSnapshot) -> Result<Vec<String>, Report> {
    let forgotten = found.store.revoke().map_err(|error| Report::new(error.to_string()))?;
    Ok(vec![if forgotten { "Trust revoked." } else { "Nothing was trusted here." }.to_owned()])
}

fn trust_changes(found: &SettingsSnapshot) -> Vec<ItemChange> {
    found.store.list_changes(&found.inventory, &found.store.load_trust())
}

fn find_change<'a>(changes: &'a [ItemChange], item: &ProjectItem) -> Option<&'a ItemChange> {
    changes.iter().find(|change| change.item == *item)
}

/// Renders the whole page. Text from the project's files has no invisible characters and cannot imitate a line of
/// gimlet's.
fn render_text(found: &SettingsSnapshot, done: &[String]) -> String {
    let mut lines: Vec<String> = done.to_vec();
    lines.push(format!("{}: {}", visible_path(found.store.root()), trust_summary(found)));
    let changes = trust_changes(found);
    for item in &found.inventory.items {
        let (state, shown) = match find_change(&changes, item) {
            None => ("trusted", escape_invisible(&item.text).into_owned()),
            Some(change) if change.is_new => ("pending", change.shown.clone()),
            Some(change) => ("changed", change.shown.clone()),
        };
        let line = item.line.map_or(String::new(), |line| format!(":{line}"));
        let digest: String = item.digest.chars().take(SHOWN_DIGEST).collect();
        lines.push(format!("  {state:<8}{}", item.title()));
        lines.push(format!("          {}{line}  sha256 {digest}", visible_path(&item.file)));
        lines.extend(shown.lines().filter(|text| *text != item.name).map(|text| format!("          | {text}")));
    }
    if done.is_empty() && !found.effective.withheld.is_empty() && !found.store.is_in_memory_only() {
        lines.push("To accept all of it as it is now: gimlet trust --yes".to_owned());
    }
    lines.join("\n")
}

fn visible_path(path: &Path) -> String {
    escape_invisible_line(&path.display().to_string()).into_owned()
}

fn trust_summary(found: &SettingsSnapshot) -> &'static str {
    let trust = found.store.load_trust();
    match (found.inventory.items.is_empty(), found.effective.withheld.is_empty()) {
        _ if TrustStore::is_in_memory_only(&found.store) => {
            "the home directory is trusted for single sessions only (--trust)"
        }
        (true, _) if trust.has_accepted_folder() => "trusted; no project settings that need trust",
        (true, _) => "no project settings that need trust",
        (false, true) => "trusted",
        (false, false) if trust.has_accepted_folder() => "partly trusted; the rest is pending",
        (false, false) => "not trusted",
    }
}

fn render_json(found: &SettingsSnapshot) -> Value {
    let changes = trust_changes(found);
    let items = found.inventory.items.iter().map(|item| {
        let mut told = serde_json::to_value(item).unwrap_or_default();
        let change = find_change(&changes, item);
        told["trusted"] = Value::Bool(change.is_none());
        if let Some(change) = change.filter(|change| !change.is_new) {
            told["difference"] = Value::String(change.shown.clone());
        }
        told
    });
    json!({ "folder": found.store.root(), "state": trust_summary(found), "items": items.collect::<Vec<Value>>() })
}
