//! `gimlet permissions simulate`: decisions of changed rules about the calls of past sessions. Reads transcripts,
//! ledgers and settings, and resolves symlinks as they are now; runs and writes nothing.

mod folder_rules;
mod past_call;
mod simulation_report;
mod simulation_tally;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use gimlet_app::{ProcessEnv, session_lookup};
use gimlet_core::{Redactor, mask_tokens};
use gimlet_policy::{RuleScope, RuleSet, Verdict, VerdictReason};
use gimlet_store::{DecisionLine, PastCall, ProjectSessions, SessionFiles, StoreLocations, read_calls, read_decisions};

use super::parsed_call::ParsedCall;
use crate::args::{ComparisonBase, SimulateArgs};
use crate::report::Report;
use folder_rules::FolderRules;
use past_call::PastCallContext;
use simulation_tally::{ComparedDecision, SimulationTally, SkipReason};

/// Days of earlier sessions that the effect of one rule is found out from.
const EFFECT_DAYS: u64 = 30;

/// Judges every call of the sessions again and shows the differences.
pub(crate) fn run(args: &SimulateArgs) -> Result<ExitCode, Report> {
    let around = crate::environment::read_process_env()?;
    if args.against == ComparisonBase::Now && args.rules.is_empty() && args.only_rules.is_empty() && args.mode.is_none()
    {
        return Err(Report::new("there is nothing to compare: the rules in force now are compared with themselves")
            .with_hint("Give --rules FILE or --mode MODE"));
    }
    let (page, remarks) = simulate(args, &around)?;
    remarks.iter().for_each(|remark| crate::print_error_line(&format!("gimlet: {remark}")));
    crate::print_line(&gimlet_serve::sanitise(&page));
    Ok(ExitCode::SUCCESS)
}

/// Returns what one more rule would have changed in the sessions of this folder, or what one less would.
pub(crate) fn describe_rule_effect(
    around: &ProcessEnv,
    behavior: &str,
    rule: &str,
    removes: bool,
) -> Result<String, Report> {
    let mut rules: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    if removes {
        // The first one that reads like it is left out; the same rule in another file stays.
        let found = crate::config_cmd::find(around);
        let mut is_left_out = false;
        for line in &found.effective.rules {
            let of_line = gimlet_app::settings_mapping::rule_behavior(line).as_str();
            if !is_left_out && of_line == behavior && line.text == rule {
                is_left_out = true;
                continue;
            }
            rules.entry(of_line).or_default().push(line.text.clone());
        }
    } else {
        rules.insert(behavior, vec![rule.to_owned()]);
    }
    let failed = |error: std::io::Error| Report::new(format!("the effect cannot be found out: {error}"));
    let folder = std::env::temp_dir().join(format!("gimlet-rule-{}", gimlet_store::new_session_id()));
    gimlet_store::create_private_dirs(&folder).map_err(failed)?;
    let file = folder.join("rules.json");
    let written = std::fs::write(&file, serde_json::json!({ "permissions": rules }).to_string());
    let files = vec![file];
    let args = SimulateArgs {
        sessions: Vec::new(),
        rules: if removes { Vec::new() } else { files.clone() },
        only_rules: if removes { files } else { Vec::new() },
        mode: None,
        against: ComparisonBase::Now,
        all: false,
        days: Some(EFFECT_DAYS),
        trust: false,
        json: false,
    };
    let simulated = written.map_err(failed).and_then(|()| simulate(&args, around));
    // What stays is in the folder for temporary files.
    drop(std::fs::remove_dir_all(&folder));
    Ok(simulated?.0)
}

