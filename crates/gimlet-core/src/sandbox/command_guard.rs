//! Guard of one sandboxed command: the scans before and after it, and the reports of violations.
//!
//! If a step that the sandbox depends on fails, no command is allowed any more merely for being sandboxed. If a
//! protected file that a command changed cannot be restored, no further command runs: other programs could execute
//! its content.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use gimlet_config::{SettingsLease, symlink_names_within};
use gimlet_exec::{CommandExit, RepoScanner, Sandbox, SandboxOutcome, SandboxProxy, TamperGuard, find_violations};
use gimlet_proto::{AgentPath, EventBody, Notice, NoticeLevel, SandboxViolation};

use super::SessionSandbox;
use super::git_advice::git_advice;
use super::pattern_scan::{PatternMatches, RememberedMatches};
use crate::services::SessionServices;
use crate::tool::ToolError;

/// State kept from one command to the next.
#[derive(Default)]
pub struct CommandGuardState {
    /// Separate lock, since a scan takes time and queries must not wait for it. Locked before the state.
    looking: Arc<Mutex<ScanState>>,
    /// States from before running commands, by number.
    running: BTreeMap<u64, PreCommandState>,
    started: u64,
    /// States from before commands whose end was not awaited.
    unchecked: Vec<PreCommandState>,
    /// Their violations, not yet reported to a model.
    untold: Vec<SandboxViolation>,
    /// Protected files that commands created or changed and that could not be removed.
    left: Vec<PathBuf>,
    /// Gap of the last scan before a command, if it was incomplete.
    overlooked: Option<ScanGap>,
}

/// Results of the folder scans.
#[derive(Default)]
struct ScanState {
    census: RepoScanner,
    remembered: RememberedMatches,
}

/// State of protected files and settings before a command that could change them.
struct PreCommandState {
    guard: TamperGuard,
    /// Until it is released, the settings from before the command apply.
    vouching: Option<SettingsLease>,
}

impl PreCommandState {
    /// Restores the files that the command changed and releases the settings. Returns the violations found.
    fn restore_protected_paths(mut self, quarantine: &Path, census: &mut RepoScanner) -> Vec<SandboxViolation> {
        for (file, vouched) in self.vouching.as_ref().map(SettingsLease::files).unwrap_or_default() {
            self.guard.expect(&file, vouched.text.as_deref(), vouched.rewritten);
        }
        let found = self.guard.restore_after(quarantine, census);
        self.vouching.into_iter().for_each(SettingsLease::release);
        found
    }

    /// Releases the state of a command that never ran.
    fn discard(self) {
        self.vouching.into_iter().for_each(SettingsLease::release);
    }
}

/// Kind of content that exceeded the limits of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScanGap {
    Folders,
    Patterns,
}

impl ScanGap {
    fn message(self) -> String {
        match self {
            Self::Folders => format!("the sandbox does not see everything: {}", SandboxViolation::Unseen),
            Self::Patterns => "the sandbox does not see everything: there are more files than are looked through for \
                               those that patterns close (`**/.env`); name them by their paths, or move what is large \
                               out of the working directories"
                .to_owned(),
        }
    }
}

/// Sandbox for the commands of a call.
#[derive(Clone)]
pub struct CallSandbox {
    pub(crate) session_sandbox: Arc<SessionSandbox>,
    /// Set if the call may have been allowed only because it is sandboxed.
    pub(crate) suffices: bool,
}

