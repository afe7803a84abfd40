//! `gimlet demo`: the main job, watched. A scripted model on a loopback port drives the real client, loop, tools,
//! permissions and transcript over a scratch repository; nothing of it is left behind.

use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use gimlet_app::{
    FrontEndKind, FrontEndOptions, LaunchRequest, PermissionOptions, ProcessEnv,
    start::{self, LaunchOptions},
};
use gimlet_proto::{Env, EventBody, Op, PermissionMode, SubmittedPrompt, TurnEnd};
use gimlet_script::{Script, ScriptServer};
use gimlet_serve::{ColourMode, EventWatcher};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::print_mode::PIPE_CLOSED;
use crate::report::Report;
use crate::signals::{INTERRUPTED, SignalListener};
use crate::terminal_text::may_use_colour;

const SCRIPT: &str = include_str!("demo/script.json");
const PROGRAM: &str = include_str!("demo/slug.sh");
const TESTS: &str = include_str!("demo/test.sh");
const PROMPT: &str = "The tests fail. Find the bug, fix it and show me that they pass.";

/// Runs the demo.
pub(crate) async fn run(env: &Env) -> Result<ExitCode, Report> {
    let scratch = DemoScratchDir::create().map_err(|error| {
        Report::new(format!("the demo cannot run: {error}")).with_hint("It needs a writable temporary folder")
    })?;
    let (interrupt, mut interrupts) = mpsc::unbounded_channel();
    let mut signals = SignalListener::listen(interrupt);
    let outcome = tokio::select! {
        outcome = play_demo(env, &scratch) => outcome,
        Some(()) = interrupts.recv() => Ok(ExitCode::from(INTERRUPTED)),
        stop = signals.wait_for_stop() => Ok(ExitCode::from(stop.code())),
    };
    let removed = scratch.remove();
    match outcome {
        Ok(code) => removed.map(|()| code).map_err(|error| {
            Report::new(format!("{} was left behind: {error}", scratch.root.display())).with_hint("It can be deleted")
        }),
        Err(DemoError::Failed(report)) => Err(report),
        Err(DemoError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::from(PIPE_CLOSED)),
        Err(DemoError::Output(error)) => Err(Report::new(format!("standard output cannot be written: {error}"))),
    }
}

/// Reason why the demo did not finish.
enum DemoError {
    Failed(Report),
    /// Its output cannot be written.
    Output(io::Error),
}

impl From<Report> for DemoError {
    fn from(report: Report) -> Self {
        Self::Failed(report)
    }
}

impl From<io::Error> for DemoError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

async fn play_demo(env: &Env, scratch: &DemoScratchDir) -> Result<ExitCode, DemoError> {
    let mut script = Script::from_json(SCRIPT).map_err(|error| Report::new(format!("the demo's script: {error}")))?;
    script = script.var("cwd", scratch.repository.to_string_lossy());
    let model = ScriptServer::start(script).await.map_err(|error| Report::new(error.to_string()))?;
    let around = demo_env(env, scratch, &model.url());
    let colour = if may_use_colour(env) { ColourMode::Ansi } else { ColourMode::Plain };
    let mut watcher = EventWatcher::new(io::stdout(), colour);
    show_introduction(&mut watcher, scratch)?;

    let manner = LaunchOptions { entrypoint: "cli", ..LaunchOptions::default() };
    let started = start::start(&demo_request(), &around, &manner).await.map_err(Report::from)?;
    let mut events = started.handle.subscribe();
    let mut life = JoinSet::new();
    life.spawn(started.session_future);
    started.handle.send(Op::Submit(SubmittedPrompt::from_text(PROMPT)));

    let mut completed = false;
    while let Some(event) = events.next().await {
        watcher.write_event(&event)?;
        if let EventBody::TurnEnded(report) = &event.body {
            completed = matches!(report.end, TurnEnd::Completed);
            started.handle.send(Op::Close);
        }
    }
    while life.join_next().await.is_some() {}
    let green = completed && has_passed(scratch);
    show_conclusion(&mut watcher, green)?;
    Ok(if green { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Returns the request for the demo's session: edits and the test script need no question.
fn demo_request() -> LaunchRequest {
    LaunchRequest {
        permissions: PermissionOptions {
            mode: Some(PermissionMode::AcceptEdits),
            allowed_rules: vec!["Bash(./test.sh)".to_owned()],
            ..PermissionOptions::default()
        },
        front_end: FrontEndOptions { kind: FrontEndKind::Print, ..FrontEndOptions::default() },
        ..LaunchRequest::default()
    }
}

fn show_introduction(watcher: &mut EventWatcher<io::Stdout>, scratch: &DemoScratchDir) -> io::Result<()> {
    watcher.write_heading("gimlet demo")?;
    watcher.write_remark(&format!(
        "A scratch repository was made in {}: slug.sh turns titles into URL slugs, test.sh checks it, two of its checks fail.",
        scratch.repository.display()
    ))?;
    watcher.write_remark(
        "A scripted model stands in for a real one, so this needs no key and no network. Everything else is real:",
    )?;
    watcher.write_remark(
        "the HTTP client, the tools, the files, the processes and the permissions (edits and ./test.sh are allowed).",
    )?;
    watcher.write_heading(&format!("> {PROMPT}"))
}

fn show_conclusion(watcher: &mut EventWatcher<io::Stdout>, green: bool) -> io::Result<()> {
    if !green {
        return watcher.write_heading("The demo did not end as planned: the tests are not green.");
    }
    watcher
        .write_heading("Done: the bug is fixed and the tests are green. The scratch repository has been removed.")?;
    watcher.write_remark("Now on your own code:  export ANTHROPIC_API_KEY=…  then  gimlet -p \"fix the failing test\"")
}

/// Returns true if the test script, run by the session itself, printed success on its last line.
fn has_passed(scratch: &DemoScratchDir) -> bool {
    std::fs::read_to_string(scratch.repository.join(".last-result")).is_ok_and(|text| text.trim() == "0")
}

/// Returns the demo's environment: its own home, no proxies, and only the variables that a shell needs.
fn demo_env(env: &Env, scratch: &DemoScratchDir, url: &str) -> ProcessEnv {
    let mut own = Env::default();
    for name in ["PATH", "LANG", "LC_ALL", "TERM", "TMPDIR", "SHELL"] {
        if let Some(value) = env.exact(name) {
            own = own.with(name, value);
        }
    }
    let home = scratch.root.join("home");
    own = own.with("HOME", home.as_os_str()).with("ANTHROPIC_API_KEY", "demo").with("ANTHROPIC_BASE_URL", url);
    ProcessEnv { env: own, cwd: scratch.repository.clone(), config_home: home.join(".claude"), home: Some(home) }
}

/// A folder that holds everything of the demo.
struct DemoScratchDir {
    root: PathBuf,
    repository: PathBuf,
}

impl DemoScratchDir {
    fn create() -> io::Result<Self> {
        let name = format!("gimlet-demo-{}", gimlet_store::new_session_id());
        let root = std::env::temp_dir().canonicalize()?.join(name);
        let repository = root.join("slugs");
        std::fs::create_dir(&root)?;
        std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o700))?;
        for folder in [&repository, &root.join("home")] {
            std::fs::create_dir(folder)?;
        }
        write_script(&repository.join("slug.sh"), PROGRAM)?;
        write_script(&repository.join("test.sh"), TESTS)?;
        Ok(Self { root, repository })
    }

    fn remove(&self) -> io::Result<()> {
        std::fs::remove_dir_all(&self.root)
    }
}

fn write_script(path: &Path, text: &str) -> io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(std::fs::Permissions::from_mode(0o755))
}
