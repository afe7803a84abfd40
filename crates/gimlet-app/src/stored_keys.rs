//! API keys that the user stored: one for each server, in a file that only they can read.
//!
//! A key is bound to the address that it was tested at, so that no other server ever gets it. The file is replaced
//! atomically under a lock, and members of it that this version does not know are kept.

use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use gimlet_fs::{FileDurability, FolderLock, create_private_dir_all, read_text_nofollow, replace_file};
use gimlet_proto::Secret;
use serde_json::{Map, Value, json};

/// File below the configuration folder. The name is known to the permission rules as one of credentials.
const FILE: &str = "gimlet/gimlet-credentials.json";
const MAX_BYTES: u64 = 1 << 20;
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// The file of stored keys.
#[derive(Clone, Debug)]
pub struct StoredKeys {
    path: PathBuf,
}

/// Reason why stored keys cannot be used or changed. Has no part of a key.
#[derive(Debug, thiserror::Error)]
pub enum StoredKeyError {
    #[error("{0} may be changed by other users, so its keys are not used; run: chmod 600 '{0}'", path.display())]
    Exposed { path: PathBuf },
    #[error("{} belongs to another user, so its keys are not used", path.display())]
    Foreign { path: PathBuf },
    #[error("{} holds no JSON object; move it away and log in again", path.display())]
    Damaged { path: PathBuf },
    #[error("{} cannot be read: {reason}", path.display())]
    Read { path: PathBuf, reason: String },
    #[error("{} cannot be written: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}

impl StoredKeys {
    pub fn new(config_home: &Path) -> Self {
        Self { path: config_home.join(FILE) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the key for the server at this address; `None` if none is stored.
    pub fn find_key(&self, address: &str) -> Result<Option<Secret>, StoredKeyError> {
        let Some(stored) = self.read()? else { return Ok(None) };
        let entries = stored.get("keys").and_then(Value::as_array);
        let mut entries = entries.into_iter().flatten().filter(|entry| is_for(entry, address));
        let key = entries.find_map(|entry| entry.get("apiKey").and_then(Value::as_str));
        Ok(key.filter(|key| !key.is_empty()).map(Secret::new))
    }

    /// Stores a key for the server at this address, in place of an earlier one.
    pub fn store_key(&self, address: &str, key: &Secret) -> Result<(), StoredKeyError> {
        self.change(|entries| {
            entries.retain(|entry| !is_for(entry, address));
            entries.push(json!({"address": address, "apiKey": key.expose()}));
            true
        })
        .map(drop)
    }

    /// Removes the key for the server at this address; returns false if there was none.
    pub fn remove_key(&self, address: &str) -> Result<bool, StoredKeyError> {
        if self.find_key(address)?.is_none() {
            return Ok(false);
        }
        self.change(|entries| {
            let count = entries.len();
            entries.retain(|entry| !is_for(entry, address));
            entries.len() < count
        })
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Value>) -> bool) -> Result<bool, StoredKeyError> {
        let failed = |source| StoredKeyError::Write { path: self.path.clone(), source };
        let folder = self.path.parent().unwrap_or(&self.path);
        create_private_dir_all(folder).map_err(failed)?;
        let _lock = FolderLock::acquire(folder, LOCK_WAIT).map_err(failed)?;
        let mut stored = self.read()?.unwrap_or_default();
        let entries = stored.entry("keys").or_insert_with(|| json!([]));
        let Some(entries) = entries.as_array_mut() else {
            return Err(StoredKeyError::Damaged { path: self.path.clone() });
        };
        let is_changed = change(entries);
        let bytes = Value::Object(stored).to_string();
        replace_file(&self.path, bytes.as_bytes(), FileDurability::ContentAndName).map_err(failed)?;
        Ok(is_changed)
    }

    /// Reads the file if it is the user's own; one that others may read is closed to them.
    fn read(&self) -> Result<Option<Map<String, Value>>, StoredKeyError> {
        let path = || self.path.clone();
        let unreadable =
            |error: &dyn std::fmt::Display| StoredKeyError::Read { path: path(), reason: error.to_string() };
        let metadata = match self.path.symlink_metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(&error)),
        };
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(StoredKeyError::Foreign { path: path() });
        }
        if metadata.is_file() && metadata.mode() & 0o022 != 0 {
            return Err(StoredKeyError::Exposed { path: path() });
        }
        if metadata.is_file() && metadata.mode() & 0o077 != 0 {
            let private = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(&self.path, private).map_err(|error| unreadable(&error))?;
        }
        let text = read_text_nofollow(&self.path, MAX_BYTES).map_err(|error| unreadable(&error))?;
        match serde_json::from_str(&text) {
            Ok(Value::Object(stored)) => Ok(Some(stored)),
            Ok(_) | Err(_) => Err(StoredKeyError::Damaged { path: path() }),
        }
    }
}

