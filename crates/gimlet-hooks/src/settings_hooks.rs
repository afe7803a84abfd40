//! Turns the hooks of settings files into registry entries. What cannot be used is named with its file and line, and
//! the others act.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gimlet_config::{FailureChoice, HookHandlerSettings, HookKind, HookLine, Scope, SettingOrigin, ShellChoice};
use gimlet_core::{HookEntry, HookEvent, HookFailurePolicy, HookHandler, HookMatcher, ModelHook, ServerToolHook};
use gimlet_policy::CallCondition;
use reqwest::Url;
use serde_json::{Map, Value};

use crate::command_hook::{CommandForm, CommandHook, default_timeout};
use crate::hook_host::{HookHost, HookTrustCheck};
use crate::http_hook::{HttpHook, HttpHookRequest};

/// Longest time limit that a hook may have.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// A hook that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookProblem {
    pub origin: SettingOrigin,
    pub message: String,
}

/// What settings say about hooks beside the hooks.
pub struct HookPolicy<'a> {
    /// Addresses that `http` hooks may post to, with `*` as a wildcard; `None` for any.
    pub allowed_urls: Option<&'a [String]>,
    /// Variables that any `http` hook may use in headers; `None` for those that it names itself.
    pub allowed_variables: Option<&'a [String]>,
}

/// What defines hooks.
#[derive(Clone, Copy, Debug)]
pub enum HookDefinition<'a> {
    /// Settings files; each line names its scope.
    Settings,
    /// The front matter of an agent.
    Agent { name: &'a str },
    /// The front matter of a skill.
    Skill { name: &'a str },
    /// A plugin, with its folder, the folder for its data, and the variables that its options are in.
    Plugin { name: &'a str, root: &'a Path, data: &'a Path, options: &'a [(String, String)] },
}

impl HookDefinition<'_> {
    fn source_name(self, scope: Scope) -> Arc<str> {
        Arc::from(match self {
            HookDefinition::Settings => format!("{} settings", scope.as_str()),
            HookDefinition::Agent { name } => format!("the agent {name}"),
            HookDefinition::Skill { name } => format!("the skill {name}"),
            HookDefinition::Plugin { name, .. } => format!("the plugin {name}"),
        })
    }

    /// Returns the folders that hooks of a plugin may name.
    fn folders(self) -> Vec<(&'static str, PathBuf)> {
        match self {
            HookDefinition::Plugin { root, data, .. } => {
                vec![("CLAUDE_PLUGIN_ROOT", root.to_owned()), ("CLAUDE_PLUGIN_DATA", data.to_owned())]
            }
            _ => Vec::new(),
        }
    }

    /// Returns further variables that hooks of a plugin get.
    fn variables(self) -> Vec<(String, String)> {
        match self {
            HookDefinition::Plugin { options, .. } => options.to_vec(),
            _ => Vec::new(),
        }
    }
}

/// Returns the registry entries of these hooks, in their order, and what cannot be used. A handler that several files
/// define alike runs once. `trust` gives the check of a hook's script, if it has one.
///
/// Entries of an agent go to `HookRegistry::add_agent_hooks` when it starts, and those of a skill to `add_skill_hooks`
/// when it is called.
pub fn hook_entries(
    host: &Arc<HookHost>,
    definition: HookDefinition<'_>,
    lines: &[HookLine],
    policy: &HookPolicy<'_>,
    trust: impl Fn(&HookLine) -> Option<HookTrustCheck>,
) -> (Vec<HookEntry>, Vec<HookProblem>) {
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    let mut seen: Vec<(&str, Option<&str>, &HookHandlerSettings)> = Vec::new();
    for line in lines {
        let key = (line.event.as_str(), line.matcher.as_deref(), &line.handler);
        let is_async = runs_in_background(&line.handler);
        if !is_async && seen.contains(&key) {
            continue;
        }
        seen.push(key);
        let Some(event) = HookEvent::from_name(&line.event) else { continue };
        if !event.row().fires {
            continue;
        }
        match hook_entry(host, definition, event, line, policy, trust(line)) {
            Ok(entry) => entries.push(entry),
            Err(message) => problems.push(HookProblem { origin: line.origin.clone(), message }),
        }
    }
    (entries, problems)
}

