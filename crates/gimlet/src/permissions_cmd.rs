//! `gimlet permissions check`: the decision about a call, and its reasons. It runs nothing and asks no questions; it
//! only resolves symlinks, and in a batch not even those. `simulate` does this for the calls of past sessions.

mod check_batch;
mod parsed_call;
mod rules_file;
mod simulation;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use gimlet_app::ProcessEnv;
use gimlet_config::ProblemSeverity;
use gimlet_core::tool::PathContext;
use gimlet_core::{DiskFileView, PolicyInput};
use gimlet_policy::shell::EnvironmentNames;
use gimlet_policy::{Decision, PartVerdict, PermissionSuggestion, RuleSet, SandboxPlacement, Verdict, VerdictReason};
use gimlet_proto::Env;
pub(crate) use parsed_call::{ParsedCall, find_builtin_tool};
use serde_json::{Value, json};

use crate::args::CheckArgs;
use crate::report::Report;

pub(crate) use simulation::{describe_rule_effect, run as simulate};

/// Answers one question, or the rows of a batch.
pub(crate) fn check_call(args: &CheckArgs) -> Result<ExitCode, Report> {
    if args.batch {
        return check_batch::run(std::io::stdin().lock(), std::io::stdout());
    }
    let around = crate::environment::read_process_env()?;
    let from = around.cwd.clone();
    let cwd = resolve_cwd(args.cwd.as_deref(), &around.cwd)?;
    let around = ProcessEnv { cwd: cwd.clone(), ..around };
    let FolderPolicy { rules: in_force, roots, sandboxed, mut warnings } =
        if args.rules.is_empty() { read_folder_policy(&around) } else { FolderPolicy::default() };
    let (rules, remarks) = load_rule_files(in_force, &args.rules, &from, &cwd)?;
    warnings.extend(remarks);
    if sandboxed && (args.command.is_some() || args.tool.as_deref() == Some("Bash")) {
        warnings.push("sandbox.enabled is on: a session would run this command inside the sandbox, where it may need no question; this is the answer without one".to_owned());
    }
    let own = gimlet_app::start::session_folders(&around);
    let governing = gimlet_app::settings_mapping::find_locations(&around).permission_files();
    let environment = inherited_variable_names(&around.env);
    let mut paths = path_context(cwd, around.home, around.env, environment);
    paths.roots.extend(roots);
    let call = parse_call(args, &paths)?;
    let judging = PolicyInput {
        mode: args.mode.unwrap_or_default(),
        bypass_reachable: false,
        sandbox_verdict: SandboxPlacement::None,
        rules: &rules,
        paths: &paths,
        readable: &[],
        plan_reviewed: false,
        own: &own,
        governing: &governing,
        zsh: gimlet_exec::runs_zsh(&paths.env),
        has_sandbox: sandboxed,
        view: &DiskFileView,
    };
    let verdict = judging.verdict(call.to_policy_call());
    let answer = CheckAnswer {
        suggestions: judging.suggestions(call.to_policy_call()),
        parts: keep_if_several(judging.part_verdicts(call.to_policy_call())),
        verdict,
        warnings,
    };
    if args.json {
        crate::print_line(&answer.to_json().to_string());
    } else {
        answer.warnings.iter().for_each(|warning| crate::print_error_line(&format!("gimlet: {warning}")));
        crate::print_line(&answer.to_text());
    }
    Ok(exit_code(answer.verdict.decision))
}

/// Policy that a session in this folder would start with.
#[derive(Default)]
struct FolderPolicy {
    rules: RuleSet,
    /// Further folders to work in.
    roots: Vec<PathBuf>,
    sandboxed: bool,
    /// Settings that have no effect, with file and line.
    warnings: Vec<String>,
}

fn read_folder_policy(around: &ProcessEnv) -> FolderPolicy {
    let found = crate::config_cmd::find(around);
    let effective = &found.effective;
    let mut rules = RuleSet::default();
    let bad_rules = gimlet_app::settings_mapping::add_rules(&mut rules, effective);
    let rules = gimlet_app::settings_mapping::apply_managed_limits(rules, &found.loaded, effective);
    let problems = found.loaded.problems.iter().chain(&effective.problems);
    // Any problem with a file may have dropped a rule.
    let pressing = problems.filter(|problem| {
        let about_rules = problem.severity == ProblemSeverity::Warning && problem.key.starts_with("permissions.");
        problem.severity == ProblemSeverity::Error || about_rules
    });
    let mut warnings: Vec<String> = pressing.map(ToString::to_string).collect();
    warnings.extend(bad_rules.iter().map(ToString::to_string));
    warnings.extend(found.loaded.policy_helper().map(|helper| {
        let place = found.loaded.locations.managed_file();
        let (place, program) = (place.display(), helper.path);
        format!("{place}: policyHelper: a session asks {program} for managed settings; this is the answer without them")
    }));
    let (roots, missing) = gimlet_app::settings_mapping::additional_directories(effective, around);
    warnings.extend(missing.iter().map(ToString::to_string));
    warnings.extend(gimlet_config::describe_withheld(&effective.withheld, &found.store.load_trust()));
    FolderPolicy { rules, roots, sandboxed: effective.settings.sandbox.enabled == Some(true), warnings }
}

/// Returns the exit code by which scripts distinguish decisions; 1 is for invalid questions.
fn exit_code(decision: Decision) -> ExitCode {
    ExitCode::from(match decision {
        Decision::Allow => 0,
        Decision::Ask => 3,
        Decision::Deny => 4,
    })
}

