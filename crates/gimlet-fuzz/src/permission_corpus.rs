//! The permission corpora as seeds: commands and paths with the rules that they are judged by.

use gimlet_policy::Behavior;
use serde_json::Value;

const SHELL: &str = include_str!("../../gimlet-policy/tests/corpus/shell-permissions.jsonl");
const PATHS: &str = include_str!("../../gimlet-policy/tests/corpus/path-permissions.jsonl");

pub(crate) type CorpusRules = Vec<(Behavior, String)>;

pub(crate) struct ShellCorpusRow {
    pub(crate) command: String,
    pub(crate) rules: CorpusRules,
}

pub(crate) struct PathCorpusRow {
    pub(crate) tool: String,
    pub(crate) path: String,
    pub(crate) rules: CorpusRules,
}

pub(crate) fn shell_rows() -> Vec<ShellCorpusRow> {
    parse_rows(SHELL).map(|row| ShellCorpusRow { command: row_text(&row, "command"), rules: row_rules(&row) }).collect()
}

pub(crate) fn path_rows() -> Vec<PathCorpusRow> {
    let row = |row: Value| PathCorpusRow {
        tool: row_text(&row, "tool"),
        path: row_text(&row, "path"),
        rules: row_rules(&row),
    };
    parse_rows(PATHS).map(row).collect()
}

fn parse_rows(corpus: &str) -> impl Iterator<Item = Value> {
    corpus.lines().filter_map(|line| serde_json::from_str(line).ok())
}

fn row_text(row: &Value, key: &str) -> String {
    row[key].as_str().unwrap_or_default().to_owned()
}

fn row_rules(row: &Value) -> CorpusRules {
    let mut found = Vec::new();
    for behavior in [Behavior::Deny, Behavior::Ask, Behavior::Allow] {
        let rules = row["rules"][behavior.as_str()].as_array().into_iter().flatten();
        found.extend(rules.filter_map(Value::as_str).map(|rule| (behavior, rule.to_owned())));
    }
    found
}
