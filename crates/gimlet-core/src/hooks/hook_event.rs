//! How the session treats hook events beyond their row in the table, and the origin that a session start reports.

use gimlet_proto::HookEvent;

/// Returns true if the event asks for permission, so that a missing answer must not count as a yes.
pub(super) fn requires_answer(event: HookEvent) -> bool {
    matches!(event, HookEvent::PreToolUse | HookEvent::UserPromptSubmit | HookEvent::PreModelSwitch)
}

/// Returns true if `continue: false` stops something at this event. A changed settings file is only blocked by a
/// decision.
pub(super) fn may_stop(event: HookEvent) -> bool {
    event.row().may_block && event != HookEvent::ConfigChange
}

/// Returns true if output that is not JSON is meant for the model.
pub(super) fn takes_plain_text(event: HookEvent) -> bool {
    matches!(event, HookEvent::UserPromptSubmit | HookEvent::UserPromptExpansion | HookEvent::SessionStart)
}

/// Returns the bit of this event in a bit set.
pub(super) fn bit_mask(event: HookEvent) -> u64 {
    1 << event as u32
}

/// Preparation of a project that a run is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupTrigger {
    Init,
    Maintenance,
}

impl SetupTrigger {
    pub fn as_str(self) -> &'static str {
        match self {
            SetupTrigger::Init => "init",
            SetupTrigger::Maintenance => "maintenance",
        }
    }
}

/// Origin of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartSource {
    #[default]
    Startup,
    Resume,
    Clear,
    Compact,
    Fork,
}

impl StartSource {
    pub fn as_str(self) -> &'static str {
        match self {
            StartSource::Startup => "startup",
            StartSource::Resume => "resume",
            StartSource::Clear => "clear",
            StartSource::Compact => "compact",
            StartSource::Fork => "fork",
        }
    }
}
