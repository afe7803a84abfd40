//! The permission corpora as seeds: commands and paths with the rules that they are judged by.

use gimlet_policy::Behavior;
use serde_json::Value;

const SHELL: &str = include_str!("../../gimlet-policy/tests/corpus/shell-permissions.jsonl");
const PATHS: &str = include_str!("../../gimlet-policy/tests/corpus/path-permissions.jsonl");

pub(crate) type Rules = Vec<(Behavior, String)>;

pub(crate) struct ShellRow {
    pub(crate) command: String,
    pub(crate) rules: Rules,
}

pub(crate) struct PathRow {
    pub(crate) tool: String,
    pub(crate) path: String,
    pub(crate) rules: Rules,
}

pub(crate) fn shell_rows() -> Vec<ShellRow> {
    rows(SHELL).map(|row| ShellRow { command: text(&row, "command"), rules: rules(&row) }).collect()
}

pub(crate) fn path_rows() -> Vec<PathRow> {
    let row = |row: Value| PathRow { tool: text(&row, "tool"), path: text(&row, "path"), rules: rules(&row) };
    rows(PATHS).map(row).collect()
}

fn rows(corpus: &str) -> impl Iterator<Item = Value> {
    corpus.lines().filter_map(|line| serde_json::from_str(line).ok())
}

fn text(row: &Value, key: &str) -> String {
    row[key].as_str().unwrap_or_default().to_owned()
}

fn rules(row: &Value) -> Rules {
    let mut found = Vec::new();
    for behavior in [Behavior::Deny, Behavior::Ask, Behavior::Allow] {
        let rules = row["rules"][behavior.as_str()].as_array().into_iter().flatten();
        found.extend(rules.filter_map(Value::as_str).map(|rule| (behavior, rule.to_owned())));
    }
    found
}
