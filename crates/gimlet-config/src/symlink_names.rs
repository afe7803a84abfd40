//! Names of a file along a chain of symlinks.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Maximum number of symlinks, as in the kernel.
const MAX_LINKS: usize = 40;

/// Returns an absolute path as spelt, and its form after each symlink on the way; the last one has none. A user who
/// can write at one of these decides about the file's content. Missing parts are kept as spelt.
pub fn symlink_names(path: &Path) -> Vec<PathBuf> {
    let mut spelt = vec![path.to_owned()];
    let mut real = PathBuf::from("/");
    let mut rest: VecDeque<OsString> = path_names(path).collect();
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            real.pop();
            continue;
        }
        real.push(&name);
        let Ok(target) = real.read_link() else { continue };
        if spelt.len() > MAX_LINKS {
            break;
        }
        real.pop();
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        for name in path_names(&target).collect::<Vec<_>>().into_iter().rev() {
            rest.push_front(name);
        }
        // Here it still means the parent folder: there is no symlink before it.
        while rest.pop_front_if(|name| name == "..").is_some() {
            real.pop();
        }
        spelt.push(real.join(rest.iter().collect::<PathBuf>()));
    }
    spelt.push(real.join(rest.iter().collect::<PathBuf>()));
    spelt.dedup();
    spelt
}

/// Returns all names of a file, if one of them is in one of these folders; else none.
pub fn symlink_names_within(file: &Path, folders: &[PathBuf]) -> Vec<PathBuf> {
    let names = symlink_names(file);
    let is_within = |name: &PathBuf| folders.iter().any(|folder| name.starts_with(folder));
    if names.iter().any(is_within) { names } else { Vec::new() }
}

fn path_names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
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
        assert!(symlink_names(&root.join("loop")).len() <= MAX_LINKS + 2);
    }
}
