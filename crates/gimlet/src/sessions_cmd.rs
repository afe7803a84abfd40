//! `gimlet sessions`: commands on sessions that are on disk.
//!
//! The store does the work; this module turns arguments into calls and results into lines. Text of sessions is shown
//! only after it was sanitized for a terminal.

mod export;
mod fsck;
mod humanize;
mod label;
mod list;
mod pick;
mod remove;
mod search;
mod show;

use std::path::Path;
use std::process::ExitCode;

use gimlet_app::{ProcessEnv, session_lookup};
use gimlet_store::{ProjectSessions, SessionFiles, StoreLocations, other_worktrees};

pub(crate) use pick::pick_session;

use crate::args::SessionsCommand;
use crate::report::Report;

/// Locations that are searched for sessions.
struct SessionsContext<'a> {
    around: &'a ProcessEnv,
    locations: StoreLocations,
    /// Sessions of this folder and of the other worktrees of its repository.
    nearby: ProjectSessions,
}

pub(crate) fn run(command: &SessionsCommand, around: &ProcessEnv) -> Result<ExitCode, Report> {
    let places = StoreLocations::new(&around.config_home);
    let near = sessions_for_dir(&places, &around.cwd);
    let desk = SessionsContext { around, locations: places, nearby: near };
    match command {
        SessionsCommand::Ls(args) => list::run(args, &desk),
        SessionsCommand::Show(args) => show::run(args, &desk),
        SessionsCommand::Rename(args) => label::rename_session(args, &desk),
        SessionsCommand::Tag(args) => label::tag_session(args, &desk),
        SessionsCommand::Rm(args) => remove::run(args, &desk),
        SessionsCommand::Export(args) => export::run(args, &desk),
        SessionsCommand::Fsck(args) => fsck::run(args, &desk),
        SessionsCommand::Search(args) => search::run(args, &desk),
    }
}

fn sessions_for_dir(places: &StoreLocations, dir: &Path) -> ProjectSessions {
    ProjectSessions::new(places, dir, &other_worktrees(dir))
}

impl SessionsContext<'_> {
    fn find_session(&self, name: &str) -> Result<SessionFiles, Report> {
        let files = session_lookup::find_session(&self.nearby, name)?;
        // A transcript path may be relative to the user's working directory.
        let path = self.around.cwd.join(files.transcript());
        Ok(session_lookup::session_for_transcript(&path)?)
    }

    /// Returns the sessions of a folder that an option names; it need not exist any more.
    fn sessions_in(&self, dir: &Path) -> ProjectSessions {
        sessions_for_dir(&self.locations, &self.around.cwd.join(dir))
    }

    /// Returns a path in short form for display.
    fn shorten_path(&self, path: &Path) -> String {
        match self.around.home.as_ref().and_then(|home| path.strip_prefix(home).ok()) {
            Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
            Some(rest) => format!("~/{}", rest.display()),
            None => path.display().to_string(),
        }
    }
}
