//! Explanation of commands that are not granted: their parts one by one, and rules that nearly cover one of them. It
//! explains decisions and makes none.

use super::PolicyEvaluator;
use super::rule_subject::{CommandFiles, FileAccess, RuleSubject};
use crate::rules::{Behavior, CommandPattern, MatchCertainty, Rule, RuleSpecifier};
use crate::shell::{CommandPart, ShellAnalysis, Word, reachable_commands};
use crate::verdict::{Decision, NearRule, PartVerdict, VerdictReason};

/// Limit of parts that are named in one verdict.
const MOST_NAMED: usize = 5;

impl PolicyEvaluator<'_> {
    /// Returns the parts that nothing grants, where that adds information to the verdict.
    pub(super) fn find_unmatched_parts(&self, subject: &RuleSubject) -> Vec<VerdictReason> {
        let RuleSubject::Run { analysis, files, .. } = subject else { return Vec::new() };
        let mut found = Vec::new();
        for (part, of_part) in analysis.parts.iter().zip(&files.parts) {
            if found.len() >= MOST_NAMED {
                return found;
            }
            if self.grant_part(part, of_part, files) == Err(VerdictReason::Default) {
                let near = self.find_near_rule(part);
                let named = VerdictReason::Unmatched { part: part.display_text(), near };
                let is_news =
                    analysis.parts.len() > 1 || matches!(named, VerdictReason::Unmatched { near: Some(_), .. });
                if is_news && !found.contains(&named) {
                    found.push(named);
                }
            }
        }
        found.extend(self.find_unmatched_redirects(analysis, files));
        found.truncate(MOST_NAMED);
        found
    }

    /// Returns redirections that nothing grants, beside commands that are granted.
    fn find_unmatched_redirects(&self, analysis: &ShellAnalysis, files: &CommandFiles) -> Vec<VerdictReason> {
        let missing = |at: usize| {
            let redirect = files.redirects.get(at)?;
            (self.grant_redirect(redirect) == Err(VerdictReason::Default)).then(|| show_redirect(analysis, at))
        };
        let rule = analysis.parts.iter().zip(&files.parts).find_map(|(part, of_part)| {
            match self.grant_part(part, of_part, files) {
                Ok(VerdictReason::Rule { text, source, .. }) => Some((text, source)),
                _ => None,
            }
        });
        let because = "a redirection is a read or write of its own";
        let near = rule.map(|(text, source)| Box::new(NearRule { text, source, because: because.to_owned() }));
        let parts = (0..analysis.redirects.len()).filter_map(missing);
        parts.map(|part| VerdictReason::Unmatched { part, near: near.clone() }).collect()
    }

    /// Decides on each part by itself.
    pub(super) fn decide_each_part(&self) -> Vec<PartVerdict> {
        let mut verdicts = Vec::new();
        for subject in self.subjects {
            let RuleSubject::Run { analysis, files, .. } = subject else { continue };
            for (part, of_part) in analysis.parts.iter().zip(&files.parts) {
                let closed = self.find_forbidden_file(&of_part.opened);
                let (decision, reason) =
                    closed.unwrap_or_else(|| self.decide_part(part, || self.grant_part(part, of_part, files)));
                verdicts.push(PartVerdict { part: part.display_text(), decision, reason });
            }
            for (at, redirect) in files.redirects.iter().enumerate() {
                let granted = || match self.grant_redirect(redirect) {
                    Ok(reason) => (Decision::Allow, reason.unwrap_or(VerdictReason::WorkingDirectory)),
                    Err(reason) => (Decision::Ask, reason),
                };
                let (decision, reason) =
                    self.find_forbidden_file(std::slice::from_ref(redirect)).unwrap_or_else(granted);
                verdicts.push(PartVerdict { part: show_redirect(analysis, at), decision, reason });
            }
        }
        verdicts
    }

    /// Returns the rule that forbids one of these files, or could.
    fn find_forbidden_file(&self, files: &[FileAccess]) -> Option<(Decision, VerdictReason)> {
        for (behavior, decision) in [(Behavior::Deny, Decision::Deny), (Behavior::Ask, Decision::Ask)] {
            let mut perhaps = None;
            for rule in self.rules.rules(behavior) {
                let RuleSpecifier::Path(pattern) = &rule.specifier else { continue };
                let governed = files.iter().filter(|file| file.write || rule.tool == "Read");
                match governed.map(|file| self.match_file(pattern, rule, file)).max() {
                    Some(MatchCertainty::Yes) => return Some((decision, rule.to_reason(behavior))),
                    Some(MatchCertainty::Perhaps) => drop(perhaps.get_or_insert(rule)),
                    Some(MatchCertainty::No) | None => {}
                }
            }
            if let Some(rule) = perhaps {
                let (text, source) = (rule.text.clone(), rule.source.clone());
                return Some((Decision::Ask, VerdictReason::MayMatchRule { text, source }));
            }
        }
        None
    }

    fn decide_part(
        &self,
        part: &CommandPart,
        grant: impl Fn() -> Result<VerdictReason, VerdictReason>,
    ) -> (Decision, VerdictReason) {
        for (behavior, decision) in [(Behavior::Deny, Decision::Deny), (Behavior::Ask, Decision::Ask)] {
            let forbids = |rule: &&Rule| match &rule.specifier {
                RuleSpecifier::All => rule.tool == "Bash",
                RuleSpecifier::Command(pattern) => reachable_commands(&part.words)
                    .into_iter()
                    .any(|words| pattern.forbids(words) == MatchCertainty::Yes),
                _ => false,
            };
            if let Some(rule) = self.rules.rules(behavior).iter().find(forbids) {
                return (decision, rule.to_reason(behavior));
            }
        }
        match grant() {
            Ok(reason) => (Decision::Allow, reason),
            Err(VerdictReason::Default) => match self.find_near_rule(part) {
                Some(near) => (Decision::Ask, VerdictReason::Unmatched { part: part.display_text(), near: Some(near) }),
                None => (Decision::Ask, VerdictReason::Default),
            },
            Err(reason) => (Decision::Ask, reason),
        }
    }

    /// Returns an allow rule that is about this part and does not cover it.
    fn find_near_rule(&self, part: &CommandPart) -> Option<Box<NearRule>> {
        self.rules.allow.iter().find_map(|rule| {
            let RuleSpecifier::Command(pattern) = &rule.specifier else { return None };
            let because = match explain_mismatch(part, rule, pattern)? {
                None if self.allow_rules().any(|other| std::ptr::eq(other, rule)) => return None,
                None => "auto mode sets rules as wide as this one aside".to_owned(),
                Some(because) => because,
            };
            Some(Box::new(NearRule { text: rule.text.clone(), source: rule.source.clone(), because }))
        })
    }
}

