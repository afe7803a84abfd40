//! Plugins: folders that bring agents, skills, output styles, hooks and tool servers of their own.
//!
//! A plugin comes from the command line, from a folder of skills that has a manifest, or is installed. A manifest that
//! is wrong keeps its plugin from being used, and names file and line; nothing of a plugin may lie outside its folder.
//! Nothing is started here.

mod installed_plugins;
mod plugin_archive;
mod plugin_contents;
mod plugin_json;
mod plugin_manifest;
mod plugin_options;
mod plugin_search;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

pub use installed_plugins::{InstalledPlugin, InstalledPlugins, PluginScope};
pub use plugin_archive::unpack_plugin;
pub use plugin_contents::{PluginContents, PluginServer};
pub use plugin_manifest::{PluginComponent, PluginManifest};
pub use plugin_options::PluginOptionValue;
pub use plugin_search::{PluginFlag, PluginSearch};

use crate::problem::SettingsProblem;
use crate::scope::Scope;

/// Marketplace in the ids of plugins that the command line names, and of those in a folder of skills.
const INLINE: &str = "inline";
const SKILLS_DIR: &str = "skills-dir";

/// Id of a plugin: `name@marketplace`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(into = "String")]
pub struct PluginId {
    pub name: String,
    pub marketplace: String,
}

impl PluginId {
    pub fn new(name: impl Into<String>, marketplace: impl Into<String>) -> Self {
        Self { name: name.into(), marketplace: marketplace.into() }
    }

    /// Parses `name@marketplace`; `None` if it is not of that form.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, marketplace) = text.split_once('@')?;
        let is_id = is_plugin_name(name) && is_plugin_name(marketplace);
        is_id.then(|| Self::new(name, marketplace))
    }

    /// Returns the id as the name of a folder.
    pub fn folder_name(&self) -> String {
        let keep = |mark: char| if mark.is_ascii_alphanumeric() || mark == '_' || mark == '-' { mark } else { '-' };
        self.to_string().chars().map(keep).collect()
    }
}

impl fmt::Display for PluginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.marketplace)
    }
}

impl From<PluginId> for String {
    fn from(id: PluginId) -> Self {
        id.to_string()
    }
}

/// Returns true if a plugin may have this name, which becomes part of names of tools and folders.
pub(crate) fn is_plugin_name(name: &str) -> bool {
    let is_part = |mark: char| mark.is_ascii_alphanumeric() || matches!(mark, '-' | '_' | '.');
    name.len() <= 64 && name.starts_with(|mark: char| mark.is_ascii_alphanumeric()) && name.chars().all(is_part)
}

/// Place where a plugin was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PluginOrigin {
    /// The command line, or the program that drives the session.
    Flag,
    /// The user's folder of skills.
    UserSkills,
    /// The project's folder of skills.
    ProjectSkills,
    Installed,
}

impl PluginOrigin {
    /// Returns the word for it in lists.
    pub fn label(self) -> &'static str {
        match self {
            PluginOrigin::Flag => "--plugin-dir",
            PluginOrigin::UserSkills => "user skills",
            PluginOrigin::ProjectSkills => "project skills",
            PluginOrigin::Installed => "installed",
        }
    }
}

/// Plugin that is used.
#[derive(Clone, Debug)]
pub struct LoadedPlugin {
    pub id: PluginId,
    pub origin: PluginOrigin,
    /// Its folder, without symlinks.
    pub root: PathBuf,
    /// Its folder for what it keeps.
    pub data: PathBuf,
    pub manifest: PluginManifest,
    pub contents: PluginContents,
    /// Values of its options.
    pub options: Vec<PluginOptionValue>,
    /// Scope of its hooks: that of the settings that turned it on, or of the folder that it is in.
    pub scope: Scope,
    /// Folder of the project that wrote it; `None` for the user's own.
    pub project: Option<PathBuf>,
    /// False if its servers are left out.
    pub has_servers: bool,
}

impl LoadedPlugin {
    /// Returns the name in front of the names of what it brings.
    pub fn name(&self) -> &str {
        &self.manifest.name
    }

    /// Returns a text of the plugin's documents with its variables filled in; options that are secret stay out.
    pub fn fill_variables(&self, text: &str) -> String {
        fill_variables(text, |name| match name {
            "CLAUDE_PLUGIN_ROOT" => Some(self.root.to_string_lossy().into_owned()),
            "CLAUDE_PLUGIN_DATA" => Some(self.data.to_string_lossy().into_owned()),
            name => self.option(name).filter(|option| !option.is_secret).map(|option| option.value.clone()),
        })
    }

    /// Returns the option that `user_config.KEY` stands for.
    fn option(&self, variable: &str) -> Option<&PluginOptionValue> {
        let key = variable.strip_prefix("user_config.")?;
        self.options.iter().find(|option| option.key == key)
    }

