//! Writing a session's transcript: one method for each kind of entry.
//!
//! The transcript keeps the chain of parents itself and gives every entry its id. Appending never fails towards the
//! caller and never blocks on storage: what cannot be written waits in memory (see [`Transcript::take_trouble`]), and
//! [`Transcript::sync`] says when the rest is durable. Nothing that was written is ever changed.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimlet_proto::{Block, BlockKind, EntryId, ModelUsage, Origin, PermissionMode, Role, SessionId, ToolUseId};
use serde_json::value::RawValue;

use crate::TranscriptError;
use crate::agents::AgentTranscripts;
use crate::beside::Beside;
use crate::cost::CostRecord;
use crate::disk::{Disk, RealDisk};
use crate::durable::{Durable, Fsync, Syncer, Unsynced};
use crate::entry::{self, About, Answer, AssistantHead, Compaction, Links, Place, Stamp, UserKind};
use crate::index::Key;
use crate::labels::{EarlyTitle, Labels};
use crate::layout::SessionFiles;
use crate::load::Loaded;
use crate::log::{Log, Mirror, Mirrors, SharedLog};

/// Titles and the last prompt are written again after this many bytes: lists read only the last 64 KiB of a file.
const LABELS_EVERY: usize = 50 << 10;
/// A prompt longer than this is listed through its `last-prompt` entry only, so that follows at once.
const LONG_PROMPT: usize = 32 << 10;
/// In the default mode no record stays un-synced for longer than this while others follow.
const SYNC_WITHIN: Duration = Duration::from_secs(1);

/// How a transcript is kept.
#[derive(Clone)]
pub struct TranscriptOptions {
    pub disk: Arc<dyn Disk>,
    pub fsync: Fsync,
}

impl Default for TranscriptOptions {
    fn default() -> Self {
        Self { disk: Arc::new(RealDisk), fsync: Fsync::Turn }
    }
}

/// A user message to be recorded.
#[derive(Clone, Debug)]
pub struct UserEntry<'a> {
    /// The id that the host already gave it.
    pub uuid: Option<EntryId>,
    pub blocks: &'a [Block],
    /// It was given as one string and is stored as one.
    pub plain: bool,
    pub kind: UserKind,
    /// Where it comes from, if that is known.
    pub origin: Option<&'a Origin>,
}

/// What a person interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupted {
    Reply,
    ToolUse,
}

impl Interrupted {
    /// The text of the marker, in the transcript and towards the model.
    pub fn marker(self) -> &'static str {
        match self {
            Interrupted::Reply => "[Request interrupted by user]",
            Interrupted::ToolUse => "[Request interrupted by user for tool use]",
        }
    }
}

/// The writer of one session's (or one subagent's) transcript.
pub struct Transcript {
    /// `None` when the session is not to be stored.
    log: Option<SharedLog>,
    session: SessionId,
    agent: Option<String>,
    stamp: Stamp,
    last: Option<EntryId>,
    /// Everything so far was sent, and nothing has come of it yet: what a user says next is a message of its own.
    sent: bool,
    /// The ids of all entries and replies: a second entry of the same id would cut what came before out of the
    /// conversation, and two replies of the same id are one to whoever reads them.
    ids: HashSet<Key>,
    /// The newest entry of the reply under way: blocks of one reply follow each other, whatever results come between.
    reply: Option<(String, EntryId)>,
    /// The entries of calls that have no result yet.
    open_calls: HashMap<ToolUseId, EntryId>,
    labels: Labels,
    last_prompt: Option<String>,
    /// Metadata given before the first prompt; the file begins with a real entry, and lists want the prompt early.
    held_back: Vec<String>,
    early_title: EarlyTitle,
    /// The file has (or will have) a first entry.
    begun: bool,
    /// A prompt has been recorded, so metadata may follow.
    prompted: bool,
    bytes_since_labels: usize,
    fsync: Fsync,
    syncer: Option<Syncer>,
    last_sync: Instant,
    /// Where copies of subagents' transcripts go.
    mirrors: Option<Mirrors>,
}

