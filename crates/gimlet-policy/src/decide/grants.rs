//! What grants a need: where its path lies, what the mode accepts, a rule that allows, or that a command only reads. It
//! comes last in the order of decisions, when nothing forbids and nothing has to be asked.

use std::path::{Path, PathBuf};

use gimlet_proto::PermissionMode;

use super::Judge;
use super::subject::{Files, PartFiles, Subject, Touched};
use crate::paths::{Strictness, is_protected, is_secret};
use crate::rules::{Behavior, Rule, Specifier, is_set_aside};
use crate::shell::{Part, Trouble, Word, base_name};
use crate::verdict::{Decision, Reason, Verdict};

impl Judge<'_> {
    /// Every need must be granted by something; the reasons say by what, or which one was not.
    pub(super) fn granted(&self) -> Verdict {
        let mut reasons: Vec<Reason> = Vec::new();
        for subject in self.subjects {
            match self.grant(subject) {
                Ok(more) => more.into_iter().for_each(|reason| {
                    if !reasons.contains(&reason) {
                        reasons.push(reason);
                    }
                }),
                Err(reason) => {
                    let missing = if reason == Reason::Default { self.unmatched(subject) } else { Vec::new() };
                    let mut verdict = self.ask(reason);
                    verdict.reasons.extend(missing);
                    return verdict;
                }
            }
        }
        if reasons.is_empty() {
            // A call that says nothing about itself is not known to be harmless.
            return self.ask(Reason::Default);
        }
        Verdict { decision: Decision::Allow, reasons }
    }

    fn grant(&self, subject: &Subject) -> Result<Vec<Reason>, Reason> {
        let reason = match subject {
            Subject::Run { .. } => return self.grant_run(subject),
            // What an agent is told to do is looked at before it begins; what it then does is looked at as well.
            Subject::Session if self.world.mode == PermissionMode::Auto && self.call.tool == "Agent" => {
                Err(Reason::Default)
            }
            Subject::Session => Ok(Reason::SessionState),
            Subject::Path { spelled, resolved, write, odd, .. } => {
                let Some(resolved) = resolved.as_deref().filter(|_| !odd) else {
                    return Err(Reason::OddPath(spelled.clone()));
                };
                self.grant_path(spelled, *write)?;
                self.grant_path(resolved, *write)
            }
            Subject::Fetch { host } => {
                let matches = |rule: &Rule| match (&rule.specifier, host) {
                    (Specifier::Domain(pattern), Some(host)) => pattern.matches(host),
                    _ => false,
                };
                self.allow_rule(matches).ok_or(Reason::Default)
            }
            Subject::Opaque if self.world.mode == PermissionMode::Plan => Err(Reason::Mode(PermissionMode::Plan)),
            Subject::Opaque => self.allow_rule(|_| false).ok_or(Reason::Default),
        };
        reason.map(|reason| vec![reason])
    }

    /// The allow rule that covers every call of the tool, or one that `matches`.
    pub(super) fn allow_rule(&self, matches: impl Fn(&Rule) -> bool) -> Option<Reason> {
        let named = |rule: &Rule| match &rule.specifier {
            Specifier::All => true,
            Specifier::Agent(pattern) => pattern.allows(self.call.input),
            Specifier::Skill(pattern) => pattern.allows(self.call.input),
            _ => false,
        };
        let covers = |rule: &&Rule| (named(rule) && rule.names(self.call.tool, self.call.also_named)) || matches(rule);
        let found = self.allow_rules().find(covers);
        found.map(|rule| rule.reason(Behavior::Allow))
    }

    /// The allow rules in force: auto mode sets aside those that would leave its classifier nothing to judge.
    pub(super) fn allow_rules(&self) -> impl Iterator<Item = &Rule> {
        let auto = self.world.mode == PermissionMode::Auto;
        self.rules.allow.iter().filter(move |rule| !auto || !is_set_aside(rule, false))
    }

    fn grant_path(&self, path: &Path, write: bool) -> Result<Reason, Reason> {
        // What a command writes by redirection is no part of what a rule about the command allows.
        let is_redirection = write && self.is_command();
        self.grant_place(path, write)
            .or_else(|refusal| self.allow_rule(|_| false).filter(|_| !is_redirection).ok_or(refusal))
    }

    /// Whether only what somebody said counts, so that a rule is looked for also where none is needed otherwise.
    fn needs_rule(&self) -> bool {
        self.rules.unread
    }

    fn is_command(&self) -> bool {
        self.subjects.iter().any(Subject::is_run)
    }

    /// What lets this path be touched by whatever tool: where it lies, the mode, or a path rule.
    fn grant_place(&self, path: &Path, write: bool) -> Result<Reason, Reason> {
        let rule = || self.allow_rules().find(|rule| self.path_rule_allows(rule, path, write));
        if let Some(rule) = self.needs_rule().then(rule).flatten() {
            return Ok(rule.reason(Behavior::Allow));
        }
        let secret = !write && self.is_secret(path);
        if !write && !secret && self.world.is_readable(path) {
            return Ok(Reason::WorkingDirectory);
        }
        if write && self.world.is_own(path) {
            return Ok(Reason::SessionState);
        }
        // What a tool edits can be seen and taken back; what a command writes over, removes or moves is for the reviewer of
        // auto mode.
        let edits = match self.world.mode {
            PermissionMode::AcceptEdits => true,
            PermissionMode::Auto => !self.is_command(),
            _ => false,
        };
        if write && edits && self.world.is_in_roots(path) {
            return Ok(Reason::Mode(self.world.mode));
        }
        match rule() {
            Some(rule) => Ok(rule.reason(Behavior::Allow)),
            None if secret => Err(Reason::Credentials(path.to_owned())),
            None if self.world.is_in_roots(path) => Err(Reason::Default),
            None => Err(Reason::OutsideWorkingDirectories(path.to_owned())),
        }
    }

    /// An `Edit` rule also lets its files be read.
    fn path_rule_allows(&self, rule: &Rule, path: &Path, write: bool) -> bool {
        let Specifier::Path(pattern) = &rule.specifier else { return false };
        (rule.tool == "Edit" || !write)
            && pattern.matches(path, self.places(rule, Strictness::Allow), Strictness::Allow)
    }

    fn grant_run(&self, subject: &Subject) -> Result<Vec<Reason>, Reason> {
        let Subject::Run { analysis, files, .. } = subject else { return Err(Reason::Default) };
        if let Some(trouble) = analysis.trouble {
            return Err(Reason::NotUnderstood(trouble));
        }
        if analysis.treacherous {
            return Err(Reason::NotUnderstood(Trouble::Construct));
        }
        let sweeps = analysis.sweeping_removal.as_ref();
        // `> file`, with no command at all.
        let only_redirects = analysis.commands.is_empty() && !analysis.evaluates && !files.redirects.is_empty();
        let mut reasons = match self.allow_rule(|_| false) {
            Some(bare) if self.world.mode != PermissionMode::Plan && sweeps.is_none() => vec![bare],
            _ if only_redirects => Vec::new(),
            _ => self.grant_parts(&analysis.parts, files).map_err(|reason| match (reason, sweeps) {
                (Reason::Default, Some(what)) => Reason::CriticalRemoval(what.clone()),
                (Reason::Default, None) => self.missing_grant(files),
                (reason, _) => reason,
            })?,
        };
        // A redirection is a read or write of its own, which no rule about the command covers.
        for redirect in &files.redirects {
            let reason = self.grant_redirect(redirect)?;
            let is_news = |reason: &Reason| only_redirects || self.needs_rule() || *reason != Reason::WorkingDirectory;
            reasons.extend(reason.filter(is_news));
        }
        Ok(if self.needs_rule() { reasons } else { without_small_news(reasons) })
    }

    pub(super) fn grant_redirect(&self, redirect: &Touched) -> Result<Option<Reason>, Reason> {
        if redirect.write && self.world.mode == PermissionMode::Plan {
            return Err(Reason::Mode(PermissionMode::Plan));
        }
        if !redirect.certain || redirect.paths.is_empty() {
            return Err(Reason::Default);
        }
        let mut reason = None;
        for path in &redirect.paths {
            // Bash opens a connection for these names, whatever rules say about files.
            if path.starts_with("/dev/tcp") || path.starts_with("/dev/udp") {
                return Err(Reason::OutsideWorkingDirectories(path.clone()));
            }
            if !redirect.write && self.is_secret(path) {
                return Err(Reason::Credentials(path.clone()));
            }
            reason = Some(self.grant_place(path, redirect.write)?);
        }
        Ok(reason)
    }

    /// What stands in the way of a command that no rule allows, more exactly where it would read what it may not.
    fn missing_grant(&self, files: &Files) -> Reason {
        let read = files.touched().filter(|file| !file.write).flat_map(|file| &file.paths);
        let mut refusals = read.filter_map(|path| self.grant_place(path, false).err());
        refusals.find(|refusal| *refusal != Reason::Default).unwrap_or(Reason::Default)
    }

    /// Every part of a command must be granted by something.
    fn grant_parts(&self, parts: &[Part], files: &Files) -> Result<Vec<Reason>, Reason> {
        let mut reasons: Vec<Reason> = Vec::new();
        for (part, of_part) in parts.iter().zip(&files.parts) {
            reasons.push(self.grant_part(part, of_part, files)?);
        }
        if reasons.is_empty() { Err(Reason::Default) } else { Ok(reasons) }
    }

    pub(super) fn grant_part(&self, part: &Part, files: &PartFiles, all: &Files) -> Result<Reason, Reason> {
        let trap = all.git_trap.as_ref().filter(|_| may_run_git(part));
        // What a link leads to counts, too. Whether a rule closes any of it was asked before.
        let reads = part.reading.is_some() && trap.is_none() && files.followed;
        let matches = |rule: &&Rule| !files.unseen_writes && part.layers.iter().any(|words| rule.allows_command(words));
        let rule = || self.allow_rules().find(matches).map(|rule| rule.reason(Behavior::Allow));
        let or_rule = |reason: Reason| self.needs_rule().then(rule).flatten().unwrap_or(reason);
        if let Some(reason) = self.grant_reads(&files.reads).filter(|_| reads) {
            // What somebody said counts for more than what it looks like: such a command is not confined.
            return Ok(rule().unwrap_or(reason));
        }
        if self.world.mode == PermissionMode::Plan {
            return Err(Reason::Mode(PermissionMode::Plan));
        }
        let accepts = self.world.mode == PermissionMode::AcceptEdits;
        if accepts && files.edits.as_deref().is_some_and(|edits| self.may_edit(edits)) {
            return Ok(or_rule(Reason::Mode(self.world.mode)));
        }
        let missing = || trap.filter(|_| part.reading.is_some()).cloned().map_or(Reason::Default, Reason::GitRuns);
        rule().ok_or_else(missing)
    }

    /// What lets all of these be read: a rule, where one is needed for some of them. A rule about paths gives no command
    /// leave to read credentials: it may mean everything around them.
    fn grant_reads(&self, paths: &[PathBuf]) -> Option<Reason> {
        let mut by_rule = None;
        if paths.iter().any(|path| self.is_secret(path)) {
            return None;
        }
        for path in paths {
            match self.grant_place(path, false).ok()? {
                reason @ Reason::Rule { .. } => by_rule = by_rule.or(Some(reason)),
                _ if self.needs_rule() => return Some(Reason::ReadOnly),
                _ => {}
            }
        }
        Some(by_rule.unwrap_or(Reason::ReadOnly))
    }

    fn is_secret(&self, path: &Path) -> bool {
        is_secret(path, self.world.home.as_deref())
    }

    /// Whether the mode that accepts edits covers every one of these files.
    fn may_edit(&self, edits: &[Touched]) -> bool {
        let inside = |path: &PathBuf| self.world.is_in_roots(path) && !is_protected(path) && !self.is_secret(path);
        edits.iter().all(|file| file.certain && !file.paths.is_empty() && file.paths.iter().all(inside))
    }
}

/// Each reason once; that a part only reads is no news where another takes more.
fn without_small_news(reasons: Vec<Reason>) -> Vec<Reason> {
    let mut said: Vec<Reason> = Vec::new();
    for reason in reasons {
        if !said.contains(&reason) {
            said.push(reason);
        }
    }
    if said.len() > 1 {
        said.retain(|reason| *reason != Reason::ReadOnly);
    }
    said
}

/// Whether a part is git's. One that is nobody's by name could be.
fn may_run_git(part: &Part) -> bool {
    let git = |words: &Vec<Word>| words.first().and_then(Word::value).map(base_name) == Some("git");
    part.layers.is_empty() || part.layers.iter().any(git)
}
