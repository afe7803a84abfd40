//! Names of a file along a chain of symlinks.

use std::path::{Path, PathBuf};

use gimlet_fs::{ResolvePolicy, ResolvedPath};

/// Returns an absolute path as spelt, and its form after each symlink on the way; the last one has none. A user who
/// can write at one of these decides about the file's content. Missing parts are kept as spelt.
pub fn symlink_names(path: &Path) -> Vec<PathBuf> {
    let mut names = vec![path.to_owned()];
    if let Some(resolved) = ResolvedPath::on_disk(path, ResolvePolicy::LENIENT) {
        names.extend(resolved.links.into_iter().map(|followed| followed.path_after));
        names.push(resolved.target);
    }
    names.dedup();
    names
}

/// Returns all names of a file, if one of them is in one of these folders; else none.
pub fn symlink_names_within(file: &Path, folders: &[PathBuf]) -> Vec<PathBuf> {
    let names = symlink_names(file);
    let is_within = |name: &PathBuf| folders.iter().any(|folder| name.starts_with(folder));
    if names.iter().any(is_within) { names } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn every_symlink_name_is_listed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for folder in ["home/.claude", "w/real"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let file = root.join("home/.claude/settings.json");
        assert_eq!(symlink_names(&file), std::slice::from_ref(&file), "it is not there yet");
        symlink("../../w/link/one.json", &file).unwrap();
        symlink(root.join("w/real"), root.join("w/link")).unwrap();
        symlink("two.json", root.join("w/real/one.json")).unwrap();
        let expected =
            [file.clone(), root.join("w/link/one.json"), root.join("w/real/one.json"), root.join("w/real/two.json")];
        assert_eq!(symlink_names(&file), expected);
        assert_eq!(symlink_names_within(&file, &[root.join("w/real")]), expected);
        assert_eq!(symlink_names_within(&file, &[root.join("w/re")]), [] as [PathBuf; 0]);
        symlink("loop", root.join("loop")).unwrap();
        assert!(symlink_names(&root.join("loop")).len() <= 42);
    }
}