/// Returns the clause that keeps a pattern from covering a part that it is about, or `Some(None)` if nothing does.
/// `None` when it is about something else.
fn explain_mismatch(part: &CommandPart, rule: &Rule, pattern: &CommandPattern) -> Option<Option<String>> {
    let reached = reachable_commands(&part.words);
    if reached.iter().any(|words| rule.allows_command(words)) {
        return Some(match part.set_variables.as_slice() {
            [] if part.layers.iter().any(|words| rule.allows_command(words)) => None,
            [] if part.layers.is_empty() => Some("it changes files whose names only show when it runs".to_owned()),
            // Wrappers that rules ignore are removed from the last layer.
            [] => Some(format!("it is run through `{}`", show_program_name(part.layers.last()?))),
            [set] => Some(format!("{set} is set in front of the command")),
            sets => Some(format!("{} are set in front of the command", sets.join(" and "))),
        });
    }
    let fitting = |wanted: MatchCertainty| reached.iter().find(|words| pattern.forbids(words) == wanted);
    if let Some(words) = fitting(MatchCertainty::Yes) {
        let by_path = show_program_name(words).contains('/');
        let because =
            if by_path { "it names the program by a path" } else { "only a rule with the exact command does" };
        return Some(Some(because.to_owned()));
    }
    if fitting(MatchCertainty::Perhaps).is_some() {
        return Some(Some("part of it is only known when it runs".to_owned()));
    }
    match pattern {
        CommandPattern::Exact(expected) => {
            let longer = |words: &&[Word]| {
                words.len() > expected.len()
                    && expected.iter().zip(*words).all(|(text, word)| word.value() == Some(text.as_str()))
            };
            reached.iter().any(longer).then(|| Some("the rule is for exactly its own words".to_owned()))
        }
        _ => None,
    }
}

fn show_program_name(words: &[Word]) -> String {
    words.first().map(Word::display_text).unwrap_or_default()
}

fn show_redirect(analysis: &ShellAnalysis, at: usize) -> String {
    let Some(redirect) = analysis.redirects.get(at) else { return String::new() };
    format!("{} {}", if redirect.writes { ">" } else { "<" }, redirect.target.display_text())
}
