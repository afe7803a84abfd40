//! Storage of the user's trust: gimlet's own file with the digests of items, and the one flag per folder that it
//! shares with other programs in `.claude.json`, where every other byte stays as it is.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use gimlet_fs::{FileReadError, read_text};
use serde_json::{Map, Value, json};

use super::project_item::{AcceptedItem, ProjectItem, UNFOLLOWED};
use super::{ItemChange, ProjectTrust, TrustInventory};
use crate::backup;
use crate::file_ownership::{self, CurrentUser};
use crate::file_update::{self, FileUpdateError};
use crate::json;
use crate::json_edit::{self, JsonEdit, JsonEditError};
use crate::locations::SettingsLocations;
use crate::size_limits::STATE_MAX_BYTES;

/// Number of accepted versions kept for every item, so that two branches do not ask in turns.
const VERSIONS_KEPT: usize = 8;
/// Number of those versions that keep the texts of scripts: differences are mostly shown against the newest.
const SCRIPTS_KEPT: usize = 2;
const FLAG: &str = "hasTrustDialogAccepted";
/// Key in a folder's record: creation times of it and its repository, to detect another folder at its path.
const BORN: &str = "born";
/// Key in the record of a folder of which the user has accepted single items and nothing else.
const ITEMS_ALONE: &str = "itemsAlone";

/// Reason why trust was not stored.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("{} cannot be read: {source}", path.display())]
    Read { path: PathBuf, source: FileReadError },
    #[error("{} cannot be set aside: {source}", path.display())]
    SetAside { path: PathBuf, source: std::io::Error },
    #[error("trust is not stored where others could write it too: {0}")]
    Open(String),
    #[error("trust cannot be stored: {0}")]
    Store(String),
    #[error("the trust is stored for gimlet, but not for other programs: {0}")]
    Shared(String),
}

/// Scope of an acceptance.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AcceptanceScope {
    /// The folder, with all its current items.
    Folder,
    /// Certain items and nothing else.
    Items,
}

/// Store of trust records.
#[derive(Clone, Debug)]
pub struct TrustStore {
    own_file: PathBuf,
    config_dir: PathBuf,
    user: CurrentUser,
    state_file: PathBuf,
    backups: PathBuf,
    root: PathBuf,
    /// Git folder of its repository, if it is one.
    repository: Option<PathBuf>,
    /// Folders whose records count for this one, itself first.
    covering_folders: Vec<PathBuf>,
    in_memory_only: bool,
}

impl TrustStore {
    /// Opens the records about the folder of these locations.
    pub fn new(locations: &SettingsLocations) -> Self {
        let root = locations.trust_root().to_owned();
        Self {
            own_file: locations.trust_file(),
            config_dir: locations.config_dir.clone(),
            user: locations.user,
            state_file: locations.state_file.clone(),
            backups: locations.config_dir.join("backups"),
            repository: locations.repo.as_ref().map(|repo| repo.common_dir.clone()),
            covering_folders: covering_folders(locations),
            // A path that JSON cannot hold cannot be distinguished from another one later.
            in_memory_only: locations.is_home_dir() || root.to_str().is_none(),
            root,
        }
    }

    /// Returns the folder that trust applies to.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns true if trust in this folder ends with the session: the home directory contains everything else.
    pub fn is_in_memory_only(&self) -> bool {
        self.in_memory_only
    }

    /// Returns the earlier acceptance of this folder. A record that cannot be read grants nothing.
    pub fn load_trust(&self) -> ProjectTrust {
        if self.in_memory_only {
            return ProjectTrust::none();
        }
        let own = self.read_own_record().unwrap_or_default();
        let keys = || self.covering_folders.iter().filter_map(|folder| folder.to_str());
        let accepted = keys().flat_map(|key| accepted_items(&own, key)).map(|item| item.digest);
        let accepted = accepted.filter(|digest| !digest.starts_with(UNFOLLOWED)).collect();
        let record = |key: &str| own.get("folders").and_then(|folders| folders.get(key));
        let known = keys().any(|key| record(key).is_some_and(|record| record.get(ITEMS_ALONE).is_none()));
        let of_root = self.root.to_str().and_then(record).filter(|record| record.get(ITEMS_ALONE).is_none());
        // The other programs' file can be large, and adds nothing about a folder that gimlet knows.
        let (folder, here) = match of_root {
            Some(record) => (false, self.is_same_folder(record)),
            None => (!known && self.has_shared_flag(), self.has_flag_for(std::slice::from_ref(&self.root))),
        };
        ProjectTrust { everything: false, folder, known, here, accepted }
    }

    /// Returns the items that are not covered, each compared with its accepted version.
    pub fn list_changes(&self, inventory: &TrustInventory, trust: &ProjectTrust) -> Vec<ItemChange> {
        let own = self.read_own_record().unwrap_or_default();
        let keys = self.covering_folders.iter().rev().filter_map(|folder| folder.to_str());
        let accepted: Vec<AcceptedItem> = keys.flat_map(|key| accepted_items(&own, key)).collect();
        let present = inventory.items.iter().map(|item| item.digest.as_str()).collect();
        inventory.withheld(trust).iter().map(|item| ItemChange::compare(item, &accepted, &present)).collect()
    }