impl Transcript {
    /// A new session. Nothing is created before the first entry.
    pub fn create(files: &SessionFiles, stamp: Stamp, options: TranscriptOptions) -> Result<Self, TranscriptError> {
        let path = files.transcript();
        if path.symlink_metadata().is_ok_and(|metadata| metadata.len() > 0) {
            return Err(TranscriptError::Exists { path });
        }
        let log = Log::new(options.disk, path, Some(files.driver_lock())).of_new_session();
        Ok(Self::with_log(Some(log), files.id().clone(), stamp, options.fsync))
    }

    /// Goes on with a loaded session in the same file. Refused while another process drives it.
    pub fn resume(
        files: &SessionFiles,
        loaded: &Loaded,
        stamp: Stamp,
        options: TranscriptOptions,
    ) -> Result<Self, TranscriptError> {
        let mut log = Log::new(options.disk, files.transcript(), Some(files.driver_lock()));
        log.claim()?;
        Ok(Self::with_log(Some(log), files.id().clone(), stamp, options.fsync).following(loaded))
    }

    /// Goes on from what was loaded.
    pub(crate) fn following(mut self, loaded: &Loaded) -> Self {
        if let Some(log) = &self.log {
            log.lock().seen_up_to(loaded.file_len);
        }
        self.last = loaded.last_entry.clone();
        // Nothing tells whether the end of it was sent. Apart from that is right in either case.
        self.sent = loaded.messages.last().is_some_and(|last| last.role == Role::User);
        self.ids.clone_from(&loaded.ids);
        self.labels = loaded.labels.clone();
        self.last_prompt = loaded.last_prompt.clone();
        self.open_calls = loaded.open_calls.iter().cloned().collect();
        // Whoever goes on has been told of them, and need not be told again. What begins to wait before this is written
        // stands behind them.
        self.held_back
            .extend(loaded.waiting.iter().map(|_| entry::queue_operation("dequeue", None, self.session.as_str())));
        self.begun = true;
        self.prompted = true;
        // The file is there, so nobody is too early.
        drop(self.early_title.take());
        self
    }

    /// For those who write about the session while somebody else holds the transcript.
    pub fn beside(&self) -> Beside {
        Beside::new(self.log.as_ref(), self.session.clone())
    }

    /// Where the subagents of this session write.
    pub fn agents(&self) -> AgentTranscripts {
        let log = self.log.as_ref();
        AgentTranscripts {
            session: self.session.clone(),
            files: log.and_then(|log| SessionFiles::of_transcript(log.path())),
            stamp: self.stamp.clone(),
            options: log.map(|log| TranscriptOptions { disk: log.lock().disk(), fsync: self.fsync }),
            mirrors: self.mirrors.clone(),
        }
    }

    /// A subagent's own transcript beside its parent's.
    pub fn agent(files: &SessionFiles, agent_id: &str, stamp: Stamp, options: TranscriptOptions) -> Self {
        let log = Log::new(options.disk, files.agent_transcript(agent_id), None);
        let mut transcript = Self::with_log(Some(log), files.id().clone(), stamp, options.fsync);
        transcript.agent = Some(agent_id.to_owned());
        transcript
    }

    /// A session that is not to be stored: ids are handed out, nothing is written.
    pub fn unsaved(session: SessionId, stamp: Stamp) -> Self {
        Self::with_log(None, session, stamp, Fsync::Off)
    }

