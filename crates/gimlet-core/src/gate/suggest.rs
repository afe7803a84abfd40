//! Which flag would have allowed a call: for the person, who decides whether to give it.

use gimlet_proto::Need;

use crate::tool::Prepared;

/// Longer commands make no readable rule.
const LONGEST_RULE: usize = 80;

/// The narrowest flag that would let this very call pass.
pub(super) fn flag(prepared: &Prepared) -> Option<String> {
    prepared.needs.iter().find_map(|need| match need {
        Need::Write(_) => Some("--permission-mode acceptEdits".to_owned()),
        Need::Read(path) => path.parent().map(|folder| format!("--add-dir {}", folder.display())),
        Need::Run(command) if is_rule(command) => Some(format!("--allowedTools '{}({command})'", prepared.tool)),
        Need::Run(_) | Need::Fetch(_) | Need::Session | Need::Opaque => None,
    })
}

/// Whether a rule with this text would match it: one plain command.
fn is_rule(command: &str) -> bool {
    command.len() <= LONGEST_RULE
        && !command.contains(|c: char| c.is_control() || "|&;<>()$`\\\"'*?[]{}#~=%".contains(c))
}

#[cfg(test)]
mod tests {
    use super::is_rule;

    #[test]
    fn only_plain_commands_become_rules() {
        assert!(is_rule("cargo test --workspace"));
        for command in ["a && b", "a > b", "a 2>&1", "echo $HOME", "rm *", "X=1 a", "a 'b'"] {
            assert!(!is_rule(command), "{command}");
        }
    }
}
