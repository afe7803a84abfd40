//! Why a command is not granted: its parts one by one, and rules that come near one of them without covering it. It
//! explains decisions and takes none.

use super::Judge;
use super::subject::{Files, Subject, Touched};
use crate::rules::{Behavior, CommandPattern, Fit, Rule, Specifier};
use crate::shell::{Analysis, Part, Word, reachable};
use crate::verdict::{Decision, NearRule, PartVerdict, Reason};

/// So many parts are named in one verdict.
const MOST_NAMED: usize = 5;

impl Judge<'_> {
    /// The parts that nothing grants, where that says more than the verdict does.
    pub(super) fn unmatched(&self, subject: &Subject) -> Vec<Reason> {
        let Subject::Run { analysis, files, .. } = subject else { return Vec::new() };
        let mut found = Vec::new();
        for (part, of_part) in analysis.parts.iter().zip(&files.parts) {
            if found.len() >= MOST_NAMED {
                return found;
            }
            if self.grant_part(part, of_part, files) == Err(Reason::Default) {
                let near = self.near(part);
                let named = Reason::Unmatched { part: part.shown(), near };
                let is_news = analysis.parts.len() > 1 || matches!(named, Reason::Unmatched { near: Some(_), .. });
                if is_news && !found.contains(&named) {
                    found.push(named);
                }
            }
        }
        found.extend(self.unmatched_redirects(analysis, files));
        found.truncate(MOST_NAMED);
        found
    }

    /// Redirections that nothing grants, beside commands that something does.
    fn unmatched_redirects(&self, analysis: &Analysis, files: &Files) -> Vec<Reason> {
        let missing = |at: usize| {
            let redirect = files.redirects.get(at)?;
            (self.grant_redirect(redirect) == Err(Reason::Default)).then(|| redirection(analysis, at))
        };
        let rule = analysis.parts.iter().zip(&files.parts).find_map(|(part, of_part)| {
            match self.grant_part(part, of_part, files) {
                Ok(Reason::Rule { text, source, .. }) => Some((text, source)),
                _ => None,
            }
        });
        let because = "a redirection is a read or write of its own";
        let near = rule.map(|(text, source)| Box::new(NearRule { text, source, because: because.to_owned() }));
        let parts = (0..analysis.redirects.len()).filter_map(missing);
        parts.map(|part| Reason::Unmatched { part, near: near.clone() }).collect()
    }

    /// What is decided about each part by itself.
    pub(super) fn part_verdicts(&self) -> Vec<PartVerdict> {
        let mut verdicts = Vec::new();
        for subject in self.subjects {
            let Subject::Run { analysis, files, .. } = subject else { continue };
            for (part, of_part) in analysis.parts.iter().zip(&files.parts) {
                let closed = self.forbidden_file(&of_part.opened);
                let (decision, reason) =
                    closed.unwrap_or_else(|| self.part_verdict(part, || self.grant_part(part, of_part, files)));
                verdicts.push(PartVerdict { part: part.shown(), decision, reason });
            }
            for (at, redirect) in files.redirects.iter().enumerate() {
                let granted = || match self.grant_redirect(redirect) {
                    Ok(reason) => (Decision::Allow, reason.unwrap_or(Reason::WorkingDirectory)),
                    Err(reason) => (Decision::Ask, reason),
                };
                let (decision, reason) = self.forbidden_file(std::slice::from_ref(redirect)).unwrap_or_else(granted);
                verdicts.push(PartVerdict { part: redirection(analysis, at), decision, reason });
            }
        }
        verdicts
    }

    /// The rule that forbids one of these files, or could.
    fn forbidden_file(&self, files: &[Touched]) -> Option<(Decision, Reason)> {
        for (behavior, decision) in [(Behavior::Deny, Decision::Deny), (Behavior::Ask, Decision::Ask)] {
            let mut perhaps = None;
            for rule in self.rules.rules(behavior) {
                let Specifier::Path(pattern) = &rule.specifier else { continue };
                let governed = files.iter().filter(|file| file.write || rule.tool == "Read");
                match governed.map(|file| self.forbids_file(pattern, rule, file)).max() {
                    Some(Fit::Yes) => return Some((decision, rule.reason(behavior))),
                    Some(Fit::Perhaps) => drop(perhaps.get_or_insert(rule)),
                    Some(Fit::No) | None => {}
                }
            }
            if let Some(rule) = perhaps {
                let (text, source) = (rule.text.clone(), rule.source.clone());
                return Some((Decision::Ask, Reason::MayMatchRule { text, source }));
            }
        }
        None
    }

    fn part_verdict(&self, part: &Part, grant: impl Fn() -> Result<Reason, Reason>) -> (Decision, Reason) {
        for (behavior, decision) in [(Behavior::Deny, Decision::Deny), (Behavior::Ask, Decision::Ask)] {
            let forbids = |rule: &&Rule| match &rule.specifier {
                Specifier::All => rule.tool == "Bash",
                Specifier::Command(pattern) => {
                    reachable(&part.words).into_iter().any(|words| pattern.forbids(words) == Fit::Yes)
                }
                _ => false,
            };
            if let Some(rule) = self.rules.rules(behavior).iter().find(forbids) {
                return (decision, rule.reason(behavior));
            }
        }
        match grant() {
            Ok(reason) => (Decision::Allow, reason),
            Err(Reason::Default) => match self.near(part) {
                Some(near) => (Decision::Ask, Reason::Unmatched { part: part.shown(), near: Some(near) }),
                None => (Decision::Ask, Reason::Default),
            },
            Err(reason) => (Decision::Ask, reason),
        }
    }

    /// An allow rule that is about this part and does not cover it.
    fn near(&self, part: &Part) -> Option<Box<NearRule>> {
        self.rules.allow.iter().find_map(|rule| {
            let Specifier::Command(pattern) = &rule.specifier else { return None };
            let because = match hindrance(part, rule, pattern)? {
                None if self.allow_rules().any(|other| std::ptr::eq(other, rule)) => return None,
                None => "auto mode sets rules as wide as this one aside".to_owned(),
                Some(because) => because,
            };
            Some(Box::new(NearRule { text: rule.text.clone(), source: rule.source.clone(), because }))
        })
    }
}

