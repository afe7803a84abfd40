//! The rules of a settings file, each with its line number.

use std::collections::BTreeMap;
use std::path::Path;

use gimlet_policy::{Behavior, RuleScope, RuleSet, RuleSource};
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct RulesFile<'a> {
    #[serde(borrow, default)]
    permissions: Option<RulesFileLists<'a>>,
}

#[derive(Deserialize)]
struct RulesFileLists<'a> {
    #[serde(borrow, default)]
    deny: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    ask: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    allow: Vec<&'a RawValue>,
}

/// Adds the rules of a file and reports unusable rules and unknown keys; other settings are ignored here.
pub(super) fn load_rules(
    rules: &mut RuleSet,
    file: &Path,
    text: &str,
    anchor: &Path,
) -> Result<Vec<String>, serde_json::Error> {
    let settings: RulesFile<'_> = serde_json::from_str(text)?;
    let mut problems = find_unknown_keys(file, text)?;
    let Some(RulesFileLists { deny, ask, allow }) = settings.permissions else { return Ok(problems) };
    for (behavior, list) in [(Behavior::Deny, deny), (Behavior::Ask, ask), (Behavior::Allow, allow)] {
        let mut entries: Vec<(String, RuleSource)> = Vec::with_capacity(list.len());
        for raw in list {
            let source = RuleSource::new(RuleScope::CommandLine, anchor).with_label("--rules");
            let line = line_number(text, raw.get());
            let rule = serde_json::from_str(raw.get()).map_err(|_| {
                let line = line.map(|line| format!(" at line {line}")).unwrap_or_default();
                serde_json::Error::custom(format!("permissions.{behavior}: a rule is a text, and {raw} is none{line}"))
            })?;
            entries.push((rule, source.in_file(file, line)));
        }
        let bad = rules.load(behavior, entries.iter().map(|(rule, source)| (rule.as_str(), source.clone())));
        problems.extend(bad.iter().map(ToString::to_string));
    }
    Ok(problems)
}

/// Returns warnings about rules under unknown keys, which have no effect.
fn find_unknown_keys(file: &Path, text: &str) -> Result<Vec<String>, serde_json::Error> {
    let top: BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
    let below = top.get("permissions").map(|value| value.get());
    let below: BTreeMap<String, &RawValue> =
        below.and_then(|below| serde_json::from_str(below).ok()).unwrap_or_default();
    let named = top.into_iter().map(|(name, value)| ("", name, value));
    let named = named.chain(below.into_iter().map(|(name, value)| ("permissions.", name, value)));
    let problem = |(above, name, value): (&str, String, &RawValue)| {
        let path = format!("{above}{name}");
        let is_known = gimlet_config::find_key(&path).is_some() || gimlet_config::is_group(&path) || path == "$schema";
        let why = match name.contains('.') {
            true => gimlet_config::DOTTED_KEY.to_owned(),
            false if is_known => return None,
            false => {
                let meant = gimlet_config::suggest_key(&path).map(|name| format!("; did you mean {name}?"));
                format!("gimlet does not know this key{}", meant.unwrap_or_default())
            }
        };
        let line = line_number(text, value.get()).map(|line| format!(":{line}")).unwrap_or_default();
        Some(format!("{}{line}: {path}: {why}", file.display()))
    };
    Ok(named.filter_map(problem).collect())
}

/// Returns the line on which a part of the text begins.
fn line_number(text: &str, part: &str) -> Option<u32> {
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
        let problems = load_rules(&mut rules, Path::new("/r.json"), text, Path::new("/repo")).unwrap();
        assert_eq!(rules.rules(Behavior::Deny)[0].source.line, Some(4));
        assert_eq!(rules.rules(Behavior::Allow)[0].source.line, Some(8));
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("/r.json:5"), "{}", problems[0]);
    }

    #[test]
    fn keys_that_nobody_knows_are_named() {
        for (text, said) in [
            (
                r#"{"permission": {"deny": ["Edit"]}}"#,
                "/r.json:1: permission: gimlet does not know this key; did you mean permissions?",
            ),
            (r#"{"deny": ["Edit"]}"#, "/r.json:1: deny: gimlet does not know this key; did you mean permissions.deny?"),
            (
                "{\"permissions\": {\n\"dney\": []}}",
                "/r.json:2: permissions.dney: gimlet does not know this key; did you mean permissions.deny?",
            ),
            (
                r#"{"permissions.deny": ["Edit"]}"#,
                "/r.json:1: permissions.deny: ignored: a key has no dots in its name; what belongs to another key stands in its braces",
            ),
            (r#"{"theirs": 1}"#, "/r.json:1: theirs: gimlet does not know this key"),
        ] {
            let said_of = load_rules(&mut RuleSet::default(), Path::new("/r.json"), text, Path::new("/repo")).unwrap();
            assert_eq!(said_of, [said], "{text}");
        }
        for (text, said) in [
            ("[]", "expected a map"),
            ("{\"permissions\": {\"deny\":\n[5]}}", "permissions.deny: a rule is a text, and 5 is none at line 2"),
        ] {
            let error =
                load_rules(&mut RuleSet::default(), Path::new("/r.json"), text, Path::new("/repo")).unwrap_err();
            assert!(error.to_string().contains(said), "{text}: {error}");
        }
        let known = r#"{"$schema": "x", "model": "x", "env": {"A": "1"}, "permissions": {"defaultMode": "plan"}}"#;
        let said = load_rules(&mut RuleSet::default(), Path::new("/r.json"), known, Path::new("/repo")).unwrap();
        assert!(said.is_empty(), "{said:?}");
    }

    #[test]
    fn what_is_no_settings_file_is_an_error_and_no_rules_are_no_rules() {
        let mut rules = RuleSet::default();
        let mut load = |text: &str| load_rules(&mut rules, Path::new("/r.json"), text, Path::new("/repo"));
        assert!(load("{").is_err() && load(r#"{"permissions":{"allow":"Bash"}}"#).is_err());
        assert!(load(r#"{"permissions":{"allow":[1]}}"#).is_err());
        assert!(load("{}").is_ok_and(|problems| problems.is_empty()));
    }
}
