//! The moments at which hooks are called, by their public names.

/// A moment at which hooks are called.
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
    /// Every event that there is.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|(event, _)| *event)
    }

    /// The event of that name, if it ever happens.
    pub fn from_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, known)| *known == name).map(|(event, _)| *event)
    }

    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(event, _)| *event == self).map_or("", |(_, name)| name)
    }

    /// Whether it is about something that a matcher can name.
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

    /// Whether somebody waits for leave, so that silence must not pass for a yes.
    pub(super) fn requires_answer(self) -> bool {
        matches!(self, HookEvent::PreToolUse | HookEvent::UserPromptSubmit | HookEvent::PreModelSwitch)
    }

    /// Whether a hook that fails may block. One that could keep an agent from ending may not: it would never end.
    pub(super) fn may_fail_closed(self) -> bool {
        !matches!(self, HookEvent::Stop | HookEvent::SubagentStop)
    }

    /// Whether there is something that a hook can stop here. The others only tell what has happened.
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

    /// Whether words that are no JSON are meant for the model.
    pub(super) fn takes_plain_text(self) -> bool {
        matches!(self, HookEvent::UserPromptSubmit | HookEvent::SessionStart)
    }

    /// This event among those of a set of bits.
    pub(super) fn bit_mask(self) -> u32 {
        1 << self as u32
    }
}

/// How a session came to be.
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
