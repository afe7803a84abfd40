//! One command behind walls: what is looked at before it and after it, and who is told.
//!
//! Where something could not be done that holds the walls, nothing is allowed for being inside any more, and where a trace
//! of a command could not be taken away, no further command runs: others could run what is in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use gimlet_config::{Vouching, names_within};
use gimlet_exec::{Aftermath, Census, Exit, Guard, Proxy, Sandbox, violations};
use gimlet_proto::{AgentPath, Body, Level, Notice, Violation};

use super::Sandboxing;
use super::closed::{Found, Remembered};
use super::git_words::git_words;
use crate::services::Services;
use crate::tool::ToolError;

/// What is remembered from one command to the next.
#[derive(Default)]
pub struct WatchState {
    /// By itself, since a look takes its time: nobody who only asks or leaves waits for it. Locked before the state.
    looking: Arc<Mutex<Looking>>,
    /// Of commands that run, by number.
    running: BTreeMap<u64, Traces>,
    started: u64,
    /// Of commands whose end nobody waited for.
    unchecked: Vec<Traces>,
    /// Their traces, of which no model has been told.
    untold: Vec<Violation>,
    /// Protected files that commands made or changed and that could not be taken away.
    left: Vec<PathBuf>,
    /// What the last look before a command did not see to its end.
    overlooked: Option<Overlooked>,
}

/// What was seen of the folders.
#[derive(Default)]
struct Looking {
    census: Census,
    remembered: Remembered,
}

/// How everything was before a command that could change it.
struct Traces {
    guard: Guard,
    /// Until it is settled, settings say what they said before the command.
    vouching: Option<Vouching>,
}

impl Traces {
    /// Puts back what the command changed; from then on settings say what they say.
    fn after(mut self, quarantine: &Path, census: &mut Census) -> Vec<Violation> {
        for (file, vouched) in self.vouching.as_ref().map(Vouching::files).unwrap_or_default() {
            self.guard.expect(&file, vouched.text.as_deref(), vouched.rewritten);
        }
        let found = self.guard.after(quarantine, census);
        self.vouching.into_iter().for_each(Vouching::settled);
        found
    }

    /// The command never ran.
    fn unused(self) {
        self.vouching.into_iter().for_each(Vouching::settled);
    }
}

/// What there was more of than can be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overlooked {
    Folders,
    Patterns,
}

impl Overlooked {
    fn text(self) -> String {
        match self {
            Self::Folders => format!("the sandbox does not see everything: {}", Violation::Unseen),
            Self::Patterns => "the sandbox does not see everything: there are more files than are looked through for \
                               those that patterns close (`**/.env`); name them by their paths, or move what is large \
                               out of the working directories"
                .to_owned(),
        }
    }
}

/// The walls that a call's commands run behind.
#[derive(Clone)]
pub struct Behind {
    pub(crate) walls: Arc<Sandboxing>,
    /// Being behind them may be why the call runs at all.
    pub(crate) suffices: bool,
}

impl Behind {
    /// Prepares the walls of one command, and notes how protected files are before it runs.
    pub async fn watch(&self, services: &Arc<Services>) -> Result<Watch, ToolError> {
        let walls = self.walls.clone();
        let look = move || walls.look();
        let looked = tokio::task::spawn_blocking(look).await;
        let Look { earlier, traces, found, overlooked, is_news } =
            looked.map_err(|error| ToolError::failed(format!("the sandbox was not set up: {error}")))?;
        let lasting = services.lasting();
        tell_people(&lasting, &earlier);
        if let Err(error) = self.walls.refuse_if_stopped() {
            traces.unused();
            return Err(error);
        }
        if let Some(overlooked) = overlooked {
            if is_news {
                warn(&lasting, overlooked.text());
            }
            // It was let through for being behind walls that turn out to have a hole. The next call will be asked about.
            if self.suffices {
                traces.unused();
                let text = format!("Not run: {}. Call it again to have it asked about.", overlooked.text());
                return Err(ToolError::failed(text));
            }
        }
        let sandbox = self.walls.sandbox.holding(traces.guard.held()).holding(&found.kept);
        let sandbox = sandbox.closing(traces.guard.closed()).closing(&found.closed);
        let number = lock(&self.walls.state).begin(traces);
        Ok(Watch { walls: self.walls.clone(), services: lasting, sandbox, number })
    }
}

/// What was found before a command.
struct Look {
    /// Traces of commands whose end nobody waited for.
    earlier: Vec<Violation>,
    traces: Traces,
    found: Found,
    overlooked: Option<Overlooked>,
    /// That was not so before the last command.
    is_news: bool,
}

