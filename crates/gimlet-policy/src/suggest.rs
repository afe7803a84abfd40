//! What "don't ask again" would save for a call that asks: the narrowest changes that would have let it pass, each with
//! what it covers. A suggestion is only made if it really answers the question: every set of changes is tried against
//! the very call before anyone is shown it.

use std::path::Path;

use gimlet_proto::{Need, PermissionMode, shell_word};

use crate::decide::{Call, NeedFacts, World, decide_seeing};
use crate::paths::{FileView, holds_secrets, is_inside, normalise, pattern_for};
use crate::rules::{
    Behavior, Destination, PermissionUpdate, Permissions, RuleSet, RuleSource, RuleValue, host_of, is_interpreter,
    open_words, runs_more,
};
use crate::shell::{Word, base_name, reachable};
use crate::verdict::Decision;

/// More rules than a person reads before saying yes.
const MOST_SUGGESTIONS: usize = 5;
/// A longer rule cannot be shown in full.
const LONGEST_RULE: usize = 120;

/// A change that would have let a call pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    pub update: PermissionUpdate,
    /// What it would let pass from then on, in words for people.
    pub covers: String,
}

/// The changes that together would have let this call pass unasked; none when there are no such changes, or too many or
/// too long ones to be read. `source` says for a destination where its rules are anchored.
pub fn suggestions(
    call: &Call<'_>,
    rules: &RuleSet,
    world: &World,
    view: &dyn FileView,
    source: &dyn Fn(Destination) -> RuleSource,
) -> Vec<Suggestion> {
    Asking { rules, world, view, source, unconfined: false }.suggest(call)
}

/// The changes that together would have let this call run unconfined, for a call that could not work confined; none when
/// there are no such changes, or too many or too long ones to be read.
pub fn suggestions_to_run_unconfined(
    call: &Call<'_>,
    rules: &RuleSet,
    world: &World,
    view: &dyn FileView,
    source: &dyn Fn(Destination) -> RuleSource,
) -> Vec<Suggestion> {
    Asking { rules, world, view, source, unconfined: true }.suggest(call)
}

struct Asking<'a> {
    rules: &'a RuleSet,
    world: &'a World,
    view: &'a dyn FileView,
    source: &'a dyn Fn(Destination) -> RuleSource,
    /// The call must be allowed by more than the analysis of its commands.
    unconfined: bool,
}

impl Asking<'_> {
    fn suggest(&self, call: &Call<'_>) -> Vec<Suggestion> {
        let mut found: Vec<Suggestion> = Vec::new();
        for facts in call.needs {
            let alone = Call { needs: std::slice::from_ref(facts), ..*call };
            if self.passes(&alone, self.rules, self.world) {
                continue;
            }
            let Some(changes) = for_need(call.tool, facts, self) else { return Vec::new() };
            found.extend(changes.into_iter().filter(|change| !found.contains(change)).collect::<Vec<_>>());
        }
        if call.needs.is_empty() {
            found.extend(for_tool(call.tool));
        }
        let readable = found.iter().all(|suggestion| suggestion.covers.chars().count() <= LONGEST_RULE);
        let answers = !found.is_empty() && found.len() <= MOST_SUGGESTIONS && readable;
        if answers && self.would_pass(&found, call) { found } else { Vec::new() }
    }

    /// Whether a call needs no question.
    fn passes(&self, call: &Call<'_>, rules: &RuleSet, world: &World) -> bool {
        let verdict = decide_seeing(call, rules, world, self.view);
        let is_confined = self.unconfined && verdict.is_by_analysis_alone();
        verdict.decision == Decision::Allow && !is_confined
    }

    /// Whether the call would pass unasked after these changes.
    fn would_pass(&self, found: &[Suggestion], call: &Call<'_>) -> bool {
        let Self { rules, world, source, .. } = self;
        let mut after = Permissions { mode: world.mode, rules: (*rules).clone(), ..Permissions::default() };
        if found.iter().any(|suggestion| after.apply(&suggestion.update, source).is_err()) {
            return false;
        }
        let roots = world.roots.iter().chain(&after.directories).cloned().collect();
        let world = World { mode: after.mode, roots, ..(*world).clone() };
        self.passes(call, &after.rules, &world)
    }
}

fn for_need(tool: &str, facts: &NeedFacts, asking: &Asking<'_>) -> Option<Vec<Suggestion>> {
    match &facts.need {
        Need::Run(text) => for_command(tool, text, asking),
        Need::Write(path) => for_write(path, facts, asking.world).map(|change| vec![change]),
        Need::Read(path) => for_read(path, facts, asking.world),
        Need::Fetch(url) => {
            let host = host_of(url)?;
            Some(vec![allow("WebFetch", Some(format!("domain:{host}")), Destination::LocalSettings)])
        }
        Need::Opaque => for_tool(tool).map(|change| vec![change]),
        Need::Session => Some(Vec::new()),
    }
}

