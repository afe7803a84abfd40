//! What "don't ask again" would save for a call that asks: the narrowest changes that would have let it pass, each with
//! what it covers. A suggestion is only made if it really answers the question: every set of changes is tried against
//! the very call before anyone is shown it.

use std::path::Path;

use gimlet_proto::{AccessNeed, PermissionMode, quote_shell_word};

use crate::decide::{DecisionContext, NeedFacts, ProposedCall, decide_with_files};
use crate::paths::{FileView, contains_credentials, is_inside, normalise, pattern_for_path};
use crate::rules::{
    Behavior, PermissionUpdate, RuleSet, RuleSource, RuleValue, SessionPermissions, UpdateDestination, is_interpreter,
    may_run_other_program, open_prefix_length, parse_host,
};
use crate::shell::{Word, base_name, reachable_commands};
use crate::verdict::Decision;

/// More rules than a person reads before saying yes.
const MOST_SUGGESTIONS: usize = 5;
/// A longer rule cannot be shown in full.
const LONGEST_RULE: usize = 120;

/// A change that would have let a call pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionSuggestion {
    pub update: PermissionUpdate,
    /// What it would let pass from then on, in words for people.
    pub covers: String,
}

/// The changes that together would have let this call pass unasked; none when there are no such changes, or too many or
/// too long ones to be read. `source` says for a destination where its rules are anchored.
pub fn suggest_updates(
    call: &ProposedCall<'_>,
    rules: &RuleSet,
    world: &DecisionContext,
    view: &dyn FileView,
    source: &dyn Fn(UpdateDestination) -> RuleSource,
) -> Vec<PermissionSuggestion> {
    SuggestionContext { rules, context: world, view, source, unconfined: false }.suggest(call)
}

/// The changes that together would have let this call run unconfined, for a call that could not work confined; none when
/// there are no such changes, or too many or too long ones to be read.
pub fn suggestions_to_run_unconfined(
    call: &ProposedCall<'_>,
    rules: &RuleSet,
    world: &DecisionContext,
    view: &dyn FileView,
    source: &dyn Fn(UpdateDestination) -> RuleSource,
) -> Vec<PermissionSuggestion> {
    SuggestionContext { rules, context: world, view, source, unconfined: true }.suggest(call)
}

struct SuggestionContext<'a> {
    rules: &'a RuleSet,
    context: &'a DecisionContext,
    view: &'a dyn FileView,
    source: &'a dyn Fn(UpdateDestination) -> RuleSource,
    /// The call must be allowed by more than the analysis of its commands.
    unconfined: bool,
}

impl SuggestionContext<'_> {
    fn suggest(&self, call: &ProposedCall<'_>) -> Vec<PermissionSuggestion> {
        let mut found: Vec<PermissionSuggestion> = Vec::new();
        for facts in call.needs {
            let alone = ProposedCall { needs: std::slice::from_ref(facts), ..*call };
            if self.passes(&alone, self.rules, self.context) {
                continue;
            }
            let Some(changes) = suggest_for_need(call.tool, facts, self) else { return Vec::new() };
            found.extend(changes.into_iter().filter(|change| !found.contains(change)).collect::<Vec<_>>());
        }
        if call.needs.is_empty() {
            found.extend(suggest_for_tool(call.tool));
        }
        let readable = found.iter().all(|suggestion| suggestion.covers.chars().count() <= LONGEST_RULE);
        let answers = !found.is_empty() && found.len() <= MOST_SUGGESTIONS && readable;
        if answers && self.would_allow(&found, call) { found } else { Vec::new() }
    }

    /// Whether a call needs no question.
    fn passes(&self, call: &ProposedCall<'_>, rules: &RuleSet, world: &DecisionContext) -> bool {
        let verdict = decide_with_files(call, rules, world, self.view);
        let is_confined = self.unconfined && verdict.is_by_analysis_alone();
        verdict.decision == Decision::Allow && !is_confined
    }

    /// Whether the call would pass unasked after these changes.
    fn would_allow(&self, found: &[PermissionSuggestion], call: &ProposedCall<'_>) -> bool {
        let Self { rules, context: world, source, .. } = self;
        let mut after =
            SessionPermissions { mode: world.mode, rules: (*rules).clone(), ..SessionPermissions::default() };
        if found.iter().any(|suggestion| after.apply(&suggestion.update, source).is_err()) {
            return false;
        }
        let roots = world.roots.iter().chain(&after.directories).cloned().collect();
        let world = DecisionContext { mode: after.mode, roots, ..(*world).clone() };
        self.passes(call, &after.rules, &world)
    }
}

