//! Writes settings: one value of one file, atomically, with every other byte kept.

use std::path::{Path, PathBuf};

use gimlet_fs::{FileReadError, read_file};
use serde_json::Value;

use crate::file_update::{self, FileUpdateError};
use crate::git_excludes;
use crate::json_edit::{self, JsonEdit, JsonEditError};
use crate::load;
use crate::locations::SettingsLocations;
use crate::scope::Scope;
use crate::setting_keys::{self, KeySource};
use crate::settings_lease::{self, LeaseWindow};
use crate::size_limits::SETTINGS_MAX_BYTES;

/// Reason why a setting was not written.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    #[error("{} cannot be written by gimlet; choose user, project or local", scope.label())]
    NotWritable { scope: Scope },
    #[error("there is no setting {key}{}", hint.as_ref().map(|name| format!("; did you mean {name}?")).unwrap_or_default())]
    Unknown { key: String, hint: Option<&'static str> },
    #[error("{} cannot set {key}, only {} can", scope.label(), from.words())]
    WrongScope { key: String, scope: Scope, from: KeySource },
    #[error("{key} cannot have this value: {message}")]
    Value { key: String, message: String },
    #[error("{} is reached through a link that leads out of the project", path.display())]
    SymlinkOutside { path: PathBuf },
    #[error(
        "{} was changed while a sandboxed command runs, which may have written it; try again when that has ended",
        path.display()
    )]
    PendingCommand { path: PathBuf },
    #[error("{}: {source}", path.display())]
    Edit { path: PathBuf, source: JsonEditError },
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: FileReadError },
    #[error("{} cannot be written: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("{} is being rewritten by another program", path.display())]
    Busy { path: PathBuf },
}

/// Changes one setting and returns the file that was written. The key has dots between its parts.
pub fn save_setting(
    locations: &SettingsLocations,
    scope: Scope,
    key: &str,
    edit: &JsonEdit,
) -> Result<PathBuf, SaveError> {
    let path = match scope {
        Scope::User => locations.user_file(),
        Scope::Project => locations.project_file(),
        Scope::Local => locations.local_file(),
        Scope::Flag | Scope::Managed => return Err(SaveError::NotWritable { scope }),
    };
    let parts = split_key(key)?;
    check_edit(scope, key, &parts, edit)?;
    if scope != Scope::User {
        check_no_symlink(&path)?;
    }
    let is_new = !path.exists();
    let (standing, now) =
        LeaseWindow::read_with_leases(locations, || read_file(&path, SETTINGS_MAX_BYTES).ok().flatten());
    if standing.suspect_content(&path, now.as_deref()).is_some() {
        return Err(SaveError::PendingCommand { path });
    }
    let (mut before, mut after) = (None, String::new());
    let change = |text: Option<&str>| {
        before = text.map(str::to_owned);
        after = json_edit::apply_edit(text.unwrap_or_default(), &parts, edit)?;
        Ok(Some(after.clone()))
    };
    file_update::update_file(&path, SETTINGS_MAX_BYTES, change).map_err(|error| match error {
        FileUpdateError::Read { path, source } => SaveError::Read { path, source },
        FileUpdateError::Write { path, source } => SaveError::Write { path, source },
        FileUpdateError::Busy { path } => SaveError::Busy { path },
        FileUpdateError::Change(source) => SaveError::Edit { path: path.clone(), source },
    })?;
    settings_lease::record_rewrite(locations, &path, before.as_deref(), &after);
    if scope == Scope::Local && is_new {
        git_excludes::exclude_local_file(locations)?;
    }
    Ok(path)
}

/// Splits a key into its names; the members of open maps may have dots in theirs.
pub fn split_key(key: &str) -> Result<Vec<&str>, SaveError> {
    const MAPS: [&str; 7] = [
        "env",
        "modelOverrides",
        "enabledPlugins",
        "extraKnownMarketplaces",
        "skillOverrides",
        "pluginConfigs",
        "vimInsertModeRemaps",
    ];
    let known = setting_keys::find_key(key).is_some() || setting_keys::is_group(key);
    if !known || key.split('.').any(str::is_empty) {
        return Err(SaveError::Unknown { key: key.to_owned(), hint: setting_keys::suggest_key(key) });
    }
    match key.split_once('.').filter(|(map, _)| MAPS.contains(map)) {
        Some((map, member)) => Ok(vec![map, member]),
        None => Ok(key.split('.').collect()),
    }
}

/// Returns an error if this scope may not set the value: it passes the validation of values that are read.
fn check_edit(scope: Scope, key: &str, parts: &[&str], edit: &JsonEdit) -> Result<(), SaveError> {
    if let Some(row) = setting_keys::find_key(key).filter(|row| !row.source.allows_scope(scope)) {
        return Err(SaveError::WrongScope { key: key.to_owned(), scope, from: row.source });
    }
    let value = match edit {
        JsonEdit::Set(value) => value.clone(),
        JsonEdit::Append(value) => Value::Array(vec![value.clone()]),
        JsonEdit::RemoveEntry(_) | JsonEdit::RemoveKey => return Ok(()),
    };
    let alone = parts
        .iter()
        .rev()
        .fold(value, |value, part| Value::Object(std::iter::once(((*part).to_owned(), value)).collect()));
    match load::first_problem_in(scope, &alone.to_string()) {
        Some(message) => Err(SaveError::Value { key: key.to_owned(), message }),
        None => Ok(()),
    }
}

/// Returns an error for a symlink: a project's `.claude` may point anywhere, and gimlet does not write through it.
fn check_no_symlink(path: &Path) -> Result<(), SaveError> {
    let folder = path.parent().unwrap_or(path);
    let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
    if is_link(folder) || is_link(path) { Err(SaveError::SymlinkOutside { path: path.to_owned() }) } else { Ok(()) }
}