    /// Accepts these items. The result holds for this session even where nothing could be stored.
    pub fn accept_folder(&self, items: &[ProjectItem]) -> (ProjectTrust, Result<(), TrustError>) {
        let mut trust = self.load_trust();
        (trust.known, trust.here) = (true, true);
        trust.accepted.extend(items.iter().map(|item| item.digest.clone()));
        let stored = match self.root.to_str() {
            Some(key) if !self.in_memory_only => self
                .store_items(key, items, AcceptanceScope::Folder)
                .and_then(|()| self.store_shared_flag(key).map_err(TrustError::Shared)),
            _ => Ok(()),
        };
        (trust, stored)
    }

    /// Accepts these items, which the user has just written, without trust in the folder.
    pub fn accept_items(&self, items: &[ProjectItem]) -> Result<(), TrustError> {
        match self.root.to_str() {
            Some(key) if !self.in_memory_only => self.store_items(key, items, AcceptanceScope::Items),
            _ => Ok(()),
        }
    }

    /// Removes all trust in this folder; returns true if there was any.
    pub fn revoke(&self) -> Result<bool, TrustError> {
        if self.in_memory_only {
            return Ok(false);
        }
        let Some(key) = self.root.to_str() else { return Ok(false) };
        let had_flag = self.has_shared_flag();
        if had_flag {
            self.store_flag(key, false).map_err(TrustError::Shared)?;
        }
        let is_recorded = |own: &Value| own.get("folders").is_some_and(|folders| folders.get(key).is_some());
        if !self.read_own_record().as_ref().is_some_and(is_recorded) {
            return Ok(had_flag);
        }
        let change = |text: Option<&str>| -> Result<Option<String>, serde_json::Error> {
            let mut own: Value = text.map_or_else(|| Ok(json!({ "version": 1 })), serde_json::from_str)?;
            if let Some(folders) = own.get_mut("folders").and_then(Value::as_object_mut) {
                folders.remove(key);
            }
            Ok(Some(format!("{}\n", serde_json::to_string_pretty(&own)?)))
        };
        file_update::update_file(&self.own_file, STATE_MAX_BYTES, change)
            .map(|()| true)
            .map_err(|error| TrustError::Store(error.to_string()))
    }

    fn store_items(&self, key: &str, accepted: &[ProjectItem], extent: AcceptanceScope) -> Result<(), TrustError> {
        let doubts = self.ownership_problems();
        if !doubts.is_empty() {
            return Err(TrustError::Open(file_ownership::describe_problems(&doubts)));
        }
        self.back_up_broken_record()?;
        let change = |text: Option<&str>| -> Result<Option<String>, serde_json::Error> {
            let mut own: Value = text.map_or_else(|| Ok(json!({ "version": 1 })), serde_json::from_str)?;
            let mut items = accepted_items(&own, key);
            for item in accepted.iter().map(AcceptedItem::from) {
                items.retain(|old| old.digest != item.digest);
                items.push(item);
            }
            prune_versions(&mut items);
            let folder = object_member(object_member(&mut own, "folders"), key);
            if let Some(folder) = folder.as_object_mut() {
                match extent {
                    AcceptanceScope::Folder => {
                        folder.remove(ITEMS_ALONE);
                        folder.insert(BORN.into(), self.creation_times());
                    }
                    AcceptanceScope::Items if folder.is_empty() => {
                        drop(folder.insert(ITEMS_ALONE.into(), Value::Bool(true)))
                    }
                    AcceptanceScope::Items => {}
                }
                folder.insert("items".into(), serde_json::to_value(items)?);
            }
            Ok(Some(format!("{}\n", serde_json::to_string_pretty(&own)?)))
        };
        file_update::update_file(&self.own_file, STATE_MAX_BYTES, change)
            .map_err(|error| TrustError::Store(error.to_string()))
    }

    fn store_shared_flag(&self, key: &str) -> Result<(), String> {
        if self.has_shared_flag() {
            return Ok(());
        }
        self.store_flag(key, true)
    }

    fn store_flag(&self, key: &str, accepted: bool) -> Result<(), String> {
        backup::back_up_file(&self.state_file, &self.backups).map_err(|error| error.to_string())?;
        let change = |text: Option<&str>| -> Result<Option<String>, JsonEditError> {
            json_edit::apply_edit(
                text.unwrap_or_default(),
                &["projects", key, FLAG],
                &JsonEdit::Set(Value::Bool(accepted)),
            )
            .map(Some)
        };
        file_update::update_file(&self.state_file, STATE_MAX_BYTES, change)
            .map_err(|error: FileUpdateError<JsonEditError>| error.to_string())
    }

