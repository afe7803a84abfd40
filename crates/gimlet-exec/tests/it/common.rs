//! What the tests share: a session to start commands in, a victim to kill, and a way to see who is still alive.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use gimlet_exec::{
    CaptureLimits, CustodianProgram, DirectoryReporter, Exec, ExecConfig, FinishedCommand, ForegroundCommand,
    RunningCommand, Shell, ShellCommand, ShellConfig, ShellRun, SpawnRequest, StdinMode, StreamMode, render_for_model,
};
use gimlet_proto::Env;
pub(crate) use gimlet_testkit::{PATIENCE, unique_sleep_seconds, wait_until};

pub(crate) const VICTIM_ARGUMENT: &str = "__victim";

pub(crate) fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

/// A session with a scratch directory.
pub(crate) struct TestSession {
    pub(crate) exec: Exec,
    pub(crate) shell: Shell,
    pub(crate) dir: tempfile::TempDir,
}

impl TestSession {
    pub(crate) fn new() -> Self {
        Self::with_env(base_env())
    }

    pub(crate) fn with_env(env: Env) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { exec: exec(None), shell: shell(env, None), dir }
    }

    /// One whose shells are started before their commands are known.
    pub(crate) fn with_prestart(env: Env) -> Self {
        let config =
            ShellConfig { env, session_id: "session-1".into(), effort: None, snapshot_file: None, prestart: true };
        Self { shell: Shell::find(config).unwrap(), ..Self::new() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub(crate) async fn start(&self, text: &str) -> ShellRun {
        self.shell.start(&self.exec, ShellCommand { text, cwd: &self.path(), env: Vec::new() }).await.unwrap()
    }

    pub(crate) async fn foreground(&self, text: &str) -> ForegroundCommand {
        ForegroundCommand::new(self.start(text).await.running, self.limits())
    }

    pub(crate) async fn run(&self, text: &str) -> FinishedCommand {
        let mut command = self.foreground(text).await;
        tokio::time::timeout(PATIENCE, command.finish()).await.unwrap()
    }

    /// What a command printed, as text.
    pub(crate) async fn output_of(&self, text: &str) -> String {
        render_for_model(&self.run(text).await.output.head)
    }

    pub(crate) fn limits(&self) -> CaptureLimits {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("output-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        CaptureLimits::for_foreground(30_000, self.dir.path().join("results").join(name))
    }
}

pub(crate) fn exec(runtime_dir: Option<PathBuf>) -> Exec {
    let custodian = CustodianProgram::Reexec(std::env::current_exe().unwrap());
    Exec::new(ExecConfig { custodian, session_marker: "test-session".into(), runtime_dir })
}

pub(crate) fn shell(env: Env, snapshot_file: Option<PathBuf>) -> Shell {
    Shell::find(ShellConfig { env, session_id: "session-1".into(), effort: None, snapshot_file, prestart: false })
        .unwrap()
}

pub(crate) fn base_env() -> Env {
    Env::default().with("PATH", "/usr/local/bin:/usr/bin:/bin").with("HOME", "/nonexistent")
}

/// A program without a shell around it.
pub(crate) fn plain_spawn(program: &str, args: &[&str]) -> SpawnRequest {
    SpawnRequest {
        program: program.into(),
        args: args.iter().map(OsString::from).collect(),
        cwd: "/".into(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        stdin: StdinMode::Null,
        streams: StreamMode::Merged,
        report: DirectoryReporter::Disabled,
        confinement: None,
    }
}

/// Reads a command's pipe until a line of it is `wanted`.
pub(crate) async fn wait_for_line(running: &mut RunningCommand, wanted: &str) {
    use tokio::io::{AsyncBufReadExt, BufReader};
    let mut lines = BufReader::new(running.output.as_mut().unwrap()).lines();
    let read = async { while lines.next_line().await.unwrap().expect("the command ended early") != wanted {} };
    tokio::time::timeout(PATIENCE, read).await.expect("the line never came");
}

/// Processes whose command line contains a text, this one and zombies left out.
pub(crate) fn find_alive(text: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&line).contains(text) && pid != std::process::id() as i32 {
            found.push(pid);
        }
    }
    found
}

pub(crate) fn kill_9(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// The direct children of a process.
pub(crate) fn children_of(parent: u32) -> Vec<u32> {
    let mut children = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let Some((head, tail)) = stat.rsplit_once(')') else { continue };
        if tail.split_whitespace().nth(1) == Some(&parent.to_string()) {
            children.push(head.split(' ').next().unwrap().parse().unwrap());
        }
    }
    children
}

/// Keepers that keep something; the spare one has nothing below it.
pub(crate) fn working_keepers(custodian: u32) -> Vec<u32> {
    children_of(custodian).into_iter().filter(|keeper| !children_of(*keeper).is_empty()).collect()
}

/// Whether a process exists and is not a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, tail)| !tail.starts_with('Z'))
}

/// A gimlet of its own: starts the shell commands it is given, says `ready <custodian>` and waits to be killed.
pub(crate) struct VictimProcess {
    pub(crate) process: Child,
    pub(crate) custodian: u32,
}

impl VictimProcess {
    pub(crate) fn start(runtime_dir: &Path, commands: &[&str]) -> Self {
        Self::start_with_prefix(&[], runtime_dir, commands)
    }

    /// With a program in front that runs it.
    pub(crate) fn start_with_prefix(prefix: &[&str], runtime_dir: &Path, commands: &[&str]) -> Self {
        let own = std::env::current_exe().unwrap();
        let words: Vec<&std::ffi::OsStr> = prefix.iter().map(AsRef::as_ref).chain([own.as_os_str()]).collect();
        #[allow(clippy::disallowed_methods, reason = "the victim must not be under custody")]
        let mut process = Command::new(words[0])
            .args(&words[1..])
            .arg(VICTIM_ARGUMENT)
            .arg(runtime_dir)
            .args(commands)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let custodian = line.trim().strip_prefix("ready ").expect(&line).parse().unwrap();
        Self { process, custodian }
    }

    pub(crate) fn kill_9(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// The life of a victim. Each command must print `up` when its tree stands.
pub(crate) fn run_victim(args: &[String]) -> ! {
    let (runtime_dir, commands) = args.split_first().unwrap();
    block_on(async {
        let exec = exec(Some(runtime_dir.into()));
        let shell = shell(base_env(), None);
        let mut kept = Vec::new();
        for text in commands {
            let command = ShellCommand { text, cwd: Path::new("/"), env: Vec::new() };
            let mut running = shell.start(&exec, command).await.unwrap().running;
            wait_for_line(&mut running, "up").await;
            kept.push(running);
        }
        println!("ready {}", exec.custodian_pid().unwrap());
        std::future::pending::<()>().await;
    });
    unreachable!("a victim waits for ever")
}
