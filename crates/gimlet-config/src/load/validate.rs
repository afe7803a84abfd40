//! Validation of a file's settings: keys that this file may not set are removed, single bad entries too, and the rest
//! must fit the types. A restriction is never lost silently: where a file is rejected, its restrictions stay, and
//! where they cannot be read, the problem is an error.

use gimlet_proto::HookEvent;
use serde::Deserialize;

use super::{restrictions, value_limits};
use crate::deserialize::ValueMismatch;
use crate::forbidden_env;
use crate::json::{JsonMember, JsonNode, JsonText, JsonValue};
use crate::problem::{DOTTED_KEY, HOST_ALONE, ProblemSeverity, SettingsProblem};
use crate::scope::Scope;
use crate::setting_keys::{self, KEYS, TrustRequirement};
use crate::settings::{HookKind, HostedSettings, Settings};

/// Maximum number of repairs; values that are still invalid after them are dropped.
const MAX_REPAIRS: usize = 1_000;

/// Goes over a file that was just read.
pub(super) struct LayerValidator<'a> {
    /// Scope whose limits apply.
    pub(super) scope: Scope,
    pub(super) file: &'a std::path::Path,
    pub(super) text: &'a JsonText,
    pub(super) problems: &'a mut Vec<SettingsProblem>,
    /// True if only the restrictions of the file were kept.
    pub(super) rejected: bool,
}

