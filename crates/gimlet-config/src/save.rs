//! Writes settings: one value of one file, atomically, with every other byte kept.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::atomic::{self, UpdateError};
use crate::edit::{self, Edit, EditError};
use crate::files::{self, ReadError, SETTINGS_MAX_BYTES};
use crate::git_excludes;
use crate::keys::{self, ReadFrom};
use crate::load;
use crate::locations::Locations;
use crate::scope::Scope;
use crate::vouched::{self, Around};

/// Why a setting was not written.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    #[error("{} cannot be written by gimlet; choose user, project or local", scope.label())]
    NotWritable { scope: Scope },
    #[error("there is no setting {key}{}", hint.as_ref().map(|name| format!("; did you mean {name}?")).unwrap_or_default())]
    Unknown { key: String, hint: Option<&'static str> },
    #[error("{} cannot set {key}, only {} can", scope.label(), from.words())]
    WrongScope { key: String, scope: Scope, from: ReadFrom },
    #[error("{key} cannot have this value: {message}")]
    Value { key: String, message: String },
    #[error("{} is reached through a link that leads out of the project", path.display())]
    LeadsOut { path: PathBuf },
    #[error(
        "{} was changed while a sandboxed command runs, which may have written it; try again when that has ended",
        path.display()
    )]
    Waits { path: PathBuf },
    #[error("{}: {source}", path.display())]
    Edit { path: PathBuf, source: EditError },
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: ReadError },
    #[error("{} cannot be written: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("{} is being rewritten by another program", path.display())]
    Busy { path: PathBuf },
}

/// Changes one setting and says in which file. The key has dots between its parts.
pub fn save(locations: &Locations, scope: Scope, key: &str, edit: &Edit) -> Result<PathBuf, SaveError> {
    let path = match scope {
        Scope::User => locations.user_file(),
        Scope::Project => locations.project_file(),
        Scope::Local => locations.local_file(),
        Scope::Flag | Scope::Managed => return Err(SaveError::NotWritable { scope }),
    };
    let parts = parts_of(key)?;
    check(scope, key, &parts, edit)?;
    if scope != Scope::User {
        stays_inside(&path)?;
    }
    let is_new = !path.exists();
    let (standing, now) = Around::read(locations, || files::read(&path, SETTINGS_MAX_BYTES).ok().flatten());
    if standing.doubts(&path, now.as_deref()).is_some() {
        return Err(SaveError::Waits { path });
    }
    let (mut before, mut after) = (None, String::new());
    let change = |text: Option<&str>| {
        before = text.map(str::to_owned);
        after = edit::apply(text.unwrap_or_default(), &parts, edit)?;
        Ok(Some(after.clone()))
    };
    atomic::update(&path, SETTINGS_MAX_BYTES, change).map_err(|error| match error {
        UpdateError::Read { path, source } => SaveError::Read { path, source },
        UpdateError::Write { path, source } => SaveError::Write { path, source },
        UpdateError::Busy { path } => SaveError::Busy { path },
        UpdateError::Change(source) => SaveError::Edit { path: path.clone(), source },
    })?;
    vouched::rewritten(locations, &path, before.as_deref(), &after);
    if scope == Scope::Local && is_new {
        git_excludes::hide_local_file(locations)?;
    }
    Ok(path)
}

/// The names that a key is made of; the members of open maps may have dots in theirs.
pub fn parts_of(key: &str) -> Result<Vec<&str>, SaveError> {
    const MAPS: [&str; 7] = [
        "env",
        "modelOverrides",
        "enabledPlugins",
        "extraKnownMarketplaces",
        "skillOverrides",
        "pluginConfigs",
        "vimInsertModeRemaps",
    ];
    let known = keys::key(key).is_some() || keys::is_group(key);
    if !known || key.split('.').any(str::is_empty) {
        return Err(SaveError::Unknown { key: key.to_owned(), hint: keys::close_to(key) });
    }
    match key.split_once('.').filter(|(map, _)| MAPS.contains(map)) {
        Some((map, member)) => Ok(vec![map, member]),
        None => Ok(key.split('.').collect()),
    }
}

/// Whether this scope may say this: the value is put through the same gate as one that is read.
fn check(scope: Scope, key: &str, parts: &[&str], edit: &Edit) -> Result<(), SaveError> {
    if let Some(row) = keys::key(key).filter(|row| !row.from.allows(scope)) {
        return Err(SaveError::WrongScope { key: key.to_owned(), scope, from: row.from });
    }
    let value = match edit {
        Edit::Set(value) => value.clone(),
        Edit::Append(value) => Value::Array(vec![value.clone()]),
        Edit::Take(_) | Edit::Remove => return Ok(()),
    };
    let alone = parts
        .iter()
        .rev()
        .fold(value, |value, part| Value::Object(std::iter::once(((*part).to_owned(), value)).collect()));
    match load::first_objection(scope, &alone.to_string()) {
        Some(message) => Err(SaveError::Value { key: key.to_owned(), message }),
        None => Ok(()),
    }
}

/// A project's `.claude` may be a link to anywhere; gimlet does not write through it.
fn stays_inside(path: &Path) -> Result<(), SaveError> {
    let folder = path.parent().unwrap_or(path);
    let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
    if is_link(folder) || is_link(path) { Err(SaveError::LeadsOut { path: path.to_owned() }) } else { Ok(()) }
}
