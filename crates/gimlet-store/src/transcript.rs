//! Writer of a session's transcript: one method for each kind of entry.
//!
//! The transcript maintains the chain of parents itself and assigns every entry its id. Appending never returns an
//! error and never blocks on storage: records that cannot be written wait in memory (see [`Transcript::take_error`]),
//! and [`Transcript::sync`] returns when the rest is durable. Written records are never changed.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimlet_proto::{Block, BlockKind, EntryId, ModelUsage, PermissionMode, PromptOrigin, Role, SessionId, ToolUseId};
use serde_json::value::RawValue;

use crate::TranscriptError;
use crate::agent_transcripts::AgentTranscripts;
use crate::cost_record::CostRecord;
use crate::disk::{Disk, RealDisk};
use crate::entry_format::{
    self, AssistantHead, CompactionRecord, EntryContext, EntryLinks, EntryStamp, ResultEntryFields, UserEntryFields,
    UserEntryKind,
};
use crate::layout::SessionFiles;
use crate::load::LoadedSession;
use crate::segment_context::{ContextPartLabel, SegmentContextPart};
use crate::session_labels::{EarlyTitle, SessionLabels};
use crate::side_writer::SideWriter;
use crate::sync_thread::{FsyncMode, SyncFuture, SyncTarget, SyncThread};
use crate::transcript_index::EntryKey;
use crate::transcript_log::{LineMirror, MirrorFactory, SharedLog, TranscriptLog};

/// Titles and the last prompt are written again after this many bytes: lists read only the last 64 KiB of a file.
const LABELS_EVERY: usize = 50 << 10;
/// Length beyond which a prompt is listed through its `last-prompt` entry only, so that entry follows at once.
const LONG_PROMPT: usize = 32 << 10;
/// Maximum time that a record stays unsynced in the default mode while others follow.
const SYNC_WITHIN: Duration = Duration::from_secs(1);

/// Options of a transcript.
#[derive(Clone)]
pub struct TranscriptOptions {
    pub disk: Arc<dyn Disk>,
    pub fsync: FsyncMode,
}

impl Default for TranscriptOptions {
    fn default() -> Self {
        Self { disk: Arc::new(RealDisk), fsync: FsyncMode::Turn }
    }
}

/// User message to be recorded.
#[derive(Clone, Debug)]
pub struct UserEntry<'a> {
    /// Id that the host already assigned.
    pub uuid: Option<EntryId>,
    pub blocks: &'a [Block],
    /// True if it was passed as one string and is stored as one.
    pub plain: bool,
    pub kind: UserEntryKind,
    /// Origin of the prompt, if known.
    pub origin: Option<&'a PromptOrigin>,
}

/// Kind of activity that the user interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptKind {
    Reply,
    ToolUse,
}

impl InterruptKind {
    /// Returns the text of the marker, in the transcript and for the model.
    pub fn marker(self) -> &'static str {
        match self {
            InterruptKind::Reply => "[Request interrupted by user]",
            InterruptKind::ToolUse => "[Request interrupted by user for tool use]",
        }
    }
}

/// Writer of one session's (or one subagent's) transcript.
pub struct Transcript {
    /// `None` when the session is not to be stored.
    log: Option<SharedLog>,
    session: SessionId,
    agent: Option<String>,
    stamp: EntryStamp,
    last: Option<EntryId>,
    /// True if everything so far was sent without a reply yet: the next user entry is a message of its own.
    sent: bool,
    /// Ids of all entries and replies: a second entry with an equal id would cut the earlier one out of the
    /// conversation, and readers take two replies with an equal id for one.
    ids: HashSet<EntryKey>,
    /// Newest entry of the current reply: blocks of one reply follow each other, even with results between them.
    reply: Option<(String, EntryId)>,
    /// Entries of calls that have no result yet.
    open_calls: HashMap<ToolUseId, EntryId>,
    labels: SessionLabels,
    last_prompt: Option<String>,
    /// Metadata from before the first prompt; the file begins with a real entry, and lists need the prompt early.
    held_back: Vec<String>,
    early_title: EarlyTitle,
    /// True if the file has (or will have) a first entry.
    begun: bool,
    /// True if a prompt has been recorded, so metadata may follow.
    prompted: bool,
    bytes_since_labels: usize,
    fsync: FsyncMode,
    syncer: Option<SyncThread>,
    last_sync: Instant,
    /// Factory of mirrors for subagents' transcripts.
    mirrors: Option<MirrorFactory>,
}

