//! `gimlet sessions fsck`: reports damage in transcripts, and on request writes a repaired copy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use gimlet_app::session_lookup;
use gimlet_store::{
    CheckFinding, CheckReport, FindingSeverity, RepairedCopy, SessionFiles, check_session, write_repaired_copy,
};
use serde_json::json;

use super::{SessionsContext, humanize};
use crate::args::FsckArgs;
use crate::report::Report;

/// Maximum findings of one kind shown for a transcript; JSON output has all of them.
const SHOWN_OF_A_KIND: usize = 5;

pub(super) fn run(args: &FsckArgs, desk: &SessionsContext<'_>) -> Result<ExitCode, Report> {
    let (chosen, mut failed) = select_sessions(args, desk)?;
    let repair = match (&args.repair, chosen.as_slice()) {
        (None, _) => None,
        (Some(out), [one]) => Some(repair_path(&desk.around.cwd.join(out), one)),
        (Some(_), _) => {
            return Err(Report::new("--repair takes one session")
                .with_hint("Name it: gimlet sessions fsck SESSION --repair OUT"));
        }
    };
    let mut damaged = 0;
    for files in &chosen {
        let mut is_damaged = false;
        for (agent, checkup) in check_session(files) {
            let checkup = match checkup {
                Ok(checkup) => checkup,
                Err(error) => {
                    failed = true;
                    crate::print_error_line(&format!("gimlet: {error}"));
                    continue;
                }
            };
            is_damaged |= checkup.is_damaged();
            let agent = agent.as_deref();
            if args.json {
                crate::print_line(&checkup_json(files, agent, &checkup).to_string());
            } else if !checkup.findings.is_empty() || (chosen.len() == 1 && agent.is_none()) {
                crate::print_line(&gimlet_serve::sanitise(&render_text(args, files, agent, &checkup)));
            }
        }
        damaged += usize::from(is_damaged);
    }
    if let (Some(out), [one]) = (&repair, chosen.as_slice()) {
        let mended = write_repaired_copy(&one.transcript(), one.id().as_str(), out)
            .map_err(|error| Report::new(error.to_string()).with_hint("Name a file that is not there yet"))?;
        crate::print_error_line(&describe_copy(&mended, out));
        if SessionFiles::from_transcript(out).is_none() {
            let name = format!("{}.jsonl", one.id());
            crate::print_error_line(&format!(
                "note: only under the name {name} is it a session; a folder as OUT gives it that"
            ));
        }
    }
    if !args.json && chosen.len() != 1 {
        crate::print_line(&format!(
            "{} checked, {damaged} damaged",
            humanize::pluralize(chosen.len(), "session", "sessions")
        ));
    }
    Ok(ExitCode::from(u8::from(damaged > 0 || failed)))
}

/// Returns the sessions to check, and true if some cannot be read at all.
fn select_sessions(args: &FsckArgs, desk: &SessionsContext<'_>) -> Result<(Vec<SessionFiles>, bool), Report> {
    if !args.sessions.is_empty() {
        let named: Result<Vec<_>, _> = args.sessions.iter().map(|name| desk.find_session(name)).collect();
        return Ok((named?, false));
    }
    let looked = if args.all { desk.nearby.list_everywhere() } else { desk.nearby.list_oldest_first() };
    let (mut chosen, mut failed) = (Vec::new(), false);
    for session in looked {
        match session {
            Ok(session) => chosen.push(session_lookup::session_for_summary(&session)?),
            Err(error) => {
                failed = true;
                crate::print_error_line(&format!("gimlet: {error}"));
            }
        }
    }
    Ok((chosen, failed))
}

/// Returns the path of the new file: under the session's own name when a folder is given.
fn repair_path(out: &Path, files: &SessionFiles) -> PathBuf {
    let is_folder = out.is_dir() || out.as_os_str().to_string_lossy().ends_with('/');
    if is_folder { out.join(format!("{}.jsonl", files.id())) } else { out.to_owned() }
}

fn render_text(args: &FsckArgs, files: &SessionFiles, agent: Option<&str>, checkup: &CheckReport) -> String {
    let only_cut_off = checkup.findings.iter().all(|finding| finding.kind == "cut-off-turn");
    let state = match (checkup.is_damaged(), checkup.findings.is_empty()) {
        (true, _) => "damaged",
        (false, true) => "whole",
        (false, false) if only_cut_off => "ok, last turn incomplete",
        (false, false) => "whole, with remarks",
    };
    let of_agent = agent.map(|agent| format!(" (agent {agent})")).unwrap_or_default();
    let mut page = format!(
        "{}{of_agent}: {state} ({}, {}, {})\n  {}\n",
        files.id(),
        humanize::format_size(checkup.bytes),
        humanize::pluralize(checkup.entries, "entry", "entries"),
        humanize::pluralize(checkup.messages, "live message", "live messages"),
        checkup.path.display(),
    );
    page += &render_findings(&checkup.findings);
    if checkup.total > checkup.findings.len() {
        page += &format!("  … and {} more\n", checkup.total - checkup.findings.len());
    }
    if checkup.is_damaged() && agent.is_none() && args.repair.is_none() {
        let start: String = files.id().as_str().chars().take(8).collect();
        // A file elsewhere may have the id of a session that is whole.
        let name = if let [named] = args.sessions.as_slice() { named } else { &start };
        page += &format!("  gimlet sessions fsck {name} --repair OUT writes a repaired copy\n");
    }
    page.trim_end().to_owned()
}

/// Renders the first few findings of each kind, by line; a broken disk damages thousands of lines in one way.
fn render_findings(findings: &[CheckFinding]) -> String {
    let mut of_kind: BTreeMap<&str, usize> = BTreeMap::new();
    let mut page = String::new();
    for finding in findings {
        let seen = of_kind.entry(finding.kind).or_default();
        *seen += 1;
        if *seen <= SHOWN_OF_A_KIND {
            let place = finding.line.map(|line| format!("line {line}: ")).unwrap_or_default();
            page += &format!("  {place}{}: {}\n      → {}\n", finding.kind, finding.what, finding.consequence);
        }
    }
    for (kind, count) in of_kind.into_iter().filter(|(_, count)| *count > SHOWN_OF_A_KIND) {
        page += &format!("  … and {} more of {kind} (--json names all)\n", count - SHOWN_OF_A_KIND);
    }
    page
}

fn checkup_json(files: &SessionFiles, agent: Option<&str>, checkup: &CheckReport) -> serde_json::Value {
    let finding = |finding: &CheckFinding| {
        json!({
            "line": finding.line,
            "kind": finding.kind,
            "severity": match finding.severity { FindingSeverity::Note => "note", FindingSeverity::Damage => "damage" },
            "what": finding.what,
            "consequence": finding.consequence,
        })
    };
    json!({
        "id": files.id().as_str(),
        "agent": agent,
        "path": checkup.path,
        "damaged": checkup.is_damaged(),
        "size": checkup.bytes,
        "entries": checkup.entries,
        "messages": checkup.messages,
        "total": checkup.total,
        "findings": checkup.findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

fn describe_copy(mended: &RepairedCopy, out: &Path) -> String {
    let RepairedCopy { copied, live, synthetic: made_up } = mended;
    let mut text = format!("wrote {}: {live} live entries, {copied} other records", out.display());
    if *made_up > 0 {
        text += &format!(", {made_up} made up in place of lost ones");
    }
    if SessionFiles::from_transcript(out).is_some() {
        text += &format!("\ngo on with it: gimlet --resume {}", out.display());
    }
    text
}
