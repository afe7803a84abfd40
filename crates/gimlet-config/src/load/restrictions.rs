//! Settings that can only forbid. They apply where the rest of a file does not: beside an administrator's settings
//! that have precedence, and in a file that is invalid. Nothing that passes here may ever open anything.

use crate::json::{JsonNode, JsonValue};
use crate::setting_keys;

/// Keys by which nothing but less becomes possible.
const ONLY_FORBIDS: [&str; 17] = [
    "permissions.deny",
    "permissions.ask",
    "permissions.disableBypassPermissionsMode",
    "permissions.disableAutoMode",
    "disableAutoMode",
    "allowManagedPermissionRulesOnly",
    "allowManagedHooksOnly",
    "allowManagedMcpServersOnly",
    "disableSkillShellExecution",
    "disableSideloadFlags",
    "deniedMcpServers",
    "disabledMcpjsonServers",
    "blockedMarketplaces",
    "sandbox.filesystem.denyWrite",
    "sandbox.filesystem.denyRead",
    "sandbox.network.deniedDomains",
    "sandbox.network.strictAllowlist",
];

/// Those of them that are lists of strings.
pub(super) const LISTS: [&str; 5] = [
    "permissions.deny",
    "permissions.ask",
    "sandbox.filesystem.denyWrite",
    "sandbox.filesystem.denyRead",
    "sandbox.network.deniedDomains",
];

/// Values that restrict nothing by themselves, but may override a file of lower precedence that opens something.
const STAND_AGAINST: [(&str, bool); 3] = [
    ("enableAllProjectMcpServers", false),
    ("skipDangerousModePermissionPrompt", false),
    ("sandbox.filesystem.disabled", false),
];

/// Modes that allow no more without a question than the built-in one.
const CAREFUL_MODES: [&str; 3] = ["default", "plan", "dontAsk"];

/// Returns true if the value at this path can only forbid.
pub(super) fn is_restriction(path: &str, value: &JsonNode) -> bool {
    let switch = setting_keys::SANDBOX_SWITCHES.iter().find(|(name, _)| path.strip_prefix("sandbox.") == Some(*name));
    let closes_sandbox = switch.is_some_and(|(_, closing)| value.json == JsonValue::Bool(*closing));
    ONLY_FORBIDS.contains(&path) || closes_sandbox
}

/// Returns the part of a file's value that can only make things stricter than without the file.
pub(super) fn restrictive_part(mut root: JsonNode) -> JsonNode {
    retain_values(&mut root, "", |path, value| match path {
        "permissions.defaultMode" => value.as_str().is_some_and(|mode| CAREFUL_MODES.contains(&mode)),
        "sandbox.credentials.files" | "sandbox.credentials.envVars" => retain_hidden_secrets(value),
        "autoMode" => retain_members(value, &["hard_deny", "soft_deny"]),
        path => {
            let stands_against = |(key, shut): &(&str, bool)| *key == path && value.json == JsonValue::Bool(*shut);
            is_restriction(path, value) || STAND_AGAINST.iter().any(stands_against)
        }
    });
    root
}

/// Leaves these members; whether there are any.
fn retain_members(node: &mut JsonNode, names: &[&str]) -> bool {
    let Some(members) = node.members_mut() else { return false };
    members.retain(|member| names.contains(&member.key.as_str()));
    !members.is_empty()
}

/// Leaves the secrets that are hidden altogether; whether there are any.
fn retain_hidden_secrets(secrets: &mut JsonNode) -> bool {
    let Some(entries) = secrets.elements_mut() else { return false };
    entries.retain(|entry| entry.get("mode").and_then(JsonNode::as_str) == Some("deny"));
    !entries.is_empty()
}

/// Removes every value that `keep` does not accept, and the groups that become empty by it.
pub(super) fn retain_values(node: &mut JsonNode, above: &str, keep: fn(&str, &mut JsonNode) -> bool) {
    let Some(members) = node.members_mut() else { return };
    members.retain_mut(|member| {
        let path = if above.is_empty() { member.key.clone() } else { format!("{above}.{}", member.key) };
        if !setting_keys::is_group(&path) {
            return keep(&path, &mut member.value);
        }
        retain_values(&mut member.value, &path, keep);
        !member.value.members().is_empty()
    });
}
