//! Session records: writing, finding and reading them.
//!
//! Transcripts are append-only lines of JSON that other programs read and append to concurrently; they are the source
//! of truth, and no byte of them is ever rewritten here. Blocks are written and read back as exact bytes. This crate
//! prints nothing, starts no process and reads no environment: paths and settings come in as values.

mod added_dirs;
mod agent_transcripts;
mod annotate;
mod assemble;
mod carried_record;
mod chain;
mod check;
mod checkpoints;
mod context_log;
mod cost_ledger;
mod cost_record;
mod damage;
mod decision_ledger;
mod deferred_call;
mod disk;
mod driver_lock;
mod entry_format;
mod error;
mod fork;
mod full_entry;
mod history_repair;
mod history_validation;
mod images;
mod layout;
mod ledger_file;
mod line_reader;
mod load;
mod past_calls;
mod prompt_history;
mod prompt_queue;
mod raw_members;
mod repaired_copy;
mod replay;
mod result_files;
mod retention;
mod search;
mod segment_context;
mod sendable_blocks;
mod session_labels;
mod session_lookup;
mod session_removal;
mod session_summary;
mod session_title;
mod side_writer;
mod symlinks;
mod sync_thread;
mod transcript;
mod transcript_index;
mod transcript_log;
mod turns;

pub use added_dirs::record_added_dir;
pub use agent_transcripts::{AgentMeta, AgentTranscripts, KnownAgent, write_agent_meta};
pub use annotate::{AnnotateError, clean_title, rename_session, tag_session};
pub use carried_record::{CarriedRecord, CarriedToolState};
pub use check::{CheckFinding, CheckReport, FindingSeverity, check_session, check_transcript};
pub use checkpoints::{
    CheckpointError, CreatedFolder, CurrentContent, CurrentFile, KeptFile, PriorContent, SessionCheckpoints,
    WrittenFile, overwrite_file_content, read_current_content, remove_empty_folders, restore_file_content,
};
pub use context_log::{TurnContext, read_context_log};
pub use cost_ledger::{CacheMiss, CostLedger, CostLine, CostRates, CostTotals, RequestPurpose, read_costs};
pub use damage::{Damage, DamageReport};
pub use decision_ledger::{Decider, DecisionLedger, DecisionLine, DecisionOutcome, read_decisions};
pub use disk::{Disk, LogFile, RealDisk, create_private_dirs};
pub use entry_format::{AssistantHead, CompactionRecord, EntryStamp, UserEntryKind, current_timestamp};
pub use error::{ForkError, LoadError, TranscriptError};
pub use fork::{ForkSummary, fork, rename_without_replacing};
pub use gimlet_git::other_worktrees;
pub use history_repair::{INTERRUPTED_CALL, MISSING_START, is_sendable, repair_messages};
pub use history_validation::{InvalidHistory, find_invalid};
pub use images::{
    images_in_block, keep_newest_images, replace_attachments, replace_oldest_images, unusable_image_reason,
};
pub use layout::{ProjectDir, SessionFiles, StoreLocations, is_session_id, new_session_id, project_key};
pub use load::{FrozenPrefix, LoadOptions, LoadedSession, MAX_HISTORY, ToolOutputs, load_conversation};
pub use past_calls::{PastCall, SessionCalls, read_calls};
pub use prompt_history::PromptHistoryFile;
pub use repaired_copy::{RepairCopyError, RepairedCopy, write_repaired_copy};
pub use replay::{TranscriptItem, TranscriptItemKind, TranscriptView, open_transcript_view};
pub use result_files::{
    PERSISTED_TAG, ResultFileError, ResultFiles, inline_fallback, persisted_output, persisted_preview, preview_text,
};
pub use retention::{list_project_folders, remove_old_sessions};
pub use search::{HitRole, SearchError, SearchHit, SearchIndex, SearchIndexProgress, SearchRequest, Snippet};
pub use segment_context::{ContextPartKind, ContextPartSource, SegmentContextPart};
pub use sendable_blocks::sendable_reply_block;
pub use session_labels::{EarlyTitle, SessionLabels};
pub use session_lookup::{FindError, ProjectSessions, SessionFilter, UnreadableSession};
pub use session_removal::{RemovalSummary, RemoveError, remove_session, session_paths};
pub use session_summary::{SessionSummary, read_summary};
pub use session_title::derive_title;
pub use side_writer::{QueueChange, SideWriter};
pub use sync_thread::{FsyncMode, SyncFuture};
pub use transcript::{InterruptKind, Transcript, TranscriptOptions, UserEntry};
pub use transcript_log::{LineMirror, MirrorFactory};
pub use turns::{DropTurnError, check_dropped_turn, count_turns};
