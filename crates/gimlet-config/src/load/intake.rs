//! What a file says, made fit for use: keys that this file may not set are taken out, single bad entries too, and what is
//! left must fit the types. A restriction is never lost in silence: where a file is rejected, what it forbids stays, and
//! where that cannot be read, the problem is an error.

use serde::Deserialize;

use super::{forbids, limits};
use crate::de::Misfit;
use crate::env_names;
use crate::json::{Json, JsonText, Member, Node};
use crate::keys::{self, Gate, KEYS};
use crate::problem::{DOTTED_KEY, HOST_ALONE, Problem, Severity};
use crate::scope::Scope;
use crate::settings::{HookKind, HostedSettings, Settings, is_hook_event};

/// Repairing ends after this many steps; whatever then still does not fit is dropped.
const MAX_REPAIRS: usize = 1_000;

/// Goes over a file that was just read.
pub(super) struct Intake<'a> {
    /// Whose limits hold for it.
    pub(super) scope: Scope,
    pub(super) file: &'a std::path::Path,
    pub(super) text: &'a JsonText,
    pub(super) problems: &'a mut Vec<Problem>,
    /// Only what the file forbids was kept.
    pub(super) rejected: bool,
}

impl Intake<'_> {
    /// Takes out, repairs and checks. What comes back is fit for use.
    pub(super) fn admit(&mut self, mut root: Node) -> Node {
        if !matches!(root.json, Json::Object(_)) {
            let message = format!("settings are an object in braces, not {}; the file is ignored", root.kind());
            self.say(Severity::Error, Some(root.span.start), "", message);
            return Node { json: Json::Object(Vec::new()), span: root.span };
        }
        self.keep_known(&mut root, "");
        self.lists_of_one(&mut root);
        self.rules(&mut root);
        self.hosts(&mut root);
        self.hooks(&mut root);
        let mut root =
            if self.scope == Scope::Managed { self.repaired(root) } else { self.whole_or_restrictions(root) };
        self.env(&mut root);
        if self.scope == Scope::Project {
            self.narrow_sandbox(&mut root);
        }
        self.default_mode(&mut root);
        root
    }

    pub(super) fn say(&mut self, severity: Severity, offset: Option<usize>, key: &str, message: impl Into<String>) {
        let place = offset.map(|offset| self.text.position(offset));
        self.problems.push(Problem {
            severity,
            file: self.file.to_owned(),
            line: place.map(|place| place.line),
            column: place.map(|place| place.column),
            key: key.to_owned(),
            message: message.into(),
        });
    }

    /// Removes keys that this scope may not set and those that are none, and tells of unknown ones, which stay.
    fn keep_known(&mut self, node: &mut Node, above: &str) {
        let Some(members) = node.members_mut() else { return };
        let mut kept = Vec::with_capacity(members.len());
        for mut member in members.drain(..) {
            let path = if above.is_empty() { member.key.clone() } else { format!("{above}.{}", member.key) };
            if member.value.json == Json::Null || (above.is_empty() && member.key == "$schema") {
                continue;
            }
            // It would be taken for the key below another that is spelt so.
            if member.key.contains('.') {
                let is_known = keys::key(&path).is_some() || keys::is_group(&path);
                let severity = if is_known { Severity::Warning } else { Severity::Info };
                self.say(severity, Some(member.key_span.start), &path, DOTTED_KEY);
                continue;
            }
            if keys::is_group(&path) && matches!(member.value.json, Json::Object(_)) {
                self.keep_known(&mut member.value, &path);
                kept.push(member);
            } else if self.may_stand(&member, &path) {
                // One name from here on, so that two files with two spellings do not contradict each other.
                member.key = keys::canonical(&path).map_or(member.key, str::to_owned);
                kept.push(member);
            }
        }
        *members = kept;
    }

    fn may_stand(&mut self, member: &Member, path: &str) -> bool {
        let at = Some(member.key_span.start);
        let Some(key) = KEYS.iter().find(|key| key.path == path) else {
            if !keys::is_group(path) {
                self.say(Severity::Info, at, path, unknown(path));
            }
            return true;
        };
        if key.from.allows(self.scope) {
            return true;
        }
        // What would have allowed something is worth more than a remark.
        let severity = if key.gate == Gate::Free { Severity::Info } else { Severity::Warning };
        let message = format!("ignored: {} cannot set this, only {} can", self.scope.label(), key.from.words());
        self.say(severity, at, path, message);
        false
    }

    /// One text where a list of things to forbid should stand is taken for its only entry: whoever wrote it meant it.
    fn lists_of_one(&mut self, root: &mut Node) {
        for path in forbids::LISTS {
            let Some(node) = root.find_mut(path.split('.')).filter(|node| node.as_str().is_some()) else { continue };
            let only = Node { json: Json::Null, span: node.span.clone() };
            let only = std::mem::replace(node, only);
            self.say(
                Severity::Error,
                Some(only.span.start),
                path,
                "a list should stand here; the text counts as its only entry",
            );
            node.json = Json::Array(vec![only]);
        }
    }

    /// Addresses of pages in lists of hosts: what was to be kept out is, and nobody is let through by them.
    fn hosts(&mut self, root: &mut Node) {
        for (list, forbids) in [("allowedDomains", false), ("deniedDomains", true)] {
            let path = ["sandbox", "network", list];
            let Some(entries) = root.find_mut(path).and_then(Node::elements_mut) else { continue };
            let mut found = Vec::new();
            entries.retain_mut(|entry| {
                let Some(host) = entry.as_str().and_then(host_of_address) else { return true };
                let becomes = if forbids { "it counts as that" } else { "it is skipped" };
                found.push((entry.span.start, format!("{HOST_ALONE}, as in '{host}'; {becomes}")));
                entry.json = Json::String(host);
                forbids
            });
            for (at, message) in found {
                self.say(Severity::Warning, Some(at), &path.join("."), message);
            }
        }
    }

    fn rules(&mut self, root: &mut Node) {
        for list in ["allow", "ask", "deny"] {
            let Some(entries) = root.find_mut(["permissions", list]).and_then(Node::elements_mut) else { continue };
            let (kept, bad): (Vec<Node>, Vec<Node>) =
                entries.drain(..).partition(|entry| entry.as_str().is_some_and(|rule| !rule.trim().is_empty()));
            *entries = kept;
            let severity = if list == "allow" { Severity::Warning } else { Severity::Error };
            for entry in bad {
                let found = if entry.as_str().is_some() { "an empty one" } else { entry.kind() };
                let message = format!("a rule is a text such as \"Bash(npm test)\", not {found}; it is skipped");
                self.say(severity, Some(entry.span.start), &format!("permissions.{list}"), message);
            }
        }
    }

    fn hooks(&mut self, root: &mut Node) {
        let Some(events) = root.get_mut("hooks").and_then(Node::members_mut) else { return };
        let (mut kept, unknown): (Vec<Member>, Vec<Member>) =
            events.drain(..).partition(|member| is_hook_event(&member.key));
        let mut bad_handlers = Vec::new();
        for event in &mut kept {
            for group in event.value.elements_mut().into_iter().flatten() {
                let Some(handlers) = group.get_mut("hooks").and_then(Node::elements_mut) else { continue };
                for (handler, why) in take_bad(handlers) {
                    bad_handlers.push((format!("hooks.{}", event.key), handler.span.start, why));
                }
            }
        }
        *events = kept;
        for member in unknown {
            let message = "there is no such event; these hooks never run";
            self.say(Severity::Warning, Some(member.key_span.start), &format!("hooks.{}", member.key), message);
        }
        for (key, offset, why) in bad_handlers {
            self.say(Severity::Warning, Some(offset), &key, format!("this hook is skipped: {why}"));
        }
    }

    /// A person's or a project's file counts as a whole or not at all, but for what it forbids.
    fn whole_or_restrictions(&mut self, root: Node) -> Node {
        let Err(misfit) = fits(&root) else { return root };
        self.rejected = true;
        let also = also_wrong(self.text, &root, &misfit);
        let message = format!("{misfit}{also}; the file is ignored except for what it forbids");
        self.say(Severity::Error, misfit.span.as_ref().map(|span| span.start), &misfit.key(), message);
        self.restrictions(root, Some(&misfit.key()))
    }

    /// What a file forbids, as far as that fits. What is wrong with the key that was `said` already is not said again.
    fn restrictions(&mut self, mut root: Node, said: Option<&str>) -> Node {
        switch_on(&mut root);
        let mut strict = forbids::strict_part(root);
        for _ in 0..MAX_REPAIRS {
            let Err(misfit) = fits(&strict) else { return strict };
            let path = misfit.key();
            let done = limits::repair(&mut strict, &path);
            if said != Some(path.as_str()) {
                let message = format!("{misfit}; {done}");
                self.say(Severity::Error, misfit.span.as_ref().map(|span| span.start), &path, message);
            }
        }
        self.say(Severity::Error, None, "", "too much is wrong with it; nothing of it is kept");
        Node { json: Json::Object(Vec::new()), span: strict.span }
    }

    /// Managed settings are enforced as far as they can be read; what must not fail open is closed instead.
    fn repaired(&mut self, mut root: Node) -> Node {
        if let Some(span) = switch_on(&mut root) {
            let message = "true or false should stand here; the sandbox counts as switched on";
            self.say(Severity::Error, Some(span.start), "sandbox.enabled", message);
        }
        for _ in 0..MAX_REPAIRS {
            let Err(misfit) = fits(&root) else { return root };
            let path = misfit.key();
            let done = limits::repair(&mut root, &path);
            let message = format!("{misfit}; {done}");
            self.say(Severity::Error, misfit.span.as_ref().map(|span| span.start), &path, message);
        }
        self.say(Severity::Error, None, "", "too much is wrong with it; only what it forbids is kept");
        self.restrictions(root, None)
    }

    fn env(&mut self, root: &mut Node) {
        let scope = self.scope;
        let Some(variables) = root.get_mut("env").and_then(Node::members_mut) else { return };
        let mut refused = Vec::new();
        variables.retain(|variable| {
            let value = variable.value.as_str().unwrap_or_default();
            let why = env_names::refusal(scope, &variable.key, value);
            refused.extend(why.map(|why| (variable.key.clone(), variable.key_span.start, why)));
            why.is_none()
        });
        for (name, offset, why) in refused {
            self.say(Severity::Warning, Some(offset), &format!("env.{name}"), format!("ignored: {why}"));
        }
    }

    /// A project's file can close the sandbox further, never open it.
    fn narrow_sandbox(&mut self, root: &mut Node) {
        let Some(sandbox) = root.get_mut("sandbox") else { return };
        let mut opened = Vec::new();
        for (key, closing) in keys::SANDBOX_SWITCHES {
            if sandbox.get(key).is_some_and(|value| value.json != Json::Bool(closing)) {
                opened.extend(sandbox.remove(key).map(|member| (format!("sandbox.{key}"), member.key_span.start)));
            }
        }
        for list in ["files", "envVars"] {
            let Some(entries) = sandbox.find_mut(["credentials", list]).and_then(Node::elements_mut) else { continue };
            entries.retain(|entry| {
                let hides = entry.get("mode").and_then(Node::as_str) == Some("deny");
                if !hides {
                    opened.push((format!("sandbox.credentials.{list}"), entry.span.start));
                }
                hides
            });
        }
        for (key, offset) in opened {
            let message = "ignored: the project settings can only make the sandbox stricter";
            self.say(Severity::Warning, Some(offset), &key, message);
        }
    }

    /// Modes that stop asking come from the person. `auto` in a project's files still says that no other file's mode
    /// was wanted, so the built-in one stands in for it.
    fn default_mode(&mut self, root: &mut Node) {
        let in_project = matches!(self.scope, Scope::Project | Scope::Local);
        let Some(permissions) = root.get_mut("permissions").filter(|_| in_project) else { return };
        let Some(mode) = permissions.get_mut("defaultMode") else { return };
        let at = Some(mode.span.start);
        match mode.as_str() {
            Some("auto") => {
                mode.json = Json::String("default".into());
                let message =
                    "the mode auto can only be chosen in the user settings; in this file it counts as default";
                self.say(Severity::Warning, at, "permissions.defaultMode", message);
            }
            Some("bypassPermissions") if self.scope == Scope::Project => {
                permissions.remove("defaultMode");
                let message = "ignored: the project settings cannot turn permission checks off";
                self.say(Severity::Warning, at, "permissions.defaultMode", message);
            }
            _ => {}
        }
    }
}

