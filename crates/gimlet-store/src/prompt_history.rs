//! History of prompts, in one file for all folders (`history.jsonl` in the config home) that other programs read and
//! append to as well.
//!
//! Lines are only ever appended, under a lock, by one write each. A line that cannot be read is skipped and stays. Long
//! pasted text lies in `paste-cache` beside it, under the digest of its content.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gimlet_fs::{FileDurability, create_private_dir_all, read_text_nofollow};
use gimlet_proto::{PromptHistoryEntry, SessionId};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::layout::StoreLocations;

/// Part of the file that is read, from its end.
const MAX_READ: u64 = 16 * 1024 * 1024;
/// Longest pasted text that stands in the line itself.
const MAX_INLINE_PASTE: usize = 1024;
/// Longest pasted text that is read back.
const MAX_PASTE: u64 = 16 * 1024 * 1024;
/// Longest line that is written.
const MAX_LINE: usize = 1024 * 1024;
/// Wait for another program that appends.
const LOCK_WAIT: Duration = Duration::from_secs(2);
const LOCK_POLL: Duration = Duration::from_millis(5);
/// Digits of the digest that name a pasted text.
const DIGEST_DIGITS: usize = 16;

/// The file with the prompts of all folders.
#[derive(Clone, Debug)]
pub struct PromptHistoryFile {
    path: PathBuf,
    paste_cache: PathBuf,
}

impl PromptHistoryFile {
    pub fn new(locations: &StoreLocations) -> Self {
        let home = locations.config_home();
        Self { path: home.join("history.jsonl"), paste_cache: home.join("paste-cache") }
    }

    /// Appends a prompt that was sent in a folder.
    pub fn append(&self, entry: &PromptHistoryEntry, folder: &Path, session: &SessionId) -> io::Result<()> {
        if let Some(parent) = self.path.parent() {
            create_private_dir_all(parent)?;
        }
        let mut pasted = Map::new();
        for (number, text) in &entry.pasted {
            pasted.insert(number.to_string(), self.store_paste(*number, text)?);
        }
        let line = json!({
            "display": entry.text,
            "pastedContents": pasted,
            "timestamp": entry.at_ms,
            "project": folder.to_string_lossy(),
            "sessionId": session.as_str(),
        });
        let mut line = line.to_string();
        if line.len() > MAX_LINE {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the prompt is too long for the history"));
        }
        line.push('\n');
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(&self.path)?;
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        lock_file(&file)?;
        // A line that another program left unfinished must not swallow this one.
        if !ends_with_newline(&file)? {
            line.insert(0, '\n');
        }
        file.write_all(line.as_bytes())
    }

