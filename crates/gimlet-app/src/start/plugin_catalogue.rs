//! The plugins of a folder without a session: which are used, what each brings, and what is wrong with the others.

use std::path::Path;
use std::sync::Arc;

use gimlet_config::{
    DocumentReader, LoadedPlugin, PluginError, PluginSet, SettingSources, SettingsProblem, SkippedDocument,
};

use super::SessionSettings;
use crate::launch_error::LaunchError;
use crate::launch_request::{CustomizationLevel, LaunchRequest, PluginOptions, SettingsOptions};
use crate::process_env::ProcessEnv;

/// Plugins of sessions with these flags in a folder.
pub struct PluginCatalogue {
    pub plugins: Vec<CataloguedPlugin>,
    /// All of them, also those that are not used.
    pub set: PluginSet,
}

/// Plugin that is used, with the names of what it brings.
pub struct CataloguedPlugin {
    pub plugin: Arc<LoadedPlugin>,
    pub agents: Vec<String>,
    pub styles: Vec<String>,
    pub skills: Vec<String>,
    /// Events with the number of its hooks on them.
    pub hooks: Vec<(String, usize)>,
    pub servers: Vec<String>,
}

impl CataloguedPlugin {
    /// Returns one line on what it brings, such as `agents x:a, x:b; hooks on Stop`.
    pub fn describe_parts(&self) -> String {
        let events: Vec<String> = self.hooks.iter().map(|(event, _)| event.clone()).collect();
        let parts = [
            ("agents", &self.agents),
            ("skills", &self.skills),
            ("output styles", &self.styles),
            ("hooks on", &events),
            ("servers", &self.servers),
        ];
        let parts = parts.iter().filter(|(_, names)| !names.is_empty());
        let parts: Vec<String> = parts.map(|(what, names)| format!("{what} {}", names.join(", "))).collect();
        if parts.is_empty() { "nothing that this version uses".to_owned() } else { parts.join("; ") }
    }
}

impl PluginCatalogue {
    /// Reads the plugins. Starts nothing.
    pub fn read(request: &LaunchRequest, around: &ProcessEnv) -> Result<Self, LaunchError> {
        let settings = SessionSettings::read(request, around)?;
        let plugins = settings.plugins().plugins.iter().map(|plugin| catalogue_plugin(plugin, &settings).0).collect();
        Ok(Self { plugins, set: settings.plugins().clone() })
    }
}

/// Result of checking one plugin.
pub struct PluginCheck {
    pub plugin: Result<CataloguedPlugin, PluginError>,
    pub problems: Vec<SettingsProblem>,
    /// Documents that are not used.
    pub skipped: Vec<SkippedDocument>,
}

impl PluginCheck {
    /// Checks the plugin in a folder or an archive. Starts nothing.
    pub fn read(path: &Path, around: &ProcessEnv) -> Result<Self, LaunchError> {
        let request = LaunchRequest {
            plugins: PluginOptions { folders: vec![path.to_owned()], ..PluginOptions::default() },
            settings: SettingsOptions {
                customization: CustomizationLevel::Bare,
                sources: Some(SettingSources { user: false, project: false, local: false }),
                ..SettingsOptions::default()
            },
            ..LaunchRequest::default()
        };
        let settings = SessionSettings::read(&request, around)?;
        let set = settings.plugins();
        let mut problems = set.problems.clone();
        let Some(plugin) = set.plugins.first() else {
            let error = set.errors.first().cloned();
            let error = error.ok_or_else(|| LaunchError::new(format!("{} is no plugin", path.display())))?;
            return Ok(Self { plugin: Err(error), problems, skipped: Vec::new() });
        };
        let (catalogued, more, skipped) = catalogue_plugin(plugin, &settings);
        problems.extend(more);
        Ok(Self { plugin: Ok(catalogued), problems, skipped })
    }
}

/// Returns what a plugin brings, with the problems of its documents.
fn catalogue_plugin(
    plugin: &Arc<LoadedPlugin>,
    settings: &SessionSettings,
) -> (CataloguedPlugin, Vec<SettingsProblem>, Vec<SkippedDocument>) {
    let nowhere = SettingSources { user: false, project: false, local: false };
    let reader = DocumentReader::new(&settings.loaded.locations, nowhere);
    reader.set_plugins(std::slice::from_ref(plugin));
    let (agents, styles, skills) = (reader.agents(&[]), reader.output_styles(), reader.skills(&[]));
    let is_of_it = |path: &Path| path.starts_with(&plugin.root);
    let problems = agents
        .problems
        .iter()
        .chain(&styles.problems)
        .chain(&skills.problems)
        .filter(|problem| is_of_it(&problem.file));
    let skipped =
        agents.skipped.iter().chain(&styles.skipped).chain(&skills.skipped).filter(|skipped| is_of_it(&skipped.path));
    let (problems, skipped) = (problems.cloned().collect(), skipped.cloned().collect());
    let mut hooks: Vec<(String, usize)> = Vec::new();
    for line in &plugin.contents.hooks {
        match hooks.iter_mut().find(|(event, _)| *event == line.event) {
            Some((_, count)) => *count += 1,
            None => hooks.push((line.event.clone(), 1)),
        }
    }
    let catalogued = CataloguedPlugin {
        plugin: plugin.clone(),
        agents: agents
            .agents
            .iter()
            .filter(|agent| is_of_it(&agent.origin.path))
            .map(|agent| agent.name.clone())
            .collect(),
        styles: styles
            .styles
            .iter()
            .filter(|style| is_of_it(&style.origin.path))
            .map(|style| style.name.clone())
            .collect(),
        skills: skills
            .skills
            .iter()
            .filter(|skill| is_of_it(&skill.origin.path))
            .map(|skill| skill.name.clone())
            .collect(),
        hooks,
        servers: plugin.contents.servers.iter().map(|server| server.name.clone()).collect(),
    };
    (catalogued, problems, skipped)
}
