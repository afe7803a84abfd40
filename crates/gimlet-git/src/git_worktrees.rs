//! Working trees of a repository.

use std::fs;
use std::path::{Component, Path, PathBuf};

use gimlet_fs::read_text;

use crate::git_repo::{GitRepo, POINTER_MAX_BYTES};

/// Returns the other working trees of the repository that contains `dir`: the main one first, then the linked ones by
/// name. Those that were moved or removed without git's knowledge are among them.
pub fn other_worktrees(dir: &Path) -> Vec<PathBuf> {
    let Some(GitRepo { root, common_dir, .. }) = GitRepo::discover(dir) else { return Vec::new() };
    let mut trees = Vec::new();
    if common_dir.ends_with(".git") {
        trees.extend(common_dir.parent().map(Path::to_owned));
    }
    let entries = fs::read_dir(common_dir.join("worktrees")).into_iter().flatten().flatten();
    let mut records: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    records.sort();
    trees.extend(records.iter().filter_map(|record| read_worktree_root(record)));
    let here = fs::canonicalize(&root).unwrap_or(root);
    // A tree that was moved or removed without git's knowledge can still have sessions under its old name.
    trees.retain(|tree| fs::canonicalize(tree).map_or(true, |tree| tree != here));
    trees
}

/// Returns the root of the working tree that a record in the main repository names.
fn read_worktree_root(record: &Path) -> Option<PathBuf> {
    let git_file = read_text(&record.join("gitdir"), POINTER_MAX_BYTES).ok().flatten()?;
    Some(normalize_path(&record.join(git_file.trim_end())).parent()?.to_owned())
}

/// Returns the path without `.` and `..`, symlinks left alone.
fn normalize_path(path: &Path) -> PathBuf {
    let mut tidy = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                tidy.pop();
            }
            part => tidy.push(part),
        }
    }
    tidy
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_file(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn trees_are_found_from_each_other_and_from_folders_inside_them() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        let (main, side, gone) = (base.join("main"), base.join("side"), base.join("gone"));
        fs::create_dir_all(main.join(".git/worktrees")).unwrap();
        fs::create_dir_all(main.join("src/deep")).unwrap();
        write_file(&main.join(".git/HEAD"), "ref: refs/heads/main\n");
        write_file(&main.join(".git/worktrees/side/HEAD"), "ref: refs/heads/side\n");
        write_file(&main.join(".git/worktrees/side/gitdir"), &format!("{}/.git\n", side.display()));
        write_file(&main.join(".git/worktrees/side/commondir"), "../..\n");
        write_file(&main.join(".git/worktrees/gone/gitdir"), &format!("{}/.git\n", gone.display()));
        write_file(&side.join(".git"), &format!("gitdir: {}/.git/worktrees/side\n", main.display()));
        assert_eq!(other_worktrees(&main.join("src/deep")), [gone.clone(), side.clone()]);
        assert_eq!(other_worktrees(&side), [main, gone]);
        assert_eq!(other_worktrees(&base), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_repository_with_one_tree_and_one_that_makes_no_sense_have_no_others() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("a/.git")).unwrap();
        write_file(&temp.path().join("a/.git/HEAD"), "ref: refs/heads/main\n");
        write_file(&temp.path().join("b/.git"), "nonsense");
        assert_eq!(other_worktrees(&temp.path().join("a")), Vec::<PathBuf>::new());
        assert_eq!(other_worktrees(&temp.path().join("b")), Vec::<PathBuf>::new());
    }
}
