//! The manifest of a plugin, `.claude-plugin/plugin.json`: what it is called, and where its parts are.

use std::path::{Component, Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::plugin_json::PluginJson;
use super::plugin_options::PluginOption;
use super::{PluginError, is_plugin_name};
use crate::json::{JsonNode, JsonValue};
use crate::problem::{ProblemSeverity, SettingsProblem};

/// Path of the manifest in a plugin.
pub(super) const MANIFEST: &str = ".claude-plugin/plugin.json";
/// Kind of the errors of a manifest.
const INVALID: &str = "manifest-validation-error";

/// Part of a plugin that consists of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PluginComponent {
    Skills,
    Commands,
    Agents,
    OutputStyles,
}

impl PluginComponent {
    const ALL: [PluginComponent; 4] = [Self::Skills, Self::Commands, Self::Agents, Self::OutputStyles];

    fn key(self) -> &'static str {
        match self {
            PluginComponent::Skills => "skills",
            PluginComponent::Commands => "commands",
            PluginComponent::Agents => "agents",
            PluginComponent::OutputStyles => "outputStyles",
        }
    }

    fn default_folder(self) -> &'static str {
        match self {
            PluginComponent::OutputStyles => "output-styles",
            other => other.key(),
        }
    }
}

/// Definition of hooks or servers: a file, or a part of the manifest.
#[derive(Clone, Debug)]
pub(super) enum ComponentSource {
    File(PathBuf),
    Inline(JsonNode),
}

/// Manifest of a plugin. One without a file has the name of its folder.
#[derive(Clone, Debug, Default)]
pub struct PluginManifest {
    pub name: String,
    pub display_name: Option<String>,
    pub version: Option<String>,
    pub description: Option<String>,
    pub author: Option<String>,
    /// False if the plugin is off until it is turned on.
    pub default_enabled: bool,
    /// Its file, if it has one.
    pub file: Option<PathBuf>,
    /// Files and folders of each part, without symlinks.
    paths: Vec<(PluginComponent, PathBuf)>,
    pub(super) hooks: Vec<ComponentSource>,
    pub(super) servers: Vec<ComponentSource>,
    pub(super) options: Vec<PluginOption>,
    /// Parts that this version does not use.
    pub unsupported: Vec<&'static str>,
}

impl PluginManifest {
    /// Reads the manifest of a folder. The first error keeps the plugin from being used.
    pub(super) fn read(root: &Path) -> Result<(Self, Option<PluginJson>, Vec<SettingsProblem>), PluginError> {
        let file = PluginJson::read(root, &root.join(MANIFEST), "manifest-parse-error")?;
        let folder_name = root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut reader = ManifestReader {
            root,
            file: file.as_ref(),
            manifest: Self { name: folder_name, default_enabled: true, ..Self::default() },
            problems: Vec::new(),
        };
        reader.read_manifest()?;
        reader.add_default_parts()?;
        let ManifestReader { manifest, problems, .. } = reader;
        if !is_plugin_name(&manifest.name) {
            let why = format!(
                "`{}` is no name for a plugin: use letters, digits, `-`, `_` and `.`, or add a manifest with a `name`",
                manifest.name
            );
            return Err(PluginError::new(INVALID, root, why));
        }
        Ok((manifest, file, problems))
    }

    /// Returns the files and folders of a part.
    pub fn paths(&self, component: PluginComponent) -> impl Iterator<Item = &Path> {
        self.paths.iter().filter(move |(kind, _)| *kind == component).map(|(_, path)| path.as_path())
    }
}

struct ManifestReader<'a> {
    root: &'a Path,
    file: Option<&'a PluginJson>,
    manifest: PluginManifest,
    problems: Vec<SettingsProblem>,
}

