//! Batch of questions on standard input, one JSON object a line, answered in order. Each row has its own rules,
//! folders, symlinks and files. Nothing of the real file system is read.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use gimlet_core::tool::{PathContext, PermissionVerdict};
use gimlet_core::{PolicyCall, PolicyInput};
use gimlet_policy::{Behavior, FileTable, RuleScope, RuleSet, RuleSource, SandboxPlacement, Verdict};
use gimlet_proto::{AccessNeed, Env, PermissionMode};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::parsed_call::find_builtin_tool;
use super::{describe_reasons, path_context};
use crate::report::Report;

/// Home directory of rows that name none.
const DEFAULT_HOME: &str = "/home/dev";

/// One question: about a `command`, or about the `path` of a file tool. Rows of a test may carry its answer along.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchRow {
    #[serde(default)]
    id: Value,
    #[serde(default, rename = "kind")]
    _kind: IgnoredAny,
    #[serde(default, rename = "expect")]
    _expect: IgnoredAny,
    #[serde(default, rename = "why")]
    _why: IgnoredAny,
    /// Targets of dangling symlinks; they do not affect the decision.
    #[serde(default, rename = "missing")]
    _missing: IgnoredAny,
    #[serde(default)]
    rules: BatchRules,
    #[serde(default)]
    mode: PermissionMode,
    cwd: PathBuf,
    /// The project's root; by default the working directory.
    root: Option<PathBuf>,
    home: Option<PathBuf>,
    command: Option<String>,
    tool: Option<String>,
    path: Option<PathBuf>,
    #[serde(default)]
    symlinks: HashMap<PathBuf, PathBuf>,
    /// Further files, for patterns and folders to match.
    #[serde(default)]
    files: Vec<PathBuf>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct BatchRules {
    deny: Vec<String>,
    ask: Vec<String>,
    allow: Vec<String>,
}

/// Answers every row; one that cannot be parsed gets an error in its place and sets the exit code.
pub(super) fn run(rows: impl BufRead, mut answers: impl Write) -> Result<ExitCode, Report> {
    let mut understood = true;
    for (at, line) in rows.split(b'\n').enumerate() {
        let line = line.map_err(|error| Report::new(format!("standard input cannot be read: {error}")))?;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let answer = answer_row(&line).unwrap_or_else(|BatchRowError { id, error }| {
            understood = false;
            json!({"id": id, "line": at + 1, "error": error})
        });
        if !crate::record_write_result(writeln!(answers, "{answer}")) {
            // The reader has closed the pipe.
            break;
        }
    }
    Ok(ExitCode::from(if understood { 0 } else { 1 }))
}

struct BatchRowError {
    id: Value,
    error: String,
}

fn answer_row(line: &[u8]) -> Result<Value, BatchRowError> {
    let not_understood = |id, error: &dyn std::fmt::Display| {
        let error = format!("the row is not understood: {error}");
        BatchRowError { id, error }
    };
    let members: Value = serde_json::from_slice(line).map_err(|error| not_understood(Value::Null, &error))?;
    if !members.is_object() {
        return Err(not_understood(Value::Null, &"it is no object"));
    }
    let id = members["id"].clone();
    let row: BatchRow = serde_json::from_value(members).map_err(|error| not_understood(id, &error))?;
    match row.decide() {
        Ok(verdict) => Ok(json!({"id": row.id, "decision": verdict.decision, "because": describe_reasons(&verdict)})),
        Err(error) => Err(BatchRowError { id: row.id, error }),
    }
}

impl BatchRow {
    fn decide(&self) -> Result<Verdict, String> {
        self.check_absolute_paths()?;
        let rules = self.parse_rules()?;
        let paths = self.row_path_context();
        let view = self.file_table();
        let judging = PolicyInput {
            mode: self.mode,
            bypass_reachable: false,
            sandbox_verdict: SandboxPlacement::None,
            rules: &rules,
            paths: &paths,
            readable: &[],
            plan_reviewed: false,
            own: &[],
            governing: &[],
            zsh: false,
            has_sandbox: false,
            view: &view,
        };
        match (&self.command, &self.path) {
            (Some(command), None) => {
                let prepared =
                    find_builtin_tool("Bash").map(|bash| bash.prepare(json!({ "command": command }), &paths));
                match prepared {
                    Some(Ok(prepared)) => Ok(judging.verdict((&prepared).into())),
                    // Input that the tool would reject is still judged by the rules.
                    _ => Ok(judging.verdict(policy_call("Bash", &[AccessNeed::Run(command.clone())]))),
                }
            }
            (None, Some(path)) => {
                let name = self.tool.as_deref().unwrap_or("Read");
                let need = match name {
                    "Read" | "Glob" | "Grep" => AccessNeed::Read(path.clone()),
                    "Edit" | "Write" | "NotebookEdit" => AccessNeed::Write(path.clone()),
                    other => return Err(format!("the tool '{other}' is not one for files")),
                };
                Ok(judging.verdict(policy_call(name, &[need])))
            }
            (Some(_), Some(_)) => Err("the row has both a command and a path".to_owned()),
            (None, None) => Err("the row has neither a command nor a path".to_owned()),
        }
    }

    /// Checks that paths are absolute: no folder of this machine is a base for relative ones.
    fn check_absolute_paths(&self) -> Result<(), String> {
        let places = [("cwd", Some(&self.cwd)), ("root", self.root.as_ref()), ("home", self.home.as_ref())];
        let relative = places.into_iter().find(|(_, place)| place.is_some_and(|place| !place.is_absolute()));
        relative.map_or(Ok(()), |(name, _)| Err(format!("`{name}` is no absolute path")))
    }

    fn parse_rules(&self) -> Result<RuleSet, String> {
        let root = self.root.as_ref().unwrap_or(&self.cwd);
        let source = RuleSource::new(RuleScope::Project, root);
        let mut rules = RuleSet::default();
        let lists = [
            (Behavior::Deny, &self.rules.deny),
            (Behavior::Ask, &self.rules.ask),
            (Behavior::Allow, &self.rules.allow),
        ];
        for (behavior, list) in lists {
            for rule in list {
                rules.add(behavior, rule, &source).map_err(|error| error.to_string())?;
            }
        }
        Ok(rules)
    }

    fn row_path_context(&self) -> PathContext {
        let home = self.home.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_HOME));
        // Rows carry no variables, and this process's variables do not apply to them.
        path_context(self.cwd.clone(), Some(home), Env::default(), Some(Arc::default()))
    }

    /// Returns the symlinks and files of the row; all other paths count as existing and not being symlinks.
    fn file_table(&self) -> FileTable {
        let mut table = FileTable::default();
        self.symlinks.iter().for_each(|(link, target)| table.add_link(link, target));
        self.files.iter().for_each(|file| table.add_file(file));
        table
    }
}

fn policy_call<'a>(tool: &'a str, needs: &'a [AccessNeed]) -> PolicyCall<'a> {
    PolicyCall { tool, also_named: &[], needs, input: None, needs_person: false, own: &PermissionVerdict::Passthrough }
}
