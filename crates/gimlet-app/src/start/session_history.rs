//! History and record of a new, continued, resumed or forked session.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_core::{ConversationRecord, PromptSegment, StartSource};
use gimlet_proto::{Block, EntryId, Message, PermissionMode, Role, SessionId, ToolDef};
use gimlet_store::{
    CostLedger, Damage, DecisionLedger, EarlyTitle, EntryStamp, FindError, FsyncMode, InterruptKind, LoadError,
    LoadOptions, LoadedSession, MAX_HISTORY, MirrorFactory, ProjectSessions, ResultFiles, SegmentContextPart,
    SessionFiles, SessionFilter, SessionLabels, StoreLocations, ToolOutputs, Transcript, TranscriptError,
    TranscriptOptions, check_dropped_turn, clean_title, is_session_id, load_conversation, new_session_id,
    other_worktrees, read_summary, record_added_dir,
};

use super::LaunchOptions;
use crate::launch_error::LaunchError;
use crate::launch_request::LaunchRequest;
use crate::process_env::ProcessEnv;
use crate::session_lookup::{self, is_id_prefix};
use gimlet_text::truncate_to_line;

/// Maximum width of a prompt in lists.
const SHOWN_PROMPT: usize = 60;
/// Maximum number of sessions with one name that get distinct titles.
const MOST_NAMESAKES: usize = 100;

/// State that a session starts from.
pub(super) struct SessionHistory {
    pub id: SessionId,
    /// Origin of the session.
    pub source: StartSource,
    pub record: ConversationRecord,
    pub messages: Vec<Message>,
    /// Parts of the context that are among them.
    pub context_parts: Vec<SegmentContextPart>,
    /// Outputs of the calls in them.
    pub outputs: ToolOutputs,
    /// The user's own messages so far.
    pub user_words: Vec<String>,
    /// The model's message after them, when it is a deferred call.
    pub deferred: Option<Message>,
    /// Segment of the resumed session where it still fits, else the given one.
    pub segment: PromptSegment,
    pub model: Option<String>,
    pub mode: Option<PermissionMode>,
    pub result_files: ResultFiles,
    /// Ledger of decisions, if the session is stored.
    pub decisions: Option<DecisionLedger>,
    /// Ledger of what requests cost, likewise.
    pub costs: Option<CostLedger>,
    pub scratch: SessionScratchDir,
    pub title_target: SessionTitleTarget,
    pub remarks: Vec<String>,
}

/// Destination of a session's title.
pub struct SessionTitleTarget {
    pub files: SessionFiles,
    pub early: EarlyTitle,
    /// True if the session was resumed with its own title.
    pub has_title: bool,
}

/// The session to resume, if the flags name one.
pub(super) struct ResumeSource(Option<SessionFiles>);

impl ResumeSource {
    pub(super) fn from_flags(request: &LaunchRequest, around: &ProcessEnv) -> Result<Self, LaunchError> {
        check_flags(request)?;
        find_resumed(request, around, &StoreLocations::new(&around.config_home)).map(Self)
    }

    /// Returns the agent that it ran as, if recorded.
    pub(super) fn agent(&self) -> Option<String> {
        read_summary(&self.0.as_ref()?.transcript()).ok().flatten()?.labels.agent
    }
}

/// Parameters for opening a session.
pub(super) struct SessionOpening<'a> {
    pub source: ResumeSource,
    pub segment: PromptSegment,
    /// Agent of the main conversation.
    pub agent: Option<&'a str>,
    /// Mode of syncing to disk.
    pub fsync: FsyncMode,
    /// Tools that are offered besides if the conversation was compacted.
    pub compacted_tools: Arc<[ToolDef]>,
}

impl SessionHistory {
    pub(super) fn open(
        request: &LaunchRequest,
        around: &ProcessEnv,
        manner: &LaunchOptions,
        opening: SessionOpening<'_>,
    ) -> Result<Self, LaunchError> {
        let SessionOpening { source: ResumeSource(source), segment, agent, fsync, compacted_tools } = opening;
        let places = StoreLocations::new(&around.config_home);
        let stamp = EntryStamp {
            cwd: around.cwd.to_string_lossy().into_owned(),
            git_branch: gimlet_core::git_branch(&around.cwd).unwrap_or_default(),
            entrypoint: Some(around.env.get("CLAUDE_CODE_ENTRYPOINT").unwrap_or(manner.entrypoint).to_owned()),
        };
        let options = TranscriptOptions { fsync, ..TranscriptOptions::default() };
        let mirror = manner.mirror.as_ref();
        let wanted =
            SessionRequest { request, around, places, stamp, segment, agent, options, mirror, compacted_tools };
        let past = match source {
            None if request.session.fork && !request.session.continue_latest => {
                return Err(
                    LaunchError::new("--fork-session needs a session").with_hint("Add --continue or --resume SESSION")
                );
            }
            None => wanted.create_session(),
            Some(files) => wanted.resume_session(&files),
        }?;
        if !request.session.is_unsaved {
            record_added_folders(request, around, &past.title_target.files);
        }
        Ok(past)
    }
}

