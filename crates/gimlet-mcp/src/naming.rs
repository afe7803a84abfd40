//! The names under which the model calls the tools of servers.

use gimlet_proto::plain_name;
use sha2::{Digest, Sha256};

/// The longest name that every provider accepts for a tool; some take longer ones.
const MAX_NAME: usize = 64;
/// How much of a name that had to be shortened tells it from others.
const HASH_DIGITS: usize = 8;

/// How the names of a server's tools begin, as far as they did not have to be shortened there.
pub(crate) fn name_prefix(server: &str) -> String {
    let mut prefix = format!("mcp__{}__", plain_name(server));
    prefix.truncate(MAX_NAME - HASH_DIGITS - 1);
    prefix
}

/// `mcp__<server>__<tool>`, in the characters and the length that providers accept. The same names give the same result
/// in every process.
pub fn tool_name(server: &str, tool: &str) -> String {
    let name = format!("mcp__{}__{}", plain_name(server), plain_name(tool));
    if name.len() <= MAX_NAME {
        return name;
    }
    let hash: String = Sha256::digest(name.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    // Only ASCII is left, so every position is a border of characters.
    format!("{}_{}", &name[..MAX_NAME - HASH_DIGITS - 1], &hash[..HASH_DIGITS])
}

#[cfg(test)]
mod tests {
    use super::tool_name;

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
}
