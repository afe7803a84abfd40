//! Suggested permission changes as command-line flags, for the user who started gimlet.

use gimlet_proto::{PermissionMode, SuggestedChange};
use serde::Deserialize;

/// Part of a permission change that flags can express.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum FlagChange {
    SetMode { mode: PermissionMode },
    AddRules { rules: Vec<FlagRule>, behavior: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FlagRule {
    tool_name: String,
    #[serde(default)]
    rule_content: Option<String>,
}

/// Returns the flags that make the changes; `None` when there are no changes or one has no flag.
pub(super) fn suggest_flags(changes: &[SuggestedChange]) -> Option<String> {
    let flags = changes.iter().map(format_flag).collect::<Option<Vec<String>>>()?;
    (!flags.is_empty()).then(|| flags.join(" "))
}

fn format_flag(change: &SuggestedChange) -> Option<String> {
    match serde_json::from_str(change.update.get()).ok()? {
        FlagChange::SetMode { mode } => Some(format!("--permission-mode {mode}")),
        FlagChange::AddRules { rules, behavior } if behavior == "allow" => {
            Some(rules.iter().map(format_allow_flag).collect::<Option<Vec<String>>>()?.join(" "))
        }
        FlagChange::AddRules { .. } => None,
    }
}

/// Formats a rule as a flag whose value a shell reads as one word.
fn format_allow_flag(FlagRule { tool_name, rule_content }: &FlagRule) -> Option<String> {
    let text = match rule_content {
        Some(content) if !content.is_empty() => format!("{tool_name}({content})"),
        _ => tool_name.clone(),
    };
    (!text.contains('\'')).then(|| format!("--allowedTools '{text}'"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use serde_json::json;
    use serde_json::value::to_raw_value;

    fn suggested_change(update: serde_json::Value) -> SuggestedChange {
        SuggestedChange { covers: String::new(), update: Arc::from(to_raw_value(&update).unwrap()) }
    }

    #[test]
    fn what_is_suggested_is_said_in_flags() {
        let rule = |content: &str| {
            suggested_change(json!({
                "type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": content}],
                "behavior": "allow", "destination": "localSettings",
            }))
        };
        let mode = suggested_change(json!({"type": "setMode", "mode": "acceptEdits", "destination": "session"}));
        let folder =
            suggested_change(json!({"type": "addDirectories", "directories": ["/srv"], "destination": "session"}));
        assert_eq!(suggest_flags(&[]), None);
        assert_eq!(suggest_flags(&[rule("make *")]).as_deref(), Some("--allowedTools 'Bash(make *)'"));
        assert_eq!(suggest_flags(&[rule("")]).as_deref(), Some("--allowedTools 'Bash'"));
        let both = suggest_flags(&[mode, rule("make *")]);
        assert_eq!(both.as_deref(), Some("--permission-mode acceptEdits --allowedTools 'Bash(make *)'"));
        assert_eq!(suggest_flags(&[rule("echo it's *")]), None, "no shell would take it as one word");
        assert_eq!(suggest_flags(&[rule("make *"), folder]), None, "half of the changes would not allow it");
    }
}
