//! Session lookup: the newest of a directory, by id in any project, by title.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::added_dirs::transcripts_with_added_dir;
use crate::layout::{ProjectDir, SessionFiles, StoreLocations, normalize_nfc, session_id_from_path};
use crate::session_summary::{SessionSummary, read_summary};
use crate::symlinks::refuse_symlink;

/// Filter of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionFilter {
    /// Sessions that a user started.
    Interactive,
    /// Also those of print mode, SDK programs and schedules.
    All,
}

/// Reason why a session was not found.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FindError {
    #[error("No conversation found with session ID: {id}")]
    NoSuchId { id: String },
    #[error("session {id} exists in more than one project: {}", list(paths))]
    AmbiguousId { id: String, paths: Vec<PathBuf> },
    #[error("no session has an id that begins with '{start}'")]
    NoSuchPrefix { start: String },
    #[error("more than one session has an id that begins with '{start}': {}", ids.join(", "))]
    AmbiguousPrefix { start: String, ids: Vec<String> },
    #[error("no session has the title '{title}'")]
    NoSuchTitle { title: String },
    #[error("more than one session has the title '{title}': {}", list(paths))]
    AmbiguousTitle { title: String, paths: Vec<PathBuf> },
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Transcript that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read: {source}", path.display())]
pub struct UnreadableSession {
    pub path: PathBuf,
    pub source: io::Error,
}

/// Sessions of a directory and, for repositories with several, of its other worktrees.
#[derive(Clone, Debug)]
pub struct ProjectSessions {
    places: StoreLocations,
    projects: Vec<ProjectDir>,
}

impl ProjectSessions {
    /// Creates a lookup. `worktrees` are the other working trees of the repository, if any.
    pub fn new(places: &StoreLocations, cwd: &Path, worktrees: &[PathBuf]) -> Self {
        let mut projects = vec![places.project(cwd)];
        for tree in worktrees {
            let project = places.project(tree);
            if !projects.contains(&project) {
                projects.push(project);
            }
        }
        Self { places: places.clone(), projects }
    }

    /// Returns the existing folders with the sessions of these projects.
    pub fn project_dirs(&self) -> Vec<PathBuf> {
        self.projects.iter().flat_map(ProjectDir::existing_dirs).collect()
    }

    /// Returns the first folder that cannot be read, if any: a caller that finds nothing may have to report it.
    pub fn unreadable_folder(&self) -> Option<UnreadableSession> {
        let unreadable = |path: PathBuf, looked: io::Result<()>| {
            let source = looked.err().filter(|error| error.kind() != io::ErrorKind::NotFound)?;
            Some(UnreadableSession { path, source })
        };
        let look = |path: &Path| std::fs::read_dir(path).map(drop);
        let root = self.places.projects_root();
        let mut folders = self.projects.iter().map(|project| project.dir().to_owned());
        unreadable(root.clone(), look(&root)).or_else(|| {
            folders.find_map(|folder| {
                let looked = refuse_symlink(&folder).and_then(|()| look(&folder));
                unreadable(folder, looked)
            })
        })
    }

    /// Returns all sessions, newest first.
    pub fn list(&self, include: SessionFilter) -> Vec<SessionSummary> {
        self.iter_newest_first()
            .filter(|session| is_included(session, include))
            .filter(|session| session.line().is_some())
            .collect()
    }

    /// Returns the session that `--continue` resumes: the newest that was started here or that added this folder.
    pub fn latest_session(&self, include: SessionFilter) -> Option<SessionSummary> {
        let started_here = self.iter_newest_first().find(|session| is_included(session, include));
        let added = self.projects.iter().flat_map(|project| transcripts_with_added_dir(&self.places, project.cwd()));
        let added =
            added.filter_map(|path| read_summary(&path).ok().flatten()).filter(|session| is_included(session, include));
        started_here.into_iter().chain(added).max_by_key(|session| session.modified)
    }

    /// Returns a session by its id: here and in the worktrees first, then in every project if only one has it.
    pub fn find_by_id(&self, id: &str) -> Result<SessionFiles, FindError> {
        // Nearly all files are named in lower case or as the id was passed; only the rest is searched one by one.
        match self.find_by_id_with(id, find_in_dir) {
            Err(FindError::NoSuchId { .. }) => self.find_by_id_with(id, find_in_dir_ignoring_case),
            found => found,
        }
    }

    /// Returns true if some session has this id, spelled like this or in lower case: one check in each folder.
    pub fn has_session(&self, id: &str) -> bool {
        !matches!(self.find_by_id_with(id, find_in_dir), Err(FindError::NoSuchId { .. }))
    }