/// Records added folders, so that `--continue` finds the session from them.
fn record_added_folders(request: &LaunchRequest, around: &ProcessEnv, files: &SessionFiles) {
    let places = StoreLocations::new(&around.config_home);
    for folder in request.permissions.added_dirs.iter().filter_map(|dir| around.cwd.join(dir).canonicalize().ok()) {
        // If nothing can be written, the transcript reports it.
        drop(record_added_dir(&places, &folder, files));
    }
}

/// Request for a session's start.
struct SessionRequest<'a> {
    request: &'a LaunchRequest,
    around: &'a ProcessEnv,
    places: StoreLocations,
    stamp: EntryStamp,
    segment: PromptSegment,
    agent: Option<&'a str>,
    options: TranscriptOptions,
    mirror: Option<&'a MirrorFactory>,
    compacted_tools: Arc<[ToolDef]>,
}

impl SessionRequest<'_> {
    fn create_session(self) -> Result<SessionHistory, LaunchError> {
        let Self { request, around, places, stamp, segment, agent, options, mirror, .. } = self;
        let id = choose_session_id(request, around, &places)?;
        let files = places.project(&around.cwd).session_files(&id);
        let mut transcript = if request.session.is_unsaved {
            Transcript::new_unsaved(id.clone(), stamp)
        } else {
            Transcript::create(&files, stamp, options).map_err(|error| id_conflict_error(request, &error))?
        };
        mirror_new_lines(mirror, &mut transcript);
        // Written before long entries: it is searched for at both ends of the file.
        record_agent(&mut transcript, agent.or(declined_agent(request)));
        set_title(
            &mut transcript,
            request,
            &TitleCandidates::default(),
            &ProjectSessions::new(&places, &around.cwd, &[]),
        );
        let (result_files, scratch) = choose_result_files(request, around, &files);
        let name_plate = SessionTitleTarget { files: files.clone(), early: transcript.early_title(), has_title: false };
        Ok(SessionHistory {
            id,
            source: StartSource::Startup,
            record: ConversationRecord::new(transcript),
            messages: Vec::new(),
            context_parts: Vec::new(),
            outputs: ToolOutputs::default(),
            user_words: Vec::new(),
            deferred: None,
            segment,
            model: None,
            mode: None,
            result_files,
            decisions: (!request.session.is_unsaved).then(|| DecisionLedger::new(&files)),
            costs: (!request.session.is_unsaved).then(|| CostLedger::new(&files)),
            scratch,
            title_target: name_plate,
            remarks: no_session_remark(request).into_iter().collect(),
        })
    }

    fn resume_session(self, source: &SessionFiles) -> Result<SessionHistory, LaunchError> {
        let Self { request, around, places, stamp, segment, agent, options: written, mirror, compacted_tools } = self;
        let up_to = request.session.resume_at.as_deref().map(EntryId::new);
        check_dropped_flags(request, source)?;
        let options = LoadOptions { up_to, max_bytes: Some(MAX_HISTORY), ..LoadOptions::default() };
        // Before a copy is made, so that a session that cannot be loaded leaves nothing behind.
        let loaded = load_session(source, &options)?;
        let agent_before = loaded.labels.agent.clone();
        // A fork does not keep the original's title: a title shared by two sessions finds neither.
        let title_of_fork = match &loaded.labels.title {
            Some(title) if request.session.fork => {
                Some(fork_title(title, &ProjectSessions::new(&places, &around.cwd, &[])))
            }
            _ => None,
        };
        let (files, loaded) = match request.session.fork {
            false => (source.clone(), loaded),
            true => {
                let target = places.project(&around.cwd).session_files(&choose_session_id(request, around, &places)?);
                let copy = if request.session.is_unsaved {
                    clear_labels(loaded)
                } else {
                    let mode = loaded.permission_mode;
                    drop(loaded);
                    let mut copy = fork_session(source, &options, &target)?;
                    mirror_existing_lines(mirror, &target.transcript());
                    // A copy has the conversation alone; the session's mode is carried over here.
                    copy.permission_mode = copy.permission_mode.or(mode);
                    copy
                };
                (target, copy)
            }
        };
        let mut transcript = if request.session.is_unsaved {
            Transcript::new_unsaved(files.id().clone(), stamp)
        } else {
            Transcript::resume(&files, &loaded, stamp, written).map_err(|error| {
                LaunchError::new(error.to_string()).with_hint("Close the other gimlet, or add --fork-session")
            })?
        };
        mirror_new_lines(mirror, &mut transcript);
        // A missing agent may be back later; only a flag that names none removes it.
        record_agent(&mut transcript, agent.or(declined_agent(request)).or(agent_before.as_deref()));
        let segment = match loaded.compacted {
            true => {
                let tools = gimlet_core::with_compacted_tools(&segment.tools, &compacted_tools);
                PromptSegment { tools, ..segment }
            }
            false => segment,
        };
        let same_agent = agent.unwrap_or_default() == agent_before.as_deref().unwrap_or_default();
        let segment = reusable_segment(request, &loaded, &segment, same_agent).unwrap_or(segment);
        let own_title = loaded.labels.title.as_deref();
        if own_title.is_none() || own_title != request.session.title.as_deref() {
            let titles = TitleCandidates { own: own_title, fallback: title_of_fork.as_deref() };
            set_title(&mut transcript, request, &titles, &ProjectSessions::new(&places, &around.cwd, &[]));
        }
        let titled = own_title.is_some();
        let remarks = damage_remark(&loaded).into_iter().chain(unread_prompts_remark(&loaded)).collect();
        let (result_files, scratch) = choose_result_files(request, around, &files);
        let name_plate =
            SessionTitleTarget { files: files.clone(), early: transcript.early_title(), has_title: titled };
        Ok(SessionHistory {
            id: files.id().clone(),
            source: if request.session.fork { StartSource::Fork } else { StartSource::Resume },
            record: ConversationRecord::new(transcript).with_prior_usage(loaded.cost),
            messages: loaded.messages,
            context_parts: loaded.context_parts,
            outputs: loaded.outputs,
            user_words: loaded.user_words,
            deferred: loaded.deferred,
            segment,
            model: loaded.model,
            mode: loaded.permission_mode,
            result_files,
            decisions: (!request.session.is_unsaved).then(|| DecisionLedger::new(&files)),
            costs: (!request.session.is_unsaved).then(|| CostLedger::new(&files)),
            scratch,
            title_target: name_plate,
            remarks,
        })
    }
}

