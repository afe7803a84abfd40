//! Determines whether a local settings file is the user's own. One that git tracks, or that is reached through a
//! symlink, came with the project, and so did one that another user owns or may write, and one elsewhere than where
//! gimlet writes it; in a folder without git the author is unknown. Git's index is read, git is not started; an index
//! that is not understood, or is missing from a repository that has content, proves nothing, and files that it might
//! track count as the project's. Commands may write the index, so a file that was once seen as tracked is remembered.

use std::path::Path;

use super::{FileAuthor, seen_project_files};
use crate::locations::SettingsLocations;

pub(super) fn detect_author(locations: &SettingsLocations, file: &Path) -> FileAuthor {
    let Some(folder) = file.parent().and_then(Path::parent) else { return FileAuthor::Project };
    if file != locations.local_file() || seen_project_files::is_recorded(locations, file) {
        return FileAuthor::Project;
    }
    let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
    if is_link(&folder.join(".claude")) || is_link(file) {
        return FileAuthor::Project;
    }
    if !locations.user.check_file(&folder.join(".claude"), file).is_empty() {
        return FileAuthor::Project;
    }
    let Some(repo) = &locations.repo else { return FileAuthor::Unknown };
    let is_tracked = repo.tracks_file(file);
    if is_tracked == Some(false) {
        return FileAuthor::Unknown;
    }
    // A missing file has no author, unless git tracks it: an index is also missing between a fetch and a checkout.
    if is_tracked == Some(true) || file.symlink_metadata().is_ok() {
        seen_project_files::record_file(locations, file);
    }
    FileAuthor::Project
}

#[cfg(test)]
#[path = "tracked_tests.rs"]
mod tests;
