//! Finding the session that an argument names.

use std::path::{Path, PathBuf};

use gimlet_store::{FindError, Include, SessionFiles, SessionSummary, Sessions};

use crate::report::Report;

/// The newest session of this folder; none is an error that `hint` helps on from.
pub(crate) fn latest(sessions: &Sessions, hint: &str) -> Result<SessionFiles, Report> {
    let latest = sessions.latest(Include::All).and_then(|session| SessionFiles::of_transcript(&session.path));
    latest.ok_or_else(|| unreadable(sessions).unwrap_or_else(|| none_here().hint(hint)))
}

fn none_here() -> Report {
    Report::new("there is no session of this folder")
}

/// Why nothing can be found among these sessions, where that has another reason than that there is nothing.
pub(crate) fn unreadable(sessions: &Sessions) -> Option<Report> {
    sessions.unreadable().map(|error| Report::new(error.to_string()).hint("Sessions are kept there"))
}

/// A folder that an argument names.
pub(crate) fn folder(wanted: &Path, current: &Path) -> Result<PathBuf, String> {
    match current.join(wanted).canonicalize() {
        Ok(real) if real.is_dir() => Ok(real),
        Ok(_) => Err(format!("{}: this is no folder", wanted.display())),
        Err(_) => Err(format!("{}: there is no such folder", wanted.display())),
    }
}

/// The session whose transcript this is.
pub(crate) fn of_transcript(path: &Path) -> Result<SessionFiles, Report> {
    SessionFiles::of_transcript(path).ok_or_else(|| {
        Report::new(format!("{} is not a session by its name", path.display()))
            .hint("A transcript is called by the id of its session: <id>.jsonl")
    })
}

/// The shortest beginning of an id that is taken for one.
const SHORTEST_START: usize = 4;

/// A session by its id or the beginning of it, by the path of its transcript, or by its exact title: one of this folder,
/// or of any other if that is the only one.
pub(crate) fn named(sessions: &Sessions, name: &str) -> Result<SessionFiles, Report> {
    if gimlet_store::is_session_id(name) {
        return sessions.by_id(name).map_err(|error| not_found(sessions, &error));
    }
    if name.ends_with(".jsonl") && Path::new(name).is_file() {
        return of_transcript(Path::new(name));
    }
    let by_title = match sessions.by_title(name) {
        Err(FindError::NoSuchTitle { .. }) => sessions.by_title_everywhere(name),
        found => found,
    };
    match by_title {
        Ok(found) => of_summary(&found),
        Err(FindError::NoSuchTitle { .. }) if may_be_start(name) => {
            sessions.by_start(name).map_err(|error| not_found(sessions, &error).hint(WAYS))
        }
        Err(error) => Err(not_found(sessions, &error).hint(WAYS)),
    }
}

const WAYS: &str =
    "Name a session by its id, the beginning of it (four characters or more), its exact title or its transcript";

fn not_found(sessions: &Sessions, error: &FindError) -> Report {
    unreadable(sessions).unwrap_or_else(|| Report::new(error.to_string()))
}

/// Whether this looks like the beginning of an id, and is long enough to mean one.
pub(crate) fn may_be_start(name: &str) -> bool {
    name.len() >= SHORTEST_START && is_of_ids(name)
}

/// Whether this looks like the beginning of an id that is too short to mean one.
pub(crate) fn is_short_start(name: &str) -> bool {
    !name.is_empty() && name.len() < SHORTEST_START && is_of_ids(name)
}

fn is_of_ids(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// The files of a session that was looked at.
pub(crate) fn of_summary(session: &SessionSummary) -> Result<SessionFiles, Report> {
    of_transcript(&session.path)
}
