//! New, continued, resumed or forked: where the session's history and record come from.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_core::{Record, StartSource};
use gimlet_proto::{Message, PermissionMode, SessionId, ToolDef};
use gimlet_store::{
    DecisionLedger, FindError, Include, LoadOptions, Loaded, Locations, ResultFiles, SessionFiles, SessionSummary,
    Sessions, Stamp, ToolOutputs, Transcript, TranscriptOptions, is_session_id, load, new_session_id,
};

use crate::args::RunArgs;
use crate::report::Report;
use crate::surroundings::Surroundings;

/// What every request of a conversation segment begins with, byte for byte.
pub(crate) struct Segment {
    pub(crate) system: Arc<[String]>,
    pub(crate) tools: Arc<[ToolDef]>,
}

/// What a session starts from.
pub(crate) struct Past {
    pub(crate) id: SessionId,
    /// How the session came to be.
    pub(crate) source: StartSource,
    pub(crate) record: Record,
    pub(crate) messages: Vec<Message>,
    /// What the calls in them gave back.
    pub(crate) outputs: ToolOutputs,
    /// That of the resumed session where it still fits, else the one given.
    pub(crate) segment: Segment,
    pub(crate) model: Option<String>,
    pub(crate) mode: Option<PermissionMode>,
    pub(crate) result_files: ResultFiles,
    /// Where decisions are written down, if anything is.
    pub(crate) decisions: Option<DecisionLedger>,
    pub(crate) scratch: Scratch,
    pub(crate) remarks: Vec<String>,
}

impl Past {
    pub(crate) fn find(
        run: &RunArgs,
        around: &Surroundings,
        entrypoint: &'static str,
        segment: Segment,
    ) -> Result<Self, Report> {
        let places = Locations::new(&around.config_home);
        let stamp = Stamp {
            cwd: around.cwd.to_string_lossy().into_owned(),
            git_branch: gimlet_core::git_branch(&around.cwd).unwrap_or_default(),
            entrypoint: Some(around.env.get("CLAUDE_CODE_ENTRYPOINT").unwrap_or(entrypoint).to_owned()),
        };
        match resumed(run, around, &places)? {
            None if run.fork_session && !run.continue_session => {
                Err(Report::new("--fork-session needs a session").hint("Add --continue or --resume SESSION"))
            }
            None => Self::new_session(run, around, &places, stamp, segment),
            Some(files) => Self::go_on(run, around, &places, &files, stamp, segment),
        }
    }

    fn new_session(
        run: &RunArgs,
        around: &Surroundings,
        places: &Locations,
        stamp: Stamp,
        segment: Segment,
    ) -> Result<Self, Report> {
        let id = wanted_id(run)?.unwrap_or_else(new_session_id);
        let files = places.project(&around.cwd).session(&id);
        let mut transcript = if run.no_session_persistence {
            Transcript::unsaved(id.clone(), stamp)
        } else {
            Transcript::create(&files, stamp, TranscriptOptions::default()).map_err(|error| {
                Report::new(error.to_string()).hint("Choose another --session-id, or resume that session")
            })?
        };
        freeze(&mut transcript, &segment);
        name(&mut transcript, run);
        let (result_files, scratch) = result_files(run, around, &files);
        Ok(Self {
            id,
            source: StartSource::Startup,
            record: Record::new(transcript),
            messages: Vec::new(),
            outputs: ToolOutputs::default(),
            segment,
            model: None,
            mode: None,
            result_files,
            decisions: (!run.no_session_persistence).then(|| DecisionLedger::new(&files)),
            scratch,
            remarks: nothing_to_continue(run).into_iter().collect(),
        })
    }

    fn go_on(
        run: &RunArgs,
        around: &Surroundings,
        places: &Locations,
        source: &SessionFiles,
        stamp: Stamp,
        segment: Segment,
    ) -> Result<Self, Report> {
        let options = LoadOptions::default();
        let (files, loaded) = if run.fork_session {
            let id = wanted_id(run)?.unwrap_or_else(new_session_id);
            let target = places.project(&around.cwd).session(&id);
            gimlet_store::fork(source, &options, &target).map_err(|error| Report::new(error.to_string()))?;
            let loaded = load_session(&target, &options)?;
            (target, loaded)
        } else {
            if run.session_id.is_some() {
                return Err(Report::new("--session-id names a new session").hint("With --resume, add --fork-session"));
            }
            (source.clone(), load_session(source, &options)?)
        };
        let mut transcript = if run.no_session_persistence {
            Transcript::unsaved(files.id().clone(), stamp)
        } else {
            Transcript::resume(&files, &loaded, stamp, TranscriptOptions::default())
                .map_err(|error| Report::new(error.to_string()).hint("Close the other gimlet, or add --fork-session"))?
        };
        let segment = match kept_segment(run, &loaded, &segment) {
            Some(kept) => kept,
            None => {
                freeze(&mut transcript, &segment);
                segment
            }
        };
        name(&mut transcript, run);
        let remarks = damage_remark(&loaded).into_iter().collect();
        let (result_files, scratch) = result_files(run, around, &files);
        Ok(Self {
            id: files.id().clone(),
            source: if run.fork_session { StartSource::Fork } else { StartSource::Resume },
            record: Record::new(transcript).counting_from(loaded.cost),
            messages: loaded.messages,
            outputs: loaded.outputs,
            segment,
            model: loaded.model,
            mode: loaded.permission_mode,
            result_files,
            decisions: (!run.no_session_persistence).then(|| DecisionLedger::new(&files)),
            scratch,
            remarks,
        })
    }
}

