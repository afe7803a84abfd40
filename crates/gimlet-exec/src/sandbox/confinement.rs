//! Confinement of commands that run without asking the user only because the analysis found them read-only.
//!
//! Such a command and everything that it starts can read the working directories, the system's programs and a short
//! list of tool homes, can write nothing but a temporary folder and `/dev/null`, and has no network. So a mistake of
//! the analysis reads nothing secret, changes nothing and sends nothing. It is not the sandbox: no mounts, no
//! namespaces and no helper process, only a Landlock rule set that is built once and a system call filter.
//!
//! Nothing here decides which commands are confined.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use gimlet_proto::Env;
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::credential_stores::{credential_stores, link_targets_in};
use super::default_spec::MACHINE_SECRETS;
use super::landlock::{
    CHANGE, EXECUTE, LandlockRules, READ_DIR, READ_FILE, TRUNCATE, WRITE_FILE, handled_access, list_around,
};
use super::repository_paths::{RepositoryPaths, git_configuration_files};
use super::sandbox_syscalls::{self, landlock_abi};
use super::seccomp::{self, InetAccess};

/// Folders of the system that programs are loaded from.
const SYSTEM_PROGRAMS: &[&str] = &[
    "/bin",
    "/gnu/store",
    "/home/linuxbrew/.linuxbrew",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix",
    "/opt",
    "/run/current-system",
    "/sbin",
    "/snap",
    "/usr",
];
/// Files and folders of the system that programs read.
const SYSTEM_DATA: &[&str] = &[
    "/etc",
    "/proc",
    "/run/systemd/resolve",
    "/run/utmp",
    "/sys",
    "/var/lib/dpkg",
    "/var/lib/pacman",
    "/var/lib/rpm",
    "/var/lib/sss/mc",
];
/// Paths below them that contain credentials. Their modes keep other users out, but not root.
const SYSTEM_CREDENTIALS: &[&str] = &[
    "/etc/NetworkManager",
    "/etc/apt/auth.conf",
    "/etc/apt/auth.conf.d",
    "/etc/ipsec.secrets",
    "/etc/krb5.keytab",
    "/etc/kubernetes",
    "/etc/letsencrypt",
    "/etc/mysql/debian.cnf",
    "/etc/openvpn",
    "/etc/ppp",
    "/etc/rancher",
    "/etc/security/opasswd",
    "/etc/ssl/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/wireguard",
    "/etc/wpa_supplicant",
];
/// Devices that can be read, and written without an effect.
const DEVICES: &[&str] = &["/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero"];

/// Places below the home folder that hold programs of the user, or configuration that read-only commands go by. None of
/// them is a place for credentials.
const TOOL_HOMES: &[&str] = &[
    ".asdf",
    ".bun",
    ".cabal/bin",
    ".cargo/bin",
    ".cargo/config",
    ".cargo/config.toml",
    ".cargo/env",
    ".config/bat",
    ".config/fd",
    ".config/git/attributes",
    ".config/git/config",
    ".config/git/ignore",
    ".config/ripgrep",
    ".deno/bin",
    ".fdignore",
    ".ghcup",
    ".gitattributes",
    ".gitconfig",
    ".gitignore",
    ".gitignore_global",
    ".jenv",
    ".jq",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/rtx",
    ".local/share/uv",
    ".mise",
    ".nix-profile",
    ".nodenv",
    ".nvm",
    ".opam",
    ".pyenv",
    ".rbenv",
    ".ripgreprc",
    ".rustup",
    ".rvm",
    ".sdkman",
    ".swiftly",
    ".terminfo",
    ".volta",
    "bin",
    "go/bin",
    "miniconda3",
    "miniforge3",
];
/// Variables that name such a place elsewhere.
const TOOL_HOME_VARIABLES: &[&str] = &[
    "ASDF_DATA_DIR",
    "BUN_INSTALL",
    "CONDA_PREFIX",
    "FNM_DIR",
    "GIT_CONFIG_GLOBAL",
    "GOROOT",
    "JAVA_HOME",
    "MISE_DATA_DIR",
    "NVM_DIR",
    "PNPM_HOME",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "RIPGREP_CONFIG_PATH",
    "RUSTUP_HOME",
    "VIRTUAL_ENV",
    "VOLTA_HOME",
];

/// Resources that confined commands can reach.
#[derive(Debug, Clone)]
pub struct ConfinementSpec {
    /// The working directories.
    pub roots: Vec<PathBuf>,
    /// Further places that they may read, such as the session's stored results.
    pub readable: Vec<PathBuf>,
    /// Further paths that may not be read, wherever they are.
    pub closed: Vec<PathBuf>,
    pub home: Option<PathBuf>,
    /// The folder of gimlet's own configuration.
    pub config_home: PathBuf,
    /// A temporary folder of these commands' own; created if missing.
    pub temp_dir: PathBuf,
    /// The environment of the commands: its `PATH` determines where programs are.
    pub env: Env,
}

