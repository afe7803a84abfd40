//! The `file_path` parameter: checks of its spelling, and messages for missing files.

use std::path::{Path, PathBuf};

use gimlet_core::tool::{InputProblem, PathContext, nearest_name};

use crate::special_files::{is_special, special_text};

/// Codes of the refusals, stable for programs.
pub(crate) const NO_PATH: u32 = 1;
pub(crate) const SPECIAL_PATH: u32 = 2;

/// Maximum entries of a folder that are compared with a missing name.
const MOST_ENTRIES: usize = 5_000;
const MOST_SUGGESTIONS: usize = 3;

/// Refuses what cannot be a file's path, without any I/O.
pub(crate) fn check(file_path: &str, cx: &PathContext) -> Result<(), InputProblem> {
    check_parameter("file_path", file_path, cx)
}

/// Refuses what cannot be a file's path in the parameter of this name.
pub(crate) fn check_parameter(parameter: &str, file_path: &str, cx: &PathContext) -> Result<(), InputProblem> {
    if is_no_path(file_path) {
        return Err(InputProblem::new(
            NO_PATH,
            format!("`{parameter}` must be the path of a file, not {file_path:?}."),
        ));
    }
    match is_special(&cx.expand_path(Path::new(file_path))) {
        true => Err(InputProblem::new(SPECIAL_PATH, special_text(file_path))),
        false => Ok(()),
    }
}

/// Returns true for words that models write for "none".
fn is_no_path(text: &str) -> bool {
    matches!(text.trim(), "" | "undefined" | "null") || text.contains('\0')
}

/// Returns true if a file is a notebook by its name.
pub(crate) fn is_notebook(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("ipynb"))
}

/// Writes the expanded path into an input. An invalid path is left unchanged, to be refused as it was written.
pub(crate) fn expand(file_path: &mut String, cx: &PathContext) {
    if is_no_path(file_path) {
        return;
    }
    *file_path = cx.expand_path(Path::new(file_path.as_str())).display().to_string();
}

/// Returns the message for a missing file: the current directory, and similar names.
pub(crate) fn missing_text(path: &Path, cx: &PathContext) -> String {
    let mut text = format!("{} does not exist. The working directory is {}.", path.display(), cx.cwd.display());
    let similar = similar_paths(path, cx);
    if !similar.is_empty() {
        let list: Vec<String> = similar.iter().map(|path| path.display().to_string()).collect();
        text.push_str(&format!(" Did you mean {}?", list.join(" or ")));
    } else if let Some(parent) = path.parent().filter(|parent| !parent.is_dir()) {
        text.push_str(&format!(" The folder {} does not exist either.", parent.display()));
    }
    text
}

fn similar_paths(path: &Path, cx: &PathContext) -> Vec<PathBuf> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    let Ok(entries) = std::fs::read_dir(parent) else {
        let here = cx.cwd.join(name);
        return if here.is_file() { vec![here] } else { Vec::new() };
    };
    let names: Vec<String> =
        entries.take(MOST_ENTRIES).flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    similar_names(name, &names).into_iter().map(|name| parent.join(name)).collect()
}

/// Returns the names closest to `wanted`: other case, other ending, typos, then names that contain it.
fn similar_names<'a>(wanted: &str, names: &'a [String]) -> Vec<&'a str> {
    let lower = wanted.to_lowercase();
    let stem = lower.split('.').next().unwrap_or(&lower);
    let mut found: Vec<&str> = names.iter().map(String::as_str).filter(|name| name.to_lowercase() == lower).collect();
    let same_stem = |name: &&str| !stem.is_empty() && name.to_lowercase().split('.').next() == Some(stem);
    let mut rest: Vec<&str> = names.iter().map(String::as_str).filter(|name| !found.contains(name)).collect();
    rest.sort_unstable();
    let take = |found: &mut Vec<&'a str>, rest: &mut Vec<&'a str>, name: &'a str| {
        rest.retain(|other| *other != name);
        found.push(name);
    };
    for name in rest.clone().into_iter().filter(same_stem) {
        take(&mut found, &mut rest, name);
    }
    while found.len() < MOST_SUGGESTIONS
        && let Some(name) = nearest_name(wanted, rest.iter().copied())
    {
        take(&mut found, &mut rest, name);
    }
    let contains = |name: &&str| stem.len() >= 3 && name.to_lowercase().contains(stem);
    for name in rest.clone().into_iter().filter(contains) {
        take(&mut found, &mut rest, name);
    }
    found.truncate(MOST_SUGGESTIONS);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_names_are_found_and_far_ones_are_not() {
        let names: Vec<String> =
            ["main.rs", "Main.rs", "mian.rs", "main.py", "zebra.txt", "domain.rs"].map(str::to_owned).into();
        assert_eq!(similar_names("MAIN.rs", &names), ["main.rs", "Main.rs", "main.py"]);
        assert_eq!(similar_names("zebr.txt", &names), ["zebra.txt"]);
        assert_eq!(similar_names("qqqqqq", &names), Vec::<&str>::new());
    }
}
