//! A scratch home, project and managed folder.

use std::path::{Path, PathBuf};

use gimlet_config::{Effective, Inventory, Loaded, Locations, Options, Problem, Severity, Surroundings, Trust, load};
use tempfile::TempDir;

pub(crate) struct World {
    _temp: TempDir,
    pub(crate) home: PathBuf,
    pub(crate) project: PathBuf,
    pub(crate) managed: PathBuf,
    pub(crate) cwd: PathBuf,
    pub(crate) options: Options,
}

impl World {
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
        Self { _temp: temp, cwd: project.clone(), home, project, managed, options: Options::default() }
    }

    pub(crate) fn user(&self, text: impl AsRef<[u8]>) -> PathBuf {
        put(&self.home.join(".claude/settings.json"), text)
    }

    pub(crate) fn project(&self, text: impl AsRef<[u8]>) -> PathBuf {
        put(&self.project.join(".claude/settings.json"), text)
    }

    pub(crate) fn local(&self, text: impl AsRef<[u8]>) -> PathBuf {
        put(&self.project.join(".claude/settings.local.json"), text)
    }

    pub(crate) fn managed(&self, text: impl AsRef<[u8]>) -> PathBuf {
        put(&self.managed.join("managed-settings.json"), text)
    }

    pub(crate) fn file(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        put(&self.project.join(path), text)
    }

    pub(crate) fn locations(&self) -> Locations {
        Locations::find(Surroundings {
            home: Some(self.home.clone()),
            config_dir: self.home.join(".claude"),
            config_dir_named: false,
            cwd: self.cwd.clone(),
            managed_dir: self.managed.clone(),
            xdg_config_home: None,
            also_owner: None,
        })
    }

    pub(crate) fn load(&self) -> Loaded {
        load(&self.locations(), &self.options)
    }

    pub(crate) fn trusted(&self) -> Effective {
        self.under(&Trust::everything())
    }

    pub(crate) fn untrusted(&self) -> Effective {
        self.under(&Trust::nothing())
    }

    pub(crate) fn under(&self, trust: &Trust) -> Effective {
        let loaded = self.load();
        loaded.effective(&Inventory::collect(&loaded), trust)
    }
}

pub(crate) fn put(path: &Path, text: impl AsRef<[u8]>) -> PathBuf {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    path.to_owned()
}

/// The problems of this severity, as people see them.
pub(crate) fn said(problems: &[Problem], severity: Severity) -> Vec<String> {
    problems.iter().filter(|problem| problem.severity == severity).map(ToString::to_string).collect()
}
