//! The kinds of subagents that a caller defines, and what is odd about them.

use gimlet_core::tool::nearest;
use gimlet_policy::names_in_list;
use gimlet_proto::AgentSpec;

use super::known_tools;
use super::toolbox::{NOT_A_FILE, names_a_file};
use crate::args::RunArgs;
use crate::report::Report;

/// The kinds of subagents that `--agents` defines.
pub(super) fn agents(run: &RunArgs) -> Result<Vec<(String, AgentSpec)>, Report> {
    let Some(json) = &run.agents else { return Ok(Vec::new()) };
    let wrong = |error: serde_json::Error| {
        let report = Report::new(format!("--agents: {error}"));
        if names_a_file(json) {
            return report.hint(NOT_A_FILE);
        }
        report.hint(r#"It is a JSON object: {"name": {"description": "when to use it", "prompt": "what it is told"}}"#)
    };
    let given: serde_json::Map<String, serde_json::Value> = serde_json::from_str(json).map_err(wrong)?;
    given.into_iter().map(|(name, spec)| Ok((name, serde_json::from_value(spec).map_err(wrong)?))).collect()
}

/// Names of tools that nobody knows: one that was to be taken away would stay, under its right name. Tools of servers are
/// not known yet.
pub(super) fn remarks(agents: &[(String, AgentSpec)]) -> Vec<String> {
    let mut remarks = Vec::new();
    for (kind, spec) in agents {
        let wanted = spec.tools.iter().flatten().map(|entry| ("tools", entry));
        let unwanted = spec.disallowed_tools.iter().map(|entry| ("disallowedTools", entry));
        for (list, entry) in wanted.chain(unwanted).filter(|(_, entry)| !is_known(entry)) {
            let close = nearest(entry, known_tools()).map(|close| format!("; did you mean {close}?"));
            let hint = close.unwrap_or_default();
            remarks.push(format!("the agent type '{kind}' names '{entry}' in {list}, which is no tool{hint}"));
        }
    }
    remarks
}

fn is_known(entry: &str) -> bool {
    let known = || known_tools().any(|tool| names_in_list(entry, tool, &[]) || tool == entry.trim());
    entry.trim_start().starts_with("mcp__") || known()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_nobody_knows_are_remarked_on() {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let spec = AgentSpec {
            tools: Some(owned(&["Read", "Grepp", "*", "Task", "Bash(git log:*)"])),
            disallowed_tools: owned(&["Bsah", "mcp__gone__*", "Web*", "Zzz*", "KillShell"]),
            ..AgentSpec::default()
        };
        let said = remarks(&[("x".to_owned(), spec)]);
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].contains("'Grepp' in tools") && said[0].ends_with("did you mean Grep?"), "{said:?}");
        assert!(said[1].contains("'Bsah' in disallowedTools") && said[2].contains("'Zzz*'"), "{said:?}");
    }
}
