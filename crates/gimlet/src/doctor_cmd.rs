//! `gimlet doctor`: reports problems and what gimlet found. Read-only; it changes and starts nothing.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use gimlet_app::start::{AgentCatalogue, CataloguedHook, HookCatalogue, HookState, SessionSettings, SkillCatalogue};
use gimlet_app::{LaunchRequest, ProcessEnv, settings_mapping};
use gimlet_config::{
    IdleKey, KeyEffect, PluginError, ProblemSeverity, RuleLine, SettingsProblem, SourcedValue, TrustStore,
};
use gimlet_model::ProviderConfigError;
use gimlet_policy::{Behavior, Rule, RuleRemark, RuleSet};
use serde_json::{Value, json};

use crate::config_cmd::{self, SettingsSnapshot};
use crate::{first_run, memory_list};

/// Result of the check for one program that gimlet uses.
struct ProgramCheck {
    name: &'static str,
    path: Option<PathBuf>,
    needed: bool,
    /// Feature that is missing without it.
    without: &'static str,
}

/// Runs all checks; the exit code is a failure if something is broken.
pub(crate) fn run(around: &ProcessEnv, as_json: bool) -> ExitCode {
    let (page, is_broken) = examine(around, as_json);
    crate::print_line(&gimlet_serve::sanitise(&page));
    if is_broken { ExitCode::from(1) } else { ExitCode::SUCCESS }
}

/// Runs all checks and returns the report as text.
pub(crate) fn report_text(around: &ProcessEnv) -> String {
    examine(around, false).0
}

/// Runs all checks; returns the report, and true if something is broken.
fn examine(around: &ProcessEnv, as_json: bool) -> (String, bool) {
    let found = config_cmd::find(around);
    let mut problems = found.loaded.problems.clone();
    problems.extend(found.effective.problems.iter().cloned());
    problems.extend(
        found.effective.rules.iter().filter_map(|rule| check_unknown_tool(rule).or_else(|| check_rule_syntax(rule))),
    );
    problems.extend(find_ineffective_rules(&found));
    problems.extend(found.effective.rules.iter().filter_map(check_rule_path));
    problems.extend(find_unused_rules(&found));
    problems.extend(gimlet_config::state_file_problem(&found.loaded.locations));
    problems.extend(note_policy_helper(&found));
    problems.extend(settings_mapping::additional_directories(&found.effective, around).1);
    problems.extend(find_unusable_hooks(around));
    problems.extend(find_agent_problems(around));
    problems.extend(find_style_problems(around));
    problems.extend(find_skill_problems(around));
    problems.extend(find_plugin_problems(around));
    problems.extend(check_config_home(&around.config_home));
    problems.extend(memory_list::find_memory_problems(around));
    problems.sort_by_key(|problem| std::cmp::Reverse(problem.severity));
    let programs = check_programs(around, found.loaded.locations.project_root());
    let broken = problems.iter().any(|problem| problem.severity == ProblemSeverity::Error)
        || programs.iter().any(|program| program.needed && program.path.is_none());
    let credential = describe_credential(around, &found);
    let page = match as_json {
        true => render_json(&found, &problems, &programs, &credential),
        false => render_text(&found, &problems, &programs, &credential),
    };
    (page, broken)
}

/// Describes the credential that a session would use, if any. It is not checked with the server.
fn describe_credential(around: &ProcessEnv, found: &SettingsSnapshot) -> String {
    match first_run::check_credentials_with(around, &found.effective) {
        Ok(()) => "a credential is there".to_owned(),
        Err(ProviderConfigError::MissingCredential { .. }) => {
            "no API key. Run 'gimlet' for setup instructions, or 'gimlet demo', which needs none".to_owned()
        }
        Err(error) => error.to_string(),
    }
}

