//! The default sandbox: nothing outside the working folder can be written, credentials cannot be read, and files that
//! determine how other programs behave in the folder stay unchanged.

use std::path::{Path, PathBuf};

use gimlet_fs::read_text_nofollow;
use gimlet_proto::{Env, PROTECTED_NAMES, SandboxSpec};

use super::credential_stores::{credential_stores, link_targets_in};
use super::repo_scan::is_repository;
use super::symlinks::{PATH_FILE, git_link_target};

/// Files in a home folder that run automatically, or name what other programs run, besides those protected in every
/// folder.
const STARTED_AT_HOME: &[&str] = &[
    ".gdbinit",
    ".inputrc",
    ".local/bin",
    ".local/share/applications",
    ".local/share/systemd/user",
    ".pam_environment",
    ".tmux.conf",
    ".vim",
    ".vimrc",
    ".xinitrc",
    ".xprofile",
    ".xsession",
    ".xsessionrc",
    "bin",
];
/// Such files in the folder in which programs keep configuration.
const STARTED_BY_CONFIG: &[&str] =
    &["autostart", "environment.d", "fish", "gdb", "git", "nvim", "systemd/user", "tmux"];
/// Secrets of the machine, some of which only a command of root could read, and those that are given to a container.
pub(super) const MACHINE_SECRETS: &[&str] = &[
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssh",
    "/run/agenix",
    "/run/secrets",
    "/var/run/secrets",
];

/// The parts of a `.claude` folder that run something or change what other programs trust.
pub const PROTECTED_IN_CLAUDE: &[&str] =
    &["agents", "commands", "hooks", "plugins", "settings.json", "settings.local.json", "skills", "workflows"];
/// Such files inside the folder of a repository; the last names the folder in which git finds the others.
const PROTECTED_IN_REPOSITORY: &[&str] = &["hooks", "config", "config.worktree", "commondir"];

/// Location of a default sandbox.
#[derive(Debug, Clone, Copy)]
pub struct SandboxPlace<'a> {
    /// The folder that commands work in.
    pub cwd: &'a Path,
    /// Further folders that they may write.
    pub write: &'a [PathBuf],
    /// Paths that settings, rules and flags open in addition. They are not working folders, so no repository
    /// elsewhere is opened for them.
    pub opened: &'a [PathBuf],
    pub home: Option<&'a Path>,
    /// gimlet's own configuration home.
    pub config_home: &'a Path,
    /// A folder that belongs to these commands alone.
    pub temp_dir: &'a Path,
    /// Environment; names further locations of paths that are closed.
    pub env: &'a Env,
}

/// Returns the spec for commands in a folder, with the network off.
pub fn default_sandbox_spec(place: SandboxPlace<'_>) -> SandboxSpec {
    let mut write = vec![place.cwd.to_owned()];
    write.extend(place.write.iter().cloned());
    // The root as working folder does not make the whole machine writable.
    write.retain(|folder| folder.parent().is_some());
    let mut deny_write: Vec<PathBuf> = place.home.iter().map(|home| home.join(".claude.json")).collect();
    for root in write.clone() {
        deny_write.extend(protected_in_folder(&root));
        // Git follows a `.git` file to any location. Nested repositories are searched before every command.
        match root.join(".git") {
            link if link.is_file() => deny_write.push(link),
            repository => deny_write.extend(protected_in_repository(&repository)),
        }
        if let Some(LinkedWorktree { own, common }) = LinkedWorktree::find(&root) {
            deny_write.extend(protected_in_repository(&common));
            deny_write.extend(protected_in_repository(&own));
            deny_write.push(own.join("gitdir"));
            write.push(common);
        }
    }
    let opened = protected_in_opened(&place, &write);
    deny_write.extend(opened.into_iter().filter(|path| !deny_write.contains(path)).collect::<Vec<_>>());
    let mut deny_read: Vec<PathBuf> = MACHINE_SECRETS.iter().map(PathBuf::from).collect();
    // The second contains the start parameters of servers, and the answers given per project.
    deny_read.extend([".credentials.json", ".claude.json"].map(|name| place.config_home.join(name)));
    deny_read.extend(place.home.map(|home| home.join(".claude.json")));
    deny_read.extend(credential_stores(place.home, place.env));
    let kept_open: Vec<PathBuf> = write.iter().cloned().chain(place.home.map(Path::to_owned)).collect();
    deny_read.extend(link_targets_in(&deny_read, &kept_open));
    write.extend(place.opened.iter().cloned());
    let (own, temp_dir) = (Some(place.config_home.to_owned()), Some(place.temp_dir.to_owned()));
    SandboxSpec { write, deny_write, own, deny_read, temp_dir, ..SandboxSpec::default() }
}

