//! Interface settings that older versions and other programs keep in `.claude.json`. They have the lowest precedence;
//! nothing else in that file is a setting, and `permissions`, `hooks` and `env` there are never read.

use gimlet_fs::{FileReadError, read_file, read_text};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::backup;
use crate::file_ownership;
use crate::json::{self, JsonText, TextPosition};
use crate::locations::SettingsLocations;
use crate::problem::{ProblemSeverity, SettingsProblem};
use crate::settings::{NotifyChannel, Settings, TeammateMode};
use crate::size_limits::STATE_MAX_BYTES;

/// Interface settings in `.claude.json`. The names of its keys are those of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StateSettings {
    #[serde(deserialize_with = "if_it_fits")]
    pub auto_connect_ide: Option<bool>,
    #[serde(deserialize_with = "if_it_fits")]
    pub auto_install_ide_extension: Option<bool>,
    #[serde(deserialize_with = "if_it_fits")]
    pub diff_tool: Option<String>,
    #[serde(deserialize_with = "if_it_fits")]
    pub external_editor_context: Option<bool>,
    #[serde(deserialize_with = "if_it_fits")]
    pub permission_explainer_enabled: Option<bool>,
    #[serde(deserialize_with = "if_it_fits")]
    theme: Option<String>,
    #[serde(deserialize_with = "if_it_fits")]
    verbose: Option<bool>,
    #[serde(deserialize_with = "if_it_fits")]
    show_turn_duration: Option<bool>,
    #[serde(deserialize_with = "if_it_fits")]
    terminal_progress_bar_enabled: Option<bool>,
    #[serde(deserialize_with = "if_it_fits")]
    respect_gitignore: Option<bool>,
    #[serde(deserialize_with = "if_it_fits")]
    teammate_mode: Option<TeammateMode>,
    #[serde(deserialize_with = "if_it_fits")]
    preferred_notif_channel: Option<NotifyChannel>,
}

/// Returns the problem of `.claude.json`, if it has one: other programs' trust in folders then counts as none.
pub fn state_file_problem(locations: &SettingsLocations) -> Option<SettingsProblem> {
    inspect_state_file(locations).map(|trouble| trouble.problem)
}

/// Checks the file at the start of a session. The content of a file that is not JSON is copied to `backups` first, so
/// that a program that recreates it cannot lose it; the file itself stays as it is.
pub fn check_and_back_up_state_file(locations: &SettingsLocations) -> Option<SettingsProblem> {
    let StateFileProblem { mut problem, broken } = inspect_state_file(locations)?;
    let copied = broken
        .map(|bytes| backup::back_up_corrupted(&locations.state_file, &bytes, &locations.config_dir.join("backups")));
    problem.message.push_str(&match copied {
        Some(Ok(copy)) => format!("; a copy is in {}", copy.display()),
        Some(Err(error)) => format!("; it cannot be copied: {error}"),
        None => String::new(),
    });
    Some(problem)
}

struct StateFileProblem {
    problem: SettingsProblem,
    /// Content of the file, if that is the user's own and not JSON.
    broken: Option<Vec<u8>>,
}

/// Checks ownership before the content: a file of another user is neither read nor copied.
fn inspect_state_file(locations: &SettingsLocations) -> Option<StateFileProblem> {
    let file = &locations.state_file;
    let trouble = |message: String, at: Option<TextPosition>, broken: Option<Vec<u8>>| {
        let (line, column) = (at.map(|place| place.line), at.map(|place| place.column));
        let (severity, key) = (ProblemSeverity::Warning, String::new());
        Some(StateFileProblem {
            problem: SettingsProblem { severity, file: file.clone(), line, column, key, message },
            broken,
        })
    };
    let in_vain = "what other programs keep in it counts as nothing, and gimlet leaves it alone";
    let doubts = locations.user.check_state_file(file);
    if !doubts.is_empty() && file.symlink_metadata().is_ok() {
        return trouble(
            format!("trust that it records does not count: {}", file_ownership::describe_problems(&doubts)),
            None,
            None,
        );
    }
    let bytes = match read_file(file, STATE_MAX_BYTES) {
        Ok(bytes) => bytes?,
        Err(error) => return trouble(format!("{error}; {in_vain}"), None, None),
    };
    // The file can be large, and is almost always valid.
    if serde_json::from_slice::<IgnoredAny>(&bytes).is_ok() {
        return None;
    }
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let reason = FileReadError::NotUtf8(error.utf8_error().valid_up_to());
            return trouble(format!("{reason}; {in_vain}"), None, Some(error.into_bytes()));
        }
    };
    let error = json::parse_json(&text).err()?;
    let at = JsonText::new(text.clone()).position_at(error.offset);
    trouble(format!("{}; {in_vain}", error.message), Some(at), Some(text.into_bytes()))
}

impl StateSettings {
    /// Reads the interface settings; a file that cannot be read and a value that does not fit count as unset. The file
    /// can be large: only programs with an interface need this.
    pub fn read(locations: &SettingsLocations) -> Self {
        let Ok(Some(text)) = read_text(&locations.state_file, STATE_MAX_BYTES) else {
            return Self::default();
        };
        let Ok(parsed) = json::parse_json(&text) else { return Self::default() };
        Self::deserialize(&parsed.root).unwrap_or_default()
    }

    /// Returns the value of a key by its name; `None` if it is unset.
    pub fn get(&self, key: &str) -> Option<Value> {
        let all = serde_json::to_value(self).ok()?;
        all.get(key).filter(|value| !value.is_null()).cloned()
    }

    /// Fills in the values that no settings file sets.
    pub fn fill_unset(&self, settings: &mut Settings) {
        fn fill<T: Clone>(setting: &mut Option<T>, from: &Option<T>) {
            if setting.is_none() {
                setting.clone_from(from);
            }
        }
        fill(&mut settings.theme, &self.theme);
        fill(&mut settings.verbose, &self.verbose);
        fill(&mut settings.show_turn_duration, &self.show_turn_duration);
        fill(&mut settings.terminal_progress_bar_enabled, &self.terminal_progress_bar_enabled);
        fill(&mut settings.respect_gitignore, &self.respect_gitignore);
        fill(&mut settings.teammate_mode, &self.teammate_mode);
        fill(&mut settings.preferred_notif_channel, &self.preferred_notif_channel);
    }
}

/// Deserializes a value of the wanted type; one of another type becomes `None`.
fn if_it_fits<'d, D: Deserializer<'d>, T: DeserializeOwned>(value: D) -> Result<Option<T>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(value)?).ok())
}