impl LayerValidator<'_> {
    /// Removes, repairs and checks values. The result is valid.
    pub(super) fn validate(&mut self, mut root: JsonNode) -> JsonNode {
        if !matches!(root.json, JsonValue::Object(_)) {
            let message = format!("expected an object in braces, got {}; the file is ignored", root.kind_name());
            self.report(ProblemSeverity::Error, Some(root.span.start), "", message);
            return JsonNode { json: JsonValue::Object(Vec::new()), span: root.span };
        }
        self.remove_disallowed_keys(&mut root, "");
        self.wrap_single_entries(&mut root);
        self.remove_invalid_rules(&mut root);
        self.normalize_hosts(&mut root);
        self.remove_invalid_hooks(&mut root);
        let mut root =
            if self.scope == Scope::Managed { self.repair_managed(root) } else { self.accept_or_restrict(root) };
        self.remove_forbidden_env(&mut root);
        if self.scope == Scope::Project {
            self.narrow_sandbox(&mut root);
        }
        self.restrict_default_mode(&mut root);
        root
    }

    pub(super) fn report(
        &mut self,
        severity: ProblemSeverity,
        offset: Option<usize>,
        key: &str,
        message: impl Into<String>,
    ) {
        let place = offset.map(|offset| self.text.position_at(offset));
        self.problems.push(SettingsProblem {
            severity,
            file: self.file.to_owned(),
            line: place.map(|place| place.line),
            column: place.map(|place| place.column),
            key: key.to_owned(),
            message: message.into(),
        });
    }

    /// Removes keys that this scope may not set and those that are not keys, and reports unknown ones, which stay.
    fn remove_disallowed_keys(&mut self, node: &mut JsonNode, above: &str) {
        let Some(members) = node.members_mut() else { return };
        let mut kept = Vec::with_capacity(members.len());
        for mut member in members.drain(..) {
            let path = if above.is_empty() { member.key.clone() } else { format!("{above}.{}", member.key) };
            if member.value.json == JsonValue::Null || (above.is_empty() && member.key == "$schema") {
                continue;
            }
            // It would be mistaken for a nested key with this path.
            if member.key.contains('.') {
                let is_known = setting_keys::find_key(&path).is_some() || setting_keys::is_group(&path);
                let severity = if is_known { ProblemSeverity::Warning } else { ProblemSeverity::Info };
                self.report(severity, Some(member.key_span.start), &path, DOTTED_KEY);
                continue;
            }
            if setting_keys::is_group(&path) && matches!(member.value.json, JsonValue::Object(_)) {
                self.remove_disallowed_keys(&mut member.value, &path);
                kept.push(member);
            } else if self.may_set_key(&member, &path) {
                // One name from here on, so that two files with two spellings do not contradict each other.
                member.key = setting_keys::canonical_spelling(&path).map_or(member.key, str::to_owned);
                kept.push(member);
            }
        }
        *members = kept;
    }

    fn may_set_key(&mut self, member: &JsonMember, path: &str) -> bool {
        let at = Some(member.key_span.start);
        let Some(key) = KEYS.iter().find(|key| key.path == path) else {
            if !setting_keys::is_group(path) {
                self.report(ProblemSeverity::Info, at, path, unknown_key_message(path));
            }
            return true;
        };
        if key.source.allows_scope(self.scope) {
            return true;
        }
        // A dropped value that would have allowed something is worth more than a note.
        let severity =
            if key.trust == TrustRequirement::Free { ProblemSeverity::Info } else { ProblemSeverity::Warning };
        let message = format!("ignored: {} cannot set this, only {} can", self.scope.label(), key.source.words());
        self.report(severity, at, path, message);
        false
    }

    /// Turns a single text in place of a deny list into its only entry, as its author meant it.
    fn wrap_single_entries(&mut self, root: &mut JsonNode) {
        for path in restrictions::LISTS {
            let Some(node) = root.find_mut(path.split('.')).filter(|node| node.as_str().is_some()) else { continue };
            let only = JsonNode { json: JsonValue::Null, span: node.span.clone() };
            let only = std::mem::replace(node, only);
            self.report(
                ProblemSeverity::Error,
                Some(only.span.start),
                path,
                "expected a list; the text counts as its only entry",
            );
            node.json = JsonValue::Array(vec![only]);
        }
    }

    /// Normalizes URLs in lists of hosts: in a deny list the host is denied, in an allow list the entry allows
    /// nothing.
    fn normalize_hosts(&mut self, root: &mut JsonNode) {
        for (list, forbids) in [("allowedDomains", false), ("deniedDomains", true)] {
            let path = ["sandbox", "network", list];
            let Some(entries) = root.find_mut(path).and_then(JsonNode::elements_mut) else { continue };
            let mut found = Vec::new();
            entries.retain_mut(|entry| {
                let Some(host) = entry.as_str().and_then(host_of_url) else { return true };
                let becomes = if forbids { "it counts as that" } else { "it is skipped" };
                found.push((entry.span.start, format!("{HOST_ALONE}, as in '{host}'; {becomes}")));
                entry.json = JsonValue::String(host);
                forbids
            });
            for (at, message) in found {
                self.report(ProblemSeverity::Warning, Some(at), &path.join("."), message);
            }
        }
    }

    fn remove_invalid_rules(&mut self, root: &mut JsonNode) {
        for list in ["allow", "ask", "deny"] {
            let Some(entries) = root.find_mut(["permissions", list]).and_then(JsonNode::elements_mut) else { continue };
            let (kept, bad): (Vec<JsonNode>, Vec<JsonNode>) =
                entries.drain(..).partition(|entry| entry.as_str().is_some_and(|rule| !rule.trim().is_empty()));
            *entries = kept;
            let severity = if list == "allow" { ProblemSeverity::Warning } else { ProblemSeverity::Error };
            for entry in bad {
                let found = if entry.as_str().is_some() { "an empty one" } else { entry.kind_name() };
                let message = format!("expected a rule such as \"Bash(npm test)\", got {found}; it is skipped");
                self.report(severity, Some(entry.span.start), &format!("permissions.{list}"), message);
            }
        }
    }

    fn remove_invalid_hooks(&mut self, root: &mut JsonNode) {
        let Some(events) = root.get_mut("hooks").and_then(JsonNode::members_mut) else { return };
        let (mut kept, unknown): (Vec<JsonMember>, Vec<JsonMember>) =
            events.drain(..).partition(|member| HookEvent::from_name(&member.key).is_some());
        let mut bad_handlers = Vec::new();
        for event in &mut kept {
            for group in event.value.elements_mut().into_iter().flatten() {
                let Some(handlers) = group.get_mut("hooks").and_then(JsonNode::elements_mut) else { continue };
                for (handler, why) in take_invalid_handlers(handlers) {
                    bad_handlers.push((format!("hooks.{}", event.key), handler.span.start, why));
                }
            }
        }
        *events = kept;
        for member in unknown {
            let message = "there is no such event; these hooks never run";
            self.report(
                ProblemSeverity::Warning,
                Some(member.key_span.start),
                &format!("hooks.{}", member.key),
                message,
            );
        }
        for (key, offset, why) in bad_handlers {
            self.report(ProblemSeverity::Warning, Some(offset), &key, format!("this hook is skipped: {why}"));
        }
    }

    /// Accepts a user's or a project's file as a whole, or keeps only its restrictions.
    fn accept_or_restrict(&mut self, root: JsonNode) -> JsonNode {
        let Err(misfit) = check_types(&root) else { return root };
        self.rejected = true;
        let also = describe_other_mismatches(self.text, &root, &misfit);
        let message = format!("{misfit}{also}; the file is ignored, except its restrictions (such as deny rules)");
        self.report(ProblemSeverity::Error, misfit.span.as_ref().map(|span| span.start), &misfit.key(), message);
        self.keep_restrictions(root, Some(&misfit.key()))
    }

    /// Keeps the valid restrictions of a file. The problem of the key `said` has been reported already and is not
    /// repeated.
    fn keep_restrictions(&mut self, mut root: JsonNode, said: Option<&str>) -> JsonNode {
        enable_ambiguous_sandbox(&mut root);
        let mut strict = restrictions::restrictive_part(root);
        for _ in 0..MAX_REPAIRS {
            let Err(misfit) = check_types(&strict) else { return strict };
            let path = misfit.key();
            let done = value_limits::repair_value(&mut strict, &path);
            if said != Some(path.as_str()) {
                let message = format!("{misfit}; {done}");
                self.report(ProblemSeverity::Error, misfit.span.as_ref().map(|span| span.start), &path, message);
            }
        }
        self.report(ProblemSeverity::Error, None, "", "too much is wrong with it; nothing of it is kept");
        JsonNode { json: JsonValue::Object(Vec::new()), span: strict.span }
    }

    /// Repairs managed settings, which are enforced as far as they can be read; values that must not fail open are
    /// closed instead.
    fn repair_managed(&mut self, mut root: JsonNode) -> JsonNode {
        if let Some(span) = enable_ambiguous_sandbox(&mut root) {
            let message = "expected true or false; the sandbox counts as switched on";
            self.report(ProblemSeverity::Error, Some(span.start), "sandbox.enabled", message);
        }
        for _ in 0..MAX_REPAIRS {
            let Err(misfit) = check_types(&root) else { return root };
            let path = misfit.key();
            let done = value_limits::repair_value(&mut root, &path);
            let message = format!("{misfit}; {done}");
            self.report(ProblemSeverity::Error, misfit.span.as_ref().map(|span| span.start), &path, message);
        }
        self.report(ProblemSeverity::Error, None, "", "too much is wrong with it; only what it forbids is kept");
        self.keep_restrictions(root, None)
    }

    fn remove_forbidden_env(&mut self, root: &mut JsonNode) {
        let scope = self.scope;
        let Some(variables) = root.get_mut("env").and_then(JsonNode::members_mut) else { return };
        let mut refused = Vec::new();
        variables.retain(|variable| {
            let value = variable.value.as_str().unwrap_or_default();
            let why = forbidden_env::refusal_reason(scope, &variable.key, value);
            refused.extend(why.map(|why| (variable.key.clone(), variable.key_span.start, why)));
            why.is_none()
        });
        for (name, offset, why) in refused {
            self.report(ProblemSeverity::Warning, Some(offset), &format!("env.{name}"), format!("ignored: {why}"));
        }
    }

    /// Keeps the sandbox settings of a project's file that restrict it further; it can never open the sandbox.
    fn narrow_sandbox(&mut self, root: &mut JsonNode) {
        let Some(sandbox) = root.get_mut("sandbox") else { return };
        let mut opened = Vec::new();
        for (key, closing) in setting_keys::SANDBOX_SWITCHES {
            if sandbox.get(key).is_some_and(|value| value.json != JsonValue::Bool(closing)) {
                opened.extend(sandbox.remove(key).map(|member| (format!("sandbox.{key}"), member.key_span.start)));
            }
        }
        for list in ["files", "envVars"] {
            let Some(entries) = sandbox.find_mut(["credentials", list]).and_then(JsonNode::elements_mut) else {
                continue;
            };
            entries.retain(|entry| {
                let hides = entry.get("mode").and_then(JsonNode::as_str) == Some("deny");
                if !hides {
                    opened.push((format!("sandbox.credentials.{list}"), entry.span.start));
                }
                hides
            });
        }
        for (key, offset) in opened {
            let message = "ignored: the project settings can only make the sandbox stricter";
            self.report(ProblemSeverity::Warning, Some(offset), &key, message);
        }
    }

    /// Removes modes that stop asking unless the user set them. `auto` in a project's files still overrides the mode
    /// of other files, so the built-in one replaces it.
    fn restrict_default_mode(&mut self, root: &mut JsonNode) {
        if !matches!(self.scope, Scope::Project | Scope::Local) {
            return;
        }
        let Some(permissions) = root.get_mut("permissions") else { return };
        let Some(mode) = permissions.get_mut("defaultMode") else { return };
        let at = Some(mode.span.start);
        match mode.as_str() {
            Some("auto") => {
                mode.json = JsonValue::String("default".into());
                let message =
                    "the mode auto can only be chosen in the user settings; in this file it counts as default";
                self.report(ProblemSeverity::Warning, at, "permissions.defaultMode", message);
            }
            Some("bypassPermissions") if self.scope == Scope::Project => {
                permissions.remove("defaultMode");
                let message = "ignored: the project settings cannot turn permission checks off";
                self.report(ProblemSeverity::Warning, at, "permissions.defaultMode", message);
            }
            _ => {}
        }
    }
}