impl Transcript {
    /// Creates a new session. No file is created before the first entry.
    pub fn create(
        files: &SessionFiles,
        stamp: EntryStamp,
        options: TranscriptOptions,
    ) -> Result<Self, TranscriptError> {
        let path = files.transcript();
        if path.symlink_metadata().is_ok_and(|metadata| metadata.len() > 0) {
            return Err(TranscriptError::Exists { path });
        }
        let log = TranscriptLog::new(options.disk, path, Some(files.driver_lock())).for_new_session();
        Ok(Self::with_log(Some(log), files.id().clone(), stamp, options.fsync))
    }

    /// Resumes a loaded session in its file. Returns an error while another process drives it.
    pub fn resume(
        files: &SessionFiles,
        loaded: &LoadedSession,
        stamp: EntryStamp,
        options: TranscriptOptions,
    ) -> Result<Self, TranscriptError> {
        let mut log = TranscriptLog::new(options.disk, files.transcript(), Some(files.driver_lock()));
        log.claim()?;
        Ok(Self::with_log(Some(log), files.id().clone(), stamp, options.fsync).continue_from(loaded))
    }

    /// Continues from a loaded session.
    pub(crate) fn continue_from(mut self, loaded: &LoadedSession) -> Self {
        if let Some(log) = &self.log {
            log.lock().set_seen_length(loaded.file_len);
        }
        self.last = loaded.last_entry.clone();
        // It is not recorded whether the end of it was sent. A separate message is right in either case.
        self.sent = loaded.messages.last().is_some_and(|last| last.role == Role::User);
        self.ids.clone_from(&loaded.ids);
        self.labels = loaded.labels.clone();
        self.last_prompt = loaded.last_prompt.clone();
        self.open_calls = loaded.open_calls.iter().cloned().collect();
        // The caller has already received these prompts, so they are removed from the queue. Prompts queued before
        // this is written come after them.
        self.held_back.extend(
            loaded
                .queued_prompts
                .iter()
                .map(|_| entry_format::render_queue_operation("dequeue", None, self.session.as_str())),
        );
        self.begun = true;
        self.prompted = true;
        // The file exists, so there is no early title any more.
        drop(self.early_title.take());
        self
    }

    /// Returns a writer of session records for use while another caller holds the transcript.
    pub fn beside(&self) -> SideWriter {
        SideWriter::new(self.log.as_ref(), self.session.clone())
    }

    /// Returns the transcripts of this session's subagents.
    pub fn agent_transcripts(&self) -> AgentTranscripts {
        let log = self.log.as_ref();
        AgentTranscripts {
            session: self.session.clone(),
            files: log.and_then(|log| SessionFiles::from_transcript(log.path())),
            stamp: self.stamp.clone(),
            options: log.map(|log| TranscriptOptions { disk: log.lock().disk(), fsync: self.fsync }),
            mirrors: self.mirrors.clone(),
        }
    }

    /// Creates a subagent's own transcript beside its parent's.
    pub fn for_agent(files: &SessionFiles, agent_id: &str, stamp: EntryStamp, options: TranscriptOptions) -> Self {
        let log = TranscriptLog::new(options.disk, files.agent_transcript(agent_id), None);
        let mut transcript = Self::with_log(Some(log), files.id().clone(), stamp, options.fsync);
        transcript.agent = Some(agent_id.to_owned());
        transcript
    }

    /// Creates a session that is not stored: ids are assigned, nothing is written.
    pub fn new_unsaved(session: SessionId, stamp: EntryStamp) -> Self {
        Self::with_log(None, session, stamp, FsyncMode::Off)
    }