/// Copies a session's conversation on disk and loads the copy.
fn fork_session(
    source: &SessionFiles,
    options: &LoadOptions,
    target: &SessionFiles,
) -> Result<LoadedSession, LaunchError> {
    gimlet_store::fork(source, options, target).map_err(|error| LaunchError::new(error.to_string()))?;
    load_session(target, &LoadOptions { up_to: None, ..options.clone() })
}

/// Removes the labels and costs of the source, which a fork must not copy.
fn clear_labels(mut loaded: LoadedSession) -> LoadedSession {
    loaded.labels = SessionLabels::default();
    loaded.cost = Vec::new();
    loaded
}

/// Returns the empty name when a flag requests no agent.
fn declined_agent(request: &LaunchRequest) -> Option<&str> {
    request.agents.main.as_deref().filter(|name| name.is_empty())
}

/// Records the session's agent, unless its file already has it.
fn record_agent(transcript: &mut Transcript, agent: Option<&str>) {
    if let Some(agent) = agent.filter(|agent| transcript.labels().agent.as_deref() != Some(*agent)) {
        transcript.set_agent(agent);
    }
}

/// Sends a copy of all lines written from here on.
fn mirror_new_lines(mirror: Option<&MirrorFactory>, transcript: &mut Transcript) {
    if let Some(mirror) = mirror.cloned() {
        transcript.set_mirror_factory(mirror);
    }
}

/// Sends a copy of the lines that a fork begins with.
fn mirror_existing_lines(mirror: Option<&MirrorFactory>, path: &Path) {
    let Some(mirror) = mirror else { return };
    let mut write = mirror(path);
    // A file that cannot be read back is reported when it is loaded.
    for line in std::fs::read_to_string(path).unwrap_or_default().lines().filter(|line| !line.is_empty()) {
        write(line);
    }
}