/// Lists the other mismatches, so that the user can correct all values at once.
fn describe_other_mismatches(text: &JsonText, root: &JsonNode, first: &ValueMismatch) -> String {
    const SHOWN: usize = 5;
    let mut rest = root.clone();
    value_limits::repair_value(&mut rest, &first.key());
    let mut others = Vec::new();
    // One more than is shown reveals that there are more.
    while others.len() <= SHOWN
        && let Err(misfit) = check_types(&rest)
    {
        let key = misfit.key();
        value_limits::repair_value(&mut rest, &key);
        let line = misfit.span.map_or_else(String::new, |span| format!(" (line {})", text.line_at(span.start)));
        others.push(format!("{key}{line}"));
    }
    match others.len() {
        0 => String::new(),
        count if count > SHOWN => format!("; also wrong: {} and more", others[..SHOWN].join(", ")),
        _ => format!("; also wrong: {}", others.join(", ")),
    }
}

/// Returns an error for the first value that does not fit its type.
fn check_types(root: &JsonNode) -> Result<(), ValueMismatch> {
    let settings = Settings::deserialize(root)?;
    HostedSettings::deserialize(root)?;
    value_limits::check_limits(&settings, root)
}

/// Turns on a sandbox whose switch is neither true nor false: `"yes"` or `1` was not meant to leave it off. Returns
/// the position of the value, or `None` if nothing was changed.
fn enable_ambiguous_sandbox(root: &mut JsonNode) -> Option<std::ops::Range<usize>> {
    let sandbox = root.get_mut("sandbox")?;
    let span = sandbox.span.clone();
    if !matches!(sandbox.json, JsonValue::Object(_) | JsonValue::Bool(false) | JsonValue::Null) {
        sandbox.json = JsonValue::Object(Vec::new());
        sandbox.get_or_insert("enabled", || JsonValue::Bool(true))?;
        return Some(span);
    }
    let switch =
        sandbox.get_mut("enabled").filter(|switch| !matches!(switch.json, JsonValue::Bool(_) | JsonValue::Null))?;
    switch.json = JsonValue::Bool(true);
    Some(switch.span.clone())
}