/// Returns a problem for each hook that is never called although its author expects it.
fn find_unusable_hooks(around: &ProcessEnv) -> Vec<SettingsProblem> {
    // What keeps the settings from being read at all is reported elsewhere.
    let Ok(catalogue) = HookCatalogue::read(&LaunchRequest::default(), around) else { return Vec::new() };
    let problem = |hook: CataloguedHook| {
        let severity = match hook.state {
            HookState::Unusable(_) => ProblemSeverity::Warning,
            HookState::NotFired => ProblemSeverity::Info,
            HookState::Runs | HookState::WaitsForTrust | HookState::SwitchedOff | HookState::Repeated => return None,
        };
        Some(SettingsProblem {
            severity,
            file: hook.line.origin.file,
            line: Some(hook.line.origin.line),
            column: None,
            key: format!("hooks.{}", hook.line.event),
            message: format!("this hook is {}", hook.state.describe()),
        })
    };
    catalogue.hooks.into_iter().filter_map(problem).collect()
}

/// Describes a problem of a document.
fn document_warning(file: PathBuf, line: Option<usize>, message: String) -> SettingsProblem {
    SettingsProblem { severity: ProblemSeverity::Warning, file, line, column: None, key: String::new(), message }
}

/// Returns the problems of agent files: those that are not used, and fields that have no effect.
fn find_agent_problems(around: &ProcessEnv) -> Vec<SettingsProblem> {
    let Ok(catalogue) = AgentCatalogue::read(&LaunchRequest::default(), around) else { return Vec::new() };
    let mut problems = catalogue.problems;
    for skipped in catalogue.skipped {
        problems.push(document_warning(
            skipped.path,
            skipped.line,
            format!("this agent is not used: {}", skipped.reason),
        ));
    }
    for agent in catalogue.agents {
        let Some(file) = agent.file else { continue };
        let name = &agent.kind.name;
        if let Some(why) = agent.unused {
            problems.push(document_warning(file.clone(), None, format!("the agent {name} is not used: {why}")));
        }
        for entry in agent.unknown_tools {
            problems.push(document_warning(
                file.clone(),
                None,
                format!("the agent {name} names '{entry}', which is no tool"),
            ));
        }
    }
    problems
}

/// Returns the problems of output styles: files that are not used, and a name that no style has.
fn find_style_problems(around: &ProcessEnv) -> Vec<SettingsProblem> {
    let Ok(settings) = SessionSettings::read(&LaunchRequest::default(), around) else { return Vec::new() };
    let files = settings.output_style_files();
    let mut problems = files.problems;
    problems.extend(files.skipped.into_iter().map(|skipped| {
        document_warning(skipped.path, skipped.line, format!("this output style is not used: {}", skipped.reason))
    }));
    let origin = settings.effective.merged.sources("outputStyle").pop().map(|source| source.origin);
    if let (Some(origin), (_, Some(remark))) = (origin, settings.style_of_new_sessions()) {
        problems.push(document_warning(origin.file, Some(origin.line), remark));
    }
    problems
}

/// Returns the problems of skills and commands: files that are not used, fields that have no effect, and texts that were
/// written for arguments which count from one.
fn find_skill_problems(around: &ProcessEnv) -> Vec<SettingsProblem> {
    let Ok(catalogue) = SkillCatalogue::read(&LaunchRequest::default(), around) else { return Vec::new() };
    let mut problems = catalogue.problems;
    for skipped in catalogue.skipped {
        let message = format!("this skill is not used: {}", skipped.reason);
        problems.push(document_warning(skipped.path, skipped.line, message));
    }
    for entry in catalogue.skills {
        let Some(file) = entry.file else { continue };
        if let Some(why) = entry.shadowed {
            let message = format!("/{} cannot be typed: {why}", entry.skill.name());
            problems.push(document_warning(file.clone(), None, message));
        }
        if !entry.without_effect.is_empty() {
            let fields = entry.without_effect.join(", ");
            let message = format!("without effect in this version of gimlet: {fields}");
            problems.push(document_warning(file.clone(), None, message));
        }
        if entry.counts_from_one {
            let message = "it names $1 and never $0: the first argument is $0, so $1 is the second".to_owned();
            problems.push(document_warning(file, None, message));
        }
    }
    problems
}

