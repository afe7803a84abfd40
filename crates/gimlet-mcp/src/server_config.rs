//! Server configurations and their parsing.

use std::collections::BTreeMap;
use std::time::Duration;

use gimlet_core::Redactor;
use gimlet_proto::Env;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::tool_policies::ToolPolicies;
use crate::variable_expansion::VariableExpander;

/// Minimum timeout of a call; a shorter one is taken for a mistake.
const SHORTEST_TIMEOUT_MS: u64 = 1_000;
/// Names that stand for services of other programs.
const RESERVED_NAMES: [&str; 5] = ["workspace", "claude-in-chrome", "computer-use", "Claude Preview", "Claude Browser"];

/// Origin of a server's configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerSource {
    /// The driving program itself.
    Driver,
    /// The command line, or a request of the driving program.
    #[default]
    Dynamic,
    /// The user's own entry for this project.
    Local,
    /// A file of the project.
    Project,
    /// The user's own entry for all projects.
    User,
    Managed,
    Plugin,
    Agent,
}

impl ServerSource {
    /// Returns the public word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            ServerSource::Driver => "sdk",
            ServerSource::Dynamic => "dynamic",
            ServerSource::Local => "local",
            ServerSource::Project => "project",
            ServerSource::User => "user",
            ServerSource::Managed => "managed",
            ServerSource::Plugin => "plugin",
            ServerSource::Agent => "agent",
        }
    }

    /// Returns true if others than the user wrote the configuration, so that the server gets no credentials.
    pub(crate) fn is_foreign(self) -> bool {
        matches!(self, ServerSource::Project | ServerSource::Plugin | ServerSource::Agent)
    }
}

/// Origin of entries, and the variables that they may use.
#[derive(Clone, Debug, Default)]
pub struct EntryContext {
    pub source: ServerSource,
    pub variables: VariableExpander,
}

/// Configuration of one server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    pub kind: ServerKind,
    pub source: ServerSource,
    /// Timeout per call.
    pub timeout: Option<Duration>,
    /// True if the first turn waits for the server, and its tools are always in the request.
    pub always_load: bool,
    /// Policies for its single tools.
    pub(crate) policies: ToolPolicies,
    /// The entry as written in the configuration.
    pub raw_entry: Value,
}

/// Location of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// Inside the program that drives gimlet.
    Driver,
    /// A program of its own, on pipes.
    Stdio(StdioServer),
    /// A server that is reached over the network.
    Remote(RemoteServer),
}

/// Program of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StdioServer {
    pub command: String,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
}

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteServer {
    pub transport: RemoteTransport,
    pub url: String,
    pub headers: BTreeMap<String, String>,
    /// Shell command that prints further headers as a JSON object.
    pub headers_helper: Option<String>,
}

/// Protocol by which a remote server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteTransport {
    Http,
    Sse,
}

impl RemoteTransport {
    /// Returns the public word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            RemoteTransport::Http => "http",
            RemoteTransport::Sse => "sse",
        }
    }
}

/// Reason why a document cannot be used at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerConfigError {
    #[error("it is no JSON object")]
    NotAnObject,
    #[error("the key mcpServers is missing")]
    NoServers,
    /// The entry of this name is not a server.
    #[error("the server '{0}' {1}")]
    Entry(String, String),
}

/// Servers of a document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedServers {
    pub servers: Vec<(String, ServerConfig)>,
    /// Entries that cannot be used; the others can.
    pub errors: Vec<ServerConfigError>,
    /// Remarks on entries that are used.
    pub remarks: Vec<String>,
}

impl ParsedServers {
    /// Returns one line for each problem.
    pub fn problem_lines(&self) -> impl Iterator<Item = String> {
        self.errors.iter().map(ToString::to_string).chain(self.remarks.iter().cloned())
    }
}

/// Parses the servers of a document with `mcpServers` at its top.
pub fn parse_servers(document: &str, context: &EntryContext) -> Result<ParsedServers, ServerConfigError> {
    let text = document.trim_start_matches('\u{feff}');
    let document: Map<String, Value> = serde_json::from_str(text).map_err(|_| ServerConfigError::NotAnObject)?;
    match document.get("mcpServers") {
        Some(Value::Object(servers)) => Ok(parse_server_entries(servers, context)),
        Some(_) | None => Err(ServerConfigError::NoServers),
    }
}