/// Returns the report for a session id that already exists.
fn id_conflict_error(request: &LaunchRequest, error: &TranscriptError) -> LaunchError {
    match (error, &request.session.id) {
        (TranscriptError::Exists { .. }, Some(id)) => id_in_use_error(id),
        _ => LaunchError::new(error.to_string()).with_hint("Choose another --session-id, or resume that session"),
    }
}

fn id_in_use_error(id: &str) -> LaunchError {
    LaunchError::new(format!("Error: Session ID {id} is already in use."))
        .with_hint("Choose another --session-id, or resume that session")
}

/// Checks that session flags that need each other are given together.
fn check_flags(request: &LaunchRequest) -> Result<(), LaunchError> {
    let resumes = request.session.continue_latest || request.session.resume.is_some();
    if resumes && request.session.id.is_some() && !request.session.fork {
        return Err(LaunchError::new(
            "Error: --session-id can only be used with --continue or --resume if --fork-session is also specified.",
        ));
    }
    let names =
        [request.session.title.as_deref().filter(|name| !name.is_empty()), request.session.default_title.as_deref()];
    if let Some(error) = names.into_iter().flatten().find_map(|name| clean_title(name).err()) {
        return Err(LaunchError::new(format!("--name: {error}")));
    }
    if request.session.resume_at.is_some() && !resumes {
        return Err(LaunchError::new("--resume-session-at needs a session").with_hint("Add --resume SESSION"));
    }
    if request.session.drops_turn.is_some() && request.session.resume_at.is_none() {
        return Err(LaunchError::new(
            "Resume rejected by --resume-drops-turn: it needs --resume-session-at, which says where to go on from",
        ));
    }
    Ok(())
}

/// Checks that the session that the flags name exists, before anything else is known.
pub fn check_session(request: &LaunchRequest, around: &ProcessEnv) -> Result<(), LaunchError> {
    check_flags(request)?;
    let Some(files) = find_resumed(request, around, &StoreLocations::new(&around.config_home))? else { return Ok(()) };
    check_dropped_flags(request, &files)
}

/// Returns true if the session that the flags name ended in the middle of a turn: its last message has no reply. A turn
/// that the user stopped has ended.
pub fn is_mid_turn(request: &LaunchRequest, around: &ProcessEnv) -> Result<bool, LaunchError> {
    let ResumeSource(Some(files)) = ResumeSource::from_flags(request, around)? else { return Ok(false) };
    let up_to = request.session.resume_at.as_deref().map(EntryId::new);
    let options = LoadOptions { up_to, max_bytes: Some(MAX_HISTORY), ..LoadOptions::default() };
    let loaded = load_session(&files, &options)?;
    let is_stopped = |last: &Message| {
        let said = last.blocks.last().and_then(Block::as_text);
        [InterruptKind::Reply, InterruptKind::ToolUse].iter().any(|what| said.as_deref() == Some(what.marker()))
    };
    Ok(loaded.messages.last().is_some_and(|last| last.role == Role::User && !is_stopped(last)))
}

/// Refuses to drop more than the turn that the flags name.
fn check_dropped_flags(request: &LaunchRequest, source: &SessionFiles) -> Result<(), LaunchError> {
    let (Some(cut), Some(turn)) = (&request.session.resume_at, &request.session.drops_turn) else { return Ok(()) };
    check_dropped_turn(&source.transcript(), &EntryId::new(cut.as_str()), turn)
        .map_err(|error| LaunchError::new(format!("Resume rejected by --resume-drops-turn: {error}")))
}

fn no_session_remark(request: &LaunchRequest) -> Option<String> {
    // Programs ask to continue without knowing if there is a session, and only get the new id.
    (request.session.continue_latest && !request.is_driven())
        .then(|| "there is no session to continue in this folder; this is a new one".to_owned())
}

