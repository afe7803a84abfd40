//! Finds skills and commands: at the start, in folders that are added, and below the working directory once a file
//! there is used.

use std::path::{Path, PathBuf};

use super::document_walk::WalkedFile;
use super::skill_file::{SkillFile, SkillFiles, SkillKind};
use super::{DOCUMENT_MAX_BYTES, DocumentArea, DocumentReader, DocumentScope, SkippedDocument};
use crate::plugins::PluginComponent;
use crate::trust::ProjectItemKind;

/// Name of a folder of skills that other programs fill.
const RESERVED_NAME: &str = "synced";
/// Manifest that makes a skill's folder a plugin.
const PLUGIN_MANIFEST: &str = ".claude-plugin/plugin.json";

impl DocumentReader {
    /// Reads the skills and commands of all areas and of these added folders.
    pub fn skills(&self, added_folders: &[&Path]) -> SkillFiles {
        let mut files = SkillFiles::default();
        let mut areas = self.areas();
        // The user's skills have precedence over the project's.
        areas.sort_by_key(|area| area.scope);
        areas.extend(added_folders.iter().filter_map(|folder| self.added_area(folder)));
        for area in &areas {
            self.add_skills(area, &mut files);
        }
        for area in &areas {
            self.add_commands(area, &mut files);
        }
        self.add_plugin_skills(&mut files);
        files
    }

    /// Adds the skills and commands of plugins, which have the plugin's name in front.
    fn add_plugin_skills(&self, files: &mut SkillFiles) {
        for (document, folder) in self.plugin_skills(&mut files.skipped) {
            let found = &document.found;
            let gate = self.gate(found, ProjectItemKind::Skill);
            let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let mut skill = SkillFile::parse(found, SkillKind::Skill, name, gate, &mut files.problems);
            let label = skill.listing.label.as_deref().filter(|label| is_command_name(label));
            skill.name = document.qualified_name(label.unwrap_or(&skill.name));
            files.add(skill);
        }
        for document in self.plugin_documents(PluginComponent::Commands, &mut files.skipped) {
            let found = &document.found;
            let Some(name) = found.path.file_stem().map(|name| name.to_string_lossy().into_owned()) else { continue };
            let gate = self.gate(found, ProjectItemKind::Command);
            let name = document.qualified_name(&name);
            let command = SkillFile::parse(found, SkillKind::Command, name, gate, &mut files.problems);
            files.add(command);
        }
    }

    /// Reads the skills of the folders between the working directory and a file below it. One whose name is taken gets
    /// its folder in front: `apps/web:deploy`.
    pub fn nested_skills(&self, file: &Path, known: &SkillFiles) -> SkillFiles {
        let mut files = SkillFiles { seen: known.seen.clone(), ..SkillFiles::default() };
        let (cwd, root) = (&self.locations.cwd, self.locations.project_root());
        if !self.sources.project {
            return files;
        }
        for folder in folders_below(cwd, file) {
            let Some(area) = self.area_in(folder, DocumentScope::Project, root) else { continue };
            let mut nested = SkillFiles { seen: std::mem::take(&mut files.seen), ..SkillFiles::default() };
            self.add_skills(&area, &mut nested);
            for mut skill in nested.skills {
                if known.find(&skill.name).is_some() || files.find(&skill.name).is_some() {
                    skill.name = format!("{}:{}", super::relative_name(folder, cwd), skill.name);
                }
                files.skills.push(skill);
            }
            files.skipped.extend(nested.skipped);
            files.problems.extend(nested.problems);
            files.seen = nested.seen;
        }
        files
    }

    /// Returns the files and folders that skills and commands are in, for noticing that one of them changes. Folders that
    /// do not exist are among them.
    pub fn skill_paths(&self, added_folders: &[&Path]) -> Vec<PathBuf> {
        let added = added_folders.iter().filter_map(|folder| self.added_area(folder));
        let mut paths = Vec::new();
        for area in self.areas().into_iter().chain(added) {
            paths.extend(self.watched_paths(&area.folder.join("commands"), area.border.as_deref()));
            let top = area.folder.join("skills");
            for entry in top.read_dir().into_iter().flatten().flatten() {
                paths.push(entry.path().join("SKILL.md"));
            }
            paths.push(top);
        }
        paths.extend(self.plugin_skill_paths());
        paths
    }

