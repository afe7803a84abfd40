//! Names under which the model calls the tools of servers. They are unique and depend only on the names of the servers
//! and tools.
//!
//! Providers accept few characters, so several names may map to one. A tool whose own name is exactly that one keeps
//! it; the others get a name with a hash, and rules match those by their own names. A deny rule matches all of them.

use std::collections::{BTreeMap, HashMap};

use gimlet_policy::{server_tool_names, tool_name_spellings};
use gimlet_proto::provider_safe_name;
use sha2::{Digest, Sha256};

use crate::server_text::join_names;

/// Maximum length of a tool name that every provider accepts; some accept longer ones.
const MAX_NAME: usize = 64;
/// Number of hash digits that make a changed name unique.
const HASH_DIGITS: usize = 8;

/// Returns the prefix of the names of a server's tools, as far as they were not shortened there.
pub(crate) fn tool_name_prefix(server: &str) -> String {
    let mut prefix = full_prefix(server);
    prefix.truncate(MAX_NAME - HASH_DIGITS - 1);
    prefix
}

fn full_prefix(server: &str) -> String {
    format!("mcp__{}__", provider_safe_name(server))
}

/// Returns `mcp__<server>__<tool>` in the characters and the length that providers accept. The result is deterministic
/// across processes.
pub fn tool_name(server: &str, tool: &str) -> String {
    let name = full_prefix(server) + &provider_safe_name(tool);
    if name.len() <= MAX_NAME {
        return name;
    }
    // Only ASCII is left, so every position is a character boundary.
    format!("{}_{}", &name[..MAX_NAME - HASH_DIGITS - 1], short_hash(&name))
}

/// Returns the name of a tool whose plain name is ambiguous.
fn hashed_tool_name(server: &str, tool: &str) -> String {
    let mut name = full_prefix(server) + &provider_safe_name(tool);
    name.truncate(MAX_NAME - HASH_DIGITS - 2);
    format!("{name}__{}", short_hash(&format!("{server}\0{tool}")))
}

/// Returns every name that a tool may have had, depending on the other tools.
pub(crate) fn all_tool_names(server: &str, tool: &str) -> Vec<String> {
    let mut names = server_tool_names(server, tool);
    names.retain(|name| name.starts_with(&format!("mcp__{server}__")) || name.starts_with(&full_prefix(server)));
    names.extend([tool_name(server, tool), hashed_tool_name(server, tool)]);
    names
}

fn short_hash(text: &str) -> String {
    let digits: String = Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    digits[..HASH_DIGITS].to_owned()
}

/// Names of a tool in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AssignedToolName {
    /// Name for the model.
    pub(crate) name: String,
    /// Further names for rules: first those of its server.
    pub(crate) rule_names: Vec<String>,
    /// Number of those that name its server.
    pub(crate) server_rule_count: usize,
}

/// Names of all tools of a session's servers, by server and own name.
#[derive(Default)]
pub(crate) struct ToolNameTable {
    assigned: HashMap<(String, String), AssignedToolName>,
    /// Warnings about tools without a name.
    pub(crate) warnings: Vec<String>,
}

impl ToolNameTable {
    /// Assigns the names of the servers' tools. A server that is not connected has no tools, but its names stay
    /// reserved.
    pub(crate) fn assign(servers: &[(String, Vec<String>)]) -> Self {
        let mut names = Self::default();
        let mut without = UnnamedTools::default();
        let of_servers = count_plain_names(servers.iter().map(|(server, _)| server));
        for (server, tools) in servers {
            let plain_server = provider_safe_name(server);
            let server_is_taken = is_ambiguous(server, &plain_server, &of_servers);
            let server_names: &[&str] = if server_is_taken { &[server] } else { &[server, &plain_server] };
            let longer = of_servers.keys().filter(|other| other.len() > plain_server.len());
            let longer: Vec<String> = longer.map(|other| full_prefix(other)).collect();
            let of_tools = count_plain_names(tools.iter());
            for tool in tools {
                let plain_tool = provider_safe_name(tool);
                let full = full_prefix(server) + &plain_tool;
                if let Some(other) = longer.iter().find(|other| full.starts_with(*other)) {
                    without.add(server, tool, format!("tools of another server, {other}…"));
                    continue;
                }
                let tool_is_taken = is_ambiguous(tool, &plain_tool, &of_tools);
                let tool_names: &[&str] = if tool_is_taken { &[tool] } else { &[tool, &plain_tool] };
                let is_taken = server_is_taken || tool_is_taken;
                let name = if is_taken { hashed_tool_name(server, tool) } else { tool_name(server, tool) };
                let of_server = tool_name_spellings(server_names, &[]).len();
                let called = AssignedToolName {
                    name,
                    rule_names: tool_name_spellings(server_names, tool_names),
                    server_rule_count: of_server,
                };
                names.assigned.insert((server.clone(), tool.clone()), called);
            }
        }
        names.resolve_collisions(&mut without);
        names.warnings = without.into_warnings();
        names
    }

