//! The conversation's record on disk, as the turn writes it.
//!
//! Trouble with the disk never loses the conversation: it goes on in memory, the person is told once, and print mode
//! ends with an error.

use std::io::ErrorKind;

use gimlet_proto::{Block, EntryId, ModelUsage, PermissionMode, ReplyEnd, ReplyStart, SubmittedPrompt, ToolUseId};
use gimlet_store::{
    AgentTranscripts, AssistantHead, InterruptKind, SyncFuture, Transcript, TranscriptError, UserEntry, UserEntryKind,
};
use serde_json::value::{RawValue, to_raw_value};

/// Writes what happens, in order.
pub struct ConversationRecord {
    transcript: Transcript,
    /// The last entry before the reply under way; a void reply is forgotten back to here.
    reply_start: Option<EntryId>,
    /// What went wrong and was not told yet.
    trouble: Option<TranscriptError>,
    warned: bool,
    /// What the session had used before this run.
    used_before: Vec<ModelUsage>,
}

impl ConversationRecord {
    pub fn new(transcript: Transcript) -> Self {
        Self { transcript, reply_start: None, trouble: None, warned: false, used_before: Vec::new() }
    }

    /// Goes on counting from what the session had used when it was resumed.
    pub fn with_prior_usage(mut self, used_before: Vec<ModelUsage>) -> Self {
        self.used_before = used_before;
        self
    }

    /// The transcript itself, for titles and other metadata at the start of a session.
    pub fn transcript(&mut self) -> &mut Transcript {
        &mut self.transcript
    }

    /// Where subagents write.
    pub(crate) fn agent_transcripts(&self) -> AgentTranscripts {
        self.transcript.agent_transcripts()
    }

    /// A prompt, under the id that it was promised if hooks were told of one.
    pub(crate) fn append_prompt(&mut self, said: &SubmittedPrompt, promised: Option<EntryId>) -> EntryId {
        let kind = if said.synthetic || said.meta { UserEntryKind::Meta } else { UserEntryKind::Prompt };
        self.transcript.user(UserEntry {
            blocks: &said.blocks,
            plain: said.plain,
            kind,
            uuid: promised.or_else(|| said.uuid.clone()),
            origin: said.origin.as_ref(),
        })
    }

    /// Something that gimlet tells the model.
    pub(crate) fn append_meta(&mut self, text: &str) {
        let blocks = [Block::text(text)];
        self.transcript.user(UserEntry {
            blocks: &blocks,
            plain: false,
            kind: UserEntryKind::Meta,
            uuid: None,
            origin: None,
        });
    }

    pub(crate) fn begin_reply(&mut self) {
        self.reply_start = self.transcript.last_entry().cloned();
        self.transcript.mark_sent();
    }

    /// What the reply that begins is called.
    pub(crate) fn reply_id(&mut self, given: &str) -> String {
        self.transcript.claim_reply_id(given)
    }

    /// Forgets the reply under way: what follows continues from before it. Its entries stay, unreferenced.
    pub(crate) fn rewind_reply(&mut self) {
        self.transcript.rewind_to(self.reply_start.clone());
    }

    /// One block of a reply. With `end`, it is the last one.
    pub(crate) fn append_assistant_block(
        &mut self,
        start: &ReplyStart,
        end: Option<&ReplyEnd>,
        block: &Block,
    ) -> EntryId {
        let head = AssistantHead {
            message_id: start.message_id.clone(),
            model: start.model.clone(),
            request_id: start.request_id.clone(),
            usage: end.map_or(start.usage, |end| end.usage),
            stop_reason: end.and_then(|end| Some(end.stop_reason.as_ref()?.as_str().to_owned())),
            stop_sequence: end.and_then(|end| end.stop_sequence.clone()),
            ..AssistantHead::default()
        };
        self.transcript.append_assistant(&head, block)
    }

    /// A failure that stands where a reply should. Not part of history.
    pub(crate) fn append_api_error(&mut self, text: &str) -> EntryId {
        let head = AssistantHead { model: "<synthetic>".to_owned(), is_api_error: true, ..AssistantHead::default() };
        self.transcript.append_assistant(&head, &Block::text(text))
    }

    pub(crate) fn append_tool_result(&mut self, _call: &ToolUseId, block: &Block, output: &RawValue) -> EntryId {
        self.transcript.append_tool_result(block, Some(output))
    }

    /// The result of a call as whoever drives the session gave it.
    pub(crate) fn append_answer(&mut self, uuid: Option<EntryId>, block: &Block, output: &RawValue) -> EntryId {
        self.transcript.answer(uuid, block, output)
    }

    /// Marks an interrupt; gives the marker's text too.
    pub(crate) fn append_interrupt(&mut self, in_tools: bool) -> (EntryId, &'static str) {
        let what = if in_tools { InterruptKind::ToolUse } else { InterruptKind::Reply };
        (self.transcript.append_interrupted(what), what.marker())
    }

    /// The answer in the form that was asked for, at the end of its turn.
    pub(crate) fn append_structured_output(&mut self, answer: &RawValue) {
        let attachment = serde_json::json!({ "type": "structured_output", "data": answer });
        if let Ok(attachment) = to_raw_value(&attachment) {
            self.transcript.append_attachment(&attachment);
        }
    }

    /// A call waits, and is to run when the conversation goes on.
    pub(crate) fn append_deferred(&mut self, call: &ToolUseId) {
        self.transcript.append_deferred(call);
    }

    /// A call that waited is about to run.
    pub(crate) fn append_resumed(&mut self, call: &ToolUseId) {
        self.transcript.resumed(call);
    }

    /// Everything so far made durable. Starts at once; awaiting it is up to the caller.
    pub(crate) fn sync(&mut self) -> SyncFuture {
        self.transcript.sync()
    }

    /// Waits until everything so far is durable. Trouble is remembered and told once.
    pub(crate) async fn wait_durable(&mut self) {
        let outcome = self.transcript.sync().await;
        self.note_sync_result(outcome);
    }

    /// Takes note of how a [`ConversationRecord::sync`] went.
    pub(crate) fn note_sync_result(&mut self, outcome: Result<(), TranscriptError>) {
        if let Err(error) = outcome {
            self.trouble.get_or_insert(error);
        }
    }

    pub(crate) fn end_turn(&mut self, by_model: &[ModelUsage], mode: PermissionMode) {
        self.transcript.append_cost(&ModelUsage::sum_by_model(&self.used_before, by_model));
        self.transcript.append_permission_mode(mode);
        self.transcript.end_turn();
    }

    /// What went wrong with the disk, said once in a session.
    pub(crate) fn take_warning(&mut self) -> Option<String> {
        let trouble = self.trouble.take().or_else(|| self.transcript.take_error())?;
        let first = !std::mem::replace(&mut self.warned, true);
        first.then(|| match &trouble {
            // Nothing is lost, but whoever removed it should know that it is there again.
            TranscriptError::Removed { .. } => trouble.to_string(),
            _ => format!("this session cannot be saved: {trouble}. {}", error_advice(&trouble)),
        })
    }

    /// Ends the writing; trouble is there to be taken afterwards.
    pub(crate) async fn close(&mut self) {
        let outcome = self.transcript.close().await;
        self.note_sync_result(outcome);
    }
}

/// What a person can do about it.
fn error_advice(trouble: &TranscriptError) -> &'static str {
    match trouble.io_kind() {
        // A disk that fills up takes a part of the last record.
        Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge | ErrorKind::WriteZero) => {
            "Free some space there"
        }
        Some(_) => "Check that folder, or name another one in GIMLET_CONFIG_DIR",
        None => "End the other process, or fork the session",
    }
}