/// Restrictions of confined commands. Building them takes some hundred system calls, applying them to a command
/// three.
#[derive(Debug)]
pub struct Confinement {
    /// The Landlock rules; `None` where the kernel has no Landlock.
    rules: Option<OwnedFd>,
    temp_dir: PathBuf,
    /// The folders that the rules were built for, as they were then.
    folders: Vec<KnownFolder>,
}

/// A folder as it was when rules were built for it.
#[derive(Debug, PartialEq, Eq)]
struct KnownFolder {
    path: PathBuf,
    /// Device and inode number; `None` if it did not exist.
    identity: Option<(u64, u64)>,
    /// When its entries changed last, if the rules are about single entries.
    changed_at: Option<(i64, u64)>,
}

impl KnownFolder {
    /// Creates the entry of a folder that has one rule as a whole.
    fn for_whole_folder(path: &Path) -> Self {
        let identity = rustix::fs::stat(path).ok().map(|stat| (stat.st_dev, stat.st_ino));
        Self { path: path.to_owned(), identity, changed_at: None }
    }

    /// Creates the entry of a folder whose entries have rules of their own, because something in it is closed.
    fn for_entries(path: &Path) -> Self {
        let changed_at = rustix::fs::stat(path).ok().map(|stat| (stat.st_mtime, stat.st_mtime_nsec));
        Self { changed_at, ..Self::for_whole_folder(path) }
    }

    fn is_unchanged(&self) -> bool {
        let now =
            if self.changed_at.is_some() { Self::for_entries(&self.path) } else { Self::for_whole_folder(&self.path) };
        *self == now
    }
}

impl Confinement {
    /// Builds the rules. Without Landlock there are none, and commands only get an environment of their own.
    pub fn build(spec: &ConfinementSpec) -> io::Result<Self> {
        gimlet_fs::create_private_dir_all(&spec.temp_dir)?;
        let abi = landlock_abi();
        let folders =
            spec.roots.iter().chain(&spec.readable).map(|folder| KnownFolder::for_whole_folder(folder)).collect();
        let mut built = Self { rules: None, temp_dir: spec.temp_dir.clone(), folders };
        if abi > 0 {
            let rules = LandlockRules::new(handled_access(abi, InetAccess::None, false))?;
            let mut allowed = AllowedPlaces { rules, closed: closed_places(spec), by_entries: Vec::new() };
            allowed.add_all(spec)?;
            built.folders.extend(allowed.by_entries);
            built.rules = Some(allowed.rules.into_descriptor());
        }
        Ok(built)
    }

    /// Returns true if the kernel enforces the rules.
    pub fn is_enforced(&self) -> bool {
        self.rules.is_some()
    }

    /// Returns the folder that confined commands may write.
    pub fn temp_dir(&self) -> &Path {
        &self.temp_dir
    }

    /// Returns true while the rules still say what they would say if they were built now, as far as the working
    /// directories are concerned.
    pub fn is_current(&self) -> bool {
        self.folders.iter().all(KnownFolder::is_unchanged)
    }

    pub(crate) fn rules(&self) -> Option<BorrowedFd<'_>> {
        self.rules.as_ref().map(AsFd::as_fd)
    }
}

/// Returns true when this kernel can confine commands.
pub fn can_confine() -> bool {
    landlock_abi() > 0
}

/// Restricts this process, and all it becomes and starts, to a set of rules and to the filter of confined commands.
pub(crate) fn enforce(rules: &OwnedFd) -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    drop_privileges()?;
    sandbox_syscalls::enforce_rules(rules)?;
    sandbox_syscalls::enforce_filter(&mut seccomp::confined_filter())
}

