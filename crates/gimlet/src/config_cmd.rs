//! `gimlet config`: what the settings are, where they come from, and changing them.

mod write;

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use gimlet_config::{
    Effective, Inventory, KEYS, Loaded, Options, Problem, Scope, Sourced, StateSettings, Trust, TrustStore,
};
use serde_json::{Map, Value, json};

use crate::args::ConfigCommand;
use crate::report::Report;
use crate::settings::{self, locations};
use crate::surroundings::Surroundings;
use write::Writing;

/// What the settings commands look at.
pub(crate) struct Found {
    pub(crate) loaded: Loaded,
    pub(crate) inventory: Inventory,
    pub(crate) effective: Effective,
    pub(crate) store: TrustStore,
}

/// Everything about settings and trust, as a session that starts now would see it.
pub(crate) fn find(around: &Surroundings) -> Found {
    find_with(around, false)
}

/// The same by what is recorded alone, whatever the environment says for this run.
pub(crate) fn find_recorded(around: &Surroundings) -> Found {
    let loaded = gimlet_config::load(&locations(around), &Options::default());
    let inventory = Inventory::collect(&loaded);
    let store = TrustStore::new(&loaded.locations);
    let effective = loaded.effective(&inventory, &store.trust());
    Found { loaded, inventory, effective, store }
}

/// The same; `trusting` takes the project's files for trusted, as `--trust` does.
pub(crate) fn find_with(around: &Surroundings, trusting: bool) -> Found {
    let loaded = gimlet_config::load(&locations(around), &Options::default());
    let inventory = Inventory::collect(&loaded);
    let store = TrustStore::new(&loaded.locations);
    let trusting = trusting || around.env.flag("GIMLET_TRUST");
    let trust = if trusting { Trust::everything() } else { store.trust() };
    let effective = loaded.effective(&inventory, &trust);
    Found { loaded, inventory, effective, store }
}

pub(crate) fn run(command: &ConfigCommand, around: &Surroundings) -> Result<ExitCode, Report> {
    let done = carry_out(command, around);
    // Read behind the command, which may have changed the files.
    let loaded = gimlet_config::load(&locations(around), &Options::default());
    let is_said = |problem: &&Problem| {
        done.as_ref().err().is_some_and(|report| report.text().contains(&*problem.file.to_string_lossy()))
    };
    // What a file says that is not used would be looked for in vain above.
    for problem in loaded.errors().filter(|problem| !is_said(problem)) {
        crate::say_on_stderr(&gimlet_serve::sanitise(&format!("note: {problem}")));
    }
    done
}

fn carry_out(command: &ConfigCommand, around: &Surroundings) -> Result<ExitCode, Report> {
    if command.key().is_some_and(str::is_empty) {
        return Err(Report::new("the name of a setting is missing").hint("'gimlet config list' shows what is set"));
    }
    match command {
        ConfigCommand::Get { key, json } => get(&find(around), key, *json),
        ConfigCommand::Set { key, value, scope } => Writing::new(around, *scope, key).set(value),
        ConfigCommand::Add { key, value, scope } => Writing::new(around, *scope, key).add(value),
        ConfigCommand::Remove { key, value, scope } => Writing::new(around, *scope, key).remove(value),
        ConfigCommand::Unset { key, scope } => Writing::new(around, *scope, key).unset(),
        ConfigCommand::List { json } => Ok(list(&find(around), *json)),
        ConfigCommand::Path { json } => Ok(path(&find(around), *json)),
    }
}