/// Judges every call again; returns the page, and warnings about the rules.
fn simulate(args: &SimulateArgs, around: &ProcessEnv) -> Result<(String, Vec<String>), Report> {
    let (sessions, unreadable) = select_sessions(args, around)?;
    let redactor = Redactor::default();
    gimlet_app::start::register_secrets(&redactor, &around.env);
    // As in the ledger of decisions, which is masked when it is written.
    let masked = |text: &str| mask_tokens(&redactor.mask(text)).into_owned();
    let mut simulation = Simulation { args, around, masked: &masked, folders: BTreeMap::new(), seen: HashSet::new() };
    let mut tally = SimulationTally::new(unreadable);
    // A file that cannot be used is an error also when there is no call to judge.
    simulation.folder_rules(&around.cwd)?;
    // A fork has the calls of its original without their decisions, and may be less recently used.
    let mut others = Vec::new();
    for files in &sessions {
        if simulation.simulate_session(files, &mut tally, CallSelection::Recorded)? > 0 {
            others.push(files);
        }
    }
    for files in others {
        simulation.simulate_session(files, &mut tally, CallSelection::Others)?;
    }
    let mut remarks: Vec<String> = Vec::new();
    for remark in simulation.folders.values().flat_map(|folder| &folder.remarks) {
        if !remarks.contains(remark) {
            remarks.push(remark.clone());
        }
    }
    let page = if args.json { simulation_report::render_json(&tally) } else { simulation_report::render_text(&tally) };
    Ok((masked(&page), remarks))
}

/// Returns the requested sessions, the oldest first, and those that cannot be read.
fn select_sessions(args: &SimulateArgs, around: &ProcessEnv) -> Result<(Vec<SessionFiles>, Vec<String>), Report> {
    let known = ProjectSessions::new(&StoreLocations::new(&around.config_home), &around.cwd, &[]);
    if !args.sessions.is_empty() {
        let mut files: Vec<SessionFiles> = Vec::new();
        for name in &args.sessions {
            let found = session_lookup::find_session(&known, name)?;
            if !files.contains(&found) {
                files.push(found);
            }
        }
        return Ok((files, Vec::new()));
    }
    let since = args
        .days
        .and_then(|days| SystemTime::now().checked_sub(Duration::from_secs(days.saturating_mul(24 * 60 * 60))));
    let (mut files, mut unreadable) = (Vec::new(), Vec::new());
    for session in if args.all { known.list_everywhere() } else { known.list_oldest_first() } {
        match session {
            Ok(session) if since.is_none_or(|since| session.modified >= since) => {
                files.push(session_lookup::session_for_summary(&session)?);
            }
            Ok(_) => {}
            Err(error) => unreadable.push(error.to_string()),
        }
    }
    Ok((files, unreadable))
}

struct Simulation<'a> {
    args: &'a SimulateArgs,
    around: &'a ProcessEnv,
    /// By the folder that sessions were started in.
    folders: BTreeMap<PathBuf, FolderRules>,
    /// Forks share their calls; each counts once.
    seen: HashSet<(String, String)>,
    /// Redacts credentials in a text.
    masked: &'a dyn Fn(&str) -> String,
}

/// Selection of a session's calls to judge.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallSelection {
    /// Calls with a decision in the ledger.
    Recorded,
    /// Calls without a decision in any session.
    Others,
}

/// Rules compared for one session.
struct ComparedRules {
    now: RuleSet,
    changed: RuleSet,
    directories: Vec<PathBuf>,
    results: PathBuf,
    start: PathBuf,
}

