//! `/permissions`: the rules that hold, with where they come from; adds one or removes one, and says first what that would
//! have meant for earlier calls.

use gimlet_proto::{PermissionRuleView, PermissionsView};
use serde_json::{Map, Value};

use super::{CommandStep, TerminalCommand};
use crate::app::{AppEffect, TerminalApp};
use crate::dialogs::{CommandForm, FieldSpec};
use crate::pickers::{AppPicker, ChoicePicker, PickerRow};
use crate::services::{RuleBehavior, RuleChange, RulePlace};
use crate::styled_line::{StyledLine, TextTone};
use crate::text_width::{clean_line, clean_text};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "permissions",
    aliases: &["allowed-tools"],
    description: "Show, add and remove permission rules",
    argument_hint: "",
    waits_for_turn: false,
    run,
};

fn run(_app: &mut TerminalApp, _args: &str) -> CommandStep {
    CommandStep::Done(vec![AppEffect::QueryPermissions])
}

/// Returns the list of rules, those that forbid first.
pub(crate) fn permission_picker(view: &PermissionsView) -> AppPicker {
    let mut remarks =
        vec![StyledLine::of(format!("  Folder: {}", clean_line(&view.start.to_string_lossy())), TextTone::Dim)];
    for (folder, is_added) in &view.directories {
        let note = if *is_added { "  for this session" } else { "" };
        let text = format!("  Also: {}{note}", clean_line(&folder.to_string_lossy()));
        remarks.push(StyledLine::of(text, TextTone::Dim));
    }
    let add = AppEffect::Open(Box::new(AppPicker::Form(rule_form())));
    let mut choices = vec![(PickerRow::new("Add a rule…", ""), vec![add])];
    for (behavior, word) in [("deny", "never"), ("ask", "ask"), ("allow", "allow")] {
        for rule in view.rules.iter().filter(|rule| rule.behavior == behavior) {
            let row = PickerRow {
                note: describe_source(rule.source).to_owned(),
                ..PickerRow::new(format!("{word:<5}  {}", rule.rule), "")
            };
            choices.push((row, vec![AppEffect::Open(Box::new(one_rule(rule)))]));
        }
    }
    AppPicker::Choices(ChoicePicker::new("Permissions", choices).with_remarks(remarks))
}

/// Returns what can be done with one rule.
fn one_rule(rule: &PermissionRuleView) -> AppPicker {
    let behavior = RuleBehavior::ALL.into_iter().find(|behavior| behavior.as_str() == rule.behavior);
    let mut choices = Vec::new();
    let remark = match (RulePlace::from_source(rule.source), behavior) {
        (Some(place), Some(behavior)) => {
            let change = RuleChange { behavior, rule: rule.rule.clone(), place, removes: true };
            choices.push((PickerRow::new("Remove it", "shows the effect first"), vec![AppEffect::PreviewRule(change)]));
            format!("  It is in {}", place.label())
        }
        _ => format!("  It comes from {}, and cannot be changed here", describe_source(rule.source)),
    };
    choices.push((PickerRow::new("Back to the list", ""), vec![AppEffect::QueryPermissions]));
    let title = format!("{} {}", rule.behavior, rule.rule);
    let remarks = vec![StyledLine::of(remark, TextTone::Dim)];
    AppPicker::Choices(ChoicePicker::new(&title, choices).with_remarks(remarks))
}

fn rule_form() -> CommandForm {
    let behaviors = [("allow", "allow without asking"), ("ask", "always ask"), ("deny", "never allow")];
    let places: Vec<(&str, &str)> = RulePlace::ALL.iter().map(|place| (place.label(), place.label())).collect();
    let fields = vec![
        FieldSpec::one_of("behavior", "What it does", "", &behaviors),
        FieldSpec::text(
            "rule",
            "Rule",
            "Such as Bash(npm run test *), Read(src/**) or WebFetch(domain:example.org)",
            "",
        ),
        FieldSpec::one_of("place", "Saved in", "The first is your own file of this project", &places),
    ];
    CommandForm::new("Add a permission rule", Vec::new(), fields, "See its effect", accept_rule)
}

fn accept_rule(values: &Map<String, Value>) -> Vec<AppEffect> {
    let text = |name: &str| values.get(name).and_then(Value::as_str).unwrap_or_default();
    let behavior = RuleBehavior::ALL.into_iter().find(|behavior| behavior.as_str() == text("behavior"));
    let place = RulePlace::ALL.into_iter().find(|place| place.label() == text("place"));
    let change = RuleChange {
        behavior: behavior.unwrap_or(RuleBehavior::Ask),
        rule: text("rule").trim().to_owned(),
        place: place.unwrap_or(RulePlace::Local),
        removes: false,
    };
    vec![AppEffect::PreviewRule(change)]
}

/// Returns the question whether a change is to be made, with what it would have meant so far.
pub(crate) fn rule_picker(change: &RuleChange, effect: Result<String, String>) -> AppPicker {
    let (tone, text, is_usable) = match effect {
        Ok(text) => (TextTone::Text, text, true),
        Err(problem) => (TextTone::Error, problem, false),
    };
    let text = clean_text(&text);
    let remarks = text.lines().map(|line| StyledLine::of(format!("  {line}"), tone).hanging(4)).collect();
    let verb = if change.removes { "Remove" } else { "Save" };
    let title = format!("{verb} this rule? {} {}", change.behavior.as_str(), change.rule);
    let mut choices = Vec::new();
    if is_usable {
        let row = match change.removes {
            true => PickerRow::new("Yes, remove it", format!("from {}", change.place.label())),
            false => PickerRow::new("Yes, save it", format!("to {}", change.place.label())),
        };
        choices.push((row, vec![AppEffect::ChangeRule(change.clone())]));
    }
    choices.push((PickerRow::new("No, back to the list", ""), vec![AppEffect::QueryPermissions]));
    AppPicker::Choices(ChoicePicker::new(&title, choices).with_remarks(remarks))
}

fn describe_source(source: &str) -> &str {
    match source {
        "userSettings" => "your settings",
        "projectSettings" => "the project's settings",
        "localSettings" => "your settings for this project",
        "policySettings" => "your administrator",
        "flagSettings" | "cliArg" => "the command line",
        "session" => "this session",
        other => other,
    }
}
