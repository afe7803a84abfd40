//! A memory limit for all commands of a session together: one control group that contains the custodian and thus
//! every command. The kernel kills the largest process of a group that is full; gimlet itself is outside.
//!
//! Both versions of control groups are supported. If neither is usable the caller gets the reason and continues
//! without a limit.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Groups of gimlet's own begin with this.
const PREFIX: &str = "gimlet-";
const PROCESSES: &str = "cgroup.procs";

/// Reason why there is no group.
#[derive(Debug, thiserror::Error)]
pub enum MemoryGroupError {
    #[error("this system has no control group for memory that gimlet is in")]
    NotThere,
    #[error("the control group {path} cannot be made or used", path = path.display())]
    Refused { path: PathBuf, source: io::Error },
}

/// A control group with a limit. Dropping it removes it, if nothing lives in it.
#[derive(Debug)]
pub struct MemoryGroup {
    folder: PathBuf,
}

/// Parent of a new group, and how its limit is set.
#[derive(Debug, PartialEq, Eq)]
struct CgroupSite {
    /// The folder in which the group is created.
    parent: PathBuf,
    limit_file: &'static str,
    /// Without it memory would only move elsewhere. Not every kernel counts it.
    swap: (&'static str, SwapLimit),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SwapLimit {
    /// The file limits memory and swap together.
    WithMemory,
    /// The file limits swap alone, which is set to zero.
    Zero,
}

impl MemoryGroup {
    /// Makes a group for this process's commands, with a limit in bytes.
    pub fn create(limit: u64) -> Result<Self, MemoryGroupError> {
        let (mounts, own) = (read_or_empty("/proc/self/mountinfo"), read_or_empty("/proc/self/cgroup"));
        let mut last = MemoryGroupError::NotThere;
        for site in find_sites(&mounts, &own) {
            match Self::create_at(&site, limit) {
                Ok(group) => return Ok(group),
                Err((path, source)) => last = MemoryGroupError::Refused { path, source },
            }
        }
        Err(last)
    }

    fn create_at(site: &CgroupSite, limit: u64) -> Result<Self, (PathBuf, io::Error)> {
        remove_stale_groups(&site.parent);
        // A user who may not write this file may not move processes below it.
        let gate = site.parent.join(PROCESSES);
        fs::OpenOptions::new().write(true).open(&gate).map_err(|error| (gate, error))?;
        let name = |n: u32| site.parent.join(format!("{PREFIX}{}-{n}", std::process::id()));
        let folder = (0..1000).map(name).find(|folder| !folder.exists()).unwrap_or_else(|| name(1000));
        fs::create_dir(&folder).map_err(|error| (folder.clone(), error))?;
        let group = Self { folder };
        let file = group.folder.join(site.limit_file);
        fs::write(&file, limit.to_string()).map_err(|error| (file, error))?;
        let swap = match site.swap.1 {
            SwapLimit::WithMemory => limit,
            SwapLimit::Zero => 0,
        };
        drop(fs::write(group.folder.join(site.swap.0), swap.to_string()));
        Ok(group)
    }

    /// Adds a process; its later children are included as well.
    pub(crate) fn add_process(&self, pid: i32) -> io::Result<()> {
        fs::write(self.folder.join(PROCESSES), pid.to_string())
    }

    /// Removes the group; false while something still lives in it.
    pub(crate) fn remove(&self) -> bool {
        fs::remove_dir(&self.folder).is_ok() || !self.folder.exists()
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // The next run removes what is left.
        self.remove();
    }
}

/// Removes groups of runs that were killed; those in which something lives stay.
fn remove_stale_groups(parent: &Path) {
    for entry in parent.read_dir().into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            drop(fs::remove_dir(entry.path()));
        }
    }
}

