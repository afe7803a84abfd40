//! `gimlet hooks`: which hooks settings define and what becomes of each, and a trial of those that match an event.

mod sample_input;

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use gimlet_app::start::{CataloguedHook, HookCatalogue, HookState};
use gimlet_app::{LaunchRequest, ProcessEnv};
use gimlet_core::commands::text_table;
use gimlet_core::{DiskFileView, HookEntry, HookEvent, HookTrial, PolicyInput, try_hooks};
use gimlet_policy::{CallCondition, RuleSet, SandboxPlacement};
use gimlet_proto::PermissionMode;
use serde_json::{Map, Value, json};

use crate::args::{HooksCommand, HooksTestArgs};
use crate::permissions_cmd::{ParsedCall, find_builtin_tool, folder_paths};
use crate::report::Report;

/// Largest input that is read.
const MAX_INPUT: u64 = 16 << 20;
/// Limit on the lines of one output stream that are shown.
const MAX_LINES: usize = 40;
/// Limit on the characters of a hook's text in a list.
const MAX_TEXT: usize = 60;

pub(crate) async fn run(command: HooksCommand, around: ProcessEnv) -> Result<ExitCode, Report> {
    match command {
        HooksCommand::List { json } => {
            let catalogue = read_catalogue(&LaunchRequest::default(), &around)?;
            let page = match json {
                true => json!({"hooks": catalogue.hooks.iter().map(to_json).collect::<Vec<_>>()}).to_string(),
                false => render_list(&catalogue.hooks, &around),
            };
            crate::print_line(&gimlet_serve::sanitise(&page));
            Ok(ExitCode::SUCCESS)
        }
        HooksCommand::Test(args) => test_event(&args, &around).await,
    }
}

/// Returns the hooks of sessions with these flags, as `/hooks` lists them.
pub(crate) fn describe_hooks(request: &LaunchRequest, around: &ProcessEnv) -> Result<String, Report> {
    Ok(render_list(&read_catalogue(request, around)?.hooks, around))
}

fn read_catalogue(request: &LaunchRequest, around: &ProcessEnv) -> Result<HookCatalogue, Report> {
    Ok(HookCatalogue::read(request, around)?)
}

fn handler_text(hook: &CataloguedHook) -> String {
    if let Some(entry) = &hook.entry {
        return entry.handler.text();
    }
    let handler = &hook.line.handler;
    let text = [&handler.command, &handler.url, &handler.prompt, &handler.tool].into_iter().flatten().next();
    text.cloned().unwrap_or_default()
}

fn handler_type(hook: &CataloguedHook) -> String {
    serde_json::to_value(hook.line.handler.kind)
        .ok()
        .and_then(|kind| Some(kind.as_str()?.to_owned()))
        .unwrap_or_default()
}

fn to_json(hook: &CataloguedHook) -> Value {
    let line = &hook.line;
    let mut told = json!({
        "event": line.event, "matcher": line.matcher, "type": handler_type(hook), "text": handler_text(hook),
        "scope": line.origin.scope.as_str(), "file": line.origin.file, "line": line.origin.line,
        "state": hook.state.word(),
    });
    if let Some(condition) = &line.handler.condition {
        told["if"] = json!(condition);
    }
    if let HookState::Unusable(why) = &hook.state {
        told["reason"] = json!(why);
    }
    told
}

fn render_list(hooks: &[CataloguedHook], around: &ProcessEnv) -> String {
    if hooks.is_empty() {
        return "No settings file defines a hook. See docs/hooks.md for examples.".to_owned();
    }
    let mut events: Vec<&str> = Vec::new();
    for hook in hooks {
        if !events.contains(&hook.line.event.as_str()) {
            events.push(&hook.line.event);
        }
    }
    let mut lines = Vec::new();
    for event in events {
        lines.push(event.to_owned());
        let of_event = hooks.iter().filter(|hook| hook.line.event == event);
        let rows: Vec<Vec<String>> = of_event.map(|hook| list_row(hook, around)).collect();
        lines.extend(text_table(&rows, false).lines().map(|line| format!("  {line}")));
    }
    lines.join("\n")
}

fn list_row(hook: &CataloguedHook, around: &ProcessEnv) -> Vec<String> {
    let matcher = hook.line.matcher.as_deref().filter(|matcher| !matcher.is_empty()).unwrap_or("*");
    let matcher = match &hook.line.handler.condition {
        Some(condition) => format!("{matcher} if {condition}"),
        None => matcher.to_owned(),
    };
    let origin = &hook.line.origin;
    let place = format!("{}:{}", short_path(&origin.file, around), origin.line);
    vec![matcher, format!("[{}]", handler_type(hook)), shorten(&handler_text(hook)), place, hook.state.describe()]
}

/// Returns a path with the home directory as `~`.
fn short_path(file: &Path, around: &ProcessEnv) -> String {
    let below = around.home.as_ref().and_then(|home| file.strip_prefix(home).ok());
    below.map_or_else(|| file.display().to_string(), |rest| format!("~/{}", rest.display()))
}

