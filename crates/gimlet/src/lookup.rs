//! Finding the session that an argument names.

use std::path::Path;

use gimlet_store::{Include, SessionFiles, SessionSummary, Sessions};

use crate::report::Report;

/// The newest session of this folder.
pub(crate) fn latest(sessions: &Sessions) -> Option<SessionFiles> {
    sessions.latest(Include::All).and_then(|session| SessionFiles::of_transcript(&session.path))
}

/// A session by its id, by its exact title, or by the path of its transcript.
pub(crate) fn named(sessions: &Sessions, name: &str) -> Result<SessionFiles, Report> {
    if gimlet_store::is_session_id(name) {
        return sessions.by_id(name).map_err(|error| Report::new(error.to_string()));
    }
    if name.ends_with(".jsonl") && Path::new(name).is_file() {
        return SessionFiles::of_transcript(Path::new(name))
            .ok_or_else(|| Report::new(format!("{name} is not a session")));
    }
    let found = sessions
        .by_title(name)
        .map_err(|error| Report::new(error.to_string()).hint("Give a session's id or its exact title"))?;
    of_summary(&found)
}

/// The files of a session that was looked at.
pub(crate) fn of_summary(session: &SessionSummary) -> Result<SessionFiles, Report> {
    SessionFiles::of_transcript(&session.path)
        .ok_or_else(|| Report::new(format!("{} is not a session", session.path.display())))
}
