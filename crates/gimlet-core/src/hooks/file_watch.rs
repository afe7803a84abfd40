//! Watching files for `FileChanged` hooks: those that a matcher names, in the session's folder, and those that hooks
//! asked for. It looks at them at intervals; while there are none, it waits.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gimlet_fs::MetadataStamp;

use super::{HookEvent, HookPayload, HookRegistry};
use crate::call::CallScope;

/// Time between two looks.
const INTERVAL: Duration = Duration::from_millis(500);
/// Maximum number of files that are watched.
const MOST_FILES: usize = 200;

impl HookRegistry {
    /// Replaces the files that hooks asked to be watched. Relative paths begin at this folder.
    pub(super) fn set_watch_paths(&self, paths: Vec<PathBuf>, cwd: &Path) {
        let paths = paths.into_iter().take(MOST_FILES).map(|path| cwd.join(path));
        self.lock().watch_paths = paths.collect();
        self.watch_changed.notify_one();
    }

    /// Returns the files to watch from this folder.
    fn watched_files(&self, cwd: &Path) -> Vec<PathBuf> {
        if !self.has_listeners(HookEvent::FileChanged) {
            return Vec::new();
        }
        let state = self.lock();
        let named = state.entries().filter(|entry| entry.event == HookEvent::FileChanged);
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in named {
            let text = entry.matcher.text();
            let names = text.split('|').map(str::trim).filter(|name| !name.is_empty());
            files.extend(names.map(|name| cwd.join(name)));
        }
        files.extend(state.watch_paths.iter().cloned());
        files.sort();
        files.dedup();
        files.truncate(MOST_FILES);
        files
    }
}

/// Fires `FileChanged` for the rest of the session.
pub(crate) async fn watch_files(scope: Arc<CallScope>) {
    let mut known: HashMap<PathBuf, Option<MetadataStamp>> = HashMap::new();
    loop {
        let hooks = scope.services.hooks();
        let files = hooks.watched_files(&scope.services.paths().cwd);
        if files.is_empty() {
            known.clear();
            hooks.watch_changed.notified().await;
            continue;
        }
        let look = move || files.into_iter().map(|file| (MetadataStamp::read(&file), file)).collect::<Vec<_>>();
        // A look that failed is repeated at the next interval.
        let seen = tokio::task::spawn_blocking(look).await.unwrap_or_default();
        known.retain(|file, _| seen.iter().any(|(_, path)| path == file));
        for (stamp, file) in seen {
            let change = match known.insert(file.clone(), stamp) {
                Some(before) => describe_change(before, stamp),
                None => None,
            };
            if let Some(change) = change {
                hooks.fire_detached(&scope, &HookPayload::FileChanged { file: &file, change });
            }
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = hooks.watch_changed.notified() => {}
        }
    }
}

/// Returns the public word for what happened to a file, if something did.
fn describe_change(before: Option<MetadataStamp>, now: Option<MetadataStamp>) -> Option<&'static str> {
    match (before, now) {
        (None, Some(_)) => Some("add"),
        (Some(_), None) => Some("unlink"),
        (before, now) if before != now => Some("change"),
        _ => None,
    }
}