/// Returns the protected paths at the top of folders that are opened besides the working folders, and the writable
/// ones among the automatically started files in the home folder. A path that is named explicitly is not protected.
fn protected_in_opened(place: &SandboxPlace<'_>, write: &[PathBuf]) -> Vec<PathBuf> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let opened: Vec<PathBuf> = place.opened.iter().map(|path| real(path)).collect();
    let mut tops: Vec<PathBuf> =
        opened.iter().filter(|path| !path.is_file()).flat_map(|folder| protected_in_folder(folder)).collect();
    let roots = || write.iter().chain(&opened);
    let started = place.home.map(real).map(|home| autostart_paths(&home, place.env)).unwrap_or_default();
    tops.extend(started.into_iter().filter(|path| roots().any(|root| path.starts_with(root))));
    tops.retain(|path| !roots().any(|root| root == path));
    tops.sort_unstable();
    tops.dedup();
    tops
}

/// Returns the automatically started files in the home folder.
fn autostart_paths(home: &Path, env: &Env) -> Vec<PathBuf> {
    let moved = env.raw("XDG_CONFIG_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let folders = [Some(home.join(".config")), moved];
    let of_config = folders.iter().flatten().flat_map(|config| STARTED_BY_CONFIG.iter().map(|name| config.join(name)));
    let at_home = STARTED_AT_HOME.iter().map(|name| home.join(name));
    // The names that are protected in every folder are protected in the home folder, too.
    at_home.chain(of_config).chain(protected_in_folder(home)).collect()
}

/// Returns the paths that other programs run or trust at the top of a working folder.
pub(super) fn protected_in_folder(folder: &Path) -> Vec<PathBuf> {
    let names = PROTECTED_NAMES.iter().filter(|known| known.sandbox_read_only).map(|known| folder.join(known.name));
    names.chain(PROTECTED_IN_CLAUDE.iter().map(|name| folder.join(".claude").join(name))).collect()
}

/// Returns the paths that git runs or trusts in a repository's git directory.
pub(super) fn protected_in_repository(repository: &Path) -> Vec<PathBuf> {
    PROTECTED_IN_REPOSITORY.iter().map(|name| repository.join(name)).collect()
}

/// A linked worktree's own part of the repository that it belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LinkedWorktree {
    own: PathBuf,
    pub(super) common: PathBuf,
}

impl LinkedWorktree {
    /// Finds the worktree's repository. Only one that names this worktree itself counts: commands can write the file
    /// that points to it.
    pub(super) fn find(folder: &Path) -> Option<Self> {
        let link = folder.join(".git");
        let own = git_link_target(&link)?;
        let back = read_text_nofollow(&own.join("gitdir"), PATH_FILE).ok()?;
        let is_ours = own.join(back.trim()).canonicalize().ok()? == link.canonicalize().ok()?;
        let common = own.parent()?.parent()?.to_owned();
        let is_worktree = own.parent()?.file_name()? == "worktrees" && is_repository(&common);
        (is_ours && is_worktree).then_some(Self { own, common })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create_repository(at: &Path) {
        std::fs::create_dir_all(at.join("objects")).unwrap();
        std::fs::create_dir_all(at.join("refs")).unwrap();
        std::fs::write(at.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    }

    #[test]
    fn stores_of_credentials_are_closed() {
        let (home, config) = (Path::new("/h"), Path::new("/h/.claude"));
        let place = SandboxPlace {
            cwd: Path::new("/w"),
            write: &[],
            opened: &[],
            home: Some(home),
            config_home: config,
            temp_dir: Path::new("/t"),
            env: &Env::default(),
        };
        let closed = default_sandbox_spec(place).deny_read;
        for name in [
            ".claude.json",
            ".npmrc",
            ".pypirc",
            ".cargo/credentials.toml",
            ".config/gh",
            ".docker/config.json",
            ".claude/.credentials.json",
            ".claude/.claude.json",
        ] {
            assert!(closed.contains(&home.join(name)), "{name}");
        }
    }

    #[test]
    fn a_worktree_may_write_its_repository_and_a_forged_one_may_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (main, tree, forged) = (root.join("main/.git"), root.join("tree"), root.join("forged"));
        create_repository(&main);
        for (folder, name) in [(&tree, "tree"), (&forged, "forged")] {
            std::fs::create_dir_all(folder).unwrap();
            std::fs::create_dir_all(main.join("worktrees").join(name)).unwrap();
            let text = format!("gitdir: {}\n", main.join("worktrees").join(name).display());
            std::fs::write(folder.join(".git"), text).unwrap();
        }
        let back = |name: &str| main.join("worktrees").join(name).join("gitdir");
        std::fs::write(back("tree"), tree.join(".git").display().to_string()).unwrap();
        std::fs::write(back("forged"), root.join("elsewhere/.git").display().to_string()).unwrap();
        assert_eq!(
            LinkedWorktree::find(&tree),
            Some(LinkedWorktree { own: main.join("worktrees/tree"), common: main })
        );
        assert_eq!(LinkedWorktree::find(&forged), None);
    }

    #[test]
    fn a_git_that_is_no_file_holds_nobody_up() {
        let dir = tempfile::tempdir().unwrap();
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, dir.path().join(".git"), kind, rustix::fs::Mode::RWXU, 0).unwrap();
        assert_eq!(LinkedWorktree::find(dir.path()), None);
        std::fs::remove_file(dir.path().join(".git")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", dir.path().join(".git")).unwrap();
        assert_eq!(LinkedWorktree::find(dir.path()), None);
    }

    #[test]
    fn the_default_closes_and_protects_also_what_is_not_there_yet() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        let cwd = home.join("project");
        std::fs::create_dir_all(&cwd).unwrap();
        let temp = home.join("temp");
        let place = SandboxPlace {
            cwd: &cwd,
            write: &[],
            opened: &[],
            home: Some(home),
            config_home: &home.join(".claude"),
            temp_dir: &temp,
            env: &Env::default(),
        };
        let spec = default_sandbox_spec(place);
        assert_eq!(spec.write, std::slice::from_ref(&cwd));
        assert!(spec.deny_read.contains(&home.join(".ssh")) && spec.deny_read.contains(&home.join(".aws")));
        for name in [".mcp.json", ".git/hooks", ".claude/settings.json"] {
            assert!(spec.deny_write.contains(&cwd.join(name)), "{name}");
        }
    }