    fn add_skills(&self, area: &DocumentArea, files: &mut SkillFiles) {
        let top = area.folder.join("skills");
        let Ok(real_top) = top.canonicalize() else { return };
        let Ok(entries) = top.read_dir() else { return };
        if let Some(problem) = self.folder_problem(area, &top) {
            files.skipped.push(SkippedDocument::new(&top, problem));
            return;
        }
        let mut entries: Vec<_> = entries.flatten().collect();
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let (path, mut real) = (entry.path(), real_top.join(entry.file_name()));
            let kind = entry.file_type();
            if kind.as_ref().is_ok_and(std::fs::FileType::is_file) {
                if super::is_markdown(&path) {
                    let reason = "a skill is a folder with a SKILL.md; move the file to <name>/SKILL.md";
                    files.skipped.push(SkippedDocument::new(&path, reason));
                }
                continue;
            }
            let file = path.join("SKILL.md");
            if kind.is_ok_and(|kind| kind.is_symlink()) {
                let Ok(target) = path.canonicalize() else { continue };
                real = target;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            self.add_skill(area, &WalkedFile { path: file, real: real.join("SKILL.md") }, name, files);
        }
    }

    fn add_skill(&self, area: &DocumentArea, file: &WalkedFile, name: String, files: &mut SkillFiles) {
        let found = match self.read_found(area, file, DOCUMENT_MAX_BYTES) {
            Ok(Some(found)) => found,
            Ok(None) => return,
            Err(skip) => {
                files.skipped.push(skip);
                return;
            }
        };
        let folder = file.real.parent().unwrap_or(&file.real);
        let reason = if name == RESERVED_NAME {
            format!("the name `{RESERVED_NAME}` is reserved")
        } else if folder.join(PLUGIN_MANIFEST).exists() {
            // The plugin brings it.
            return;
        } else if !files.seen.insert(file.real.clone()) {
            return;
        } else {
            let gate = self.gate(&found, ProjectItemKind::Skill);
            let skill = SkillFile::parse(&found, SkillKind::Skill, name, gate, &mut files.problems);
            files.add(skill);
            return;
        };
        files.skipped.push(SkippedDocument::new(&file.path, reason));
    }

    fn add_commands(&self, area: &DocumentArea, files: &mut SkillFiles) {
        let top = area.folder.join("commands");
        for found in self.read_folder(area, "commands", &mut files.skipped) {
            if !files.seen.insert(found.real.clone()) {
                continue;
            }
            let Some(name) = found.path.file_stem().map(|name| name.to_string_lossy().into_owned()) else { continue };
            let gate = self.gate(&found, ProjectItemKind::Command);
            let mut command = SkillFile::parse(&found, SkillKind::Command, name, gate, &mut files.problems);
            let folder = found.path.parent().map(|folder| super::relative_name(folder, &top).replace('/', ":"));
            command.listing.namespace = folder.filter(|folder| !folder.is_empty());
            files.add(command);
        }
    }
}

/// Returns true if a command can have this name.
fn is_command_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|mark| mark.is_alphanumeric() || matches!(mark, '_' | ':' | '.' | '-'))
}

/// Returns the folders below one folder on the way to a file, the outermost first.
pub(super) fn folders_below<'f>(folder: &Path, file: &'f Path) -> Vec<&'f Path> {
    if !file.starts_with(folder) || file.components().any(|part| part == std::path::Component::ParentDir) {
        return Vec::new();
    }
    let mut folders: Vec<&Path> =
        file.ancestors().skip(1).take_while(|above| above.starts_with(folder) && *above != folder).collect();
    folders.reverse();
    folders
}
