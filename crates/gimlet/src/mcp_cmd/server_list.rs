//! Lists of servers, with how each stands.

use std::process::ExitCode;

use gimlet_app::start::{CataloguedServer, ServerCatalogue, check_servers};
use gimlet_app::{LaunchRequest, ProcessEnv};
use gimlet_config::McpServerState;
use gimlet_proto::{ServerStatus, ServerView};
use serde_json::{Value, json};

use super::{read_catalogue, unknown_server};
use crate::report::Report;

pub(super) async fn list(json: bool, around: &ProcessEnv) -> Result<ExitCode, Report> {
    let catalogue = read_catalogue(around)?;
    if catalogue.servers.is_empty() && !json {
        catalogue.problems.iter().for_each(|problem| crate::print_line(&gimlet_serve::sanitise(problem)));
        crate::print_line("No MCP servers are configured. Add one with: gimlet mcp add");
        return Ok(ExitCode::SUCCESS);
    }
    let views = check_servers(&LaunchRequest::default(), around, None).await?;
    let page = match json {
        true => {
            let servers: Vec<Value> = catalogue.servers.iter().map(|server| to_json(server, &views)).collect();
            json!({"servers": servers, "problems": catalogue.problems}).to_string()
        }
        false => render_list(&catalogue, &views),
    };
    crate::print_line(&gimlet_serve::sanitise(&page));
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn show(name: &str, json: bool, around: &ProcessEnv) -> Result<ExitCode, Report> {
    let catalogue = read_catalogue(around)?;
    let found: Vec<&CataloguedServer> = catalogue.servers.iter().filter(|server| server.entry.name == name).collect();
    if found.is_empty() {
        return Err(unknown_server(name, &catalogue));
    }
    let views = check_servers(&LaunchRequest::default(), around, Some(name)).await?;
    let page = match json {
        true => json!({"servers": found.iter().map(|server| to_json(server, &views)).collect::<Vec<_>>()}).to_string(),
        false => found.iter().map(|server| render_server(server, &views)).collect::<Vec<_>>().join("\n\n"),
    };
    crate::print_line(&gimlet_serve::sanitise(&page));
    Ok(ExitCode::SUCCESS)
}

fn render_list(catalogue: &ServerCatalogue, views: &[ServerView]) -> String {
    let mut lines: Vec<String> = catalogue
        .servers
        .iter()
        .map(|server| {
            format!("{}: {} - {}", server.entry.name, place(&server.entry.value), describe_state(server, views))
        })
        .collect();
    lines.extend(catalogue.problems.iter().cloned());
    lines.join("\n")
}

/// Returns the state of a server in the words that users see.
fn describe_state(server: &CataloguedServer, views: &[ServerView]) -> String {
    let view = views.iter().find(|view| view.name == server.entry.name);
    match (&server.entry.state, &server.config) {
        (McpServerState::Untrusted, _) => "⏸ Waits for trust (gimlet trust)".to_owned(),
        (McpServerState::NotApproved, _) => "⏸ Not in enabledMcpjsonServers".to_owned(),
        (McpServerState::Rejected, _) => {
            "✗ Rejected by disabledMcpjsonServers (gimlet mcp reset-project-choices)".to_owned()
        }
        (McpServerState::Disabled, _) => "⏸ Turned off for this project".to_owned(),
        (McpServerState::Shadowed(scope), _) => format!("⏸ The one of scope {} is used", scope.as_str()),
        (McpServerState::Used, Err(why)) => format!("✗ Not usable: {why}"),
        (McpServerState::Used, Ok(_)) => match view.map(|view| (view.status, view.error.as_deref())) {
            Some((ServerStatus::Connected, _)) => "✓ Connected".to_owned(),
            Some((ServerStatus::NeedsAuth, _)) => "! Needs authentication".to_owned(),
            Some((_, Some(why))) => format!("✗ Failed to connect: {why}"),
            Some((_, None)) | None => "✗ Failed to connect".to_owned(),
        },
    }
}

fn state_word(server: &CataloguedServer, views: &[ServerView]) -> &'static str {
    let view = views.iter().find(|view| view.name == server.entry.name);
    match (&server.entry.state, &server.config) {
        (McpServerState::Untrusted, _) => "untrusted",
        (McpServerState::NotApproved, _) => "not-approved",
        (McpServerState::Rejected, _) => "rejected",
        (McpServerState::Disabled, _) => "disabled",
        (McpServerState::Shadowed(_), _) => "shadowed",
        (McpServerState::Used, Err(_)) => "invalid",
        (McpServerState::Used, Ok(_)) => view.map_or("failed", |view| view.status.as_str()),
    }
}