    /// Removes tools whose hashed name collides with another tool's, by chance or on purpose.
    fn resolve_collisions(&mut self, without: &mut UnnamedTools) {
        let mut by_name: HashMap<String, Vec<(String, String)>> = HashMap::new();
        for (tool, called) in &self.assigned {
            by_name.entry(called.name.clone()).or_default().push(tool.clone());
        }
        let mut shared: Vec<(String, Vec<(String, String)>)> =
            by_name.into_iter().filter(|(_, all)| all.len() > 1).collect();
        shared.sort();
        for (name, mut tools) in shared {
            tools.sort();
            for (server, tool) in tools.into_iter().filter(|(server, tool)| format!("mcp__{server}__{tool}") != name) {
                without.add(&server, &tool, "other tools".to_owned());
                self.assigned.remove(&(server, tool));
            }
        }
    }

    /// Returns the names of a tool; `None` if it is left out.
    pub(crate) fn get(&self, server: &str, tool: &str) -> Option<&AssignedToolName> {
        self.assigned.get(&(server.to_owned(), tool.to_owned()))
    }

    /// Returns the server and own name of the tool that the model calls by this name.
    pub(crate) fn find_owner(&self, name: &str) -> Option<(&str, &str)> {
        let found = self.assigned.iter().find(|(_, called)| called.name == name);
        found.map(|((server, tool), _)| (server.as_str(), tool.as_str()))
    }
}

/// Tools without a name, by their server and by the owner of the name they would have.
#[derive(Default)]
struct UnnamedTools(BTreeMap<(String, String), Vec<String>>);

impl UnnamedTools {
    fn add(&mut self, server: &str, tool: &str, whose: String) {
        self.0.entry((server.to_owned(), whose)).or_default().push(tool.to_owned());
    }

    fn into_warnings(self) -> Vec<String> {
        let remark = |((server, whose), tools): ((String, String), Vec<String>)| {
            let tools = join_names(tools.iter().map(String::as_str));
            format!(
                "the server '{server}' has tools that are left out, as their names would be those of {whose}: {tools}"
            )
        };
        self.0.into_iter().map(remark).collect()
    }
}

/// Counts the occurrences of each plain form.
fn count_plain_names<'a>(names: impl Iterator<Item = &'a String>) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    names.for_each(|name| *counts.entry(provider_safe_name(name)).or_default() += 1);
    counts
}

