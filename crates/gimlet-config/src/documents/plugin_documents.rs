//! Documents of plugins. What a plugin's manifest names is read like any other document, and must be inside the plugin.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::document_walk::WalkedFile;
use super::{DOCUMENT_MAX_BYTES, DocumentArea, DocumentReader, DocumentScope, FoundDocument, SkippedDocument};
use crate::plugins::{LoadedPlugin, PluginComponent};

/// File of a skill in its folder.
const SKILL: &str = "SKILL.md";

/// Document of a plugin, and its place among those of its kind.
pub(super) struct PluginDocument {
    pub(super) found: FoundDocument,
    pub(super) plugin: Arc<LoadedPlugin>,
    /// Folders below that of the part.
    folders: Vec<String>,
}

impl PluginDocument {
    /// Fills the plugin's variables into a document below `top`.
    fn new(mut found: FoundDocument, plugin: &Arc<LoadedPlugin>, top: &Path) -> Self {
        let filled = plugin.fill_variables(&found.document.text);
        if filled != found.document.text {
            found.document = Arc::new(found.document.with_text(filled));
        }
        let folders = folder_names(&found.path, top);
        Self { found, plugin: plugin.clone(), folders }
    }

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
                        Ok(Some(found)) => documents.push(PluginDocument::new(found, plugin, &top)),
                        Ok(None) => {}
                        Err(skip) => skipped.push(skip),
                    }
                }
            }
        }
        documents
    }

    /// Reads the skills of every plugin, with the folder of each.
    pub(super) fn plugin_skills(&self, skipped: &mut Vec<SkippedDocument>) -> Vec<(PluginDocument, PathBuf)> {
        let mut documents = Vec::new();
        for plugin in self.plugins().iter() {
            let area = plugin_area(plugin);
            for folder in skill_folders(plugin) {
                let Ok(real) = folder.join(SKILL).canonicalize() else { continue };
                let file = WalkedFile { path: folder.join(SKILL), real };
                match self.read_found(&area, &file, DOCUMENT_MAX_BYTES) {
                    Ok(Some(found)) => documents.push((PluginDocument::new(found, plugin, &folder), folder)),
                    Ok(None) => {}
                    Err(skip) => skipped.push(skip),
                }
            }
        }
        documents
    }

    /// Returns the files and folders that skills of plugins are in.
    pub(super) fn plugin_skill_paths(&self) -> Vec<PathBuf> {
        let mut paths = self.plugin_paths(PluginComponent::Commands);
        for plugin in self.plugins().iter() {
            paths.extend(plugin.manifest.paths(PluginComponent::Skills).map(Path::to_owned));
            paths.extend(skill_folders(plugin).into_iter().map(|folder| folder.join(SKILL)));
        }
        paths
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

/// Returns the folders of a plugin's skills: those that its manifest names, those in them, and the plugin itself.
fn skill_folders(plugin: &LoadedPlugin) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for path in plugin.manifest.paths(PluginComponent::Skills) {
        if path.join(SKILL).is_file() {
            folders.push(path.to_owned());
            continue;
        }
        let mut below: Vec<PathBuf> =
            path.read_dir().into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        below.retain(|folder| folder.join(SKILL).is_file());
        below.sort();
        folders.extend(below);
    }
    if plugin.root.join(SKILL).is_file() && !folders.contains(&plugin.root) {
        folders.push(plugin.root.clone());
    }
    folders
}

fn folder_names(file: &Path, top: &Path) -> Vec<String> {
    let below = file.parent().and_then(|folder| folder.strip_prefix(top).ok());
    let names = below.into_iter().flat_map(Path::components);
    names.map(|name| name.as_os_str().to_string_lossy().into_owned()).collect()
}
