//! `gimlet sessions rename` and `tag`.

use std::process::ExitCode;

use super::Desk;
use crate::args::{RenameArgs, TagArgs};
use crate::report::Report;

pub(super) fn rename(args: &RenameArgs, desk: &Desk<'_>) -> Result<ExitCode, Report> {
    let files = desk.named(&args.session)?;
    let title = gimlet_store::rename(&files, &args.title).map_err(|error| Report::new(error.to_string()))?;
    crate::say(&gimlet_serve::sanitise(&format!("{} is now called '{title}'", files.id())));
    Ok(ExitCode::SUCCESS)
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