    fn find_by_id_with(
        &self,
        id: &str,
        look: impl Fn(&Path, &str) -> Option<SessionFiles>,
    ) -> Result<SessionFiles, FindError> {
        let near = self.projects.iter().flat_map(ProjectDir::existing_dirs);
        if let Some(files) = near.into_iter().find_map(|dir| look(&dir, id)) {
            return Ok(files);
        }
        let everywhere: Vec<SessionFiles> =
            list_subdirs(&self.places.projects_root()).filter_map(|dir| look(&dir, id)).collect();
        let id = id.to_owned();
        match <[SessionFiles; 1]>::try_from(everywhere) {
            Ok([files]) => Ok(files),
            Err(found) if found.is_empty() => Err(FindError::NoSuchId { id }),
            Err(found) => {
                Err(FindError::AmbiguousId { id, paths: found.iter().map(SessionFiles::transcript).collect() })
            }
        }
    }

    /// Returns a session of any project by the beginning of its id.
    pub fn find_by_prefix(&self, start: &str) -> Result<SessionFiles, FindError> {
        let start = start.to_ascii_lowercase();
        let files = list_subdirs(&self.places.projects_root()).flat_map(|dir| list_transcripts(&dir));
        let filled = files.filter(|(_, path)| path.metadata().is_ok_and(|metadata| metadata.len() > 0));
        let named = filled.filter_map(|(_, path)| SessionFiles::from_transcript(&path));
        let mut found: Vec<SessionFiles> =
            named.filter(|files| files.id().as_str().to_ascii_lowercase().starts_with(&start)).collect();
        found.sort_by(|a, b| a.id().as_str().cmp(b.id().as_str()));
        match <[SessionFiles; 1]>::try_from(found) {
            Ok([files]) => Ok(files),
            Err(found) if found.is_empty() => Err(FindError::NoSuchPrefix { start }),
            Err(found) => {
                let mut ids: Vec<String> = found.iter().map(|files| files.id().to_string()).collect();
                ids.dedup();
                match ids.as_slice() {
                    [id] => {
                        let paths = found.iter().map(SessionFiles::transcript).collect();
                        Err(FindError::AmbiguousId { id: id.clone(), paths })
                    }
                    _ => Err(FindError::AmbiguousPrefix { start, ids }),
                }
            }
        }
    }

    /// Returns the session with exactly this title; a title from the user has precedence over a generated one.
    pub fn find_by_title(&self, title: &str) -> Result<SessionSummary, FindError> {
        select_by_title(self.iter_newest_first().filter(|session| !session.is_sidechain).collect(), title)
    }

    /// Returns the titles of all sessions that have one.
    pub fn list_titles(&self) -> HashSet<String> {
        self.iter_newest_first().filter_map(|session| session.labels.title).collect()
    }

    /// Returns the titles of the sessions that run right now. No others are read.
    pub fn list_running_titles(&self) -> Vec<String> {
        let dirs = self.project_dirs();
        let paths = dirs.iter().flat_map(|dir| list_transcripts(dir)).map(|(_, path)| path);
        let running = paths.filter(|path| SessionFiles::from_transcript(path).is_some_and(|files| files.is_driven()));
        running.filter_map(|path| read_summary(&path).ok().flatten()?.labels.title).collect()
    }

    /// Returns the session with exactly this title among those of every project.
    pub fn find_by_title_everywhere(&self, title: &str) -> Result<SessionSummary, FindError> {
        select_by_title(self.list_everywhere().into_iter().flatten().collect(), title)
    }

    /// Returns the sessions of these projects, the oldest first, with errors in place of those that cannot be read.
    pub fn list_oldest_first(&self) -> Vec<Result<SessionSummary, UnreadableSession>> {
        let of = |project: &ProjectDir| {
            let dirs = project.existing_dirs();
            let sessions = summarize_folders(&dirs);
            sessions
                .into_iter()
                .filter(|session| session.as_ref().map_or(true, |it| is_in_project(it, project)))
                .collect::<Vec<_>>()
        };
        let mut all: Vec<_> = self.projects.iter().flat_map(of).collect();
        all.sort_by(compare_by_age);
        all
    }

    /// Returns the sessions of every project, the oldest first, with errors in place of those that cannot be read.
    pub fn list_everywhere(&self) -> Vec<Result<SessionSummary, UnreadableSession>> {
        let mut all = summarize_folders(&list_subdirs(&self.places.projects_root()).collect::<Vec<_>>());
        all.sort_by(compare_by_age);
        all
    }

