//! Lists of sessions and searches in them, as plain data for front ends.

use gimlet_proto::{SessionInfo, SessionMatch, SessionScope, SessionSearch};
use gimlet_store::{
    ProjectSessions, SearchHit, SearchIndex, SearchRequest, SessionSummary, StoreLocations, other_worktrees,
};

use crate::process_env::ProcessEnv;
use crate::session_lookup;

/// Returns the sessions that can be resumed, the newest first. Those that cannot be read are left out.
pub(crate) fn list_sessions(around: &ProcessEnv, scope: SessionScope) -> Result<Vec<SessionInfo>, String> {
    let nearby = nearby_sessions(around);
    let found = match scope {
        SessionScope::Folder => nearby.list_oldest_first(),
        SessionScope::Everywhere => nearby.list_everywhere(),
    };
    let sessions: Vec<SessionInfo> = found.into_iter().flatten().rev().filter_map(session_info).collect();
    match session_lookup::unreadable_error(&nearby) {
        Some(error) if sessions.is_empty() => Err(error.text()),
        _ => Ok(sessions),
    }
}

/// Brings the index up to date and returns the matches, the newest first.
pub(crate) fn search_sessions(around: &ProcessEnv, search: &SessionSearch) -> Result<Vec<SessionMatch>, String> {
    let request = SearchRequest {
        text: search.text.clone(),
        project_dirs: match search.scope {
            SessionScope::Folder => Some(nearby_sessions(around).project_dirs()),
            SessionScope::Everywhere => None,
        },
        since_ms: None,
        limit: search.limit,
    };
    let mut index = SearchIndex::open(&StoreLocations::new(&around.config_home)).map_err(|error| error.to_string())?;
    index.update(&mut |_| {}).map_err(|error| error.to_string())?;
    let hits = index.find(&request).map_err(|error| error.to_string())?;
    Ok(hits.into_iter().map(session_match).collect())
}

fn nearby_sessions(around: &ProcessEnv) -> ProjectSessions {
    let places = StoreLocations::new(&around.config_home);
    ProjectSessions::new(&places, &around.cwd, &other_worktrees(&around.cwd))
}

/// Returns `None` for a session in which nothing was said.
fn session_info(session: SessionSummary) -> Option<SessionInfo> {
    Some(SessionInfo {
        line: session.line()?.to_owned(),
        title: session.labels.display_title().map(str::to_owned),
        tag: session.labels.tag.filter(|tag| !tag.is_empty()),
        id: session.id,
        path: session.path,
        cwd: session.cwd,
        git_branch: session.git_branch,
        modified: session.modified,
        size: session.size,
    })
}

fn session_match(hit: SearchHit) -> SessionMatch {
    SessionMatch {
        session: hit.session,
        cwd: hit.cwd,
        entry: hit.entry,
        at_ms: hit.at_ms,
        text: hit.snippet.text,
        marks: hit.snippet.marks,
    }
}