    fn with_log(log: Option<Log>, session: SessionId, stamp: Stamp, fsync: Fsync) -> Self {
        Self {
            log: log.map(SharedLog::new),
            session,
            agent: None,
            stamp,
            last: None,
            sent: false,
            reply: None,
            open_calls: HashMap::new(),
            labels: Labels::default(),
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
    pub fn set_mirror(&mut self, mirror: Mirror) {
        if let Some(log) = &self.log {
            log.lock().set_mirror(mirror);
        }
    }

    /// The same, also for the transcripts of this session's subagents.
    pub fn set_mirrors(&mut self, mirrors: Mirrors) {
        if let Some(path) = self.path() {
            let mirror = mirrors(path);
            self.set_mirror(mirror);
        }
        self.mirrors = Some(mirrors);
    }

    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Where the transcript is (or will be).
    pub fn path(&self) -> Option<&Path> {
        self.log.as_ref().map(SharedLog::path)
    }

    /// The entry that the next one will follow.
    pub fn last_entry(&self) -> Option<&EntryId> {
        self.last.as_ref()
    }

    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Goes on from an earlier entry; what followed it stays in the file as an abandoned branch.
    pub fn rewind_to(&mut self, entry: Option<EntryId>) {
        self.last = entry;
        // Only what was sent is ever given up.
        self.sent = true;
        self.reply = None;
        self.open_calls.clear();
    }

    /// Notes that everything so far goes to a model.
    pub fn note_sent(&mut self) {
        self.sent = true;
    }

    /// Records a user message.
    pub fn user(&mut self, user: UserEntry<'_>) -> EntryId {
        let content = entry::user_content(user.blocks, user.plain);
        let parent = self.last.clone();
        let apart = self.is_apart();
        let id = self.chain(user.uuid, parent, |place, links| {
            entry::user(place, links, &content, user.kind, About { origin: user.origin, answer: None, apart })
        });
        if user.kind == UserKind::Prompt {
            self.note_prompt(user.blocks, content.len());
        }
        id
    }

    /// Whether the user entry about to be written begins a message of its own behind others.
    fn is_apart(&mut self) -> bool {
        std::mem::take(&mut self.sent) && self.last.is_some()
    }

    fn note_prompt(&mut self, blocks: &[Block], length: usize) {
        let texts: Vec<_> = blocks.iter().filter_map(Block::as_text).collect();
        let line = entry::one_line(&texts.join(" "));
        if !line.is_empty() {
            self.last_prompt = Some(line);
        }
        self.prompted = true;
        self.release_held_back();
        if let Some(title) = self.early_title.take() {
            self.set_title(&title);
        }
        if length > LONG_PROMPT {
            self.write_last_prompt();
        }
    }

    /// The id of a reply that begins: the one that its server gave it, unless an earlier one has it. Some servers give
    /// the same to all of them, or none.
    pub fn reply_id(&mut self, given: &str) -> String {
        if !given.is_empty() && self.ids.insert(Key::of(given.as_bytes())) {
            return given.to_owned();
        }
        format!("msg_{}", uuid::Uuid::new_v4().simple())
    }

    /// Records one complete block of a reply.
    pub fn assistant(&mut self, head: &AssistantHead, block: &Block) -> EntryId {
        let parent = match &self.reply {
            Some((message, entry)) if *message == head.message_id => Some(entry.clone()),
            _ => self.last.clone(),
        };
        let id = self.chain(None, parent, |place, links| entry::assistant(place, links, head, block));
        self.reply = Some((head.message_id.clone(), id.clone()));
        // A report of a failure is no reply.
        self.sent &= head.is_api_error;
        if let (BlockKind::ToolUse, Some(call)) = (block.kind(), block.id()) {
            self.open_calls.insert(ToolUseId::new(call), id.clone());
        }
        id
    }

    /// Records the result of a call, below the entry that made the call. `output` is the tool's structured output.
    pub fn tool_result(&mut self, block: &Block, output: Option<&RawValue>) -> EntryId {
        self.result(None, block, output)
    }

    /// Records a result that somebody else gave, under the id that they gave it.
    pub fn answer(&mut self, uuid: Option<EntryId>, block: &Block, output: &RawValue) -> EntryId {
        self.result(uuid, block, Some(output))
    }

    fn result(&mut self, uuid: Option<EntryId>, block: &Block, output: Option<&RawValue>) -> EntryId {
        self.sent = false;
        let source = block.id().and_then(|call| self.open_calls.remove(&ToolUseId::new(call)));
        let parent = source.clone().or_else(|| self.last.clone());
        let content = entry::user_content(std::slice::from_ref(block), false);
        self.chain(uuid, parent, |place, links| {
            let source_assistant = source.as_ref().map(EntryId::as_str);
            let answer = Answer { source_assistant, tool_use_result: output };
            let about = About { answer: Some(answer), ..About::default() };
            entry::user(place, links, &content, UserKind::Prompt, about)
        })
    }

    /// Records that a person stopped the turn. The text goes to the model with the next prompt.
    pub fn interrupted(&mut self, what: Interrupted) -> EntryId {
        let content = entry::user_content(&[Block::text(what.marker())], false);
        let parent = self.last.clone();
        let about = About { apart: self.is_apart(), ..About::default() };
        self.chain(None, parent, |place, links| entry::user(place, links, &content, UserKind::Prompt, about))
    }

    /// Records something that belongs to the chain and is not a message: `attachment` is an object with a `type`.
    pub fn attachment(&mut self, attachment: &RawValue) -> EntryId {
        let parent = self.last.clone();
        self.chain(None, parent, |place, links| entry::attachment(place, links, attachment))
    }

    /// Records that the last call waits: it is to run when the session goes on.
    pub fn deferred(&mut self, call: &ToolUseId) -> EntryId {
        self.open_call(entry::DEFERRED_CALL, call)
    }

    /// Records that a call which waited is about to run. Whoever finds no result behind this does not run it again.
    pub fn resumed(&mut self, call: &ToolUseId) -> EntryId {
        self.open_call(entry::RESUMED_CALL, call)
    }

    fn open_call(&mut self, state: &str, call: &ToolUseId) -> EntryId {
        let parent = self.last.clone();
        self.chain(None, parent, |place, links| entry::open_call(place, links, state, call.as_str()))
    }

    /// Records a note of gimlet's own, such as `local_command` or `informational`.
    pub fn system(&mut self, subtype: &str, content: &str) -> EntryId {
        let parent = self.last.clone();
        self.chain(None, parent, |place, links| entry::system(place, links, subtype, content))
    }

    /// Starts a new segment: the boundary, then the summary that the conversation goes on from. Returns both ids.
    pub fn compacted(&mut self, compaction: Compaction, summary: &[Block]) -> (EntryId, EntryId) {
        let logical = self.last.take();
        let boundary = self.chain(None, None, |place, links| {
            entry::compact_boundary(place, links, logical.as_ref().map(EntryId::as_str), compaction)
        });
        self.reply = None;
        self.sent = false;
        self.open_calls.clear();
        let plain = summary.len() == 1;
        let summary =
            self.user(UserEntry { uuid: None, blocks: summary, plain, kind: UserKind::CompactSummary, origin: None });
        (boundary, summary)
    }

    /// Keeps the exact system prompt and tool list of this segment, so that a resumed session sends the same bytes.
    pub fn append_frozen(&mut self, system: &[String], tools_json: &str) {
        let line = entry::frozen(system, tools_json, self.session.as_str());
        self.metadata(line);
    }

    /// Where a title can be left until the first prompt.
    pub fn early_title(&self) -> EarlyTitle {
        self.early_title.clone()
    }

    pub fn set_title(&mut self, title: &str) {
        self.adopt_foreign();
        self.labels.title = Some(title.to_owned());
        self.metadata(entry::metadata("custom-title", "customTitle", title, self.session.as_str()));
    }

    /// The kind of agent that the main conversation runs as; an empty name for none.
    pub fn set_agent(&mut self, agent: &str) {
        self.adopt_foreign();
        self.labels.agent = Some(agent.to_owned());
        self.metadata(entry::metadata("agent-setting", "agentSetting", agent, self.session.as_str()));
    }

    pub fn permission_mode(&mut self, mode: PermissionMode) {
        self.metadata(entry::metadata("permission-mode", "permissionMode", mode.as_str(), self.session.as_str()));
    }

    /// Records what the session has used so far, over all its runs.
    pub fn cost(&mut self, by_model: &[ModelUsage]) {
        let records: Vec<CostRecord> = by_model.iter().map(CostRecord::from).collect();
        self.metadata(entry::own("gimlet-cost", &records, self.session.as_str()));
    }

    /// To be called after the last entry of every turn: session lists then show the last prompt.
    pub fn end_turn(&mut self) {
        self.reply = None;
        if self.begun {
            self.release_held_back();
            self.write_last_prompt();
        }
    }

    /// Makes everything so far durable. Cheap to call; await the answer where it matters.
    pub fn sync(&mut self) -> Durable {
        let Some(log) = &self.log else { return Durable::done(Ok(())) };
        let outage = {
            let mut log = log.lock();
            log.write_waiting();
            log.outage().cloned()
        };
        if let Some(outage) = outage {
            return Durable::done(Err(outage));
        }
        if self.fsync == Fsync::Off {
            return Durable::done(Ok(()));
        }
        self.request_sync()
    }

    /// Ends the session's writing: labels and last prompt once more, then durable.
    pub fn close(&mut self) -> Durable {
        if self.begun && self.bytes_since_labels > 0 {
            self.release_held_back();
            self.write_labels();
        }
        self.sync()
    }

    /// The error of an outage, once. The session goes on in memory; waiting records are written when that works again.
    pub fn take_trouble(&mut self) -> Option<TranscriptError> {
        self.log.as_ref().and_then(|log| log.lock().take_trouble())
    }

    /// Whether every record so far has reached the file.
    pub fn is_complete(&self) -> bool {
        self.log.as_ref().is_none_or(|log| log.lock().is_complete())
    }

    /// The id that an entry would get: the one that is wanted, unless an entry has it already.
    pub fn free_id(&self, wanted: Option<EntryId>) -> EntryId {
        let free = wanted.filter(|id| !self.ids.contains(&Key::of(id.as_str().as_bytes())));
        free.unwrap_or_else(|| EntryId::new(uuid::Uuid::new_v4().hyphenated().to_string()))
    }

    fn chain(
        &mut self,
        uuid: Option<EntryId>,
        parent: Option<EntryId>,
        render: impl FnOnce(Place<'_>, Links<'_>) -> String,
    ) -> EntryId {
        let id = self.free_id(uuid);
        self.ids.insert(Key::of(id.as_str().as_bytes()));
        self.last = Some(id.clone());
        self.begun = true;
        if self.log.is_none() {
            return id;
        }
        let timestamp = entry::timestamp();
        let place = Place { session: self.session.as_str(), agent: self.agent.as_deref(), stamp: &self.stamp };
        let links = Links { uuid: id.as_str(), parent: parent.as_ref().map(EntryId::as_str), timestamp: &timestamp };
        let line = render(place, links);
        self.write(line);
        if self.bytes_since_labels > LABELS_EVERY {
            self.write_labels();
        }
        id
    }

    fn metadata(&mut self, line: String) {
        // A subagent's file is its conversation and nothing else; what is said about a session is said in the main one.
        if self.agent.is_some() {
            return;
        }
        if self.prompted {
            self.write(line);
        } else {
            self.held_back.push(line);
        }
    }

    fn release_held_back(&mut self) {
        for line in std::mem::take(&mut self.held_back) {
            self.write(line);
        }
    }

    /// Writes labels and last prompt again, so that the end of the file has them. Whatever others wrote meanwhile
    /// is newer than what we remember.
    fn write_labels(&mut self) {
        self.adopt_foreign();
        for line in self.labels.entries(self.session.as_str()) {
            self.write(line);
        }
        self.write_last_prompt();
        self.bytes_since_labels = 0;
    }

    fn adopt_foreign(&mut self) {
        if let Some(log) = &self.log {
            let mut log = log.lock();
            log.look();
            self.labels.adopt(log.take_foreign());
        }
    }

    fn write_last_prompt(&mut self) {
        if self.agent.is_some() {
            return;
        }
        if let (Some(prompt), Some(leaf)) = (&self.last_prompt, &self.last) {
            let line = entry::last_prompt(prompt, leaf.as_str(), self.session.as_str());
            self.write(line);
        }
    }

    fn write(&mut self, line: String) {
        let Some(log) = &self.log else { return };
        {
            let mut log = log.lock();
            self.bytes_since_labels += log.append(line);
            self.labels.adopt(log.take_foreign());
        }
        let due = match self.fsync {
            Fsync::Always => true,
            Fsync::Turn => self.last_sync.elapsed() >= SYNC_WITHIN,
            Fsync::Off => false,
        };
        if due && let Ok(Some((syncer, unsynced))) = self.unsynced() {
            syncer.request_unwatched(unsynced);
        }
    }

    fn request_sync(&mut self) -> Durable {
        match self.unsynced() {
            Ok(Some((syncer, unsynced))) => syncer.request(unsynced),
            Ok(None) => Durable::done(Ok(())),
            Err(error) => Durable::done(Err(error)),
        }
    }

    /// The thread that syncs, started when first needed, and what there is for it to do.
    fn unsynced(&mut self) -> Result<Option<(&Syncer, Unsynced)>, TranscriptError> {
        self.last_sync = Instant::now();
        let Some(shared) = &self.log else { return Ok(None) };
        let mut log = shared.lock();
        if self.syncer.is_none() {
            let failed = |source| TranscriptError::Sync { path: shared.path().to_owned(), source: Arc::new(source) };
            self.syncer = Some(Syncer::start(log.disk()).map_err(failed)?);
        }
        Ok(self.syncer.as_ref().zip(log.take_unsynced()))
    }
}