impl Sandboxing {
    /// Blocking.
    fn look(&self) -> Look {
        let looking = self.looking();
        let mut looking = lock(&looking);
        let earlier = WatchState::check_leftovers(&self.state, &mut looking, &self.quarantine);
        let traces = self.note(&mut looking.census);
        let (found, overlooked) = self.find(&mut looking.remembered, &traces.guard);
        let mut state = lock(&self.state);
        let is_news = state.overlooked != overlooked;
        state.overlooked = overlooked;
        Look { earlier, traces, found, overlooked, is_news }
    }

    /// What patterns close, and whether that and what the guard saw is all there is.
    fn find(&self, remembered: &mut Remembered, guard: &Guard) -> (Found, Option<Overlooked>) {
        let found = match self.spec.files_open {
            true => Found::default(),
            false => remembered.look(&self.spec.write, self.closed.as_ref(), self.kept.as_ref()),
        };
        let partial = guard.is_partial().then_some(Overlooked::Folders);
        let overlooked = partial.or(found.is_partial.then_some(Overlooked::Patterns));
        (found, overlooked)
    }

    /// Looks whether everything is seen by now, if it was not before the last command: where nobody can be asked there
    /// would be no next command to find that out.
    pub(crate) async fn look_again(self: Arc<Self>) {
        if !self.overlooks_something() {
            return;
        }
        let look = move || {
            let looking = self.looking();
            let mut looking = lock(&looking);
            let guard = Guard::before(&self.spec, &self.available, &mut looking.census);
            // What is overlooked is told when a command is about to run.
            if self.find(&mut looking.remembered, &guard).1.is_none() {
                lock(&self.state).overlooked = None;
            }
        };
        // Without a look everything stays as it was.
        drop(tokio::task::spawn_blocking(look).await);
    }

    /// Notes how protected files are, and what settings say.
    fn note(&self, census: &mut Census) -> Traces {
        let guard = Guard::before(&self.spec, &self.available, census);
        let vouching = self.settings.as_ref().filter(|_| !self.spec.files_open).map(|settings| {
            // By every name: settings are read by one, and what a command writes may have another.
            let names = settings.files.iter().flat_map(|file| names_within(file, &self.spec.write));
            Vouching::begin(&settings.locations, guard.settings().iter().cloned().chain(names))
        });
        Traces { guard, vouching }
    }

    /// Looks after commands whose end nobody waited for. Blocking; they must be over.
    pub(crate) fn check_leftovers(&self) -> Vec<Violation> {
        let looking = self.looking();
        WatchState::check_leftovers(&self.state, &mut lock(&looking), &self.quarantine)
    }

    fn looking(&self) -> Arc<Mutex<Looking>> {
        lock(&self.state).looking.clone()
    }

    /// The same at the end of a session, when nobody but people can be told.
    pub(crate) async fn check_at_the_end(self: Arc<Self>, services: &Services) {
        match tokio::task::spawn_blocking(move || self.check_leftovers()).await {
            Ok(found) => notices(&found).for_each(|notice| services.publish(&AgentPath::default(), notice)),
            Err(error) => {
                let text = format!("sandbox: traces of commands could not be looked for: {error}");
                services.publish(&AgentPath::default(), warning(text));
            }
        }
    }

    /// Whether the last look before a command did not see everything.
    pub(super) fn overlooks_something(&self) -> bool {
        lock(&self.state).overlooked.is_some()
    }

    /// Stops every command, also those outside of the sandbox, while something is there that others would run.
    pub(crate) fn refuse_if_stopped(&self) -> Result<(), ToolError> {
        let mut state = lock(&self.state);
        let Some(path) = state.first_left() else { return Ok(()) };
        Err(ToolError::failed(format!(
            "No command runs: {} is protected, an earlier command made or changed it, and it could not be taken away. A \
             person has to look at it and remove it; commands run again then.",
            path.display()
        )))
    }

    /// Whether people said that this is to be expected of this command. What went wrong never is.
    fn is_expected(&self, command: &str, violation: &Violation) -> bool {
        let text = violation.to_string();
        let of_command = |(pattern, _): &&(String, Vec<String>)| pattern == "*" || command.contains(pattern.as_str());
        let mut parts = self.expected.iter().filter(of_command).flat_map(|(_, parts)| parts);
        !violation.is_failure() && parts.any(|part| text.contains(part.as_str()))
    }
}

