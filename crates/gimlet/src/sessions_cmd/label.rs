//! `gimlet sessions rename` and `tag`.

use std::process::ExitCode;

use gimlet_store::{FindError, SessionFiles, derive_title};

use super::SessionsContext;
use crate::args::{RenameArgs, TagArgs};
use crate::report::Report;

pub(super) fn rename_session(args: &RenameArgs, desk: &SessionsContext<'_>) -> Result<ExitCode, Report> {
    let files = desk.find_session(&args.session)?;
    let title = match args.title.as_deref().filter(|title| !title.is_empty()) {
        Some(title) => title.to_owned(),
        None => generate_title(&files)?,
    };
    let title = gimlet_store::rename_session(&files, &title).map_err(|error| Report::new(error.to_string()))?;
    crate::print_line(&gimlet_serve::sanitise(&format!("{} is now called '{title}'", files.id())));
    if let Err(error @ FindError::AmbiguousTitle { .. }) = desk.nearby.find_by_title(&title) {
        crate::print_error_line(&format!("note: {error}; the title finds none of them now"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Generates a title from the first prompt.
fn generate_title(files: &SessionFiles) -> Result<String, Report> {
    let seen = gimlet_store::read_summary(&files.transcript()).map_err(|error| Report::new(error.to_string()))?;
    let prompt = seen.and_then(|session| session.first_prompt.or(session.last_prompt));
    prompt.as_deref().and_then(derive_title).ok_or_else(|| {
        Report::new("nothing in the session makes a title").with_hint("Say one: gimlet sessions rename SESSION TITLE")
    })
}

pub(super) fn tag_session(args: &TagArgs, desk: &SessionsContext<'_>) -> Result<ExitCode, Report> {
    let files = desk.find_session(&args.session)?;
    let tag = gimlet_store::tag_session(&files, args.tag.as_deref())
        .map_err(|error| Report::new(error.to_string()).with_hint("--clear takes a tag away"))?;
    let text = match tag.as_str() {
        "" => format!("{} has no tag any more", files.id()),
        tag => format!("{} is now tagged '{tag}'", files.id()),
    };
    crate::print_line(&gimlet_serve::sanitise(&text));
    Ok(ExitCode::SUCCESS)
}
