//! The table of hook events: every event that settings and driving programs may name, and what holds for it.
//!
//! Settings are checked against it, the session fires by it, and the documents are held to it. There is no second list.

/// An event at which hooks can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookEvent {
    SessionStart,
    Setup,
    InstructionsLoaded,
    UserPromptSubmit,
    UserPromptExpansion,
    MessageDisplay,
    PreToolUse,
    PermissionRequest,
    PermissionDenied,
    PostToolUse,
    PostToolUseFailure,
    PostToolBatch,
    Notification,
    SubagentStart,
    SubagentStop,
    TaskCreated,
    TaskCompleted,
    Stop,
    StopFailure,
    TeammateIdle,
    ConfigChange,
    CwdChanged,
    DirectoryAdded,
    FileChanged,
    WorktreeCreate,
    WorktreeRemove,
    PreCompact,
    PostCompact,
    Elicitation,
    ElicitationResult,
    PreModelSwitch,
    PostModelSwitch,
    SessionEnd,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HookEventRow {
    pub event: HookEvent,
    /// The public name.
    pub name: &'static str,
    /// Field of the input that matchers are compared with; `None` if the event has no subject.
    pub matcher: Option<&'static str>,
    /// True if a hook can prevent or stop something at this event; the others only report.
    pub may_block: bool,
    /// True if this version fires the event. Hooks of the others are accepted and never called.
    pub fires: bool,
}

/// Every hook event, in the order of the enum.
pub const HOOK_EVENTS: &[HookEventRow] = {
    use HookEvent::*;
    const BLOCKS: bool = true;
    const REPORTS: bool = false;
    const FIRES: bool = true;
    const NOT_YET: bool = false;
    &[
        row(SessionStart, "SessionStart", Some("source"), BLOCKS, FIRES),
        row(Setup, "Setup", Some("trigger"), REPORTS, FIRES),
        row(InstructionsLoaded, "InstructionsLoaded", Some("load_reason"), REPORTS, FIRES),
        row(UserPromptSubmit, "UserPromptSubmit", None, BLOCKS, FIRES),
        row(UserPromptExpansion, "UserPromptExpansion", Some("command_name"), BLOCKS, FIRES),
        row(MessageDisplay, "MessageDisplay", None, REPORTS, NOT_YET),
        row(PreToolUse, "PreToolUse", Some("tool_name"), BLOCKS, FIRES),
        row(PermissionRequest, "PermissionRequest", Some("tool_name"), BLOCKS, FIRES),
        row(PermissionDenied, "PermissionDenied", Some("tool_name"), BLOCKS, FIRES),
        row(PostToolUse, "PostToolUse", Some("tool_name"), BLOCKS, FIRES),
        row(PostToolUseFailure, "PostToolUseFailure", Some("tool_name"), BLOCKS, FIRES),
        row(PostToolBatch, "PostToolBatch", None, BLOCKS, FIRES),
        row(Notification, "Notification", Some("notification_type"), REPORTS, FIRES),
        row(SubagentStart, "SubagentStart", Some("agent_type"), BLOCKS, FIRES),
        row(SubagentStop, "SubagentStop", Some("agent_type"), BLOCKS, FIRES),
        row(TaskCreated, "TaskCreated", None, BLOCKS, NOT_YET),
        row(TaskCompleted, "TaskCompleted", None, BLOCKS, NOT_YET),
        row(Stop, "Stop", None, BLOCKS, FIRES),
        row(StopFailure, "StopFailure", Some("error"), REPORTS, FIRES),
        row(TeammateIdle, "TeammateIdle", None, BLOCKS, NOT_YET),
        row(ConfigChange, "ConfigChange", Some("source"), BLOCKS, FIRES),
        row(CwdChanged, "CwdChanged", None, REPORTS, FIRES),
        row(DirectoryAdded, "DirectoryAdded", Some("source"), REPORTS, FIRES),
        row(FileChanged, "FileChanged", Some("file_path"), REPORTS, FIRES),
        row(WorktreeCreate, "WorktreeCreate", None, BLOCKS, NOT_YET),
        row(WorktreeRemove, "WorktreeRemove", None, REPORTS, NOT_YET),
        row(PreCompact, "PreCompact", Some("trigger"), BLOCKS, FIRES),
        row(PostCompact, "PostCompact", Some("trigger"), REPORTS, FIRES),
        row(Elicitation, "Elicitation", Some("mcp_server_name"), BLOCKS, FIRES),
        row(ElicitationResult, "ElicitationResult", Some("mcp_server_name"), BLOCKS, FIRES),
        row(PreModelSwitch, "PreModelSwitch", None, BLOCKS, FIRES),
        row(PostModelSwitch, "PostModelSwitch", None, REPORTS, FIRES),
        row(SessionEnd, "SessionEnd", Some("reason"), REPORTS, FIRES),
    ]
};

const fn row(
    event: HookEvent,
    name: &'static str,
    matcher: Option<&'static str>,
    may_block: bool,
    fires: bool,
) -> HookEventRow {
    HookEventRow { event, name, matcher, may_block, fires }
}

impl HookEvent {
    /// Returns every event that fires.
    pub fn firing() -> impl Iterator<Item = Self> {
        HOOK_EVENTS.iter().filter(|row| row.fires).map(|row| row.event)
    }

    /// Returns the event with this name, whether it fires or not.
    pub fn from_name(name: &str) -> Option<Self> {
        HOOK_EVENTS.iter().find(|row| row.name == name).map(|row| row.event)
    }

    /// Returns the event's row.
    pub fn row(self) -> &'static HookEventRow {
        // The rows stand in the order of the enum; a test checks it.
        &HOOK_EVENTS[self as usize]
    }

    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns true if hooks that ask a model can be called at this event.
    pub fn takes_model_hooks(self) -> bool {
        matches!(
            self,
            HookEvent::UserPromptSubmit
                | HookEvent::UserPromptExpansion
                | HookEvent::PreToolUse
                | HookEvent::PermissionRequest
                | HookEvent::PermissionDenied
                | HookEvent::PostToolUse
                | HookEvent::PostToolUseFailure
                | HookEvent::PostToolBatch
                | HookEvent::SubagentStop
                | HookEvent::TaskCreated
                | HookEvent::TaskCompleted
                | HookEvent::Stop
                | HookEvent::TeammateIdle
        )
    }

    /// Returns true if a hook that fails may block. A hook that could keep an agent from ending may not: the agent
    /// would never end.
    pub fn may_fail_closed(self) -> bool {
        !matches!(self, HookEvent::Stop | HookEvent::SubagentStop)
    }

    /// Returns true if the event has a subject that a matcher can name.
    pub fn has_subject(self) -> bool {
        self.row().matcher.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_stands_at_the_place_of_its_event_and_is_found_by_its_name() {
        for (place, row) in HOOK_EVENTS.iter().enumerate() {
            assert_eq!((row.event as usize, format!("{:?}", row.event)), (place, row.name.to_owned()));
            assert_eq!(HookEvent::from_name(row.name), Some(row.event));
        }
        assert_eq!(HookEvent::from_name("BeforeBreakfast"), None);
    }
}