/// Returns true if a name can be sent only in a form that others share.
fn is_ambiguous(name: &str, plain: &str, counts: &HashMap<String, usize>) -> bool {
    name != plain && counts.get(plain).is_some_and(|count| *count > 1)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn assign_names(servers: &[(&str, &[&str])]) -> ToolNameTable {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let servers: Vec<(String, Vec<String>)> =
            servers.iter().map(|(server, tools)| ((*server).to_owned(), owned(tools))).collect();
        let (names, mut back) = (ToolNameTable::assign(&servers), servers);
        back.reverse();
        back.iter_mut().for_each(|(_, tools)| tools.reverse());
        assert_eq!(names.assigned, ToolNameTable::assign(&back).assigned, "the order does not matter");
        let all: HashSet<&str> = names.assigned.values().map(|called| called.name.as_str()).collect();
        assert_eq!(all.len(), names.assigned.len(), "each has a name of its own");
        assert!(all.iter().all(|name| name.len() <= MAX_NAME && provider_safe_name(name) == *name), "{all:?}");
        names
    }

    fn name_of_tool(names: &ToolNameTable, server: &str, tool: &str) -> String {
        names.get(server, tool).map(|called| called.name.clone()).unwrap_or_default()
    }

    #[test]
    fn names_fit_every_provider_and_stay_apart() {
        assert_eq!(tool_name("calc", "add"), "mcp__calc__add");
        assert_eq!(tool_name("my server", "grüß/x"), "mcp__my_server__gr___x");
        let long = "x".repeat(80);
        let (one, two) = (tool_name("s", &format!("{long}1")), tool_name("s", &format!("{long}2")));
        assert_eq!(one.len(), 64);
        assert_ne!(one, two);
        assert_eq!(one, tool_name("s", &format!("{long}1")));
    }

    #[test]
    fn a_name_that_nobody_else_has_is_plain() {
        let names = assign_names(&[("s", &["get.user"]), ("my.srv", &["t"])]);
        assert_eq!(name_of_tool(&names, "s", "get.user"), "mcp__s__get_user");
        assert_eq!(name_of_tool(&names, "my.srv", "t"), "mcp__my_srv__t");
        assert!(names.warnings.is_empty());
        assert_eq!(names.find_owner("mcp__my_srv__t"), Some(("my.srv", "t")));
    }

    #[test]
    fn exact_tool_name_wins_over_normalized_ones() {
        let both = assign_names(&[("s", &["get.user", "get_user", "get/user"])]);
        assert_eq!(name_of_tool(&both, "s", "get_user"), "mcp__s__get_user");
        let dotted = both.get("s", "get.user").unwrap();
        assert_eq!(dotted.name, hashed_tool_name("s", "get.user"));
        assert!(dotted.name.starts_with("mcp__s__get_user__"));
        assert_eq!(dotted.rule_names, ["mcp__s", "mcp__s__get.user"], "the plain one is not its own");
        let neither = assign_names(&[("s", &["get.user", "get/user"])]);
        assert_eq!(neither.find_owner("mcp__s__get_user"), None);
        assert_eq!(name_of_tool(&neither, "s", "get.user"), name_of_tool(&both, "s", "get.user"));
        let long = "x".repeat(70);
        let pair = [format!("{long}.a"), format!("{long}/a")];
        assert_eq!(assign_names(&[("s", &[&pair[0], &pair[1]])]).assigned.len(), 2);
    }

    #[test]
    fn servers_with_one_plain_name_share_nothing_even_if_one_is_not_there() {
        let names = assign_names(&[("my.srv", &["t", "u"]), ("my_srv", &[])]);
        for tool in ["t", "u"] {
            let called = names.get("my.srv", tool).unwrap();
            assert_eq!(called.name, hashed_tool_name("my.srv", tool));
            assert_eq!(called.rule_names, ["mcp__my.srv".to_owned(), format!("mcp__my.srv__{tool}")]);
        }
    }

    #[test]
    fn what_reads_like_the_tool_of_another_server_is_left_out() {
        for (other, own) in [("a__b", "b__c"), ("a_", "_c"), ("a__b", "b__d")] {
            let names = assign_names(&[("a", &[own, "fine"]), (other, &["c"])]);
            assert_eq!(name_of_tool(&names, other, "c"), format!("mcp__{other}__c"));
            assert!(names.get("a", own).is_none() && names.get("a", "fine").is_some());
            let [remark] = names.warnings.as_slice() else { panic!("{:?}", names.warnings) };
            assert!(remark.contains(own) && remark.contains(other), "{remark}");
        }
    }

    #[test]
    fn hash_collisions_leave_both_tools_out() {
        let wanted = hashed_tool_name("s", "get.user");
        let guess = wanted.strip_prefix("mcp__s__").unwrap();
        let names = assign_names(&[("s", &["get.user", "get_user", guess])]);
        assert_eq!(names.find_owner(&wanted), Some(("s", guess)), "it is called so");
        assert!(names.get("s", "get.user").is_none() && names.warnings[0].contains("get.user"));
    }
}
