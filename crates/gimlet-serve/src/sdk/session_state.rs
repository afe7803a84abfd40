//! Session state (running, waiting or idle), reported to hosts that request it.

use gimlet_proto::SessionId;
use serde_json::json;

/// Recipients of state reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateAudience {
    #[default]
    Nobody,
    /// The SDK alone; it does not pass these lines on to the program.
    HostOnly,
    Everybody,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SdkSessionState {
    Running,
    RequiresAction,
    Idle,
}

/// Reporter that remembers the last reported state.
pub(super) struct StateReporter {
    audience: StateAudience,
    reported: Option<SdkSessionState>,
}

impl StateReporter {
    pub(super) fn new(audience: StateAudience) -> Self {
        Self { audience, reported: None }
    }

    /// Returns the line for a state change; `None` if the state is unchanged or not requested.
    pub(super) fn report_change(&mut self, state: SdkSessionState, session: &SessionId) -> Option<String> {
        if self.audience == StateAudience::Nobody || self.reported == Some(state) {
            return None;
        }
        self.reported = Some(state);
        let name = match state {
            SdkSessionState::Running => "running",
            SdkSessionState::RequiresAction => "requires_action",
            SdkSessionState::Idle => "idle",
        };
        let mut line = json!({"type": "system", "subtype": "session_state_changed", "state": name,
            "uuid": super::control_frames::new_id(), "session_id": session});
        if self.audience == StateAudience::HostOnly {
            line["sdk_host_only"] = json!(true);
        }
        Some(line.to_string())
    }

    /// Reports idleness like [`StateReporter::report_change`], for a session that has worked before.
    pub(super) fn report_idle(&mut self, session: &SessionId) -> Option<String> {
        self.reported?;
        self.report_change(SdkSessionState::Idle, session)
    }
}