/// Returns the problems of plugins: those that cannot be used, and parts of others.
fn find_plugin_problems(around: &ProcessEnv) -> Vec<SettingsProblem> {
    let Ok(settings) = SessionSettings::read(&LaunchRequest::default(), around) else { return Vec::new() };
    let set = settings.plugins();
    let problem = |error: &PluginError| {
        let message = format!("the plugin {} is not used: {}", error.plugin, error.message);
        document_warning(error.path.clone(), error.line, message)
    };
    set.problems.iter().cloned().chain(set.errors.iter().map(problem)).collect()
}

/// Returns a problem if sessions, trust and settings cannot be stored in the config home.
fn check_config_home(config_home: &Path) -> Option<SettingsProblem> {
    let there = config_home.ancestors().find(|folder| folder.exists())?;
    rustix::fs::access(there, rustix::fs::Access::WRITE_OK).err()?;
    Some(SettingsProblem {
        severity: ProblemSeverity::Error,
        file: there.to_owned(),
        line: None,
        column: None,
        key: String::new(),
        message: "it cannot be written, so sessions, trust and settings cannot be kept".into(),
    })
}

/// Returns a note that the output of the administrator's program is unknown, because nothing is started here.
fn note_policy_helper(found: &SettingsSnapshot) -> Option<SettingsProblem> {
    let helper = found.loaded.policy_helper()?;
    Some(SettingsProblem {
        severity: ProblemSeverity::Info,
        file: found.loaded.locations.managed_file(),
        line: None,
        column: None,
        key: "policyHelper".into(),
        message: format!("a session asks {} for the managed settings; what is shown here is without them", helper.path),
    })
}

/// Returns a problem for a rule that cannot be honoured. A broken deny rule is worse than a broken allow rule.
fn check_rule_syntax(rule: &RuleLine) -> Option<SettingsProblem> {
    let (behavior, source) = (settings_mapping::rule_behavior(rule), settings_mapping::rule_source(rule));
    let error = Rule::parse(&rule.text, behavior, &source).err()?;
    Some(SettingsProblem {
        severity: if behavior == Behavior::Allow { ProblemSeverity::Warning } else { ProblemSeverity::Error },
        file: rule.origin.file.clone(),
        line: Some(rule.origin.line),
        column: None,
        key: format!("permissions.{behavior}"),
        message: format!("{error}{}", suggest_tool(&rule.text)),
    })
}

/// Suggests a tool name; that is the most common mistake.
fn suggest_tool(rule: &str) -> String {
    let close = gimlet_app::start::find_unknown_tool(rule).and_then(|(_, close)| close);
    close.map(|close| format!("; did you mean `{close}`?")).unwrap_or_default()
}

/// Returns a problem for an allow rule about an unknown tool, which would have no effect.
fn check_unknown_tool(rule: &RuleLine) -> Option<SettingsProblem> {
    if settings_mapping::rule_behavior(rule) != Behavior::Allow {
        return None;
    }
    let (name, close) = gimlet_app::start::find_unknown_tool(&rule.text)?;
    let close = close.map(|close| format!("; did you mean `{close}`?")).unwrap_or_default();
    Some(SettingsProblem {
        severity: ProblemSeverity::Warning,
        file: rule.origin.file.clone(),
        line: Some(rule.origin.line),
        column: None,
        key: "permissions.allow".into(),
        message: format!("there is no tool named `{name}`{close}"),
    })
}