fn get(found: &Found, key: &str, as_json: bool) -> Result<ExitCode, Report> {
    let sources = found.effective.merged.origins(key);
    let withheld = withheld_places(found, key);
    let Some(value) = found.effective.merged.get(key) else {
        if let Some(value) = state_value(found, key).filter(|_| withheld.is_empty()) {
            return Ok(show_state(found, key, &value, as_json));
        }
        let why =
            if withheld.is_empty() { not_set(key) } else { format!("{key} is not used: {}", withheld.join("; ")) };
        return Err(Report::new(why));
    };
    if as_json {
        let sources: Vec<Value> = sources.iter().map(|source| source_json(found, key, source)).collect();
        let value = shown(key, &value);
        show(&json!({ "key": key, "value": value, "sources": sources, "withheld": withheld }).to_string());
    } else {
        show(parts(found, key, &value, &sources).trim_end());
    }
    for place in withheld.iter().filter(|_| !as_json) {
        crate::say_on_stderr(&format!("not used: {place}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// What other programs keep about the interface; it counts where no settings file says anything.
fn state_value(found: &Found, key: &str) -> Option<Value> {
    StateSettings::read(&found.loaded.locations).value(key)
}

fn show_state(found: &Found, key: &str, value: &Value, as_json: bool) -> ExitCode {
    let file = &found.loaded.locations.state_file;
    if as_json {
        let source = json!({ "value": value, "scope": "state", "file": file });
        show(&json!({ "key": key, "value": value, "sources": [source], "withheld": [] }).to_string());
    } else {
        show(&format!("{key} = {value}\n    {} (state of other programs)", file.display()));
    }
    ExitCode::SUCCESS
}

/// A key, or each of those below it that have a value.
fn parts(found: &Found, key: &str, value: &Value, sources: &[Sourced]) -> String {
    let merged = &found.effective.merged;
    let below = format!("{key}.");
    let keys: Vec<String> = merged.keys().into_iter().filter(|name| name.starts_with(&below)).collect();
    if keys.is_empty() {
        return entry(found, key, value, sources);
    }
    let part = |key: &String| entry(found, key, &merged.get(key).unwrap_or_default(), &merged.origins(key));
    keys.iter().map(part).collect()
}

fn not_set(key: &str) -> String {
    let known = gimlet_config::key(key).is_some() || KEYS.iter().any(|row| row.path.starts_with(&format!("{key}.")));
    match gimlet_config::close_to(key).filter(|_| !known) {
        Some(name) => format!("there is no setting {key}; did you mean {name}?"),
        None if known => format!("{key} is not set in any settings file"),
        None => format!("there is no setting {key}"),
    }
}

/// Where a project's files say something about the key that the person has not trusted.
fn withheld_places(found: &Found, key: &str) -> Vec<String> {
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

fn list(found: &Found, as_json: bool) -> ExitCode {
    let merged = &found.effective.merged;
    let keys = merged.keys();
    if as_json {
        let rows = keys.iter().map(|key| {
            let sources = merged.origins(key);
            let sources: Vec<Value> = sources.iter().map(|source| source_json(found, key, source)).collect();
            let value = merged.get(key).map(|value| shown(key, &value));
            json!({ "key": key, "value": value, "sources": sources })
        });
        show(&Value::Array(rows.collect()).to_string());
        return ExitCode::SUCCESS;
    }
    let mut page = String::new();
    for key in &keys {
        let value = merged.get(key).unwrap_or_default();
        page.push_str(&entry(found, key, &value, &merged.origins(key)));
    }
    show(if page.is_empty() { "no settings file says anything" } else { page.trim_end() });
    if let Some(line) = gimlet_config::withheld_line(&found.effective.withheld, &found.store.trust()) {
        crate::say_on_stderr(&line);
    }
    ExitCode::SUCCESS
}

fn path(found: &Found, as_json: bool) -> ExitCode {
    let rows = files(&found.loaded);
    if as_json {
        let rows = rows.iter().map(|row| json!({ "scope": row.scope, "file": row.file, "state": row.state }));
        show(&Value::Array(rows.collect()).to_string());
    } else {
        show(&file_table(&rows));
    }
    ExitCode::SUCCESS
}

/// A settings file and what became of it.
pub(crate) struct FileRow {
    pub(crate) scope: Scope,
    pub(crate) file: std::path::PathBuf,
    pub(crate) state: &'static str,
}

/// Every settings file that is looked for, the weakest first.
pub(crate) fn files(loaded: &Loaded) -> Vec<FileRow> {
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
    places.into_iter().map(|(scope, file)| FileRow { scope, state: state(&file), file }).collect()
}

pub(crate) fn file_table(rows: &[FileRow]) -> String {
    let width = rows.iter().map(|row| row.state.len()).max().unwrap_or(0);
    let lines =
        rows.iter().map(|row| format!("{:<8}{:<width$}  {}", row.scope.as_str(), row.state, row.file.display()));
    lines.collect::<Vec<String>>().join("\n")
}

/// Variables are where people keep tokens. One that is asked for by its own name is shown, never all of them at once.
fn is_hidden(key: &str) -> bool {
    key == "env"
}

/// A value as it may be shown under this key.
fn shown(key: &str, value: &Value) -> Value {
    match value {
        Value::Object(members) if is_hidden(key) => members.keys().map(|name| (name.clone(), HIDDEN)).collect(),
        _ if is_hidden(key) => HIDDEN.into(),
        value => value.clone(),
    }
}

const HIDDEN: &str = "***";

/// What keeps a part of a setting from counting, though it is there.
fn unused(found: &Found, key: &str, source: &Sourced) -> Option<&'static str> {
    let idle = key == "permissions.allow" && settings::unused_allows(&found.effective).contains(source);
    idle.then_some(settings::UNUSED_ALLOW)
}

/// A key with its value, and below it where each part comes from.
fn entry(found: &Found, key: &str, value: &Value, sources: &[Sourced]) -> String {
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
        && members.keys().all(|name| !found.effective.merged.origins(&format!("{key}.{name}")).is_empty())
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
        let unused = unused(found, key, source).map(|why| format!("  {why}")).unwrap_or_default();
        // Writing to a text cannot fail.
        let _ = writeln!(text, "    {shown}{place}{unused}");
    }
    text
}

/// One line for each part of each member, by its name.
fn members_lines(found: &Found, key: &str, members: &Map<String, Value>, hide: bool) -> String {
    let mut text = String::new();
    for name in members.keys() {
        for source in found.effective.merged.origins(&format!("{key}.{name}")) {
            let place = format!("{}:{} ({})", source.origin.file.display(), source.origin.line, source.origin.scope);
            let value = if hide { HIDDEN.to_owned() } else { source.value.to_string() };
            // Writing to a text cannot fail.
            let _ = writeln!(text, "    {name} = {value}  {place}");
        }
    }
    text
}

fn source_json(found: &Found, key: &str, source: &Sourced) -> Value {
    let origin = &source.origin;
    let value = shown(key, &source.value);
    let mut told = json!({ "value": value, "scope": origin.scope, "file": origin.file, "line": origin.line });
    if let Some(why) = unused(found, key, source) {
        told["unused"] = why.into();
    }
    told
}

/// Settings are text from files that others wrote.
fn show(text: &str) {
    crate::say(&gimlet_serve::sanitise(text));
}
