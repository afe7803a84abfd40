//! Reads git's index to find out whether it tracks a file. An index that is not understood, or is missing from a
//! repository that has content, proves nothing.

use std::path::Path;

use gimlet_fs::read_file;

use crate::git_repo::GitRepo;

/// Maximum size of an index that is searched.
const INDEX_MAX_BYTES: u64 = 256 * 1024 * 1024;

impl GitRepo {
    /// Returns true if the checkout that contains a file tracks it, under any spelling of upper and lower case; `None`
    /// if that is unknown.
    pub fn tracks_file(&self, file: &Path) -> Option<bool> {
        let (root, git_dir) = self.checkout_of(file);
        let inside = file.strip_prefix(root).ok()?;
        match read_file(&git_dir.join("index"), INDEX_MAX_BYTES) {
            Ok(Some(index)) => has_entry(&index, inside.as_os_str().as_encoded_bytes()),
            // A new repository has no index and tracks nothing.
            Ok(None) if has_no_objects(&self.common_dir.join("objects")) => Some(false),
            Ok(None) | Err(_) => None,
        }
    }

    /// Returns the root and the git folder of the checkout that a file belongs to: this one, or the repository's main
    /// one.
    fn checkout_of(&self, file: &Path) -> (&Path, &Path) {
        if file.starts_with(&self.root) { (&self.root, &self.git_dir) } else { (&self.main_root, &self.common_dir) }
    }
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

/// Returns true if the index has an entry of this path; `None` when the index is not understood.
fn has_entry(index: &[u8], path: &[u8]) -> Option<bool> {
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
mod tests {
    use super::*;

    /// Builds an index as git writes it: version, paths, and a split marker.
    fn build_index(version: u32, paths: &[&str], id_len: usize, extension: Option<&[u8; 4]>) -> Vec<u8> {
        let mut bytes = b"DIRC".to_vec();
        bytes.extend(version.to_be_bytes());
        bytes.extend(u32::try_from(paths.len()).unwrap().to_be_bytes());
        let mut before = "";
        for path in paths {
            let start = bytes.len();
            bytes.extend([7; 40]);
            bytes.extend(vec![9; id_len]);
            bytes.extend(u16::try_from(path.len()).unwrap().to_be_bytes());
            if version == 4 {
                let shared = before.bytes().zip(path.bytes()).take_while(|(a, b)| a == b).count();
                bytes.push(u8::try_from(before.len() - shared).unwrap());
                bytes.extend(&path.as_bytes()[shared..]);
                bytes.push(0);
            } else {
                bytes.extend(path.as_bytes());
                let length = bytes.len() - start;
                bytes.extend(vec![0; 8 - length % 8]);
            }
            before = path;
        }
        if let Some(name) = extension {
            bytes.extend(name);
            bytes.extend(4_u32.to_be_bytes());
            bytes.extend(b"link");
        }
        bytes.extend(vec![1; id_len]);
        bytes
    }

    const LOCAL: &str = ".claude/settings.local.json";

    #[test]
    fn an_index_of_every_version_says_what_it_tracks() {
        for version in [2, 3, 4] {
            for id_len in [20, 32] {
                let with = build_index(version, &[".claude/settings.json", LOCAL, "a", "src/main.rs"], id_len, None);
                let without =
                    build_index(version, &[".claude/settings.json", "a", "src/main.rs"], id_len, Some(b"TREE"));
                assert_eq!(has_entry(&with, LOCAL.as_bytes()), Some(true), "version {version}, {id_len} bytes");
                assert_eq!(has_entry(&without, LOCAL.as_bytes()), Some(false), "version {version}, {id_len} bytes");
            }
        }
    }

    #[test]
    fn an_index_that_is_not_understood_proves_nothing() {
        let whole = build_index(2, &["a", "b"], 20, Some(b"TREE"));
        assert_eq!(has_entry(b"", LOCAL.as_bytes()), None);
        assert_eq!(has_entry(b"DIRC", LOCAL.as_bytes()), None);
        assert_eq!(has_entry(&build_index(5, &["a"], 20, None), LOCAL.as_bytes()), None);
        assert_eq!(has_entry(&build_index(2, &["a"], 20, Some(b"link")), LOCAL.as_bytes()), None);
        for cut in 0..whole.len() - 20 {
            let understood = has_entry(&whole[..cut], LOCAL.as_bytes());
            assert_ne!(understood, Some(true), "cut at {cut}");
        }
    }
}