/// Returns a problem for a rule whose path resolves to another place than its author expects.
fn check_rule_path(rule: &RuleLine) -> Option<SettingsProblem> {
    Some(SettingsProblem {
        severity: ProblemSeverity::Warning,
        file: rule.origin.file.clone(),
        line: Some(rule.origin.line),
        column: None,
        key: format!("permissions.{}", settings_mapping::rule_behavior(rule)),
        message: settings_mapping::absolute_path_hint(rule)?,
    })
}

/// Returns problems for valid rules that do not have their intended effect.
fn find_ineffective_rules(found: &SettingsSnapshot) -> Vec<SettingsProblem> {
    let mut rules = RuleSet::default();
    settings_mapping::add_rules(&mut rules, &found.effective);
    let remarks = rules
        .collect_remarks(&gimlet_app::start::known_tools().collect::<Vec<_>>())
        .into_iter()
        .chain(rules.find_unreachable());
    let problem = |remark: RuleRemark| {
        let place = remark.source.to_string();
        let text = remark.to_string();
        SettingsProblem {
            severity: ProblemSeverity::Warning,
            file: remark.source.file.clone().unwrap_or_default(),
            line: remark.source.line.and_then(|line| usize::try_from(line).ok()),
            column: None,
            key: format!("permissions.{}", remark.behavior),
            message: text.strip_prefix(&format!("{place}: ")).unwrap_or(&text).to_owned(),
        }
    };
    remarks.map(problem).collect()
}

/// Returns problems for rules that the administrator's settings disable.
fn find_unused_rules(found: &SettingsSnapshot) -> Vec<SettingsProblem> {
    let problem = |rule: SourcedValue| SettingsProblem {
        severity: ProblemSeverity::Info,
        file: rule.origin.file,
        line: Some(rule.origin.line),
        column: None,
        key: "permissions.allow".into(),
        message: format!("{}: {}", rule.value, settings_mapping::UNUSED_ALLOW),
    };
    settings_mapping::unused_allow_rules(&found.effective).into_iter().map(problem).collect()
}

fn check_programs(around: &ProcessEnv, project: &Path) -> Vec<ProgramCheck> {
    let program =
        |name, needed, without| ProgramCheck { name, path: find_in_path(around, project, name), needed, without };
    vec![
        program("bash", true, "no command can run"),
        program("git", false, "worktrees are not available"),
        program("bwrap", false, "the sandbox has fewer layers"),
    ]
}

/// Finds a program in the directories of `PATH` that a project cannot have filled.
fn find_in_path(around: &ProcessEnv, project: &Path, name: &str) -> Option<PathBuf> {
    let path = around.env.exact("PATH")?;
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute() && !folder.starts_with(project));
    folders.map(|folder| folder.join(name)).find(|file| is_executable(file))
}

pub(crate) fn is_executable(file: &Path) -> bool {
    let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
    is_file && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
}

fn render_text(
    found: &SettingsSnapshot,
    problems: &[SettingsProblem],
    programs: &[ProgramCheck],
    credential: &str,
) -> String {
    let mut sections = vec![format!("gimlet {} on {}", gimlet_proto::VERSION, std::env::consts::OS)];
    sections.push(format!(
        "Settings\n{}",
        indent_lines(&config_cmd::file_table(&config_cmd::settings_files(&found.loaded)))
    ));
    let titles = [
        (ProblemSeverity::Error, "Errors"),
        (ProblemSeverity::Warning, "Warnings"),
        (ProblemSeverity::Info, "Without effect"),
    ];
    for (severity, title) in titles {
        let mut lines: Vec<String> =
            problems.iter().filter(|problem| problem.severity == severity).map(ToString::to_string).collect();
        if severity == ProblemSeverity::Info {
            lines.extend(unused_setting_lines(&found.effective.idle_keys()));
        }
        if !lines.is_empty() {
            sections.push(format!("{title}\n{}", indent_lines(&lines.join("\n"))));
        }
    }
    sections.push(format!("Model\n{}", indent_lines(credential)));
    sections.push(format!("Trust\n{}", indent_lines(&trust_lines(found).join("\n"))));
    sections.push(format!("Confinement\n{}", indent_lines(confinement_line(found))));
    let lines: Vec<String> = programs.iter().map(program_line).collect();
    sections.push(format!("Programs\n{}", indent_lines(&lines.join("\n"))));
    sections.join("\n\n")
}