/// Parses the servers of a bare object of configurations.
pub(crate) fn parse_server_map(servers: &RawValue, context: &EntryContext) -> Result<ParsedServers, ServerConfigError> {
    let servers: Map<String, Value> =
        serde_json::from_str(servers.get()).map_err(|_| ServerConfigError::NotAnObject)?;
    Ok(parse_server_entries(&servers, context))
}

/// Parses entries by name.
pub fn parse_server_entries(servers: &Map<String, Value>, context: &EntryContext) -> ParsedServers {
    let mut parsed = ParsedServers::default();
    for (name, entry) in servers {
        let mut reader = EntryReader { context, unset: Vec::new(), remarks: Vec::new() };
        match reader.read(name, entry) {
            Ok(config) => {
                let EntryReader { unset, mut remarks, .. } = reader;
                if !unset.is_empty() {
                    remarks.push(format!("uses variables that are not set: {}", unset.join(", ")));
                }
                parsed.remarks.extend(remarks.into_iter().map(|remark| format!("the server '{name}' {remark}")));
                parsed.servers.push((name.clone(), config));
            }
            Err(why) => parsed.errors.push(ServerConfigError::Entry(name.clone(), why)),
        }
    }
    parsed
}

/// Reader of one entry.
struct EntryReader<'a> {
    context: &'a EntryContext,
    /// Variables that are used and not set.
    unset: Vec<String>,
    remarks: Vec<String>,
}

impl EntryReader<'_> {
    fn read(&mut self, name: &str, written: &Value) -> Result<ServerConfig, String> {
        if name.trim().is_empty() {
            return Err("has no name".to_owned());
        }
        if RESERVED_NAMES.contains(&name) {
            return Err("has a name that is reserved; choose another one".to_owned());
        }
        let Value::Object(entry) = written else { return Err("is no object".to_owned()) };
        let kind = match entry.get("type") {
            None if entry.contains_key("url") => {
                self.remarks.push("has a url and no type; it is taken for type http".to_owned());
                "http"
            }
            None => "stdio",
            Some(Value::String(kind)) => kind,
            Some(_) => return Err("has a type that is no text".to_owned()),
        };
        let kind = match kind {
            "sdk" => ServerKind::Driver,
            "stdio" => ServerKind::Stdio(self.read_program(entry)?),
            "http" | "streamable-http" => ServerKind::Remote(self.read_address(RemoteTransport::Http, entry)?),
            "sse" => ServerKind::Remote(self.read_address(RemoteTransport::Sse, entry)?),
            "ws" => {
                return Err("has the type ws, which this version of gimlet does not connect to; use http".to_owned());
            }
            other => {
                return Err(format!("has the type '{other}', which nobody knows; there are stdio, http and sse"));
            }
        };
        let source = if kind == ServerKind::Driver { ServerSource::Driver } else { self.context.source };
        Ok(ServerConfig {
            kind,
            source,
            timeout: parse_timeout(entry),
            always_load: entry.get("alwaysLoad") == Some(&Value::Bool(true)),
            policies: ToolPolicies::from_entry(entry).unwrap_or_default(),
            raw_entry: written.clone(),
        })
    }

    fn read_program(&mut self, entry: &Map<String, Value>) -> Result<StdioServer, String> {
        let command = match entry.get("command") {
            Some(Value::String(command)) if !command.trim().is_empty() => self.expand("command", command),
            Some(Value::String(_)) => return Err("has an empty command".to_owned()),
            Some(_) => return Err("has a command that is no text".to_owned()),
            None => return Err("has neither a command nor a url".to_owned()),
        };
        let args = match entry.get("args") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(args)) => {
                let text = |arg: &Value| arg.as_str().map(|arg| self.expand("args", arg));
                args.iter().map(text).collect::<Option<_>>().ok_or("has args that are not all texts")?
            }
            Some(_) => return Err("has args that are no list".to_owned()),
        };
        Ok(StdioServer { command, args, env: self.read_texts(entry, "env")? })
    }

    fn read_address(&mut self, transport: RemoteTransport, entry: &Map<String, Value>) -> Result<RemoteServer, String> {
        let url = match entry.get("url") {
            Some(Value::String(url)) if !url.trim().is_empty() => self.expand("url", url).trim().to_owned(),
            Some(Value::String(_)) | None => return Err("is not configured: its url is empty".to_owned()),
            Some(_) => return Err("has a url that is no text".to_owned()),
        };
        let headers_helper = entry.get("headersHelper").and_then(Value::as_str).map(str::to_owned);
        Ok(RemoteServer { transport, url, headers: self.read_texts(entry, "headers")?, headers_helper })
    }

    /// Reads an object of texts.
    fn read_texts(&mut self, entry: &Map<String, Value>, key: &str) -> Result<BTreeMap<String, String>, String> {
        let members = match entry.get(key) {
            None | Some(Value::Null) => return Ok(BTreeMap::new()),
            Some(Value::Object(members)) => members,
            Some(_) => return Err(format!("has {key} that is no object")),
        };
        let mut texts = BTreeMap::new();
        for (name, value) in members {
            let value = match value {
                Value::String(value) => self.expand(key, value),
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                _ => return Err(format!("has {key} with a value that is no text: {name}")),
            };
            if name.trim() != name {
                self.remarks.push(format!("has white space around the name '{name}' in {key}"));
            }
            texts.insert(name.clone(), value);
        }
        Ok(texts)
    }

    fn expand(&mut self, key: &str, text: &str) -> String {
        if text.trim() != text {
            self.remarks.push(format!("has white space at the beginning or end of a value in {key}"));
        }
        self.context.variables.expand(text, &mut self.unset)
    }
}