/// Handlers that cannot run, and why.
fn take_invalid_handlers(handlers: &mut Vec<JsonNode>) -> Vec<(JsonNode, String)> {
    let mut bad = Vec::new();
    let mut kept = Vec::with_capacity(handlers.len());
    for handler in handlers.drain(..) {
        match handler_error(&handler) {
            Some(why) => bad.push((handler, why)),
            None => kept.push(handler),
        }
    }
    *handlers = kept;
    bad
}

fn handler_error(handler: &JsonNode) -> Option<String> {
    let Some(kind) = handler.get("type") else {
        return Some("it has no type".into());
    };
    let Ok(kind) = HookKind::deserialize(kind) else {
        return Some("its type is not one of command, http, mcp_tool, prompt, agent".into());
    };
    let needed = match kind {
        HookKind::Command => "command",
        HookKind::Http => "url",
        HookKind::McpTool => "tool",
        HookKind::Prompt | HookKind::Agent => "prompt",
    };
    handler.get(needed).is_none().then(|| format!("it has no {needed}"))
}

fn unknown_key_message(path: &str) -> String {
    if path == "mcpServers" {
        return "not read from settings; MCP servers belong into .mcp.json".into();
    }
    match setting_keys::suggest_key(path) {
        Some(name) => format!("gimlet does not know this key; did you mean {name}?"),
        None => "gimlet does not know this key".into(),
    }
}

/// Returns the host of a URL; `None` if the text is not a URL, or has no host.
fn host_of_url(text: &str) -> Option<String> {
    let text = text.trim();
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    // A URL with a port counts as its host.
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let host = host.rsplit_once(':').filter(|(_, port)| host != text && is_port(port)).map_or(host, |(host, _)| host);
    (host != text && !host.is_empty()).then(|| host.to_owned())
}