/// Returns a line on the confinement of read-only commands that run without a question.
fn confinement_line(found: &SettingsSnapshot) -> &'static str {
    let is_off = found.effective.settings.sandbox.confine_read_only_commands == Some(false);
    match (is_off, gimlet_exec::can_confine()) {
        (true, _) => "read-only commands run unconfined: sandbox.confineReadOnlyCommands is false",
        (false, true) => "read-only commands that run without a question are confined by Landlock and seccomp",
        (false, false) => {
            "this kernel has no Landlock: read-only commands run unconfined, without credentials in their environment and \
             with a git that runs no programs"
        }
    }
}

/// Returns one line for each reason why a setting has no effect.
fn unused_setting_lines(idle: &[IdleKey]) -> Vec<String> {
    let reasons = [
        (KeyEffect::NotYet, "set, but not used by this version of gimlet yet"),
        (KeyEffect::Hosted, "set, but about hosted services that gimlet does not use"),
    ];
    let line = |(effect, words): (KeyEffect, &str)| {
        let names: Vec<&str> = idle.iter().filter(|idle| idle.effect == effect).map(|idle| idle.key.as_str()).collect();
        (!names.is_empty()).then(|| format!("{words}: {}", names.join(", ")))
    };
    reasons.into_iter().filter_map(line).collect()
}

fn trust_lines(found: &SettingsSnapshot) -> Vec<String> {
    let mut lines = vec![format!("{}: {}", found.store.root().display(), trust_summary(found))];
    for item in &found.effective.withheld {
        let line = item.line.map_or(String::new(), |line| format!(":{line}"));
        lines.push(format!("not used: {} ({}{line})", item.title(), item.file.display()));
    }
    lines
}

fn trust_summary(found: &SettingsSnapshot) -> &'static str {
    let trust = found.store.load_trust();
    match (trust.has_accepted_folder(), found.effective.withheld.len()) {
        _ if found.inventory.items.is_empty() => "no project settings that need trust",
        (_, 0) => "trusted",
        (true, _) if trust.is_accepted_elsewhere_only() => {
            "trusted by another program, which does not cover what runs; review: gimlet trust"
        }
        (true, _) => "changed since it was trusted; review: gimlet trust",
        (false, _) if TrustStore::is_in_memory_only(&found.store) => {
            "the home directory is trusted for single sessions only (--trust)"
        }
        (false, _) => "not trusted; review: gimlet trust",
    }
}

fn program_line(program: &ProgramCheck) -> String {
    match &program.path {
        Some(path) => format!("{:<6}{}", program.name, path.display()),
        None => format!("{:<6}not found: {}", program.name, program.without),
    }
}

fn indent_lines(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<String>>().join("\n")
}

fn render_json(
    found: &SettingsSnapshot,
    problems: &[SettingsProblem],
    programs: &[ProgramCheck],
    credential: &str,
) -> String {
    let files: Vec<Value> = config_cmd::settings_files(&found.loaded)
        .iter()
        .map(|row| json!({ "scope": row.scope, "file": row.file, "state": row.state }))
        .collect();
    let programs: Vec<Value> =
        programs.iter().map(|program| json!({ "name": program.name, "path": program.path })).collect();
    json!({
        "version": gimlet_proto::VERSION,
        "settings": files,
        "problems": problems,
        "model": credential,
        "without_effect": found.effective.idle_keys(),
        "trust": {
            "folder": found.store.root(),
            "state": trust_summary(found),
            "withheld": found.effective.withheld,
        },
        "programs": programs,
    })
    .to_string()
}