fn parse_timeout(entry: &Map<String, Value>) -> Option<Duration> {
    let ms = entry.get("timeout").and_then(Value::as_u64).filter(|ms| *ms >= SHORTEST_TIMEOUT_MS);
    ms.map(Duration::from_millis)
}

impl ServerConfig {
    /// Registers the credentials in the configuration: values of headers, and of variables with the names of secrets.
    pub(crate) fn register_secrets(&self, redactor: &Redactor) {
        let members = |key: &str| self.raw_entry.get(key).and_then(Value::as_object).into_iter().flatten();
        redactor.add_headers(members("headers").filter_map(|(_, value)| value.as_str()));
        match &self.kind {
            ServerKind::Driver => {}
            ServerKind::Stdio(server) => {
                let variables = server.env.iter().map(|(name, value)| (name.into(), value.into()));
                redactor.add_environment(&Env::new(variables));
            }
            ServerKind::Remote(server) => redactor.add_headers(server.headers.values().map(String::as_str)),
        }
    }

    /// Returns the configuration of a server inside the driving program of which only the name is known.
    pub fn for_driver(name: &str) -> Self {
        let raw_entry = serde_json::json!({"type": "sdk", "name": name});
        Self {
            kind: ServerKind::Driver,
            source: ServerSource::Driver,
            timeout: None,
            always_load: false,
            policies: ToolPolicies::default(),
            raw_entry,
        }
    }

    /// Applies additional configuration; of several policies for one tool the strictest applies.
    pub(crate) fn apply_overrides(&mut self, said: &Value) {
        self.timeout = said.as_object().and_then(parse_timeout).or(self.timeout);
        self.policies.add_override(said);
    }