impl WatchState {
    /// Looks after every command of a session that is over, whoever still holds a watch of it. Blocking; they must be over.
    /// A look that does not come to its end is not waited for: then everything is looked at anew.
    pub fn check_all(state: &Mutex<Self>, quarantine: &Path, waits: bool) -> Vec<Violation> {
        let looking = if waits { lock(state).looking.clone() } else { Arc::default() };
        let mut looking = lock(&looking);
        {
            let mut state = lock(state);
            let running = std::mem::take(&mut state.running);
            state.unchecked.extend(running.into_values());
        }
        Self::check_leftovers(state, &mut looking, quarantine)
    }

    /// Whether somebody looks through the folders right now.
    pub fn is_looking(state: &Mutex<Self>) -> bool {
        let looking = lock(state).looking.clone();
        matches!(looking.try_lock(), Err(TryLockError::WouldBlock))
    }

    fn check_leftovers(state: &Mutex<Self>, looking: &mut Looking, quarantine: &Path) -> Vec<Violation> {
        let unchecked = std::mem::take(&mut lock(state).unchecked);
        let mut found = Vec::new();
        for traces in unchecked {
            found.extend(traces.after(quarantine, &mut looking.census));
        }
        let mut state = lock(state);
        state.note(&found);
        state.untold.extend_from_slice(&found);
        found
    }

    /// Takes note of what a call made of a file itself; says whether commands are looked after that could have.
    fn wrote(&mut self, path: &Path, was: Option<&[u8]>, now: Option<&[u8]>) -> bool {
        let mut traces = self.running.values_mut().chain(&mut self.unchecked).peekable();
        let is_any = traces.peek().is_some();
        traces.for_each(|traces| traces.guard.wrote(path, was, now));
        is_any
    }

    /// Keeps how everything was before a command, by a number.
    fn begin(&mut self, traces: Traces) -> u64 {
        self.started += 1;
        self.running.insert(self.started, traces);
        self.started
    }

    /// Something that is still there.
    fn first_left(&mut self) -> Option<&PathBuf> {
        self.left.retain(|path| !is_gone(path));
        self.left.first()
    }

    /// Remembers what is still there.
    fn note(&mut self, found: &[Violation]) {
        for violation in found {
            if let Violation::Left { path, .. } = violation {
                self.left.push(path.clone());
            }
        }
    }
}

impl Services {
    /// Takes note that a call made this of a file with the person's leave, whatever commands run meanwhile that may not. To be
    /// called on a thread that may block, with the path's links followed.
    pub fn after_change(&self, path: &Path, was: Option<&[u8]>, now: Option<&[u8]>) {
        let Some(walls) = self.walls().latest() else { return };
        if !lock(&walls.state).wrote(path, was, now) {
            return;
        }
        // What was no text was there nevertheless, and nobody vouches for it.
        let (Ok(was), Some(Ok(now))) = (was.map(std::str::from_utf8).transpose(), now.map(std::str::from_utf8)) else {
            return;
        };
        if let Some(settings) = &walls.settings {
            gimlet_config::rewritten(&settings.locations, path, was, now);
        }
    }
}

/// Whether nothing is at a path any more; what cannot be found out is not gone.
fn is_gone(path: &Path) -> bool {
    path.symlink_metadata()
        .is_err_and(|error| matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory))
}

/// One command behind walls. Whoever drops it leaves the check of its traces to the next command or the session's end.
pub struct Watch {
    walls: Arc<Sandboxing>,
    /// Weak, because the services own the walls.
    services: Weak<Services>,
    sandbox: Sandbox,
    /// Under which its traces are kept until somebody has looked.
    number: u64,
}

/// How a watched command ended.
#[derive(Clone, Copy)]
pub struct WatchedEnd<'a> {
    pub command: &'a str,
    pub cwd: &'a Path,
    pub exit: Option<Exit>,
    /// What it printed, or the end of it.
    pub output: &'a str,
}

