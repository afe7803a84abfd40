//! Adding a server to a file.

use std::process::ExitCode;

use gimlet_app::ProcessEnv;
use gimlet_app::start::trust_added_server;
use gimlet_config::{McpConfigFile, McpServerScope, edit_mcp_servers};
use gimlet_mcp::{EntryContext, parse_server_entries};
use serde_json::{Map, Value, json};

use super::{read_catalogue, refuse_in_session, scope_of};
use crate::args::{McpAddArgs, McpAddJsonArgs, McpScopeFlag, McpTransportFlag};
use crate::report::Report;

pub(super) fn add(args: &McpAddArgs, around: &ProcessEnv) -> Result<ExitCode, Report> {
    let AddedServer { name, entry, note } = AddedServer::from_args(args)?;
    write_server(&name, &entry, args.scope, around)?;
    note.iter().for_each(|note| crate::print_line(note));
    Ok(ExitCode::SUCCESS)
}

pub(super) fn add_json(args: &McpAddJsonArgs, around: &ProcessEnv) -> Result<ExitCode, Report> {
    let entry: Value = serde_json::from_str(&args.json)
        .map_err(|error| Report::new(format!("the entry is not JSON: {error}")).with_hint("Put it in single quotes"))?;
    write_server(&args.name, &entry, args.scope, around)?;
    Ok(ExitCode::SUCCESS)
}

/// A server as the arguments describe it.
#[derive(Debug, PartialEq)]
struct AddedServer {
    name: String,
    entry: Value,
    note: Option<String>,
}

impl AddedServer {
    fn from_args(args: &McpAddArgs) -> Result<Self, Report> {
        // A list takes the words behind it; those that cannot be part of it are the server's own.
        let (env, after_env) = split_list(&args.env, is_assignment);
        let (headers, after_headers) = split_list(&args.header, is_header);
        let mut words: Vec<String> = after_env.iter().chain(after_headers).chain(&args.words).cloned().collect();
        if words.len() < 2 {
            return Err(Report::new("a server needs a name, and a program or an address").with_hint(
                "Write: gimlet mcp add NAME -- PROGRAM ARGS…, or gimlet mcp add --transport http NAME URL",
            ));
        }
        let name = words.remove(0);
        let target = words.remove(0);
        let is_address = target.starts_with("http://") || target.starts_with("https://");
        let (transport, note) = match args.transport {
            Some(transport) => (transport, None),
            None if is_address && words.is_empty() => {
                (McpTransportFlag::Http, Some("Taken for transport http, since it is an address.".to_owned()))
            }
            None => (McpTransportFlag::Stdio, None),
        };
        let mut entry = Map::new();
        match transport {
            McpTransportFlag::Stdio => {
                if let Some(header) = headers.first() {
                    return Err(Report::new(format!("a program takes no header ({header})"))
                        .with_hint("Add --transport http, or use -e for variables"));
                }
                entry.insert("type".to_owned(), json!("stdio"));
                entry.insert("command".to_owned(), json!(target));
                entry.insert("args".to_owned(), json!(words));
                let variables = env.iter().filter_map(|pair| pair.split_once('='));
                let variables: Map<String, Value> =
                    variables.map(|(name, value)| (name.to_owned(), json!(value))).collect();
                entry.insert("env".to_owned(), Value::Object(variables));
            }
            McpTransportFlag::Http | McpTransportFlag::Sse => {
                if !is_address || !words.is_empty() {
                    return Err(Report::new(format!("'{target}' is no address of a server"))
                        .with_hint("Give one that begins with https://, and nothing behind it"));
                }
                let kind = if transport == McpTransportFlag::Http { "http" } else { "sse" };
                entry.insert("type".to_owned(), json!(kind));
                entry.insert("url".to_owned(), json!(target));
                if !headers.is_empty() {
                    let headers = headers.iter().filter_map(|header| header.split_once(':'));
                    let headers: Map<String, Value> =
                        headers.map(|(name, value)| (name.trim().to_owned(), json!(value.trim()))).collect();
                    entry.insert("headers".to_owned(), Value::Object(headers));
                }
            }
        }
        Ok(Self { name, entry: Value::Object(entry), note })
    }
}

/// Splits the values of a list flag from the words that follow them.
fn split_list(values: &[String], belongs: fn(&str) -> bool) -> (&[String], &[String]) {
    let count = values.iter().take_while(|value| belongs(value)).count();
    values.split_at(count)
}

