//! `gimlet sessions`: what people and scripts do with sessions that are on disk.
//!
//! Everything is done by the store; here arguments become calls and answers become lines. Text of sessions is shown
//! only after it was made harmless for a terminal.

mod export;
mod fsck;
mod label;
mod list;
mod pick;
mod remove;
mod search;
mod show;
mod words;

use std::path::Path;
use std::process::ExitCode;

use gimlet_store::{Locations, SessionFiles, Sessions, other_worktrees};

pub(crate) use pick::pick;

use crate::args::SessionsCommand;
use crate::lookup;
use crate::report::Report;
use crate::surroundings::Surroundings;

/// Where sessions are looked for.
struct Desk<'a> {
    around: &'a Surroundings,
    places: Locations,
    /// Those of this folder and of the other worktrees of its repository.
    near: Sessions,
}

pub(crate) fn run(command: &SessionsCommand, around: &Surroundings) -> Result<ExitCode, Report> {
    let places = Locations::new(&around.config_home);
    let near = sessions_of(&places, &around.cwd);
    let desk = Desk { around, places, near };
    match command {
        SessionsCommand::Ls(args) => list::run(args, &desk),
        SessionsCommand::Show(args) => show::run(args, &desk),
        SessionsCommand::Rename(args) => label::rename(args, &desk),
        SessionsCommand::Tag(args) => label::tag(args, &desk),
        SessionsCommand::Rm(args) => remove::run(args, &desk),
        SessionsCommand::Export(args) => export::run(args, &desk),
        SessionsCommand::Fsck(args) => fsck::run(args, &desk),
        SessionsCommand::Search(args) => search::run(args, &desk),
    }
}

fn sessions_of(places: &Locations, dir: &Path) -> Sessions {
    Sessions::new(places, dir, &other_worktrees(dir))
}

impl Desk<'_> {
    fn named(&self, name: &str) -> Result<SessionFiles, Report> {
        let files = lookup::named(&self.near, name)?;
        // A transcript may be named from where the person is.
        let path = self.around.cwd.join(files.transcript());
        lookup::of_transcript(&path)
    }

    /// A folder that an option names; it need not exist any more.
    fn folder(&self, dir: &Path) -> Sessions {
        sessions_of(&self.places, &self.around.cwd.join(dir))
    }

    /// A path as people write it.
    fn short(&self, path: &Path) -> String {
        match self.around.home.as_ref().and_then(|home| path.strip_prefix(home).ok()) {
            Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
            Some(rest) => format!("~/{}", rest.display()),
            None => path.display().to_string(),
        }
    }
}
