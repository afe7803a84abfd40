//! Server admission by allow and deny lists from managed or other settings. A deny list always wins; an allow list
//! admits only servers that it names.

use gimlet_policy::matches_wildcard;

use crate::server_config::{ServerConfig, ServerKind};

/// Criterion that identifies a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerMatch {
    /// Exactly this name.
    Name(String),
    /// Exactly this program with these arguments.
    Command(Vec<String>),
    /// A URL, with `*` for any text. Without a path it matches every path.
    Url(String),
}

/// Allow and deny lists for servers.
#[derive(Clone, Debug, Default)]
pub struct ServerAdmission {
    /// The only admitted servers; `None` if there is no allow list.
    pub allowed: Option<Vec<ServerMatch>>,
    pub denied: Vec<ServerMatch>,
}

impl ServerAdmission {
    /// Returns the reason why this server may not be used; `None` if it may.
    pub(crate) fn refusal_reason(&self, name: &str, config: &ServerConfig) -> Option<&'static str> {
        if self.denied.iter().any(|entry| entry.matches(name, config)) {
            return Some("settings forbid this server (deniedMcpServers)");
        }
        let allowed = self.allowed.as_ref()?;
        // If a list names commands or URLs, a matching name alone is not enough for servers of that kind.
        let by_place = |entry: &&ServerMatch| match (entry, TransportKind::from_config(config)) {
            (ServerMatch::Command(_), TransportKind::Program) | (ServerMatch::Url(_), TransportKind::Remote) => true,
            (ServerMatch::Name(_) | ServerMatch::Command(_) | ServerMatch::Url(_), _) => false,
        };
        let places: Vec<&ServerMatch> = allowed.iter().filter(by_place).collect();
        let admitted = match places.is_empty() {
            true => allowed.iter().any(|entry| entry.matches(name, config)),
            false => places.iter().any(|entry| entry.matches(name, config)),
        };
        (!admitted).then_some("settings do not allow this server (allowedMcpServers)")
    }
}

/// Transport of a server, as far as the lists distinguish it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TransportKind {
    /// Runs in the driving program.
    InDriver,
    Program,
    Remote,
}

impl TransportKind {
    fn from_config(config: &ServerConfig) -> Self {
        match &config.kind {
            ServerKind::Driver => TransportKind::InDriver,
            ServerKind::Stdio(_) => TransportKind::Program,
            ServerKind::Remote(_) => TransportKind::Remote,
        }
    }
}

impl ServerMatch {
    fn matches(&self, name: &str, config: &ServerConfig) -> bool {
        // What would run counts, not how it is written.
        match (self, &config.kind) {
            (ServerMatch::Name(wanted), _) => wanted == name,
            (ServerMatch::Command(wanted), ServerKind::Stdio(server)) => {
                std::iter::once(&server.command).chain(&server.args).eq(wanted)
            }
            (ServerMatch::Url(pattern), ServerKind::Remote(server)) => url_matches(pattern, &server.url),
            (ServerMatch::Command(_) | ServerMatch::Url(_), _) => false,
        }
    }
}

fn url_matches(pattern: &str, url: &str) -> bool {
    let (pattern, url) = (ServerUrl::parse(pattern), ServerUrl::parse(url));
    let path = pattern.path.is_empty() || matches_wildcard(&pattern.path, &url.path);
    matches_wildcard(&pattern.scheme, &url.scheme) && matches_wildcard(&pattern.host, &url.host) && path
}

/// URL split into normalised parts for comparison.
struct ServerUrl {
    scheme: String,
    host: String,
    path: String,
}

impl ServerUrl {
    fn parse(text: &str) -> Self {
        let (scheme, rest) = text.split_once("://").unwrap_or(("*", text));
        // Everything before the last @ is a user name and a password, in any form.
        let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let host = authority.rsplit('@').next().unwrap_or_default().to_lowercase();
        let (host, port) = match host.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, format!(":{port}")),
            _ => (host.as_str(), String::new()),
        };
        let path = if path == "/" { "" } else { path };
        let host = format!("{}{port}", host.trim_end_matches('.'));
        Self { scheme: scheme.to_lowercase(), host, path: path.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_config::{EntryContext, parse_servers};

    fn parse_server(entry: &str) -> ServerConfig {
        let document = format!(r#"{{"mcpServers":{{"s":{entry}}}}}"#);
        parse_servers(&document, &EntryContext::default()).unwrap().servers.remove(0).1
    }

    const INSIDE: &str = r#"{"type":"sdk","name":"s"}"#;
    const PROGRAM: &str = r#"{"command":"npx","args":["-y","x"]}"#;
    const REMOTE: &str = r#"{"type":"http","url":"https://Mcp.Example.com./v1"}"#;

    #[test]
    fn lists_admit_and_refuse_by_name_program_and_address() {
        let name = |name: &str| ServerMatch::Name(name.to_owned());
        let run = |words: &[&str]| ServerMatch::Command(words.iter().map(|word| (*word).to_owned()).collect());
        let url = |text: &str| ServerMatch::Url(text.to_owned());
        for (allowed, denied, admitted) in [
            (None, vec![], [true, true, true]),
            (Some(vec![]), vec![], [false, false, false]),
            (Some(vec![name("s")]), vec![], [true, true, true]),
            (Some(vec![name("S")]), vec![], [false, false, false]),
            (Some(vec![name("s")]), vec![name("s")], [false, false, false]),
            (Some(vec![name("s"), run(&["npx", "-y", "x"])]), vec![], [true, true, true]),
            (Some(vec![name("s"), run(&["npx", "x"])]), vec![], [true, false, true]),
            (Some(vec![name("s"), url("https://*.example.com")]), vec![], [true, true, true]),
            (Some(vec![name("s"), url("https://example.com")]), vec![], [true, true, false]),
            (Some(vec![url("https://mcp.example.com/v1")]), vec![], [false, false, true]),
            (None, vec![url("*://mcp.example.com/v2")], [true, true, true]),
            (None, vec![url("https://MCP.example.com/*")], [true, true, false]),
            (None, vec![run(&["npx", "-y", "x"])], [true, false, true]),
        ] {
            let admission = ServerAdmission { allowed, denied };
            let found =
                [INSIDE, PROGRAM, REMOTE].map(|entry| admission.refusal_reason("s", &parse_server(entry)).is_none());
            assert_eq!(found, admitted, "{admission:?}");
        }
    }

    #[test]
    fn an_address_cannot_pass_for_another_host() {
        for (pattern, url, expected) in [
            ("https://example.com", "https://example.com:8443/x", false),
            ("https://example.com", "https://example.com@evil.test/x", false),
            ("https://*.example.com/*", "https://evil.test/.example.com/", false),
            ("https://*.example.com", "https://evil.test?.example.com", false),
            ("https://example.com:8443/a*c", "https://EXAMPLE.com.:8443/abc", true),
            ("https://example.com/a*c", "https://example.com/abd", false),
            ("https://example.com/", "https://example.com/any", true),
        ] {
            assert_eq!(url_matches(pattern, url), expected, "{pattern} {url}");
        }
    }
}