fn nothing_to_continue(run: &RunArgs) -> Option<String> {
    run.continue_session.then(|| "there is no session to continue in this folder; this is a new one".to_owned())
}

/// The session that the flags name, if they name one.
fn resumed(run: &RunArgs, around: &Surroundings, places: &Locations) -> Result<Option<SessionFiles>, Report> {
    let sessions = Sessions::new(places, &around.cwd, &[]);
    if run.continue_session {
        let latest = sessions.latest(if run.print { Include::All } else { Include::Interactive });
        // Programs ask to continue without knowing whether there is anything; the first time there is not.
        return latest.map(|summary| files_of(&summary)).transpose();
    }
    let Some(wanted) = &run.resume else { return Ok(None) };
    if wanted.ends_with(".jsonl") && Path::new(wanted).is_absolute() {
        return SessionFiles::of_transcript(Path::new(wanted))
            .map(Some)
            .ok_or_else(|| Report::new(format!("{wanted} is not a session")));
    }
    let unknown = |error: FindError| {
        Report::new(error.to_string()).hint("Give the id of a session, or --continue for the newest one here")
    };
    if is_session_id(wanted) {
        return sessions.by_id(wanted).map(Some).map_err(unknown);
    }
    let summary = sessions.by_title(wanted).map_err(unknown)?;
    files_of(&summary).map(Some)
}

fn files_of(summary: &SessionSummary) -> Result<SessionFiles, Report> {
    SessionFiles::of_transcript(&summary.path)
        .ok_or_else(|| Report::new(format!("{} is not a session", summary.path.display())))
}

fn load_session(files: &SessionFiles, options: &LoadOptions) -> Result<Loaded, Report> {
    load(&files.transcript(), options).map_err(|error| Report::new(format!("the session cannot be loaded: {error}")))
}

/// One line about what was wrong with a transcript and was repaired in memory.
fn damage_remark(loaded: &Loaded) -> Option<String> {
    let first = loaded.damage.items.first()?;
    let more = match loaded.damage.total {
        1 => String::new(),
        total => format!(" (and {} more)", total - 1),
    };
    Some(format!("the session's record was damaged and was repaired for this run: {first}{more}"))
}

fn wanted_id(run: &RunArgs) -> Result<Option<SessionId>, Report> {
    match &run.session_id {
        None => Ok(None),
        Some(id) if is_session_id(id) => Ok(Some(SessionId::new(id.to_ascii_lowercase()))),
        Some(id) => Err(Report::new(format!("--session-id: '{id}' is not a UUID"))
            .hint("It looks like 123e4567-e89b-42d3-a456-426614174000")),
    }
}

fn name(transcript: &mut Transcript, run: &RunArgs) {
    if let Some(name) = &run.name {
        transcript.set_title(name);
    }
}

fn freeze(transcript: &mut Transcript, segment: &Segment) {
    transcript.append_frozen(&segment.system, &gimlet_core::tools_to_json(&segment.tools));
}

/// The segment of the resumed session, unless the flags change it or the tools are others now.
fn kept_segment(run: &RunArgs, loaded: &Loaded, fresh: &Segment) -> Option<Segment> {
    let changed = run.system_prompt.is_some()
        || run.system_prompt_file.is_some()
        || run.append_system_prompt.is_some()
        || run.append_system_prompt_file.is_some();
    let frozen = loaded.frozen.as_ref().filter(|_| !changed)?;
    let tools = gimlet_core::tools_from_json(&frozen.tools_json)?;
    let names = |tools: &[ToolDef]| tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>();
    (names(&tools) == names(&fresh.tools)).then(|| Segment { system: frozen.system.clone().into(), tools })
}

/// Where large results go: beside the transcript, or into a private folder when nothing is kept.
fn result_files(run: &RunArgs, around: &Surroundings, files: &SessionFiles) -> (ResultFiles, Scratch) {
    if !run.no_session_persistence {
        return (ResultFiles::new(files), Scratch(None));
    }
    // A name that nobody can guess, so that nobody can have put a link there.
    let root = std::env::temp_dir().join(format!("gimlet-{}", new_session_id()));
    let session = Locations::new(&root).project(&around.cwd).session(files.id());
    (ResultFiles::new(&session), Scratch(Some(root)))
}

/// A folder that lasts as long as its session.
pub(crate) struct Scratch(pub(super) Option<PathBuf>);

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(root) = &self.0 {
            // Mostly it was never needed and is not there.
            drop(std::fs::remove_dir_all(root));
        }
    }
}