/// Returns the program or the address of an entry as it is written, without what may be secret in an address.
fn place(entry: &Value) -> String {
    if let Some(url) = entry["url"].as_str() {
        let kind = entry["type"].as_str().unwrap_or("http").to_uppercase();
        return format!("{} ({kind})", plain_url(url));
    }
    let words = entry["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    entry["command"].as_str().into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

fn plain_url(url: &str) -> String {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let shown = &url[..end];
    match shown.split_once("://") {
        Some((scheme, rest)) => {
            let host_end = rest.find('/').unwrap_or(rest.len());
            let host = rest[..host_end].rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}{}", &rest[host_end..])
        }
        None => shown.to_owned(),
    }
}

fn member_names<'a>(entry: &'a Value, key: &str) -> Vec<&'a str> {
    entry[key].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

fn render_server(server: &CataloguedServer, views: &[ServerView]) -> String {
    let entry = &server.entry;
    let scope = match entry.scope.as_str() {
        "local" => "Local config (private to you in this project)",
        "project" => "Project config (shared via .mcp.json)",
        "user" => "User config (available in all your projects)",
        _ => "Managed config",
    };
    let mut lines = vec![format!("{}:", entry.name), format!("  Scope: {scope}")];
    lines.push(format!("  Status: {}", describe_state(server, views)));
    lines.push(format!(
        "  Type: {}",
        entry.value["type"].as_str().unwrap_or(if entry.value["url"].is_string() { "http" } else { "stdio" })
    ));
    lines.push(format!(
        "  {}: {}",
        if entry.value["url"].is_string() { "URL" } else { "Command" },
        place(&entry.value)
    ));
    for (label, key) in [("Environment", "env"), ("Headers", "headers")] {
        let names = member_names(&entry.value, key);
        if !names.is_empty() {
            lines.push(format!("  {label}: {} (values are not shown)", names.join(", ")));
        }
    }
    let view = views.iter().find(|view| view.name == entry.name && entry.state == McpServerState::Used);
    if let Some(view) = view.filter(|view| view.status == ServerStatus::Connected) {
        let names: Vec<&str> = view.tools.iter().map(|tool| tool.name.as_str()).collect();
        lines.push(format!("  Tools ({}): {}", names.len(), names.join(", ")));
    }
    lines.push(format!("  File: {}", entry.file.display()));
    if entry.scope.as_str() != "managed" {
        lines.push(String::new());
        let (name, scope) = (&entry.name, entry.scope.as_str());
        lines.push(format!("To remove this server, run: gimlet mcp remove \"{name}\" -s {scope}"));
    }
    lines.join("\n")
}

fn to_json(server: &CataloguedServer, views: &[ServerView]) -> Value {
    let entry = &server.entry;
    let view = views.iter().find(|view| view.name == entry.name && entry.state == McpServerState::Used);
    let mut told = json!({
        "name": entry.name, "scope": entry.scope.as_str(), "file": entry.file, "place": place(&entry.value),
        "state": state_word(server, views), "env": member_names(&entry.value, "env"),
        "headers": member_names(&entry.value, "headers"),
    });
    if let Err(why) = &server.config {
        told["error"] = json!(why);
    }
    if let Some(view) = view {
        told["tools"] = json!(view.tools.iter().map(|tool| &tool.name).collect::<Vec<_>>());
        if let Some(why) = &view.error {
            told["error"] = json!(why);
        }
    }
    told
}
