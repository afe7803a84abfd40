//! Removals behind a value that no text shows. Where it is empty, what follows it is a path of its own; where it may be
//! any folder, what follows may be the end of a path that nobody may wave through.

use std::path::Path;

use super::super::environment_names::is_set_by_bash;
use super::super::word::WordPiece;
use super::{RemovalContext, glob_text, is_catch_all_glob, is_glob};
use crate::paths::path_segments;
use crate::rules::matches_wildcard;

/// Directories directly under the root that a variable left empty must not reach.
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
    /// Whether a variable may stand for any folder: one that bash sets by itself, or one that the environment may set and
    /// the text does not.
    pub(super) fn may_be_any_folder(&self, name: &str) -> bool {
        is_set_by_bash(name) || (!self.names.contains_key(name) && self.facts.may_inherit(name))
    }

    /// Whether something critical goes if the value in front of these pieces is empty.
    pub(super) fn is_critical_if_empty(&self, rest: &[WordPiece]) -> bool {
        let text = glob_text(rest);
        let Some(below) = text.strip_prefix('/') else {
            let relative = || self.directories.iter().any(|cwd| self.is_critical_path_or_glob(cwd, &text, true));
            return text.starts_with(['*', '?', '[']) || relative();
        };
        let mut names: Vec<&str> = Vec::new();
        for name in segment_names(below) {
            // Above the root is the root.
            if name == ".." {
                // Where a link leads up from is not where its name stands.
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

    /// Whether something critical may go if the value in front of these pieces may be any folder.
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

    /// The places that must not go, nor anything above them.
    fn critical_places(&self) -> impl Iterator<Item = &Path> {
        let roots = self.facts.roots.iter().map(std::path::PathBuf::as_path);
        std::iter::once(self.facts.cwd).chain(self.facts.home).chain(roots)
    }

    /// Whether such a place lies below this name in the root.
    fn is_above_critical_place(&self, name: &str) -> bool {
        self.critical_places()
            .any(|place| path_segments(place).next().is_some_and(|first| first.to_str() == Some(name)))
    }
}

fn segment_names(text: &str) -> impl Iterator<Item = &str> {
    text.split('/').filter(|name| !name.is_empty() && *name != ".")
}

/// Whether the last names of a folder may be these; `glued` when the first of them may have something in front of it.
fn may_end_with(folder: &Path, names: &[&str], glued: bool) -> bool {
    let own: Vec<String> = path_segments(folder).map(|name| name.to_string_lossy().into_owned()).collect();
    let Some(start) = own.len().checked_sub(names.len()) else { return false };
    let fits = |(at, (own, name)): (usize, (&String, &&str))| {
        let open = name.contains(['?', '[']);
        open || matches_wildcard(name, own) || (glued && at == 0 && matches_wildcard(&format!("*{name}"), own))
    };
    own[start..].iter().zip(names).enumerate().all(fits)
}
