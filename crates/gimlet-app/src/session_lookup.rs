//! Finding the session that an argument names.

use std::path::{Path, PathBuf};

use gimlet_store::{FindError, ProjectSessions, SessionFiles, SessionFilter, SessionSummary};

use crate::launch_error::LaunchError;

/// Returns the newest session of this folder; if there is none, an error with `hint`.
pub fn latest_session(sessions: &ProjectSessions, hint: &str) -> Result<SessionFiles, LaunchError> {
    let latest =
        sessions.latest_session(SessionFilter::All).and_then(|session| SessionFiles::from_transcript(&session.path));
    latest.ok_or_else(|| unreadable_error(sessions).unwrap_or_else(|| no_session_error().with_hint(hint)))
}

fn no_session_error() -> LaunchError {
    LaunchError::new("there is no session of this folder")
}

/// Returns the reason why sessions cannot be listed, if there is one.
pub fn unreadable_error(sessions: &ProjectSessions) -> Option<LaunchError> {
    sessions.unreadable_folder().map(|error| LaunchError::new(error.to_string()).with_hint("Sessions are kept there"))
}

/// Resolves a folder argument.
pub fn folder(wanted: &Path, current: &Path) -> Result<PathBuf, String> {
    match current.join(wanted).canonicalize() {
        Ok(real) if real.is_dir() => Ok(real),
        Ok(_) => Err(format!("{}: this is no folder", wanted.display())),
        Err(_) => Err(format!("{}: there is no such folder", wanted.display())),
    }
}

/// Returns the session of a transcript.
pub fn session_for_transcript(path: &Path) -> Result<SessionFiles, LaunchError> {
    SessionFiles::from_transcript(path).ok_or_else(|| {
        LaunchError::new(format!("{} is not a session by its name", path.display()))
            .with_hint("A transcript is called by the id of its session: <id>.jsonl")
    })
}

/// Minimum length of an id prefix.
const SHORTEST_START: usize = 4;

/// Finds a session by its id or a prefix of it, by the path of its transcript, or by its exact title: one of this
/// folder, or of any other folder if that is the only one.
pub fn find_session(sessions: &ProjectSessions, name: &str) -> Result<SessionFiles, LaunchError> {
    if gimlet_store::is_session_id(name) {
        return sessions.find_by_id(name).map_err(|error| not_found_error(sessions, &error));
    }
    if name.ends_with(".jsonl") && Path::new(name).is_file() {
        return session_for_transcript(Path::new(name));
    }
    let by_title = match sessions.find_by_title(name) {
        Err(FindError::NoSuchTitle { .. }) => sessions.find_by_title_everywhere(name),
        found => found,
    };
    match by_title {
        Ok(found) => session_for_summary(&found),
        Err(FindError::NoSuchTitle { .. }) if is_id_prefix(name) => {
            sessions.find_by_prefix(name).map_err(|error| not_found_error(sessions, &error).with_hint(WAYS))
        }
        Err(error) => Err(not_found_error(sessions, &error).with_hint(WAYS)),
    }
}

const WAYS: &str =
    "Name a session by its id, the beginning of it (four characters or more), its exact title or its transcript";

fn not_found_error(sessions: &ProjectSessions, error: &FindError) -> LaunchError {
    unreadable_error(sessions).unwrap_or_else(|| LaunchError::new(error.to_string()))
}

/// Returns true if the name has the form of an id prefix that is long enough to be one.
pub fn is_id_prefix(name: &str) -> bool {
    name.len() >= SHORTEST_START && has_id_characters(name)
}

/// Returns true if the name has the form of an id prefix that is too short to be one.
pub fn is_short_id_prefix(name: &str) -> bool {
    !name.is_empty() && name.len() < SHORTEST_START && has_id_characters(name)
}

fn has_id_characters(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// Returns the files of a listed session.
pub fn session_for_summary(session: &SessionSummary) -> Result<SessionFiles, LaunchError> {
    session_for_transcript(&session.path)
}
