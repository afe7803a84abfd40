//! Code shared by the search tools: the start of a search, excluded directories, stopping, and limits on results.
//!
//! Nothing here knows what is searched for. A walk never follows symlinks below its root, so it always ends.

mod sorted_page;

pub(crate) use crate::bounded_work::{BoundedOutcome, StopFlag, run_bounded};
pub(crate) use sorted_page::SortedPage;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gimlet_core::tool::{ErrorClass, InputProblem, PathContext, ToolContext, ToolError};
use gimlet_policy::DeniedFiles;
use gimlet_proto::Env;
use ignore::{DirEntry, WalkBuilder, WalkState};

use crate::special_files::{is_special, special_text};

/// Directories of version control systems: never content.
const VCS_DIRS: [&str; 6] = [".git", ".svn", ".hg", ".bzr", ".jj", ".sl"];

const TIME_LIMIT: Duration = Duration::from_secs(20);
/// The file system bridge of WSL is an order of magnitude slower.
const TIME_LIMIT_WSL: Duration = Duration::from_secs(60);

/// Returns the timeout of a search.
pub(crate) fn time_limit(env: &Env) -> Duration {
    match env.integer("CLAUDE_CODE_GLOB_TIMEOUT_SECONDS") {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds),
        Some(_) | None if env.exact("WSL_DISTRO_NAME").is_some() => TIME_LIMIT_WSL,
        Some(_) | None => TIME_LIMIT,
    }
}

/// Returns true if a switch that is on by default was turned off.
pub(crate) fn is_off(env: &Env, name: &str) -> bool {
    let value = env.get(name).map(str::trim);
    value.is_some_and(|value| ["0", "false", "no", "off"].iter().any(|off| value.eq_ignore_ascii_case(off)))
}

/// Returns true if `path` is a word that models write for "nothing", which would otherwise be taken for a file's name.
fn is_null_word(path: &Path) -> bool {
    path == Path::new("undefined") || path == Path::new("null")
}

/// Makes an optional path parameter absolute. What [`check_path`] refuses is left as it was written.
pub(crate) fn expand_path(path: &mut Option<PathBuf>, cx: &PathContext) {
    if let Some(path) = path.as_mut().filter(|path| !is_null_word(path)) {
        *path = cx.expand_path(path);
    }
}

/// Refuses values of an optional path parameter that cannot name a file.
pub(crate) fn check_path(path: Option<&Path>, cx: &PathContext) -> Result<(), InputProblem> {
    let Some(path) = path else { return Ok(()) };
    if is_null_word(path) {
        let hint = "leave `path` out to search the working directory";
        return Err(InputProblem::new(1, format!("`path` is the word \"{}\"; {hint}", path.display())));
    }
    if is_special(&cx.expand_path(path)) {
        return Err(InputProblem::new(4, special_text(&path.display().to_string())));
    }
    check_no_nul("path", &path.to_string_lossy())
}

/// Refuses a NUL byte, which no path and no name can hold.
pub(crate) fn check_no_nul(field: &str, text: &str) -> Result<(), InputProblem> {
    match text.contains('\0') {
        true => Err(InputProblem::new(2, format!("`{field}` contains a NUL byte; remove it"))),
        false => Ok(()),
    }
}

/// Start of a search.
#[derive(Clone, Debug)]
pub(crate) struct SearchBase {
    /// As it was spelled, made absolute; what is shown is built on this.
    pub(crate) display_path: PathBuf,
    /// Path resolved by the gate; opened paths are built on this.
    pub(crate) real_path: PathBuf,
    closed: Option<Arc<DeniedFiles>>,
}

impl SearchBase {
    pub(crate) fn new(display_path: PathBuf, cx: &ToolContext) -> Self {
        let real_path = cx.resolved_path(&display_path).to_owned();
        Self { display_path, real_path, closed: cx.denied_files() }
    }

    /// Returns true if a rule denies reading a found file, under any of its names.
    fn is_closed(&self, entry: &DirEntry) -> bool {
        let Some(closed) = &self.closed else { return false };
        let path = entry.path();
        closed.contains(path)
            || closed.contains(&self.display_path.join(self.relative(path)))
            || (entry.path_is_symlink() && path.canonicalize().is_ok_and(|target| closed.contains(&target)))
    }

    /// Returns the part of a found path below the base; empty for the base itself.
    pub(crate) fn relative<'a>(&self, found: &'a Path) -> &'a Path {
        found.strip_prefix(&self.real_path).unwrap_or(found)
    }

    /// Returns the displayed form of a path below the base.
    pub(crate) fn show(&self, relative: &Path, cx: &PathContext) -> String {
        match relative.as_os_str().is_empty() {
            true => cx.display(&self.display_path),
            false => cx.display(&self.display_path.join(relative)),
        }
    }
}