    /// Returns prompts, oldest first: the newest `limit` of a folder, or of all. One that equals its predecessor is left
    /// out.
    pub fn read(&self, folder: Option<&Path>, limit: usize) -> io::Result<Vec<PromptHistoryEntry>> {
        let text = match self.read_end() {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut found: Vec<PromptHistoryEntry> = Vec::new();
        for line in text.lines().rev() {
            if found.len() >= limit {
                break;
            }
            let Ok(Value::Object(line)) = serde_json::from_str(line) else { continue };
            let is_of_folder = folder.is_none_or(|folder| {
                line.get("project").and_then(Value::as_str).is_some_and(|project| Path::new(project) == folder)
            });
            let Some(display) = line.get("display").and_then(Value::as_str) else { continue };
            if !is_of_folder || found.last().is_some_and(|newer| newer.text == display && newer.pasted.is_empty()) {
                continue;
            }
            found.push(PromptHistoryEntry {
                text: display.to_owned(),
                pasted: self.read_pastes(line.get("pastedContents")),
                at_ms: line.get("timestamp").and_then(Value::as_i64).unwrap_or_default(),
            });
        }
        found.reverse();
        Ok(found)
    }

    /// Returns the end of the file from the start of a line.
    fn read_end(&self) -> io::Result<String> {
        let mut file =
            OpenOptions::new().read(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(&self.path)?;
        let size = file.metadata()?.len();
        let start = size.saturating_sub(MAX_READ);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(MAX_READ).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let whole = if start == 0 { &text } else { text.split_once('\n').map_or("", |(_, rest)| rest) };
        Ok(whole.to_owned())
    }

    /// Returns the member of a line for a pasted text. A long one is written to a file of its own.
    fn store_paste(&self, number: u64, text: &str) -> io::Result<Value> {
        if text.len() <= MAX_INLINE_PASTE {
            return Ok(json!({"id": number, "type": "text", "content": text}));
        }
        let digest: String = Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        let name = digest.get(..DIGEST_DIGITS).unwrap_or(&digest).to_owned();
        create_private_dir_all(&self.paste_cache)?;
        let path = self.paste_path(&name);
        if !path.exists() {
            gimlet_fs::replace_file(&path, text.as_bytes(), FileDurability::Content)?;
        }
        Ok(json!({"id": number, "type": "text", "contentHash": name}))
    }

    fn read_pastes(&self, pasted: Option<&Value>) -> Vec<(u64, String)> {
        let members = pasted.and_then(Value::as_object).into_iter().flatten();
        let text = |(number, member): (&String, &Value)| {
            let number = number.parse().ok()?;
            if let Some(content) = member.get("content").and_then(Value::as_str) {
                return Some((number, content.to_owned()));
            }
            let name = member.get("contentHash")?.as_str()?;
            let is_digest = !name.is_empty() && name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !is_digest {
                return None;
            }
            Some((number, read_text_nofollow(&self.paste_path(name), MAX_PASTE).ok()?))
        };
        members.filter_map(text).collect()
    }

    fn paste_path(&self, name: &str) -> PathBuf {
        self.paste_cache.join(format!("{name}.txt"))
    }
}

fn ends_with_newline(file: &File) -> io::Result<bool> {
    let size = file.metadata()?.len();
    let Some(last) = size.checked_sub(1) else { return Ok(true) };
    let mut byte = [0];
    file.read_exact_at(&mut byte, last)?;
    Ok(byte == [b'\n'])
}

/// Locks a file until it is closed. Without locks on its file system nothing is locked.
fn lock_file(file: &File) -> io::Result<()> {
    let started = Instant::now();
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) | Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::INVAL) => return Ok(()),
            Err(Errno::WOULDBLOCK | Errno::INTR) if started.elapsed() < LOCK_WAIT => {
                std::thread::park_timeout(LOCK_POLL);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> (tempfile::TempDir, PromptHistoryFile) {
        let temp = tempfile::tempdir().unwrap();
        let file = PromptHistoryFile::new(&StoreLocations::new(&temp.path().join("home")));
        (temp, file)
    }

    fn entry(text: &str) -> PromptHistoryEntry {
        PromptHistoryEntry { text: text.to_owned(), pasted: Vec::new(), at_ms: 7 }
    }

    fn append(file: &PromptHistoryFile, text: &str, folder: &str) {
        file.append(&entry(text), Path::new(folder), &SessionId::new("s")).unwrap();
    }

    fn texts(file: &PromptHistoryFile, folder: Option<&str>) -> Vec<String> {
        let read = file.read(folder.map(Path::new), 100).unwrap();
        read.into_iter().map(|entry| entry.text).collect()
    }

    #[test]
    fn prompts_come_back_by_folder_without_repetitions() {
        let (_temp, file) = history();
        assert_eq!(texts(&file, None), [] as [&str; 0]);
        for (text, folder) in [("a", "/x"), ("a", "/x"), ("b", "/y"), ("a", "/x"), ("c", "/x"), ("!ls\n-l", "/x")] {
            append(&file, text, folder);
        }
        assert_eq!(texts(&file, Some("/x")), ["a", "c", "!ls\n-l"]);
        assert_eq!(texts(&file, Some("/y")), ["b"]);
        assert_eq!(texts(&file, None), ["a", "b", "a", "c", "!ls\n-l"]);
        let newest = file.read(Some(Path::new("/x")), 2).unwrap();
        assert_eq!(newest.iter().map(|entry| entry.text.as_str()).collect::<Vec<_>>(), ["c", "!ls\n-l"]);
        assert_eq!(newest[0].at_ms, 7);
    }

    #[test]
    fn pasted_texts_come_back_long_ones_from_the_cache() {
        let (_temp, file) = history();
        let long = "line\n".repeat(1000);
        let sent = PromptHistoryEntry {
            text: "see [Pasted text #1 +1 line] and [Pasted text #2 +1000 lines]".to_owned(),
            pasted: vec![(1, "a\nb".to_owned()), (2, long.clone())],
            at_ms: 1,
        };
        file.append(&sent, Path::new("/x"), &SessionId::new("s")).unwrap();
        assert_eq!(file.read(None, 10).unwrap(), [sent]);
        assert!(!std::fs::read_to_string(&file.path).unwrap().contains("line\\nline"));
        let cached: Vec<_> = std::fs::read_dir(&file.paste_cache).unwrap().flatten().collect();
        assert_eq!(cached.len(), 1);
        assert_eq!(cached[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn damaged_lines_are_skipped_and_stay() {
        let (_temp, file) = history();
        append(&file, "first", "/x");
        let damage = b"{\"display\": \"torn\n\xff\xfe\n[]\n{\"display\": 5}\n{\"project\": \"/x\"}\nunfinished";
        OpenOptions::new().append(true).open(&file.path).unwrap().write_all(damage).unwrap();
        append(&file, "last", "/x");
        assert_eq!(texts(&file, Some("/x")), ["first", "last"]);
        let bytes = std::fs::read(&file.path).unwrap();
        assert!(bytes.windows(damage.len()).any(|part| part == damage), "nothing was removed");
        let outside = json!({"display": "x", "project": "/x", "pastedContents": {"1": {"contentHash": "../../etc"}}});
        OpenOptions::new().append(true).open(&file.path).unwrap().write_all(format!("{outside}\n").as_bytes()).unwrap();
        assert_eq!(file.read(None, 1).unwrap()[0].pasted, [], "a name that is no digest is not read");
    }

    #[test]
    fn only_the_owner_may_read_it_and_a_link_is_not_followed() {
        let (temp, file) = history();
        append(&file, "a", "/x");
        let mode = || file.path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&file.path, Permissions::from_mode(0o644)).unwrap();
        append(&file, "b", "/x");
        assert_eq!(mode(), 0o600);
        let other = temp.path().join("other");
        std::fs::rename(&file.path, &other).unwrap();
        std::os::unix::fs::symlink(&other, &file.path).unwrap();
        assert!(file.append(&entry("c"), Path::new("/x"), &SessionId::new("s")).is_err());
        assert!(file.read(None, 10).is_err());
    }

    #[test]
    fn programs_that_append_at_once_leave_whole_lines() {
        let (_temp, file) = history();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let file = file.clone();
                scope.spawn(move || {
                    for number in 0..50 {
                        append(&file, &format!("{writer}-{number} {}", "x".repeat(2000)), "/x");
                    }
                });
            }
        });
        assert_eq!(file.read(None, 1000).unwrap().len(), 200);
    }
}