/// Returns a text on one line, cut where it is long.
fn shorten(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

async fn test_event(args: &HooksTestArgs, around: &ProcessEnv) -> Result<ExitCode, Report> {
    let event = parse_event(&args.event)?;
    let given = read_input(args.input.as_deref(), &around.cwd)?;
    let input = sample_input::build_input(event, args.tool.as_deref(), given, &around.cwd).map_err(Report::new)?;
    let catalogue = read_catalogue(&LaunchRequest::default(), around)?;
    let running: Vec<(&CataloguedHook, HookEntry)> =
        catalogue.hooks.iter().filter_map(|hook| Some((hook, hook.entry.clone()?))).collect();
    let entries: Vec<HookEntry> = running.iter().map(|(_, entry)| entry.clone()).collect();
    let tool = input["tool_name"].as_str().and_then(find_builtin_tool);
    let aliases = tool.map(|tool| tool.aliases()).unwrap_or_default();
    let meets = |condition: &CallCondition| meets_condition(condition, &input, around);
    let trial = try_hooks(&entries, event, &input, aliases, meets).await;
    let hooks: Vec<&CataloguedHook> = running.iter().map(|(hook, _)| *hook).collect();
    let idle = catalogue.hooks.iter().filter(|hook| hook.entry.is_none() && hook.line.event == event.name());
    let idle: Vec<&CataloguedHook> = idle.filter(|hook| hook.state != HookState::Repeated).collect();
    let page = match args.json {
        true => trial_json(event, &input, &hooks, &trial).to_string(),
        false => render_trial(&input, &hooks, &trial, &idle, around),
    };
    crate::print_line(&gimlet_serve::sanitise(&page));
    catalogue.close().await;
    Ok(ExitCode::SUCCESS)
}

fn parse_event(name: &str) -> Result<HookEvent, Report> {
    let event = HookEvent::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = HookEvent::firing().map(HookEvent::name).collect();
        Report::new(format!("there is no event {name}")).with_hint(format!("The events are {}", names.join(", ")))
    })?;
    if !event.row().fires {
        return Err(Report::new(format!("this version never fires {name}, so no hook of it is called")));
    }
    Ok(event)
}

fn read_input(file: Option<&Path>, cwd: &Path) -> Result<Map<String, Value>, Report> {
    let Some(file) = file else { return Ok(Map::new()) };
    let report = |why: String| Report::new(format!("--input {}: {why}", file.display()));
    let mut text = String::new();
    let read = match file.as_os_str() == "-" {
        true => std::io::stdin().take(MAX_INPUT).read_to_string(&mut text),
        false => std::fs::File::open(cwd.join(file)).and_then(|file| file.take(MAX_INPUT).read_to_string(&mut text)),
    };
    read.map_err(|error| report(format!("it cannot be read: {error}")))?;
    match serde_json::from_str(&text) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(report("it holds no JSON object".to_owned())),
        Err(error) => Err(report(format!("it is not JSON: {error}"))),
    }
}

/// Returns true if the call of this input may be meant by a condition; also where the call cannot be read.
fn meets_condition(condition: &CallCondition, input: &Value, around: &ProcessEnv) -> bool {
    let paths = folder_paths(around);
    let name = input["tool_name"].as_str().unwrap_or_default();
    let Ok(call) = ParsedCall::new(name, input["tool_input"].clone(), &paths) else { return true };
    let policy = PolicyInput {
        mode: PermissionMode::Default,
        bypass_reachable: false,
        sandbox_verdict: SandboxPlacement::None,
        rules: &RuleSet::default(),
        paths: &paths,
        readable: &[],
        plan_reviewed: false,
        own: &[],
        governing: &[],
        zsh: false,
        has_sandbox: false,
        view: &DiskFileView,
    };
    policy.match_conditions(&[condition], call.to_policy_call()).first() != Some(&false)
}

fn trial_json(event: HookEvent, input: &Value, hooks: &[&CataloguedHook], trial: &HookTrial) -> Value {
    let runs = trial.runs.iter().filter_map(|run| {
        let mut told = to_json(hooks.get(run.hook)?);
        told["exit_code"] = json!(run.exit_code);
        told["stdout"] = json!(run.stdout);
        told["stderr"] = json!(run.stderr);
        told["failure"] = json!(run.failure);
        told["duration_ms"] = json!(run.elapsed.as_millis());
        Some(told)
    });
    json!({"event": event.name(), "input": input, "hooks": runs.collect::<Vec<_>>(),
        "consequences": trial.consequences})
}

fn render_trial(
    input: &Value,
    hooks: &[&CataloguedHook],
    trial: &HookTrial,
    idle: &[&CataloguedHook],
    around: &ProcessEnv,
) -> String {
    let mut lines = vec![format!("Input: {input}"), String::new()];
    for run in &trial.runs {
        let Some(hook) = hooks.get(run.hook) else { continue };
        let row = list_row(hook, around);
        lines.push(format!("{} {}  {}", row[1], row[2], row[3]));
        let ended = match (&run.failure, run.exit_code) {
            (Some(why), _) => why.clone(),
            (None, Some(code)) => format!("exit code {code}"),
            (None, None) => "answered".to_owned(),
        };
        lines.push(format!("  {ended} ({} ms)", run.elapsed.as_millis()));
        for (name, text) in [("stdout", &run.stdout), ("stderr", &run.stderr)] {
            lines.extend(text.lines().take(MAX_LINES).map(|line| format!("  {name} | {line}")));
            let more = text.lines().count().saturating_sub(MAX_LINES);
            if more > 0 {
                lines.push(format!("  {name} | … and {more} more lines"));
            }
        }
    }
    if trial.runs.is_empty() {
        lines.push("No hook matches.".to_owned());
    }
    for hook in idle {
        let row = list_row(hook, around);
        lines.push(format!("Not called: {} {}  {}: {}", row[1], row[2], row[3], row[4]));
    }
    lines.push(String::new());
    if trial.consequences.is_empty() {
        lines.push("Nothing would follow: work goes on.".to_owned());
    } else {
        lines.push("What would follow:".to_owned());
        lines.extend(trial.consequences.iter().map(|line| format!("  {line}")));
    }
    lines.join("\n")
}
