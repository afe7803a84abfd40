//! The list of sessions to resume.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use gimlet_proto::{SessionInfo, SessionReplacement, SessionScope};

use super::list_picker::{ListPicker, PickerRow};
use super::{AppPicker, ListStep, PickerOutcome};
use crate::app::AppEffect;

/// The sessions and the list that shows them.
#[derive(Debug)]
pub struct SessionPicker {
    sessions: Vec<SessionInfo>,
    pub(super) list: ListPicker,
}

/// Returns the picker of these sessions; an error, in words for the user, if there are none.
pub fn session_picker(sessions: Vec<SessionInfo>, now_ms_since_1970: i64) -> Result<AppPicker, String> {
    if sessions.is_empty() {
        return Err("There is no earlier session of this folder".to_owned());
    }
    let rows = sessions.iter().map(|session| session_row(session, now_ms_since_1970)).collect();
    let list = ListPicker::new("Resume a session", rows)
        .searchable()
        .with_keys("enter resumes · type to search · ctrl+a all folders · esc");
    Ok(AppPicker::Sessions(SessionPicker { sessions, list }))
}

fn session_row(session: &SessionInfo, now_ms: i64) -> PickerRow {
    let modified = session.modified.duration_since(std::time::UNIX_EPOCH);
    let modified_ms = modified.map_or(0, |time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
    let branch = session.git_branch.as_deref().filter(|branch| !branch.is_empty() && *branch != "HEAD");
    let facts = [Some(age_text(now_ms - modified_ms)), branch.map(str::to_owned), Some(size_text(session.size))];
    PickerRow {
        label: session.line.clone(),
        detail: session.tag.as_ref().map(|tag| format!("#{tag}")).unwrap_or_default(),
        note: facts.into_iter().flatten().collect::<Vec<_>>().join("  "),
    }
}

fn age_text(age_ms: i64) -> String {
    match age_ms / 1000 {
        ..60 => "just now".to_owned(),
        seconds @ 60..3600 => format!("{} min ago", seconds / 60),
        seconds @ 3600..86_400 => format!("{} h ago", seconds / 3600),
        seconds => format!("{} d ago", seconds / 86_400),
    }
}

fn size_text(bytes: u64) -> String {
    match bytes {
        ..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} kB", bytes / 1024),
        bytes => format!("{:.1} MB", bytes as f64 / 1_048_576.0),
    }
}

impl SessionPicker {
    pub(super) fn handle_key(&mut self, key: KeyEvent) -> PickerOutcome {
        if key.code == KeyCode::Char('a') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return PickerOutcome::StaysAnd(vec![AppEffect::ListSessions(SessionScope::Everywhere)]);
        }
        match self.list.handle_key(key) {
            ListStep::Stays | ListStep::Moved => PickerOutcome::Stays,
            ListStep::Closes => PickerOutcome::Closes,
            ListStep::Takes(index) => match self.sessions.get(index) {
                Some(session) => {
                    let session = session.path.to_string_lossy().into_owned();
                    PickerOutcome::Chooses(vec![AppEffect::ReplaceSession(SessionReplacement::Resumed { session })])
                }
                None => PickerOutcome::Closes,
            },
        }
    }
}
