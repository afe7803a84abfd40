//! What becomes of the prompts that a host gave ids: told line by line, from being queued to one of the four ends.
//!
//! Every end is told before the `result` of its turn. Hosts take a line behind an error's result for work that goes on,
//! and forget the error.

use gimlet_proto::{EntryId, PromptFate, SessionId};
use serde_json::json;

/// What a host can rely on when this room is there.
pub const CAPABILITY: &str = "msg_lifecycle_v1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Queued,
    Started,
    Completed,
    Cancelled,
    Discarded,
    Refused,
}

impl State {
    fn as_str(self) -> &'static str {
        match self {
            State::Queued => "queued",
            State::Started => "started",
            State::Completed => "completed",
            State::Cancelled => "cancelled",
            State::Discarded => "discarded",
            State::Refused => "refused",
        }
    }
}

struct Command {
    id: EntryId,
    /// No turn belongs to it.
    silent: bool,
    started: bool,
}

/// The prompts with ids that have not come to their end.
#[derive(Default)]
pub(super) struct Lifecycle {
    open: Vec<Command>,
}

impl Lifecycle {
    /// The host sent a prompt. One that is only to be known ends as soon as it is.
    pub(super) fn queued(&mut self, id: &EntryId, silent: bool, session: &SessionId) -> String {
        self.open.push(Command { id: id.clone(), silent, started: false });
        line(id, State::Queued, session)
    }

    /// What the session did with a prompt.
    pub(super) fn fate(&mut self, id: &EntryId, fate: PromptFate, session: &SessionId) -> Vec<String> {
        match fate {
            PromptFate::Taken => self.started(id, session),
            PromptFate::Withdrawn => self.ended(id, State::Cancelled, session),
            PromptFate::Refused => self.ended(id, State::Refused, session),
        }
    }

    pub(super) fn started(&mut self, id: &EntryId, session: &SessionId) -> Vec<String> {
        let Some(command) = self.open.iter_mut().find(|command| command.id == *id && !command.started) else {
            return Vec::new();
        };
        command.started = true;
        let mut lines = vec![line(id, State::Started, session)];
        if command.silent {
            lines.extend(self.ended(id, State::Completed, session));
        }
        lines
    }

    /// The turn is over, and everything that it took up with it.
    pub(super) fn turn_ended(&mut self, session: &SessionId) -> Vec<String> {
        let done = self.open.extract_if(.., |command| command.started);
        done.map(|command| line(&command.id, State::Completed, session)).collect()
    }

    pub(super) fn cancelled(&mut self, id: &EntryId, session: &SessionId) -> Vec<String> {
        self.ended(id, State::Cancelled, session)
    }

    pub(super) fn refused(&mut self, id: &EntryId, session: &SessionId) -> Vec<String> {
        self.ended(id, State::Refused, session)
    }

    /// It will never be its turn.
    pub(super) fn discarded(&mut self, id: &EntryId, session: &SessionId) -> Vec<String> {
        self.ended(id, State::Discarded, session)
    }

    /// Nothing that is still open will come to another end.
    pub(super) fn all_discarded(&mut self, session: &SessionId) -> Vec<String> {
        self.open.drain(..).map(|command| line(&command.id, State::Discarded, session)).collect()
    }

    fn ended(&mut self, id: &EntryId, state: State, session: &SessionId) -> Vec<String> {
        let known = self.open.extract_if(.., |command| command.id == *id);
        known.map(|command| line(&command.id, state, session)).collect()
    }
}

fn line(id: &EntryId, state: State, session: &SessionId) -> String {
    json!({"type": "command_lifecycle", "command_uuid": id, "state": state.as_str(),
        "uuid": super::frames::new_id(), "session_id": session})
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(lines: &[String]) -> Vec<(String, String)> {
        let text = |line: &serde_json::Value, name: &str| line[name].as_str().unwrap().to_owned();
        let read = |line: &String| serde_json::from_str::<serde_json::Value>(line).unwrap();
        lines.iter().map(read).map(|line| (text(&line, "command_uuid"), text(&line, "state"))).collect()
    }

    #[test]
    fn every_prompt_has_one_end_and_unknown_ones_none() {
        let (session, mut told) = (SessionId::new("s"), Vec::new());
        let [a, b, c, d] = ["a", "b", "c", "d"].map(EntryId::new);
        let mut life = Lifecycle::default();
        for id in [&a, &b, &c] {
            told.push(life.queued(id, false, &session));
        }
        told.extend(life.fate(&a, PromptFate::Taken, &session));
        told.extend(life.fate(&b, PromptFate::Withdrawn, &session));
        told.extend(life.fate(&d, PromptFate::Taken, &session));
        told.extend(life.turn_ended(&session));
        told.extend(life.turn_ended(&session));
        told.extend(life.fate(&c, PromptFate::Refused, &session));
        told.extend(life.fate(&c, PromptFate::Withdrawn, &session));
        let expected = [
            ("a", "queued"),
            ("b", "queued"),
            ("c", "queued"),
            ("a", "started"),
            ("b", "cancelled"),
            ("a", "completed"),
            ("c", "refused"),
        ];
        assert_eq!(states(&told), expected.map(|(id, state)| (id.to_owned(), state.to_owned())));
    }

    #[test]
    fn what_is_only_to_be_known_is_done_at_once() {
        let (session, id) = (SessionId::new("s"), EntryId::new("a"));
        let mut life = Lifecycle::default();
        life.queued(&id, true, &session);
        let told = states(&life.fate(&id, PromptFate::Taken, &session));
        assert_eq!(told.iter().map(|(_, state)| state.as_str()).collect::<Vec<_>>(), ["started", "completed"]);
        assert!(life.turn_ended(&session).is_empty());
    }
}
