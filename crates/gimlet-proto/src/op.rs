//! Operations that front ends request of a session, and how they receive the outcome.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::{
    AskAnswer, AskId, Block, CompactedSegment, ContextUsage, DiffHunk, DriverHook, EntryId, PermissionMode,
    SessionQuery, ThinkingDisplay, ThinkingMode, ToolUseId,
};

/// An operation. Operations are taken in the order in which they were sent, also while a turn runs.
#[derive(Debug)]
pub enum Op {
    /// A prompt, or something that the model is to know.
    Submit(SubmittedPrompt),
    Answer {
        ask: AskId,
        answer: AskAnswer,
    },
    /// Stop the running turn; the session goes on.
    Interrupt {
        /// Forget the prompts that wait as well.
        cancel_queued: bool,
        /// Stop the agents in the background as well.
        stop_agents: bool,
        reply: OpReply<InterruptOutcome>,
    },
    /// Reloads the settings that the driving program changed; they apply once this is answered.
    ReloadSettings {
        reply: OpReply<()>,
    },
    /// Sets the thinking effort; `None` restores the initial one.
    SetEffort {
        effort: Option<String>,
        reply: OpReply<()>,
    },
    SetMode {
        mode: PermissionMode,
        reply: OpReply<()>,
    },
    SetModel {
        /// `None`: the one that the session started with.
        model: Option<String>,
        reply: OpReply<()>,
    },
    SetThinking {
        /// `None`: as the session started.
        thinking: Option<ThinkingMode>,
        reply: OpReply<()>,
    },
    SetThinkingDisplay {
        /// `None`: as the session started.
        display: Option<ThinkingDisplay>,
        reply: OpReply<()>,
    },
    /// Sets the title of the session.
    SetTitle {
        title: String,
        reply: OpReply<()>,
    },
    /// Call these hooks of the driving program from now on, in place of all that it named before.
    SetHooks {
        hooks: Vec<DriverHook>,
        reply: OpReply<()>,
    },
    /// Removes a queued prompt; returns true if it was still queued.
    WithdrawPrompt {
        prompt: EntryId,
        reply: OpReply<bool>,
    },
    /// End a background task. One that is gone already is no error.
    StopTask {
        task: String,
        reply: OpReply<()>,
    },
    /// Sends words of the user's to a subagent that runs, which reads them between two rounds of tool calls.
    MessageAgent {
        /// Its task.
        agent: String,
        text: String,
        reply: OpReply<()>,
    },
    /// Moves a foreground call to the background; returns true if there was one.
    MoveToBackground {
        /// `None`: everything that the main conversation waits for.
        call: Option<ToolUseId>,
        reply: OpReply<bool>,
    },
    /// Put every file that was changed since a prompt back as it was then. The conversation stays.
    Rewind {
        prompt: EntryId,
        mode: RewindMode,
        reply: OpReply<RewindOutcome>,
    },
    /// Records that the driving program read this file when it had this time (milliseconds since 1970): it may be
    /// edited unless it changed.
    SeedRead {
        path: PathBuf,
        mtime_ms: u64,
        reply: OpReply<()>,
    },
    /// Compacts the conversation: it continues from a summary. During a turn this waits for the turn's end.
    Compact {
        /// What the summary is to dwell on.
        focus: Option<String>,
        reply: OpReply<CompactedSegment>,
    },
    /// Requests the usage of the context window. Answered at once, also while a turn runs.
    ContextUsage {
        reply: OpReply<ContextUsage>,
    },
    /// Something beside the conversation.
    Query(SessionQuery),
    /// Finish: stop what runs, end background work, write what is left.
    Close,
    /// Ends the session because a new conversation replaces this one.
    Clear,
}

impl Op {
    /// Returns an operation that interrupts the running turn and nothing else, with no reply.
    pub fn interrupt() -> Self {
        Op::Interrupt { cancel_queued: false, stop_agents: false, reply: OpReply::ignored() }
    }
}

/// A prompt submitted to the session.
#[derive(Clone, Debug, Default)]
pub struct SubmittedPrompt {
    pub blocks: Vec<Block>,
    /// Given as one string, and stored as one.
    pub plain: bool,
    /// The id that the prompt is to have everywhere.
    pub uuid: Option<EntryId>,
    /// Written by gimlet itself: a notice that a background task ended, or an agent message.
    pub synthetic: bool,
    /// True if the sending program marks the prompt as not typed by the user. It is otherwise handled like any other.
    pub meta: bool,
    /// Written by another agent of the session.
    pub from_agent: bool,
    pub origin: Option<PromptOrigin>,
    pub timing: PromptTiming,
    /// Only to be known: no turn begins because of it.
    pub silent: bool,
    /// No prompt at all: the turn runs the hooks that a session begins with, and ends.
    pub only_start_hooks: bool,
    pub mentions: MentionScope,
}