impl CallSandbox {
    /// Prepares the sandbox for one command and captures the state of protected files before it runs. Returns an
    /// error if the command must not run.
    pub async fn guard_command(&self, services: &Arc<SessionServices>) -> Result<CommandGuard, ToolError> {
        let session_sandbox = self.session_sandbox.clone();
        let look = move || session_sandbox.scan_before_command();
        let looked = tokio::task::spawn_blocking(look).await;
        let PreCommandScan { earlier, traces, found, overlooked, is_news } =
            looked.map_err(|error| ToolError::failed(format!("the sandbox was not set up: {error}")))?;
        let lasting = services.session_lifetime();
        publish_violations(&lasting, &earlier);
        if let Err(error) = self.session_sandbox.check_no_leftovers() {
            traces.discard();
            return Err(error);
        }
        if let Some(overlooked) = overlooked {
            if is_news {
                warn(&lasting, overlooked.message());
            }
            // The call was allowed because of the sandbox, which turns out to have a gap. The next call will need
            // approval.
            if self.suffices {
                traces.discard();
                let text = format!("Not run: {}. Call it again to have it asked about.", overlooked.message());
                return Err(ToolError::failed(text));
            }
        }
        let sandbox = self
            .session_sandbox
            .sandbox
            .with_read_only_paths(traces.guard.paths_to_mount())
            .with_read_only_paths(&found.kept);
        let sandbox = sandbox.with_unreadable_paths(traces.guard.closed_folders()).with_unreadable_paths(&found.closed);
        let number = lock(&self.session_sandbox.state).register_command(traces);
        Ok(CommandGuard { session_sandbox: self.session_sandbox.clone(), services: lasting, sandbox, number })
    }
}

/// Result of the scan before a command.
struct PreCommandScan {
    /// Violations of commands whose end was not awaited.
    earlier: Vec<SandboxViolation>,
    traces: PreCommandState,
    found: PatternMatches,
    overlooked: Option<ScanGap>,
    /// Set if the gap differs from that of the scan before the last command.
    is_news: bool,
}

impl SessionSandbox {
    /// Scans before a command. Blocks.
    fn scan_before_command(&self) -> PreCommandScan {
        let looking = self.scan_state();
        let mut looking = lock(&looking);
        let earlier = CommandGuardState::check_leftovers(&self.state, &mut looking, &self.quarantine);
        let traces = self.capture_state(&mut looking.census);
        let (found, overlooked) = self.find_matches(&mut looking.remembered, &traces.guard);
        let mut state = lock(&self.state);
        let is_news = state.overlooked != overlooked;
        state.overlooked = overlooked;
        PreCommandScan { earlier, traces, found, overlooked, is_news }
    }

    /// Finds the paths that match patterns; also returns the gap if these or the guard's scan are incomplete.
    fn find_matches(
        &self,
        remembered: &mut RememberedMatches,
        guard: &TamperGuard,
    ) -> (PatternMatches, Option<ScanGap>) {
        let found = match self.spec.files_open {
            true => PatternMatches::default(),
            false => {
                remembered.scan_folders(&self.spec.write, self.denied_files.as_ref(), self.read_only_files.as_ref())
            }
        };
        let partial = guard.is_partial().then_some(ScanGap::Folders);
        let overlooked = partial.or(found.is_partial.then_some(ScanGap::Patterns));
        (found, overlooked)
    }

    /// Scans again if the scan before the last command was incomplete. In a session without a user to ask, no next
    /// command would run that could find out.
    pub(crate) async fn rescan_if_partial(self: Arc<Self>) {
        if !self.has_scan_gap() {
            return;
        }
        let look = move || {
            let looking = self.scan_state();
            let mut looking = lock(&looking);
            let guard = TamperGuard::capture_before(&self.spec, &self.available, &mut looking.census);
            // A gap is reported when a command is about to run.
            if self.find_matches(&mut looking.remembered, &guard).1.is_none() {
                lock(&self.state).overlooked = None;
            }
        };
        // If the scan fails, the state is unchanged.
        drop(tokio::task::spawn_blocking(look).await);
    }

    /// Captures the state of protected files and settings.
    fn capture_state(&self, census: &mut RepoScanner) -> PreCommandState {
        let guard = TamperGuard::capture_before(&self.spec, &self.available, census);
        let vouching = match &self.settings {
            Some(settings) if !self.spec.files_open => {
                // Under every symlink name: settings are read by one path, and a command may write through another.
                let names = settings.files.iter().flat_map(|file| symlink_names_within(file, &self.spec.write));
                let files = guard.settings_files().iter().cloned().chain(names);
                Some(SettingsLease::begin(&settings.locations, files))
            }
            _ => None,
        };
        PreCommandState { guard, vouching }
    }

