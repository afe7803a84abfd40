//! Configuration of a session. Everything is a value: the session reads no environment and no settings.

use std::path::PathBuf;
use std::sync::Arc;

use gimlet_proto::{CacheTtl, Driver, DriverHook, Env, Message, Model, SessionId, ThinkingMode};
use gimlet_store::{CostLedger, ResultFiles, SegmentContextPart, SessionCheckpoints, ToolOutputs};

use super::SessionState;
use crate::agents::{AgentMemoryFolders, LiveAgentRoster, MainAgent};
use crate::commands::CommandRegistry;
use crate::conversation::PromptSegment;
use crate::files::FilePreferences;
use crate::gate::PermissionConfig;
use crate::hooks::{HookEntry, SetupTrigger, StartSource};
use crate::image_fitting::ImageFitter;
use crate::model_selection::ModelSelection;
use crate::plan_mode::PlanConfig;
use crate::record::ConversationRecord;
use crate::redact::Redactor;
use crate::segment_context::SegmentContextSource;
use crate::services::ProcessAccess;
use crate::skills::LiveSkillSet;
use crate::structured_output::OutputSchema;
use crate::tool::{ToolSet, ToolSource};
use crate::turn::TurnOptions;

/// Configuration of a session.
pub struct SessionConfig {
    pub id: SessionId,
    pub env: Env,
    pub home: Option<PathBuf>,
    pub state: SessionState,
    /// System prompt and tool list of the first segment.
    pub prompt: PromptSegment,
    pub model: ModelConfig,
    pub tools: ToolConfig,
    pub agents: AgentConfig,
    pub history: HistoryConfig,
    pub turns: TurnConfig,
    pub permissions: PermissionConfig,
    pub processes: ProcessAccess,
    pub files: FileConfig,
    pub plan: PlanConfig,
    /// Skills that the user can type and the model can load.
    pub skills: LiveSkillSet,
    pub driver: DriverConfig,
}

/// The model and how it is asked.
pub struct ModelConfig {
    pub provider: Arc<dyn Model>,
    /// An id or an alias.
    pub model: String,
    /// The model of hooks that name none; `None` for the session's own.
    pub small_model: Option<String>,
    /// True if managed settings choose the model, so that it cannot be changed.
    pub managed: bool,
    pub thinking: ThinkingMode,
    pub effort: Option<String>,
    pub cache_ttl: Option<CacheTtl>,
    /// Source of the API key, for display.
    pub api_key_source: String,
}

impl ModelConfig {
    /// Returns the selection that the session begins with.
    pub(super) fn selection(&self) -> ModelSelection {
        ModelSelection {
            model: self.model.clone(),
            thinking: self.thinking,
            display: None,
            effort: self.effort.clone(),
        }
    }
}

/// What the model can call.
pub struct ToolConfig {
    pub tools: ToolSet,
    /// Further tools, which may appear and disappear.
    pub source: Option<Arc<dyn ToolSource>>,
    /// Schema that answers must match. Its tool is among `tools`.
    pub output: Option<Arc<OutputSchema>>,
}

/// The agents of a session.
#[derive(Default)]
pub struct AgentConfig {
    /// All kinds of subagents.
    pub roster: LiveAgentRoster,
    /// Agent that the main conversation runs as, if any.
    pub main: Option<MainAgent>,
    /// Text that the system prompt of every subagent ends with.
    pub append_system: Option<String>,
    pub memory: AgentMemoryFolders,
}

/// The record of a session, and what is known from an earlier run.
pub struct HistoryConfig {
    /// Origin of the session.
    pub source: StartSource,
    pub record: ConversationRecord,
    /// Messages of a resumed session.
    pub messages: Vec<Message>,
    /// Parts of the context that are among them.
    pub context_parts: Vec<SegmentContextPart>,
    /// Assistant message after the history, if it is a call that a hook deferred: it runs with the next prompt.
    pub deferred: Option<Message>,
    /// Outputs of the calls in the history.
    pub outputs: ToolOutputs,
    /// The user's own messages so far, the oldest first.
    pub user_words: Vec<String>,
    pub result_files: ResultFiles,
    /// Ledger of what requests cost; `None` if nothing of the session is stored.
    pub costs: Option<CostLedger>,
    /// gimlet's own credentials, kept out of history.
    pub redactor: Redactor,
}

/// How turns begin and run.
#[derive(Default)]
pub struct TurnConfig {
    /// True if a user can be asked.
    pub attended: bool,
    /// True if ended background work may begin a turn by itself; otherwise its notice waits for the next prompt.
    pub background_may_start_turn: bool,
    /// True if a prompt is already there: the resources that calls will need can be started in parallel with the rest.
    pub has_prompt: bool,
    pub options: TurnOptions,
    /// Sources of what stands in front of every conversation: memory, lists of skills and agents, in this order.
    pub context_sources: Vec<Arc<dyn SegmentContextSource>>,
    /// Slash commands that can be typed in place of a prompt.
    pub commands: CommandRegistry,
}

/// How files are read, changed and restored.
#[derive(Default)]
pub struct FileConfig {
    /// Files and folders of the session itself, its plan among them: they may always be written, also by subagents.
    pub own_paths: Vec<PathBuf>,
    /// Store of files as they were before they changed; `None` if nothing can be restored.
    pub checkpoints: Option<SessionCheckpoints>,
    pub preferences: FilePreferences,
    /// Fitter of images that are too large for a request; `None` to leave them out.
    pub image_fitter: Option<Arc<dyn ImageFitter>>,
}

/// Program that drives the session, if there is one, and the hooks that are registered first.
#[derive(Default)]
pub struct DriverConfig {
    pub driver: Option<Arc<dyn Driver>>,
    /// Its hooks.
    pub hooks: Vec<DriverHook>,
    /// Hooks of settings files.
    pub settings_hooks: Vec<HookEntry>,
    /// Preparation of the project that the run is for, if any.
    pub setup: Option<SetupTrigger>,
}
