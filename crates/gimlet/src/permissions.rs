//! `gimlet permissions check`: what would be decided about a call, and why. It runs nothing and asks nobody; only links
//! are looked at, and in a batch not even those. `simulate` asks the same about the calls of past sessions.

mod batch;
mod rules_file;
mod simulate;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use gimlet_core::tool::{AnyTool, PathContext, Prepared, nearest};
use gimlet_core::{Judging, OnDisk};
use gimlet_policy::{Decision, Reason, RuleSet, Suggestion, Verdict, Walls};
use gimlet_proto::Env;
use serde_json::{Value, json};

use crate::args::CheckArgs;
use crate::report::Report;
use crate::surroundings::Surroundings;

pub(crate) use simulate::run as simulate;

/// Answers one question, or the rows of a batch.
pub(crate) fn check(args: &CheckArgs) -> Result<ExitCode, Report> {
    if args.batch {
        return batch::run(std::io::stdin().lock(), std::io::stdout().lock());
    }
    let around = Surroundings::read()?;
    let from = around.cwd.clone();
    let cwd = working_directory(args.cwd.as_deref(), &around.cwd)?;
    let around = Surroundings { cwd: cwd.clone(), ..around };
    let (in_force, roots, sandboxed) =
        if args.rules.is_empty() { in_force(&around) } else { (RuleSet::default(), Vec::new(), false) };
    let (rules, mut warnings) = rules(in_force, &args.rules, &from, &cwd)?;
    if sandboxed && (args.command.is_some() || args.tool.as_deref() == Some("Bash")) {
        warnings.push("sandbox.enabled is on: a session would run this command inside the sandbox, where it may need no question; this is the answer without one".to_owned());
    }
    let own = crate::start::own_folders(&around);
    let governing = crate::settings::locations(&around).governing();
    let mut paths = places(cwd, around.home, around.env);
    paths.roots.extend(roots);
    let prepared = prepare(args, &paths)?;
    let judging = Judging {
        mode: args.mode.unwrap_or_default(),
        bypass_reachable: false,
        walls: Walls::None,
        rules: &rules,
        paths: &paths,
        readable: &[],
        plan_reviewed: false,
        own: &own,
        governing: &governing,
        walled: sandboxed,
        view: &OnDisk,
    };
    let verdict = judging.verdict((&prepared).into());
    let suggestions = judging.suggestions((&prepared).into());
    if args.json {
        crate::say(&as_json(&verdict, &suggestions, &warnings).to_string());
    } else {
        warnings.iter().for_each(|warning| crate::say_on_stderr(&format!("gimlet: {warning}")));
        crate::say(&as_text(&verdict, &suggestions));
    }
    Ok(exit_code(verdict.decision))
}

/// The rules and further folders that a session in this folder would begin with, and whether it had a sandbox.
fn in_force(around: &Surroundings) -> (RuleSet, Vec<PathBuf>, bool) {
    let effective = crate::config_cmd::find(around).effective;
    let mut rules = RuleSet::default();
    // What is wrong with them is the doctor's to say.
    crate::settings::add_rules(&mut rules, &effective);
    let sandboxed = effective.settings.sandbox.enabled == Some(true);
    (rules, crate::settings::directories(&effective, around).0, sandboxed)
}

/// Scripts tell the outcomes apart by these; 1 is for questions that could not be understood.
fn exit_code(decision: Decision) -> ExitCode {
    ExitCode::from(match decision {
        Decision::Allow => 0,
        Decision::Ask => 3,
        Decision::Deny => 4,
    })
}

fn working_directory(wanted: Option<&Path>, current: &Path) -> Result<PathBuf, Report> {
    let Some(wanted) = wanted else { return Ok(current.to_owned()) };
    let real = current.join(wanted).canonicalize().ok().filter(|real| real.is_dir());
    real.ok_or_else(|| Report::new(format!("--cwd {}: there is no such folder", wanted.display())))
}

fn places(cwd: PathBuf, home: Option<PathBuf>, env: Env) -> PathContext {
    PathContext { project_dir: cwd.clone(), roots: vec![cwd.clone()], cwd, home, env }
}

/// Adds the rules of all files, and says what is to be said about them. A leading `/` stands for the folder that is
/// asked about.
fn rules(
    mut rules: RuleSet,
    files: &[PathBuf],
    current: &Path,
    anchor: &Path,
) -> Result<(RuleSet, Vec<String>), Report> {
    let mut warnings = Vec::new();
    for file in files {
        let file = current.join(file);
        let text = std::fs::read_to_string(&file)
            .map_err(|error| Report::new(format!("--rules {}: it cannot be read: {error}", file.display())))?;
        let problems = rules_file::load(&mut rules, &file, &text, anchor)
            .map_err(|error| Report::new(format!("--rules {}: {error}", file.display())))?;
        warnings.extend(problems.iter().map(ToString::to_string));
    }
    let known: Vec<&str> = crate::start::known_tools().collect();
    warnings.extend(rules.remarks(&known).iter().map(ToString::to_string));
    warnings.extend(rules.unreachable().iter().map(ToString::to_string));
    Ok((rules, warnings))
}

/// The call, read by the very tool that would run it.
fn prepare(args: &CheckArgs, paths: &PathContext) -> Result<Prepared, Report> {
    let (name, input) = match (&args.command, &args.tool) {
        (Some(command), _) => ("Bash", json!({ "command": command })),
        (None, Some(name)) => (name.as_str(), input(args.input.as_deref())?),
        (None, None) => {
            return Err(Report::new("there is nothing to check").hint("Give --command, --tool or --batch"));
        }
    };
    tool(name)?.prepare(input, paths).map_err(|error| Report::new(format!("--input: {}", error.model_text)))
}

fn input(text: Option<&str>) -> Result<Value, Report> {
    let text = text.unwrap_or("{}");
    serde_json::from_str(text).map_err(|error| Report::new(format!("--input is not JSON: {error}")))
}

fn tool(name: &str) -> Result<&'static dyn AnyTool, Report> {
    let tools = gimlet_tools::builtin();
    let found = tools.iter().find(|tool| tool.name() == name || tool.aliases().contains(&name));
    found.copied().ok_or_else(|| {
        let report = Report::new(format!("--tool: there is no tool named '{name}'"));
        match nearest(name, tools.iter().map(|tool| tool.name())) {
            Some(close) => report.hint(format!("Did you mean {close}?")),
            None => report.hint("See docs/tools.md for the tools there are"),
        }
    })
}

fn as_json(verdict: &Verdict, suggestions: &[Suggestion], warnings: &[String]) -> Value {
    let suggested =
        suggestions.iter().map(|suggestion| json!({"covers": suggestion.covers, "update": suggestion.update}));
    json!({
        "decision": verdict.decision,
        "because": because(verdict),
        "reasons": verdict.reasons,
        "suggestions": suggested.collect::<Vec<Value>>(),
        "warnings": warnings,
    })
}

fn as_text(verdict: &Verdict, suggestions: &[Suggestion]) -> String {
    let mut lines = vec![verdict.decision.to_string()];
    lines.extend(because(verdict).iter().map(|reason| format!("  because {reason}")));
    lines.extend(suggestions.iter().map(|suggestion| format!("  would be allowed by {}", suggestion.covers)));
    // Paths and rules are shown as they are written, and they may come from anywhere.
    gimlet_serve::sanitise(&lines.join("\n")).into_owned()
}

fn because(verdict: &Verdict) -> Vec<String> {
    verdict.reasons.iter().map(Reason::describe).collect()
}
