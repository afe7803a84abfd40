//! Locations of the user's, the project's and the administrator's files.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use gimlet_git::GitRepo;

use crate::file_ownership::CurrentUser;

/// Folder of managed settings on this system.
pub const MANAGED_DIR: &str =
    if cfg!(target_os = "macos") { "/Library/Application Support/ClaudeCode" } else { "/etc/claude-code" };

/// Caller's knowledge of its environment.
#[derive(Clone, Debug)]
pub struct LocationContext {
    pub home: Option<PathBuf>,
    /// `~/.claude`, or the folder that replaces it.
    pub config_dir: PathBuf,
    /// True if the environment named that folder; other programs' state is then inside it.
    pub config_dir_named: bool,
    /// Folder gimlet was started in, without symlinks.
    pub cwd: PathBuf,
    pub managed_dir: PathBuf,
    /// User's configuration folder, when it is not `~/.config`.
    pub xdg_config_home: Option<PathBuf>,
    /// Another user id whose files count as the user's own.
    pub also_owner: Option<u32>,
}

/// Locations of all files that are read.
#[derive(Clone, Debug)]
pub struct SettingsLocations {
    pub home: Option<PathBuf>,
    pub config_dir: PathBuf,
    pub cwd: PathBuf,
    pub managed_dir: PathBuf,
    /// Repository that contains the working directory.
    pub repo: Option<GitRepo>,
    /// `.claude.json`: state shared with other programs.
    pub state_file: PathBuf,
    /// Folder of the user's git configuration, beside `~/.gitconfig`.
    pub(crate) git_config_dir: Option<PathBuf>,
    pub(crate) user: CurrentUser,
}

impl SettingsLocations {
    pub fn resolve(surroundings: LocationContext) -> Self {
        let LocationContext { home, config_dir, config_dir_named, cwd, managed_dir, xdg_config_home, also_owner } =
            surroundings;
        let config = xdg_config_home.filter(|folder| folder.is_absolute());
        let config = config.or_else(|| home.as_ref().map(|home| home.join(".config")));
        let state_file = match &home {
            Some(home) if !config_dir_named => home.join(".claude.json"),
            _ => config_dir.join(".claude.json"),
        };
        Self {
            repo: GitRepo::discover(&cwd),
            home,
            config_dir,
            cwd,
            managed_dir,
            state_file,
            git_config_dir: config.map(|config| config.join("git")),
            user: CurrentUser::for_process(also_owner),
        }
    }

    pub fn user_file(&self) -> PathBuf {
        self.config_dir.join("settings.json")
    }

    pub fn project_file(&self) -> PathBuf {
        self.cwd.join(".claude/settings.json")
    }

    /// Returns the file that local settings are written to, which has precedence over the legacy one.
    pub fn local_file(&self) -> PathBuf {
        self.local_settings_root().join(".claude/settings.local.json")
    }

    /// Returns the local file that earlier versions wrote in the starting directory, when that is another place.
    pub fn legacy_local_file(&self) -> Option<PathBuf> {
        (self.local_settings_root() != self.cwd).then(|| self.cwd.join(".claude/settings.local.json"))
    }

    pub fn managed_file(&self) -> PathBuf {
        self.managed_dir.join("managed-settings.json")
    }

    pub fn managed_drop_ins(&self) -> PathBuf {
        self.managed_dir.join("managed-settings.d")
    }

    /// Returns the folder that trust applies to: the repository's main checkout, or the starting directory.
    pub fn trust_root(&self) -> &Path {
        self.repo.as_ref().map_or(&self.cwd, |repo| &repo.main_root)
    }

    /// Returns the folder that must contain the project's files.
    pub fn project_root(&self) -> &Path {
        self.repo.as_ref().map_or(&self.cwd, |repo| &repo.root)
    }

    /// Returns the files that decide about permissions: settings of every scope and the records of trust.
    pub fn permission_files(&self) -> Vec<PathBuf> {
        let mut files = vec![self.user_file(), self.project_file(), self.local_file(), self.managed_file()];
        files.extend(self.legacy_local_file());
        files.extend([self.state_file.clone(), self.trust_file()]);
        files
    }

    /// Returns the path of gimlet's own trust record.
    pub(crate) fn trust_file(&self) -> PathBuf {
        self.config_dir.join("gimlet/trust.json")
    }

    pub fn is_home_dir(&self) -> bool {
        let real = self.home.as_ref().map(|home| home.canonicalize().unwrap_or_else(|_| home.clone()));
        real.is_some_and(|home| home == self.trust_root())
    }

    /// Returns the folder whose `.claude` holds the local file: the repository's, where that is safely the user's own.
    fn local_settings_root(&self) -> &Path {
        let Some(repo) = &self.repo else { return &self.cwd };
        let root = &repo.main_root;
        let at_home = self.home.as_ref().is_some_and(|home| home.canonicalize().is_ok_and(|home| home == *root));
        let parts = [root.clone(), root.join(".git"), root.join(".claude")];
        if at_home || !parts.iter().all(|part| is_owned_or_missing(part)) { &self.cwd } else { root }
    }
}

/// Returns true if a path belongs to the current user or does not exist.
fn is_owned_or_missing(path: &Path) -> bool {
    match path.metadata() {
        Ok(metadata) => metadata.uid() == rustix::process::geteuid().as_raw(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}