/// Returns the error for a missing base.
pub(crate) fn missing_base(spelled: &Path, error: &std::io::Error, cx: &PathContext) -> ToolError {
    let (path, cwd) = (spelled.display(), cx.cwd.display());
    ToolError::failed(format!("Cannot search {path}: {error}. The working directory is {cwd}."))
}

/// Returns the error for an interrupted search.
pub(crate) fn interrupted() -> ToolError {
    ToolError::interrupted("The search was interrupted before it was complete.")
}

/// Returns the error for a search that timed out without reliable results.
pub(crate) fn timed_out(limit: Duration) -> ToolError {
    let text = format!(
        "The search did not finish within {} s, so its result is not known. Search a narrower path, or add a \
         glob or type.",
        limit.as_secs()
    );
    ToolError::new(ErrorClass::TimedOut, text)
}

/// Ignore files that a walk obeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IgnoreFiles {
    Obey,
    Disregard,
}

/// Returns a walk with the rules that all searches share: hidden files are included, symlinks are not followed, and
/// version control directories are skipped, as are directories that `enters` refuses and files that rules deny.
pub(crate) fn builder(
    base: &SearchBase,
    ignore_files: IgnoreFiles,
    enters: impl Fn(&DirEntry) -> bool + Send + Sync + 'static,
) -> WalkBuilder {
    let base = base.clone();
    let root = base.real_path.as_path();
    let mut walk = WalkBuilder::new(root);
    walk.standard_filters(ignore_files == IgnoreFiles::Obey).hidden(false).follow_links(false).current_dir(root);
    if ignore_files == IgnoreFiles::Obey {
        walk.add_custom_ignore_filename(".rgignore");
    }
    // Kernel files are reached only from above, or through a symlink that the search begins at.
    let meets_special = root.parent().is_none() || is_special(root);
    walk.filter_entry(move |entry| {
        let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
        let is_root = entry.depth() == 0;
        if meets_special && is_special(entry.path()) {
            return false;
        }
        if is_dir { is_root || (!is_vcs_dir(entry) && enters(entry)) } else { !base.is_closed(entry) }
    });
    walk
}

pub(crate) fn is_vcs_dir(entry: &DirEntry) -> bool {
    // Six comparisons for every directory; the first byte settles nearly all of them.
    let name = entry.file_name().as_encoded_bytes();
    name.first() == Some(&b'.') && VCS_DIRS.iter().any(|vcs| vcs.as_bytes() == name)
}

/// Runs a walk on as many threads as the machine has. `new_visitor` is called once for each thread.
pub(crate) fn run<'s, V>(
    walk: &WalkBuilder,
    stop: &'s StopFlag,
    unread: &'s UnreadFiles,
    mut new_visitor: impl FnMut() -> V,
) where
    V: FnMut(&DirEntry) + Send + 's,
{
    walk.build_parallel().run(|| {
        let mut visit = new_visitor();
        Box::new(move |entry| {
            if stop.is_raised() {
                return WalkState::Quit;
            }
            match entry {
                Ok(entry) => visit(&entry),
                Err(error) if error.is_io() => unread.record_error(&error),
                // An invalid line of an ignore file; the file's other lines apply.
                Err(_) => {}
            }
            WalkState::Continue
        })
    });
}

/// Files that could not be searched: their number, and one example.
#[derive(Debug, Default)]
pub(crate) struct UnreadFiles(Mutex<(usize, String)>);

impl UnreadFiles {
    pub(crate) fn record_error(&self, error: &dyn std::fmt::Display) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.0 == 0 {
            noted.1 = error.to_string();
        }
        noted.0 += 1;
    }

    /// Returns one sentence about the unread files, if there are any.
    pub(crate) fn summary(&self) -> Option<String> {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*noted {
            (0, _) => None,
            (1, example) => Some(format!("One path could not be searched: {example}.")),
            (count, example) => Some(format!("{count} paths could not be searched, among them: {example}.")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_limit_follows_the_environment() {
        let env = Env::default();
        assert_eq!(time_limit(&env), TIME_LIMIT);
        let wsl = env.with("WSL_DISTRO_NAME", "Debian");
        assert_eq!(time_limit(&wsl), TIME_LIMIT_WSL);
        let limit = |value| time_limit(&wsl.clone().with("CLAUDE_CODE_GLOB_TIMEOUT_SECONDS", value));
        assert_eq!(limit("5"), Duration::from_secs(5));
        assert_eq!(limit("soon"), TIME_LIMIT_WSL);
        assert_eq!(limit("0"), TIME_LIMIT_WSL);
    }
}