    /// Checks commands whose end was not awaited; they must have ended. Blocks.
    pub(crate) fn check_leftovers(&self) -> Vec<SandboxViolation> {
        let looking = self.scan_state();
        CommandGuardState::check_leftovers(&self.state, &mut lock(&looking), &self.quarantine)
    }

    fn scan_state(&self) -> Arc<Mutex<ScanState>> {
        lock(&self.state).looking.clone()
    }

    /// Checks leftovers at the end of a session, when violations can be reported to the user only.
    pub(crate) async fn check_at_session_end(self: Arc<Self>, services: &SessionServices) {
        match tokio::task::spawn_blocking(move || self.check_leftovers()).await {
            Ok(found) => violation_notices(&found).for_each(|notice| services.publish(&AgentPath::default(), notice)),
            Err(error) => {
                let text = format!("sandbox: traces of commands could not be looked for: {error}");
                services.publish(&AgentPath::default(), warning_notice(text));
            }
        }
    }

    /// Returns true if the last scan before a command was incomplete.
    pub(super) fn has_scan_gap(&self) -> bool {
        lock(&self.state).overlooked.is_some()
    }

    /// Returns an error for every command, also unsandboxed ones, while a leftover exists that other programs could
    /// execute.
    pub(crate) fn check_no_leftovers(&self) -> Result<(), ToolError> {
        let mut state = lock(&self.state);
        let Some(path) = state.first_leftover() else { return Ok(()) };
        Err(ToolError::failed(format!(
            "No command runs: {} is protected, an earlier command made or changed it, and it could not be taken away. A \
             person has to look at it and remove it; commands run again then.",
            path.display()
        )))
    }

    /// Returns true if the settings ignore this violation for this command. Failures are never ignored.
    fn is_expected_violation(&self, command: &str, violation: &SandboxViolation) -> bool {
        let text = violation.to_string();
        let of_command = |(pattern, _): &&(String, Vec<String>)| pattern == "*" || command.contains(pattern.as_str());
        let mut parts = self.expected_violations.iter().filter(of_command).flat_map(|(_, parts)| parts);
        !violation.is_cleanup_failure() && parts.any(|part| text.contains(part.as_str()))
    }
}

impl CommandGuardState {
    /// Checks all commands of a session that has ended, even if a guard still exists; the commands must have ended.
    /// Blocks. Unless `waits` is set, a scan in progress is not awaited and everything is scanned anew.
    pub fn check_all(state: &Mutex<Self>, quarantine: &Path, waits: bool) -> Vec<SandboxViolation> {
        let looking = if waits { lock(state).looking.clone() } else { Arc::default() };
        let mut looking = lock(&looking);
        {
            let mut state = lock(state);
            let running = std::mem::take(&mut state.running);
            state.unchecked.extend(running.into_values());
        }
        Self::check_leftovers(state, &mut looking, quarantine)
    }

    /// Returns true if a scan of the folders is in progress.
    pub fn is_scanning(state: &Mutex<Self>) -> bool {
        let looking = lock(state).looking.clone();
        matches!(looking.try_lock(), Err(TryLockError::WouldBlock))
    }

    fn check_leftovers(state: &Mutex<Self>, looking: &mut ScanState, quarantine: &Path) -> Vec<SandboxViolation> {
        let unchecked = std::mem::take(&mut lock(state).unchecked);
        let mut found = Vec::new();
        for traces in unchecked {
            found.extend(traces.restore_protected_paths(quarantine, &mut looking.census));
        }
        let mut state = lock(state);
        state.note_violations(&found);
        state.untold.extend_from_slice(&found);
        found
    }

    /// Records a file change made by a call itself. Returns true if any guarded command is running or unchecked.
    fn note_own_write(&mut self, path: &Path, was: Option<&[u8]>, now: Option<&[u8]>) -> bool {
        let mut traces = self.running.values_mut().chain(&mut self.unchecked).peekable();
        let is_any = traces.peek().is_some();
        traces.for_each(|traces| traces.guard.record_own_write(path, was, now));
        is_any
    }