    fn with_log(log: Option<TranscriptLog>, session: SessionId, stamp: EntryStamp, fsync: FsyncMode) -> Self {
        Self {
            log: log.map(SharedLog::new),
            session,
            agent: None,
            stamp,
            last: None,
            sent: false,
            reply: None,
            open_calls: HashMap::new(),
            labels: SessionLabels::default(),
            last_prompt: None,
            held_back: Vec::new(),
            early_title: EarlyTitle::default(),
            begun: false,
            ids: HashSet::new(),
            prompted: false,
            bytes_since_labels: 0,
            fsync,
            syncer: None,
            last_sync: Instant::now(),
            mirrors: None,
        }
    }

    /// Sends a copy of every written line somewhere else, in order.
    pub fn set_mirror(&mut self, mirror: LineMirror) {
        if let Some(log) = &self.log {
            log.lock().set_mirror(mirror);
        }
    }

    /// Sets the mirror, also for the transcripts of this session's subagents.
    pub fn set_mirror_factory(&mut self, mirrors: MirrorFactory) {
        if let Some(path) = self.path() {
            let mirror = mirrors(path);
            self.set_mirror(mirror);
        }
        self.mirrors = Some(mirrors);
    }

    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Returns the path of the transcript, which may not exist yet.
    pub fn path(&self) -> Option<&Path> {
        self.log.as_ref().map(SharedLog::path)
    }

    /// Returns the entry that the next one will follow.
    pub fn last_entry(&self) -> Option<&EntryId> {
        self.last.as_ref()
    }

    pub fn labels(&self) -> &SessionLabels {
        &self.labels
    }

    /// Continues from an earlier entry; entries after it stay in the file as an abandoned branch.
    pub fn rewind_to(&mut self, entry: Option<EntryId>) {
        self.last = entry;
        // Only entries that were sent are ever abandoned.
        self.sent = true;
        self.reply = None;
        self.open_calls.clear();
    }

    /// Notes that everything so far goes to a model.
    pub fn mark_sent(&mut self) {
        self.sent = true;
    }

    /// Records a user message.
    pub fn user(&mut self, user: UserEntry<'_>) -> EntryId {
        let content = entry_format::render_user_content(user.blocks, user.plain);
        let parent = self.last.clone();
        let apart = self.take_starts_message();
        let id = self.append_chain_entry(user.uuid, parent, |place, links| {
            entry_format::render_user(
                place,
                links,
                &content,
                user.kind,
                UserEntryFields { origin: user.origin, starts_message: apart, ..UserEntryFields::default() },
            )
        });
        if user.kind == UserEntryKind::Prompt {
            self.record_prompt(user.blocks, content.len());
        }
        id
    }

    /// Records a part of the context that joins the conversation here.
    pub fn append_context_part(&mut self, part: &SegmentContextPart) -> EntryId {
        let content = entry_format::render_user_content(&[Block::text(&part.text)], false);
        let parent = self.last.clone();
        let label = ContextPartLabel { kind: part.kind, source: part.source.clone() };
        let starts_message = self.take_starts_message();
        self.append_chain_entry(None, parent, |place, links| {
            let about = UserEntryFields { context: Some(&label), starts_message, ..UserEntryFields::default() };
            entry_format::render_user(place, links, &content, UserEntryKind::Meta, about)
        })
    }

    /// Returns true if the next user entry begins a message of its own behind others, and resets that state.
    fn take_starts_message(&mut self) -> bool {
        std::mem::take(&mut self.sent) && self.last.is_some()
    }

    fn record_prompt(&mut self, blocks: &[Block], length: usize) {
        let texts: Vec<_> = blocks.iter().filter_map(Block::as_text).collect();
        let line = entry_format::to_one_line(&texts.join(" "));
        if !line.is_empty() {
            self.last_prompt = Some(line);
        }
        self.prompted = true;
        self.flush_held_back();
        if let Some(title) = self.early_title.take() {
            self.set_title(&title);
        }
        if length > LONG_PROMPT {
            self.write_last_prompt();
        }
    }

    /// Returns the id for a new reply: the one from its server, unless an earlier reply has it. Some servers use one
    /// id for all replies, or none.
    pub fn claim_reply_id(&mut self, given: &str) -> String {
        if !given.is_empty() && self.ids.insert(EntryKey::from_id(given.as_bytes())) {
            return given.to_owned();
        }
        format!("msg_{}", uuid::Uuid::new_v4().simple())
    }

