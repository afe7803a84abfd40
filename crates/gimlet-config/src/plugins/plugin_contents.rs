//! What a plugin brings beside documents: hooks, tool servers, and the agent of the main conversation.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::plugin_json::PluginJson;
use super::plugin_manifest::{ComponentSource, PluginManifest};
use super::{PluginError, PluginOptionValue, fill_variables};
use crate::effective_settings::HookLine;
use crate::json::{JsonNode, JsonValue};
use crate::merge::SettingOrigin;
use crate::problem::{ProblemSeverity, SettingsProblem};
use crate::scope::Scope;
use crate::settings::HookGroup;

/// Kind of the errors of files that the manifest leads to.
const INVALID: &str = "component-validation-error";

/// Tool server of a plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginServer {
    /// Name without that of the plugin.
    pub name: String,
    /// Definition as it is written.
    pub value: Value,
    pub file: PathBuf,
    pub line: usize,
}

/// Hooks, servers and settings of a plugin.
#[derive(Clone, Debug, Default)]
pub struct PluginContents {
    pub hooks: Vec<HookLine>,
    pub servers: Vec<PluginServer>,
    /// Name of the agent that it wants the main conversation to run as.
    pub agent: Option<String>,
}

/// Reader of the files of one plugin.
pub(super) struct ContentsReader<'a> {
    root: &'a Path,
    /// The manifest's file, for parts that are defined in it.
    manifest_file: Option<&'a PluginJson>,
    options: &'a [PluginOptionValue],
    scope: Scope,
    contents: PluginContents,
    problems: Vec<SettingsProblem>,
}

impl<'a> ContentsReader<'a> {
    pub(super) fn new(
        root: &'a Path,
        manifest_file: Option<&'a PluginJson>,
        options: &'a [PluginOptionValue],
        scope: Scope,
    ) -> Self {
        let contents = PluginContents::default();
        Self { root, manifest_file, options, scope, contents, problems: Vec::new() }
    }

    /// Reads everything. A file that is no JSON, or has the wrong form, keeps the plugin from being used: what it would
    /// guard would be open. Single hooks and servers that cannot be read are left out.
    pub(super) fn read(
        mut self,
        manifest: &PluginManifest,
    ) -> Result<(PluginContents, Vec<SettingsProblem>), PluginError> {
        for source in &manifest.hooks {
            self.with_source(source, Self::add_hooks)?;
        }
        for source in &manifest.servers {
            self.with_source(source, Self::add_servers)?;
        }
        self.read_settings();
        Ok((self.contents, self.problems))
    }

    fn with_source(
        &mut self,
        source: &ComponentSource,
        add: impl FnOnce(&mut Self, &PluginJson, &JsonNode) -> Result<(), PluginError>,
    ) -> Result<(), PluginError> {
        match source {
            ComponentSource::File(path) => match PluginJson::read(self.root, path, "component-parse-error")? {
                Some(file) => add(self, &file, &file.root),
                None => Ok(()),
            },
            ComponentSource::Inline(node) => match self.manifest_file {
                Some(file) => add(self, file, node),
                None => Ok(()),
            },
        }
    }

    fn report(&mut self, file: &PluginJson, line: usize, key: &str, message: String) {
        let (path, key) = (file.path.clone(), key.to_owned());
        let severity = ProblemSeverity::Warning;
        self.problems.push(SettingsProblem { severity, file: path, line: Some(line), column: None, key, message });
    }

    /// Adds the hooks of a file, or of the manifest, where `hooks` may be left out around them.
    fn add_hooks(&mut self, file: &PluginJson, node: &JsonNode) -> Result<(), PluginError> {
        let events = node.get("hooks").unwrap_or(node);
        if !matches!(events.json, JsonValue::Object(_)) {
            let line = file.line_of(events);
            return Err(PluginError::new(INVALID, &file.path, "`hooks` should be an object of events").at_line(line));
        }
        for event in events.members().iter().filter(|member| !matches!(member.key.as_str(), "description" | "$schema"))
        {
            if !matches!(event.value.json, JsonValue::Array(_)) {
                let message = format!("`hooks.{}` should be a list", event.key);
                let line = file.line_at(event.key_span.start);
                return Err(PluginError::new(INVALID, &file.path, message).at_line(line));
            }
            for group in event.value.elements() {
                self.add_hook_group(file, &event.key, group);
            }
        }
        Ok(())
    }