impl ManifestReader<'_> {
    fn error(&self, node: &JsonNode, message: impl Into<String>) -> PluginError {
        match self.file {
            Some(file) => PluginError::new(INVALID, &file.path, message).at_line(file.line_of(node)),
            None => PluginError::new(INVALID, self.root, message),
        }
    }

    fn report(&mut self, severity: ProblemSeverity, node: &JsonNode, key: &str, message: impl Into<String>) {
        let (path, line) = match self.file {
            Some(file) => (file.path.clone(), Some(file.line_of(node))),
            None => (self.root.to_owned(), None),
        };
        let (key, message) = (key.to_owned(), message.into());
        self.problems.push(SettingsProblem { severity, file: path, line, column: None, key, message });
    }

    fn read_manifest(&mut self) -> Result<(), PluginError> {
        let Some(file) = self.file else { return Ok(()) };
        self.manifest.file = Some(file.path.clone());
        let JsonValue::Object(members) = &file.root.json else {
            return Err(self.error(&file.root, "the manifest is no JSON object"));
        };
        if file.root.get("name").is_none() {
            return Err(self.error(&file.root, "`name` is missing"));
        }
        for member in members {
            let (key, node) = (member.key.as_str(), &member.value);
            match key {
                "name" => self.read_name(node)?,
                "displayName" => self.manifest.display_name = Some(self.text(key, node)?),
                "version" => self.manifest.version = Some(self.text(key, node)?),
                "description" => self.manifest.description = Some(self.text(key, node)?),
                "homepage" | "license" | "$schema" => drop(self.text(key, node)?),
                "repository" if matches!(node.json, JsonValue::Object(_)) => {}
                "repository" => drop(self.text(key, node)?),
                "author" => self.read_author(node)?,
                "keywords" => drop(self.texts(key, node)?),
                "defaultEnabled" => match node.json {
                    JsonValue::Bool(is_on) => self.manifest.default_enabled = is_on,
                    _ => return Err(self.error(node, "`defaultEnabled` should be true or false")),
                },
                "skills" | "commands" | "agents" | "outputStyles" => self.read_paths(key, node)?,
                "hooks" => self.manifest.hooks = self.sources(key, node)?,
                "mcpServers" => self.manifest.servers = self.sources(key, node)?,
                "userConfig" => self.read_options(node)?,
                "lspServers" | "workflows" | "channels" | "dependencies" => self.read_unsupported(key, node)?,
                "metadata" => {}
                "experimental" => self.note_experimental(node),
                _ => self.report(ProblemSeverity::Warning, node, key, "unknown, and ignored"),
            }
        }
        Ok(())
    }

    fn read_name(&mut self, node: &JsonNode) -> Result<(), PluginError> {
        let name = self.text("name", node)?;
        if !is_plugin_name(&name) {
            let why = "`name` should consist of lower-case letters, digits and hyphens, such as `code-review`";
            return Err(self.error(node, why));
        }
        let is_kebab = name.chars().all(|mark| mark.is_ascii_lowercase() || mark.is_ascii_digit() || mark == '-');
        if !is_kebab {
            self.report(ProblemSeverity::Warning, node, "name", "should be lower-case letters, digits and hyphens");
        }
        self.manifest.name = name;
        Ok(())
    }

    fn read_author(&mut self, node: &JsonNode) -> Result<(), PluginError> {
        if !matches!(node.json, JsonValue::Object(_)) {
            return Err(self.error(node, "`author` should be an object with `name`, and `email` or `url`"));
        }
        for member in node.members() {
            let text = self.text(&format!("author.{}", member.key), &member.value)?;
            if member.key == "name" {
                self.manifest.author = Some(text);
            }
        }
        Ok(())
    }

    fn text(&self, key: &str, node: &JsonNode) -> Result<String, PluginError> {
        node.as_str().map(str::to_owned).ok_or_else(|| self.error(node, format!("`{key}` should be a text")))
    }

    fn texts<'n>(&self, key: &str, node: &'n JsonNode) -> Result<Vec<&'n str>, PluginError> {
        let wrong = || self.error(node, format!("`{key}` should be a list of texts"));
        if !matches!(node.json, JsonValue::Array(_)) {
            return Err(wrong());
        }
        node.elements().iter().map(|element| element.as_str().ok_or_else(wrong)).collect()
    }

    /// Reads the paths of a part, which take the place of its folder; those of skills are added to it.
    fn read_paths(&mut self, key: &str, node: &JsonNode) -> Result<(), PluginError> {
        let Some(component) = PluginComponent::ALL.into_iter().find(|component| component.key() == key) else {
            return Ok(());
        };
        let elements = match &node.json {
            JsonValue::String(_) => std::slice::from_ref(node),
            JsonValue::Array(elements) => elements.as_slice(),
            _ => return Err(self.error(node, format!("`{key}` should be a path or a list of paths"))),
        };
        for element in elements {
            let Some(text) = element.as_str() else {
                return Err(self.error(element, format!("`{key}` should be a path or a list of paths")));
            };
            let is_root = component == PluginComponent::Skills && text == ".";
            let path = if is_root { Ok(self.root.to_owned()) } else { self.resolve_path(text) };
            match path.map_err(|why| self.error(element, format!("`{key}`: {why}")))? {
                path if path.exists() => self.add_path(component, path),
                _ => self.report(ProblemSeverity::Warning, element, key, format!("there is no `{text}`")),
            }
        }
        Ok(())
    }

    /// Resolves a path of the manifest.
    fn resolve_path(&self, text: &str) -> Result<PathBuf, String> {
        let Some(below) = text.strip_prefix("./") else {
            return Err(format!("the path `{text}` should begin with `./`"));
        };
        let below = Path::new(below);
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        if !below.components().all(is_plain) {
            return Err(format!("the path `{text}` leads out of the plugin"));
        }
        let path = self.root.join(below);
        match path.canonicalize() {
            Ok(real) if real.starts_with(self.root) => Ok(real),
            Ok(real) => Err(format!("the path `{text}` leads out of the plugin, to {}", real.display())),
            Err(_) => Ok(path),
        }
    }

    fn add_path(&mut self, component: PluginComponent, path: PathBuf) {
        if !self.manifest.paths.contains(&(component, path.clone())) {
            self.manifest.paths.push((component, path));
        }
    }

    /// Reads where hooks or servers are defined: in files, or here.
    fn sources(&mut self, key: &str, node: &JsonNode) -> Result<Vec<ComponentSource>, PluginError> {
        let elements = match &node.json {
            JsonValue::String(_) | JsonValue::Object(_) => std::slice::from_ref(node),
            JsonValue::Array(elements) => elements.as_slice(),
            _ => return Err(self.error(node, format!("`{key}` should be a path, a list of paths, or an object"))),
        };
        let mut sources = Vec::new();
        for element in elements {
            match &element.json {
                JsonValue::Object(_) => sources.push(ComponentSource::Inline(element.clone())),
                JsonValue::String(text) => {
                    let path = self.resolve_path(text).map_err(|why| self.error(element, format!("`{key}`: {why}")))?;
                    if path.is_file() {
                        sources.push(ComponentSource::File(path));
                    } else {
                        self.report(ProblemSeverity::Warning, element, key, format!("there is no file `{text}`"));
                    }
                }
                _ => {
                    return Err(self.error(element, format!("`{key}` should be a path, a list of paths, or an object")));
                }
            }
        }
        Ok(sources)
    }

    fn read_options(&mut self, node: &JsonNode) -> Result<(), PluginError> {
        if !matches!(node.json, JsonValue::Object(_)) {
            return Err(self.error(node, "`userConfig` should be an object"));
        }
        for member in node.members() {
            let option = PluginOption::parse(&member.key, &member.value);
            let option =
                option.map_err(|why| self.error(&member.value, format!("`userConfig.{}`: {why}", member.key)))?;
            self.manifest.options.push(option);
        }
        Ok(())
    }

    fn read_unsupported(&mut self, key: &str, node: &JsonNode) -> Result<(), PluginError> {
        let (name, fits): (_, fn(&JsonValue) -> bool) = match key {
            "lspServers" => ("language servers", |value| {
                matches!(value, JsonValue::String(_) | JsonValue::Array(_) | JsonValue::Object(_))
            }),
            "workflows" => ("workflows", |value| matches!(value, JsonValue::String(_) | JsonValue::Array(_))),
            "channels" => ("channels", |value| matches!(value, JsonValue::Array(_))),
            _ => ("dependencies", |value| matches!(value, JsonValue::Array(_))),
        };
        if !fits(&node.json) {
            return Err(self.error(node, format!("`{key}` has the wrong type")));
        }
        self.manifest.unsupported.push(name);
        Ok(())
    }

    fn note_experimental(&mut self, node: &JsonNode) {
        for (key, name) in [("themes", "themes"), ("monitors", "monitors")] {
            if node.get(key).is_some() {
                self.manifest.unsupported.push(name);
            }
        }
    }

    /// Adds the parts that have their usual place.
    fn add_default_parts(&mut self) -> Result<(), PluginError> {
        for component in PluginComponent::ALL {
            let is_given = self.file.is_some_and(|file| file.root.get(component.key()).is_some());
            if is_given && component != PluginComponent::Skills {
                continue;
            }
            let folder = self.root.join(component.default_folder());
            if let Some(real) = self.find_inside(&folder)? {
                self.add_path(component, real);
            }
        }
        let mut hooks: Vec<ComponentSource> = Vec::new();
        hooks.extend(self.find_inside(&self.root.join("hooks/hooks.json"))?.map(ComponentSource::File));
        let is_default = |source: &ComponentSource| match (source, hooks.first()) {
            (ComponentSource::File(path), Some(ComponentSource::File(known))) => path == known,
            _ => false,
        };
        self.manifest.hooks.retain(|source| !is_default(source));
        self.manifest.hooks.splice(0..0, hooks);
        let servers = self.find_inside(&self.root.join(".mcp.json"))?;
        let is_default = |source: &ComponentSource| match source {
            ComponentSource::File(path) => Some(path) == servers.as_ref(),
            ComponentSource::Inline(_) => false,
        };
        self.manifest.servers.retain(|source| !is_default(source));
        self.manifest.servers.splice(0..0, servers.clone().map(ComponentSource::File));
        let others = [
            (".lsp.json", "language servers"),
            ("workflows", "workflows"),
            ("themes", "themes"),
            ("monitors", "monitors"),
        ];
        for (path, name) in others {
            if self.root.join(path).exists() && !self.manifest.unsupported.contains(&name) {
                self.manifest.unsupported.push(name);
            }
        }
        Ok(())
    }

    /// Returns a part in its usual place without symlinks; `None` if it is not there.
    fn find_inside(&self, path: &Path) -> Result<Option<PathBuf>, PluginError> {
        match path.canonicalize() {
            Ok(real) if real.starts_with(self.root) => Ok(Some(real)),
            Ok(real) => {
                let why = format!("it leads out of the plugin, to {}", real.display());
                Err(PluginError::new("path-outside-plugin", path, why))
            }
            Err(_) => Ok(None),
        }
    }
}

/// Returns the value of a manifest's option in settings.
pub(super) fn configured_options(configs: Option<&Value>) -> Option<&serde_json::Map<String, Value>> {
    configs?.get("options")?.as_object()
}
