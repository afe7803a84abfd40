//! Changes that "don't ask again" would save for a call that asks: the narrowest ones that would have allowed it, each
//! with a description. A suggestion is only made if it answers the question: every set of changes is tried against the
//! call before it is shown.

use std::path::Path;

use gimlet_proto::{AccessNeed, PermissionMode};
use gimlet_text::quote_shell_word;

use crate::decide::{DecisionContext, NeedFacts, ProposedCall, decide_with_files};
use crate::paths::{FileView, contains_credentials, is_inside, normalise, pattern_for_path};
use crate::rules::{
    Behavior, PermissionUpdate, RuleSet, RuleSource, RuleValue, SessionPermissions, UpdateDestination, is_interpreter,
    may_run_other_program, open_prefix_length, parse_host,
};
use crate::shell::{Word, base_name, is_destructive, reachable_commands};
use crate::verdict::Decision;

/// Limit of suggested rules; a user would not read more before accepting.
const MOST_SUGGESTIONS: usize = 5;
/// Limit of a rule's length; a longer one cannot be shown in full.
const LONGEST_RULE: usize = 120;

/// A change that would have allowed a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionSuggestion {
    pub update: PermissionUpdate,
    /// Description for users of what the change would allow from then on.
    pub covers: String,
}

/// Returns the changes that together would have allowed this call unasked; none when there are no such changes, or too
/// many or too long ones to be read. `source` returns for a destination the source of its rules.
pub fn suggest_updates(
    call: &ProposedCall<'_>,
    rules: &RuleSet,
    world: &DecisionContext,
    view: &dyn FileView,
    source: &dyn Fn(UpdateDestination) -> RuleSource,
) -> Vec<PermissionSuggestion> {
    SuggestionContext { rules, context: world, view, source, unconfined: false }.suggest(call)
}

/// Returns the changes that together would have let this call run unconfined, for a call that could not work confined;
/// none when there are no such changes, or too many or too long ones to be read.
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
    /// True if the call must be allowed by more than the analysis of its commands.
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

    /// Returns true if a call needs no question.
    fn passes(&self, call: &ProposedCall<'_>, rules: &RuleSet, world: &DecisionContext) -> bool {
        let verdict = decide_with_files(call, rules, world, self.view);
        let is_confined = self.unconfined && verdict.is_by_analysis_alone();
        verdict.decision == Decision::Allow && !is_confined
    }

    /// Returns true if the call would pass unasked after these changes.
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

/// Suggests to allow a tool as a whole, for one that declares nothing about its calls.
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

/// Suggests a change for a write. Edits are approved until the session ends, never for longer.
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

/// Suggests a rule for reading elsewhere: the folder of the file, or the file alone where the folder holds too much.
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

/// Suggests one rule for each part that needs approval.
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

/// Returns rules that may allow one part, the best first: the command that a wrapper such as `timeout` runs makes a
/// better rule than the wrapper.
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

/// Returns the content of the narrowest useful rule for a command: its subcommand with anything after it, or the
/// command itself.
fn command_rule(words: &[&str]) -> Option<String> {
    // A shell without a script runs any text from the pipe, which no rule about its words covers.
    if is_interpreter(base_name(words.first()?)) && words[1..].iter().all(|word| word.starts_with('-')) {
        return None;
    }
    // What destroys data is offered only as it is, never with anything after it.
    if let Some((fixed, rest)) = open_prefix_length(words).map(|fixed| words.split_at(fixed))
        && !may_run_other_program(fixed, rest)
        && !is_destructive(words)
    {
        return Some(format!("{} *", fixed.join(" ")));
    }
    quote_command(words).filter(|text| !text.contains('*'))
}

/// Quotes these words as a command; `None` for words that cannot be shown on one line.
fn quote_command(words: &[&str]) -> Option<String> {
    if words.iter().any(|word| word.chars().any(char::is_control)) {
        return None;
    }
    Some(words.iter().map(|word| quote_shell_word(word)).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests;
