//! `gimlet permissions check`: what would be decided about a call, and why. It runs nothing and asks nobody; only links
//! are looked at, and in a batch not even those. `simulate` asks the same about the calls of past sessions.

mod batch;
mod call;
mod rules_file;
mod simulate;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use call::ReadCall;
use gimlet_config::Severity;
use gimlet_core::tool::PathContext;
use gimlet_core::{Judging, OnDisk};
use gimlet_policy::shell::EnvironmentNames;
use gimlet_policy::{Decision, PartVerdict, Reason, RuleSet, Suggestion, Verdict, Walls};
use gimlet_proto::Env;
use serde_json::{Value, json};

use crate::args::CheckArgs;
use crate::report::Report;
use crate::surroundings::Surroundings;

pub(crate) use simulate::run as simulate;

/// Answers one question, or the rows of a batch.
pub(crate) fn check(args: &CheckArgs) -> Result<ExitCode, Report> {
    if args.batch {
        return batch::run(std::io::stdin().lock(), std::io::stdout());
    }
    let around = Surroundings::read()?;
    let from = around.cwd.clone();
    let cwd = working_directory(args.cwd.as_deref(), &around.cwd)?;
    let around = Surroundings { cwd: cwd.clone(), ..around };
    let InForce { rules: in_force, roots, sandboxed, mut warnings } =
        if args.rules.is_empty() { in_force(&around) } else { InForce::default() };
    let (rules, remarks) = rules(in_force, &args.rules, &from, &cwd)?;
    warnings.extend(remarks);
    if sandboxed && (args.command.is_some() || args.tool.as_deref() == Some("Bash")) {
        warnings.push("sandbox.enabled is on: a session would run this command inside the sandbox, where it may need no question; this is the answer without one".to_owned());
    }
    let own = crate::start::own_folders(&around);
    let governing = crate::settings::locations(&around).governing();
    let environment = known_names(&around.env);
    let mut paths = places(cwd, around.home, around.env, environment);
    paths.roots.extend(roots);
    let call = read_call(args, &paths)?;
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
        zsh: gimlet_exec::runs_zsh(&paths.env),
        walled: sandboxed,
        view: &OnDisk,
    };
    let verdict = judging.verdict(call.judged());
    let answer = Answer {
        suggestions: judging.suggestions(call.judged()),
        parts: several(judging.parts(call.judged())),
        verdict,
        warnings,
    };
    if args.json {
        crate::say(&answer.as_json().to_string());
    } else {
        answer.warnings.iter().for_each(|warning| crate::say_on_stderr(&format!("gimlet: {warning}")));
        crate::say(&answer.as_text());
    }
    Ok(exit_code(answer.verdict.decision))
}

/// What a session in this folder would begin with.
#[derive(Default)]
struct InForce {
    rules: RuleSet,
    /// Further folders to work in.
    roots: Vec<PathBuf>,
    sandboxed: bool,
    /// What of the settings does not count, with file and line.
    warnings: Vec<String>,
}

fn in_force(around: &Surroundings) -> InForce {
    let found = crate::config_cmd::find(around);
    let effective = &found.effective;
    let mut rules = RuleSet::default();
    let bad_rules = crate::settings::add_rules(&mut rules, effective);
    let rules = crate::settings::in_force(rules, &found.loaded, effective);
    let problems = found.loaded.problems.iter().chain(&effective.problems);
    // Whatever is wrong with a file may have cost a rule.
    let pressing = problems.filter(|problem| {
        let about_rules = problem.severity == Severity::Warning && problem.key.starts_with("permissions.");
        problem.severity == Severity::Error || about_rules
    });
    let mut warnings: Vec<String> = pressing.map(ToString::to_string).collect();
    warnings.extend(bad_rules.iter().map(ToString::to_string));
    warnings.extend(found.loaded.policy_helper().map(|helper| {
        let place = found.loaded.locations.managed_file();
        let (place, program) = (place.display(), helper.path);
        format!("{place}: policyHelper: a session asks {program} for managed settings; this is the answer without them")
    }));
    let (roots, missing) = crate::settings::directories(effective, around);
    warnings.extend(missing.iter().map(ToString::to_string));
    warnings.extend(gimlet_config::withheld_line(&effective.withheld, &found.store.trust()));
    InForce { rules, roots, sandboxed: effective.settings.sandbox.enabled == Some(true), warnings }
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
    crate::lookup::folder(wanted, current).map_err(|why| Report::new(format!("--cwd {why}")))
}