/// What keeps a pattern from covering a part that it is about: nothing, or a clause. `None` when it is about something
/// else.
fn hindrance(part: &Part, rule: &Rule, pattern: &CommandPattern) -> Option<Option<String>> {
    let reached = reachable(&part.words);
    if reached.iter().any(|words| rule.allows_command(words)) {
        return Some(match part.sets.as_slice() {
            [] if part.layers.iter().any(|words| rule.allows_command(words)) => None,
            [] if part.layers.is_empty() => Some("it changes files whose names only show when it runs".to_owned()),
            // Wrappers that rules see past are gone from the last layer.
            [] => Some(format!("it is run through `{}`", name(part.layers.last()?))),
            [set] => Some(format!("{set} is set in front of the command")),
            sets => Some(format!("{} are set in front of the command", sets.join(" and "))),
        });
    }
    let fitting = |wanted: Fit| reached.iter().find(|words| pattern.forbids(words) == wanted);
    if let Some(words) = fitting(Fit::Yes) {
        let by_path = name(words).contains('/');
        let because =
            if by_path { "it names the program by a path" } else { "only a rule with the exact command does" };
        return Some(Some(because.to_owned()));
    }
    if fitting(Fit::Perhaps).is_some() {
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

fn name(words: &[Word]) -> String {
    words.first().map(Word::shown).unwrap_or_default()
}

fn redirection(analysis: &Analysis, at: usize) -> String {
    let Some(redirect) = analysis.redirects.get(at) else { return String::new() };
    format!("{} {}", if redirect.writes { ">" } else { "<" }, redirect.target.shown())
}
