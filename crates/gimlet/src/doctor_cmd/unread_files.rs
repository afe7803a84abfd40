//! Files written for coding agents that this version does not read yet, so that users do not expect an effect. Only
//! names are checked.

use std::path::{Path, PathBuf};

use gimlet_config::{ProblemSeverity, SettingsLocations, SettingsProblem};

/// Maximum number of files named for one kind.
const MOST_NAMED: usize = 5;

/// Returns one remark for each kind of file that exists and is not read.
pub(super) fn find_unread_files(locations: &SettingsLocations) -> Vec<SettingsProblem> {
    let folders = [locations.cwd.join(".claude"), locations.config_dir.clone()];
    let mut kinds: Vec<(&str, Vec<PathBuf>)> = Vec::new();
    for (what, name, is_it) in
        [("commands", "commands", is_markdown as fn(&Path) -> bool), ("skills", "skills", is_skill)]
    {
        kinds.push((what, folders.iter().flat_map(|folder| matching_entries(&folder.join(name), is_it)).collect()));
    }
    kinds.into_iter().filter_map(|(what, files)| unread_problem(what, &files)).collect()
}

fn unread_problem(what: &str, files: &[PathBuf]) -> Option<SettingsProblem> {
    let first = files.first()?;
    // The first stands before the remark.
    let mut named: Vec<String> = files.iter().take(MOST_NAMED).skip(1).map(|file| file.display().to_string()).collect();
    if files.len() > MOST_NAMED {
        named.push(format!("and {} more", files.len() - MOST_NAMED));
    }
    let others = if named.is_empty() { String::new() } else { format!("; also {}", named.join(", ")) };
    Some(SettingsProblem {
        severity: ProblemSeverity::Info,
        file: first.clone(),
        line: None,
        column: None,
        key: String::new(),
        message: format!("{what} are not read by this version of gimlet yet{others}"),
    })
}

fn matching_entries(folder: &Path, is_it: fn(&Path) -> bool) -> Vec<PathBuf> {
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| is_it(path)).collect();
    files.sort();
    files
}

fn is_markdown(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md") && path.is_file()
}

fn is_skill(path: &Path) -> bool {
    path.join("SKILL.md").is_file()
}
