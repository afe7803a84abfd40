//! Lifecycle of the prompts that a host gave ids: one line per state, from queued to one of the four final states.
//!
//! Every final state is reported before the `result` of its turn. Hosts take a line after an error result for work that
//! continues, and forget the error.

use gimlet_proto::{EntryId, PromptOutcome, SessionId};
use serde_json::json;

/// Capability that announces these lines to hosts.
pub(super) const CAPABILITY: &str = "msg_lifecycle_v1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PromptState {
    Queued,
    Started,
    Completed,
    Cancelled,
    Discarded,
    Refused,
}

impl PromptState {
    fn as_str(self) -> &'static str {
        match self {
            PromptState::Queued => "queued",
            PromptState::Started => "started",
            PromptState::Completed => "completed",
            PromptState::Cancelled => "cancelled",
            PromptState::Discarded => "discarded",
            PromptState::Refused => "refused",
        }
    }
}

struct TrackedPrompt {
    id: EntryId,
    /// True if no turn belongs to the prompt.
    silent: bool,
    started: bool,
}

/// Prompts with ids that have not reached a final state.
#[derive(Default)]
pub(super) struct PromptLifecycle {
    open: Vec<TrackedPrompt>,
}

impl PromptLifecycle {
    /// Records a prompt from the host and returns its line. A silent prompt completes as soon as the session has taken
    /// it.
    pub(super) fn mark_queued(&mut self, id: &EntryId, silent: bool, session: &SessionId) -> String {
        self.open.push(TrackedPrompt { id: id.clone(), silent, started: false });
        lifecycle_line(id, PromptState::Queued, session)
    }

    /// Applies the session's outcome of a prompt and returns the lines for it.
    pub(super) fn apply_outcome(&mut self, id: &EntryId, fate: PromptOutcome, session: &SessionId) -> Vec<String> {
        match fate {
            PromptOutcome::Accepted => self.mark_started(id, session),
            PromptOutcome::Withdrawn => self.end_prompt(id, PromptState::Cancelled, session),
            PromptOutcome::Refused => self.end_prompt(id, PromptState::Refused, session),
        }
    }

    pub(super) fn mark_started(&mut self, id: &EntryId, session: &SessionId) -> Vec<String> {
        let Some(command) = self.open.iter_mut().find(|command| command.id == *id && !command.started) else {
            return Vec::new();
        };
        command.started = true;
        let mut lines = vec![lifecycle_line(id, PromptState::Started, session)];
        if command.silent {
            lines.extend(self.end_prompt(id, PromptState::Completed, session));
        }
        lines
    }

    /// Completes every prompt that the finished turn had started.
    pub(super) fn complete_started(&mut self, session: &SessionId) -> Vec<String> {
        let done = self.open.extract_if(.., |command| command.started);
        done.map(|command| lifecycle_line(&command.id, PromptState::Completed, session)).collect()
    }

    pub(super) fn mark_cancelled(&mut self, id: &EntryId, session: &SessionId) -> Vec<String> {
        self.end_prompt(id, PromptState::Cancelled, session)
    }

    pub(super) fn mark_refused(&mut self, id: &EntryId, session: &SessionId) -> Vec<String> {
        self.end_prompt(id, PromptState::Refused, session)
    }

    /// Discards a prompt that will never be started.
    pub(super) fn mark_discarded(&mut self, id: &EntryId, session: &SessionId) -> Vec<String> {
        self.end_prompt(id, PromptState::Discarded, session)
    }

    /// Discards every prompt that is still open.
    pub(super) fn discard_all(&mut self, session: &SessionId) -> Vec<String> {
        self.open.drain(..).map(|command| lifecycle_line(&command.id, PromptState::Discarded, session)).collect()
    }

    fn end_prompt(&mut self, id: &EntryId, state: PromptState, session: &SessionId) -> Vec<String> {
        let known = self.open.extract_if(.., |command| command.id == *id);
        known.map(|command| lifecycle_line(&command.id, state, session)).collect()
    }
}

fn lifecycle_line(id: &EntryId, state: PromptState, session: &SessionId) -> String {
    json!({"type": "command_lifecycle", "command_uuid": id, "state": state.as_str(),
        "uuid": super::control_frames::new_id(), "session_id": session})
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_states(lines: &[String]) -> Vec<(String, String)> {
        let text = |line: &serde_json::Value, name: &str| line[name].as_str().unwrap().to_owned();
        let read = |line: &String| serde_json::from_str::<serde_json::Value>(line).unwrap();
        lines.iter().map(read).map(|line| (text(&line, "command_uuid"), text(&line, "state"))).collect()
    }

    #[test]
    fn every_prompt_has_one_end_and_unknown_ones_none() {
        let (session, mut told) = (SessionId::new("s"), Vec::new());
        let [a, b, c, d] = ["a", "b", "c", "d"].map(EntryId::new);
        let mut life = PromptLifecycle::default();
        for id in [&a, &b, &c] {
            told.push(life.mark_queued(id, false, &session));
        }
        told.extend(life.apply_outcome(&a, PromptOutcome::Accepted, &session));
        told.extend(life.apply_outcome(&b, PromptOutcome::Withdrawn, &session));
        told.extend(life.apply_outcome(&d, PromptOutcome::Accepted, &session));
        told.extend(life.complete_started(&session));
        told.extend(life.complete_started(&session));
        told.extend(life.apply_outcome(&c, PromptOutcome::Refused, &session));
        told.extend(life.apply_outcome(&c, PromptOutcome::Withdrawn, &session));
        let expected = [
            ("a", "queued"),
            ("b", "queued"),
            ("c", "queued"),
            ("a", "started"),
            ("b", "cancelled"),
            ("a", "completed"),
            ("c", "refused"),
        ];
        assert_eq!(parse_states(&told), expected.map(|(id, state)| (id.to_owned(), state.to_owned())));
    }

    #[test]
    fn a_silent_prompt_is_completed_at_once() {
        let (session, id) = (SessionId::new("s"), EntryId::new("a"));
        let mut life = PromptLifecycle::default();
        life.mark_queued(&id, true, &session);
        let told = parse_states(&life.apply_outcome(&id, PromptOutcome::Accepted, &session));
        assert_eq!(told.iter().map(|(_, state)| state.as_str()).collect::<Vec<_>>(), ["started", "completed"]);
        assert!(life.complete_started(&session).is_empty());
    }
}