/// Returns the session that the flags name, if they name one.
fn find_resumed(
    request: &LaunchRequest,
    around: &ProcessEnv,
    places: &StoreLocations,
) -> Result<Option<SessionFiles>, LaunchError> {
    if request.session.continue_latest {
        // Only sessions of this folder, and those that added it: continuing the work of another tree must be explicit.
        let here = ProjectSessions::new(places, &around.cwd, &[]);
        let latest =
            here.latest_session(if request.is_headless() { SessionFilter::All } else { SessionFilter::Interactive });
        // Programs ask to continue without knowing if there is a session; the first time there is none.
        return match latest {
            Some(summary) => session_lookup::session_for_summary(&summary).map(Some),
            None => session_lookup::unreadable_error(&here).map_or(Ok(None), Err),
        };
    }
    let Some(wanted) = &request.session.resume else { return Ok(None) };
    if wanted.ends_with(".jsonl") && Path::new(wanted).is_absolute() {
        return session_lookup::session_for_transcript(Path::new(wanted)).map(Some);
    }
    let sessions = ProjectSessions::new(places, &around.cwd, &other_worktrees(&around.cwd));
    if is_session_id(wanted) {
        let unknown = |error: FindError| {
            LaunchError::new(error.to_string()).with_hint("'gimlet sessions ls --all' shows what there is")
        };
        return sessions
            .find_by_id(wanted)
            .map(Some)
            .map_err(|error| session_lookup::unreadable_error(&sessions).unwrap_or_else(|| unknown(error)));
    }
    let unknown = |error: FindError| {
        let asked = "--resume requires a valid session ID or session title when used with --print";
        let short = if session_lookup::is_short_id_prefix(wanted) {
            "The beginning of an id has at least four characters; "
        } else {
            ""
        };
        let report = || {
            LaunchError::new(format!("{asked}: {error}"))
                .with_hint(format!("{short}'gimlet sessions ls' shows what there is"))
        };
        session_lookup::unreadable_error(&sessions).unwrap_or_else(report)
    };
    match sessions.find_by_title(wanted) {
        Ok(summary) => session_lookup::session_for_summary(&summary).map(Some),
        // 'sessions ls' shows only the beginning of an id.
        Err(FindError::NoSuchTitle { .. }) if is_id_prefix(wanted) => {
            sessions.find_by_prefix(wanted).map(Some).map_err(unknown)
        }
        Err(error) => Err(unknown(error)),
    }
}

fn load_session(files: &SessionFiles, options: &LoadOptions) -> Result<LoadedSession, LaunchError> {
    load_conversation(&files.transcript(), options).map_err(|error| {
        let report = LaunchError::new(format!("the session cannot be loaded: {error}"));
        match error {
            LoadError::TooLarge { fits_up_to, .. } => report.with_hint(too_large_hint(files, fits_up_to.as_ref())),
            LoadError::NoSuchEntry { .. } => report.with_hint("--resume-session-at takes the uuid of an entry"),
            LoadError::Read { .. } => report,
        }
    })
}

/// Returns the remedy for a conversation that is too large for any model.
fn too_large_hint(files: &SessionFiles, fits_up_to: Option<&EntryId>) -> String {
    let export = format!("'gimlet sessions export {}' to read it and begin anew", files.id());
    match fits_up_to {
        Some(entry) => format!(
            "Go on from an earlier entry with --resume-session-at {entry} (what fits into any model; add --fork-session to leave the session as it is), or use {export}"
        ),
        None => format!("Use {export}"),
    }
}

/// Returns one line about damage to a transcript that was repaired in memory.
fn damage_remark(loaded: &LoadedSession) -> Option<String> {
    let first = loaded.damage.items.first()?;
    if is_cut_off(loaded) {
        return Some("the last turn was cut off; its calls without a result count as interrupted".to_owned());
    }
    let more = match loaded.damage.total {
        1 => String::new(),
        total => format!(" (and {} more)", total - 1),
    };
    Some(format!("the session's record was damaged and was repaired for this run: {first}{more}"))
}

/// Returns a remark on prompts that the session never processed, because it ended first.
fn unread_prompts_remark(loaded: &LoadedSession) -> Option<String> {
    let shown = |prompt: &String| match truncate_to_line(prompt, SHOWN_PROMPT) {
        words if words.is_empty() => "one without words".to_owned(),
        words => format!("'{words}'"),
    };
    let prompts: Vec<String> = loaded.queued_prompts.iter().map(shown).collect();
    let which = match prompts.as_slice() {
        [] => return None,
        [prompt] => format!("a prompt was waiting and was never taken up: {prompt}"),
        many => format!("{} prompts were waiting and were never taken up: {}", many.len(), many.join(", ")),
    };
    Some(format!("when this session ended, {which}. Say it again if it still matters"))
}

/// Returns true if the only defect is that the last reply's calls have no results: a stopped run leaves that.
fn is_cut_off(loaded: &LoadedSession) -> bool {
    let Some(last) = loaded.messages.iter().rfind(|message| message.role == Role::Assistant) else { return false };
    loaded.damage.total == loaded.damage.items.len()
        && loaded.damage.items.iter().all(|damage| match damage {
            Damage::MissingResult { call } => last.tool_uses().any(|made| made.id == call.as_str()),
            _ => false,
        })
}

