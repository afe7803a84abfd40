//! A scratch home, project and managed folder.

use std::path::{Path, PathBuf};

use gimlet_config::{
    EffectiveSettings, LoadedSettings, LocationContext, ProblemSeverity, ProjectTrust, SettingsLoadOptions,
    SettingsLocations, SettingsProblem, TrustInventory, load_settings,
};
use tempfile::TempDir;

pub(crate) struct SettingsFixture {
    _temp: TempDir,
    pub(crate) home: PathBuf,
    pub(crate) project: PathBuf,
    pub(crate) managed: PathBuf,
    pub(crate) cwd: PathBuf,
    pub(crate) options: SettingsLoadOptions,
}

impl SettingsFixture {
    /// A project that is a repository with nothing tracked.
    pub(crate) fn new() -> Self {
        let world = Self::without_repository();
        std::fs::create_dir(world.project.join(".git")).unwrap();
        std::fs::write(world.project.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        world
    }

    pub(crate) fn without_repository() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        let (home, project, managed) = (base.join("home"), base.join("project"), base.join("managed"));
        for folder in [&home, &project, &managed] {
            std::fs::create_dir(folder).unwrap();
        }
        Self { _temp: temp, cwd: project.clone(), home, project, managed, options: SettingsLoadOptions::default() }
    }

    pub(crate) fn write_user(&self, text: impl AsRef<[u8]>) -> PathBuf {
        write_file_at(&self.home.join(".claude/settings.json"), text)
    }

    pub(crate) fn write_project(&self, text: impl AsRef<[u8]>) -> PathBuf {
        write_file_at(&self.project.join(".claude/settings.json"), text)
    }

    pub(crate) fn write_local(&self, text: impl AsRef<[u8]>) -> PathBuf {
        write_file_at(&self.project.join(".claude/settings.local.json"), text)
    }

    pub(crate) fn write_managed(&self, text: impl AsRef<[u8]>) -> PathBuf {
        write_file_at(&self.managed.join("managed-settings.json"), text)
    }

    pub(crate) fn write_file(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        write_file_at(&self.project.join(path), text)
    }

    pub(crate) fn locations(&self) -> SettingsLocations {
        SettingsLocations::resolve(LocationContext {
            home: Some(self.home.clone()),
            config_dir: self.home.join(".claude"),
            config_dir_named: false,
            cwd: self.cwd.clone(),
            managed_dir: self.managed.clone(),
            xdg_config_home: None,
            also_owner: None,
        })
    }

    pub(crate) fn load(&self) -> LoadedSettings {
        load_settings(&self.locations(), &self.options)
    }

    pub(crate) fn trusted_settings(&self) -> EffectiveSettings {
        self.settings_with_trust(&ProjectTrust::all())
    }

    pub(crate) fn untrusted_settings(&self) -> EffectiveSettings {
        self.settings_with_trust(&ProjectTrust::none())
    }

    pub(crate) fn settings_with_trust(&self, trust: &ProjectTrust) -> EffectiveSettings {
        let loaded = self.load();
        loaded.effective_settings(&TrustInventory::collect(&loaded), trust)
    }
}

pub(crate) fn write_file_at(path: &Path, text: impl AsRef<[u8]>) -> PathBuf {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    path.to_owned()
}

/// The problems of this severity, as people see them.
pub(crate) fn problem_messages(problems: &[SettingsProblem], severity: ProblemSeverity) -> Vec<String> {
    problems.iter().filter(|problem| problem.severity == severity).map(ToString::to_string).collect()
}