/// Returns true for `NAME=VALUE`.
fn is_assignment(text: &str) -> bool {
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    text.split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// Returns true for `Name: value`, and not for an address.
fn is_header(text: &str) -> bool {
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    text.split_once(':').is_some_and(|(name, value)| is_name(name.trim()) && !value.starts_with("//"))
}

fn write_server(name: &str, entry: &Value, scope: McpScopeFlag, around: &ProcessEnv) -> Result<(), Report> {
    refuse_in_session()?;
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_');
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err(Report::new(format!("'{name}' is no name for a server")).with_hint("Use letters, digits, - and _"));
    }
    let mut alone = Map::new();
    alone.insert(name.to_owned(), entry.clone());
    let parsed = parse_server_entries(&alone, &EntryContext::default());
    if let Some(problem) = parsed.errors.first() {
        return Err(Report::new(problem.to_string()));
    }
    if read_catalogue(around)?.is_managed {
        return Err(Report::new("servers cannot be added here: managed-mcp.json names all of them")
            .with_hint("Ask whoever manages this machine"));
    }
    let locations = gimlet_app::settings_mapping::find_locations(around);
    let scope = scope_of(scope);
    let Some(file) = McpConfigFile::for_scope(&locations, scope) else {
        return Err(Report::new("this scope cannot be written"));
    };
    edit_mcp_servers(&locations, &file, name, Some(entry)).map_err(|error| Report::new(error.to_string()))?;
    let what = match (&entry["url"], entry["type"].as_str()) {
        (Value::String(url), kind) => {
            format!("{} MCP server {name} with URL: {url}", kind.unwrap_or("HTTP").to_uppercase())
        }
        (_, kind) => {
            let words = entry["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let line: Vec<&str> = entry["command"].as_str().into_iter().chain(words).collect();
            format!("{} MCP server {name} with command: {}", kind.unwrap_or("stdio"), line.join(" "))
        }
    };
    crate::print_line(&gimlet_serve::sanitise(&format!("Added {what} to {} config", scope.as_str())));
    crate::print_line(&format!("File modified: {}", file.path.display()));
    if scope == McpServerScope::Project {
        // Whoever typed it trusts it; that of others waits.
        let is_trusted = trust_added_server(around, &file.path, name)?;
        if !is_trusted {
            crate::print_line("It starts once it is trusted: gimlet trust");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{CliArgs, CliCommand, McpCommand};

    fn added(line: &[&str]) -> Result<AddedServer, String> {
        let args = ["gimlet", "mcp", "add"].into_iter().chain(line.iter().copied());
        let parsed = CliArgs::try_parse_from(args).map_err(|error| error.to_string())?;
        let Some(CliCommand::Mcp { command: McpCommand::Add(args) }) = parsed.command else { panic!("{line:?}") };
        AddedServer::from_args(&args).map_err(|report| report.text())
    }

    #[test]
    fn the_usual_spellings_are_understood() {
        let stdio = |command: &str, args: &[&str], env: Value| json!({"type": "stdio", "command": command, "args": args, "env": env});
        for (line, name, entry) in [
            (&["s", "--", "npx", "-y", "pkg"][..], "s", stdio("npx", &["-y", "pkg"], json!({}))),
            (&["-e", "A=1", "s", "--", "./x"], "s", stdio("./x", &[], json!({"A": "1"}))),
            (
                &["-e", "A=1", "-e", "B=x=y", "--scope", "user", "s", "--", "./x"],
                "s",
                stdio("./x", &[], json!({"A": "1", "B": "x=y"})),
            ),
            (&["s", "-e", "A=1", "--", "./x", "--flag"], "s", stdio("./x", &["--flag"], json!({"A": "1"}))),
            (&["--transport", "stdio", "s", "server"], "s", stdio("server", &[], json!({}))),
            (&["-t", "http", "web", "https://a.test/mcp"], "web", json!({"type": "http", "url": "https://a.test/mcp"})),
            (
                &["--transport", "sse", "web", "https://a.test/sse", "-H", "X-Team: core"],
                "web",
                json!({"type": "sse", "url": "https://a.test/sse", "headers": {"X-Team": "core"}}),
            ),
            (
                &["-t", "http", "-H", "Authorization: Bearer x", "web", "https://a.test"],
                "web",
                json!({"type": "http", "url": "https://a.test", "headers": {"Authorization": "Bearer x"}}),
            ),
            (&["--scope", "user", "web", "https://a.test"], "web", json!({"type": "http", "url": "https://a.test"})),
        ] {
            let found = added(line).unwrap();
            assert_eq!((found.name.as_str(), &found.entry), (name, &entry), "{line:?}");
        }
    }

    #[test]
    fn what_is_missing_or_does_not_fit_is_told() {
        for (line, words) in [
            (&["s"][..], "needs a name, and a program"),
            (&["-e", "A=1", "s"], "needs a name"),
            (&["-t", "http", "s", "server"], "no address"),
            (&["-H", "X: y", "s", "--", "./x"], "takes no header"),
        ] {
            assert!(added(line).unwrap_err().contains(words), "{line:?}");
        }
    }
}
