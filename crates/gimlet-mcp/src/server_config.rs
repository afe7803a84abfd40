//! Server configurations and their parsing.

use std::time::Duration;

use gimlet_core::Redactor;
use gimlet_proto::Env;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::tool_policies::ToolPolicies;

/// Minimum timeout of a call; a shorter one is taken for a mistake.
const SHORTEST_TIMEOUT_MS: u64 = 1_000;

/// Configuration of one server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    pub kind: ServerKind,
    /// Timeout per call.
    pub timeout: Option<Duration>,
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
    /// A kind that is not supported yet, by its public name.
    Unsupported(String),
}

/// Reason why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerConfigError {
    NotAnObject,
    NoServers,
    /// The entry of this name is not a server.
    Entry(String, &'static str),
}

impl std::fmt::Display for ServerConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ServerConfigError::NotAnObject => f.write_str("it is no JSON object"),
            ServerConfigError::NoServers => f.write_str("the key mcpServers is missing"),
            ServerConfigError::Entry(name, why) => write!(f, "the server '{name}' {why}"),
        }
    }
}

impl std::error::Error for ServerConfigError {}

/// Parses the servers of a document with `mcpServers` at its top.
pub fn parse_servers(document: &str) -> Result<Vec<(String, ServerConfig)>, ServerConfigError> {
    let document: Map<String, Value> = serde_json::from_str(document).map_err(|_| ServerConfigError::NotAnObject)?;
    match document.get("mcpServers") {
        Some(Value::Object(servers)) => parse_entries(servers),
        Some(_) | None => Err(ServerConfigError::NoServers),
    }
}

/// Parses the servers of a bare object of configurations.
pub(crate) fn parse_server_map(servers: &RawValue) -> Result<Vec<(String, ServerConfig)>, ServerConfigError> {
    let servers: Map<String, Value> =
        serde_json::from_str(servers.get()).map_err(|_| ServerConfigError::NotAnObject)?;
    parse_entries(&servers)
}

fn parse_entries(servers: &Map<String, Value>) -> Result<Vec<(String, ServerConfig)>, ServerConfigError> {
    servers.iter().map(|(name, entry)| Ok((name.clone(), parse_server(name, entry)?))).collect()
}

fn parse_server(name: &str, written: &Value) -> Result<ServerConfig, ServerConfigError> {
    let wrong = |why| ServerConfigError::Entry(name.to_owned(), why);
    let Value::Object(entry) = written else { return Err(wrong("is no object")) };
    let kind = match entry.get("type") {
        None if entry.contains_key("url") => return Err(wrong("has a url and no type")),
        None => "stdio",
        Some(Value::String(kind)) => kind,
        Some(_) => return Err(wrong("has a type that is no text")),
    };
    let kind = match kind {
        "sdk" => ServerKind::Driver,
        "stdio" | "http" | "streamable-http" | "sse" | "ws" => ServerKind::Unsupported(kind.to_owned()),
        _ => return Err(wrong("has a type that nobody knows")),
    };
    let policies = ToolPolicies::from_entry(entry).unwrap_or_default();
    Ok(ServerConfig { kind, timeout: parse_timeout(entry), policies, raw_entry: written.clone() })
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
        let variables = members("env").filter_map(|(name, value)| Some((name.into(), value.as_str()?.into())));
        redactor.add_environment(&Env::new(variables));
    }

    /// Returns the configuration of a server inside the driving program of which only the name is known.
    pub fn for_driver(name: &str) -> Self {
        let raw_entry = serde_json::json!({"type": "sdk", "name": name});
        Self { kind: ServerKind::Driver, timeout: None, policies: ToolPolicies::default(), raw_entry }
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

    #[test]
    fn credentials_of_a_configuration_are_masked() {
        let document = r#"{"mcpServers":{"a":{"type":"http","url":"https://a.test","headers":{"Authorization":"Bearer canary-1-header"}},
            "b":{"command":"c","env":{"A_TOKEN":"canary-2-variable","MODE":"canary-3-mode"}}}}"#;
        let redactor = Redactor::default();
        parse_servers(document).unwrap().iter().for_each(|(_, config)| config.register_secrets(&redactor));
        let text = "canary-1-header canary-2-variable canary-3-mode Bearer canary-1-header";
        assert_eq!(redactor.mask(text), "*** *** canary-3-mode ***");
    }

    #[test]
    fn entries_are_read_or_named_in_the_error() {
        let found =
            parse_servers(r#"{"mcpServers":{"a":{"type":"sdk","name":"x","timeout":5000},"b":{"command":"c"}}}"#);
        let found = found.unwrap();
        assert_eq!(found[0].1.kind, ServerKind::Driver);
        assert_eq!(found[0].1.timeout, Some(Duration::from_secs(5)));
        assert_eq!(found[1].1.kind, ServerKind::Unsupported("stdio".into()));
        for (document, error) in [
            ("[]", ServerConfigError::NotAnObject),
            (r#"{"servers":{}}"#, ServerConfigError::NoServers),
            (r#"{"mcpServers":{"a":1}}"#, ServerConfigError::Entry("a".into(), "is no object")),
            (r#"{"mcpServers":{"a":{"url":"x"}}}"#, ServerConfigError::Entry("a".into(), "has a url and no type")),
        ] {
            assert_eq!(parse_servers(document), Err(error), "{document}");
        }
    }
}