fn runs_in_background(settings: &HookHandlerSettings) -> bool {
    settings.in_background == Some(true) || settings.async_rewake == Some(true)
}

fn hook_entry(
    host: &Arc<HookHost>,
    definition: HookDefinition<'_>,
    event: HookEvent,
    line: &HookLine,
    policy: &HookPolicy<'_>,
    trust: Option<HookTrustCheck>,
) -> Result<HookEntry, String> {
    let settings = &line.handler;
    let condition = hook_condition(host, event, settings)?;
    let matcher = HookMatcher::new(event, line.matcher.as_deref()).map_err(|error| error.to_string())?;
    let from_project = matches!(line.origin.scope, Scope::Project | Scope::Local);
    let handler: Arc<dyn HookHandler> = match settings.kind {
        HookKind::Command => Arc::new(CommandHook {
            host: host.clone(),
            form: command_form(settings)?,
            from_project,
            trust,
            wakes_model: settings.async_rewake == Some(true),
            folders: definition.folders(),
            variables: definition.variables(),
        }),
        HookKind::Http => {
            let request = Arc::new(http_request(settings, policy, !from_project)?);
            Arc::new(HttpHook { host: host.clone(), request, trust })
        }
        HookKind::McpTool => Arc::new(server_tool_hook(settings)?),
        HookKind::Prompt | HookKind::Agent => Arc::new(model_hook(event, settings)?),
    };
    let blocks = settings.on_failure == Some(FailureChoice::Block);
    if blocks && !event.may_fail_closed() {
        return Err(format!("onFailure \"block\" would keep the agent from ending at {}", event.name()));
    }
    let policy = if blocks { HookFailurePolicy::Block } else { HookFailurePolicy::Continue };
    let runs_once = settings.once == Some(true) && matches!(definition, HookDefinition::Skill { .. });
    Ok(HookEntry {
        timeout: configured_timeout(settings.timeout)?,
        runs_in_background: settings.kind == HookKind::Command && runs_in_background(settings),
        wakes_model: settings.async_rewake == Some(true),
        condition,
        once: runs_once.then(Arc::default),
        status: settings.status_message.as_deref().map(Arc::from),
        on_failure: policy,
        on_silence: policy,
        ..HookEntry::new(event, matcher, handler, definition.source_name(line.origin.scope))
    })
}

/// Returns the rule that calls must match.
fn hook_condition(
    host: &HookHost,
    event: HookEvent,
    settings: &HookHandlerSettings,
) -> Result<Option<Arc<CallCondition>>, String> {
    let Some(text) = &settings.condition else { return Ok(None) };
    if event.row().matcher != Some("tool_name") {
        return Err(format!("`if` is a rule about tool calls, and {} is about none", event.name()));
    }
    let source = CallCondition::plain_source(host.project_dir());
    let condition = CallCondition::parse(text, &source).map_err(|error| format!("its `if`: {error}"))?;
    Ok(Some(Arc::new(condition)))
}

fn server_tool_hook(settings: &HookHandlerSettings) -> Result<ServerToolHook, String> {
    let named = |text: &Option<String>, what: &str| {
        let text = text.clone().filter(|text| !text.trim().is_empty());
        text.ok_or_else(|| format!("the hook names no {what}"))
    };
    let input = match &settings.input {
        None => Map::new(),
        Some(Value::Object(members)) => members.clone(),
        Some(_) => return Err("the input of the tool is no object".to_owned()),
    };
    Ok(ServerToolHook::new(named(&settings.server, "server")?, named(&settings.tool, "tool")?, input, default_timeout))
}