/// Parts of a prompt that the user typed: only there `@names` attach files, and only there a command can stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MentionScope {
    /// No part of it was typed by the user.
    #[default]
    Nowhere,
    Everywhere,
    /// In this part of it; the rest is data.
    In(String),
}

impl SubmittedPrompt {
    /// Creates a prompt from one text that the user typed.
    pub fn from_text(text: &str) -> Self {
        Self { blocks: vec![Block::text(text)], plain: true, ..Self::default() }
    }

    /// Returns the text in which the user can have typed a command; `None` if the prompt is not the user's own.
    pub fn typed_text(&self) -> Option<Cow<'_, str>> {
        match &self.mentions {
            _ if self.synthetic || self.from_agent => None,
            MentionScope::Nowhere => None,
            MentionScope::Everywhere => self.blocks.first()?.as_text(),
            MentionScope::In(text) => Some(Cow::Borrowed(text)),
        }
    }
}

/// When a prompt that comes during a turn is taken up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PromptTiming {
    /// After the running tool calls, in the current turn; else as the next turn.
    #[default]
    Next,
    /// As a turn of its own, after this one.
    Later,
    /// The turn stops after the running tool calls, and this is the next one.
    Now,
}

/// Origin of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum PromptOrigin {
    Human,
    /// A background task ended.
    TaskNotification,
}

/// Outcome of an interrupt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterruptOutcome {
    /// Prompts that will still run.
    pub still_queued: Vec<EntryId>,
    /// Prompts that were forgotten.
    pub cancelled: Vec<EntryId>,
}

/// What a rewind does with the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewindMode {
    /// Only says what would change, with the lines.
    Preview,
    /// Restores every file.
    RestoreAll,
    /// Leaves files as they are that something other than the session's tools has changed since.
    KeepManualChanges,
}

/// Changes that a rewind made, or would make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RewindOutcome {
    pub files: Vec<RewoundFile>,
    /// Symlinks and files with several hard links, which are left unchanged.
    pub skipped_links: u64,
    /// Files that were left as they are, because something else has changed them since.
    pub kept: Vec<PathBuf>,
}

/// One file that a rewind restored, or would restore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RewoundFile {
    pub path: PathBuf,
    /// Lines that came and went.
    pub insertions: u64,
    pub deletions: u64,
    /// The lines, in a preview, unless they are too many or no text.
    pub hunks: Vec<DiffHunk>,
    /// True if something other than the session's tools has changed it since they did.
    pub changed_by_hand: bool,
}

impl RewindOutcome {
    /// Returns the number of lines that come.
    pub fn insertions(&self) -> u64 {
        self.files.iter().map(|file| file.insertions).sum()
    }

    /// Returns the number of lines that go.
    pub fn deletions(&self) -> u64 {
        self.files.iter().map(|file| file.deletions).sum()
    }

    /// The error of a session that keeps no checkpoints.
    pub const NOT_ENABLED: &str = "File rewinding is not enabled.";
    /// The error of a prompt without a checkpoint.
    pub const UNKNOWN_PROMPT: &str = "No file checkpoint found for this message.";
}

/// Channel for the outcome of an operation. The caller need not wait for it; dropping it sends nothing.
pub struct OpReply<T>(Option<oneshot::Sender<Result<T, String>>>);

impl<T> OpReply<T> {
    /// Creates a reply and the receiver that waits for it.
    pub fn channel() -> (Self, oneshot::Receiver<Result<T, String>>) {
        let (sender, receiver) = oneshot::channel();
        (Self(Some(sender)), receiver)
    }

    /// Creates a reply for an operation whose outcome is ignored.
    pub fn ignored() -> Self {
        Self(None)
    }

    pub fn is_awaited(&self) -> bool {
        self.0.is_some()
    }

    /// Waits until the receiver is dropped.
    pub async fn wait_until_abandoned(&mut self) {
        if let Some(sender) = &mut self.0 {
            sender.closed().await;
        }
    }

    /// Sends the outcome; an error is one line for display.
    pub fn send(self, outcome: Result<T, String>) {
        if let Some(sender) = self.0 {
            // A receiver that was dropped needs no outcome.
            drop(sender.send(outcome));
        }
    }
}

impl<T> fmt::Debug for OpReply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Reply(awaited)" } else { "Reply(nobody)" })
    }
}
