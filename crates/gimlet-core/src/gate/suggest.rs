//! What would answer a question for good, as changes that an answer can bring and as flags: for the person, who decides
//! whether to give them.

use std::sync::Arc;

use gimlet_policy::{Behavior, PermissionUpdate, Suggestion};
use gimlet_proto::SuggestedChange;
use serde_json::value::to_raw_value;

use super::{Gate, walls};
use crate::call::CallScope;
use crate::tool::Prepared;

impl Gate {
    /// What would answer the question for good.
    pub(super) fn suggestions(&self, scope: &CallScope, prepared: &Prepared) -> Vec<SuggestedChange> {
        let walls = walls(scope, prepared, scope.services.walls().now().as_deref());
        let found = self.judging(scope, walls, |judging| judging.suggestions(prepared.into()));
        let change = |suggestion: Suggestion| {
            let update = to_raw_value(&suggestion.update).ok()?;
            Some(SuggestedChange { covers: suggestion.covers, update: Arc::from(update) })
        };
        found.into_iter().filter_map(change).collect()
    }
}

/// The flags that make the suggested changes; `None` when there are none, or a change has no flag.
pub(super) fn flags(suggested: &[SuggestedChange]) -> Option<String> {
    let flags = suggested.iter().map(flag).collect::<Option<Vec<String>>>()?;
    (!flags.is_empty()).then(|| flags.join(" "))
}

fn flag(change: &SuggestedChange) -> Option<String> {
    match serde_json::from_str(change.update.get()).ok()? {
        PermissionUpdate::SetMode { mode, .. } => Some(format!("--permission-mode {mode}")),
        PermissionUpdate::AddRules { rules, behavior: Behavior::Allow, .. } => {
            let quoted = |text: String| (!text.contains('\'')).then(|| format!("--allowedTools '{text}'"));
            let flags: Vec<String> = rules.iter().map(|rule| quoted(rule.text())).collect::<Option<_>>()?;
            Some(flags.join(" "))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(update: serde_json::Value) -> SuggestedChange {
        SuggestedChange { covers: String::new(), update: Arc::from(to_raw_value(&update).unwrap()) }
    }

    #[test]
    fn what_is_suggested_is_said_in_flags() {
        let rule = |content: &str| {
            change(serde_json::json!({
                "type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": content}],
                "behavior": "allow", "destination": "localSettings",
            }))
        };
        let mode = change(serde_json::json!({"type": "setMode", "mode": "acceptEdits", "destination": "session"}));
        assert_eq!(flags(&[]), None);
        assert_eq!(flags(&[rule("make *")]).as_deref(), Some("--allowedTools 'Bash(make *)'"));
        let both = flags(&[mode, rule("make *")]);
        assert_eq!(both.as_deref(), Some("--permission-mode acceptEdits --allowedTools 'Bash(make *)'"));
        assert_eq!(flags(&[rule("echo it's *")]), None, "no shell would take it as one word");
    }
}
