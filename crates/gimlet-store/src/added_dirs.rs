//! Record of the sessions that added a folder to the one they were started in, so that resuming in that folder finds
//! them.
//!
//! One small file for each such folder, one line per session, the newest last. It only points to transcripts: an entry
//! without a transcript is ignored, and losing the file loses no session.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::disk::{create_private_dirs, open_private, read_small_file, replace_private};
use crate::layout::{SessionFiles, StoreLocations, project_key};

/// Number of sessions that are remembered for a folder, and the number at which older ones are dropped.
const KEPT: usize = 100;
const MOST: usize = 2 * KEPT;

#[derive(Serialize, Deserialize, PartialEq, Eq)]
struct AddedDirLine {
    /// Folder of the entry; different folders can share a file name.
    folder: PathBuf,
    transcript: PathBuf,
}

/// Remembers that a session works in a folder, too.
pub fn record_added_dir(places: &StoreLocations, folder: &Path, session: &SessionFiles) -> io::Result<()> {
    let path = record_file(places, folder);
    let line = AddedDirLine { folder: folder.to_owned(), transcript: session.transcript() };
    let known = match read_lines(&path) {
        // Nothing that was written here is that large, so it starts again.
        Err(error) if error.kind() == ErrorKind::FileTooLarge => return replace_private(&path, &render_line(&line)?),
        known => known.unwrap_or_default(),
    };
    if known.contains(&line) {
        return Ok(());
    }
    create_private_dirs(path.parent().unwrap_or(Path::new(".")))?;
    if known.len() < MOST {
        let mut file = open_private(&path, OpenOptions::new().append(true).create(true))?;
        return file.write_all(&render_line(&line)?);
    }
    let kept = known[known.len() + 1 - KEPT..].iter().chain([&line]);
    let lines = kept.map(render_line).collect::<io::Result<Vec<_>>>()?;
    replace_private(&path, &lines.concat())
}

/// Returns the transcripts of the sessions that added a folder.
pub(crate) fn transcripts_with_added_dir(places: &StoreLocations, folder: &Path) -> Vec<PathBuf> {
    let lines = read_lines(&record_file(places, folder)).unwrap_or_default();
    lines.into_iter().filter(|line| line.folder == folder).map(|line| line.transcript).collect()
}

fn record_file(places: &StoreLocations, folder: &Path) -> PathBuf {
    places.config_home().join("gimlet/added").join(format!("{}.ndjson", project_key(&folder.to_string_lossy())))
}

fn read_lines(path: &Path) -> io::Result<Vec<AddedDirLine>> {
    Ok(read_small_file(path)?.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

fn render_line(line: &AddedDirLine) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::new_session_id;

    #[test]
    fn the_newest_are_kept() {
        let home = tempfile::tempdir().unwrap();
        let places = StoreLocations::new(home.path());
        let (folder, other) = (Path::new("/srv/a.b"), Path::new("/srv/a-b"));
        let project = places.project(Path::new("/elsewhere"));
        let sessions: Vec<SessionFiles> = (0..=MOST).map(|_| project.session_files(&new_session_id())).collect();
        for session in &sessions {
            record_added_dir(&places, folder, session).unwrap();
            record_added_dir(&places, folder, session).unwrap();
        }
        let found = transcripts_with_added_dir(&places, folder);
        let expected: Vec<PathBuf> = sessions[MOST + 1 - KEPT..].iter().map(SessionFiles::transcript).collect();
        assert_eq!(found, expected);
        // A file that something else filled is not read, and starts again.
        let file = OpenOptions::new().write(true).open(record_file(&places, folder)).unwrap();
        file.set_len(1 << 40).unwrap();
        assert_eq!(transcripts_with_added_dir(&places, folder), Vec::<PathBuf>::new());
        record_added_dir(&places, folder, &sessions[0]).unwrap();
        assert_eq!(transcripts_with_added_dir(&places, folder), [sessions[0].transcript()]);
        // Another folder that shares the name of the file is not this one.
        assert_eq!(transcripts_with_added_dir(&places, other), Vec::<PathBuf>::new());
    }
}