    /// Inherits the policies of an earlier configuration if this one has none for its tools.
    pub(crate) fn inherit_policies(self, earlier: Option<&ToolPolicies>) -> Self {
        let silent = self.raw_entry.get("tools").is_none_or(Value::is_null);
        match earlier {
            Some(policies) if silent => Self { policies: policies.clone(), ..self },
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(document: &str) -> Result<ParsedServers, ServerConfigError> {
        parse_servers(document, &EntryContext::default())
    }

    #[test]
    fn credentials_of_a_configuration_are_masked() {
        let document = r#"{"mcpServers":{"a":{"type":"http","url":"https://a.test","headers":{"Authorization":"Bearer canary-1-header"}},
            "b":{"command":"c","env":{"A_TOKEN":"canary-2-variable","MODE":"canary-3-mode"}}}}"#;
        let redactor = Redactor::default();
        parse(document).unwrap().servers.iter().for_each(|(_, config)| config.register_secrets(&redactor));
        let text = "canary-1-header canary-2-variable canary-3-mode Bearer canary-1-header";
        assert_eq!(redactor.mask(text), "*** *** canary-3-mode ***");
    }

    #[test]
    fn entries_are_read_with_their_variables() {
        let env = Env::default().with("TEAM", "core");
        let context = EntryContext { variables: VariableExpander::new(env), ..EntryContext::default() };
        let document = r#"{"mcpServers":{"a":{"type":"sdk","name":"x","timeout":5000},
            "b":{"command":"c","args":["--team=${TEAM}","${NO:-x}"],"env":{"A":"${TEAM}","N":7},"alwaysLoad":true},
            "c":{"url":" https://t.test/${TEAM} ","headers":{"X-Team":"${TEAM}"}},
            "d":{"type":"sse","url":"https://t.test/${UNKNOWN}"}}}"#;
        let found = parse_servers(document, &context).unwrap();
        assert_eq!(found.errors, []);
        let kinds: Vec<&ServerKind> = found.servers.iter().map(|(_, config)| &config.kind).collect();
        assert_eq!(*kinds[0], ServerKind::Driver);
        assert_eq!(found.servers[0].1.timeout, Some(Duration::from_secs(5)));
        let ServerKind::Stdio(program) = kinds[1] else { panic!("{kinds:?}") };
        assert_eq!((program.command.as_str(), program.args.join(" ")), ("c", "--team=core x".to_owned()));
        assert_eq!((program.env["A"].as_str(), program.env["N"].as_str()), ("core", "7"));
        assert!(found.servers[1].1.always_load);
        let ServerKind::Remote(remote) = kinds[2] else { panic!("{kinds:?}") };
        assert_eq!((remote.transport, remote.url.as_str()), (RemoteTransport::Http, "https://t.test/core"));
        assert_eq!(remote.headers["X-Team"], "core");
        let remarks = found.remarks.join("\n");
        for words in
            ["'c' has a url and no type", "'c' has white space", "'d' uses variables that are not set: UNKNOWN"]
        {
            assert!(remarks.contains(words), "{words} in {remarks}");
        }
    }

    #[test]
    fn a_bad_entry_is_named_and_the_others_are_read() {
        for document in ["[]", "", "{"] {
            assert_eq!(parse(document), Err(ServerConfigError::NotAnObject), "{document}");
        }
        assert_eq!(parse(r#"{"servers":{}}"#), Err(ServerConfigError::NoServers));
        for (entry, why) in [
            ("1", "is no object"),
            ("{}", "neither a command nor a url"),
            (r#"{"command":""}"#, "empty command"),
            (r#"{"command":"c","args":[1]}"#, "not all texts"),
            (r#"{"command":"c","env":[]}"#, "env that is no object"),
            (r#"{"type":"http"}"#, "not configured"),
            (r#"{"url":""}"#, "not configured"),
            (r#"{"type":"ws","url":"wss://a.test"}"#, "ws"),
            (r#"{"type":"pigeon"}"#, "'pigeon'"),
            (r#"{"type":7}"#, "no text"),
        ] {
            let found = parse(&format!(r#"{{"mcpServers":{{"bad":{entry},"good":{{"command":"c"}}}}}}"#)).unwrap();
            assert_eq!(found.servers.len(), 1, "{entry}");
            let said = found.errors[0].to_string();
            assert!(said.contains("'bad'") && said.contains(why), "{entry}: {said}");
        }
        let reserved = parse(r#"{"mcpServers":{"computer-use":{"command":"c"}}}"#).unwrap();
        assert!(reserved.servers.is_empty() && reserved.errors[0].to_string().contains("reserved"));
    }
}
