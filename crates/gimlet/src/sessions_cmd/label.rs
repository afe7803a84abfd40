//! `gimlet sessions rename` and `tag`.

use std::process::ExitCode;

use gimlet_store::{FindError, SessionFiles, title_from};

use super::Desk;
use crate::args::{RenameArgs, TagArgs};
use crate::report::Report;

pub(super) fn rename(args: &RenameArgs, desk: &Desk<'_>) -> Result<ExitCode, Report> {
    let files = desk.named(&args.session)?;
    let title = match args.title.as_deref().filter(|title| !title.is_empty()) {
        Some(title) => title.to_owned(),
        None => made_up(&files)?,
    };
    let title = gimlet_store::rename(&files, &title).map_err(|error| Report::new(error.to_string()))?;
    crate::say(&gimlet_serve::sanitise(&format!("{} is now called '{title}'", files.id())));
    if let Err(error @ FindError::AmbiguousTitle { .. }) = desk.near.by_title(&title) {
        crate::say_on_stderr(&format!("note: {error}; the title finds none of them now"));
    }
    Ok(ExitCode::SUCCESS)
}

/// A title from what was said first.
fn made_up(files: &SessionFiles) -> Result<String, Report> {
    let seen = gimlet_store::peek(&files.transcript()).map_err(|error| Report::new(error.to_string()))?;
    let prompt = seen.and_then(|session| session.first_prompt.or(session.last_prompt));
    prompt.as_deref().and_then(title_from).ok_or_else(|| {
        Report::new("nothing in the session makes a title").hint("Say one: gimlet sessions rename SESSION TITLE")
    })
}

pub(super) fn tag(args: &TagArgs, desk: &Desk<'_>) -> Result<ExitCode, Report> {
    let files = desk.named(&args.session)?;
    let tag = gimlet_store::tag(&files, args.tag.as_deref())
        .map_err(|error| Report::new(error.to_string()).hint("--clear takes a tag away"))?;
    let text = match tag.as_str() {
        "" => format!("{} has no tag any more", files.id()),
        tag => format!("{} is now tagged '{tag}'", files.id()),
    };
    crate::say(&gimlet_serve::sanitise(&text));
    Ok(ExitCode::SUCCESS)
}