/// Drops all of root's capabilities except reading and naming any file. Landlock does not govern the rest: a process
/// that may read performance data, for one, may read the environment of every process. Without new privileges no
/// program regains them.
fn drop_privileges() -> io::Result<()> {
    let kept = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    let had = rustix::thread::capabilities(None)?;
    let left = CapabilitySets {
        effective: had.effective & kept,
        permitted: had.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    if left == had { Ok(()) } else { Ok(rustix::thread::set_capabilities(None, left)?) }
}

/// Rules under construction, which leave closed places out.
struct AllowedPlaces {
    rules: LandlockRules,
    closed: Vec<PathBuf>,
    /// Folders that hold closed places, of which everything else was added one by one.
    by_entries: Vec<KnownFolder>,
}

impl AllowedPlaces {
    fn add_all(&mut self, spec: &ConfinementSpec) -> io::Result<()> {
        let read = READ_FILE | READ_DIR;
        for folder in SYSTEM_PROGRAMS {
            self.add(folder.as_ref(), read | EXECUTE)?;
        }
        for place in SYSTEM_DATA {
            self.add(place.as_ref(), read)?;
        }
        for place in tool_homes(spec) {
            self.add(&place, read | EXECUTE)?;
        }
        for place in git_configuration_files(spec.home.as_deref()) {
            self.add(&place, read)?;
        }
        for root in &spec.roots {
            self.add(root, read)?;
            for place in RepositoryPaths::for_folder(root, spec.home.as_deref()).readable() {
                self.add(place, read)?;
            }
        }
        for place in &spec.readable {
            // The session's own, also inside a folder that is closed.
            self.rules.allow(place, read)?;
        }
        for device in DEVICES {
            self.rules.allow(device.as_ref(), READ_FILE | WRITE_FILE | TRUNCATE)?;
        }
        self.rules.allow(&spec.temp_dir, CHANGE & !EXECUTE)
    }

    /// Allows these rights beneath a path. Adds nothing for a path that is missing, closed, or so far up that it
    /// contains everything.
    fn add(&mut self, place: &Path, rights: u64) -> io::Result<()> {
        let Ok(real) = place.canonicalize() else { return Ok(()) };
        let is_closed = self.closed.iter().any(|closed| real.starts_with(closed));
        if is_closed || real.parent().is_none() {
            return Ok(());
        }
        let inside: Vec<PathBuf> = self.closed.iter().filter(|closed| closed.starts_with(&real)).cloned().collect();
        if inside.is_empty() {
            return self.rules.allow_real(&real, rights);
        }
        // Names can be listed everywhere in it; otherwise the folder itself could not be.
        self.rules.allow_real(&real, rights & READ_DIR)?;
        let surrounding = list_around(&real, &inside);
        if !is_always_new(&real) {
            self.by_entries.extend(surrounding.listed.iter().map(|folder| KnownFolder::for_entries(folder)));
        }
        surrounding.open.iter().try_for_each(|path| self.rules.allow_real(path, rights))
    }
}

/// Returns true if the kernel creates a folder anew on every access, so that its time is meaningless.
fn is_always_new(real: &Path) -> bool {
    ["/proc", "/sys"].iter().any(|folder| real.starts_with(folder))
}

/// Returns the paths that are never readable: credentials of the user and of the machine, gimlet's own configuration
/// and sessions, and paths closed by settings. Only existing ones, with symlinks resolved.
fn closed_places(spec: &ConfinementSpec) -> Vec<PathBuf> {
    let home = spec.home.as_deref();
    let mut closed: Vec<PathBuf> = MACHINE_SECRETS.iter().map(PathBuf::from).collect();
    closed.extend(SYSTEM_CREDENTIALS.iter().map(PathBuf::from));
    closed.push(spec.config_home.clone());
    closed.extend([".credentials.json", ".claude.json"].map(|name| spec.config_home.join(name)));
    closed.extend(home.map(|home| home.join(".claude.json")));
    closed.extend(credential_stores(home, &spec.env));
    let kept_open: Vec<PathBuf> = spec.roots.iter().cloned().chain(home.map(Path::to_owned)).collect();
    closed.extend(link_targets_in(&closed, &kept_open));
    closed.extend(spec.closed.iter().cloned());
    let mut real: Vec<PathBuf> = closed.iter().filter_map(|path| path.canonicalize().ok()).collect();
    // A working directory inside gimlet's own folder is what the user works on.
    let holds_root =
        |path: &PathBuf| spec.roots.iter().any(|root| root.canonicalize().is_ok_and(|root| root.starts_with(path)));
    real.retain(|path| path.parent().is_some() && !holds_root(path));
    real.sort_unstable();
    real.dedup();
    real
}

/// Returns the folders of the user's programs, and the files that they use.
fn tool_homes(spec: &ConfinementSpec) -> Vec<PathBuf> {
    let at_home = spec.home.iter().flat_map(|home| TOOL_HOMES.iter().map(|name| home.join(name)));
    let named = TOOL_HOME_VARIABLES.iter().filter_map(|name| spec.env.raw(name).map(PathBuf::from));
    let on_path = spec.env.raw("PATH").map(|path| std::env::split_paths(path).collect::<Vec<_>>()).unwrap_or_default();
    let home = spec.home.as_ref().and_then(|home| home.canonicalize().ok());
    // Under any name: a variable that points to the whole home does not name a tool's folder.
    let holds_home = |place: &PathBuf| {
        let real = place.canonicalize();
        real.is_ok_and(|real| home.as_ref().is_some_and(|home| home.starts_with(real)))
    };
    at_home.chain(named).chain(on_path).filter(|place| place.is_absolute() && !holds_home(place)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_about_entries_of_the_system_are_renewed_with_them() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let spec = ConfinementSpec {
            roots: vec![root.clone()],
            readable: Vec::new(),
            closed: vec!["/etc/passwd".into()],
            home: None,
            config_home: root.join("config"),
            temp_dir: root.join("temp"),
            env: Env::default(),
        };
        let built = Confinement::build(&spec).unwrap();
        // Programs replace files there by new ones, which have no rule.
        let is_watched =
            built.folders.iter().any(|known| known.path == Path::new("/etc") && known.changed_at.is_some());
        assert_eq!(is_watched, built.is_enforced());
        assert!(built.is_current());
    }
}
