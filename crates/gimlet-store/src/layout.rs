//! File layout: the config home, project folders and the files of a session.
//!
//! Pure path arithmetic except for resolving symlinks of a working directory. Nothing is created here, and the names
//! must stay equal to those of the public SDK helpers, character for character.

use std::path::{Path, PathBuf};

use gimlet_proto::SessionId;
use unicode_normalization::UnicodeNormalization;

use crate::driver_lock::{DriverLock, LockClaim};

/// Longest dashed path that is used as a folder name as it is.
const MAX_KEY: usize = 200;

/// The folder of all projects, in the config home.
pub(crate) const PROJECTS: &str = "projects";

/// The folder of a session's results that were too large for its transcript.
pub(crate) const TOOL_RESULTS: &str = "tool-results";

/// The config home and what lies below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreLocations {
    home: PathBuf,
}

/// The folder that holds the sessions of one working directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectDir {
    /// Working directory, symlinks resolved.
    cwd: PathBuf,
    dir: PathBuf,
}

/// The files of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFiles {
    project_dir: PathBuf,
    id: SessionId,
}

impl StoreLocations {
    /// Creates the layout for a config home as the user named it; the name is normalised (NFC), symlinks are not
    /// resolved.
    pub fn new(config_home: &Path) -> Self {
        Self { home: config_home.to_str().map_or_else(|| config_home.to_owned(), |text| normalize_nfc(text).into()) }
    }

    pub fn config_home(&self) -> &Path {
        &self.home
    }

    pub fn projects_root(&self) -> PathBuf {
        self.home.join(PROJECTS)
    }

    /// Returns the project of a working directory. A directory that does not exist keeps its name as passed.
    pub fn project(&self, cwd: &Path) -> ProjectDir {
        let real = std::fs::canonicalize(cwd).unwrap_or_else(|_| cwd.to_owned());
        let dir = self.projects_root().join(project_key(&real.to_string_lossy()));
        ProjectDir { cwd: real, dir }
    }
}

impl ProjectDir {
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Returns the folder that new sessions are written to.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the folders that may hold sessions of this project: the exact one, or for a shortened name every folder
    /// with an equal visible part (another program may have hashed the path differently).
    pub fn existing_dirs(&self) -> Vec<PathBuf> {
        if self.dir.is_dir() {
            return vec![self.dir.clone()];
        }
        let Some(key) = self.dir.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
        let (Some(prefix), Some(root)) = (key.get(..MAX_KEY + 1), self.dir.parent()) else { return Vec::new() };
        let Ok(entries) = std::fs::read_dir(root) else { return Vec::new() };
        let mut dirs: Vec<PathBuf> = entries
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
            .collect();
        dirs.sort();
        dirs
    }

    pub fn session_files(&self, id: &SessionId) -> SessionFiles {
        SessionFiles { project_dir: self.dir.clone(), id: id.clone() }
    }
}

impl SessionFiles {
    /// Returns the files of the session whose transcript is at `path`; `None` if that is not a session's file name.
    pub fn from_transcript(path: &Path) -> Option<Self> {
        let id = session_id_from_path(path)?;
        Some(Self { project_dir: path.parent()?.to_owned(), id })
    }

    pub fn id(&self) -> &SessionId {
        &self.id
    }

    pub fn transcript(&self) -> PathBuf {
        self.project_dir.join(format!("{}.jsonl", self.id))
    }

    /// Returns the directory beside the transcript.
    pub fn side_dir(&self) -> PathBuf {
        self.project_dir.join(self.id.as_str())
    }

    /// Returns the folder for results that are too large for the conversation.
    pub fn tool_results(&self) -> PathBuf {
        self.side_dir().join(TOOL_RESULTS)
    }

    /// Returns the path of the decision ledger. Not named `.jsonl`: programs that search for transcripts take every
    /// such file.
    pub fn decisions(&self) -> PathBuf {
        self.side_dir().join("decisions.ndjson")
    }

    /// Returns the path of the cost ledger.
    pub fn costs(&self) -> PathBuf {
        self.side_dir().join("costs.ndjson")
    }

    /// Returns the file whose lock marks the session's driver.
    pub(crate) fn driver_lock(&self) -> PathBuf {
        self.side_dir().join("driver.lock")
    }

    /// Returns true if some process runs turns in the session.
    pub fn is_driven(&self) -> bool {
        let lock = self.driver_lock();
        lock.exists() && matches!(DriverLock::claim(&lock), LockClaim::Busy)
    }

    /// Returns the folder of subagents' transcripts.
    pub(crate) fn subagents(&self) -> PathBuf {
        self.side_dir().join("subagents")
    }

