//! `gimlet demo`: the main job, watched. A scripted model on a loopback port drives the real client, loop, tools,
//! permissions and transcript over a scratch repository; nothing of it is left behind.

use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use gimlet_proto::{Body, Env, Op, Say, TurnEnd};
use gimlet_script::{Script, Server};
use gimlet_serve::{Colour, Watcher};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::args::Cli;
use crate::page::may_use_colour;
use crate::print::PIPE_CLOSED;
use crate::report::Report;
use crate::signals::{INTERRUPTED, Signals};
use crate::start::{self, Manner};
use crate::surroundings::Surroundings;

const SCRIPT: &str = include_str!("demo/script.json");
const PROGRAM: &str = include_str!("demo/slug.sh");
const TESTS: &str = include_str!("demo/test.sh");
const PROMPT: &str = "The tests fail. Find the bug, fix it and show me that they pass.";

/// Plays the demo.
pub(crate) async fn run(env: &Env) -> Result<ExitCode, Report> {
    let scratch = Scratch::create().map_err(|error| {
        Report::new(format!("the demo cannot run: {error}")).hint("It needs a writable temporary folder")
    })?;
    let (interrupt, mut interrupts) = mpsc::unbounded_channel();
    let mut signals = Signals::listen(interrupt);
    let outcome = tokio::select! {
        outcome = play(env, &scratch) => outcome,
        Some(()) = interrupts.recv() => Ok(ExitCode::from(INTERRUPTED)),
        stop = signals.stop() => Ok(ExitCode::from(stop.code())),
    };
    let removed = scratch.remove();
    match outcome {
        Ok(code) => removed.map(|()| code).map_err(|error| {
            Report::new(format!("{} was left behind: {error}", scratch.root.display())).hint("It can be deleted")
        }),
        Err(Trouble::Failed(report)) => Err(report),
        Err(Trouble::Unheard(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::from(PIPE_CLOSED)),
        Err(Trouble::Unheard(error)) => Err(Report::new(format!("standard output cannot be written: {error}"))),
    }
}

/// Why the demo was not seen to its end.
enum Trouble {
    Failed(Report),
    /// What it shows cannot be written.
    Unheard(io::Error),
}

impl From<Report> for Trouble {
    fn from(report: Report) -> Self {
        Self::Failed(report)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Unheard(error)
    }
}

async fn play(env: &Env, scratch: &Scratch) -> Result<ExitCode, Trouble> {
    let mut script = Script::from_json(SCRIPT).map_err(|error| Report::new(format!("the demo's script: {error}")))?;
    script = script.var("cwd", scratch.repository.to_string_lossy());
    let model = Server::start(script).await.map_err(|error| Report::new(error.to_string()))?;
    let around = surroundings(env, scratch, &model.url());
    let colour = if may_use_colour(env) { Colour::Ansi } else { Colour::Plain };
    let mut watcher = Watcher::new(io::stdout(), colour);
    introduce(&mut watcher, scratch)?;

    let flags = Cli::parse_from([
        "gimlet",
        "-p",
        "--permission-mode",
        "acceptEdits",
        "--allowedTools",
        "Bash(./test.sh)",
        "--",
        PROMPT,
    ]);
    let manner = Manner { entrypoint: "cli", ..Manner::default() };
    let started = start::start(&flags.run, &around, &manner).await?;
    let mut events = started.handle.subscribe();
    let mut life = JoinSet::new();
    life.spawn(started.life);
    started.handle.send(Op::Say(Say::text(PROMPT)));

    let mut completed = false;
    while let Some(event) = events.next().await {
        watcher.show(&event)?;
        if let Body::TurnEnded(report) = &event.body {
            completed = matches!(report.end, TurnEnd::Completed);
            started.handle.send(Op::Close);
        }
    }
    while life.join_next().await.is_some() {}
    let green = completed && passes(scratch);
    conclude(&mut watcher, green)?;
    Ok(if green { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn introduce(watcher: &mut Watcher<io::Stdout>, scratch: &Scratch) -> io::Result<()> {
    watcher.heading("gimlet demo")?;
    watcher.remark(&format!(
        "A scratch repository was made in {}: slug.sh turns titles into URL slugs, test.sh checks it, two of its checks fail.",
        scratch.repository.display()
    ))?;
    watcher.remark(
        "A scripted model stands in for a real one, so this needs no key and no network. Everything else is real:",
    )?;
    watcher.remark(
        "the HTTP client, the tools, the files, the processes and the permissions (edits and ./test.sh are allowed).",
    )?;
    watcher.heading(&format!("> {PROMPT}"))
}

fn conclude(watcher: &mut Watcher<io::Stdout>, green: bool) -> io::Result<()> {
    if !green {
        return watcher.heading("The demo did not end as planned: the tests are not green.");
    }
    watcher.heading("Done: the bug is fixed and the tests are green. The scratch repository has been removed.")?;
    watcher.remark("Now on your own code:  export ANTHROPIC_API_KEY=…  then  gimlet -p \"fix the failing test\"")
}

/// The test script's last line tells; it was run by the session itself.
fn passes(scratch: &Scratch) -> bool {
    std::fs::read_to_string(scratch.repository.join(".last-result")).is_ok_and(|text| text.trim() == "0")
}

/// The demo's own world: a home of its own, no proxies, and only what a shell needs of the person's environment.
fn surroundings(env: &Env, scratch: &Scratch, url: &str) -> Surroundings {
    let mut own = Env::default();
    for name in ["PATH", "LANG", "LC_ALL", "TERM", "TMPDIR", "SHELL"] {
        if let Some(value) = env.exact(name) {
            own = own.with(name, value);
        }
    }
    let home = scratch.root.join("home");
    own = own.with("HOME", home.as_os_str()).with("ANTHROPIC_API_KEY", "demo").with("ANTHROPIC_BASE_URL", url);
    Surroundings { env: own, cwd: scratch.repository.clone(), config_home: home.join(".claude"), home: Some(home) }
}

/// A folder that holds everything of the demo.
struct Scratch {
    root: PathBuf,
    repository: PathBuf,
}

impl Scratch {
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
