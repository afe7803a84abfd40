//! Record of the conversation on disk, as the turn writes it.
//!
//! A disk error never loses the conversation: it continues in memory, the user is warned once, and print mode ends
//! with an error.

use std::io::ErrorKind;

use gimlet_proto::{Block, EntryId, ModelUsage, PermissionMode, ReplyEnd, ReplyStart, SubmittedPrompt, ToolUseId};
use gimlet_store::{
    AgentTranscripts, AssistantHead, CompactionRecord, InterruptKind, SyncFuture, Transcript, TranscriptError,
    UserEntry, UserEntryKind,
};
use serde_json::value::{RawValue, to_raw_value};

/// Writer of the conversation's entries, in order.
pub struct ConversationRecord {
    transcript: Transcript,
    /// Last entry before the current reply; a void reply is rewound to here.
    reply_start: Option<EntryId>,
    /// Write error that was not reported yet.
    trouble: Option<TranscriptError>,
    warned: bool,
    /// Usage of the session before this run.
    used_before: Vec<ModelUsage>,
}

impl ConversationRecord {
    pub fn new(transcript: Transcript) -> Self {
        Self { transcript, reply_start: None, trouble: None, warned: false, used_before: Vec::new() }
    }

    /// Sets the usage of the session before it was resumed, to which this run is added.
    pub fn with_prior_usage(mut self, used_before: Vec<ModelUsage>) -> Self {
        self.used_before = used_before;
        self
    }

    /// Returns the usage of the session before this run.
    pub fn prior_usage(&self) -> Vec<ModelUsage> {
        self.used_before.clone()
    }

    /// Returns the transcript, for titles and other metadata at the start of a session.
    pub fn transcript(&mut self) -> &mut Transcript {
        &mut self.transcript
    }

    /// Returns the transcripts of subagents.
    pub(crate) fn agent_transcripts(&self) -> AgentTranscripts {
        self.transcript.agent_transcripts()
    }

    /// Appends a prompt, under the id already announced to hooks if there is one.
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

    /// Appends content from gimlet to the model.
    pub(crate) fn append_meta_blocks(&mut self, blocks: &[Block]) {
        self.transcript.user(UserEntry { blocks, plain: false, kind: UserEntryKind::Meta, uuid: None, origin: None });
    }

    pub(crate) fn begin_reply(&mut self) {
        self.reply_start = self.transcript.last_entry().cloned();
        self.transcript.mark_sent();
    }

    /// Returns the id of the reply that begins.
    pub(crate) fn reply_id(&mut self, given: &str) -> String {
        self.transcript.claim_reply_id(given)
    }

    /// Rewinds the current reply: later entries continue from before it. Its entries stay, unreferenced.
    pub(crate) fn rewind_reply(&mut self) {
        self.transcript.rewind_to(self.reply_start.clone());
    }

    /// Appends one block of a reply. With `end`, it is the last one.
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

    /// Appends an error in place of a reply. It is not part of the history.
    pub(crate) fn append_api_error(&mut self, text: &str) -> EntryId {
        let head = AssistantHead { model: "<synthetic>".to_owned(), is_api_error: true, ..AssistantHead::default() };
        self.transcript.append_assistant(&head, &Block::text(text))
    }

    pub(crate) fn append_tool_result(&mut self, _call: &ToolUseId, block: &Block, output: &RawValue) -> EntryId {
        self.transcript.append_tool_result(block, Some(output))
    }

    /// Appends the result of a call as supplied by the client.
    pub(crate) fn append_answer(&mut self, uuid: Option<EntryId>, block: &Block, output: &RawValue) -> EntryId {
        self.transcript.answer(uuid, block, output)
    }

    /// Appends an interrupt marker; also returns its text.
    pub(crate) fn append_interrupt(&mut self, in_tools: bool) -> (EntryId, &'static str) {
        let what = if in_tools { InterruptKind::ToolUse } else { InterruptKind::Reply };
        (self.transcript.append_interrupted(what), what.marker())
    }

    /// Appends the structured answer at the end of its turn.
    pub(crate) fn append_structured_output(&mut self, answer: &RawValue) {
        let attachment = serde_json::json!({ "type": "structured_output", "data": answer });
        if let Ok(attachment) = to_raw_value(&attachment) {
            self.transcript.append_attachment(&attachment);
        }
    }

    /// Appends a deferred call, to be run when the conversation continues.
    pub(crate) fn append_deferred(&mut self, call: &ToolUseId) {
        self.transcript.append_deferred(call);
    }

    /// Appends that a deferred call is about to run.
    pub(crate) fn append_resumed(&mut self, call: &ToolUseId) {
        self.transcript.resumed(call);
    }

    /// Appends the boundary of a compaction and the message that the conversation continues from. Returns their ids.
    pub(crate) fn append_compaction(&mut self, record: &CompactionRecord, blocks: &[Block]) -> (EntryId, EntryId) {
        self.transcript.append_compaction(record, blocks)
    }

    /// Makes all entries durable. Starts at once; the caller may await it.
    pub(crate) fn sync(&mut self) -> SyncFuture {
        self.transcript.sync()
    }

    /// Waits until all entries are durable. An error is kept and reported once.
    pub(crate) async fn wait_durable(&mut self) {
        let outcome = self.transcript.sync().await;
        self.note_sync_result(outcome);
    }

    /// Records the result of a [`ConversationRecord::sync`].
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

    /// Takes the warning about a disk error; returned once per session.
    pub(crate) fn take_warning(&mut self) -> Option<String> {
        let trouble = self.trouble.take().or_else(|| self.transcript.take_error())?;
        let first = !std::mem::replace(&mut self.warned, true);
        first.then(|| match &trouble {
            // Nothing is lost, but the user who removed the file should know that it exists again.
            TranscriptError::Removed { .. } => trouble.to_string(),
            _ => format!("this session cannot be saved: {trouble}. {}", error_advice(&trouble)),
        })
    }

    /// Ends the writing; an error can be taken afterwards.
    pub(crate) async fn close(&mut self) {
        let outcome = self.transcript.close().await;
        self.note_sync_result(outcome);
    }
}

/// Returns advice for the user about an error.
fn error_advice(trouble: &TranscriptError) -> &'static str {
    match trouble.io_kind() {
        // A disk that fills up accepts a part of the last record.
        Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge | ErrorKind::WriteZero) => {
            "Free some space there"
        }
        Some(_) => "Check that folder, or name another one in GIMLET_CONFIG_DIR",
        None => "End the other process, or fork the session",
    }
}