/// A tool that says nothing about its calls can only be allowed as a whole.
fn for_tool(tool: &str) -> Option<Suggestion> {
    let whole = tool.starts_with("mcp__") || tool == "WebSearch";
    whole.then(|| allow(tool, None, Destination::LocalSettings))
}

fn allow(tool: &str, content: Option<String>, destination: Destination) -> Suggestion {
    let rule = RuleValue::new(tool, content);
    let covers = rule.text();
    Suggestion {
        update: PermissionUpdate::AddRules { rules: vec![rule], behavior: Behavior::Allow, destination },
        covers,
    }
}

/// Edits are approved until the session ends, never for longer.
fn for_write(path: &Path, facts: &NeedFacts, world: &World) -> Option<Suggestion> {
    let destination = Destination::Session;
    let spelled = normalise(&world.cwd, path);
    let inside = |path: &Path| world.roots.iter().any(|root| is_inside(path, root));
    if inside(&spelled) && facts.resolved.as_deref().is_none_or(inside) {
        let update = PermissionUpdate::SetMode { mode: PermissionMode::AcceptEdits, destination };
        let covers = "every edit inside the working directories until the session ends".to_owned();
        return Some(Suggestion { update, covers });
    }
    Some(allow("Edit", Some(pattern_for(&spelled, false)?), destination))
}

/// Reading elsewhere: the folder of the file, or the file alone where the folder holds too much.
fn for_read(path: &Path, facts: &NeedFacts, world: &World) -> Option<Vec<Suggestion>> {
    let home = world.home.as_deref();
    let spelled = normalise(&world.cwd, path);
    let mut changes = Vec::new();
    for path in std::iter::once(&spelled).chain(&facts.resolved) {
        let folder = path.parent().filter(|folder| folder.components().count() > 2 && !holds_secrets(folder, home));
        let pattern = match folder {
            Some(folder) => pattern_for(folder, true)?,
            None => pattern_for(path, false)?,
        };
        let change = allow("Read", Some(pattern), Destination::Session);
        if !changes.contains(&change) {
            changes.push(change);
        }
    }
    Some(changes)
}

/// One rule for each part that needs approval.
fn for_command(tool: &str, text: &str, asking: &Asking<'_>) -> Option<Vec<Suggestion>> {
    let world = asking.world;
    let analysis = world.analyse(text);
    if analysis.trouble.is_some() {
        return None;
    }
    let mut changes = Vec::new();
    for words in &analysis.commands {
        let values: Vec<&str> = words.iter().map(Word::value).collect::<Option<_>>()?;
        let needs = [NeedFacts::new(Need::Run(in_words(&values)?), None)];
        let part = Call { tool, also_named: &[], input: None, needs: &needs, needs_person: false };
        if asking.passes(&part, asking.rules, world) {
            continue;
        }
        let frees = |change: &Suggestion| asking.would_pass(std::slice::from_ref(change), &part);
        let change = for_part(words).into_iter().find(frees)?;
        if !changes.contains(&change) {
            changes.push(change);
        }
    }
    Some(changes)
}

/// Rules that may free one part, the best first: what a wrapper such as `timeout` runs makes a better rule than the
/// wrapper.
fn for_part(words: &[Word]) -> Vec<Suggestion> {
    let mut changes = Vec::new();
    let values =
        |words: &[Word]| -> Option<Vec<String>> { words.iter().map(|word| word.value().map(str::to_owned)).collect() };
    for words in reachable(words).into_iter().rev().filter_map(values) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let rule = command_rule(&words);
        changes.extend(rule.map(|rule| allow("Bash", Some(rule), Destination::LocalSettings)));
    }
    changes
}

/// The content of the narrowest rule worth keeping for a command: its sub-command with anything behind, or the command
/// itself.
fn command_rule(words: &[&str]) -> Option<String> {
    // A shell without a script runs whatever comes down the pipe, which no rule about its words speaks of.
    if is_interpreter(base_name(words.first()?)) && words[1..].iter().all(|word| word.starts_with('-')) {
        return None;
    }
    if let Some((fixed, rest)) = open_words(words).map(|fixed| words.split_at(fixed))
        && !runs_more(fixed, rest)
    {
        return Some(format!("{} *", fixed.join(" ")));
    }
    in_words(words).filter(|text| !text.contains('*'))
}

/// A command of these words, quoted where it must be; `None` for words that no one line can show.
fn in_words(words: &[&str]) -> Option<String> {
    if words.iter().any(|word| word.chars().any(char::is_control)) {
        return None;
    }
    Some(words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests;