fn is_for(entry: &Value, address: &str) -> bool {
    entry.get("address").and_then(Value::as_str) == Some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: &str = "https://api.example.org";

    fn keys() -> (tempfile::TempDir, StoredKeys) {
        let home = tempfile::tempdir().unwrap();
        let keys = StoredKeys::new(home.path());
        (home, keys)
    }

    fn set_mode(keys: &StoredKeys, mode: u32) {
        std::fs::set_permissions(keys.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_key_is_found_for_its_own_server_until_it_is_removed() {
        let (_home, keys) = keys();
        assert!(keys.find_key(ADDRESS).unwrap().is_none() && !keys.remove_key(ADDRESS).unwrap());
        keys.store_key(ADDRESS, &Secret::new("first")).unwrap();
        keys.store_key(ADDRESS, &Secret::new("second")).unwrap();
        keys.store_key("https://other.example.org", &Secret::new("third")).unwrap();
        assert_eq!(keys.find_key(ADDRESS).unwrap().unwrap().expose(), "second");
        assert!(keys.find_key("https://api.example.org.evil.test").unwrap().is_none());
        assert_eq!(keys.path().metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(keys.path().parent().unwrap().metadata().unwrap().mode() & 0o777, 0o700);
        assert!(keys.remove_key(ADDRESS).unwrap());
        assert!(keys.find_key(ADDRESS).unwrap().is_none());
        assert!(keys.find_key("https://other.example.org").unwrap().is_some());
    }

    #[test]
    fn a_file_that_others_can_change_is_refused_and_one_that_they_can_read_is_closed() {
        let (_home, keys) = keys();
        keys.store_key(ADDRESS, &Secret::new("k")).unwrap();
        set_mode(&keys, 0o644);
        assert!(keys.find_key(ADDRESS).unwrap().is_some());
        assert_eq!(keys.path().metadata().unwrap().mode() & 0o777, 0o600);
        set_mode(&keys, 0o620);
        assert!(matches!(keys.find_key(ADDRESS), Err(StoredKeyError::Exposed { .. })));
    }

    #[test]
    fn unknown_members_are_kept_and_a_damaged_file_is_left_alone() {
        let (_home, keys) = keys();
        keys.store_key(ADDRESS, &Secret::new("k")).unwrap();
        let text = r#"{"later": 1, "keys": [{"address": "https://api.example.org", "apiKey": "k", "note": 2}]}"#;
        std::fs::write(keys.path(), text).unwrap();
        keys.store_key("https://x.test", &Secret::new("y")).unwrap();
        let text = std::fs::read_to_string(keys.path()).unwrap();
        assert!(text.contains("\"later\":1") && text.contains("\"note\":2"), "{text}");
        std::fs::write(keys.path(), "{oops").unwrap();
        let error = keys.store_key(ADDRESS, &Secret::new("k")).unwrap_err();
        assert!(matches!(error, StoredKeyError::Damaged { .. }), "{error}");
        assert_eq!(std::fs::read_to_string(keys.path()).unwrap(), "{oops");
        std::fs::remove_file(keys.path()).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", keys.path()).unwrap();
        assert!(keys.find_key(ADDRESS).is_err(), "a link is not followed");
    }
}
