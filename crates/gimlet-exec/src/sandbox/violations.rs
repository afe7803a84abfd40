//! Detection of command failures that the sandbox caused, from the command's output. Nothing is changed; paths are
//! inspected to find out what the system itself would have refused.
//!
//! Programs report failures in their own words. Only a message that names a closed path counts, or an error number
//! that the filter returns and little else does; a command that succeeded has no violations to report.

use std::path::{Component, Path, PathBuf};

use gimlet_proto::{NetworkAccess, SandboxSpec, SandboxViolation};

use super::proxy::ProxyRefusal;
use crate::exec::CommandExit;

/// The end of a command's output that is searched.
const TAIL_BYTES: usize = 64 * 1024;
/// Maximum number of reported violations; more are not useful.
const MAX_VIOLATIONS: usize = 10;

/// Words that a program uses when a write was refused by the mounts.
const READ_ONLY: &str = "read-only file system";
const DENIED: &[&str] = &["permission denied", "operation not permitted", "eacces", "eperm", "erofs", READ_ONLY];
/// Messages of programs without a network.
const NO_NETWORK: &[&str] = &[
    "could not resolve host",
    "temporary failure in name resolution",
    "network is unreachable",
    "name or service not known",
    "getaddrinfo",
    "eai_again",
    "failed to resolve",
    "dns error",
    "could not resolve hostname",
];

/// Messages of programs that were not allowed to connect.
const NO_CONNECTION: &[&str] = &["cannot connect", "could not connect", "failed to connect", "communications error"];

/// Returns the last line of a command's output that reports a refusal by the system, or `None` if no line does.
pub fn find_refusal_line(output: &str) -> Option<&str> {
    let from = output.floor_char_boundary(output.len().saturating_sub(TAIL_BYTES));
    let is_refusal = |line: &&str| [DENIED, NO_NETWORK, NO_CONNECTION].iter().any(|words| contains_any(line, words));
    output.get(from..)?.lines().rfind(is_refusal).map(str::trim)
}

/// Facts about a command that ended in a sandbox.
#[derive(Debug, Clone, Copy)]
pub struct SandboxOutcome<'a> {
    pub spec: &'a SandboxSpec,
    pub cwd: &'a Path,
    pub exit: Option<CommandExit>,
    /// The output, or the end of it.
    pub output: &'a str,
    pub refusals: &'a [ProxyRefusal],
}

/// Returns the actions that the sandbox kept the command from.
pub fn find_violations(aftermath: SandboxOutcome<'_>) -> Vec<SandboxViolation> {
    find_violations_with(aftermath, is_writable_outside)
}

/// Returns the violations; `could_write` returns true if the user may write to a path outside the sandbox.
fn find_violations_with(aftermath: SandboxOutcome<'_>, could_write: fn(&Path) -> bool) -> Vec<SandboxViolation> {
    let SandboxOutcome { spec, cwd, exit, output, refusals } = aftermath;
    let mut found: Vec<SandboxViolation> = refusals
        .iter()
        .map(|refusal| SandboxViolation::Connect {
            host: refusal.host.clone(),
            port: refusal.port,
            reason: refusal.reason.to_string(),
        })
        .collect();
    let failed = exit.is_none_or(|exit| !exit.is_success());
    if failed {
        let from = output.len().saturating_sub(TAIL_BYTES);
        let tail = output.get(from..).or_else(|| output.get(from.saturating_sub(3)..)).unwrap_or(output);
        for line in tail.lines() {
            found.extend(find_closed_place(spec, cwd, line, could_write));
            if spec.network == NetworkAccess::Off && contains_any(line, NO_NETWORK) {
                found.push(SandboxViolation::Network);
            }
        }
        let died_of_filter =
            |exit: CommandExit| exit.signal == Some(libc::SIGSYS) || exit.code == Some(128 + libc::SIGSYS);
        if exit.is_some_and(died_of_filter) {
            found.push(SandboxViolation::SystemCall);
        }
    }
    let mut unique = Vec::new();
    for violation in found {
        if !unique.contains(&violation) {
            unique.push(violation);
        }
    }
    unique.truncate(MAX_VIOLATIONS);
    unique
}

fn contains_any(line: &str, words: &[&str]) -> bool {
    let lower = line.to_ascii_lowercase();
    words.iter().any(|word| lower.contains(word))
}

/// Returns the closed path that an error message names.
fn find_closed_place(
    spec: &SandboxSpec,
    cwd: &Path,
    line: &str,
    could_write: fn(&Path) -> bool,
) -> Option<SandboxViolation> {
    if !contains_any(line, DENIED) {
        return None;
    }
    let writing = contains_any(line, &[READ_ONLY, "erofs"]);
    let paths: Vec<PathBuf> =
        path_candidates(line).into_iter().map(|word| normalize_lexically(&cwd.join(word))).collect();
    let reading = paths.iter().find(|path| spec.deny_read.iter().any(|closed| path.starts_with(closed)));
    if let Some(path) = reading
        && !writing
    {
        return Some(SandboxViolation::Read { path: path.clone() });
    }
    // With mounts the kernel itself reports "read-only"; a plain refusal must name a path that is known to be closed,
    // and that would be open without the sandbox.
    let path = paths.into_iter().find(|path| !is_writable_in_sandbox(spec, path) && (writing || could_write(path)))?;
    Some(SandboxViolation::Write { path })
}

fn is_writable_in_sandbox(spec: &SandboxSpec, path: &Path) -> bool {
    let inside = |folders: &[PathBuf]| folders.iter().any(|folder| path.starts_with(folder));
    let scratch = || ["/tmp", "/dev", "/proc"].iter().any(|folder| path.starts_with(folder));
    let temp = || spec.temp_dir.as_deref().is_some_and(|temp| path.starts_with(temp));
    !inside(&spec.deny_write) && !inside(spec.own.as_slice()) && (inside(&spec.write) || scratch() || temp())
}