    /// Stores the state from before a command and returns its number.
    fn register_command(&mut self, traces: PreCommandState) -> u64 {
        self.started += 1;
        self.running.insert(self.started, traces);
        self.started
    }

    /// Returns the first leftover that still exists, if any.
    fn first_leftover(&mut self) -> Option<&PathBuf> {
        self.left.retain(|path| !is_gone(path));
        self.left.first()
    }

    /// Records the violations whose files still exist.
    fn note_violations(&mut self, found: &[SandboxViolation]) {
        for violation in found {
            if let SandboxViolation::Left { path, .. } = violation {
                self.left.push(path.clone());
            }
        }
    }
}

impl SessionServices {
    /// Records a file change that a call made with the user's permission, so that it is attributed neither to commands
    /// that run meanwhile nor, by a rewind, to the user. Must be called on a thread that may block, with symlinks resolved in `path`.
    pub fn note_authorized_change(&self, path: &Path, was: Option<&[u8]>, now: Option<&[u8]>) {
        self.checkpoint_after_change(path);
        let Some(session_sandbox) = self.active_sandbox().latest() else { return };
        if !lock(&session_sandbox.state).note_own_write(path, was, now) {
            return;
        }
        // Only text is recorded as an authorized rewrite of settings.
        let (Ok(was), Some(Ok(now))) = (was.map(std::str::from_utf8).transpose(), now.map(std::str::from_utf8)) else {
            return;
        };
        if let Some(settings) = &session_sandbox.settings {
            gimlet_config::record_rewrite(&settings.locations, path, was, now);
        }
    }
}

/// Returns true if the path no longer exists; false if that cannot be determined.
fn is_gone(path: &Path) -> bool {
    path.symlink_metadata()
        .is_err_and(|error| matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory))
}

/// One sandboxed command. If dropped, its check is left to the next command or to the session's end.
pub struct CommandGuard {
    session_sandbox: Arc<SessionSandbox>,
    /// Weak, because the services own the sandbox.
    services: Weak<SessionServices>,
    sandbox: Sandbox,
    /// Number under which the command's state is stored until it is checked.
    number: u64,
}

/// End of a guarded command.
#[derive(Clone, Copy)]
pub struct GuardedCommandEnd<'a> {
    pub command: &'a str,
    pub cwd: &'a Path,
    pub exit: Option<CommandExit>,
    /// Output of the command, or the end of it.
    pub output: &'a str,
}

impl CommandGuard {
    /// Returns the sandbox for this command.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Restores protected files and returns a sentence about what the sandbox blocked and what could not be restored;
    /// `None` if there is nothing to report. Violations are also published to the user.
    pub async fn finish(self, end: GuardedCommandEnd<'_>) -> Option<String> {
        let (session_sandbox, number) = (self.session_sandbox.clone(), self.number);
        let check = move || {
            let looking = session_sandbox.scan_state();
            let mut looking = lock(&looking);
            let traces = lock(&session_sandbox.state).running.remove(&number);
            let found = traces
                .map(|traces| traces.restore_protected_paths(&session_sandbox.quarantine, &mut looking.census))
                .unwrap_or_default();
            lock(&session_sandbox.state).note_violations(&found);
            found
        };
        let checked = tokio::task::spawn_blocking(check).await;
        let failed = checked.as_ref().err().map(|error| format!("its traces could not be looked for: {error}"));
        let mut found = checked.unwrap_or_default();
        found.retain(|violation| !self.session_sandbox.is_expected_violation(end.command, violation));
        publish_violations(&self.services, &found);
        found.splice(0..0, std::mem::take(&mut lock(&self.session_sandbox.state).untold));
        let GuardedCommandEnd { command, cwd, exit, output } = end;
        let refusals = self.session_sandbox.proxy.as_ref().map(SandboxProxy::take_refusals).unwrap_or_default();
        let refused = find_violations(SandboxOutcome {
            spec: &self.session_sandbox.spec,
            cwd,
            exit,
            output,
            refusals: &refusals,
        });
        found.extend(
            refused.into_iter().filter(|violation| !self.session_sandbox.is_expected_violation(command, violation)),
        );
        if let Some(text) = &failed {
            warn(&self.services, format!("sandbox: after a command {text}"));
        }
        let lines: Vec<String> = found.iter().map(ToString::to_string).chain(failed).collect();
        let git = git_advice(command, output, &found);
        if lines.is_empty() {
            return (!git.is_empty()).then(|| git.join(" "));
        }
        let way_out =
            match self.session_sandbox.may_run_unsandboxed && !found.iter().all(SandboxViolation::is_cleanup_failure) {
                true => " If the task needs this, say so and set `dangerouslyDisableSandbox`.",
                false => "",
            };
        let refused = format!("The sandbox refused: {}.{way_out}", lines.join("; "));
        Some(std::iter::once(refused.as_str()).chain(git).collect::<Vec<_>>().join(" "))
    }
}

