//! Removals of paths that begin with an unknown value. If it is empty, the rest is a path of its own; if it may be any
//! directory, the rest may be the end of a critical path.

use std::path::Path;

use super::super::environment_names::is_set_by_bash;
use super::super::word::WordPiece;
use super::{RemovalContext, glob_text, is_catch_all_glob, is_glob};
use crate::paths::path_segments;
use crate::rules::matches_wildcard;

/// Directories directly under the root that must not be reached when a variable is empty.
const TOP_LEVEL: &[&str] = &[
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "lib",
    "lib32",
    "lib64",
    "media",
    "mnt",
    "opt",
    "proc",
    "root",
    "run",
    "sbin",
    "srv",
    "sys",
    "tmp",
    "usr",
    "var",
    "Applications",
    "Library",
    "System",
    "Users",
    "Volumes",
    "private",
];

impl RemovalContext<'_> {
    /// Returns true if a variable may be any directory: one that bash sets by itself, or one that the environment may
    /// set and the text does not.
    pub(super) fn may_be_any_folder(&self, name: &str) -> bool {
        is_set_by_bash(name) || (!self.names.contains_key(name) && self.facts.may_inherit(name))
    }

    /// Returns true if something critical is removed when the value in front of these pieces is empty.
    pub(super) fn is_critical_if_empty(&self, rest: &[WordPiece]) -> bool {
        let text = glob_text(rest);
        let Some(below) = text.strip_prefix('/') else {
            let relative = || self.directories.iter().any(|cwd| self.is_critical_path_or_glob(cwd, &text, true));
            return text.starts_with(['*', '?', '[']) || relative();
        };
        let mut names: Vec<&str> = Vec::new();
        for name in segment_names(below) {
            // The parent of the root is the root.
            if name == ".." {
                // The parent of a symlink's target is not the directory that holds the symlink.
                if names.pop().is_some_and(is_catch_all_glob) {
                    return true;
                }
            } else {
                names.push(name);
            }
        }
        match names.as_slice() {
            [] => true,
            [first] => is_glob(first) || TOP_LEVEL.contains(first) || self.is_above_critical_place(first),
            [first, rest @ ..] => {
                let spelled = || self.is_critical_path_or_glob(Path::new("/"), &names.join("/"), true);
                is_catch_all_glob(first)
                    || (TOP_LEVEL.contains(first) && rest.iter().all(|name| is_catch_all_glob(name)))
                    || ((TOP_LEVEL.contains(first) || self.is_above_critical_place(first)) && spelled())
            }
        }
    }

    /// Returns true if something critical may be removed when the value in front of these pieces may be any directory.
    pub(super) fn is_critical_if_any_folder(&self, rest: &[WordPiece]) -> bool {
        let text = glob_text(rest);
        let mut names: Vec<&str> = Vec::new();
        for name in segment_names(&text) {
            if name != ".." {
                names.push(name);
            } else if names.pop().is_none() {
                return true;
            }
        }
        let glued = !text.starts_with('/');
        let ends_so = |place: &Path| place.ancestors().any(|folder| may_end_with(folder, &names, glued));
        let at_root = glued && matches!(names.as_slice(), [name] if TOP_LEVEL.contains(name));
        names.is_empty() || at_root || self.critical_places().any(ends_so)
    }

    /// Returns the places that must not be removed, nor any of their ancestors.
    fn critical_places(&self) -> impl Iterator<Item = &Path> {
        let roots = self.facts.roots.iter().map(std::path::PathBuf::as_path);
        std::iter::once(self.facts.cwd).chain(self.facts.home).chain(roots)
    }

    /// Returns true if a critical place lies below this name in the root.
    fn is_above_critical_place(&self, name: &str) -> bool {
        self.critical_places()
            .any(|place| path_segments(place).next().is_some_and(|first| first.to_str() == Some(name)))
    }
}

fn segment_names(text: &str) -> impl Iterator<Item = &str> {
    text.split('/').filter(|name| !name.is_empty() && *name != ".")
}

/// Returns true if a directory's path may end with these names; `glued` if the first may be preceded by other
/// characters.
fn may_end_with(folder: &Path, names: &[&str], glued: bool) -> bool {
    let own: Vec<String> = path_segments(folder).map(|name| name.to_string_lossy().into_owned()).collect();
    let Some(start) = own.len().checked_sub(names.len()) else { return false };
    let fits = |(at, (own, name)): (usize, (&String, &&str))| {
        let open = name.contains(['?', '[']);
        open || matches_wildcard(name, own) || (glued && at == 0 && matches_wildcard(&format!("*{name}"), own))
    };
    own[start..].iter().zip(names).enumerate().all(fits)
}