/// Returns true if this user may write to a path, or create it.
fn is_writable_outside(path: &Path) -> bool {
    let there = path.ancestors().find(|place| place.symlink_metadata().is_ok());
    there.is_some_and(|place| rustix::fs::access(place, rustix::fs::Access::WRITE_OK).is_ok())
}

/// Returns everything in a line that could be a path: quoted text, and words with a slash.
fn path_candidates(line: &str) -> Vec<&str> {
    let quoted = ['\'', '"', '`', '‘'].into_iter().flat_map(|quote| {
        let close = if quote == '‘' { '’' } else { quote };
        line.split(quote).skip(1).filter_map(move |rest| rest.split(close).next())
    });
    let plain = line.split([' ', '\t', ',', ';', '(', ')', '=', '[', ']']);
    let quotes = ['\'', '"', '`', '‘', '’'];
    let plain =
        plain.map(|word| word.trim_start_matches(quotes).trim_end_matches([':', '.', '!']).trim_end_matches(quotes));
    let is_path = |word: &&str| word.contains('/') && !word.contains("://") && word.len() > 1;
    quoted.chain(plain).filter(is_path).collect()
}

/// Normalises `.` and `..` in a path lexically: the path itself may be closed.
fn normalize_lexically(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_by_the_system_is_found_in_output() {
        let denied = "cat: /home/u/notes: Permission denied";
        assert_eq!(find_refusal_line(&format!("a\n{denied}\nb")), Some(denied));
        assert!(find_refusal_line("ping: example.org: Temporary failure in name resolution").is_some());
        assert_eq!(find_refusal_line("grep: nothing: No such file or directory"), None);
        assert_eq!(find_refusal_line(""), None);
    }
    use crate::sandbox::proxy::RefusalReason;

    fn spec() -> SandboxSpec {
        SandboxSpec {
            write: vec!["/w".into()],
            deny_write: vec!["/w/.git/hooks".into()],
            deny_read: vec!["/home/me/.ssh".into()],
            temp_dir: Some("/t".into()),
            ..SandboxSpec::default()
        }
    }

    fn violations_in(exit: CommandExit, output: &str) -> Vec<SandboxViolation> {
        let aftermath = SandboxOutcome { spec: &spec(), cwd: "/w".as_ref(), exit: Some(exit), output, refusals: &[] };
        find_violations_with(aftermath, |path| !path.starts_with("/root"))
    }

    const FAILED: CommandExit = CommandExit { code: Some(1), signal: None };

    #[test]
    fn messages_that_name_closed_places_are_recognised() {
        let write = |path: &str| SandboxViolation::Write { path: path.into() };
        let read = |path: &str| SandboxViolation::Read { path: path.into() };
        for (line, expected) in [
            ("touch: cannot touch '/etc/x': Read-only file system", write("/etc/x")),
            ("bash: line 1: /opt/a: Permission denied", write("/opt/a")),
            ("bash: ../up: Read-only file system", write("/up")),
            ("error: cannot open .git/hooks/pre-commit: Permission denied", write("/w/.git/hooks/pre-commit")),
            ("cat: /home/me/.ssh/id_rsa: Permission denied", read("/home/me/.ssh/id_rsa")),
            ("PermissionError: [Errno 13] Permission denied: '/home/me/.ssh'", read("/home/me/.ssh")),
            ("Error: EROFS: read-only file system, open '/usr/lib/x'", write("/usr/lib/x")),
            ("cp: cannot create '/root/x': Read-only file system", write("/root/x")),
            ("mkdir: cannot create directory ‘/srv/a b’: Read-only file system", write("/srv/a b")),
            ("curl: (6) Could not resolve host: example.org", SandboxViolation::Network),
        ] {
            assert_eq!(violations_in(FAILED, line), [expected], "{line}");
        }
        assert_eq!(
            violations_in(CommandExit { code: None, signal: Some(libc::SIGSYS) }, ""),
            [SandboxViolation::SystemCall]
        );
    }

    #[test]
    fn ordinary_failures_and_successes_are_not_blamed_on_the_sandbox() {
        for line in [
            "/w/a.rs:1: error: no such thing",
            "cat: /etc/nothing: No such file or directory",
            "bash: /w/script.sh: Permission denied",
            "test permission denied ... FAILED",
            "touch: cannot touch '/t/x': Permission denied",
            "ls: cannot open directory '/root': Permission denied",
        ] {
            assert_eq!(violations_in(FAILED, line), [], "{line}");
        }
        let succeeded = CommandExit { code: Some(0), signal: None };
        assert_eq!(violations_in(succeeded, "touch: cannot touch '/etc/x': Read-only file system"), []);
    }

    #[test]
    fn what_the_person_may_write_is_known_also_of_what_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        assert!(is_writable_outside(dir.path()) && is_writable_outside(&dir.path().join("a/b")));
    }

    #[test]
    fn refusals_of_the_proxy_count_also_when_the_command_went_on() {
        let refusal = ProxyRefusal { host: "evil.example".into(), port: 443, reason: RefusalReason::NotAllowed };
        let exit = Some(CommandExit { code: Some(0), signal: None });
        let spec = spec();
        let refusals = [refusal.clone(), refusal];
        let seen =
            find_violations(SandboxOutcome { spec: &spec, cwd: "/w".as_ref(), exit, output: "", refusals: &refusals });
        assert_eq!(seen.len(), 1);
        assert!(seen[0].to_string().contains("evil.example:443"), "{}", seen[0]);
    }
}