/// The variables that a command would begin with, if they are known.
fn known_names(env: &Env) -> Option<Arc<EnvironmentNames>> {
    let known = gimlet_exec::known_environment(env)?;
    Some(Arc::new(EnvironmentNames::new(known.iter().map(|(name, _)| name))))
}

fn places(cwd: PathBuf, home: Option<PathBuf>, env: Env, environment: Option<Arc<EnvironmentNames>>) -> PathContext {
    PathContext { project_dir: cwd.clone(), roots: vec![cwd.clone()], cwd, home, env, environment }
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
        warnings.extend(problems);
    }
    let known: Vec<&str> = crate::start::known_tools().collect();
    warnings.extend(rules.remarks(&known).iter().map(ToString::to_string));
    warnings.extend(rules.unreachable().iter().map(ToString::to_string));
    Ok((rules, warnings))
}

/// The call, read by the very tool that would run it.
fn read_call(args: &CheckArgs, paths: &PathContext) -> Result<ReadCall, Report> {
    let (name, input) = match (&args.command, &args.tool) {
        (Some(command), _) => ("Bash", json!({ "command": command })),
        (None, Some(name)) => (name.as_str(), input(args.input.as_deref())?),
        (None, None) => {
            return Err(Report::new("there is nothing to check").hint("Give --command, --tool or --batch"));
        }
    };
    crate::start::known_tool(name, "--tool")?;
    let flag = if args.command.is_some() { "--command" } else { "--input" };
    ReadCall::new(name, input, paths).map_err(|why| {
        // The tool's words are for a model, which is told a kind and a number besides.
        let why = why.trim_start_matches("InputValidationError: ");
        let why = why.rsplit_once(" (code ").filter(|(_, end)| end.ends_with(')')).map_or(why, |(why, _)| why);
        Report::new(format!("{flag}: {why}"))
    })
}

fn input(text: Option<&str>) -> Result<Value, Report> {
    let text = text.unwrap_or("{}");
    serde_json::from_str(text).map_err(|error| Report::new(format!("--input is not JSON: {error}")))
}

/// What is answered.
struct Answer {
    verdict: Verdict,
    /// Of a command that has more than one part.
    parts: Vec<PartVerdict>,
    suggestions: Vec<Suggestion>,
    warnings: Vec<String>,
}

/// The parts of a call, where there is something to tell apart.
fn several(parts: Vec<PartVerdict>) -> Vec<PartVerdict> {
    if parts.len() > 1 { parts } else { Vec::new() }
}

impl Answer {
    fn as_json(&self) -> Value {
        let suggested =
            self.suggestions.iter().map(|suggestion| json!({"covers": suggestion.covers, "update": suggestion.update}));
        let part = |part: &PartVerdict| json!({"part": part.part, "decision": part.decision, "because": part.reason.describe(), "reason": part.reason});
        let mut answer = json!({
            "decision": self.verdict.decision,
            "because": because(&self.verdict),
            "reasons": self.verdict.reasons,
            "suggestions": suggested.collect::<Vec<Value>>(),
            "warnings": self.warnings,
        });
        if !self.parts.is_empty() {
            answer["parts"] = self.parts.iter().map(part).collect();
        }
        answer
    }

    fn as_text(&self) -> String {
        let mut lines = vec![self.verdict.decision.to_string()];
        // The list of parts says the same, part by part.
        let told_below = |reason: &&Reason| matches!(reason, Reason::Unmatched { .. }) && !self.parts.is_empty();
        let reasons = self.verdict.reasons.iter().filter(|reason| !told_below(reason));
        lines.extend(reasons.map(|reason| format!("  because {}", reason.describe())));
        if !self.parts.is_empty() {
            lines.push("  part by part:".to_owned());
        }
        for PartVerdict { part, decision, reason } in &self.parts {
            lines.push(format!("    {:<5}  {part}\n           {}", decision.as_str(), reason.describe()));
        }
        lines.extend(self.suggestions.iter().map(|suggestion| format!("  would be allowed by {}", suggestion.covers)));
        // Paths and rules are shown as they are written, and they may come from anywhere.
        gimlet_serve::sanitise(&lines.join("\n")).into_owned()
    }
}

fn because(verdict: &Verdict) -> Vec<String> {
    verdict.reasons.iter().map(Reason::describe).collect()
}
