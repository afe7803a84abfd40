//! Sandbox specification as plain data. It is computed from settings and rules elsewhere; the crate that starts
//! processes enforces it.

use std::fmt::Write;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Restrictions for one command. Paths are absolute; missing ones are skipped or, where that would open something,
/// watched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SandboxSpec {
    /// Folders and files that may be changed. Everything else is read-only.
    pub write: Vec<PathBuf>,
    /// Files are as open as without a sandbox, and only the rest is closed. The lists of paths mean nothing then.
    pub files_open: bool,
    /// Paths inside `write` that stay read-only. A path that is absent and appears while the command runs is removed.
    pub deny_write: Vec<PathBuf>,
    /// gimlet's own folder. It is read-only for commands, too; but gimlet writes there all the time, so only the
    /// paths in it that `deny_write` names are compared and restored.
    pub own: Option<PathBuf>,
    /// Paths that cannot be read.
    pub deny_read: Vec<PathBuf>,
    /// Exceptions that can be read inside `deny_read` and inside the hidden temp folder.
    pub allow_read: Vec<PathBuf>,
    /// The command's own temp folder, writable and named to it; `/tmp` itself is empty and private.
    pub temp_dir: Option<PathBuf>,
    pub network: NetworkAccess,
    /// Sockets among the command's own processes, on a private loopback interface.
    pub local_sockets: bool,
    /// Unix sockets by name, which reach any listener on the machine: container engines, agents, displays.
    pub unix_sockets: bool,
    /// Variables that hold credentials are removed, except these.
    pub keep_env: Vec<String>,
    /// Further variables that are removed.
    pub hide_env: Vec<String>,
    /// Variables of which a command sees that they are set, but not to what.
    pub mask_env: Vec<String>,
    /// The most processes at one time, where the system can count them.
    pub max_processes: Option<u64>,
    /// Maximum bytes of private memory per process.
    pub max_memory: Option<u64>,
}

impl Default for SandboxSpec {
    fn default() -> Self {
        Self {
            write: Vec::new(),
            files_open: false,
            deny_write: Vec::new(),
            own: None,
            deny_read: Vec::new(),
            allow_read: Vec::new(),
            temp_dir: None,
            network: NetworkAccess::Off,
            local_sockets: false,
            unix_sockets: false,
            keep_env: Vec::new(),
            hide_env: Vec::new(),
            mask_env: Vec::new(),
            max_processes: Some(4096),
            max_memory: None,
        }
    }
}

/// Network access of a command.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NetworkAccess {
    /// Nowhere.
    #[default]
    Off,
    /// Through gimlet's proxy, to the hosts that a pattern allows and none denies: `host`, `*.host` or `*`, each with
    /// an optional `:port`.
    Proxy { allow: Vec<String>, deny: Vec<String> },
}

/// Something that a command tried and the sandbox did not let it do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum SandboxViolation {
    /// A write outside of what may be written.
    Write { path: PathBuf },
    /// A read of something that is closed.
    Read { path: PathBuf },
    /// A connection that the proxy refused.
    Connect { host: String, port: u16, reason: String },
    /// Network use of a command that has none.
    Network,
    /// A system call that is closed to all sandboxed commands.
    SystemCall,
    /// A protected file that was created or changed while the command ran. It was moved away, or removed if that
    /// failed, and the earlier content is restored.
    Tampered { path: PathBuf, moved_to: Option<PathBuf> },
    /// A protected file that the command could not write, until the command or another process replaced it. The
    /// earlier content is restored.
    Replaced { path: PathBuf, moved_to: PathBuf },
    /// A protected file that could not be restored.
    Lost { path: PathBuf, why: String },
    /// A protected file that was created or changed while the command ran, and could not be removed.
    Left { path: PathBuf, why: String },
    /// Not all folders could be read after the command.
    Unseen,
}

impl SandboxViolation {
    /// Returns true if it reports changes that a command left behind, not an action that was blocked.
    pub fn is_tampering(&self) -> bool {
        matches!(self, Self::Tampered { .. } | Self::Replaced { .. }) || self.is_cleanup_failure()
    }

    /// Returns true if such changes could not be cleaned up completely.
    pub fn is_cleanup_failure(&self) -> bool {
        match self {
            Self::Lost { .. } | Self::Left { .. } | Self::Unseen => true,
            Self::Tampered { moved_to, .. } => moved_to.is_none(),
            Self::Write { .. }
            | Self::Read { .. }
            | Self::Connect { .. }
            | Self::Network
            | Self::SystemCall
            | Self::Replaced { .. } => false,
        }
    }
}

impl std::fmt::Display for SandboxViolation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut f = OneLineWriter(f);
        match self {
            Self::Write { path } => write!(f, "writing {} is not allowed", path.display()),
            Self::Read { path } => write!(f, "reading {} is not allowed", path.display()),
            Self::Connect { host, port, reason } => write!(f, "connecting to {host}:{port} is not allowed: {reason}"),
            Self::Network => f.write_str("the network is closed"),
            Self::SystemCall => f.write_str("a system call is closed"),
            Self::Tampered { path, moved_to: Some(moved_to) } => {
                write!(f, "{} is protected; the change was moved to {}", path.display(), moved_to.display())
            }
            Self::Tampered { path, moved_to: None } => {
                write!(f, "{} is protected; the change was removed, since it could not be moved away", path.display())
            }
            Self::Replaced { path, moved_to } => write!(
                f,
                "{} is protected and was replaced while the command ran, by it or by somebody else; it is what it was, and \
                 what was there is at {}",
                path.display(),
                moved_to.display()
            ),
            Self::Lost { path, why } => write!(f, "{} was changed and is not back: {why}", path.display()),
            Self::Left { path, why } => write!(
                f,
                "{} is protected and was made or changed, and could not be taken away ({why}); others may run what is in it",
                path.display()
            ),
            Self::Unseen => f.write_str(
                "there are more folders than can be looked into, or they are too deep; repositories in them are not guarded",
            ),
        }
    }
}

/// Escapes control characters and line ends, so that a file name cannot add lines of its own.
struct OneLineWriter<'a, 'b>(&'a mut std::fmt::Formatter<'b>);

impl Write for OneLineWriter<'_, '_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let ends_line = |char: char| char.is_control() || matches!(char, '\u{2028}' | '\u{2029}');
        text.chars().try_for_each(|char| match ends_line(char) {
            true => write!(self.0, "{}", char.escape_default()),
            false => self.0.write_char(char),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_in_paths_are_escaped() {
        let path = PathBuf::from("/p/a\ngimlet: sandbox: fine\u{1b}[2K\u{2028}é/.mcp.json");
        let shown = r"/p/a\ngimlet: sandbox: fine\u{1b}[2K\u{2028}é/.mcp.json";
        assert_eq!(
            SandboxViolation::Write { path: path.clone() }.to_string(),
            format!("writing {shown} is not allowed")
        );
        let moved = SandboxViolation::Tampered { path: path.clone(), moved_to: Some(path) }.to_string();
        assert_eq!(moved, format!("{shown} is protected; the change was moved to {shown}"));
    }
}