    /// Returns the transcripts of all subagents that have one, by the agents' ids.
    pub fn agent_transcripts(&self) -> Vec<(String, PathBuf)> {
        let mut found = Vec::new();
        collect_agent_transcripts(&self.subagents(), 0, &mut found);
        found.sort();
        found
    }

    /// Returns the path of a subagent's transcript.
    pub fn agent_transcript(&self, agent_id: &str) -> PathBuf {
        self.subagents().join(format!("agent-{agent_id}.jsonl"))
    }

    /// Returns the path of the description beside a subagent's transcript.
    pub fn agent_meta(&self, agent_id: &str) -> PathBuf {
        self.subagents().join(format!("agent-{agent_id}.meta.json"))
    }
}

fn collect_agent_transcripts(dir: &Path, depth: usize, found: &mut Vec<(String, PathBuf)>) {
    const DEEPEST: usize = 8;
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if let Some(agent) = name.strip_prefix("agent-").and_then(|rest| rest.strip_suffix(".jsonl")) {
            found.push((agent.to_owned(), path));
        } else if depth < DEEPEST && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect_agent_transcripts(&path, depth + 1, found);
        }
    }
}

/// Creates a new session id.
pub fn new_session_id() -> SessionId {
    SessionId::new(uuid::Uuid::new_v4().hyphenated().to_string())
}

/// Returns the session id in a transcript's file name; `None` for other files.
pub(crate) fn session_id_from_path(path: &Path) -> Option<SessionId> {
    if path.extension()? != "jsonl" {
        return None;
    }
    let stem = path.file_stem()?.to_str()?;
    is_session_id(stem).then(|| SessionId::new(stem))
}

/// Returns true if this text has the form of a session id: a hyphenated UUID of either case.
pub fn is_session_id(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Returns the folder name of a project, from the resolved path of its directory.
pub fn project_key(real_path: &str) -> String {
    let path = normalize_nfc(real_path);
    let mut key: String = path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    if key.len() > MAX_KEY {
        key.truncate(MAX_KEY); // all ASCII by now
        key.push('-');
        key.push_str(&path_hash(&path));
    }
    key
}

pub(crate) fn normalize_nfc(text: &str) -> String {
    text.nfc().collect()
}

/// Returns the 32-bit string hash of the reference, over code points, in base 36.
fn path_hash(text: &str) -> String {
    let hash = text.chars().fold(0i32, |hash, c| hash.wrapping_mul(31).wrapping_add(c as i32));
    let mut rest = hash.unsigned_abs();
    let mut digits = Vec::new();
    while rest > 0 || digits.is_empty() {
        digits.push(char::from_digit(rest % 36, 36).unwrap_or('0'));
        rest /= 36;
    }
    digits.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_keys_match_the_published_vectors() {
        for (path, key) in [
            ("/home/ada/my_app.v2", "-home-ada-my-app-v2"),
            ("/", "-"),
            ("/srv/répertoire/x", "-srv-r-pertoire-x"),
            ("/srv/re\u{301}pertoire/x", "-srv-r-pertoire-x"),
            ("C:\\Users\\ada\\p", "C--Users-ada-p"),
            ("/a/\u{1f600}b", "-a--b"),
        ] {
            assert_eq!(project_key(path), key, "{path}");
        }
        let long = format!("/home/ada/{}", "x".repeat(250));
        assert_eq!(project_key(&long), format!("-home-ada-{}-b6aisy", "x".repeat(190)));
        assert_eq!((path_hash("hello"), path_hash("")), ("1n1e4y".to_owned(), "0".to_owned()));
    }

    #[test]
    fn a_link_to_a_directory_is_the_same_project() {
        let temp = tempfile::tempdir().unwrap();
        let real = temp.path().join("real.dir");
        std::fs::create_dir(&real).unwrap();
        let link = temp.path().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let places = StoreLocations::new(&temp.path().join("home"));
        assert_eq!(places.project(&link), places.project(&real));
    }

    #[test]
    fn a_shortened_folder_is_found_under_another_hash() {
        let temp = tempfile::tempdir().unwrap();
        let places = StoreLocations::new(temp.path());
        let project = places.project(Path::new(&format!("/nowhere/{}", "y".repeat(300))));
        let name = project.dir().file_name().unwrap().to_str().unwrap();
        let other = places.projects_root().join(format!("{}-zzzz", &name[..200]));
        std::fs::create_dir_all(&other).unwrap();
        assert_eq!(project.existing_dirs(), vec![other]);
    }

    #[test]
    fn only_uuid_stems_are_sessions() {
        assert!(session_id_from_path(Path::new("/p/5b1c0000-0000-4000-8000-00000000000A.jsonl")).is_some());
        for name in ["agent-1.jsonl", "5b1c0000-0000-4000-8000-00000000000a.json", "notes.txt", "x"] {
            assert!(session_id_from_path(Path::new(name)).is_none(), "{name}");
        }
    }
}
