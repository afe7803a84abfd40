//! Whether the session works, waits or rests, told to hosts that want to know.

use gimlet_proto::SessionId;
use serde_json::json;

/// Who is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateLines {
    #[default]
    Nobody,
    /// The SDK alone; it keeps these lines from the program.
    HostOnly,
    Everybody,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Running,
    RequiresAction,
    Idle,
}

/// The state that was told last.
pub(super) struct States {
    audience: StateLines,
    told: Option<State>,
}

impl States {
    pub(super) fn new(audience: StateLines) -> Self {
        Self { audience, told: None }
    }

    /// The line for a change, if it is one and somebody wants it.
    pub(super) fn change(&mut self, state: State, session: &SessionId) -> Option<String> {
        if self.audience == StateLines::Nobody || self.told == Some(state) {
            return None;
        }
        self.told = Some(state);
        let name = match state {
            State::Running => "running",
            State::RequiresAction => "requires_action",
            State::Idle => "idle",
        };
        let mut line = json!({"type": "system", "subtype": "session_state_changed", "state": name,
            "uuid": super::frames::new_id(), "session_id": session});
        if self.audience == StateLines::HostOnly {
            line["sdk_host_only"] = json!(true);
        }
        Some(line.to_string())
    }

    /// As [`States::change`], for a session that has worked before.
    pub(super) fn rest(&mut self, session: &SessionId) -> Option<String> {
        self.told?;
        self.change(State::Idle, session)
    }
}
