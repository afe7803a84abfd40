//! Keeps the local settings file out of commits through git's exclude lists. They are read and written as files: git
//! itself runs programs that a repository's configuration names, so it is never started here.

use std::path::{Path, PathBuf};

use gimlet_fs::read_text;
use gimlet_git::{GitConfigEntry, parse_git_config};

use crate::file_update::{self, FileUpdateError};
use crate::json_edit::JsonEditError;
use crate::locations::SettingsLocations;
use crate::save_setting::SaveError;
use crate::size_limits::SETTINGS_MAX_BYTES;

const LINE: &str = "**/.claude/settings.local.json";

/// Adds the file to the repository's private exclude list, unless a list that applies here has it already. The user's
/// global git configuration and shared files are not changed.
pub(crate) fn exclude_local_file(locations: &SettingsLocations) -> Result<(), SaveError> {
    let Some(repo) = &locations.repo else { return Ok(()) };
    let private = repo.common_dir.join("info/exclude");
    let own = user_excludes_file(locations);
    let shared = [repo.main_root.join(".gitignore"), repo.main_root.join(".claude/.gitignore")];
    if shared.iter().chain([&private]).chain(&own).any(|list| is_excluded_by_file(list)) {
        return Ok(());
    }
    // The repository's folder may come from any source, and its symlinks may point anywhere; they are not followed.
    let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
    if [&repo.common_dir, &repo.common_dir.join("info"), &private].into_iter().any(|path| is_link(path)) {
        return Ok(());
    }
    let change = |text: Option<&str>| {
        let text = text.unwrap_or_default();
        // Checked again under the lock: another process may have added the line since.
        if is_excluded_by(text) {
            return Ok::<_, JsonEditError>(None);
        }
        let between = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        Ok(Some(format!("{text}{between}{LINE}\n")))
    };
    file_update::update_file(&private, SETTINGS_MAX_BYTES, change).map_err(|error| match error {
        FileUpdateError::Read { path, source } => SaveError::Read { path, source },
        FileUpdateError::Write { path, source } => SaveError::Write { path, source },
        FileUpdateError::Busy { path } => SaveError::Busy { path },
        FileUpdateError::Change(source) => SaveError::Edit { path: private.clone(), source },
    })
}

/// Returns the user's global exclude list: the one that their configuration names, else the default one.
fn user_excludes_file(locations: &SettingsLocations) -> Option<PathBuf> {
    let (home, folder) = (locations.home.as_ref()?, locations.git_config_dir.as_ref()?);
    // The second one has precedence.
    let configs = [home.join(".gitconfig"), folder.join("config")];
    let named = configs.iter().find_map(|config| {
        let text = read_text(config, SETTINGS_MAX_BYTES).ok().flatten()?;
        let named = parse_excludes_file(&text)?;
        match named.strip_prefix("~/") {
            Some(below) => Some(home.join(below)),
            // The meaning of a relative path depends on git's working directory.
            None => Some(PathBuf::from(named)).filter(|path| path.is_absolute()),
        }
    });
    Some(named.unwrap_or_else(|| folder.join("ignore")))
}

/// Returns the value of `core.excludesFile` in a git configuration; the last one counts.
fn parse_excludes_file(config: &str) -> Option<String> {
    let is_wanted =
        |entry: &GitConfigEntry| entry.section == "core" && entry.subsection.is_none() && entry.key == "excludesfile";
    let found = parse_git_config(config.as_bytes()).into_iter().rfind(is_wanted)?.value;
    if found.is_empty() { None } else { Some(found) }
}

fn is_excluded_by_file(list: &Path) -> bool {
    matches!(read_text(list, SETTINGS_MAX_BYTES), Ok(Some(text)) if is_excluded_by(&text))
}

fn is_excluded_by(list: &str) -> bool {
    list.lines().map(str::trim).any(|line| {
        let folder = matches!(line.trim_matches('/'), ".claude" | ".claude/*" | "**/.claude");
        folder || (line.ends_with("settings.local.json") && !line.starts_with(['!', '#']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_that_a_configuration_names_is_found_as_git_finds_it() {
        for (config, named) in [
            ("[core]\n\texcludesFile = ~/.ignore\n", Some("~/.ignore")),
            ("[CORE] EXCLUDESFILE=/a b/c # mine\n", Some("/a b/c")),
            ("[core]\nexcludesfile = \"/with # hash\\\\x\" ; x\n", Some("/with # hash\\x")),
            ("[core]\nexcludesfile = /a\n[user]\nname = x\n[core]\nexcludesfile = /b\n", Some("/b")),
            ("[core \"x\"]\nexcludesfile = /a\n", None),
            ("[user]\nexcludesfile = /a\n", None),
            ("# excludesfile = /a\n[core]\n# excludesfile = /a\n", None),
            ("[core]\nexcludesfile =\n", None),
            ("", None),
        ] {
            assert_eq!(parse_excludes_file(config).as_deref(), named, "{config}");
        }
    }
}