fn model_hook(event: HookEvent, settings: &HookHandlerSettings) -> Result<ModelHook, String> {
    let prompt = settings.prompt.clone().filter(|prompt| !prompt.trim().is_empty()).ok_or("the hook has no prompt")?;
    if !event.takes_model_hooks() {
        return Err(format!("no hook of type {} is called at {}", kind_name(settings.kind), event.name()));
    }
    Ok(match settings.kind {
        HookKind::Agent => ModelHook::agent(prompt, settings.model.clone()),
        _ => ModelHook::prompt(prompt, settings.model.clone(), settings.continue_on_block == Some(true)),
    })
}

fn command_form(settings: &HookHandlerSettings) -> Result<CommandForm, String> {
    let command = settings.command.as_deref().unwrap_or_default();
    if command.trim().is_empty() {
        return Err("the hook has no command".to_owned());
    }
    if let Some(args) = &settings.args {
        return Ok(CommandForm::Program { program: command.to_owned(), args: args.clone() });
    }
    match settings.shell {
        Some(ShellChoice::Powershell) => Err("hooks in PowerShell do not run on Linux; use shell \"bash\"".to_owned()),
        Some(ShellChoice::Bash) => Ok(CommandForm::Shell { text: command.to_owned(), bash: true }),
        None => Ok(CommandForm::Shell { text: command.to_owned(), bash: false }),
    }
}

fn http_request(
    settings: &HookHandlerSettings,
    policy: &HookPolicy<'_>,
    may_reach_private: bool,
) -> Result<HttpHookRequest, String> {
    let text = settings.url.as_deref().unwrap_or_default();
    let url = Url::parse(text).map_err(|error| format!("the address {text:?} is invalid: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(format!("the address {text:?} is neither http nor https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the address contains a user name or password; use a header with a variable".to_owned());
    }
    if let Some(allowed) = policy.allowed_urls
        && !allowed.iter().any(|pattern| matches_wildcard(pattern, url.as_str()))
    {
        return Err(format!("allowedHttpHookUrls does not allow {}", url.origin().ascii_serialization()));
    }
    let named = settings.allowed_env_vars.clone().unwrap_or_default();
    let allowed_variables = match policy.allowed_variables {
        Some(allowed) => named.into_iter().filter(|name| allowed.contains(name)).collect(),
        None => named,
    };
    let headers: BTreeMap<String, String> = settings.headers.clone().unwrap_or_default();
    Ok(HttpHookRequest { url, headers, allowed_variables, may_reach_private })
}

/// Returns true if the whole text fits a pattern in which `*` stands for any characters.
fn matches_wildcard(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = rest.get(at + part.len()..).unwrap_or_default();
    }
    rest.ends_with(last)
}

fn configured_timeout(seconds: Option<f64>) -> Result<Option<Duration>, String> {
    let Some(seconds) = seconds else { return Ok(None) };
    if seconds.is_nan() || seconds <= 0.0 {
        return Err(format!("the timeout {seconds} is not above 0"));
    }
    Ok(Some(Duration::try_from_secs_f64(seconds).unwrap_or(MAX_TIMEOUT).min(MAX_TIMEOUT)))
}

fn kind_name(kind: HookKind) -> &'static str {
    match kind {
        HookKind::Command => "command",
        HookKind::Http => "http",
        HookKind::McpTool => "mcp_tool",
        HookKind::Prompt => "prompt",
        HookKind::Agent => "agent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_stand_for_any_characters_and_the_rest_is_exact() {
        for (pattern, text, fits) in [
            ("https://a.example/*", "https://a.example/hook", true),
            ("https://a.example/*", "https://a.example.evil/hook", false),
            ("https://*.example/h*k", "https://a.b.example/hook", true),
            ("https://a.example/hook", "https://a.example/hook", true),
            ("https://a.example/hook", "https://a.example/hook2", false),
            ("*", "https://x/", true),
        ] {
            assert_eq!(matches_wildcard(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn a_timeout_is_above_zero_and_bounded() {
        assert_eq!(configured_timeout(Some(0.5)), Ok(Some(Duration::from_millis(500))));
        assert_eq!(configured_timeout(Some(f64::INFINITY)), Ok(Some(MAX_TIMEOUT)));
        for wrong in [0.0, -1.0, f64::NAN] {
            assert!(configured_timeout(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