impl Watch {
    /// The walls for this command.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// What the sandbox did not let the command do, in a sentence; protected files are as they were, or it says what is
    /// not. People are told of traces, too.
    pub async fn after(self, end: WatchedEnd<'_>) -> Option<String> {
        let (walls, number) = (self.walls.clone(), self.number);
        let check = move || {
            let looking = walls.looking();
            let mut looking = lock(&looking);
            let traces = lock(&walls.state).running.remove(&number);
            let found = traces.map(|traces| traces.after(&walls.quarantine, &mut looking.census)).unwrap_or_default();
            lock(&walls.state).note(&found);
            found
        };
        let checked = tokio::task::spawn_blocking(check).await;
        let failed = checked.as_ref().err().map(|error| format!("its traces could not be looked for: {error}"));
        let mut found = checked.unwrap_or_default();
        found.retain(|violation| !self.walls.is_expected(end.command, violation));
        tell_people(&self.services, &found);
        found.splice(0..0, std::mem::take(&mut lock(&self.walls.state).untold));
        let WatchedEnd { command, cwd, exit, output } = end;
        let refusals = self.walls.proxy.as_ref().map(Proxy::take_refusals).unwrap_or_default();
        let refused = violations(Aftermath { spec: &self.walls.spec, cwd, exit, output, refusals: &refusals });
        found.extend(refused.into_iter().filter(|violation| !self.walls.is_expected(command, violation)));
        if let Some(text) = &failed {
            warn(&self.services, format!("sandbox: after a command {text}"));
        }
        let lines: Vec<String> = found.iter().map(ToString::to_string).chain(failed).collect();
        let git = git_words(command, output, &found);
        if lines.is_empty() {
            return (!git.is_empty()).then(|| git.join(" "));
        }
        let way_out = match self.walls.may_leave && !found.iter().all(Violation::is_failure) {
            true => " If the task needs this, say so and set `dangerouslyDisableSandbox`.",
            false => "",
        };
        let refused = format!("The sandbox refused: {}.{way_out}", lines.join("; "));
        Some(std::iter::once(refused.as_str()).chain(git).collect::<Vec<_>>().join(" "))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut state = lock(&self.walls.state);
        let left = state.running.remove(&self.number);
        state.unchecked.extend(left);
    }
}

/// What people are told of the traces of a command.
fn notices(found: &[Violation]) -> impl Iterator<Item = Body> {
    found.iter().filter(|violation| violation.is_trace()).map(|violation| {
        let then = match violation {
            Violation::Left { .. } => "; no further command runs until it is gone",
            _ => "",
        };
        warning(format!("sandbox: {violation}{then}"))
    })
}

fn tell_people(services: &Weak<Services>, found: &[Violation]) {
    if let Some(services) = services.upgrade() {
        notices(found).for_each(|notice| services.publish(&AgentPath::default(), notice));
    }
}

fn warn(services: &Weak<Services>, text: String) {
    if let Some(services) = services.upgrade() {
        services.publish(&AgentPath::default(), warning(text));
    }
}

fn warning(text: String) -> Body {
    Body::Notice(Notice { level: Level::Warning, text })
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    // A census that was left half-way is looked through again; lists are whole.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gimlet_exec::{Available, Backend};
    use gimlet_proto::SandboxSpec;

    #[test]
    fn a_look_that_does_not_end_keeps_nobody_from_leaving() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (work, envrc) = (root.join("w"), root.join("w/.envrc"));
        std::fs::create_dir(&work).unwrap();
        let spec = SandboxSpec { write: vec![work], deny_write: vec![envrc.clone()], ..SandboxSpec::default() };
        let available = Available { backend: Backend::Landlock, landlock_abi: 7, notes: Vec::new() };
        let state = Mutex::new(WatchState::default());
        let looking = lock(&state).looking.clone();
        let mut hung = lock(&looking);
        let guard = Guard::before(&spec, &available, &mut hung.census);
        std::fs::write(&envrc, "evil").unwrap();
        lock(&state).begin(Traces { guard, vouching: None });
        assert!(WatchState::is_looking(&state));
        assert_eq!(WatchState::check_all(&state, &root.join("q"), false).len(), 1);
        assert!(!envrc.exists());
        drop(hung);
        assert!(!WatchState::is_looking(&state));
        assert_eq!(WatchState::check_all(&state, &root.join("q"), true), []);
    }

    #[test]
    fn what_was_left_is_known_until_it_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".vscode");
        std::fs::create_dir(&path).unwrap();
        let mut state = WatchState::default();
        let left = Violation::Left { path: path.clone(), why: "it is stuck".to_owned() };
        state.note(&[left, Violation::Unseen, Violation::Tampered { path: path.clone(), moved_to: None }]);
        assert_eq!(state.first_left(), Some(&path));
        std::fs::remove_dir(&path).unwrap();
        assert_eq!(state.first_left(), None);
        std::fs::create_dir(&path).unwrap();
        assert_eq!(state.first_left(), None, "that is another one");
    }
}