fn parse_session_id(request: &LaunchRequest) -> Result<Option<SessionId>, LaunchError> {
    match &request.session.id {
        None => Ok(None),
        Some(id) if is_session_id(id) => Ok(Some(SessionId::new(id.to_ascii_lowercase()))),
        Some(id) => Err(LaunchError::new(format!("--session-id: '{id}' is not a UUID"))
            .with_hint("It looks like 123e4567-e89b-42d3-a456-426614174000")),
    }
}

/// Returns the id of the new session.
fn choose_session_id(
    request: &LaunchRequest,
    around: &ProcessEnv,
    places: &StoreLocations,
) -> Result<SessionId, LaunchError> {
    let Some(id) = parse_session_id(request)? else { return Ok(new_session_id()) };
    if ProjectSessions::new(places, &around.cwd, &[]).has_session(id.as_str()) {
        Err(id_in_use_error(id.as_str()))
    } else {
        Ok(id)
    }
}

/// Candidates for a session's title without an explicit one.
#[derive(Default)]
struct TitleCandidates<'a> {
    own: Option<&'a str>,
    /// Title for a session without any other.
    fallback: Option<&'a str>,
}

/// Sets the session's title; a distinct one while another running session has it. A user's flag replaces an existing
/// title; a program's default does not.
fn set_title(
    transcript: &mut Transcript,
    request: &LaunchRequest,
    titles: &TitleCandidates<'_>,
    here: &ProjectSessions,
) {
    let wished = if titles.own.is_none() { request.session.default_title.as_deref() } else { None };
    // Invalid titles were refused with the flags; one that grew too long is dropped.
    let Some(Ok(name)) = wished.or(request.session.title.as_deref()).or(titles.fallback).map(clean_title) else {
        return;
    };
    let numbered = (2..).map(|number| format!("{name} ({number})"));
    let taken = here.list_running_titles();
    let free = std::iter::once(name.clone()).chain(numbered).take(MOST_NAMESAKES).find(|name| !taken.contains(name));
    transcript.set_title(&free.unwrap_or(name));
}

/// Returns the title for a fork, unique among the sessions here.
fn fork_title(title: &str, here: &ProjectSessions) -> String {
    let taken = here.list_titles();
    let first = format!("{title} (fork)");
    let numbered = (2..).map(|number| format!("{title} (fork {number})"));
    let free = std::iter::once(first.clone()).chain(numbered).take(MOST_NAMESAKES).find(|name| !taken.contains(name));
    free.unwrap_or(first)
}

/// Returns the segment of the resumed session, unless flags, another agent or different tools change it. An equal one
/// is kept: an agent supplies its prompt each time, and it need not be recorded each time.
fn reusable_segment(
    request: &LaunchRequest,
    loaded: &LoadedSession,
    fresh: &PromptSegment,
    same_agent: bool,
) -> Option<PromptSegment> {
    let changed = !same_agent
        || request.system_prompt.replace.is_some()
        || request.system_prompt.replace_file.is_some()
        || request.system_prompt.append.is_some()
        || request.system_prompt.append_file.is_some()
        || request.system_prompt.keeps_snapshot == Some(false);
    let frozen = loaded.frozen.as_ref().filter(|frozen| !changed || frozen.system[..] == fresh.system[..])?;
    PromptSegment::restore(frozen, fresh)
}

/// Chooses the location of large results: beside the transcript, or in a private folder when nothing is stored.
fn choose_result_files(
    request: &LaunchRequest,
    around: &ProcessEnv,
    files: &SessionFiles,
) -> (ResultFiles, SessionScratchDir) {
    if !request.session.is_unsaved {
        return (ResultFiles::new(files), SessionScratchDir(None));
    }
    let root = super::scratch_dir_path(&around.env);
    let session = StoreLocations::new(&root).project(&around.cwd).session_files(files.id());
    (ResultFiles::new(&session), SessionScratchDir(Some(root)))
}

/// Folder that lasts as long as its session.
pub(super) struct SessionScratchDir(pub(super) Option<PathBuf>);

impl Drop for SessionScratchDir {
    fn drop(&mut self) {
        if let Some(root) = &self.0 {
            // Usually it was never created.
            drop(std::fs::remove_dir_all(root));
        }
    }
}
