//! Names of servers' tools: their own names, and the form of these that can be sent to a model.
//!
//! A server may have any name, and models accept few characters. Users write rules with the name that they chose for
//! the server or with the one that they see in a transcript, and both are equivalent.

use std::borrow::Cow;

use gimlet_proto::provider_safe_name;

use super::{canonical_tool_name, matches_wildcard};

/// Prefix of the name of a server's tool.
pub(crate) const SERVERS: &str = "mcp__";

/// Replaces everything but letters, digits, `_`, `-` and `*` by `_`.
pub(crate) fn sendable_name(name: &str) -> String {
    if !name.starts_with(SERVERS) {
        return name.to_owned();
    }
    name.split('*').map(provider_safe_name).collect::<Vec<_>>().join("*")
}

/// Returns the names that rules may use for a tool of a server beside the one that is sent: each as it is and
/// sanitized.
pub fn server_tool_names(server: &str, tool: &str) -> Vec<String> {
    tool_name_spellings(&[server, &provider_safe_name(server)], &[tool, &provider_safe_name(tool)])
}

/// Returns the names of a tool for these spellings of its server and of itself: first those of the server.
pub fn tool_name_spellings(servers: &[&str], tools: &[&str]) -> Vec<String> {
    let of_tools = servers.iter().flat_map(|server| tools.iter().map(move |tool| format!("{SERVERS}{server}__{tool}")));
    let mut names = Vec::new();
    for name in servers.iter().map(|server| format!("{SERVERS}{server}")).chain(of_tools) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Returns every name by which a forbidding rule or a watcher may mean a tool: those of its server too, and the
/// sanitized form of each.
pub(super) fn candidate_names<'a>(tool: &'a str, also: &'a [String]) -> impl Iterator<Item = Cow<'a, str>> {
    let further = also.iter().flat_map(|name| [Cow::Borrowed(name.as_str()), Cow::Owned(sendable_name(name))]);
    further.chain([tool.into(), canonical_tool_name(tool).into()])
}

/// Returns true if `fits` accepts a name of the tool. These are the names that a rule which forbids it is matched
/// against, without those of its whole server.
pub fn matches_tool_name(tool: &str, also: &[String], fits: impl Fn(&str) -> bool) -> bool {
    let of_server = |name: &str| {
        also.iter().any(|other| is_tool_of_server(name, other) || is_tool_of_server(name, &sendable_name(other)))
    };
    candidate_names(tool, also).any(|name| fits(&name) && (name == tool || !of_server(&name)))
}

/// Returns true if a name is that of a server: nothing after it could be a tool.
pub(super) fn is_server_name(name: &str) -> bool {
    name.strip_prefix(SERVERS).is_some_and(|rest| !rest.contains("__"))
}

/// Returns true if a tool's name marks it as one of this server's.
pub(super) fn is_tool_of_server(server: &str, tool: &str) -> bool {
    tool.strip_prefix(server).is_some_and(|rest| rest.starts_with("__"))
}

/// Returns true if a pattern names the tools of one server.
pub(super) fn is_server_glob(name: &str) -> bool {
    let server = name.strip_prefix(SERVERS).and_then(|rest| rest.split_once("__"));
    server.is_some_and(|(server, _)| !server.is_empty() && !server.contains('*'))
}

/// Returns true if a pattern names a tool; where the names of its server are known, the text before the pattern's
/// first `*` must contain one of them.
pub(super) fn glob_names_tool(pattern: &str, tool: &str, also: &[String]) -> bool {
    let mut names = also.iter().map(String::as_str).chain([tool]);
    let fixed = pattern.split('*').next().unwrap_or("");
    let of_its_server = || also.iter().any(|server| is_tool_of_server(server, fixed));
    names.any(|name| matches_wildcard(pattern, name)) && (also.is_empty() || of_its_server())
}

/// Returns true if a name in a granting list means this tool. Where the further names of a server's tool are known,
/// tool and server are only meant by one of them.
pub(super) fn names_tool(given: &str, tool: &str, also: &[String]) -> bool {
    let tool = canonical_tool_name(tool);
    let spelled = |name: &str| name == tool || also.iter().any(|other| other == name);
    let globbed = |name: &str| name.contains('*') && glob_names_tool(name, tool, also);
    if spelled(given) || globbed(given) {
        return true;
    }
    // Two names can have one sanitized form, so this is only for tools without further names.
    let plain = sendable_name(given);
    let of_server = || is_server_name(&plain) && is_tool_of_server(&plain, tool);
    also.is_empty() && (spelled(&plain) || globbed(&plain) || of_server())
}

/// Returns true if an entry of a list that removes tools (an agent's `disallowedTools`) may mean this tool. A
/// specifier in parentheses is ignored.
pub fn entry_may_disallow(entry: &str, tool: &str, also: &[String]) -> bool {
    let entry = entry_tool_name(entry);
    let plain = sendable_name(entry);
    [entry, &plain].iter().any(|entry| candidate_names(tool, also).any(|name| matches_wildcard(entry, &name)))
        || (also.is_empty() && is_server_name(&plain) && is_tool_of_server(&plain, tool))
}

/// Returns true if an entry of a list that grants tools (an agent's `tools`) means this tool, and not another whose
/// sanitized name is equal.
pub fn entry_allows(entry: &str, tool: &str, also: &[String]) -> bool {
    let entry = entry_tool_name(entry);
    // An entry that names no server before its first `*` is about the tools of all servers.
    let of_all = || entry.contains('*') && !is_server_glob(entry);
    names_tool(entry, tool, also)
        || (of_all() && candidate_names(tool, also).any(|name| matches_wildcard(entry, &name)))
}

fn entry_tool_name(entry: &str) -> &str {
    canonical_tool_name(entry.split('(').next().unwrap_or(entry).trim())
}
