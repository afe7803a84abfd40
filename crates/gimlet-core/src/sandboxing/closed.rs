//! Files that patterns close or keep as they are (`**/.env`): walls know paths and no patterns, so those that match are looked for before a
//! command. Blocking and bounded.

use std::path::{Path, PathBuf};

use gimlet_policy::ClosedFiles;

/// How many entries of the writable folders are looked at, and how many that match are closed; the shallow ones first.
const MAX_ENTRIES: usize = 20_000;
const MAX_CLOSED: usize = 500;

/// What lies in these folders and is closed by a pattern.
pub(super) fn closed_in(roots: &[PathBuf], closed: &ClosedFiles) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = MAX_ENTRIES;
    let mut waiting: Vec<PathBuf> = roots.iter().filter_map(|root| root.canonicalize().ok()).collect();
    while !waiting.is_empty() {
        let mut next = Vec::new();
        for folder in waiting {
            look(&folder, closed, &mut left, &mut found, &mut next);
        }
        waiting = next;
    }
    found
}

fn look(folder: &Path, closed: &ClosedFiles, left: &mut usize, found: &mut Vec<PathBuf>, next: &mut Vec<PathBuf>) {
    let Ok(entries) = folder.read_dir() else { return };
    for entry in entries.flatten() {
        if *left == 0 || found.len() >= MAX_CLOSED {
            return;
        }
        *left -= 1;
        let path = entry.path();
        if closed.contains(&path) {
            found.push(path);
        } else if entry.file_name() != ".git" && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            next.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gimlet_policy::{Behavior, RuleScope, RuleSet, RuleSource, World};

    #[test]
    fn what_a_pattern_closes_is_found_at_any_depth_and_not_looked_into() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for folder in ["a/b", "secrets/deep", "c"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        for file in [".env", "a/b/.env", "a/b/.envrc", "secrets/deep/key", "c/x.pem"] {
            std::fs::write(root.join(file), "x").unwrap();
        }
        let mut rules = RuleSet::default();
        let source = RuleSource::new(RuleScope::User, &root);
        for rule in ["Read(**/.env)", "Read(./secrets/**)", "Read(c/*.pem)"] {
            rules.add(Behavior::Deny, rule, &source).unwrap();
        }
        let world = World { cwd: root.clone(), roots: vec![root.clone()], ..World::default() };
        let closed = ClosedFiles::new(&rules, &world, &[]).unwrap();
        let mut found = closed_in(std::slice::from_ref(&root), &closed);
        found.sort();
        let expected = [".env", "a/b/.env", "c/x.pem", "secrets"].map(|name| root.join(name));
        assert_eq!(found, expected);
    }
}