    fn add_hook_group(&mut self, file: &PluginJson, event: &str, node: &JsonNode) {
        let group = match HookGroup::deserialize(node) {
            Ok(group) => group,
            Err(error) => {
                let line = error.span.as_ref().map_or_else(|| file.line_of(node), |span| file.line_at(span.start));
                let key = format!("hooks.{event}");
                return self.report(file, line, &key, format!("these hooks are left out: {}: {error}", error.key()));
            }
        };
        let places = node.get("hooks").map(JsonNode::elements).unwrap_or_default();
        for (mut handler, place) in group.hooks.into_iter().zip(places) {
            let line = file.line_of(place);
            match &mut handler.args {
                Some(args) => {
                    for word in args.iter_mut().chain(&mut handler.command) {
                        *word = self.fill_options(word);
                    }
                }
                None if handler.command.as_deref().is_some_and(|command| command.contains("${user_config.")) => {
                    let why = "this hook is left out: a shell command reads an option as $CLAUDE_PLUGIN_OPTION_<KEY>";
                    self.report(file, line, &format!("hooks.{event}"), why.to_owned());
                    continue;
                }
                None => {}
            }
            let origin = SettingOrigin { scope: self.scope, file: file.path.clone(), line };
            let (event, matcher) = (event.to_owned(), group.matcher.clone());
            self.contents.hooks.push(HookLine { event, matcher, handler, origin });
        }
    }

    fn fill_options(&self, text: &str) -> String {
        fill_variables(text, |name| {
            let key = name.strip_prefix("user_config.")?;
            self.options.iter().find(|option| option.key == key).map(|option| option.value.clone())
        })
    }

    /// Adds the servers of a file, or of the manifest, where `mcpServers` may be left out around them.
    fn add_servers(&mut self, file: &PluginJson, node: &JsonNode) -> Result<(), PluginError> {
        let servers = node.get("mcpServers").unwrap_or(node);
        if !matches!(servers.json, JsonValue::Object(_)) {
            let line = file.line_of(servers);
            return Err(PluginError::new(INVALID, &file.path, "`mcpServers` should be an object").at_line(line));
        }
        for server in servers.members() {
            let line = file.line_at(server.key_span.start);
            if !matches!(server.value.json, JsonValue::Object(_)) {
                self.report(
                    file,
                    line,
                    &format!("mcpServers.{}", server.key),
                    "is no object, and is left out".to_owned(),
                );
                continue;
            }
            self.contents.servers.retain(|known| known.name != server.key);
            self.contents.servers.push(PluginServer {
                name: server.key.clone(),
                value: server.value.to_value(),
                file: file.path.clone(),
                line,
            });
        }
        Ok(())
    }

    /// Reads `settings.json`, of which only the agent counts.
    fn read_settings(&mut self) {
        let path = self.root.join("settings.json");
        match PluginJson::read(self.root, &path, "component-parse-error") {
            Ok(None) => {}
            Ok(Some(file)) => {
                self.contents.agent = file.root.get("agent").and_then(JsonNode::as_str).map(str::to_owned);
                for member in file.root.members() {
                    if !matches!(member.key.as_str(), "agent" | "subagentStatusLine") {
                        let line = file.line_at(member.key_span.start);
                        self.report(&file, line, &member.key, "a plugin cannot set it, and it is ignored".to_owned());
                    }
                }
            }
            Err(error) => self.problems.push(SettingsProblem {
                severity: ProblemSeverity::Warning,
                file: error.path,
                line: error.line,
                column: None,
                key: String::new(),
                message: format!("it is ignored: {}", error.message),
            }),
        }
    }
}