    /// Returns the variables that its hooks get: its folders are not among them.
    pub fn option_variables(&self) -> Vec<(String, String)> {
        self.options.iter().flat_map(PluginOptionValue::variables).collect()
    }

    /// Returns the names and values that its servers' definitions may contain.
    pub fn server_variables(&self) -> Vec<(String, String)> {
        let folder = |path: &Path| path.to_string_lossy().into_owned();
        let mut variables = vec![
            ("CLAUDE_PLUGIN_ROOT".to_owned(), folder(&self.root)),
            ("CLAUDE_PLUGIN_DATA".to_owned(), folder(&self.data)),
        ];
        let option = |option: &PluginOptionValue| (format!("user_config.{}", option.key), option.value.clone());
        variables.extend(self.options.iter().map(option));
        variables
    }
}

/// Replaces each `${name}` that has a value.
pub(crate) fn fill_variables(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        filled.push_str(before);
        match after.split_once('}').and_then(|(name, tail)| Some((value(name)?, tail))) {
            Some((value, tail)) => {
                filled.push_str(&value);
                rest = tail;
            }
            None => {
                filled.push_str("${");
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    filled
}

/// Reason why a plugin cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PluginError {
    /// Its id, or how it was named.
    pub plugin: String,
    /// Kind of the failure for programs, such as `path-not-found`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub message: String,
    /// File or folder that it is about.
    pub path: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

impl PluginError {
    pub(crate) fn new(kind: &'static str, path: &Path, message: impl Into<String>) -> Self {
        Self { plugin: String::new(), kind, message: message.into(), path: path.to_owned(), line: None }
    }

    pub(crate) fn at_line(self, line: usize) -> Self {
        Self { line: Some(line), ..self }
    }

    pub(crate) fn of_plugin(self, plugin: impl Into<String>) -> Self {
        Self { plugin: plugin.into(), ..self }
    }
}

impl fmt::Display for PluginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the plugin {} is not used: {}", self.plugin, self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Reason why a plugin that could be used is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PluginAbsence {
    /// Settings turn it off, or its manifest wants to be turned on first.
    Disabled,
    /// The project's files wait for trust.
    Untrusted,
    /// Another plugin of its name is used.
    Shadowed,
    /// Settings turn it on and it is not installed.
    NotInstalled,
    /// Managed settings do not allow its source.
    NotAllowed,
    /// This run uses no such plugins.
    LeftOut,
}

impl PluginAbsence {
    /// Returns the reason in the words that users see.
    pub fn describe(self) -> &'static str {
        match self {
            PluginAbsence::Disabled => "off (enabledPlugins in settings)",
            PluginAbsence::Untrusted => "waits for trust (gimlet trust)",
            PluginAbsence::Shadowed => "another plugin of its name is used",
            PluginAbsence::NotInstalled => "not installed",
            PluginAbsence::NotAllowed => "not allowed by managed settings",
            PluginAbsence::LeftOut => "left out in this run",
        }
    }
}

/// Plugin that is there and not used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnusedPlugin {
    pub id: PluginId,
    pub origin: PluginOrigin,
    /// Its folder, if there is one.
    #[serde(rename = "path", skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    pub reason: PluginAbsence,
}

/// Plugins of a session.
#[derive(Clone, Debug, Default)]
pub struct PluginSet {
    /// Plugins that are used; of those with one name the first that was found.
    pub plugins: Vec<Arc<LoadedPlugin>>,
    pub unused: Vec<UnusedPlugin>,
    pub errors: Vec<PluginError>,
    /// Problems of plugins that are used all the same.
    pub problems: Vec<SettingsProblem>,
}

impl PluginSet {
    /// Returns the agent that a plugin wants the main conversation to run as, with the plugin's name in front.
    pub fn default_agent(&self) -> Option<String> {
        self.plugins.iter().find_map(|plugin| {
            let agent = plugin.contents.agent.as_deref()?;
            Some(format!("{}:{agent}", plugin.name()))
        })
    }
}

/// Returns an option's value as text; `None` for a value that cannot be one.
pub(crate) fn value_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Array(values) => {
            let texts: Option<Vec<String>> = values.iter().map(value_text).collect();
            texts.map(|texts| texts.join(","))
        }
        Value::Null | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_names_with_a_marketplace() {
        let id = PluginId::parse("code-review@my.market").unwrap();
        assert_eq!(
            (id.to_string().as_str(), id.folder_name().as_str()),
            ("code-review@my.market", "code-review-my-market")
        );
        for bad in ["", "x", "@y", "x@", "a/b@c", "../x@y", "x@..", "-x@y", "x@y@z/"] {
            assert_eq!(PluginId::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_known_variables_are_filled() {
        let value = |name: &str| (name == "A").then(|| "1".to_owned());
        assert_eq!(fill_variables("${A}${B} ${A", value), "1${B} ${A");
        assert_eq!(fill_variables("$A {A} ${${A}}", value), "$A {A} ${1}");
    }
}