fn suggest_for_need(
    tool: &str,
    facts: &NeedFacts,
    asking: &SuggestionContext<'_>,
) -> Option<Vec<PermissionSuggestion>> {
    match &facts.need {
        AccessNeed::Run(text) => suggest_for_command(tool, text, asking),
        AccessNeed::Write(path) => suggest_for_write(path, facts, asking.context).map(|change| vec![change]),
        AccessNeed::Read(path) => suggest_for_read(path, facts, asking.context),
        AccessNeed::Fetch(url) => {
            let host = parse_host(url)?;
            Some(vec![allow_suggestion("WebFetch", Some(format!("domain:{host}")), UpdateDestination::LocalSettings)])
        }
        AccessNeed::Opaque => suggest_for_tool(tool).map(|change| vec![change]),
        AccessNeed::Session => Some(Vec::new()),
    }
}

/// A tool that says nothing about its calls can only be allowed as a whole.
fn suggest_for_tool(tool: &str) -> Option<PermissionSuggestion> {
    let whole = tool.starts_with("mcp__") || tool == "WebSearch";
    whole.then(|| allow_suggestion(tool, None, UpdateDestination::LocalSettings))
}

fn allow_suggestion(tool: &str, content: Option<String>, destination: UpdateDestination) -> PermissionSuggestion {
    let rule = RuleValue::new(tool, content);
    let covers = rule.text();
    PermissionSuggestion {
        update: PermissionUpdate::AddRules { rules: vec![rule], behavior: Behavior::Allow, destination },
        covers,
    }
}

/// Edits are approved until the session ends, never for longer.
fn suggest_for_write(path: &Path, facts: &NeedFacts, world: &DecisionContext) -> Option<PermissionSuggestion> {
    let destination = UpdateDestination::Session;
    let spelled = normalise(&world.cwd, path);
    let inside = |path: &Path| world.roots.iter().any(|root| is_inside(path, root));
    if inside(&spelled) && facts.resolved.as_deref().is_none_or(inside) {
        let update = PermissionUpdate::SetMode { mode: PermissionMode::AcceptEdits, destination };
        let covers = "every edit inside the working directories until the session ends".to_owned();
        return Some(PermissionSuggestion { update, covers });
    }
    Some(allow_suggestion("Edit", Some(pattern_for_path(&spelled, false)?), destination))
}

/// Reading elsewhere: the folder of the file, or the file alone where the folder holds too much.
fn suggest_for_read(path: &Path, facts: &NeedFacts, world: &DecisionContext) -> Option<Vec<PermissionSuggestion>> {
    let home = world.home.as_deref();
    let spelled = normalise(&world.cwd, path);
    let mut changes = Vec::new();
    for path in std::iter::once(&spelled).chain(&facts.resolved) {
        let folder =
            path.parent().filter(|folder| folder.components().count() > 2 && !contains_credentials(folder, home));
        let pattern = match folder {
            Some(folder) => pattern_for_path(folder, true)?,
            None => pattern_for_path(path, false)?,
        };
        let change = allow_suggestion("Read", Some(pattern), UpdateDestination::Session);
        if !changes.contains(&change) {
            changes.push(change);
        }
    }
    Some(changes)
}

/// One rule for each part that needs approval.
fn suggest_for_command(tool: &str, text: &str, asking: &SuggestionContext<'_>) -> Option<Vec<PermissionSuggestion>> {
    let world = asking.context;
    let analysis = world.analyse_command(text);
    if analysis.trouble.is_some() {
        return None;
    }
    let mut changes = Vec::new();
    for words in &analysis.commands {
        let values: Vec<&str> = words.iter().map(Word::value).collect::<Option<_>>()?;
        let needs = [NeedFacts::new(AccessNeed::Run(quote_command(&values)?), None)];
        let part = ProposedCall { tool, also_named: &[], input: None, needs: &needs, needs_person: false };
        if asking.passes(&part, asking.rules, world) {
            continue;
        }
        let frees = |change: &PermissionSuggestion| asking.would_allow(std::slice::from_ref(change), &part);
        let change = suggest_for_part(words).into_iter().find(frees)?;
        if !changes.contains(&change) {
            changes.push(change);
        }
    }
    Some(changes)
}

/// Rules that may free one part, the best first: what a wrapper such as `timeout` runs makes a better rule than the
/// wrapper.
fn suggest_for_part(words: &[Word]) -> Vec<PermissionSuggestion> {
    let mut changes = Vec::new();
    let values =
        |words: &[Word]| -> Option<Vec<String>> { words.iter().map(|word| word.value().map(str::to_owned)).collect() };
    for words in reachable_commands(words).into_iter().rev().filter_map(values) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let rule = command_rule(&words);
        changes.extend(rule.map(|rule| allow_suggestion("Bash", Some(rule), UpdateDestination::LocalSettings)));
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
    if let Some((fixed, rest)) = open_prefix_length(words).map(|fixed| words.split_at(fixed))
        && !may_run_other_program(fixed, rest)
    {
        return Some(format!("{} *", fixed.join(" ")));
    }
    quote_command(words).filter(|text| !text.contains('*'))
}

/// A command of these words, quoted where it must be; `None` for words that no one line can show.
fn quote_command(words: &[&str]) -> Option<String> {
    if words.iter().any(|word| word.chars().any(char::is_control)) {
        return None;
    }
    Some(words.iter().map(|word| quote_shell_word(word)).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests;
