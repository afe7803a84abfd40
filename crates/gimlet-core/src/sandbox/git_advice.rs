//! Advice for the model if the sandbox kept git from writing protected files. Git continues without them, often with
//! success, and the next commit would record the difference. Pure.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use gimlet_proto::{PROTECTED_NAMES, SandboxViolation};

const FILES: &str = "Where git tracks protected files, they are not as the branch has them now: `git status` shows which. Leave \
                     them out of commits (no `git commit -a`, no `git add -A`), and tell the person that they have to be \
                     checked out outside of the sandbox.";
const CONFIGURATION: &str = "The configuration of the repository cannot be written in the sandbox: what git did is done, but \
                             upstreams, remotes and options were not recorded in it or removed from it.";

/// Error texts of git about a blocked file.
const IN_THE_WAY: [&str; 2] = ["device or resource busy", "read-only file system"];

/// Returns the advice to add to a command's result.
pub(super) fn git_advice(command: &str, output: &str, found: &[SandboxViolation]) -> Vec<&'static str> {
    if !command.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == "git") {
        return Vec::new();
    }
    let lines = output.lines().map(str::to_ascii_lowercase);
    let in_the_way: Vec<String> = lines.filter(|line| IN_THE_WAY.iter().any(|words| line.contains(words))).collect();
    let of_files = found.iter().filter_map(violation_path).any(|path| is_trackable_file(path))
        || in_the_way.iter().any(|line| quoted_names(line).any(|name| is_trackable_file(Path::new(name))));
    let of_configuration = in_the_way.iter().any(|line| line.contains("config file"));
    [(of_files, FILES), (of_configuration, CONFIGURATION)]
        .into_iter()
        .filter_map(|(is, text)| is.then_some(text))
        .collect()
}

fn violation_path(violation: &SandboxViolation) -> Option<&PathBuf> {
    match violation {
        SandboxViolation::Tampered { path, .. }
        | SandboxViolation::Replaced { path, .. }
        | SandboxViolation::Lost { path, .. }
        | SandboxViolation::Left { path, .. }
        | SandboxViolation::Write { path } => Some(path),
        SandboxViolation::Read { .. }
        | SandboxViolation::Connect { .. }
        | SandboxViolation::Network
        | SandboxViolation::SystemCall
        | SandboxViolation::Unseen => None,
    }
}

/// Returns true if the path is a protected file that a repository can track.
fn is_trackable_file(path: &Path) -> bool {
    let is = |part: &OsStr, name: &str| part == name;
    let walled = |part: &OsStr| PROTECTED_NAMES.iter().any(|known| known.sandbox_read_only && is(part, known.name));
    let in_git = path.iter().any(|part| is(part, ".git"));
    !in_git && path.iter().any(|part| walled(part) || is(part, ".claude"))
}

/// Returns the possible paths in a message: git quotes them, or puts a colon after them.
fn quoted_names(line: &str) -> impl Iterator<Item = &str> {
    line.split([' ', '\'', '"', ':', ',']).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_git_at_protected_files_is_worth_a_word() {
        let tampered = [SandboxViolation::Tampered { path: "/w/.vscode/tasks.json".into(), moved_to: None }];
        assert_eq!(git_advice("cd x && git checkout two", "", &tampered), [FILES]);
        assert_eq!(git_advice("echo digit > .envrc", "", &tampered), [""; 0]);
        let hook = [SandboxViolation::Tampered { path: "/w/sub/.git/hooks".into(), moved_to: None }];
        assert_eq!(git_advice("git clone x", "", &hook), [""; 0]);
        let busy = "warning: unable to unlink '.envrc': Device or resource busy\nSwitched to branch 'two'\n";
        assert_eq!(git_advice("git checkout two", busy, &[]), [FILES]);
        let config = "error: could not write config file .git/config: Device or resource busy\n";
        assert_eq!(git_advice("git checkout feature", config, &[]), [CONFIGURATION]);
        assert_eq!(
            git_advice("git checkout feature", "error: unable to unlink 'a': Read-only file system", &[]),
            [""; 0]
        );
    }
}