    /// Records one complete block of a reply.
    pub fn append_assistant(&mut self, head: &AssistantHead, block: &Block) -> EntryId {
        let parent = match &self.reply {
            Some((message, entry)) if *message == head.message_id => Some(entry.clone()),
            _ => self.last.clone(),
        };
        let id = self
            .append_chain_entry(None, parent, |place, links| entry_format::render_assistant(place, links, head, block));
        self.reply = Some((head.message_id.clone(), id.clone()));
        // A report of a failure is not a reply.
        self.sent &= head.is_api_error;
        if let (BlockKind::ToolUse, Some(call)) = (block.kind(), block.id()) {
            self.open_calls.insert(ToolUseId::new(call), id.clone());
        }
        id
    }

    /// Records the result of a call, below the entry that made the call. `output` is the tool's structured output.
    pub fn append_tool_result(&mut self, block: &Block, output: Option<&RawValue>) -> EntryId {
        self.append_result(None, block, output)
    }

    /// Records a result from the program that drives the session, under `uuid` if that is set.
    pub fn answer(&mut self, uuid: Option<EntryId>, block: &Block, output: &RawValue) -> EntryId {
        self.append_result(uuid, block, Some(output))
    }

    fn append_result(&mut self, uuid: Option<EntryId>, block: &Block, output: Option<&RawValue>) -> EntryId {
        self.sent = false;
        let source = block.id().and_then(|call| self.open_calls.remove(&ToolUseId::new(call)));
        let parent = source.clone().or_else(|| self.last.clone());
        let content = entry_format::render_user_content(std::slice::from_ref(block), false);
        self.append_chain_entry(uuid, parent, |place, links| {
            let source_assistant = source.as_ref().map(EntryId::as_str);
            let answer = ResultEntryFields { source_assistant, tool_use_result: output };
            let about = UserEntryFields { answer: Some(answer), ..UserEntryFields::default() };
            entry_format::render_user(place, links, &content, UserEntryKind::Prompt, about)
        })
    }

    /// Records that the user stopped the turn. The text goes to the model with the next prompt.
    pub fn append_interrupted(&mut self, what: InterruptKind) -> EntryId {
        let content = entry_format::render_user_content(&[Block::text(what.marker())], false);
        let parent = self.last.clone();
        let about = UserEntryFields { starts_message: self.take_starts_message(), ..UserEntryFields::default() };
        self.append_chain_entry(None, parent, |place, links| {
            entry_format::render_user(place, links, &content, UserEntryKind::Prompt, about)
        })
    }

    /// Records something that belongs to the chain and is not a message: `attachment` is an object with a `type`.
    pub fn append_attachment(&mut self, attachment: &RawValue) -> EntryId {
        let parent = self.last.clone();
        self.append_chain_entry(None, parent, |place, links| entry_format::render_attachment(place, links, attachment))
    }

    /// Records that the last call is deferred: it is to run when the session is resumed.
    pub fn append_deferred(&mut self, call: &ToolUseId) -> EntryId {
        self.append_open_call(entry_format::DEFERRED_CALL, call)
    }

    /// Records that a deferred call is about to run. A reader that finds no result behind this does not run it again.
    pub fn resumed(&mut self, call: &ToolUseId) -> EntryId {
        self.append_open_call(entry_format::RESUMED_CALL, call)
    }

    fn append_open_call(&mut self, state: &str, call: &ToolUseId) -> EntryId {
        let parent = self.last.clone();
        self.append_chain_entry(None, parent, |place, links| {
            entry_format::render_open_call(place, links, state, call.as_str())
        })
    }

    /// Records a note of gimlet's own, such as `local_command` or `informational`.
    pub fn system(&mut self, subtype: &str, content: &str) -> EntryId {
        let parent = self.last.clone();
        self.append_chain_entry(None, parent, |place, links| {
            entry_format::render_system(place, links, subtype, content)
        })
    }

