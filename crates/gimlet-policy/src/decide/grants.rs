//! Grants of a call's needs: by the path's location, the mode, a rule that allows, or because a command only reads.
//! This is the last step of a decision, when nothing forbids and nothing has to be asked.

use std::path::{Path, PathBuf};

use gimlet_proto::PermissionMode;

use super::PolicyEvaluator;
use super::rule_subject::{CommandFiles, FileAccess, PartFiles, RuleSubject};
use crate::paths::{MatchStrictness, is_credential_path, is_protected};
use crate::rules::{Behavior, Rule, RuleSpecifier, is_suspended};
use crate::shell::{CommandPart, ParseTrouble, Word, base_name};
use crate::verdict::{Decision, Verdict, VerdictReason};

impl PolicyEvaluator<'_> {
    /// Grants every need or asks; the reasons name what granted each need, or the one that was not granted.
    pub(super) fn grant_all_needs(&self) -> Verdict {
        let mut reasons: Vec<VerdictReason> = Vec::new();
        for subject in self.subjects {
            match self.grant_need(subject) {
                Ok(more) => more.into_iter().for_each(|reason| {
                    if !reasons.contains(&reason) {
                        reasons.push(reason);
                    }
                }),
                Err(reason) => {
                    let missing =
                        if reason == VerdictReason::Default { self.find_unmatched_parts(subject) } else { Vec::new() };
                    let mut verdict = self.ask_classifier_or_user(reason);
                    verdict.reasons.extend(missing);
                    return verdict;
                }
            }
        }
        if reasons.is_empty() {
            // A call that declares no needs is not known to be harmless.
            return self.ask_classifier_or_user(VerdictReason::Default);
        }
        Verdict { decision: Decision::Allow, reasons }
    }

    fn grant_need(&self, subject: &RuleSubject) -> Result<Vec<VerdictReason>, VerdictReason> {
        let reason = match subject {
            RuleSubject::Run { .. } => return self.grant_command(subject),
            // An agent's task is reviewed before it begins; its own calls are reviewed as well.
            RuleSubject::Session if self.context.mode == PermissionMode::Auto && self.call.tool == "Agent" => {
                Err(VerdictReason::Default)
            }
            RuleSubject::Session => Ok(VerdictReason::SessionState),
            RuleSubject::Path { spelled, resolved, write, odd, .. } => match resolved {
                Some(resolved) if !odd => {
                    self.grant_path(spelled, *write)?;
                    self.grant_path(resolved, *write)
                }
                _ => Err(VerdictReason::OddPath(spelled.clone())),
            },
            RuleSubject::Fetch { host } => {
                let matches = |rule: &Rule| match (&rule.specifier, host) {
                    (RuleSpecifier::Domain(pattern), Some(host)) => pattern.matches(host),
                    _ => false,
                };
                self.find_allow_rule(matches).ok_or(VerdictReason::Default)
            }
            RuleSubject::Opaque if self.context.mode == PermissionMode::Plan => {
                Err(VerdictReason::Mode(PermissionMode::Plan))
            }
            RuleSubject::Opaque => self.find_allow_rule(|_| false).ok_or(VerdictReason::Default),
        };
        reason.map(|reason| vec![reason])
    }

    /// Returns the allow rule that covers every call of the tool, or one that `matches`.
    pub(super) fn find_allow_rule(&self, matches: impl Fn(&Rule) -> bool) -> Option<VerdictReason> {
        let named = |rule: &Rule| match &rule.specifier {
            RuleSpecifier::All => true,
            RuleSpecifier::Agent(pattern) => pattern.allows(self.call.input),
            RuleSpecifier::Skill(pattern) => pattern.allows(self.call.input),
            _ => false,
        };
        let covers =
            |rule: &&Rule| (named(rule) && rule.names_tool(self.call.tool, self.call.also_named)) || matches(rule);
        let found = self.allow_rules().find(covers);
        found.map(|rule| rule.to_reason(Behavior::Allow))
    }

    /// Returns the allow rules in force: auto mode suspends those that would leave its classifier nothing to judge.
    pub(super) fn allow_rules(&self) -> impl Iterator<Item = &Rule> {
        let auto = self.context.mode == PermissionMode::Auto;
        self.rules.allow.iter().filter(move |rule| !auto || !is_suspended(rule, false))
    }

    fn grant_path(&self, path: &Path, write: bool) -> Result<VerdictReason, VerdictReason> {
        // A rule about a command does not allow what the command writes by redirection.
        let is_redirection = write && self.is_command_call();
        let granted = self.grant_location(path, write);
        if is_redirection { granted } else { granted.or_else(|refusal| self.find_allow_rule(|_| false).ok_or(refusal)) }
    }

    /// Returns true if only explicit permissions count, so that a rule is searched also where none is needed
    /// otherwise.
    fn requires_explicit_rule(&self) -> bool {
        self.rules.has_unread_settings
    }

    fn is_command_call(&self) -> bool {
        self.subjects.iter().any(RuleSubject::is_command)
    }

    /// Returns the reason that lets any tool touch this path: its location, the mode, or a path rule. `Err` holds the
    /// reason to ask.
    fn grant_location(&self, path: &Path, write: bool) -> Result<VerdictReason, VerdictReason> {
        let rule = || self.allow_rules().find(|rule| self.path_rule_allows(rule, path, write));
        if self.requires_explicit_rule()
            && let Some(rule) = rule()
        {
            return Ok(rule.to_reason(Behavior::Allow));
        }
        let secret = !write && self.is_credential_path(path);
        if !write && !secret && self.context.is_readable(path) {
            return Ok(VerdictReason::WorkingDirectory);
        }
        if write && self.context.is_session_file(path) {
            return Ok(VerdictReason::SessionState);
        }
        // A tool's edit is visible and can be undone; files that a command overwrites, removes or moves are for the
        // classifier of auto mode.
        let edits = match self.context.mode {
            PermissionMode::AcceptEdits => true,
            PermissionMode::Auto => !self.is_command_call(),
            _ => false,
        };
        if write && edits && self.context.is_in_roots(path) {
            return Ok(VerdictReason::Mode(self.context.mode));
        }
        match rule() {
            Some(rule) => Ok(rule.to_reason(Behavior::Allow)),
            None if secret => Err(VerdictReason::Credentials(path.to_owned())),
            None if self.context.is_in_roots(path) => Err(VerdictReason::Default),
            None => Err(VerdictReason::OutsideWorkingDirectories(path.to_owned())),
        }
    }

    /// Returns true if the rule allows the path. An `Edit` rule also lets its files be read.
    pub(super) fn path_rule_allows(&self, rule: &Rule, path: &Path, write: bool) -> bool {
        let RuleSpecifier::Path(pattern) = &rule.specifier else { return false };
        (rule.tool == "Edit" || !write)
            && pattern.matches(path, self.anchor_dirs(rule, MatchStrictness::Allow), MatchStrictness::Allow)
    }

    fn grant_command(&self, subject: &RuleSubject) -> Result<Vec<VerdictReason>, VerdictReason> {
        let RuleSubject::Run { analysis, files, .. } = subject else { return Err(VerdictReason::Default) };
        if let Some(trouble) = analysis.trouble {
            return Err(VerdictReason::NotUnderstood(trouble));
        }
        if analysis.has_indirect_expansion {
            return Err(VerdictReason::NotUnderstood(ParseTrouble::Construct));
        }
        let sweeps = analysis.sweeping_removal.as_ref();
        // `> file`, with no command at all.
        let only_redirects = analysis.commands.is_empty() && !analysis.evaluates_values && !files.redirects.is_empty();
        let mut reasons = match self.find_allow_rule(|_| false) {
            Some(bare) if self.context.mode != PermissionMode::Plan && sweeps.is_none() => vec![bare],
            _ if only_redirects => Vec::new(),
            _ => self.grant_parts(&analysis.parts, files).map_err(|reason| match (reason, sweeps) {
                (VerdictReason::Default, Some(what)) => VerdictReason::CriticalRemoval(what.clone()),
                (VerdictReason::Default, None) => self.explain_missing_grant(files),
                (reason, _) => reason,
            })?,
        };
        // A redirection is a read or write of its own, which no rule about the command covers.
        for redirect in &files.redirects {
            let reason = self.grant_redirect(redirect)?;
            let is_news = |reason: &VerdictReason| {
                only_redirects || self.requires_explicit_rule() || *reason != VerdictReason::WorkingDirectory
            };
            reasons.extend(reason.filter(is_news));
        }
        Ok(if self.requires_explicit_rule() { reasons } else { dedup_reasons(reasons) })
    }

    pub(super) fn grant_redirect(&self, redirect: &FileAccess) -> Result<Option<VerdictReason>, VerdictReason> {
        if redirect.write && self.context.mode == PermissionMode::Plan {
            return Err(VerdictReason::Mode(PermissionMode::Plan));
        }
        if !redirect.certain || redirect.paths.is_empty() {
            return Err(VerdictReason::Default);
        }
        let mut reason = None;
        for path in &redirect.paths {
            // Bash opens a connection for these names, independent of rules about files.
            if path.starts_with("/dev/tcp") || path.starts_with("/dev/udp") {
                return Err(VerdictReason::OutsideWorkingDirectories(path.clone()));
            }
            if !redirect.write && self.is_credential_path(path) {
                return Err(VerdictReason::Credentials(path.clone()));
            }
            reason = Some(self.grant_location(path, redirect.write)?);
        }
        Ok(reason)
    }

    /// Returns the reason why a command that no rule allows is not granted, more exactly where it would read what it
    /// may not.
    fn explain_missing_grant(&self, files: &CommandFiles) -> VerdictReason {
        let read = files.all_accesses().filter(|file| !file.write).flat_map(|file| &file.paths);
        let mut refusals = read.filter_map(|path| self.grant_location(path, false).err());
        refusals.find(|refusal| *refusal != VerdictReason::Default).unwrap_or(VerdictReason::Default)
    }

    /// Grants every part of a command, or returns the reason to ask.
    fn grant_parts(&self, parts: &[CommandPart], files: &CommandFiles) -> Result<Vec<VerdictReason>, VerdictReason> {
        let mut reasons: Vec<VerdictReason> = Vec::new();
        for (part, of_part) in parts.iter().zip(&files.parts) {
            reasons.push(self.grant_part(part, of_part, files)?);
        }
        if reasons.is_empty() { Err(VerdictReason::Default) } else { Ok(reasons) }
    }

    pub(super) fn grant_part(
        &self,
        part: &CommandPart,
        files: &PartFiles,
        all: &CommandFiles,
    ) -> Result<VerdictReason, VerdictReason> {
        let trap = if may_run_git(part) { all.git_trap.as_ref() } else { None };
        // The target of a symlink counts as well. Rules that close any of it were checked before.
        let reads = part.reads.is_some() && trap.is_none() && files.followed;
        let matches = |rule: &&Rule| !files.unseen_writes && part.layers.iter().any(|words| rule.allows_command(words));
        let rule = || self.allow_rules().find(matches).map(|rule| rule.to_reason(Behavior::Allow));
        let or_rule =
            |reason: VerdictReason| if self.requires_explicit_rule() { rule().unwrap_or(reason) } else { reason };
        if let Some(reason) = self.grant_reads(&files.reads)
            && reads
        {
            // An explicit rule takes precedence over the analysis: such a command is not confined.
            return Ok(rule().unwrap_or(reason));
        }
        if self.context.mode == PermissionMode::Plan {
            return Err(VerdictReason::Mode(PermissionMode::Plan));
        }
        let accepts = self.context.mode == PermissionMode::AcceptEdits;
        if accepts && files.edits.as_deref().is_some_and(|edits| self.may_accept_edits(edits)) {
            return Ok(or_rule(VerdictReason::Mode(self.context.mode)));
        }
        rule().ok_or_else(|| match trap {
            Some(trap) if part.reads.is_some() => VerdictReason::GitRuns(trap.clone()),
            _ => VerdictReason::Default,
        })
    }

    /// Returns the reason that lets all of these be read: a rule, where one is needed for some of them. A rule about
    /// paths never lets a command read credentials: it may be meant for the files around them.
    fn grant_reads(&self, paths: &[PathBuf]) -> Option<VerdictReason> {
        let mut by_rule = None;
        if paths.iter().any(|path| self.is_credential_path(path)) {
            return None;
        }
        for path in paths {
            match self.grant_location(path, false).ok()? {
                reason @ VerdictReason::Rule { .. } => by_rule = by_rule.or(Some(reason)),
                _ if self.requires_explicit_rule() => return Some(VerdictReason::ReadOnly),
                _ => {}
            }
        }
        Some(by_rule.unwrap_or(VerdictReason::ReadOnly))
    }

    fn is_credential_path(&self, path: &Path) -> bool {
        is_credential_path(path, self.context.home.as_deref())
    }

    /// Returns true if the mode that accepts edits covers every one of these files.
    fn may_accept_edits(&self, edits: &[FileAccess]) -> bool {
        let inside =
            |path: &PathBuf| self.context.is_in_roots(path) && !is_protected(path) && !self.is_credential_path(path);
        edits.iter().all(|file| file.certain && !file.paths.is_empty() && file.paths.iter().all(inside))
    }
}

/// Returns each reason once; that a part only reads is omitted where another part does more.
fn dedup_reasons(reasons: Vec<VerdictReason>) -> Vec<VerdictReason> {
    let mut said: Vec<VerdictReason> = Vec::new();
    for reason in reasons {
        if !said.contains(&reason) {
            said.push(reason);
        }
    }
    if said.len() > 1 {
        said.retain(|reason| *reason != VerdictReason::ReadOnly);
    }
    said
}

/// Returns true if a part may run git. A part without a known name could.
fn may_run_git(part: &CommandPart) -> bool {
    let git = |words: &Vec<Word>| words.first().and_then(Word::value).map(base_name) == Some("git");
    part.layers.is_empty() || part.layers.iter().any(git)
}
