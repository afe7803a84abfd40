//! `--resume` without a name: the user picks the session in the terminal.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::time::SystemTime;

use gimlet_app::{
    ProcessEnv,
    session_lookup::{self, is_id_prefix},
};
use gimlet_store::{SessionFilter, SessionSummary, StoreLocations};
use gimlet_text::truncate_to_line;

use super::{humanize, list};
use crate::report::Report;
use crate::terminal_text::page_width;

/// Sessions on one page.
const MOST_SHOWN: usize = 20;
/// Characters of a branch, and of all that stands before a title.
const BRANCH_WIDTH: usize = 16;
const BESIDE_TITLE: usize = 24 + BRANCH_WIDTH;
/// Page width when standard output is not a terminal.
const UNWATCHED: usize = 80;

/// Returns the id of the session that the user picks among those of this folder.
pub(crate) fn pick_session(around: &ProcessEnv) -> Result<String, Report> {
    let hint = "'gimlet sessions ls' shows what there is; then --resume ID";
    let untold =
        || Report::new("--resume does not say which session, and there is no terminal to ask in").with_hint(hint);
    // Standard input may carry the prompt's data.
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").map_err(|_| untold())?;
    let here = super::sessions_for_dir(&StoreLocations::new(&around.config_home), &around.cwd);
    let sessions = here.list(SessionFilter::All);
    if let Some(error) = session_lookup::unreadable_error(&here)
        && sessions.is_empty()
    {
        return Err(error.into());
    }
    if sessions.is_empty() {
        return Err(
            Report::new("there are no sessions of this folder").with_hint("'gimlet sessions ls --all' shows others")
        );
    }
    let picked = prompt_for_session(&sessions, &mut BufReader::new(&terminal), &mut &terminal as &mut &File);
    match picked {
        Ok(Some(session)) => Ok(session.id.to_string()),
        Ok(None) => Err(Report::new("no session was picked").with_hint(hint)),
        Err(error) => Err(Report::new(format!("the terminal cannot be asked: {error}")).with_hint(hint)),
    }
}

/// Shows sessions and reads answers until one is picked; returns `None` for an empty answer.
fn prompt_for_session<'a>(
    sessions: &'a [SessionSummary],
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<Option<&'a SessionSummary>> {
    let all: Vec<&SessionSummary> = sessions.iter().collect();
    let mut shown = all.clone();
    loop {
        output.write_all(gimlet_serve::sanitise(&render_page(&shown)).as_bytes())?;
        output.write_all(b"Number to resume, text to search, Enter to cancel: ")?;
        output.flush()?;
        let mut answer = String::new();
        // The end of the input is an empty answer, too, without a line end.
        if input.read_line(&mut answer)? == 0 {
            output.write_all(b"\n")?;
        }
        let answer = answer.trim();
        if answer.is_empty() {
            return Ok(None);
        }
        let number = answer.parse::<usize>().ok();
        if let Some(session) = number.and_then(|number| shown.get(number.checked_sub(1)?)) {
            return Ok(Some(session));
        }
        // Enough digits for an id prefix may be meant as one.
        if number.is_some() && !is_id_prefix(answer) {
            output.write_all(format!("There is no {answer}.\n").as_bytes())?;
            continue;
        }
        let found: Vec<&SessionSummary> =
            all.iter().copied().filter(|session| has_all_words(session, answer)).collect();
        if found.is_empty() {
            output.write_all(gimlet_serve::sanitise(&format!("No session has {answer:?} in it.\n")).as_bytes())?;
        } else {
            shown = found;
        }
    }
}

fn render_page(sessions: &[&SessionSummary]) -> String {
    let now = SystemTime::now();
    let title_width = page_width(UNWATCHED).saturating_sub(BESIDE_TITLE).max(20);
    let mut page = String::from("\n");
    for (index, session) in sessions.iter().take(MOST_SHOWN).enumerate() {
        let branch = truncate_to_line(session.git_branch.as_deref().unwrap_or_default(), BRANCH_WIDTH);
        let (age, size) = (humanize::format_age(session.modified, now), humanize::format_size(session.size));
        let title = truncate_to_line(&list::session_title(session), title_width);
        page += &format!("{:>3}  {age:>7}  {size:>8}  {branch:<BRANCH_WIDTH$}  {title}\n", index + 1);
    }
    if sessions.len() > MOST_SHOWN {
        page += &format!("     … and {} older ones\n", sessions.len() - MOST_SHOWN);
    }
    page
}

/// Returns true if the session's title, prompts, tag, branch or id contain every word.
fn has_all_words(session: &SessionSummary, answer: &str) -> bool {
    let known = [session.labels.display_title(), session.first_prompt.as_deref(), session.last_prompt.as_deref()];
    let known = known.into_iter().chain([session.labels.tag.as_deref(), session.git_branch.as_deref()]);
    let known: String = known.flatten().chain([session.id.as_str()]).collect::<Vec<_>>().join("\n").to_lowercase();
    answer.to_lowercase().split_whitespace().all(|word| known.contains(word))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gimlet_store::ProjectSessions;

    use super::*;

    fn store_sessions(folder: &Path, prompts: &[&str]) -> Vec<SessionSummary> {
        let places = StoreLocations::new(folder);
        let sessions = ProjectSessions::new(&places, Path::new("/srv/repo"), &[]);
        let project = places.project(Path::new("/srv/repo")).dir().to_owned();
        std::fs::create_dir_all(&project).unwrap();
        for (number, prompt) in prompts.iter().enumerate() {
            let id = format!("00000000-0000-4000-8000-{number:012}");
            let line = serde_json::json!({
                "type": "user", "uuid": id, "parentUuid": null, "sessionId": id, "cwd": "/srv/repo",
                "timestamp": format!("2026-01-0{}T00:00:00.000Z", number + 1), "version": "1", "isSidechain": false,
                "userType": "external", "gitBranch": "main", "message": {"role": "user", "content": prompt},
            });
            std::fs::write(project.join(format!("{id}.jsonl")), format!("{line}\n")).unwrap();
        }
        sessions.list(SessionFilter::All)
    }

    fn pick_with_input(sessions: &[SessionSummary], said: &str) -> (Option<String>, String) {
        let mut output = Vec::new();
        let picked = prompt_for_session(sessions, &mut said.as_bytes(), &mut output).unwrap();
        let prompt = picked.and_then(|session| session.first_prompt.clone());
        (prompt, String::from_utf8(output).unwrap())
    }

    #[test]
    fn a_number_picks_words_narrow_and_nothing_leaves() {
        let folder = tempfile::tempdir().unwrap();
        let sessions = store_sessions(folder.path(), &["mend the parser", "write docs", "mend the\u{1b}[31m docs"]);
        assert_eq!(sessions.len(), 3);
        let first = pick_with_input(&sessions, "1\n").0;
        assert_eq!(first, sessions[0].first_prompt);
        assert_eq!(pick_with_input(&sessions, "parser\n1\n").0.as_deref(), Some("mend the parser"));
        // A word without matches changes nothing, and neither does a number out of range.
        let (picked, page) = pick_with_input(&sessions, "nowhere\n9\nMEND parser\n1\n");
        assert_eq!(picked.as_deref(), Some("mend the parser"));
        assert!(page.contains("No session has \"nowhere\" in it.") && page.contains("There is no 9."));
        assert!(pick_with_input(&sessions, "0\n99\n\n").1.contains("There is no 99."));
        assert_eq!(pick_with_input(&sessions, "\n").0, None);
        assert_eq!(pick_with_input(&sessions, "").0, None);
        assert!(!page.contains('\u{1b}'), "{page:?}");
    }
}