fn read_or_empty(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

/// Returns the locations where a group could be created, the best first.
fn find_sites(mounts: &str, own: &str) -> Vec<CgroupSite> {
    let mut found = Vec::new();
    let first = |parent: PathBuf| CgroupSite {
        parent,
        limit_file: "memory.limit_in_bytes",
        swap: ("memory.memsw.limit_in_bytes", SwapLimit::WithMemory),
    };
    let second =
        |parent: PathBuf| CgroupSite { parent, limit_file: "memory.max", swap: ("memory.swap.max", SwapLimit::Zero) };
    for mount in mounts.lines().filter_map(CgroupMount::parse) {
        let Some(path) = own.lines().find_map(|line| mount.group_path(line)) else { continue };
        match mount.kind {
            CgroupVersion::V1 => found.push(first(path)),
            CgroupVersion::V2 => {
                // A group with processes cannot limit groups inside it, but its parent may allow it beside it.
                let candidates = path.ancestors().take(2).take_while(|path| path.starts_with(&mount.at));
                let counts = |path: &&Path| {
                    let kinds = fs::read_to_string(path.join("cgroup.subtree_control")).unwrap_or_default();
                    kinds.split_whitespace().any(|kind| kind == "memory")
                };
                found.extend(candidates.filter(counts).map(|path| second(path.to_owned())));
            }
        }
    }
    found
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CgroupVersion {
    V1,
    V2,
}

/// A hierarchy of groups that counts memory, or could.
struct CgroupMount {
    kind: CgroupVersion,
    /// The group that is shown at `at`.
    root: PathBuf,
    at: PathBuf,
}

impl CgroupMount {
    /// Parses a line of `mountinfo`: numbers, the root, the mount point and options, a dash, the type, the source and
    /// more.
    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, at) = (PathBuf::from(before.next()?), PathBuf::from(before.next()?));
        let mut after = after.split(' ');
        let kind = match (after.next()?, after.nth(1)) {
            ("cgroup2", _) => CgroupVersion::V2,
            ("cgroup", Some(options)) if options.split(',').any(|option| option == "memory") => CgroupVersion::V1,
            _ => return None,
        };
        Some(Self { kind, root, at })
    }

    /// Returns the path of the group in a line of `cgroup`, if the line is about this hierarchy.
    fn group_path(&self, line: &str) -> Option<PathBuf> {
        let mut parts = line.splitn(3, ':');
        let (number, kinds, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is_this = match self.kind {
            CgroupVersion::V1 => kinds.split(',').any(|kind| kind == "memory"),
            CgroupVersion::V2 => number == "0" && kinds.is_empty(),
        };
        if !is_this {
            return None;
        }
        let below = Path::new(path).strip_prefix(&self.root).ok()?;
        Some(self.at.components().chain(below.components()).collect())
    }
}

/// Parses a memory limit written by the user: bytes, or a number with `K`, `M`, `G` or `T`; words for no limit give
/// `None`.
pub fn parse_memory_limit(text: &str) -> Result<Option<u64>, String> {
    let text = text.trim();
    if ["", "0", "off", "false", "no", "none"].iter().any(|none| text.eq_ignore_ascii_case(none)) {
        return Ok(None);
    }
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err(format!("'{text}' is not a size such as 512M or 4G, nor 'off'")),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift)).filter(|bytes| *bytes > 0);
    bytes.map(Some).ok_or_else(|| format!("'{text}' is not a size such as 512M or 4G, nor 'off'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_people_write_them() {
        for (text, expected) in [
            ("1000", Some(1000)),
            ("512M", Some(512 << 20)),
            ("4g", Some(4 << 30)),
            ("1 TB", Some(1 << 40)),
            ("64KiB", Some(64 << 10)),
            ("0", None),
            ("OFF", None),
            ("none", None),
            ("", None),
        ] {
            assert_eq!(parse_memory_limit(text), Ok(expected), "{text}");
        }
        for text in ["much", "-1", "1.5G", "4X", "99999999999T", "G"] {
            assert!(parse_memory_limit(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_group_of_this_process_is_found_in_either_kind_of_hierarchy() {
        let first = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";
        let found = find_sites(first, "4:memory:/a/b\n0::/\n");
        assert_eq!(
            found.iter().map(|site| site.parent.as_path()).collect::<Vec<_>>(),
            [Path::new("/sys/fs/cgroup/memory/a/b")]
        );
        // As in a container, which sees only its own part.
        let part = "35 31 0:32 /a /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        assert_eq!(find_sites(part, "4:memory:/a/b\n")[0].parent, Path::new("/sys/fs/cgroup/memory/b"));
        let dir = tempfile::tempdir().unwrap();
        let (at, own) = (dir.path().join("slice"), dir.path().join("slice/scope"));
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("cgroup.subtree_control"), "").unwrap();
        fs::write(at.join("cgroup.subtree_control"), "cpu memory pids\n").unwrap();
        let second = format!("41 31 0:38 / {} rw - cgroup2 cgroup2 rw\n", dir.path().display());
        let found = find_sites(&second, "0::/slice/scope\n");
        assert_eq!(found.iter().map(|site| site.parent.clone()).collect::<Vec<_>>(), [at]);
        assert_eq!(find_sites(&second, "0::/\n"), []);
    }
}
