//! Working trees of a repository, as its own files name them. Starts no program and never writes.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::disk::read_small_file;

/// Returns the other working trees of the repository that contains `dir`: the main one first, then the linked ones by
/// name.
pub fn other_worktrees(dir: &Path) -> Vec<PathBuf> {
    let Some((root, common)) = find_repository(dir) else { return Vec::new() };
    let mut trees = Vec::new();
    if common.file_name().is_some_and(|name| name == ".git") {
        trees.extend(common.parent().map(Path::to_owned));
    }
    let entries = fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten();
    let mut links: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    links.sort();
    trees.extend(links.iter().filter_map(|link| {
        let git_file = PathBuf::from(read_small_file(&link.join("gitdir")).ok()?.trim_end());
        Some(normalize_path(&link.join(git_file)).parent()?.to_owned())
    }));
    let here = fs::canonicalize(&root).unwrap_or(root);
    // A tree that was moved or removed without git's knowledge can still have sessions under its old name.
    trees.retain(|tree| fs::canonicalize(tree).map_or(true, |tree| tree != here));
    trees
}

/// Returns the root of the working tree that contains `dir`, and the folder that all of its repository's trees share.
fn find_repository(dir: &Path) -> Option<(PathBuf, PathBuf)> {
    let root = dir.ancestors().find(|folder| folder.join(".git").exists())?;
    let git = root.join(".git");
    if git.is_dir() {
        return Some((root.to_owned(), git));
    }
    let text = read_small_file(&git).ok()?;
    let own = normalize_path(&root.join(text.strip_prefix("gitdir:")?.trim()));
    let common = match read_small_file(&own.join("commondir")) {
        Ok(common) => normalize_path(&own.join(common.trim_end())),
        Err(_) => own,
    };
    Some((root.to_owned(), common))
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
        write_file(&temp.path().join("b/.git"), "nonsense");
        assert_eq!(other_worktrees(&temp.path().join("a")), Vec::<PathBuf>::new());
        assert_eq!(other_worktrees(&temp.path().join("b")), Vec::<PathBuf>::new());
    }
}
