//! The plugins of a session: which there are, and what of them reaches hooks, servers and programs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_config::{
    HookLine, LoadedPlugin, PluginError, PluginFlag, PluginSearch, PluginSet, ProblemSeverity, ProjectItem,
    SettingSources, SettingsProblem, TrustInventory, TrustStore,
};
use gimlet_core::HookEntry;
use gimlet_fs::MetadataStamp;
use gimlet_hooks::{HookDefinition, HookProblem, HookTrustCheck};
use gimlet_proto::{PluginFailure, PluginSummary};
use serde_json::Value;

use super::SessionSettings;
use crate::launch_request::{CustomizationLevel, LaunchRequest, PluginOptions};
use crate::process_env::ProcessEnv;

/// Folders of the plugins that flags and the driving program name.
pub(super) fn requested_plugins(request: &LaunchRequest, around: &ProcessEnv) -> Vec<PluginFlag> {
    let PluginOptions { folders, folders_without_servers, of_host } = &request.plugins;
    let flag = |path: &PathBuf, has_servers| PluginFlag { folder: plugin_folder(path, around), has_servers };
    let mut flags: Vec<PluginFlag> = folders.iter().map(|path| flag(path, true)).collect();
    flags.extend(folders_without_servers.iter().map(|path| flag(path, false)));
    flags.extend(of_host.iter().map(|value| PluginFlag { folder: host_plugin(value, around), has_servers: true }));
    flags
}

/// Returns the folder of a plugin; that of an archive is filled first.
fn plugin_folder(path: &Path, around: &ProcessEnv) -> Result<PathBuf, PluginError> {
    let path = around.cwd.join(path);
    let is_archive = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zip")) && path.is_file();
    if !is_archive {
        return Ok(path);
    }
    gimlet_config::unpack_plugin(&path, &around.config_home.join("plugins/cache/inline"))
}

/// Returns the folder of a plugin that the driving program names.
fn host_plugin(value: &Value, around: &ProcessEnv) -> Result<PathBuf, PluginError> {
    let kind = value.get("type").and_then(Value::as_str).unwrap_or("local");
    let path = value.as_str().or_else(|| value.get("path").and_then(Value::as_str));
    match path.filter(|path| kind == "local" && !path.is_empty()) {
        Some(path) => plugin_folder(Path::new(path), around),
        None => {
            let why = "a plugin of initialize is {\"type\": \"local\", \"path\": …}; other kinds are not available";
            Err(PluginError {
                plugin: String::new(),
                kind: "not-available",
                message: why.to_owned(),
                path: PathBuf::from("initialize"),
                line: None,
            })
        }
    }
}

impl SessionSettings {
    /// Finds the plugins that settings and trust let this run use.
    pub(super) fn find_plugins(&self) -> PluginSet {
        let (flags, sources): (&[PluginFlag], SettingSources) = match self.customization {
            CustomizationLevel::Safe => return PluginSet::default(),
            CustomizationLevel::Full | CustomizationLevel::Bare => (&self.plugin_flags, self.loaded.sources),
        };
        let env = &self.around.env;
        PluginSearch {
            loaded: &self.loaded,
            flags,
            sources,
            flags_only: self.customization == CustomizationLevel::Bare,
            effective: &self.effective,
            inventory: &self.inventory,
            trust: &self.trust,
            environment: &|name| env.exact(name).map(str::to_owned),
        }
        .read()
    }

    /// Returns the plugins of this run.
    pub fn plugins(&self) -> &PluginSet {
        &self.plugins
    }

    /// Returns one line about each plugin that cannot be used, and about what else of plugins the user should know.
    pub(super) fn plugin_remarks(&self) -> Vec<String> {
        let matters = |problem: &&SettingsProblem| {
            problem.severity == ProblemSeverity::Error
                || (problem.severity == ProblemSeverity::Warning
                    && (problem.key.starts_with("hooks.") || problem.key.starts_with("userConfig.")))
        };
        let errors = self.plugins.errors.iter().map(ToString::to_string);
        errors.chain(self.plugins.problems.iter().filter(matters).map(ToString::to_string)).collect()
    }

    /// Returns the hooks of a plugin that settings and switches leave.
    pub(super) fn running_plugin_lines(&self, plugin: &LoadedPlugin) -> Vec<HookLine> {
        let may_run = |line: &&HookLine| self.effective.allows_hooks_of(line.origin.scope);
        plugin.contents.hooks.iter().filter(may_run).cloned().collect()
    }

    /// Returns the hooks of all plugins as entries, and those that cannot be used.
    pub(super) fn plugin_hook_entries(&self) -> (Vec<HookEntry>, Vec<HookProblem>) {
        let (mut entries, mut problems) = (Vec::new(), Vec::new());
        for plugin in &self.plugins.plugins {
            let (found, bad) = self.entries_of_plugin(plugin, &self.running_plugin_lines(plugin));
            entries.extend(found);
            problems.extend(bad);
        }
        (entries, problems)
    }

    /// Returns these hooks of a plugin as entries.
    pub(super) fn entries_of_plugin(
        &self,
        plugin: &LoadedPlugin,
        lines: &[HookLine],
    ) -> (Vec<HookEntry>, Vec<HookProblem>) {
        if lines.is_empty() {
            return Default::default();
        }
        let options = plugin.option_variables();
        let definition =
            HookDefinition::Plugin { name: plugin.name(), root: &plugin.root, data: &plugin.data, options: &options };
        let check = self.plugin_trust_check(plugin);
        self.hook_entries_of(definition, lines, |_| check.clone())
    }

