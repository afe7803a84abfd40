//! The rules of a settings file, each with the line that it stands on.

use std::path::Path;

use gimlet_policy::{Behavior, RuleProblem, RuleScope, RuleSet, RuleSource};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Settings<'a> {
    #[serde(borrow, default)]
    permissions: Option<Lists<'a>>,
}

#[derive(Deserialize)]
struct Lists<'a> {
    #[serde(borrow, default)]
    deny: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    ask: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    allow: Vec<&'a RawValue>,
}

/// Adds the rules of a file and says which could not be used; other keys are none of our business here.
pub(super) fn load(
    rules: &mut RuleSet,
    file: &Path,
    text: &str,
    anchor: &Path,
) -> Result<Vec<RuleProblem>, serde_json::Error> {
    let settings: Settings<'_> = serde_json::from_str(text)?;
    let Some(Lists { deny, ask, allow }) = settings.permissions else { return Ok(Vec::new()) };
    let mut problems = Vec::new();
    for (behavior, list) in [(Behavior::Deny, deny), (Behavior::Ask, ask), (Behavior::Allow, allow)] {
        let mut entries: Vec<(String, RuleSource)> = Vec::with_capacity(list.len());
        for raw in list {
            let source = RuleSource::new(RuleScope::CommandLine, anchor).called("--rules");
            entries.push((serde_json::from_str(raw.get())?, source.in_file(file, line_of(text, raw.get()))));
        }
        problems.extend(rules.load(behavior, entries.iter().map(|(rule, source)| (rule.as_str(), source.clone()))));
    }
    Ok(problems)
}

/// The line on which a part of the text begins.
fn line_of(text: &str, part: &str) -> Option<u32> {
    let at = (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let before = text.get(..at)?;
    u32::try_from(before.bytes().filter(|byte| *byte == b'\n').count() + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_knows_its_line_and_a_bad_one_costs_only_itself() {
        let text = "{\n  \"model\": \"x\",\n  \"permissions\": {\n    \"deny\": [\"Bash(rm *)\",\n      \"Bash(\"],\n    \"allow\": [\n\n\"Edit\"]\n  }\n}";
        let mut rules = RuleSet::default();
        let problems = load(&mut rules, Path::new("/r.json"), text, Path::new("/repo")).unwrap();
        assert_eq!(rules.rules(Behavior::Deny)[0].source.line, Some(4));
        assert_eq!(rules.rules(Behavior::Allow)[0].source.line, Some(8));
        assert_eq!(problems.len(), 1);
        assert!(problems[0].to_string().contains("/r.json:5"), "{}", problems[0]);
    }

    #[test]
    fn what_is_no_settings_file_is_an_error_and_no_rules_are_no_rules() {
        let mut rules = RuleSet::default();
        let mut load = |text: &str| load(&mut rules, Path::new("/r.json"), text, Path::new("/repo"));
        assert!(load("{").is_err() && load(r#"{"permissions":{"allow":"Bash"}}"#).is_err());
        assert!(load(r#"{"permissions":{"allow":[1]}}"#).is_err());
        assert!(load("{}").is_ok_and(|problems| problems.is_empty()));
    }
}
