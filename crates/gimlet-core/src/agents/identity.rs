//! Identity of a subagent's conversation, and the mode in which its calls are decided.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use gimlet_proto::{PermissionMode, TaskProgress, TokenUsage};

use super::roster::AgentSource;

/// A running subagent.
pub(crate) struct AgentIdentity {
    /// Id, unique in the session; also part of the transcript's name.
    pub(crate) id: String,
    pub(crate) kind: String,
    /// Level; 1 for an agent that the main conversation launched.
    pub(crate) depth: u32,
    /// True if it runs in the background.
    pub(crate) in_background: AtomicBool,
    pub(crate) mode: RequestedMode,
    /// False for kinds that work without memory.
    pub(crate) loads_memory: bool,
    /// Sender, if that is a subagent too: its mode limits this agent's mode.
    pub(crate) sender: Option<Arc<AgentIdentity>>,
    pub(crate) meter: AgentUsageMeter,
}

/// Mode that a definition asks for.
#[derive(Clone, Copy)]
pub(crate) struct RequestedMode {
    pub(crate) mode: Option<PermissionMode>,
    pub(crate) source: AgentSource,
}

impl AgentIdentity {
    /// Returns true if the agent runs in the background.
    pub(crate) fn is_in_background(&self) -> bool {
        self.in_background.load(Ordering::Relaxed)
    }

    /// Returns true if the agent and all its senders up to the main conversation are waited for.
    pub(crate) fn is_awaited_by_main(&self) -> bool {
        !self.is_in_background() && self.sender.as_ref().is_none_or(|sender| sender.is_awaited_by_main())
    }

    /// Returns the mode for its calls: that of the session, narrowed by every agent on the way down.
    pub(crate) fn effective_mode(
        &self,
        session: PermissionMode,
        is_available: &impl Fn(PermissionMode) -> bool,
    ) -> PermissionMode {
        let above = self.sender.as_ref().map_or(session, |sender| sender.effective_mode(session, is_available));
        self.mode.effective_under(above, is_available)
    }
}

impl RequestedMode {
    /// Returns the effective mode. A definition never undoes the user's choice for the session: its more permissive
    /// modes apply to all agents, and so does plan mode. Project files, which the user may not have read, can only
    /// narrow the mode, and the built-in read-only agents stay read-only unless the user lifted every question.
    pub(crate) fn effective_under(
        self,
        session: PermissionMode,
        is_available: impl Fn(PermissionMode) -> bool,
    ) -> PermissionMode {
        let Some(wanted) = self.mode.filter(|mode| is_available(*mode)) else { return session };
        let reader = self.source == AgentSource::BuiltIn && wanted == PermissionMode::Plan;
        match session {
            PermissionMode::AcceptEdits | PermissionMode::Auto if reader => wanted,
            PermissionMode::BypassPermissions
            | PermissionMode::AcceptEdits
            | PermissionMode::Auto
            | PermissionMode::Plan => session,
            PermissionMode::DontAsk if !is_narrower(wanted) => session,
            PermissionMode::Default | PermissionMode::DontAsk => match self.source {
                AgentSource::Plugin => session,
                AgentSource::Project if !is_narrower(wanted) => session,
                _ => wanted,
            },
        }
    }
}

fn is_narrower(mode: PermissionMode) -> bool {
    matches!(mode, PermissionMode::Plan | PermissionMode::DontAsk)
}

/// Usage and activity of a subagent so far.
pub(crate) struct AgentUsageMeter {
    begun: Instant,
    tokens: AtomicU64,
    tool_uses: AtomicU64,
}

impl Default for AgentUsageMeter {
    fn default() -> Self {
        Self { begun: Instant::now(), tokens: AtomicU64::new(0), tool_uses: AtomicU64::new(0) }
    }
}

impl AgentUsageMeter {
    /// Counts a request.
    pub(crate) fn count_request(&self, usage: &TokenUsage) {
        self.tokens.fetch_add(usage.prompt_tokens() + usage.output_tokens, Ordering::Relaxed);
    }

    /// Counts a tool call that begins.
    pub(crate) fn count_tool_call(&self) {
        self.tool_uses.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn progress(&self, last_tool: Option<String>, description: String) -> TaskProgress {
        TaskProgress {
            total_tokens: self.tokens.load(Ordering::Relaxed),
            tool_uses: self.tool_uses.load(Ordering::Relaxed),
            duration_ms: u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            last_tool,
            description,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PermissionMode::{AcceptEdits, Auto, BypassPermissions, Default, DontAsk, Plan};

    #[test]
    fn a_definition_cannot_undo_what_the_person_chose() {
        let holds = |mode, source, session| {
            RequestedMode { mode, source }.effective_under(session, |mode| mode != BypassPermissions && mode != Auto)
        };
        for (wanted, source, session, held) in [
            (None, AgentSource::Caller, Default, Default),
            (Some(Plan), AgentSource::Caller, Default, Plan),
            (Some(AcceptEdits), AgentSource::Caller, Default, AcceptEdits),
            (Some(AcceptEdits), AgentSource::User, DontAsk, DontAsk),
            (Some(Plan), AgentSource::User, DontAsk, Plan),
            (Some(AcceptEdits), AgentSource::Caller, Plan, Plan),
            (Some(Plan), AgentSource::Caller, AcceptEdits, AcceptEdits),
            (Some(Plan), AgentSource::Caller, BypassPermissions, BypassPermissions),
            (Some(Plan), AgentSource::BuiltIn, AcceptEdits, Plan),
            (Some(Plan), AgentSource::BuiltIn, Auto, Plan),
            (Some(Plan), AgentSource::BuiltIn, BypassPermissions, BypassPermissions),
            (Some(BypassPermissions), AgentSource::Caller, Default, Default),
            (Some(Auto), AgentSource::Caller, Default, Default),
            (Some(AcceptEdits), AgentSource::Project, Default, Default),
            (Some(Plan), AgentSource::Project, Default, Plan),
            (Some(Plan), AgentSource::Plugin, Default, Default),
        ] {
            assert_eq!(holds(wanted, source, session), held, "{wanted:?} of {source:?} under {session}");
        }
    }

    #[test]
    fn subagents_inherit_the_narrower_mode() {
        let identity = |mode, sender| AgentIdentity {
            id: String::new(),
            kind: String::new(),
            depth: 1,
            in_background: false.into(),
            mode: RequestedMode { mode, source: AgentSource::Caller },
            loads_memory: true,
            sender,
            meter: AgentUsageMeter::default(),
        };
        for (first, second) in [(Plan, None), (Plan, Some(AcceptEdits)), (DontAsk, None), (DontAsk, Some(AcceptEdits))]
        {
            let sender = Arc::new(identity(Some(first), None));
            let sent = identity(second, Some(sender));
            assert_eq!(sent.effective_mode(Default, &|_| true), first, "{second:?} sent from {first}");
        }
    }
}