/// Names what else does not fit, so that nobody has to correct one value after the other.
fn also_wrong(text: &JsonText, root: &Node, first: &Misfit) -> String {
    const SHOWN: usize = 5;
    let mut rest = root.clone();
    limits::repair(&mut rest, &first.key());
    let mut others = Vec::new();
    // One more than is shown tells that there are more.
    while others.len() <= SHOWN
        && let Err(misfit) = fits(&rest)
    {
        let key = misfit.key();
        limits::repair(&mut rest, &key);
        let line = misfit.span.map_or_else(String::new, |span| format!(" (line {})", text.line(span.start)));
        others.push(format!("{key}{line}"));
    }
    match others.len() {
        0 => String::new(),
        count if count > SHOWN => format!("; also wrong: {} and more", others[..SHOWN].join(", ")),
        _ => format!("; also wrong: {}", others.join(", ")),
    }
}

/// Whether everything fits its type.
fn fits(root: &Node) -> Result<(), Misfit> {
    let settings = Settings::deserialize(root)?;
    HostedSettings::deserialize(root)?;
    limits::check(&settings, root)
}

/// Takes a sandbox that is switched neither on nor off for one that is on: nobody writes `"yes"` or `1` to leave it off. Says
/// where that stood.
fn switch_on(root: &mut Node) -> Option<std::ops::Range<usize>> {
    let sandbox = root.get_mut("sandbox")?;
    let span = sandbox.span.clone();
    if !matches!(sandbox.json, Json::Object(_) | Json::Bool(false) | Json::Null) {
        sandbox.json = Json::Object(Vec::new());
        sandbox.entry("enabled", || Json::Bool(true))?;
        return Some(span);
    }
    let switch = sandbox.get_mut("enabled").filter(|switch| !matches!(switch.json, Json::Bool(_) | Json::Null))?;
    switch.json = Json::Bool(true);
    Some(switch.span.clone())
}

/// Handlers that cannot run, and why.
fn take_bad(handlers: &mut Vec<Node>) -> Vec<(Node, String)> {
    let mut bad = Vec::new();
    let mut kept = Vec::with_capacity(handlers.len());
    for handler in handlers.drain(..) {
        match why_bad(&handler) {
            Some(why) => bad.push((handler, why)),
            None => kept.push(handler),
        }
    }
    *handlers = kept;
    bad
}

fn why_bad(handler: &Node) -> Option<String> {
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

fn unknown(path: &str) -> String {
    if path == "mcpServers" {
        return "not read from settings; MCP servers belong into .mcp.json".into();
    }
    match keys::close_to(path) {
        Some(name) => format!("gimlet does not know this key; did you mean {name}?"),
        None => "gimlet does not know this key".into(),
    }
}

/// The host in the address of a page; nothing where a text is no such address, or names none.
fn host_of_address(text: &str) -> Option<String> {
    let text = text.trim();
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    // A page of one port stands for its host.
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let host = host.rsplit_once(':').filter(|(_, port)| host != text && is_port(port)).map_or(host, |(host, _)| host);
    (host != text && !host.is_empty()).then(|| host.to_owned())
}