    /// Returns the sessions of these projects, newest first, each read on demand.
    fn iter_newest_first(&self) -> impl Iterator<Item = SessionSummary> {
        let mut files: Vec<(SystemTime, PathBuf, &ProjectDir)> = Vec::new();
        for project in &self.projects {
            for dir in project.existing_dirs() {
                files.extend(list_transcripts(&dir).into_iter().map(|(modified, path)| (modified, path, project)));
            }
        }
        files.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| b.1.cmp(&a.1)));
        // A file that cannot be read is no session to resume.
        files.into_iter().filter_map(|(_, path, project)| {
            read_summary(&path).ok().flatten().filter(|session| is_in_project(session, project))
        })
    }
}

fn select_by_title(mut sessions: Vec<SessionSummary>, title: &str) -> Result<SessionSummary, FindError> {
    let given = sessions.iter().any(|session| session.labels.title.as_deref() == Some(title));
    sessions.retain(|session| {
        if given {
            session.labels.title.as_deref() == Some(title)
        } else {
            session.labels.display_title() == Some(title)
        }
    });
    match <[SessionSummary; 1]>::try_from(sessions) {
        Ok([session]) => Ok(session),
        Err(found) if found.is_empty() => Err(FindError::NoSuchTitle { title: title.to_owned() }),
        Err(found) => {
            let paths = found.into_iter().map(|session| session.path).collect();
            Err(FindError::AmbiguousTitle { title: title.to_owned(), paths })
        }
    }
}

/// Returns the summary of each transcript in these folders; files of subagents are not sessions.
fn summarize_folders(dirs: &[PathBuf]) -> Vec<Result<SessionSummary, UnreadableSession>> {
    let mut looked = Vec::new();
    for dir in dirs {
        let entries = match std::fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(source) => {
                looked.push(Err(UnreadableSession { path: dir.clone(), source }));
                continue;
            }
        };
        let files = entries.flatten().map(|entry| entry.path()).filter(|path| session_id_from_path(path).is_some());
        looked.extend(files.filter_map(|path| match read_summary(&path) {
            Ok(session) => session.filter(|session| !session.is_sidechain).map(Ok),
            Err(source) => Some(Err(UnreadableSession { path, source })),
        }));
    }
    looked
}

/// Compares by the time of the last change; those that cannot be read come last, by name.
fn compare_by_age(
    a: &Result<SessionSummary, UnreadableSession>,
    b: &Result<SessionSummary, UnreadableSession>,
) -> std::cmp::Ordering {
    match (a, b) {
        (Ok(a), Ok(b)) => a.modified.cmp(&b.modified).then_with(|| a.path.cmp(&b.path)),
        (Err(a), Err(b)) => a.path.cmp(&b.path),
        (Ok(_), Err(_)) => std::cmp::Ordering::Less,
        (Err(_), Ok(_)) => std::cmp::Ordering::Greater,
    }
}

fn is_included(session: &SessionSummary, include: SessionFilter) -> bool {
    !session.is_sidechain && (include == SessionFilter::All || session.is_interactive())
}

/// Returns true if the session is of this project. Different directories can share a folder name; the directory in the
/// session itself decides.
fn is_in_project(session: &SessionSummary, project: &ProjectDir) -> bool {
    let Some(cwd) = &session.cwd else { return true };
    let same = |path: &Path| normalize_nfc(&path.to_string_lossy()) == normalize_nfc(&project.cwd().to_string_lossy());
    same(cwd) || std::fs::canonicalize(cwd).is_ok_and(|real| same(&real))
}

fn find_in_dir(dir: &Path, id: &str) -> Option<SessionFiles> {
    let named = |id: &str| nonempty_session(&dir.join(format!("{id}.jsonl")));
    named(id).or_else(|| named(&id.to_ascii_lowercase()))
}

fn find_in_dir_ignoring_case(dir: &Path, id: &str) -> Option<SessionFiles> {
    let paths = std::fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path());
    let mut meant =
        paths.filter(|path| session_id_from_path(path).is_some_and(|own| own.as_str().eq_ignore_ascii_case(id)));
    meant.find_map(|path| nonempty_session(&path))
}

/// Returns the session of a transcript; `None` if it is empty.
fn nonempty_session(path: &Path) -> Option<SessionFiles> {
    let files = SessionFiles::from_transcript(path)?;
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0).then_some(files)
}

fn list_transcripts(dir: &Path) -> Vec<(SystemTime, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let modified = |path: &Path| -> io::Result<SystemTime> { path.metadata()?.modified() };
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| session_id_from_path(path).is_some())
        .filter_map(|path| Some((modified(&path).ok()?, path)))
        .collect()
}

fn list_subdirs(root: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let mut dirs: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    dirs.sort();
    dirs.into_iter()
}