    /// Makes the folders in which plugins with hooks and servers keep what they need. Returns what failed.
    pub(super) fn create_plugin_data_folders(&self) -> Vec<String> {
        let acts = |plugin: &&LoadedPlugin| !plugin.contents.hooks.is_empty() || !plugin.contents.servers.is_empty();
        let plugins = self.plugins.plugins.iter().map(|plugin| &**plugin).filter(acts);
        let made = plugins.filter_map(|plugin| {
            let error = gimlet_fs::create_private_dir_all(&plugin.data).err()?;
            Some(format!(
                "the folder {} of the plugin {} cannot be made: {error}",
                plugin.data.display(),
                plugin.name()
            ))
        });
        made.collect()
    }

    /// Returns the scripts of plugins inside the project, which run outside the sandbox.
    pub(super) fn plugin_scripts(&self) -> Vec<PathBuf> {
        let plugins = self.plugins.plugins.iter().filter(|plugin| self.is_in_project(plugin));
        plugins.flat_map(|plugin| self.scripts_of_plugin(plugin)).collect()
    }

    fn is_in_project(&self, plugin: &LoadedPlugin) -> bool {
        let locations = &self.loaded.locations;
        plugin.root.starts_with(locations.project_root()) && !plugin.root.starts_with(&locations.config_dir)
    }

    fn scripts_of_plugin(&self, plugin: &LoadedPlugin) -> Vec<PathBuf> {
        let mut files = gimlet_config::plugin_script_files(&self.loaded.locations, plugin);
        let defining = plugin.contents.hooks.iter().map(|line| &line.origin.file);
        files.extend(defining.chain(plugin.contents.servers.iter().map(|server| &server.file)).cloned());
        files.extend(plugin.manifest.file.clone());
        files.sort_unstable();
        files.dedup();
        files
    }

    /// Returns the check whether the files that a plugin's hooks run are still as they were when the session began, or
    /// are trusted as they are now; `None` for a plugin outside the project.
    fn plugin_trust_check(&self, plugin: &LoadedPlugin) -> Option<HookTrustCheck> {
        if !self.is_in_project(plugin) {
            return None;
        }
        let scripts = self.scripts_of_plugin(plugin);
        let stamps: Vec<Option<MetadataStamp>> = scripts.iter().map(|script| MetadataStamp::read(script)).collect();
        let (loaded, trust, root) = (self.loaded.clone(), self.trust.clone(), plugin.root.clone());
        let (name, is_of_project) = (plugin.name().to_owned(), plugin.project.is_some());
        Some(Arc::new(move || {
            if scripts.iter().map(|script| MetadataStamp::read(script)).eq(stamps.iter().copied()) {
                return None;
            }
            if !is_of_project {
                return Some(format!(
                    "a file of the plugin {name} changed since this session began; start again to use it"
                ));
            }
            let now = TrustInventory::collect(&loaded);
            let is_of_it = |item: &&ProjectItem| {
                item.file.starts_with(&root) || item.file.canonicalize().is_ok_and(|real| real.starts_with(&root))
            };
            let items: Vec<&ProjectItem> = now.items.iter().filter(is_of_it).collect();
            let recorded = TrustStore::new(&loaded.locations).load_trust();
            let covers = |item: &&&ProjectItem| trust.covers(item) || recorded.covers(item);
            if !items.is_empty() && items.iter().filter(covers).count() == items.len() {
                return None;
            }
            Some(format!("a file of the plugin {name} changed since it was trusted; review: gimlet trust"))
        }))
    }

    /// Returns the plugins of this run for programs.
    pub fn plugin_summaries(&self) -> Vec<PluginSummary> {
        let summary = |plugin: &LoadedPlugin| PluginSummary {
            name: plugin.name().to_owned(),
            path: plugin.root.clone(),
            version: plugin.manifest.version.clone(),
        };
        self.plugins.plugins.iter().map(|plugin| summary(plugin)).collect()
    }

    /// Returns the plugins that cannot be used, for programs.
    pub fn plugin_failures(&self) -> Vec<PluginFailure> {
        let failure = |error: &PluginError| PluginFailure {
            plugin: error.plugin.clone(),
            kind: error.kind.to_owned(),
            message: match error.line {
                Some(line) => format!("line {line}: {}", error.message),
                None => error.message.clone(),
            },
            path: Some(error.path.clone()),
        };
        self.plugins.errors.iter().map(failure).collect()
    }
}

/// Returns the failures of flags that name plugins and have no effect in this version.
pub(super) fn ignored_plugin_flags(request: &LaunchRequest) -> impl Iterator<Item = PluginFailure> {
    let named = request.plugins.folders.len() + request.plugins.folders_without_servers.len();
    let ignored = request.front_end.ignored_flags.iter().filter(|flag| flag.starts_with("--plugin-"));
    ignored.enumerate().map(move |(at, flag)| PluginFailure {
        plugin: format!("inline[{}]", named + at),
        kind: "not-available".to_owned(),
        message: format!("{flag} is not available in this version of gimlet"),
        path: None,
    })
}
