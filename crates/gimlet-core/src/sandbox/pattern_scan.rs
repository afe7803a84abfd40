//! Files that patterns deny or make read-only (`**/.env`): the sandbox takes paths, not patterns, so matching files
//! are searched before a command. Blocking and bounded; an incomplete scan is reported.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::PathBuf;

use gimlet_policy::DeniedFiles;

/// Maximum number of scanned entries in the writable folders, and of matches; shallow ones come first.
const MAX_ENTRIES: usize = 100_000;
const MAX_FOUND: usize = 500;

/// Files in the writable folders that match a deny or read-only pattern.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PatternMatches {
    pub(super) closed: Vec<PathBuf>,
    pub(super) kept: Vec<PathBuf>,
    /// Set if the scan was incomplete.
    pub(super) is_partial: bool,
}

/// Matches of earlier scans. They stay denied even if new files keep a later scan from reaching them.
#[derive(Debug, Default)]
pub(super) struct RememberedMatches {
    closed: BTreeSet<PathBuf>,
    kept: BTreeSet<PathBuf>,
}

impl RememberedMatches {
    /// Scans the folders once for both kinds of patterns.
    pub(super) fn scan_folders(
        &mut self,
        roots: &[PathBuf],
        closed: Option<&DeniedFiles>,
        kept: Option<&DeniedFiles>,
    ) -> PatternMatches {
        self.scan_within(roots, closed, kept, MAX_ENTRIES)
    }

    fn scan_within(
        &mut self,
        roots: &[PathBuf],
        closed: Option<&DeniedFiles>,
        kept: Option<&DeniedFiles>,
        most: usize,
    ) -> PatternMatches {
        if closed.is_none() && kept.is_none() {
            return PatternMatches::default();
        }
        let mut walk = PatternWalk { closed, kept, left: most, found: PatternMatches::default() };
        let roots = roots.iter().filter_map(|root| root.canonicalize().ok());
        let mut waiting: Vec<PendingFolder> = roots.map(|path| PendingFolder { path, is_kept: false }).collect();
        while !waiting.is_empty() {
            let mut next = Vec::new();
            waiting.iter().for_each(|folder| walk.visit_folder(folder, &mut next));
            waiting = next;
        }
        let mut found = walk.found;
        if found.is_partial {
            let again = |now: &mut Vec<PathBuf>, before: &BTreeSet<PathBuf>, files: Option<&DeniedFiles>| {
                // Rules may have changed since, and files may have been removed.
                let holds = |path: &&PathBuf| files.is_some_and(|files| files.contains(path)) && !now.contains(path);
                let there = before.iter().filter(holds).filter(|path| path.symlink_metadata().is_ok());
                let there: Vec<PathBuf> = there.cloned().collect();
                now.extend(there);
            };
            again(&mut found.closed, &self.closed, closed);
            again(&mut found.kept, &self.kept, kept);
        }
        self.closed = found.closed.iter().cloned().collect();
        self.kept = found.kept.iter().cloned().collect();
        found
    }
}

/// Folder still to be scanned.
struct PendingFolder {
    path: PathBuf,
    /// Set if the folder is read-only with all its content.
    is_kept: bool,
}

struct PatternWalk<'a> {
    closed: Option<&'a DeniedFiles>,
    kept: Option<&'a DeniedFiles>,
    left: usize,
    found: PatternMatches,
}

impl PatternWalk<'_> {
    fn visit_folder(&mut self, folder: &PendingFolder, next: &mut Vec<PendingFolder>) {
        let entries = match folder.path.read_dir() {
            Ok(entries) => entries,
            // A folder unreadable to the user is unreadable to commands as well, and it may have been removed.
            Err(error) => {
                self.found.is_partial |= !matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::NotFound);
                return;
            }
        };
        for entry in entries {
            let Some((entry, left)) = entry.ok().zip(self.left.checked_sub(1)) else {
                self.found.is_partial = true;
                return;
            };
            self.left = left;
            let path = entry.path();
            let matches = |files: Option<&DeniedFiles>| files.is_some_and(|files| files.contains(&path));
            let is_closed = matches(self.closed);
            let is_newly_kept = !folder.is_kept && matches(self.kept);
            for (list, is_listed) in [(&mut self.found.closed, is_closed), (&mut self.found.kept, is_newly_kept)] {
                match is_listed {
                    true if list.len() >= MAX_FOUND => self.found.is_partial = true,
                    true => list.push(path.clone()),
                    false => {}
                }
            }
            let is_kept = folder.is_kept || is_newly_kept;
            // A denied folder covers its content; so does a read-only one, but that may contain denied files.
            let is_settled = is_closed || (is_kept && self.closed.is_none());
            if !is_settled && entry.file_name() != ".git" && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                next.push(PendingFolder { path, is_kept });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gimlet_policy::{Behavior, DecisionContext, RuleScope, RuleSet, RuleSource};
    use std::path::Path;

    fn rules(root: &Path, denied: &[&str]) -> (RuleSet, DecisionContext) {
        let mut rules = RuleSet::default();
        let source = RuleSource::new(RuleScope::User, root);
        for rule in denied {
            rules.add(Behavior::Deny, rule, &source).unwrap();
        }
        (rules, DecisionContext { cwd: root.to_owned(), roots: vec![root.to_owned()], ..DecisionContext::default() })
    }

    #[test]
    fn what_a_pattern_closes_is_found_at_any_depth_and_not_looked_into() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for folder in ["a/b", "secrets/deep", "c", "vendor/x"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        for file in [".env", "a/b/.env", "a/b/.envrc", "secrets/deep/key", "c/x.pem", "vendor/x/.env", "vendor/x/y"] {
            std::fs::write(root.join(file), "x").unwrap();
        }
        let denied = ["Read(**/.env)", "Read(./secrets/**)", "Read(c/*.pem)", "Edit(vendor/**)"];
        let (rules, world) = rules(&root, &denied);
        let (closed, kept) = (DeniedFiles::new(&rules, &world, &[]), DeniedFiles::for_writers(&rules, &world));
        let mut found =
            RememberedMatches::default().scan_folders(std::slice::from_ref(&root), closed.as_ref(), kept.as_ref());
        found.closed.sort();
        let expected = [".env", "a/b/.env", "c/x.pem", "secrets", "vendor/x/.env"].map(|name| root.join(name));
        assert_eq!(found.closed, expected);
        assert_eq!((found.kept, found.is_partial), (vec![root.join("vendor")], false));
    }

    #[test]
    fn too_many_files_keep_earlier_matches_denied_and_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("zz/deep")).unwrap();
        for file in ["zz/deep/.env", "zz/deep/lock"] {
            std::fs::write(root.join(file), "x").unwrap();
        }
        let (rules, world) = rules(&root, &["Read(**/.env)", "Edit(**/lock)"]);
        let (closed, kept) = (DeniedFiles::new(&rules, &world, &[]), DeniedFiles::for_writers(&rules, &world));
        let mut remembered = RememberedMatches::default();
        let mut look = || remembered.scan_within(std::slice::from_ref(&root), closed.as_ref(), kept.as_ref(), 10);
        let before = look();
        assert!(!before.is_partial && before.closed.len() == 1 && before.kept.len() == 1);
        (0..20).for_each(|n| std::fs::write(root.join(n.to_string()), "").unwrap());
        for _ in 0..2 {
            let after = look();
            assert!(after.is_partial);
            assert_eq!((after.closed, after.kept), (before.closed.clone(), before.kept.clone()));
        }
    }
}
