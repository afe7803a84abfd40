//! Finds the plugins of a session: those of the command line, in folders of skills, and installed ones.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::installed_plugins::InstalledPlugins;
use super::plugin_contents::ContentsReader;
use super::plugin_manifest::{MANIFEST, PluginManifest, configured_options};
use super::plugin_options::option_variable;
use super::{
    INLINE, LoadedPlugin, PluginAbsence, PluginError, PluginId, PluginOptionValue, PluginOrigin, PluginSet, SKILLS_DIR,
    UnusedPlugin,
};
use crate::effective_settings::EffectiveSettings;
use crate::load::{LoadedSettings, SettingsLayer};
use crate::problem::{ProblemSeverity, SettingsProblem};
use crate::scope::{Scope, SettingSources};
use crate::trust::{ProjectTrust, TrustInventory};

/// Plugin that the command line or a program names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginFlag {
    /// Its folder, or the reason why there is none.
    pub folder: Result<PathBuf, PluginError>,
    /// False if its servers are left out.
    pub has_servers: bool,
}

/// Where plugins are looked for, and what settings and trust say about them.
pub struct PluginSearch<'a> {
    pub loaded: &'a LoadedSettings,
    pub flags: &'a [PluginFlag],
    pub sources: SettingSources,
    /// True if only plugins of flags are used.
    pub flags_only: bool,
    pub effective: &'a EffectiveSettings,
    pub inventory: &'a TrustInventory,
    pub trust: &'a ProjectTrust,
    /// Returns the value of a variable that gives an option.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
}

/// Plugin that was found.
struct FoundPlugin {
    id: PluginId,
    origin: PluginOrigin,
    root: PathBuf,
    scope: Scope,
    project: Option<PathBuf>,
    has_servers: bool,
}

