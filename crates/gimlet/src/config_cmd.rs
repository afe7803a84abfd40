//! `gimlet config`: shows settings and their sources, and changes them.

mod config_answer;
mod setting_edit;

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use gimlet_app::{
    LaunchRequest, ProcessEnv,
    settings_mapping::{self, find_locations},
};
use gimlet_config::{
    EffectiveSettings, KEYS, LoadedSettings, ProjectTrust, Scope, SettingsLoadOptions, SettingsProblem, SourcedValue,
    StateSettings, TrustInventory, TrustStore,
};
use serde_json::{Map, Value, json};

use crate::args::ConfigCommand;
use crate::report::Report;
pub(crate) use config_answer::ConfigAnswer;
pub(crate) use setting_edit::SettingEdit;

/// Settings as the settings commands see them.
pub(crate) struct SettingsSnapshot {
    pub(crate) loaded: LoadedSettings,
    pub(crate) inventory: TrustInventory,
    pub(crate) effective: EffectiveSettings,
    pub(crate) store: TrustStore,
}

/// Reads settings and trust as a session that starts now would see them.
pub(crate) fn find(around: &ProcessEnv) -> SettingsSnapshot {
    read_with_trust(around, false)
}

/// Reads settings with recorded trust only, ignoring trust that the environment grants for this run.
pub(crate) fn read_with_recorded_trust(around: &ProcessEnv) -> SettingsSnapshot {
    let loaded = gimlet_config::load_settings(&find_locations(around), &SettingsLoadOptions::default());
    let inventory = TrustInventory::collect(&loaded);
    let store = TrustStore::new(&loaded.locations);
    let effective = loaded.effective_settings(&inventory, &store.load_trust());
    SettingsSnapshot { loaded, inventory, effective, store }
}

/// Reads settings with the flags of a session: its additional settings, sources and trust.
pub(crate) fn read_for_session(request: &LaunchRequest, around: &ProcessEnv) -> SettingsSnapshot {
    let asked = &request.settings;
    let sources = asked.sources.unwrap_or_default();
    let options = SettingsLoadOptions {
        settings_flag: asked.flag.clone(),
        sources,
        parent: asked.managed.clone(),
        ..SettingsLoadOptions::default()
    };
    let names_project = asked.sources.is_some() && sources.project;
    read_with_options(around, &options, asked.trusts_folder || names_project)
}

/// Reads settings; `trusting` treats the project's files as trusted, as `--trust` does.
pub(crate) fn read_with_trust(around: &ProcessEnv, trusting: bool) -> SettingsSnapshot {
    read_with_options(around, &SettingsLoadOptions::default(), trusting)
}

fn read_with_options(around: &ProcessEnv, options: &SettingsLoadOptions, trusting: bool) -> SettingsSnapshot {
    let loaded = gimlet_config::load_settings(&find_locations(around), options);
    let inventory = TrustInventory::collect(&loaded);
    let store = TrustStore::new(&loaded.locations);
    let trusting = trusting || around.env.flag("GIMLET_TRUST");
    let trust = if trusting { ProjectTrust::all() } else { store.load_trust() };
    let effective = loaded.effective_settings(&inventory, &trust);
    SettingsSnapshot { loaded, inventory, effective, store }
}

pub(crate) fn run(command: &ConfigCommand, around: &ProcessEnv) -> Result<ExitCode, Report> {
    let done = run_command(command, around);
    // Read after the command, which may have changed the files.
    let loaded = gimlet_config::load_settings(&find_locations(around), &SettingsLoadOptions::default());
    let is_said = |problem: &&SettingsProblem| {
        done.as_ref().err().is_some_and(|report| report.text().contains(&*problem.file.to_string_lossy()))
    };
    // Values that are not used do not appear above, so they are reported here.
    for problem in loaded.errors().filter(|problem| !is_said(problem)) {
        crate::print_error_line(&gimlet_serve::sanitise(&format!("note: {problem}")));
    }
    done
}

