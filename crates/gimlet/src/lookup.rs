//! Finding the session that an argument names.

use std::path::Path;

use gimlet_store::{FindError, Include, SessionFiles, SessionSummary, Sessions};

use crate::report::Report;

/// The newest session of this folder.
pub(crate) fn latest(sessions: &Sessions) -> Option<SessionFiles> {
    sessions.latest(Include::All).and_then(|session| SessionFiles::of_transcript(&session.path))
}

/// The shortest beginning of an id that is taken for one.
const SHORTEST_START: usize = 4;

/// A session by its id or the beginning of it, by the path of its transcript, or by its exact title: one of this folder,
/// or of any other if that is the only one.
pub(crate) fn named(sessions: &Sessions, name: &str) -> Result<SessionFiles, Report> {
    if gimlet_store::is_session_id(name) {
        return sessions.by_id(name).map_err(|error| Report::new(error.to_string()));
    }
    if name.ends_with(".jsonl") && Path::new(name).is_file() {
        return SessionFiles::of_transcript(Path::new(name))
            .ok_or_else(|| Report::new(format!("{name} is not a session")));
    }
    let by_title = match sessions.by_title(name) {
        Err(FindError::NoSuchTitle { .. }) => sessions.by_title_everywhere(name),
        found => found,
    };
    match by_title {
        Ok(found) => of_summary(&found),
        Err(FindError::NoSuchTitle { .. }) if may_be_start(name) => {
            sessions.by_start(name).map_err(|error| Report::new(error.to_string()).hint(WAYS))
        }
        Err(error) => Err(Report::new(error.to_string()).hint(WAYS)),
    }
}

const WAYS: &str = "Name a session by its id, the beginning of it, its exact title or its transcript";

/// Whether this looks like the beginning of an id, and is long enough to mean one.
pub(crate) fn may_be_start(name: &str) -> bool {
    name.len() >= SHORTEST_START && name.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// The files of a session that was looked at.
pub(crate) fn of_summary(session: &SessionSummary) -> Result<SessionFiles, Report> {
    SessionFiles::of_transcript(&session.path)
        .ok_or_else(|| Report::new(format!("{} is not a session", session.path.display())))
}
