//! The record of installed plugins, `plugins/installed_plugins.json` in the user's configuration folder.

use std::path::{Path, PathBuf};

use gimlet_fs::read_text;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::PluginId;
use crate::file_ownership;
use crate::json::{self, JsonText};
use crate::locations::SettingsLocations;
use crate::problem::{ProblemSeverity, SettingsProblem};
use crate::size_limits::SETTINGS_MAX_BYTES;

/// Whom an installed plugin is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PluginScope {
    User,
    /// Everybody who works in a project.
    Project,
    /// The user, in one project.
    Local,
    /// The administrator.
    Managed,
}

impl PluginScope {
    pub fn as_str(self) -> &'static str {
        match self {
            PluginScope::User => "user",
            PluginScope::Project => "project",
            PluginScope::Local => "local",
            PluginScope::Managed => "managed",
        }
    }
}

/// One installation of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstalledPlugin {
    pub scope: PluginScope,
    /// Project that it is for; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_path: Option<PathBuf>,
    pub install_path: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// Installed plugins, in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct InstalledPlugins {
    pub entries: Vec<(PluginId, Vec<InstalledPlugin>)>,
    pub problems: Vec<SettingsProblem>,
}

impl InstalledPlugins {
    /// Returns the path of the record.
    pub fn file(locations: &SettingsLocations) -> PathBuf {
        locations.config_dir.join("plugins/installed_plugins.json")
    }

    /// Reads the record. One that cannot be trusted or read is empty, with a problem.
    pub fn read(locations: &SettingsLocations) -> Self {
        let file = Self::file(locations);
        let failed = |line, message: String| Self {
            entries: Vec::new(),
            problems: vec![SettingsProblem {
                severity: ProblemSeverity::Error,
                file: file.clone(),
                line,
                column: None,
                key: String::new(),
                message: format!("no installed plugin is used: {message}"),
            }],
        };
        let text = match read_text(&file, SETTINGS_MAX_BYTES) {
            Ok(None) => return Self::default(),
            Ok(Some(text)) => text,
            Err(error) => return failed(None, error.to_string()),
        };
        let doubts = locations.user.check_config_home(&locations.config_dir, &file);
        if !doubts.is_empty() {
            return failed(None, file_ownership::describe_problems(&doubts));
        }
        let parsed = match json::parse_json(&text) {
            Ok(parsed) => parsed,
            Err(error) => {
                let line = JsonText::new(text).line_at(error.offset);
                return failed(Some(line), error.message);
            }
        };
        let lines = JsonText::new(text);
        let Some(plugins) = parsed.root.get("plugins") else {
            return failed(Some(1), "`plugins` is missing".to_owned());
        };
        let mut installed = Self::default();
        for member in plugins.members() {
            let line = lines.line_at(member.key_span.start);
            let Some(id) = PluginId::parse(&member.key) else {
                installed.report(&file, line, format!("`{}` is no plugin@marketplace", member.key));
                continue;
            };
            // Earlier versions of the record have one installation in place of a list.
            let value = match member.value.to_value() {
                Value::Array(list) => list,
                single => vec![single],
            };
            let mut entries = Vec::new();
            for entry in value {
                match serde_json::from_value::<InstalledPlugin>(with_default_scope(entry)) {
                    Ok(entry) => entries.push(entry),
                    Err(error) => installed.report(&file, line, format!("{id}: {error}")),
                }
            }
            installed.entries.push((id, entries));
        }
        installed
    }

    fn report(&mut self, file: &Path, line: usize, message: String) {
        self.problems.push(SettingsProblem {
            severity: ProblemSeverity::Warning,
            file: file.to_owned(),
            line: Some(line),
            column: None,
            key: String::new(),
            message: format!("left out: {message}"),
        });
    }

    /// Returns the installation that counts in a project: its own before the user's.
    pub fn find(&self, id: &PluginId, locations: &SettingsLocations) -> Option<&InstalledPlugin> {
        let entries = &self.entries.iter().find(|(known, _)| known == id)?.1;
        let of_project = entries.iter().find(|entry| entry.project_path.is_some() && entry.is_for(locations));
        of_project.or_else(|| entries.iter().find(|entry| entry.is_for(locations)))
    }
}

impl InstalledPlugin {
    /// Returns true if the installation counts in the project of these locations.
    pub fn is_for(&self, locations: &SettingsLocations) -> bool {
        match (self.scope, &self.project_path) {
            (PluginScope::User | PluginScope::Managed, _) => true,
            (PluginScope::Project | PluginScope::Local, None) => false,
            (PluginScope::Project | PluginScope::Local, Some(project)) => {
                let here = [locations.trust_root(), locations.project_root(), &locations.cwd];
                here.contains(&project.as_path())
                    || project.canonicalize().is_ok_and(|real| here.contains(&real.as_path()))
            }
        }
    }
}

fn with_default_scope(mut entry: Value) -> Value {
    if let Some(members) = entry.as_object_mut() {
        members.entry("scope").or_insert_with(|| Value::from("user"));
    }
    entry
}
