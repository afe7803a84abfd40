//! Everything gimlet writes about a session, and how it is found and read again.
//!
//! Transcripts are append-only lines of JSON that other programs read and add to at the same time; they are the truth,
//! and no byte of them is ever rewritten here. Blocks go to disk and come back as the exact bytes they are. This room
//! prints nothing, starts no process and reads no environment: paths and settings come in as values.

mod added;
mod agents;
mod annotate;
mod assemble;
mod beside;
mod calls;
mod chain;
mod check;
mod checkpoints;
mod cost;
mod damage;
mod decisions;
mod disk;
mod durable;
mod entry;
mod error;
mod find;
mod fork;
mod index;
mod labels;
mod layout;
mod lines;
mod live;
mod load;
mod lock;
mod log;
mod members;
mod mend;
mod peek;
mod pictures;
mod queue;
mod remove;
mod repair;
mod results;
mod retire;
mod search;
mod story;
mod symlinks;
mod titles;
mod transcript;
mod turns;
mod usable;
mod validate;
mod waiting;
mod worktrees;

pub use added::note_added;
pub use agents::{AgentMeta, AgentTranscripts, KnownAgent, write_agent_meta};
pub use annotate::{AnnotateError, clean_title, rename, tag};
pub use beside::{Beside, QueueChange};
pub use calls::{PastCall, SessionCalls, read_calls};
pub use check::{Checkup, Finding, Severity, check, check_session};
pub use checkpoints::{Before, CheckpointError, Checkpoints, Found, Kept, look, restore};
pub use damage::{Damage, DamageReport};
pub use decisions::{Decider, DecisionLedger, DecisionLine, Outcome, read_decisions};
pub use disk::{Disk, LogFile, RealDisk, create_private_dirs, read_plain};
pub use durable::{Durable, Fsync};
pub use entry::{AssistantHead, Compaction, Stamp, UserKind, timestamp};
pub use error::{ForkError, LoadError, TranscriptError};
pub use find::{FindError, Include, Sessions, UnreadableSession};
pub use fork::{Forked, fork, give_name};
pub use labels::{EarlyTitle, Labels};
pub use layout::{Locations, Project, SessionFiles, is_session_id, new_session_id, project_key};
pub use load::{Frozen, LoadOptions, Loaded, MAX_HISTORY, ToolOutputs, load};
pub use log::{Mirror, Mirrors};
pub use mend::{MendError, Mended, mend};
pub use peek::{SessionSummary, peek};
pub use pictures::{keep_newest_pictures, pictures_in, without_attachments, without_oldest_pictures};
pub use remove::{RemoveError, Removed, belongings, remove};
pub use repair::{INTERRUPTED_CALL, MISSING_START, is_sendable, repair};
pub use results::{
    PERSISTED_TAG, ResultFileError, ResultFiles, inline_fallback, persisted_output, persisted_preview, preview,
};
pub use retire::{project_folders, retire_sessions};
pub use search::{Hit, HitRole, Progress, Search, SearchError, SearchIndex, Snippet};
pub use story::{Moment, MomentKind, Story, read_story};
pub use titles::title_from;
pub use transcript::{Interrupted, Transcript, TranscriptOptions, UserEntry};
pub use turns::{DropsTurnError, check_dropped_turn, count_turns};
pub use usable::usable_reply;
pub use validate::{Invalid, invalid};
pub use worktrees::other_worktrees;