    /// Starts a new segment: the boundary, then the summary that the conversation continues from. Returns both ids.
    pub fn append_compaction(&mut self, compaction: &CompactionRecord, summary: &[Block]) -> (EntryId, EntryId) {
        let logical = self.last.take();
        let boundary = self.append_chain_entry(None, None, |place, links| {
            entry_format::render_compact_boundary(place, links, logical.as_ref().map(EntryId::as_str), compaction)
        });
        self.reply = None;
        self.sent = false;
        self.open_calls.clear();
        let plain = summary.len() == 1;
        let summary = self.user(UserEntry {
            uuid: None,
            blocks: summary,
            plain,
            kind: UserEntryKind::CompactSummary,
            origin: None,
        });
        (boundary, summary)
    }

    /// Records the exact system prompt, tool list and context of this segment, so that a resumed session sends identical
    /// bytes.
    pub fn append_frozen_prefix(&mut self, system: &[String], tools_json: &str, context: &[SegmentContextPart]) {
        let (session, agent) = (self.session.as_str(), self.agent.as_deref());
        let line = entry_format::render_frozen_prefix(system, tools_json, context, session, agent);
        self.append_after_prompt(line);
    }

    /// Returns the holder for a title that is set before the first prompt.
    pub fn early_title(&self) -> EarlyTitle {
        self.early_title.clone()
    }

    pub fn set_title(&mut self, title: &str) {
        self.adopt_foreign_labels();
        self.labels.title = Some(title.to_owned());
        self.append_metadata(entry_format::render_metadata(
            "custom-title",
            "customTitle",
            title,
            self.session.as_str(),
        ));
    }

    /// Sets the kind of agent that the main conversation runs as; an empty name for none.
    pub fn set_agent(&mut self, agent: &str) {
        self.adopt_foreign_labels();
        self.labels.agent = Some(agent.to_owned());
        self.append_metadata(entry_format::render_metadata(
            "agent-setting",
            "agentSetting",
            agent,
            self.session.as_str(),
        ));
    }

    pub fn append_permission_mode(&mut self, mode: PermissionMode) {
        self.append_metadata(entry_format::render_metadata(
            "permission-mode",
            "permissionMode",
            mode.as_str(),
            self.session.as_str(),
        ));
    }

    /// Records what the session has used so far, over all its runs.
    pub fn append_cost(&mut self, by_model: &[ModelUsage]) {
        let records: Vec<CostRecord> = by_model.iter().map(CostRecord::from).collect();
        self.append_metadata(entry_format::render_own_entry("gimlet-cost", &records, self.session.as_str()));
    }

    /// Ends a turn; to be called after its last entry, so that session lists show the last prompt.
    pub fn end_turn(&mut self) {
        self.reply = None;
        if self.begun {
            self.flush_held_back();
            self.write_last_prompt();
        }
    }

    /// Makes everything so far durable. Cheap to call; await the answer where it matters.
    pub fn sync(&mut self) -> SyncFuture {
        let Some(log) = &self.log else { return SyncFuture::ready(Ok(())) };
        let outage = {
            let mut log = log.lock();
            log.write_waiting();
            log.outage().cloned()
        };
        if let Some(outage) = outage {
            return SyncFuture::ready(Err(outage));
        }
        if self.fsync == FsyncMode::Off {
            return SyncFuture::ready(Ok(()));
        }
        self.request_sync()
    }

    /// Ends the session's writing: labels and last prompt once more, then durable.
    pub fn close(&mut self) -> SyncFuture {
        if self.begun && self.bytes_since_labels > 0 {
            self.flush_held_back();
            self.write_labels();
        }
        self.sync()
    }

    /// Returns the error of an outage, once. The session continues in memory; waiting records are written when that
    /// works again.
    pub fn take_error(&mut self) -> Option<TranscriptError> {
        self.log.as_ref().and_then(|log| log.lock().take_error())
    }

    /// Returns true if every record so far has reached the file.
    pub fn is_complete(&self) -> bool {
        self.log.as_ref().is_none_or(|log| log.lock().is_complete())
    }

    /// Returns the id for a new entry: the wanted one, unless an entry has it already.
    pub fn unused_entry_id(&self, wanted: Option<EntryId>) -> EntryId {
        let free = wanted.filter(|id| !self.ids.contains(&EntryKey::from_id(id.as_str().as_bytes())));
        free.unwrap_or_else(|| EntryId::new(uuid::Uuid::new_v4().hyphenated().to_string()))
    }

