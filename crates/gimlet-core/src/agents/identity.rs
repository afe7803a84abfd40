//! Who runs a conversation that is not the main one, and in which mode its calls are decided.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use gimlet_proto::{PermissionMode, TaskProgress, TokenUsage};

use super::roster::AgentSource;

/// A subagent at work.
pub(crate) struct AgentIdentity {
    /// Unique in the session; also in the name of its transcript.
    pub(crate) id: String,
    pub(crate) kind: String,
    /// 1 for one that the main conversation sent.
    pub(crate) depth: u32,
    /// Nobody waits for it.
    pub(crate) in_background: AtomicBool,
    pub(crate) mode: RequestedMode,
    /// Whoever sent it, when that was a subagent too: its mode is what this one's is held under.
    pub(crate) sender: Option<Arc<AgentIdentity>>,
    pub(crate) meter: AgentUsageMeter,
}

/// The mode that a definition asks for.
#[derive(Clone, Copy)]
pub(crate) struct RequestedMode {
    pub(crate) mode: Option<PermissionMode>,
    pub(crate) source: AgentSource,
}

impl AgentIdentity {
    /// Nobody waits for it.
    pub(crate) fn is_in_background(&self) -> bool {
        self.in_background.load(Ordering::Relaxed)
    }

    /// Somebody waits for it, and for whoever that is, up to the main conversation.
    pub(crate) fn is_awaited_by_main(&self) -> bool {
        !self.is_in_background() && self.sender.as_ref().is_none_or(|sender| sender.is_awaited_by_main())
    }

    /// The mode that holds for its calls: that of the session as everyone on the way down narrowed it.
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
    /// The mode that holds. What the person chose for the session is never undone by a definition: its freer modes hold
    /// for everyone, and so does looking without touching. Files that the person may not have read can only narrow, and
    /// the built-in readers stay readers unless the person lifted every question.
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

/// What a subagent has used and done so far.
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