fn resolve_cwd(wanted: Option<&Path>, current: &Path) -> Result<PathBuf, Report> {
    let Some(wanted) = wanted else { return Ok(current.to_owned()) };
    gimlet_app::session_lookup::folder(wanted, current).map_err(|why| Report::new(format!("--cwd {why}")))
}

/// Returns the names of the variables that a command would inherit, if they are known.
fn inherited_variable_names(env: &Env) -> Option<Arc<EnvironmentNames>> {
    let known = gimlet_exec::known_environment(env)?;
    Some(Arc::new(EnvironmentNames::new(known.iter().map(|(name, _)| name))))
}

fn path_context(
    cwd: PathBuf,
    home: Option<PathBuf>,
    env: Env,
    environment: Option<Arc<EnvironmentNames>>,
) -> PathContext {
    PathContext {
        project_dir: cwd.clone(),
        roots: vec![cwd.clone()],
        cwd,
        home,
        env,
        environment,
        skills: Arc::default(),
    }
}

/// Returns the paths of a session that starts in this folder.
pub(crate) fn folder_paths(around: &ProcessEnv) -> PathContext {
    let environment = inherited_variable_names(&around.env);
    path_context(around.cwd.clone(), around.home.clone(), around.env.clone(), environment)
}

/// Adds the rules of all files and collects warnings about them. A leading `/` stands for the folder in question.
fn load_rule_files(
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
        let problems = rules_file::load_rules(&mut rules, &file, &text, anchor)
            .map_err(|error| Report::new(format!("--rules {}: {error}", file.display())))?;
        warnings.extend(problems);
    }
    let known: Vec<&str> = gimlet_app::start::known_tools().collect();
    warnings.extend(rules.collect_remarks(&known).iter().map(ToString::to_string));
    warnings.extend(rules.find_unreachable().iter().map(ToString::to_string));
    Ok((rules, warnings))
}

/// Parses the call with the tool that would run it.
fn parse_call(args: &CheckArgs, paths: &PathContext) -> Result<ParsedCall, Report> {
    let (name, input) = match (&args.command, &args.tool) {
        (Some(command), _) => ("Bash", json!({ "command": command })),
        (None, Some(name)) => (name.as_str(), parse_input(args.input.as_deref())?),
        (None, None) => {
            return Err(Report::new("there is nothing to check").with_hint("Give --command, --tool or --batch"));
        }
    };
    gimlet_app::start::check_tool_name(name, "--tool")?;
    let flag = if args.command.is_some() { "--command" } else { "--input" };
    ParsedCall::new(name, input, paths).map_err(|why| {
        // The prefix of the tool's message is meant for models.
        let why = why.trim_start_matches("InputValidationError: ");
        let why = why.rsplit_once(" (code ").filter(|(_, end)| end.ends_with(')')).map_or(why, |(why, _)| why);
        Report::new(format!("{flag}: {why}"))
    })
}

fn parse_input(text: Option<&str>) -> Result<Value, Report> {
    let text = text.unwrap_or("{}");
    serde_json::from_str(text).map_err(|error| Report::new(format!("--input is not JSON: {error}")))
}

/// Answer to a check.
struct CheckAnswer {
    verdict: Verdict,
    /// Verdicts on the parts of a command that has several.
    parts: Vec<PartVerdict>,
    suggestions: Vec<PermissionSuggestion>,
    warnings: Vec<String>,
}

/// Returns the parts of a call if there are several, else none.
fn keep_if_several(parts: Vec<PartVerdict>) -> Vec<PartVerdict> {
    if parts.len() > 1 { parts } else { Vec::new() }
}

impl CheckAnswer {
    fn to_json(&self) -> Value {
        let suggested =
            self.suggestions.iter().map(|suggestion| json!({"covers": suggestion.covers, "update": suggestion.update}));
        let part = |part: &PartVerdict| json!({"part": part.part, "decision": part.decision, "because": part.reason.describe(), "reason": part.reason});
        let mut answer = json!({
            "decision": self.verdict.decision,
            "because": describe_reasons(&self.verdict),
            "reasons": self.verdict.reasons,
            "suggestions": suggested.collect::<Vec<Value>>(),
            "warnings": self.warnings,
        });
        if !self.parts.is_empty() {
            answer["parts"] = self.parts.iter().map(part).collect();
        }
        answer
    }

    fn to_text(&self) -> String {
        let mut lines = vec![self.verdict.decision.to_string()];
        // The list of parts repeats it, part by part.
        let told_below =
            |reason: &&VerdictReason| matches!(reason, VerdictReason::Unmatched { .. }) && !self.parts.is_empty();
        let reasons = self.verdict.reasons.iter().filter(|reason| !told_below(reason));
        lines.extend(reasons.map(|reason| format!("  because {}", reason.describe())));
        if !self.parts.is_empty() {
            lines.push("  part by part:".to_owned());
        }
        for PartVerdict { part, decision, reason } in &self.parts {
            lines.push(format!("    {:<5}  {part}\n           {}", decision.as_str(), reason.describe()));
        }
        lines.extend(self.suggestions.iter().map(|suggestion| format!("  would be allowed by {}", suggestion.covers)));
        // Paths and rules are untrusted text.
        gimlet_serve::sanitise(&lines.join("\n")).into_owned()
    }
}

fn describe_reasons(verdict: &Verdict) -> Vec<String> {
    verdict.reasons.iter().map(VerdictReason::describe).collect()
}