fn run_command(command: &ConfigCommand, around: &ProcessEnv) -> Result<ExitCode, Report> {
    if command.key().is_some_and(str::is_empty) {
        return Err(Report::new("the name of a setting is missing").with_hint("'gimlet config list' shows what is set"));
    }
    match command {
        ConfigCommand::Get { key, json } => show_setting(&find(around), key, *json),
        ConfigCommand::Set { key, value, scope } => {
            SettingEdit::new(around, *scope, key).set(value).map(ConfigAnswer::print)
        }
        ConfigCommand::Add { key, value, scope } => {
            SettingEdit::new(around, *scope, key).add(value).map(ConfigAnswer::print)
        }
        ConfigCommand::Remove { key, value, scope } => {
            SettingEdit::new(around, *scope, key).remove(value).map(ConfigAnswer::print)
        }
        ConfigCommand::Unset { key, scope } => SettingEdit::new(around, *scope, key).unset().map(ConfigAnswer::print),
        ConfigCommand::List { json } => Ok(list_settings(&find(around), *json)),
        ConfigCommand::Path { json } => Ok(list_files(&find(around), *json)),
    }
}

fn show_setting(found: &SettingsSnapshot, key: &str, as_json: bool) -> Result<ExitCode, Report> {
    let withheld = withheld_places(found, key);
    if as_json && let Some(value) = found.effective.merged.get(key) {
        let sources = found.effective.merged.sources(key);
        let sources: Vec<Value> = sources.iter().map(|source| source_json(found, key, source)).collect();
        let value = masked_value(key, &value);
        print_sanitised(&json!({ "key": key, "value": value, "sources": sources, "withheld": withheld }).to_string());
        return Ok(ExitCode::SUCCESS);
    }
    if as_json
        && withheld.is_empty()
        && let Some(value) = state_value(found, key)
    {
        let source = json!({ "value": value, "scope": "state", "file": found.loaded.locations.state_file });
        print_sanitised(&json!({ "key": key, "value": value, "sources": [source], "withheld": [] }).to_string());
        return Ok(ExitCode::SUCCESS);
    }
    print_sanitised(&describe_setting(found, key)?);
    for place in withheld {
        crate::print_error_line(&format!("not used: {place}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Describes a setting with its sources, or returns the reason why it has no value.
pub(crate) fn describe_setting(found: &SettingsSnapshot, key: &str) -> Result<String, Report> {
    if let Some(value) = found.effective.merged.get(key) {
        let sources = found.effective.merged.sources(key);
        return Ok(describe_parts(found, key, &value, &sources).trim_end().to_owned());
    }
    let withheld = withheld_places(found, key);
    if !withheld.is_empty() {
        return Err(Report::new(format!("{key} is not used: {}", withheld.join("; "))));
    }
    let file = found.loaded.locations.state_file.display();
    match state_value(found, key) {
        Some(value) => Ok(format!("{key} = {value}\n    {file} (state of other programs)")),
        None => Err(Report::new(not_set_message(key))),
    }
}

/// Returns a value from other programs' interface state; it applies where no settings file sets the key.
fn state_value(found: &SettingsSnapshot, key: &str) -> Option<Value> {
    StateSettings::read(&found.loaded.locations).get(key)
}

/// Describes a key, or each key below it that has a value.
fn describe_parts(found: &SettingsSnapshot, key: &str, value: &Value, sources: &[SourcedValue]) -> String {
    let merged = &found.effective.merged;
    let below = format!("{key}.");
    let keys: Vec<String> = merged.keys().into_iter().filter(|name| name.starts_with(&below)).collect();
    if keys.is_empty() {
        return describe_entry(found, key, value, sources);
    }
    let part = |key: &String| describe_entry(found, key, &merged.get(key).unwrap_or_default(), &merged.sources(key));
    keys.iter().map(part).collect()
}

fn not_set_message(key: &str) -> String {
    let known =
        gimlet_config::find_key(key).is_some() || KEYS.iter().any(|row| row.path.starts_with(&format!("{key}.")));
    if known {
        return format!("{key} is not set in any settings file");
    }
    match gimlet_config::suggest_key(key) {
        Some(name) => format!("there is no setting {key}; did you mean {name}?"),
        None => format!("there is no setting {key}"),
    }
}

/// Returns the places where a project's untrusted files set the key.
fn withheld_places(found: &SettingsSnapshot, key: &str) -> Vec<String> {
    let items = found.effective.withheld.iter().filter(|item| {
        let about = item.setting().unwrap_or_default();
        about == key || about.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'))
    });
    let places = items.map(|item| {
        let line = item.line.map_or(String::new(), |line| format!(":{line}"));
        format!("{} in {}{line} waits until you trust this folder", item.title(), item.file.display())
    });
    places.collect()
}

fn list_settings(found: &SettingsSnapshot, as_json: bool) -> ExitCode {
    let merged = &found.effective.merged;
    let keys = merged.keys();
    if as_json {
        let rows = keys.iter().map(|key| {
            let sources = merged.sources(key);
            let sources: Vec<Value> = sources.iter().map(|source| source_json(found, key, source)).collect();
            let value = merged.get(key).map(|value| masked_value(key, &value));
            json!({ "key": key, "value": value, "sources": sources })
        });
        print_sanitised(&Value::Array(rows.collect()).to_string());
        return ExitCode::SUCCESS;
    }
    print_sanitised(&describe_settings(found));
    if let Some(line) = withheld_line(found) {
        crate::print_error_line(&line);
    }
    ExitCode::SUCCESS
}

/// Describes every setting that has a value, with its sources.
pub(crate) fn describe_settings(found: &SettingsSnapshot) -> String {
    let merged = &found.effective.merged;
    let describe =
        |key: String| describe_entry(found, &key, &merged.get(&key).unwrap_or_default(), &merged.sources(&key));
    let page: String = merged.keys().into_iter().map(describe).collect();
    if page.is_empty() { "no settings".to_owned() } else { page.trim_end().to_owned() }
}

/// Returns a line about settings of the project that await trust, if there are any.
pub(crate) fn withheld_line(found: &SettingsSnapshot) -> Option<String> {
    gimlet_config::describe_withheld(&found.effective.withheld, &found.store.load_trust())
}

fn list_files(found: &SettingsSnapshot, as_json: bool) -> ExitCode {
    let rows = settings_files(&found.loaded);
    if as_json {
        let rows = rows.iter().map(|row| json!({ "scope": row.scope, "file": row.file, "state": row.state }));
        print_sanitised(&Value::Array(rows.collect()).to_string());
    } else {
        print_sanitised(&file_table(&rows));
    }
    ExitCode::SUCCESS
}

/// A settings file and its status.
pub(crate) struct SettingsFileRow {
    pub(crate) scope: Scope,
    pub(crate) file: std::path::PathBuf,
    pub(crate) state: &'static str,
}

/// Returns every settings file that is searched for, in ascending precedence.
pub(crate) fn settings_files(loaded: &LoadedSettings) -> Vec<SettingsFileRow> {
    let locations = &loaded.locations;
    let mut places = vec![(Scope::User, locations.user_file()), (Scope::Project, locations.project_file())];
    places.extend(locations.legacy_local_file().filter(|file| file.exists()).map(|file| (Scope::Local, file)));
    places.push((Scope::Local, locations.local_file()));
    places.push((Scope::Managed, locations.managed_file()));
    let drop_ins = loaded.layers.iter().filter(|layer| layer.scope == Scope::Managed).map(|layer| layer.file.clone());
    for file in drop_ins {
        if !places.iter().any(|(_, place)| *place == file) {
            places.push((Scope::Managed, file));
        }
    }
    let state = |file: &Path| {
        let read = loaded.layers.iter().any(|layer| layer.file == file);
        let broken = loaded.errors().any(|problem| problem.file == file);
        match (read, broken) {
            (true, false) => "read",
            (true, true) => "read in part",
            (false, true) => "broken",
            (false, false) => "not there",
        }
    };
    places.into_iter().map(|(scope, file)| SettingsFileRow { scope, state: state(&file), file }).collect()
}

pub(crate) fn file_table(rows: &[SettingsFileRow]) -> String {
    let width = rows.iter().map(|row| row.state.len()).max().unwrap_or(0);
    let lines =
        rows.iter().map(|row| format!("{:<8}{:<width$}  {}", row.scope.as_str(), row.state, row.file.display()));
    lines.collect::<Vec<String>>().join("\n")
}

/// Returns true for keys whose values are hidden: environment variables often hold tokens. One is shown when requested
/// by its own name, never all at once.
fn is_hidden(key: &str) -> bool {
    key == "env"
}

/// Returns a value with secrets masked for this key.
fn masked_value(key: &str, value: &Value) -> Value {
    match value {
        Value::Object(members) if is_hidden(key) => members.keys().map(|name| (name.clone(), HIDDEN)).collect(),
        _ if is_hidden(key) => HIDDEN.into(),
        value => value.clone(),
    }
}

const HIDDEN: &str = "***";

/// Returns the reason why a part of a setting has no effect, if there is one.
fn unused_reason(found: &SettingsSnapshot, key: &str, source: &SourcedValue) -> Option<&'static str> {
    let idle = key == "permissions.allow" && settings_mapping::unused_allow_rules(&found.effective).contains(source);
    idle.then_some(settings_mapping::UNUSED_ALLOW)
}

/// Describes a key with its value, and below it the source of each part.
fn describe_entry(found: &SettingsSnapshot, key: &str, value: &Value, sources: &[SourcedValue]) -> String {
    let hide = is_hidden(key);
    let counted = |count: usize| format!("{key}: {count} {}\n", if count == 1 { "entry" } else { "entries" });
    let mut text = match (value, sources) {
        (Value::Array(entries), _) => counted(entries.len()),
        (Value::Object(members), [_, _, ..]) => counted(members.len()),
        (Value::Object(members), _) if hide => counted(members.len()),
        _ => format!("{key} = {value}\n"),
    };
    if let Value::Object(members) = value
        && sources.len() >= members.len()
        && members.keys().all(|name| !found.effective.merged.sources(&format!("{key}.{name}")).is_empty())
    {
        text.push_str(&members_lines(found, key, members, hide));
        return text;
    }
    let listed = value.is_array() || value.is_object();
    for source in sources {
        let place = format!("{}:{} ({})", source.origin.file.display(), source.origin.line, source.origin.scope);
        let shown = match (listed, hide) {
            (false, _) => String::new(),
            (true, true) => format!("{HIDDEN}  "),
            (true, false) => format!("{}  ", source.value),
        };
        let unused = unused_reason(found, key, source).map(|why| format!("  {why}")).unwrap_or_default();
        // Writing to a text cannot fail.
        let _ = writeln!(text, "    {shown}{place}{unused}");
    }
    text
}

/// Returns one line for each part of each member, by its name.
fn members_lines(found: &SettingsSnapshot, key: &str, members: &Map<String, Value>, hide: bool) -> String {
    let mut text = String::new();
    for name in members.keys() {
        for source in found.effective.merged.sources(&format!("{key}.{name}")) {
            let place = format!("{}:{} ({})", source.origin.file.display(), source.origin.line, source.origin.scope);
            let value = if hide { HIDDEN.to_owned() } else { source.value.to_string() };
            // Writing to a text cannot fail.
            let _ = writeln!(text, "    {name} = {value}  {place}");
        }
    }
    text
}

fn source_json(found: &SettingsSnapshot, key: &str, source: &SourcedValue) -> Value {
    let origin = &source.origin;
    let value = masked_value(key, &source.value);
    let mut told = json!({ "value": value, "scope": origin.scope, "file": origin.file, "line": origin.line });
    if let Some(why) = unused_reason(found, key, source) {
        told["unused"] = why.into();
    }
    told
}

/// Prints text sanitized: settings are text from files that others wrote.
fn print_sanitised(text: &str) {
    crate::print_line(&gimlet_serve::sanitise(text));
}
