//! `gimlet mcp`: adds, removes and shows tool servers. Files are changed in place, with everything else in them kept.

mod add_server;
mod server_list;

use std::process::ExitCode;

use gimlet_app::start::{ServerCatalogue, forget_project_choices};
use gimlet_app::{LaunchRequest, ProcessEnv};
use gimlet_config::{McpConfigFile, McpServerEntry, McpServerScope, edit_mcp_servers};

use crate::args::{McpCommand, McpScopeFlag};
use crate::report::Report;

pub(crate) async fn run(command: McpCommand, around: ProcessEnv) -> Result<ExitCode, Report> {
    match command {
        McpCommand::Add(args) => add_server::add(&args, &around),
        McpCommand::AddJson(args) => add_server::add_json(&args, &around),
        McpCommand::List { json } => server_list::list(json, &around).await,
        McpCommand::Get { name, json } => server_list::show(&name, json, &around).await,
        McpCommand::Remove { name, scope } => remove(&name, scope, &around),
        McpCommand::ResetProjectChoices => reset_choices(&around),
    }
}

/// Returns an error if a command of a session runs this: a server that the model adds would run in the next session.
fn refuse_in_session() -> Result<(), Report> {
    if gimlet_exec::is_started_by_session() {
        return Err(Report::new("MCP servers are not changed by a command of a session")
            .with_hint("Run this in a terminal of your own"));
    }
    Ok(())
}

fn read_catalogue(around: &ProcessEnv) -> Result<ServerCatalogue, Report> {
    Ok(ServerCatalogue::read(&LaunchRequest::default(), around)?)
}

fn scope_of(flag: McpScopeFlag) -> McpServerScope {
    match flag {
        McpScopeFlag::Local => McpServerScope::Local,
        McpScopeFlag::Project => McpServerScope::Project,
        McpScopeFlag::User => McpServerScope::User,
    }
}

fn remove(name: &str, scope: Option<McpScopeFlag>, around: &ProcessEnv) -> Result<ExitCode, Report> {
    refuse_in_session()?;
    let catalogue = read_catalogue(around)?;
    let is_meant =
        |entry: &&McpServerEntry| entry.name == name && scope.is_none_or(|scope| scope_of(scope) == entry.scope);
    let found: Vec<&McpServerEntry> = catalogue.servers.iter().map(|server| &server.entry).filter(is_meant).collect();
    let entry = match found.as_slice() {
        [] => return Err(unknown_server(name, &catalogue)),
        [entry] => *entry,
        several => {
            let scopes: Vec<&str> = several.iter().map(|entry| entry.scope.as_str()).collect();
            return Err(Report::new(format!("several scopes have a server '{name}': {}", scopes.join(", ")))
                .with_hint(format!("Name one: gimlet mcp remove {name} -s {}", scopes[0])));
        }
    };
    let locations = gimlet_app::settings_mapping::find_locations(around);
    let Some(file) = McpConfigFile::for_entry(&locations, entry) else {
        return Err(Report::new(format!("the server '{name}' is managed and cannot be removed here")));
    };
    edit_mcp_servers(&locations, &file, name, None).map_err(|error| Report::new(error.to_string()))?;
    let file = file.path.display();
    crate::print_line(&format!(
        "Removed MCP server {name} from {} config\nFile modified: {file}",
        entry.scope.as_str()
    ));
    Ok(ExitCode::SUCCESS)
}

fn reset_choices(around: &ProcessEnv) -> Result<ExitCode, Report> {
    refuse_in_session()?;
    forget_project_choices(around)?;
    crate::print_line(
        "The choices about servers of .mcp.json in this project are forgotten. 'gimlet trust' shows what waits for trust.",
    );
    Ok(ExitCode::SUCCESS)
}

fn unknown_server(name: &str, catalogue: &ServerCatalogue) -> Report {
    let known: Vec<&str> = catalogue.servers.iter().map(|server| server.entry.name.as_str()).collect();
    let report = Report::new(format!("there is no MCP server named '{name}'"));
    match known.is_empty() {
        true => report.with_hint("Add one with: gimlet mcp add"),
        false => report.with_hint(format!("There are: {}", known.join(", "))),
    }
}
