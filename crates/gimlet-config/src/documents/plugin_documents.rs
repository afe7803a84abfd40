//! Documents of plugins. What a plugin's manifest names is read like any other document, and must be inside the plugin.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::document_walk::WalkedFile;
use super::{DOCUMENT_MAX_BYTES, DocumentArea, DocumentReader, DocumentScope, FoundDocument, SkippedDocument};
use crate::plugins::{LoadedPlugin, PluginComponent};

/// Document of a plugin, and its place among those of its kind.
pub(super) struct PluginDocument {
    pub(super) found: FoundDocument,
    pub(super) plugin: Arc<LoadedPlugin>,
    /// Folders below that of the part.
    folders: Vec<String>,
}

impl PluginDocument {
    /// Returns a name with the plugin's and those of the folders in front.
    pub(super) fn qualified_name(&self, name: &str) -> String {
        let parts = std::iter::once(self.plugin.name()).chain(self.folders.iter().map(String::as_str));
        parts.chain([name]).collect::<Vec<_>>().join(":")
    }
}

impl DocumentReader {
    /// Reads the Markdown files of a part of every plugin.
    pub(super) fn plugin_documents(
        &self,
        component: PluginComponent,
        skipped: &mut Vec<SkippedDocument>,
    ) -> Vec<PluginDocument> {
        let mut documents = Vec::new();
        for plugin in self.plugins().iter() {
            let area = plugin_area(plugin);
            for path in plugin.manifest.paths(component) {
                let (files, top) = self.plugin_files(plugin, path, skipped);
                for file in files.iter().filter(|file| super::is_markdown(&file.path)) {
                    match self.read_found(&area, file, DOCUMENT_MAX_BYTES) {
                        Ok(Some(found)) => {
                            let folders = folder_names(&found.path, &top);
                            documents.push(PluginDocument { found, plugin: plugin.clone(), folders });
                        }
                        Ok(None) => {}
                        Err(skip) => skipped.push(skip),
                    }
                }
            }
        }
        documents
    }

    /// Returns the files that a path of a manifest stands for, and the folder that they are in.
    fn plugin_files(
        &self,
        plugin: &LoadedPlugin,
        path: &Path,
        skipped: &mut Vec<SkippedDocument>,
    ) -> (Vec<WalkedFile>, PathBuf) {
        if path.is_file() {
            let top = path.parent().unwrap_or(path).to_owned();
            return (vec![WalkedFile { path: path.to_owned(), real: path.to_owned() }], top);
        }
        let walk = self.walk(path, Some(&plugin.root));
        skipped.extend(walk.skipped.iter().cloned().chain(walk.outside.iter().map(|file| {
            let reason = format!("it is a link that leads out of the plugin, to {}", file.real.display());
            SkippedDocument::new(&file.path, reason)
        })));
        (walk.files.clone(), path.to_owned())
    }

    /// Returns the files and folders that decide which documents plugins have.
    pub(super) fn plugin_paths(&self, component: PluginComponent) -> Vec<PathBuf> {
        let mut watched = Vec::new();
        for plugin in self.plugins().iter() {
            for path in plugin.manifest.paths(component) {
                watched.extend(self.watched_paths(path, Some(&plugin.root)));
            }
        }
        watched
    }
}

fn plugin_area(plugin: &Arc<LoadedPlugin>) -> DocumentArea {
    DocumentArea {
        scope: DocumentScope::Plugin,
        folder: plugin.root.clone(),
        border: Some(plugin.root.clone()),
        plugin: Some(plugin.clone()),
    }
}

fn folder_names(file: &Path, top: &Path) -> Vec<String> {
    let below = file.parent().and_then(|folder| folder.strip_prefix(top).ok());
    let names = below.into_iter().flat_map(Path::components);
    names.map(|name| name.as_os_str().to_string_lossy().into_owned()).collect()
}