impl Drop for CommandGuard {
    fn drop(&mut self) {
        let mut state = lock(&self.session_sandbox.state);
        let left = state.running.remove(&self.number);
        state.unchecked.extend(left);
    }
}

/// Returns the notices for the user about a command's violations.
fn violation_notices(found: &[SandboxViolation]) -> impl Iterator<Item = EventBody> {
    found.iter().filter(|violation| violation.is_tampering()).map(|violation| {
        let then = match violation {
            SandboxViolation::Left { .. } => "; no further command runs until it is gone",
            _ => "",
        };
        warning_notice(format!("sandbox: {violation}{then}"))
    })
}

fn publish_violations(services: &Weak<SessionServices>, found: &[SandboxViolation]) {
    if let Some(services) = services.upgrade() {
        violation_notices(found).for_each(|notice| services.publish(&AgentPath::default(), notice));
    }
}

fn warn(services: &Weak<SessionServices>, text: String) {
    if let Some(services) = services.upgrade() {
        services.publish(&AgentPath::default(), warning_notice(text));
    }
}

fn warning_notice(text: String) -> EventBody {
    EventBody::Notice(Notice { level: NoticeLevel::Warning, text })
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    // An interrupted repository scan is repeated; the lists are always complete.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gimlet_exec::{SandboxBackend, SandboxSupport};
    use gimlet_proto::SandboxSpec;

    #[test]
    fn an_endless_scan_does_not_block_shutdown() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (work, envrc) = (root.join("w"), root.join("w/.envrc"));
        std::fs::create_dir(&work).unwrap();
        let spec = SandboxSpec { write: vec![work], deny_write: vec![envrc.clone()], ..SandboxSpec::default() };
        let available = SandboxSupport { backend: SandboxBackend::Landlock, landlock_abi: 7, notes: Vec::new() };
        let state = Mutex::new(CommandGuardState::default());
        let looking = lock(&state).looking.clone();
        let mut hung = lock(&looking);
        let guard = TamperGuard::capture_before(&spec, &available, &mut hung.census);
        std::fs::write(&envrc, "evil").unwrap();
        lock(&state).register_command(PreCommandState { guard, vouching: None });
        assert!(CommandGuardState::is_scanning(&state));
        assert_eq!(CommandGuardState::check_all(&state, &root.join("q"), false).len(), 1);
        assert!(!envrc.exists());
        drop(hung);
        assert!(!CommandGuardState::is_scanning(&state));
        assert_eq!(CommandGuardState::check_all(&state, &root.join("q"), true), []);
    }

    #[test]
    fn what_was_left_is_known_until_it_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".vscode");
        std::fs::create_dir(&path).unwrap();
        let mut state = CommandGuardState::default();
        let left = SandboxViolation::Left { path: path.clone(), why: "it is stuck".to_owned() };
        state.note_violations(&[
            left,
            SandboxViolation::Unseen,
            SandboxViolation::Tampered { path: path.clone(), moved_to: None },
        ]);
        assert_eq!(state.first_leftover(), Some(&path));
        std::fs::remove_dir(&path).unwrap();
        assert_eq!(state.first_leftover(), None);
        std::fs::create_dir(&path).unwrap();
        assert_eq!(state.first_leftover(), None, "that is another one");
    }
}
