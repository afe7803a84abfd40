//! The events at which hooks are called, by their public names.

/// An event at which hooks are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookEvent {
    SessionStart,
    UserPromptSubmit,
    PreToolUse,
    PermissionRequest,
    PermissionDenied,
    PostToolUse,
    PostToolUseFailure,
    PostToolBatch,
    Notification,
    SubagentStart,
    SubagentStop,
    Stop,
    StopFailure,
    ConfigChange,
    CwdChanged,
    DirectoryAdded,
    PreModelSwitch,
    PostModelSwitch,
    SessionEnd,
}

/// Every event with its public name.
const NAMES: [(HookEvent, &str); 19] = [
    (HookEvent::SessionStart, "SessionStart"),
    (HookEvent::UserPromptSubmit, "UserPromptSubmit"),
    (HookEvent::PreToolUse, "PreToolUse"),
    (HookEvent::PermissionRequest, "PermissionRequest"),
    (HookEvent::PermissionDenied, "PermissionDenied"),
    (HookEvent::PostToolUse, "PostToolUse"),
    (HookEvent::PostToolUseFailure, "PostToolUseFailure"),
    (HookEvent::PostToolBatch, "PostToolBatch"),
    (HookEvent::Notification, "Notification"),
    (HookEvent::SubagentStart, "SubagentStart"),
    (HookEvent::SubagentStop, "SubagentStop"),
    (HookEvent::Stop, "Stop"),
    (HookEvent::StopFailure, "StopFailure"),
    (HookEvent::ConfigChange, "ConfigChange"),
    (HookEvent::CwdChanged, "CwdChanged"),
    (HookEvent::DirectoryAdded, "DirectoryAdded"),
    (HookEvent::PreModelSwitch, "PreModelSwitch"),
    (HookEvent::PostModelSwitch, "PostModelSwitch"),
    (HookEvent::SessionEnd, "SessionEnd"),
];

impl HookEvent {
    /// Returns every event.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|(event, _)| *event)
    }

    /// Returns the event with this name; `None` for an event that never happens.
    pub fn from_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, known)| *known == name).map(|(event, _)| *event)
    }

    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(event, _)| *event == self).map_or("", |(_, name)| name)
    }

    /// Returns true if the event has a subject that a matcher can name.
    pub fn has_subject(self) -> bool {
        !matches!(
            self,
            HookEvent::UserPromptSubmit
                | HookEvent::PostToolBatch
                | HookEvent::Stop
                | HookEvent::CwdChanged
                | HookEvent::PreModelSwitch
                | HookEvent::PostModelSwitch
        )
    }

    /// Returns true if the event asks for permission, so that a missing answer must not count as a yes.
    pub(super) fn requires_answer(self) -> bool {
        matches!(self, HookEvent::PreToolUse | HookEvent::UserPromptSubmit | HookEvent::PreModelSwitch)
    }

    /// Returns true if a hook that fails may block. A hook that could keep an agent from ending may not: the agent
    /// would never end.
    pub(super) fn may_fail_closed(self) -> bool {
        !matches!(self, HookEvent::Stop | HookEvent::SubagentStop)
    }

    /// Returns true if a hook can stop something at this event. The others only report what has happened.
    pub(super) fn may_stop(self) -> bool {
        !matches!(
            self,
            HookEvent::Notification
                | HookEvent::StopFailure
                | HookEvent::ConfigChange
                | HookEvent::CwdChanged
                | HookEvent::DirectoryAdded
                | HookEvent::PostModelSwitch
                | HookEvent::SessionEnd
        )
    }

    /// Returns true if output that is not JSON is meant for the model.
    pub(super) fn takes_plain_text(self) -> bool {
        matches!(self, HookEvent::UserPromptSubmit | HookEvent::SessionStart)
    }

    /// Returns the bit of this event in a bit set.
    pub(super) fn bit_mask(self) -> u32 {
        1 << self as u32
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_found_by_its_own_name() {
        for (event, name) in NAMES {
            assert_eq!((HookEvent::from_name(name), event.name()), (Some(event), name));
        }
        assert_eq!(HookEvent::from_name("BeforeBreakfast"), None);
    }
}