impl Simulation<'_> {
    fn folder_rules(&mut self, start: &Path) -> Result<&FolderRules, Report> {
        if !self.folders.contains_key(start) {
            let folder = FolderRules::read(self.args, self.around, start)?;
            self.folders.insert(start.to_owned(), folder);
        }
        // Inserted just above.
        self.folders.get(start).ok_or_else(|| Report::new("the settings of a folder were lost"))
    }

    /// Judges the selected calls of a session; returns the number of its other calls.
    fn simulate_session(
        &mut self,
        files: &SessionFiles,
        tally: &mut SimulationTally,
        which: CallSelection,
    ) -> Result<usize, Report> {
        let is_first = which == CallSelection::Recorded;
        let past = match read_calls(files) {
            Ok(past) => past,
            Err(error) => {
                tally.unreadable.extend(is_first.then(|| error.to_string()));
                return Ok(0);
            }
        };
        let decisions = match read_decisions(files) {
            Ok((decisions, damaged)) => {
                tally.add_damaged(files.decisions(), if is_first { damaged } else { 0 });
                decisions
            }
            Err(error) => {
                let problem = || format!("{} cannot be read: {error}", files.decisions().display());
                tally.unreadable.extend(is_first.then(problem));
                Vec::new()
            }
        };
        if is_first {
            tally.sessions += 1;
            tally.add_damaged(files.transcript(), past.damaged);
        }
        let start = past.cwd.clone().unwrap_or_else(|| self.around.cwd.clone());
        let only = !self.args.only_rules.is_empty();
        let folder = self.folder_rules(&start)?;
        let mut sides = ComparedRules {
            now: folder.now.clone(),
            changed: folder.changed.clone(),
            directories: folder.directories.clone(),
            results: files.tool_results(),
            start,
        };
        add_session_rules(&decisions, &mut sides.now);
        if !only {
            add_session_rules(&decisions, &mut sides.changed);
        }
        // A call may have several decisions; the last one counts.
        let by_call: HashMap<&str, &DecisionLine> = decisions.iter().map(|line| (line.call.as_str(), line)).collect();
        let (mut in_transcript, mut others) = (HashSet::new(), 0);
        for call in &past.calls {
            in_transcript.insert(call.id.as_str());
            let line = by_call.get(call.id.as_str()).copied();
            if line.is_some() != is_first {
                others += 1;
            } else if self.seen.insert((call.entry.clone(), call.id.clone())) {
                self.simulate_call(files, call, line, &sides, tally);
            }
        }
        if is_first {
            let lost = by_call.keys().filter(|call| !in_transcript.contains(*call)).count();
            tally.add_skipped(SkipReason::NotInTranscript, lost);
        }
        Ok(others)
    }

    fn simulate_call(
        &self,
        files: &SessionFiles,
        call: &PastCall,
        line: Option<&DecisionLine>,
        sides: &ComparedRules,
        tally: &mut SimulationTally,
    ) {
        let place = PastCallContext::for_call(call, line, sides, self.around);
        let input = serde_json::from_str(call.input.get()).ok();
        let Some(again) = input.and_then(|input| ParsedCall::new(&call.tool, input, &place.paths).ok()) else {
            // The tool rejected the input before anything was decided, and would again.
            return tally.add_skipped(SkipReason::BadInput, 1);
        };
        let judge = |rules: &RuleSet, mode| past_call::decide_call(&again, rules, mode, &place);
        // The user answered it with another input, and the ledger's verdict is on that one.
        let was_answered = again.to_policy_call().needs_person;
        let uses_ledger = self.args.against == ComparisonBase::Then && !was_answered;
        let recorded = if uses_ledger { line.and_then(ComparedDecision::from_ledger) } else { None };
        let then = recorded.unwrap_or_else(|| ComparedDecision::from_verdict(judge(&sides.now, place.mode)));
        let now = judge(&sides.changed, self.args.mode.unwrap_or(place.mode));
        let (tool, about) = again.tool_and_subject();
        // Redact before cutting: half of a token would not be recognised.
        tally.add_call(
            files.id().as_str(),
            call,
            (tool, (self.masked)(&about)),
            then,
            ComparedDecision::from_verdict(now),
        );
    }
}

/// Adds the rules that only that session had, by a flag or an answer. The ledger has those that decided something.
fn add_session_rules(decisions: &[DecisionLine], rules: &mut RuleSet) {
    let mut kept: Vec<(String, String)> = Vec::new();
    for line in decisions {
        let Ok(verdict) = serde_json::from_str::<Verdict>(line.verdict.get()) else { continue };
        for reason in verdict.reasons {
            let VerdictReason::Rule { behavior, text, source } = reason else { continue };
            let own = matches!(
                source.scope,
                RuleScope::CommandLine | RuleScope::Session | RuleScope::Hook | RuleScope::Skill
            );
            let name = (behavior.to_string(), text.clone());
            if own && !kept.contains(&name) {
                kept.push(name);
                // It was a valid rule then. If it no longer is, it cannot apply now either.
                drop(rules.add(behavior, &text, &source));
            }
        }
    }
}
