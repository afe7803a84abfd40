//! The few interface settings that older versions and other programs keep in `.claude.json`. They are the weakest of
//! all; nothing else in that file is a setting, and `permissions`, `hooks` and `env` there are never read.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::backup;
use crate::files::{self, STATE_MAX_BYTES};
use crate::json::{self, JsonText};
use crate::locations::Locations;
use crate::ownership;
use crate::problem::{Problem, Severity};
use crate::settings::{NotifyChannel, Settings, TeammateMode};

/// What `.claude.json` says about the interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateSettings {
    pub auto_connect_ide: Option<bool>,
    pub auto_install_ide_extension: Option<bool>,
    pub diff_tool: Option<String>,
    pub external_editor_context: Option<bool>,
    pub permission_explainer_enabled: Option<bool>,
    theme: Option<String>,
    verbose: Option<bool>,
    show_turn_duration: Option<bool>,
    terminal_progress_bar_enabled: Option<bool>,
    respect_gitignore: Option<bool>,
    teammate_mode: Option<TeammateMode>,
    preferred_notif_channel: Option<NotifyChannel>,
}

/// What is wrong with `.claude.json`: other programs' trust in folders then counts as none.
pub fn state_problem(locations: &Locations) -> Option<Problem> {
    let file = &locations.state_file;
    if let Some(doubt) = locations.person.doubt(file) {
        let message = format!("trust that it records does not count: {}", ownership::sentence(&[doubt]));
        let file = file.clone();
        return Some(Problem {
            severity: Severity::Warning,
            file,
            line: None,
            column: None,
            key: String::new(),
            message,
        });
    }
    let (message, at) = match files::read_text(file, STATE_MAX_BYTES) {
        Ok(None) => return None,
        Err(error) => (error.to_string(), None),
        Ok(Some(text)) => {
            let error = json::parse(&text).err()?;
            (error.message, Some(JsonText::new(text).position(error.offset)))
        }
    };
    Some(Problem {
        severity: Severity::Warning,
        file: file.clone(),
        line: at.map(|place| place.line),
        column: at.map(|place| place.column),
        key: String::new(),
        message: format!("{message}; what other programs keep in it counts as nothing, and gimlet leaves it alone"),
    })
}

/// The same for the start of a session. Whatever is in a file that is no JSON is copied to `backups` first, where the
/// next program that makes it anew cannot lose it; the file itself stays as it is.
pub fn check_state(locations: &Locations) -> Option<Problem> {
    let file = &locations.state_file;
    let bytes = files::read(file, STATE_MAX_BYTES).ok().flatten();
    let is_doubtful = locations.person.doubt(file).is_some();
    // The file can be large, and is good almost always.
    if !is_doubtful && bytes.as_ref().is_some_and(|bytes| serde_json::from_slice::<IgnoredAny>(bytes).is_ok()) {
        return None;
    }
    let mut problem = state_problem(locations)?;
    if is_doubtful {
        return Some(problem);
    }
    let kept = bytes.map(|bytes| backup::keep_corrupted(file, &bytes, &locations.config_dir.join("backups")));
    problem.message.push_str(&match kept {
        Some(Ok(copy)) => format!("; a copy is in {}", copy.display()),
        Some(Err(error)) => format!("; it cannot be copied: {error}"),
        None => String::new(),
    });
    Some(problem)
}

impl StateSettings {
    /// Reads them; a file that cannot be read says nothing, and a value that does not fit is none. The file can be
    /// large: only who shows an interface needs this.
    pub fn read(locations: &Locations) -> Self {
        let Ok(Some(text)) = files::read_text(&locations.state_file, STATE_MAX_BYTES) else { return Self::default() };
        let Ok(parsed) = json::parse(&text) else { return Self::default() };
        fn get<'n, T: Deserialize<'n>>(root: &'n json::Node, key: &str) -> Option<T> {
            T::deserialize(root.get(key)?).ok()
        }
        let root = &parsed.root;
        Self {
            auto_connect_ide: get(root, "autoConnectIde"),
            auto_install_ide_extension: get(root, "autoInstallIdeExtension"),
            diff_tool: get(root, "diffTool"),
            external_editor_context: get(root, "externalEditorContext"),
            permission_explainer_enabled: get(root, "permissionExplainerEnabled"),
            theme: get(root, "theme"),
            verbose: get(root, "verbose"),
            show_turn_duration: get(root, "showTurnDuration"),
            terminal_progress_bar_enabled: get(root, "terminalProgressBarEnabled"),
            respect_gitignore: get(root, "respectGitignore"),
            teammate_mode: get(root, "teammateMode"),
            preferred_notif_channel: get(root, "preferredNotifChannel"),
        }
    }

    /// What it says about a key, by the key's name.
    pub fn value(&self, key: &str) -> Option<Value> {
        fn json<T: Serialize>(setting: &Option<T>) -> Option<Value> {
            serde_json::to_value(setting.as_ref()?).ok()
        }
        match key {
            "autoConnectIde" => json(&self.auto_connect_ide),
            "autoInstallIdeExtension" => json(&self.auto_install_ide_extension),
            "diffTool" => json(&self.diff_tool),
            "externalEditorContext" => json(&self.external_editor_context),
            "permissionExplainerEnabled" => json(&self.permission_explainer_enabled),
            "theme" => json(&self.theme),
            "verbose" => json(&self.verbose),
            "showTurnDuration" => json(&self.show_turn_duration),
            "terminalProgressBarEnabled" => json(&self.terminal_progress_bar_enabled),
            "respectGitignore" => json(&self.respect_gitignore),
            "teammateMode" => json(&self.teammate_mode),
            "preferredNotifChannel" => json(&self.preferred_notif_channel),
            _ => None,
        }
    }

    /// Fills in what no settings file says.
    pub fn fill(&self, settings: &mut Settings) {
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