    fn append_chain_entry(
        &mut self,
        uuid: Option<EntryId>,
        parent: Option<EntryId>,
        render: impl FnOnce(EntryContext<'_>, EntryLinks<'_>) -> String,
    ) -> EntryId {
        let id = self.unused_entry_id(uuid);
        self.ids.insert(EntryKey::from_id(id.as_str().as_bytes()));
        self.last = Some(id.clone());
        self.begun = true;
        if self.log.is_none() {
            return id;
        }
        let timestamp = entry_format::current_timestamp();
        let place = EntryContext { session: self.session.as_str(), agent: self.agent.as_deref(), stamp: &self.stamp };
        let links =
            EntryLinks { uuid: id.as_str(), parent: parent.as_ref().map(EntryId::as_str), timestamp: &timestamp };
        let line = render(place, links);
        self.write_line(line);
        if self.bytes_since_labels > LABELS_EVERY {
            self.write_labels();
        }
        id
    }

    fn append_metadata(&mut self, line: String) {
        // A subagent's file holds only its conversation; session metadata is in the main one.
        if self.agent.is_none() {
            self.append_after_prompt(line);
        }
    }

    /// Writes a line, or keeps it until the first prompt was written.
    fn append_after_prompt(&mut self, line: String) {
        if self.prompted {
            self.write_line(line);
        } else {
            self.held_back.push(line);
        }
    }

    fn flush_held_back(&mut self) {
        for line in std::mem::take(&mut self.held_back) {
            self.write_line(line);
        }
    }

    /// Writes labels and last prompt again, so that the end of the file has them. Labels that others wrote meanwhile
    /// are newer than those in memory.
    fn write_labels(&mut self) {
        self.adopt_foreign_labels();
        for line in self.labels.to_entry_lines(self.session.as_str()) {
            self.write_line(line);
        }
        self.write_last_prompt();
        self.bytes_since_labels = 0;
    }

    fn adopt_foreign_labels(&mut self) {
        if let Some(log) = &self.log {
            let mut log = log.lock();
            log.detect_foreign_writes();
            self.labels.merge_newer(log.take_foreign_labels());
        }
    }

    fn write_last_prompt(&mut self) {
        if self.agent.is_some() {
            return;
        }
        if let (Some(prompt), Some(leaf)) = (&self.last_prompt, &self.last) {
            let line = entry_format::render_last_prompt(prompt, leaf.as_str(), self.session.as_str());
            self.write_line(line);
        }
    }

    fn write_line(&mut self, line: String) {
        let Some(log) = &self.log else { return };
        {
            let mut log = log.lock();
            self.bytes_since_labels += log.append(line);
            self.labels.merge_newer(log.take_foreign_labels());
        }
        let due = match self.fsync {
            FsyncMode::Always => true,
            FsyncMode::Turn => self.last_sync.elapsed() >= SYNC_WITHIN,
            FsyncMode::Off => false,
        };
        if due && let Ok(Some((syncer, unsynced))) = self.take_sync_target() {
            syncer.request_sync_detached(unsynced);
        }
    }

    fn request_sync(&mut self) -> SyncFuture {
        match self.take_sync_target() {
            Ok(Some((syncer, unsynced))) => syncer.request_sync(unsynced),
            Ok(None) => SyncFuture::ready(Ok(())),
            Err(error) => SyncFuture::ready(Err(error)),
        }
    }

    /// Returns the sync thread, started on first use, and its next target; `None` if there is nothing to sync.
    fn take_sync_target(&mut self) -> Result<Option<(&SyncThread, SyncTarget)>, TranscriptError> {
        self.last_sync = Instant::now();
        let Some(shared) = &self.log else { return Ok(None) };
        let mut log = shared.lock();
        if self.syncer.is_none() {
            let failed = |source| TranscriptError::Sync { path: shared.path().to_owned(), source: Arc::new(source) };
            self.syncer = Some(SyncThread::start(log.disk()).map_err(failed)?);
        }
        Ok(self.syncer.as_ref().zip(log.take_unsynced()))
    }
}
