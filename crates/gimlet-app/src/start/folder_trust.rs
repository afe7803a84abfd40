//! Trust in a folder's files outside a running session: what is pending, and a recorded yes to it.

use gimlet_config::{ItemChange, TrustStore};
use gimlet_proto::{FolderTrust, TrustItem};

use super::session_settings::SessionSettings;

impl SessionSettings {
    /// Returns what of the folder's files is trusted for good.
    pub fn folder_trust(&self) -> FolderTrust {
        let store = TrustStore::new(&self.loaded.locations);
        let trust = store.load_trust();
        let changes = store.list_changes(&self.inventory, &trust);
        FolderTrust {
            folder: store.root().to_owned(),
            is_accepted: trust.has_accepted_folder(),
            digests: changes.iter().map(|change| change.item.digest.clone()).collect(),
            pending: changes.into_iter().map(trust_item).collect(),
        }
    }

    /// Trusts the folder for good, with the items that were shown. An error if the files have changed since.
    pub fn accept_folder_trust(&self, shown: &FolderTrust) -> Result<(), String> {
        let store = TrustStore::new(&self.loaded.locations);
        if store.is_in_memory_only() {
            return Err("trust in the home directory lasts for one session and is not recorded".to_owned());
        }
        if self.folder_trust() != *shown {
            return Err(
                "the project's files changed since they were shown, so nothing was trusted; look again".to_owned()
            );
        }
        let items = self.inventory.withheld(&store.load_trust());
        store.accept_folder(&items).1.map_err(|error| error.to_string())?;
        gimlet_config::forget_abandoned_leases(&self.loaded.locations);
        gimlet_config::forget_seen_project_files(&self.loaded.locations);
        Ok(())
    }
}

/// Returns an item as it is shown in a question of trust.
pub(super) fn trust_item(change: ItemChange) -> TrustItem {
    TrustItem {
        title: change.item.title(),
        file: change.item.file.clone(),
        line: change.item.line,
        shown: change.shown,
        is_new: change.is_new,
    }
}