    /// Returns the creation times of the folder and its repository, as far as the file system keeps them.
    fn creation_times(&self) -> Value {
        let born = |path: &Path| path.metadata().and_then(|metadata| metadata.created()).ok();
        let nanos = |born: SystemTime| born.duration_since(UNIX_EPOCH).ok().map(|since| since.as_nanos().to_string());
        let of = |path: &Path| born(path).and_then(nanos);
        json!({ "folder": of(&self.root), "repository": self.repository.as_deref().and_then(of) })
    }

    /// Returns true if the folder is the one that a record is about. A repository may have been created in it since.
    fn is_same_folder(&self, record: &Value) -> bool {
        let (then, now) = (record.get(BORN), self.creation_times());
        ["folder", "repository"].iter().all(|part| {
            let then = then.and_then(|born| born.get(part)).filter(|born| !born.is_null());
            then.is_none_or(|then| *then == now[part])
        })
    }

    /// Returns true if the shared flag, set by another program or an earlier gimlet, trusts the folder.
    fn has_shared_flag(&self) -> bool {
        self.has_flag_for(&self.covering_folders)
    }

    fn has_flag_for(&self, folders: &[PathBuf]) -> bool {
        if !self.user.check_state_file(&self.state_file).is_empty() {
            return false;
        }
        let Ok(Some(text)) = read_text(&self.state_file, STATE_MAX_BYTES) else { return false };
        let Ok(parsed) = json::parse_json(&text) else { return false };
        let flag = |folder: &PathBuf| {
            let node = parsed.root.find(["projects", folder.to_str()?, FLAG])?;
            Some(node.json == json::JsonValue::Bool(true))
        };
        folders.iter().any(|folder| flag(folder) == Some(true))
    }

    /// Returns the ownership problems of gimlet's own record.
    fn ownership_problems(&self) -> Vec<file_ownership::OwnershipProblem> {
        self.user.check_config_home(&self.config_dir, &self.own_file)
    }

    /// Reads gimlet's own record; one that another user could have written grants nothing.
    fn read_own_record(&self) -> Option<Value> {
        if !self.ownership_problems().is_empty() {
            return None;
        }
        let text = read_text(&self.own_file, STATE_MAX_BYTES).ok().flatten()?;
        serde_json::from_str(&text).ok()
    }

    /// Renames a record that cannot be read; it is never overwritten.
    fn back_up_broken_record(&self) -> Result<(), TrustError> {
        let path = &self.own_file;
        let broken = match read_text(path, STATE_MAX_BYTES) {
            Ok(None) => false,
            Ok(Some(text)) => !serde_json::from_str::<Value>(&text).is_ok_and(|own| own.is_object()),
            Err(FileReadError::NotUtf8(_)) => true,
            Err(source) => return Err(TrustError::Read { path: path.clone(), source }),
        };
        if !broken {
            return Ok(());
        }
        let aside = backup::timestamped_path(path, "corrupted");
        std::fs::rename(path, aside).map_err(|source| TrustError::SetAside { path: path.clone(), source })
    }
}

/// Returns the folders whose trust covers this one. A repository covers only itself. Outside of one, a trusted folder
/// covers those below it, but never from the home directory or above, which contain downloads.
fn covering_folders(locations: &SettingsLocations) -> Vec<PathBuf> {
    let root = locations.trust_root();
    if locations.repo.is_some() {
        return vec![root.to_owned()];
    }
    let home = locations.home.as_ref().and_then(|home| home.canonicalize().ok());
    let above_home = |folder: &Path| home.as_ref().is_some_and(|home| home.starts_with(folder));
    root.ancestors().take_while(|folder| folder.parent().is_some() && !above_home(folder)).map(Path::to_owned).collect()
}

fn accepted_items(own: &Value, key: &str) -> Vec<AcceptedItem> {
    let items = own.get("folders").and_then(|folders| folders.get(key)).and_then(|folder| folder.get("items"));
    let items = items.and_then(Value::as_array).into_iter().flatten();
    // An entry of a later version that this one does not understand accepts nothing.
    items.filter_map(|item| serde_json::from_value(item.clone()).ok()).collect()
}

/// Drops all but the newest versions of each item; the newest come last.
fn prune_versions(items: &mut Vec<AcceptedItem>) {
    let mut counts: std::collections::HashMap<(String, String), usize> = std::collections::HashMap::new();
    items.reverse();
    items.retain_mut(|item| {
        let count = counts.entry((item.kind.clone(), item.name.clone())).or_default();
        *count += 1;
        if *count > SCRIPTS_KEPT {
            item.limit_script_texts(0);
        }
        *count <= VERSIONS_KEPT
    });
    items.reverse();
}

/// Returns the member of an object, replaced by an empty object when it is not one.
fn object_member<'v>(value: &'v mut Value, key: &str) -> &'v mut Value {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let below = &mut value[key];
    if !below.is_object() {
        *below = Value::Object(Map::new());
    }
    below
}
