//! Lists of plugins: those that are used with what they bring, those that are not, and why.

use std::process::ExitCode;

use gimlet_app::start::{CataloguedPlugin, PluginCatalogue};
use gimlet_app::{LaunchRequest, ProcessEnv};
use gimlet_config::UnusedPlugin;
use gimlet_core::commands::text_table;
use serde_json::{Value, json};

use crate::report::Report;

pub(super) fn list(as_json: bool, around: &ProcessEnv) -> Result<ExitCode, Report> {
    let request = LaunchRequest::default();
    let page = match as_json {
        true => render_json(&PluginCatalogue::read(&request, around)?).to_string(),
        false => describe_plugins(&request, around)?,
    };
    crate::print_line(&gimlet_serve::sanitise(&page));
    Ok(ExitCode::SUCCESS)
}

/// Lists the plugins as people read it.
pub(crate) fn describe_plugins(request: &LaunchRequest, around: &ProcessEnv) -> Result<String, Report> {
    let catalogue = PluginCatalogue::read(request, around)?;
    let mut rows: Vec<Vec<String>> = catalogue.plugins.iter().map(used_row).collect();
    rows.extend(catalogue.set.unused.iter().map(unused_row));
    let mut lines = Vec::new();
    if !rows.is_empty() {
        lines.push(text_table(&rows, false));
    }
    for found in &catalogue.plugins {
        let manifest = &found.plugin.manifest;
        lines.push(format!("\n{}: {}", found.plugin.id, found.describe_parts()));
        lines.extend(manifest.description.clone().map(|text| format!("  {text}")));
        if !manifest.unsupported.is_empty() {
            lines.push(format!("  not used by this version of gimlet: {}", manifest.unsupported.join(", ")));
        }
    }
    if !catalogue.set.errors.is_empty() || !catalogue.set.problems.is_empty() {
        lines.push(String::new());
    }
    lines.extend(catalogue.set.errors.iter().map(ToString::to_string));
    lines.extend(catalogue.set.problems.iter().map(ToString::to_string));
    if lines.is_empty() {
        lines.push("There are no plugins. Use one with --plugin-dir".to_owned());
    }
    Ok(lines.join("\n"))
}

fn used_row(found: &CataloguedPlugin) -> Vec<String> {
    let plugin = &found.plugin;
    vec![
        plugin.id.to_string(),
        plugin.manifest.version.clone().unwrap_or_default(),
        "used".to_owned(),
        plugin.origin.label().to_owned(),
        plugin.root.display().to_string(),
    ]
}

fn unused_row(plugin: &UnusedPlugin) -> Vec<String> {
    let root = plugin.root.as_ref().map(|root| root.display().to_string()).unwrap_or_default();
    let reason = plugin.reason.describe().to_owned();
    vec![plugin.id.to_string(), String::new(), reason, plugin.origin.label().to_owned(), root]
}

fn render_json(catalogue: &PluginCatalogue) -> Value {
    let used = |found: &CataloguedPlugin| {
        let plugin = &found.plugin;
        json!({
            "id": plugin.id, "name": plugin.name(), "version": plugin.manifest.version,
            "description": plugin.manifest.description, "path": plugin.root, "origin": plugin.origin,
            "agents": found.agents, "skills": found.skills, "outputStyles": found.styles,
            "hooks": found.hooks.iter().map(|(event, count)| json!({"event": event, "count": count})).collect::<Vec<_>>(),
            "mcpServers": found.servers, "unsupported": plugin.manifest.unsupported,
        })
    };
    json!({
        "plugins": catalogue.plugins.iter().map(used).collect::<Vec<_>>(),
        "unused": catalogue.set.unused,
        "errors": catalogue.set.errors,
        "problems": catalogue.set.problems,
    })
}
