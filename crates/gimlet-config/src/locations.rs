//! Where the files are: the person's, the project's and the administrator's. A repository is found by reading its
//! `.git` alone; git itself runs what a repository's configuration says, so it is never started here.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::bounded_read;
use crate::file_ownership::CurrentUser;

/// Where managed settings lie on this system.
pub const MANAGED_DIR: &str =
    if cfg!(target_os = "macos") { "/Library/Application Support/ClaudeCode" } else { "/etc/claude-code" };

/// Files of git that name a place are one line.
const GIT_POINTER_MAX_BYTES: u64 = 64 * 1024;

/// What a caller knows about its surroundings.
#[derive(Clone, Debug)]
pub struct LocationContext {
    pub home: Option<PathBuf>,
    /// `~/.claude`, or the folder that stands in its place.
    pub config_dir: PathBuf,
    /// Whether that folder was named by the environment; other programs' state then lies inside it.
    pub config_dir_named: bool,
    /// The folder gimlet was started in, without links.
    pub cwd: PathBuf,
    pub managed_dir: PathBuf,
    /// Where programs keep the person's configuration, when that is not `~/.config`.
    pub xdg_config_home: Option<PathBuf>,
    /// A further user whose files are the person's own.
    pub also_owner: Option<u32>,
}

/// Every place that is looked at.
#[derive(Clone, Debug)]
pub struct SettingsLocations {
    pub home: Option<PathBuf>,
    pub config_dir: PathBuf,
    pub cwd: PathBuf,
    pub managed_dir: PathBuf,
    /// The repository that the working directory lies in.
    pub repo: Option<GitRepo>,
    /// `.claude.json`: state shared with other programs.
    pub state_file: PathBuf,
    /// Where the person's git is configured, beside `~/.gitconfig`.
    pub(crate) git_config_dir: Option<PathBuf>,
    pub(crate) user: CurrentUser,
}

/// A git repository, as its files describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitRepo {
    /// The top of the checkout.
    pub root: PathBuf,
    /// This checkout's own git folder.
    pub git_dir: PathBuf,
    /// The git folder that all checkouts of the repository share.
    pub common_dir: PathBuf,
    /// The top of the main checkout; the same as `root` outside linked worktrees.
    pub main_root: PathBuf,
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

    /// Where local settings are written, and read with the strongest say.
    pub fn local_file(&self) -> PathBuf {
        self.local_settings_root().join(".claude/settings.local.json")
    }

    /// A local file that earlier versions wrote in the starting directory, when that is another place.
    pub fn legacy_local_file(&self) -> Option<PathBuf> {
        (self.local_settings_root() != self.cwd).then(|| self.cwd.join(".claude/settings.local.json"))
    }

    pub fn managed_file(&self) -> PathBuf {
        self.managed_dir.join("managed-settings.json")
    }

    pub fn managed_drop_ins(&self) -> PathBuf {
        self.managed_dir.join("managed-settings.d")
    }

    /// The folder that trust is given to: the repository's main checkout, or the starting directory.
    pub fn trust_root(&self) -> &Path {
        self.repo.as_ref().map_or(&self.cwd, |repo| &repo.main_root)
    }

    /// The folder that the project's files must really lie in.
    pub fn project_root(&self) -> &Path {
        self.repo.as_ref().map_or(&self.cwd, |repo| &repo.root)
    }

    /// The files that say what is allowed: settings of every scope and the records of trust. Whoever writes them decides
    /// about permissions.
    pub fn permission_files(&self) -> Vec<PathBuf> {
        let mut files = vec![self.user_file(), self.project_file(), self.local_file(), self.managed_file()];
        files.extend(self.legacy_local_file());
        files.extend([self.state_file.clone(), self.trust_file()]);
        files
    }

    /// gimlet's own record of what was accepted.
    pub(crate) fn trust_file(&self) -> PathBuf {
        self.config_dir.join("gimlet/trust.json")
    }

    pub fn is_home_dir(&self) -> bool {
        let real = self.home.as_ref().map(|home| home.canonicalize().unwrap_or_else(|_| home.clone()));
        real.is_some_and(|home| home == self.trust_root())
    }

    /// The folder whose `.claude` holds the local file: the repository's, where that is safely the person's own.
    fn local_settings_root(&self) -> &Path {
        let Some(repo) = &self.repo else { return &self.cwd };
        let root = &repo.main_root;
        let at_home = self.home.as_ref().is_some_and(|home| home.canonicalize().is_ok_and(|home| home == *root));
        let parts = [root.clone(), root.join(".git"), root.join(".claude")];
        if at_home || !parts.iter().all(|part| is_owned_or_missing(part)) { &self.cwd } else { root }
    }
}

/// Whether a path belongs to the person who runs this; what is not there belongs to nobody else.
fn is_owned_or_missing(path: &Path) -> bool {
    match path.metadata() {
        Ok(metadata) => metadata.uid() == rustix::process::geteuid().as_raw(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

impl GitRepo {
    /// The repository that this folder lies in.
    pub fn discover(folder: &Path) -> Option<Self> {
        folder.ancestors().find_map(Self::open_at)
    }

    fn open_at(root: &Path) -> Option<Self> {
        let dot_git = root.join(".git");
        let metadata = dot_git.metadata().ok()?;
        let git_dir = if metadata.is_dir() {
            dot_git
        } else {
            // A linked worktree or a submodule: one line says where its git folder is.
            let text = bounded_read::read_text(&dot_git, GIT_POINTER_MAX_BYTES).ok().flatten()?;
            root.join(text.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?
        };
        if !git_dir.join("HEAD").exists() {
            return None;
        }
        let common_dir = Self::read_common_dir(&git_dir);
        let main_root = Self::find_main_root(root, &git_dir, &common_dir);
        Some(Self { root: root.to_owned(), git_dir, common_dir, main_root })
    }

    fn read_common_dir(git_dir: &Path) -> PathBuf {
        let pointer = bounded_read::read_text(&git_dir.join("commondir"), GIT_POINTER_MAX_BYTES).ok().flatten();
        let named = pointer.and_then(|text| git_dir.join(text.trim()).canonicalize().ok());
        named.unwrap_or_else(|| git_dir.to_owned())
    }

    /// The main checkout of a linked worktree. A folder can claim to be a worktree of any repository; it is one only
    /// if that repository's own record points back to it.
    fn find_main_root(root: &Path, git_dir: &Path, common_dir: &Path) -> PathBuf {
        let back = bounded_read::read_text(&git_dir.join("gitdir"), GIT_POINTER_MAX_BYTES).ok().flatten();
        let points_back = back.and_then(|text| git_dir.join(text.trim()).canonicalize().ok());
        let points_back = points_back.is_some_and(|path| path == root.join(".git"));
        let recorded = git_dir.parent().is_some_and(|parent| parent == common_dir.join("worktrees"));
        match common_dir.parent() {
            Some(main) if points_back && recorded && common_dir.ends_with(".git") => main.to_owned(),
            _ => root.to_owned(),
        }
    }
}