    #[test]
    fn what_is_opened_besides_is_protected_at_its_top_unless_it_is_named_itself() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (cwd, more, home) = (root.join("w"), root.join("more"), root.join("home"));
        for folder in [&cwd, &more, &home] {
            std::fs::create_dir(folder).unwrap();
        }
        std::os::unix::fs::symlink(&more, root.join("link")).unwrap();
        let opened = [root.join("link"), home.clone(), home.join(".vimrc"), home.join(".zshrc")];
        let around = |opened: &[PathBuf]| {
            default_sandbox_spec(SandboxPlace {
                cwd: &cwd,
                write: &[],
                opened,
                home: Some(&home),
                config_home: &home.join(".claude"),
                temp_dir: &root.join("temp"),
                env: &Env::default(),
            })
        };
        let spec = around(&opened);
        assert_eq!(spec.write, [&[cwd.clone()][..], &opened].concat());
        for path in [more.join(".envrc"), home.join(".bashrc"), home.join(".config/git"), home.join(".local/bin")] {
            assert!(spec.deny_write.contains(&path), "{}", path.display());
        }
        for path in &opened {
            assert!(!spec.deny_write.contains(path), "{}", path.display());
        }
        // A part of the home folder is as much of it.
        let part = around(&[home.join(".config"), home.join(".local/bin")]).deny_write;
        assert!(part.contains(&home.join(".config/autostart")), "{part:?}");
        for path in [".local/bin", ".bashrc"] {
            assert!(!part.contains(&home.join(path)), "{path}");
        }
    }

    #[test]
    fn gimlets_own_folder_is_not_taken_for_what_a_command_made_of_it() {
        use crate::sandbox::{RepoScanner, SandboxBackend, SandboxSupport, TamperGuard};
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        let (config, temp) = (home.join(".claude"), home.join("temp"));
        std::fs::create_dir_all(config.join("projects")).unwrap();
        std::fs::write(config.join("settings.json"), "{}").unwrap();
        let place = SandboxPlace {
            cwd: &home,
            write: &[],
            opened: &[],
            home: Some(&home),
            config_home: &config,
            temp_dir: &temp,
            env: &Env::default(),
        };
        let spec = default_sandbox_spec(place);
        assert_eq!(spec.own.as_ref(), Some(&config));
        // Automatically started files are protected when the working folder is the home.
        for name in [".config/git", ".local/bin", ".vimrc"] {
            assert!(spec.deny_write.contains(&home.join(name)), "{name}");
        }
        let (available, mut census) = (
            SandboxSupport { backend: SandboxBackend::Landlock, landlock_abi: 7, notes: Vec::new() },
            RepoScanner::default(),
        );
        let guard = TamperGuard::capture_before(&spec, &available, &mut census);
        std::fs::write(config.join("projects/transcript"), "of this very command").unwrap();
        std::fs::write(config.join("settings.json"), "evil").unwrap();
        assert_eq!(guard.restore_after(&config.join("gimlet/quarantine"), &mut census).len(), 1);
        assert!(config.join("projects/transcript").exists());
        assert_eq!(std::fs::read_to_string(config.join("settings.json")).unwrap(), "{}");
    }
}
