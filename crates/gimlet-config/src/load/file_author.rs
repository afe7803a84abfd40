//! Determines whether a local settings file is the user's own. One that git tracks, or that is reached through a
//! symlink, came with the project, and so did one that another user owns or may write, and one elsewhere than where
//! gimlet writes it; in a folder without git the author is unknown. Git's index is read, git is not started; an index
//! that is not understood, or is missing from a repository that has content, proves nothing, and files that it might
//! track count as the project's. Commands may write the index, so a file that was once seen as tracked is remembered.

use std::path::Path;

use super::{FileAuthor, seen_project_files};
use crate::bounded_read;
use crate::locations::{GitRepo, SettingsLocations};

/// Maximum size of an index that is searched.
const INDEX_MAX_BYTES: u64 = 256 * 1024 * 1024;

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
    let (root, git_dir) = checkout_for(repo, folder);
    let Ok(inside) = file.strip_prefix(root) else { return FileAuthor::Project };
    let is_tracked = match bounded_read::read_file(&git_dir.join("index"), INDEX_MAX_BYTES) {
        // A new repository has no index and tracks nothing.
        Ok(None) => has_no_objects(&repo.common_dir.join("objects")).then_some(false),
        Ok(Some(index)) => is_tracked(&index, inside.as_os_str().as_encoded_bytes()),
        Err(_) => None,
    };
    if is_tracked == Some(false) {
        return FileAuthor::Unknown;
    }
    // A missing file has no author, unless git tracks it: an index is also missing between a fetch and a checkout.
    if is_tracked == Some(true) || file.symlink_metadata().is_ok() {
        seen_project_files::record_file(locations, file);
    }
    FileAuthor::Project
}

/// Returns true if a repository has no objects yet. A store that cannot be read may hold any.
fn has_no_objects(objects: &Path) -> bool {
    let has_none = |folder: &Path| match folder.read_dir() {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    let is_usual = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|entry| ["info", "pack"].iter().any(|name| entry.file_name() == *name))
    };
    match objects.read_dir() {
        Ok(mut entries) => entries.all(is_usual) && has_none(&objects.join("info")) && has_none(&objects.join("pack")),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Returns the checkout that a folder belongs to: this one, or the repository's main one.
fn checkout_for<'r>(repo: &'r GitRepo, folder: &Path) -> (&'r Path, &'r Path) {
    if folder.starts_with(&repo.root) { (&repo.root, &repo.git_dir) } else { (&repo.main_root, &repo.common_dir) }
}

/// Returns true if the index has an entry of this path; `None` when the index is not understood.
fn is_tracked(index: &[u8], path: &[u8]) -> Option<bool> {
    // Entries carry an object id, whose length is not in the index.
    [20, 32].into_iter().find_map(|id_len| search_index(index, path, id_len))
}

fn search_index(index: &[u8], path: &[u8], id_len: usize) -> Option<bool> {
    let version = read_be_u32(index.strip_prefix(b"DIRC")?)?;
    let count = read_be_u32(index.get(8..)?)?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut at = 12;
    let mut name: Vec<u8> = Vec::new();
    let mut found = false;
    for _ in 0..count {
        let start = at;
        // Ten numbers about the file, its id, then flags.
        let flags_at = at + 40 + id_len;
        let flags = u16::from_be_bytes(index.get(flags_at..flags_at + 2)?.try_into().ok()?);
        let extended = version >= 3 && flags & 0x4000 != 0;
        at = flags_at + if extended { 4 } else { 2 };
        if version == 4 {
            let (cut, used) = read_varint(index.get(at..)?)?;
            at += used;
            name.truncate(name.len().checked_sub(cut)?);
        } else {
            name.clear();
        }
        let end = memchr::memchr(0, index.get(at..)?)?;
        name.extend_from_slice(&index[at..at + end]);
        at += end + 1;
        if version < 4 {
            // Padded with one to eight zeros to a multiple of eight.
            at = start + (at - 1 - start) / 8 * 8 + 8;
        }
        let stated = usize::from(flags & 0x0fff);
        if name.is_empty() || (stated < 0x0fff && stated != name.len()) {
            return None;
        }
        found |= name.eq_ignore_ascii_case(path);
    }
    // An index that is split keeps most of its entries in another file.
    if !found && is_split_index(index.get(at..)?, id_len)? { None } else { Some(found) }
}

/// Returns true if one of the extensions after the entries marks the index as split; `None` when they are not
/// understood.
fn is_split_index(mut rest: &[u8], id_len: usize) -> Option<bool> {
    // The checksum of the whole comes last.
    while rest.len() > id_len {
        let (name, after) = rest.split_at_checked(4)?;
        if name == b"link" {
            return Some(true);
        }
        let size = usize::try_from(read_be_u32(after)?).ok()?;
        rest = after.get(4 + size..)?;
    }
    Some(false)
}

fn read_be_u32(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?))
}

/// Reads a value in git's offset encoding; also returns the number of bytes that it took.
fn read_varint(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0_usize;
    for (at, byte) in bytes.iter().enumerate().take(5) {
        value = (value << 7) | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
        value += 1;
    }
    None
}

#[cfg(test)]
#[path = "tracked_tests.rs"]
mod tests;
