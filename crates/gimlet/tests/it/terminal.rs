//! The terminal UI in a real terminal: tmux shows what a user would see, and sends the keys that a user would press.

mod conversations;
mod going_back;
mod interruptions;
mod questions;
mod terminal_commands;
mod terminal_modes;
mod views;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use gimlet_script::{Script, ScriptServer};
use gimlet_testkit::{TestWorld, wait_until};

use crate::world;

/// A tmux server of its own with one window, in which gimlet runs and a shell follows.
struct TmuxTerminal {
    socket: PathBuf,
}

/// Size and further variables of a terminal.
#[derive(Clone, Debug)]
struct TerminalSpec<'a> {
    columns: u32,
    rows: u32,
    args: &'a str,
    env: &'a str,
    /// The key in its environment, if any.
    key: Option<&'a str>,
}

impl Default for TerminalSpec<'_> {
    fn default() -> Self {
        Self { columns: 80, rows: 24, args: "", env: "", key: Some("test-key") }
    }
}

impl TmuxTerminal {
    /// Starts gimlet in a terminal of 80 × 24 with these arguments, as the shell reads them.
    fn start(world: &TestWorld, model: &ScriptServer, args: &str) -> Self {
        Self::start_with(world, model, &TerminalSpec { args, ..TerminalSpec::default() })
    }

    fn start_with(world: &TestWorld, model: &ScriptServer, spec: &TerminalSpec<'_>) -> Self {
        let line = format!(
            "cd '{project}'; {env} '{binary}' {args}; echo \"ENDED:$?\"; stty -a | tr ';' '\\n' | grep -c -w -- \
             '-icanon'; exec cat",
            project = world.project.display(),
            env = environment(world, model, spec),
            binary = env!("CARGO_BIN_EXE_gimlet"),
            args = spec.args,
        );
        Self::open(world, spec, &line)
    }

    /// Starts a shell with job control, in which `gimlet` is the program under test.
    fn start_in_shell(world: &TestWorld, model: &ScriptServer, spec: &TerminalSpec<'_>) -> Self {
        let line = format!(
            "cd '{project}'; exec {env} PS1='shell> ' bash --norc --noprofile -i",
            project = world.project.display(),
            env = environment(world, model, spec),
        );
        Self::open(world, spec, &line)
    }

    /// Opens a window in which a line of the shell runs.
    fn open(world: &TestWorld, spec: &TerminalSpec<'_>, line: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let socket = world.home.join(format!("tmux-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        let terminal = Self { socket };
        let (columns, rows) = (spec.columns.to_string(), spec.rows.to_string());
        terminal.tmux(&["new-session", "-d", "-s", "main", "-x", &columns, "-y", &rows, line]);
        terminal
    }

    #[allow(clippy::disallowed_methods, reason = "the terminal of these tests is a program")]
    fn tmux(&self, args: &[&str]) -> String {
        let output = Command::new("tmux").args(["-f", "/dev/null", "-S"]).arg(&self.socket).args(args).output();
        let output =
            output.unwrap_or_else(|error| panic!("these tests need tmux, which scripts/test installs: {error}"));
        assert!(output.status.success(), "tmux {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Types text as it is.
    fn type_text(&self, text: &str) {
        self.tmux(&["send-keys", "-t", "main", "-l", text]);
    }

    /// Presses keys by the names that tmux has for them.
    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys", "-t", "main"], keys].concat());
    }

    /// Types a line and sends it, once the input has it.
    async fn enter(&self, line: &str) {
        self.type_text(line);
        self.wait_for(line).await;
        self.press(&["Enter"]);
    }

    /// Returns what is on the screen.
    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-t", "main"])
    }

    /// Returns the scrollback and the screen.
    fn everything(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-S", "-", "-t", "main"])
    }

    /// Waits until a text is on the screen.
    async fn wait_for(&self, text: &str) {
        self.wait_for_screen(text, |screen| screen.contains(text)).await;
    }

    async fn wait_until_gone(&self, text: &str) {
        self.wait_for_screen(&format!("no {text}"), |screen| !screen.contains(text)).await;
    }

    async fn wait_for_screen(&self, what: &str, holds: impl Fn(&str) -> bool) {
        let mut screen = String::new();
        let mut seen = || {
            screen = self.screen();
            holds(&screen)
        };
        let seen: &mut dyn FnMut() -> bool = &mut seen;
        let mut last = String::new();
        wait_until_or_show(what, seen, || {
            last = self.screen();
            last.clone()
        })
        .await;
    }

    /// Waits until gimlet ended; returns what the shell printed afterwards.
    async fn wait_for_end(&self) -> String {
        self.wait_for_screen("the end", |screen| {
            screen.split("ENDED:").nth(1).is_some_and(|rest| rest.trim_end().lines().count() > 1)
        })
        .await;
        self.screen().split("ENDED:").nth(1).unwrap_or_default().trim_end().to_owned()
    }
}

/// Waits like [`wait_until`]; on a timeout the screen is part of the failure.
async fn wait_until_or_show(what: &str, holds: &mut dyn FnMut() -> bool, show: impl FnMut() -> String) {
    struct ShowOnPanic<F: FnMut() -> String>(F);
    impl<F: FnMut() -> String> Drop for ShowOnPanic<F> {
        #[allow(clippy::print_stdout, reason = "the test harness shows it with the failure")]
        fn drop(&mut self) {
            if std::thread::panicking() {
                println!("the screen was:\n{}", (self.0)());
            }
        }
    }
    let _shown = ShowOnPanic(show);
    wait_until(what, holds).await;
}

impl Drop for TmuxTerminal {
    #[allow(clippy::disallowed_methods, reason = "the terminal of these tests is a program")]
    fn drop(&mut self) {
        drop(Command::new("tmux").arg("-S").arg(&self.socket).arg("kill-server").output());
    }
}

/// Returns the beginning of a shell line that sets the whole environment of the program after it.
#[allow(clippy::disallowed_methods, reason = "programs of this machine are found where it has them")]
fn environment(world: &TestWorld, model: &ScriptServer, spec: &TerminalSpec<'_>) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_gimlet"));
    format!(
        "env -i HOME='{home}' PATH='{folder}:{path}' TERM=tmux-256color LANG=C.UTF-8 IS_SANDBOX=1 \
         ANTHROPIC_BASE_URL='{url}' {key} {env}",
        home = world.home.display(),
        folder = binary.parent().unwrap_or(Path::new("/")).display(),
        path = std::env::var("PATH").unwrap_or_default(),
        url = model.url(),
        key = spec.key.map(|key| format!("ANTHROPIC_API_KEY={key}")).unwrap_or_default(),
        env = spec.env,
    )
}

/// The line in an empty input.
const READY: &str = "Ask, or type / for commands";

async fn serve(script: Script) -> ScriptServer {
    script.serve().await.unwrap_or_else(|error| panic!("no scripted model: {error}"))
}
