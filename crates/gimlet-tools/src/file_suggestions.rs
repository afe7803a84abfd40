//! Files whose path matches a partly typed query. A walk like that of the search tools, bounded in files and time, so
//! that a host can ask at every key; the gate decides which of the files are visible.

use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ignore::WalkBuilder;

use crate::walk::is_vcs_dir;

/// Maximum number of files and folders visited.
const MOST_ENTRIES: usize = 200_000;
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns the best matching files below a folder, at most `most`, best first.
pub fn suggest_files(below: &Path, query: &str, most: usize) -> Vec<PathBuf> {
    let (query, began) = (query.trim_start_matches("./").to_lowercase(), Instant::now());
    let mut walk = WalkBuilder::new(below);
    walk.hidden(false).follow_links(false).current_dir(below).require_git(false);
    walk.filter_entry(|entry| entry.depth() == 0 || !is_vcs_dir(entry));
    // The worst of the best is on top, to be removed first.
    let mut best: BinaryHeap<(usize, usize, PathBuf)> = BinaryHeap::new();
    // Folders and unreadable entries count too: a tree without files takes as long as one with many.
    let walked = walk.build().take(MOST_ENTRIES).take_while(|_| began.elapsed() < PATIENCE);
    for entry in walked.flatten().filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file())) {
        let relative = entry.path().strip_prefix(below).unwrap_or(entry.path()).to_string_lossy().to_lowercase();
        if let Some(rank) = rank(&relative, &query) {
            best.push((rank, relative.len(), entry.into_path()));
            if best.len() > most {
                best.pop();
            }
        }
    }
    let mut best = best.into_vec();
    best.sort();
    best.into_iter().map(|(_, _, path)| path).collect()
}

/// Returns the rank of a match, zero best; `None` when the path does not match.
fn rank(path: &str, query: &str) -> Option<usize> {
    let name = path.rsplit('/').next().unwrap_or(path);
    if query.is_empty() {
        // Files near the root come first.
        return Some(path.matches('/').count());
    }
    [name == query, name.starts_with(query), path.starts_with(query), name.contains(query), path.contains(query)]
        .iter()
        .position(|fits| *fits)
        .or_else(|| is_subsequence(path, query).then_some(5))
}

/// Returns true if the characters of the query occur in the path, in order.
fn is_subsequence(path: &str, query: &str) -> bool {
    let mut letters = path.chars();
    query.chars().all(|wanted| letters.any(|letter| letter == wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_before_paths_and_paths_before_mere_letters() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for file in ["src/main.rs", "main/deep/x.txt", "docs/domain.md", "my_aide/in.c", ".git/main", "skipped/main.rs"]
        {
            std::fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            std::fs::write(root.join(file), "").unwrap();
        }
        std::fs::write(root.join(".gitignore"), "skipped/\n").unwrap();
        let found = |query: &str, most: usize| -> Vec<String> {
            let files = suggest_files(root, query, most);
            files.iter().map(|path| path.strip_prefix(root).unwrap().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(found("main", 9), ["src/main.rs", "main/deep/x.txt", "docs/domain.md", "my_aide/in.c"]);
        assert_eq!(found("MAIN.RS", 9), ["src/main.rs"]);
        assert_eq!(found("main", 1), ["src/main.rs"]);
        assert_eq!(found("./src/ma", 9), ["src/main.rs"]);
        assert!(found("zzz", 9).is_empty());
        assert_eq!(found("", 1), [".gitignore"]);
    }
}