impl PluginSearch<'_> {
    /// Reads the plugins. Of several with one name the first is used: those of flags come before those in folders of
    /// skills, and these before installed ones.
    pub fn read(&self) -> PluginSet {
        let mut set = PluginSet::default();
        for (at, flag) in self.flags.iter().enumerate() {
            self.add_flag(at, flag, &mut set);
        }
        if self.flags_only {
            return set;
        }
        if self.sources.user {
            let folder = self.loaded.locations.config_dir.join("skills");
            self.add_skill_folders(&folder, PluginOrigin::UserSkills, &mut set);
        }
        if self.sources.project {
            let folder = self.loaded.locations.cwd.join(".claude/skills");
            self.add_skill_folders(&folder, PluginOrigin::ProjectSkills, &mut set);
        }
        if self.sources.user {
            self.add_installed(&mut set);
        }
        set
    }

    fn add_flag(&self, at: usize, flag: &PluginFlag, set: &mut PluginSet) {
        let label = format!("{INLINE}[{at}]");
        let root = match &flag.folder {
            Ok(folder) => match folder.canonicalize() {
                Ok(root) if root.is_dir() => root,
                Ok(_) => {
                    let error = PluginError::new("path-not-found", folder, "it is neither a folder nor a .zip file");
                    return set.errors.push(error.of_plugin(label));
                }
                Err(error) => {
                    let error = PluginError::new("path-not-found", folder, format!("it is not there: {error}"));
                    return set.errors.push(error.of_plugin(label));
                }
            },
            Err(error) => return set.errors.push(error.clone().of_plugin(label)),
        };
        let found = FoundPlugin {
            id: PluginId::new("", INLINE),
            origin: PluginOrigin::Flag,
            root,
            scope: Scope::Flag,
            project: None,
            has_servers: flag.has_servers,
        };
        self.add(found, Some(label), set);
    }

    /// Adds the plugins among the skills of a folder.
    fn add_skill_folders(&self, folder: &Path, origin: PluginOrigin, set: &mut PluginSet) {
        let Ok(entries) = folder.read_dir() else { return };
        let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        folders.retain(|path| path.join(MANIFEST).exists());
        folders.sort();
        for path in folders {
            let label =
                path.file_name().map(|name| format!("{}@{SKILLS_DIR}", name.to_string_lossy())).unwrap_or_default();
            let Ok(root) = path.canonicalize() else { continue };
            let project_root = self.loaded.locations.project_root();
            let is_of_project = origin == PluginOrigin::ProjectSkills
                || (root.starts_with(project_root) && !root.starts_with(&self.loaded.locations.config_dir));
            if origin == PluginOrigin::ProjectSkills && !root.starts_with(project_root) {
                let why = format!("it leads out of the project, to {}", root.display());
                set.errors.push(PluginError::new("path-outside-project", &path, why).of_plugin(label));
                continue;
            }
            if !is_of_project && let Some(why) = self.ownership_problem(&root) {
                set.errors.push(PluginError::new("unsafe-ownership", &path, why).of_plugin(label));
                continue;
            }
            let found = FoundPlugin {
                id: PluginId::new("", SKILLS_DIR),
                origin,
                scope: if is_of_project { Scope::Project } else { Scope::User },
                project: is_of_project.then(|| project_root.to_owned()),
                has_servers: true,
                root,
            };
            if is_of_project && !self.is_trusted(&path, &found.root) {
                let id = PluginId::new(path.file_name().unwrap_or_default().to_string_lossy(), SKILLS_DIR);
                let root = Some(found.root);
                set.unused.push(UnusedPlugin { id, origin, root, reason: PluginAbsence::Untrusted });
                continue;
            }
            self.add(found, None, set);
        }
    }

    /// Returns the ownership problem of a folder of the user's own.
    fn ownership_problem(&self, root: &Path) -> Option<String> {
        let doubt = self.loaded.locations.user.check_single_file(root)?;
        Some(crate::file_ownership::describe_problems(&[doubt]))
    }

    /// Returns true if everything in a project's plugin that acts is trusted.
    fn is_trusted(&self, spelled: &Path, root: &Path) -> bool {
        let is_of_it = |file: &Path| file.starts_with(spelled) || file.starts_with(root);
        let mut items = self.inventory.items.iter().filter(|item| is_of_it(&item.file)).peekable();
        items.peek().is_some() && items.all(|item| self.trust.covers(item))
    }

    fn add_installed(&self, set: &mut PluginSet) {
        let mut installed = InstalledPlugins::read(&self.loaded.locations);
        set.problems.append(&mut installed.problems);
        let wanted = self.effective.settings.enabled_plugins.iter().flatten();
        for (name, _) in wanted.filter(|(_, is_on)| **is_on) {
            let Some(id) = PluginId::parse(name) else { continue };
            let is_elsewhere = matches!(id.marketplace.as_str(), INLINE | SKILLS_DIR);
            if !is_elsewhere && installed.find(&id, &self.loaded.locations).is_none() {
                let (origin, reason) = (PluginOrigin::Installed, PluginAbsence::NotInstalled);
                set.unused.push(UnusedPlugin { id, origin, root: None, reason });
            }
        }
        for (id, _) in &installed.entries {
            let Some(entry) = installed.find(id, &self.loaded.locations) else { continue };
            let root = match entry.install_path.canonicalize() {
                Ok(root) if root.is_dir() => root,
                _ => {
                    let error = PluginError::new("path-not-found", &entry.install_path, "its folder is not there");
                    set.errors.push(error.of_plugin(id.to_string()));
                    continue;
                }
            };
            let problem = if root.starts_with(self.loaded.locations.project_root())
                && !root.starts_with(&self.loaded.locations.config_dir)
            {
                Some("it is inside the project, which could change it; name it with --plugin-dir".to_owned())
            } else {
                self.ownership_problem(&root)
            };
            if let Some(why) = problem {
                set.errors.push(PluginError::new("unsafe-ownership", &root, why).of_plugin(id.to_string()));
                continue;
            }
            let found = FoundPlugin {
                id: id.clone(),
                origin: PluginOrigin::Installed,
                root,
                scope: Scope::User,
                project: None,
                has_servers: true,
            };
            self.add(found, None, set);
        }
    }

    /// Adds a plugin, unless something keeps it from being used. `label` is how it was named, if it has no id.
    fn add(&self, mut found: FoundPlugin, label: Option<String>, set: &mut PluginSet) {
        let folder_name = found.root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let named = match (&label, found.id.name.as_str()) {
            (Some(label), _) => label.clone(),
            (None, "") => PluginId::new(folder_name, found.id.marketplace.clone()).to_string(),
            (None, _) => found.id.to_string(),
        };
        let (manifest, file, mut problems) = match PluginManifest::read(&found.root) {
            Ok(read) => read,
            Err(error) => return set.errors.push(error.of_plugin(named)),
        };
        if found.id.name.is_empty() {
            found.id.name.clone_from(&manifest.name);
        }
        let id = found.id.clone();
        let mut leave_out = |reason| {
            let (id, root) = (id.clone(), Some(found.root.clone()));
            set.unused.push(UnusedPlugin { id, origin: found.origin, root, reason });
        };
        let is_managed = self.is_turned_on_by_managed_settings(&id);
        match self.effective.settings.enabled_plugins.as_ref().and_then(|plugins| plugins.get(&id.to_string())) {
            Some(false) => return leave_out(PluginAbsence::Disabled),
            None if !manifest.default_enabled && found.origin != PluginOrigin::Flag => {
                return leave_out(PluginAbsence::Disabled);
            }
            Some(true) | None => {}
        }
        if set.plugins.iter().any(|plugin| plugin.manifest.name == manifest.name) {
            return leave_out(PluginAbsence::Shadowed);
        }
        let (options, mut missing) = self.read_options(&id, &manifest);
        problems.append(&mut missing);
        let scope = if is_managed { Scope::Managed } else { found.scope };
        let contents = ContentsReader::new(&found.root, file.as_ref(), &options, scope).read(&manifest);
        let contents = match contents {
            Ok((contents, mut more)) => {
                problems.append(&mut more);
                contents
            }
            Err(error) => return set.errors.push(error.of_plugin(named)),
        };
        set.problems.append(&mut problems);
        set.plugins.push(Arc::new(LoadedPlugin {
            data: self.loaded.locations.config_dir.join("plugins/data").join(id.folder_name()),
            id,
            origin: found.origin,
            root: found.root,
            manifest,
            contents,
            options,
            scope,
            project: found.project,
            has_servers: found.has_servers,
        }));
    }

    fn is_turned_on_by_managed_settings(&self, id: &PluginId) -> bool {
        let managed = self.loaded.layers.iter().filter(|layer| layer.scope == Scope::Managed);
        managed.map(SettingsLayer::to_value).any(|settings| settings["enabledPlugins"][id.to_string()] == true)
    }

    /// Returns the values of a plugin's options, and what is wrong with those that are given.
    fn read_options(&self, id: &PluginId, manifest: &PluginManifest) -> (Vec<PluginOptionValue>, Vec<SettingsProblem>) {
        let configs = self.effective.settings.plugin_configs.as_ref().and_then(|configs| configs.get(&id.to_string()));
        let given = configured_options(configs);
        let (mut values, mut problems) = (Vec::new(), Vec::new());
        for option in &manifest.options {
            let configured = given.and_then(|given| given.get(&option.key));
            let variable = option_variable(&option.key);
            let environment =
                (self.environment)(&variable).or_else(|| (self.environment)(&variable.to_ascii_uppercase()));
            let (value, problem) = option.value(configured, environment);
            values.extend(value);
            problems.extend(problem.map(|why| SettingsProblem {
                severity: ProblemSeverity::Warning,
                file: manifest.file.clone().unwrap_or_default(),
                line: None,
                column: None,
                key: format!("userConfig.{}", option.key),
                message: format!("{why} (pluginConfigs.{id}.options in your settings)"),
            }));
        }
        (values, problems)
    }
}
