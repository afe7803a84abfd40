//! A scratch world: a home, a project and the binary under test.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use gimlet_script::ScriptServer;
use serde_json::Value;
use tempfile::TempDir;

use crate::run_output::RunOutput;

/// Maximum duration of a run; a longer one is stuck.
const LIMIT: Duration = Duration::from_secs(60);

/// Scratch home and project.
pub struct TestWorld {
    _root: TempDir,
    pub home: PathBuf,
    pub project: PathBuf,
    binary: PathBuf,
}

impl TestWorld {
    /// Creates a fresh world for this binary (`env!("CARGO_BIN_EXE_gimlet")` in the caller).
    pub fn new(binary: &str) -> Self {
        let root = tempfile::tempdir().expect("a temporary folder");
        let base = root.path().canonicalize().expect("a real path");
        let (home, project) = (base.join("home"), base.join("project"));
        std::fs::create_dir(&home).expect("a home");
        std::fs::create_dir(&project).expect("a project");
        Self { _root: root, home, project, binary: PathBuf::from(binary) }
    }

    /// Creates another world in which shell lines run before the binary, in its process.
    pub fn with_shell_prelude(&self, shell: &str) -> Self {
        let script = self.file("before.sh", format!("#!/bin/bash\n{shell}\nexec '{}' \"$@\"\n", self.binary.display()));
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("an executable script");
        Self::new(&script.to_string_lossy())
    }

    /// Writes a file of the project.
    pub fn file(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.project.join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(&path, content).expect("a written file");
        path
    }

    /// Reads a file of the project.
    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.project.join(path)).expect("a readable file")
    }

    /// Returns the path of a project file as text, for tool inputs.
    pub fn path(&self, path: &str) -> String {
        self.project.join(path).to_string_lossy().into_owned()
    }

    /// Prepares a run of the binary against this model.
    pub fn run(&self, model: &ScriptServer) -> RunBuilder<'_> {
        self.run_at(&model.url())
    }

    /// Prepares a run of the binary against the server at `url`.
    #[allow(clippy::disallowed_methods, reason = "programs of this machine are found where it has them")]
    pub fn run_at(&self, url: &str) -> RunBuilder<'_> {
        let env = [
            ("HOME", self.home.to_string_lossy().into_owned()),
            ("PATH", std::env::vars().find(|(name, _)| name == "PATH").map(|(_, path)| path).unwrap_or_default()),
            ("ANTHROPIC_BASE_URL", url.to_owned()),
            ("ANTHROPIC_API_KEY", "test-key".to_owned()),
            ("IS_SANDBOX", "1".to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            // Most scripts are about requests that begin with the environment.
            ("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1".to_owned()),
            // A loaded machine takes longer to start a server than a person wants to wait.
            ("MCP_CONNECT_TIMEOUT_MS", "40000".to_owned()),
        ];
        RunBuilder {
            world: self,
            args: Vec::new(),
            env: env.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            stdin: Vec::new(),
            hold_stdin: false,
            cwd: self.project.clone(),
        }
    }

    /// Returns every transcript of this world, oldest first.
    pub fn transcripts(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        collect_transcripts(&self.home.join(".claude/projects"), &mut found);
        found.sort_by_key(|path| path.metadata().and_then(|metadata| metadata.modified()).ok());
        found
    }

    /// Returns the entries of the only transcript.
    pub fn transcript_entries(&self) -> Vec<Value> {
        let transcripts = self.transcripts();
        assert_eq!(transcripts.len(), 1, "{transcripts:?}");
        entries_of(&transcripts[0])
    }
}

/// Returns the parsed lines of a transcript.
pub fn entries_of(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("a transcript");
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn collect_transcripts(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect_transcripts(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "jsonl") {
            found.push(path);
        }
    }
}

/// Returns true if requests of a run in this environment stay on this machine: they go to its loopback or through a
/// proxy there, or have no credential and are not sent.
fn is_loopback_only(env: &BTreeMap<String, String>) -> bool {
    let is_local = |name: &str| {
        let host = env.get(name).and_then(|url| url.split_once("://")).map(|(_, host)| host).unwrap_or_default();
        ["127.0.0.1", "localhost", "[::1]"].iter().any(|local| host.starts_with(local))
    };
    let proxies = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
    let has_key = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"].iter().any(|name| env.contains_key(*name));
    let is_web = env.get("ANTHROPIC_BASE_URL").is_none_or(|url| url.starts_with("http"));
    !is_web || !has_key || is_local("ANTHROPIC_BASE_URL") || proxies.iter().any(|name| is_local(name))
}

/// Builder of one run.
pub struct RunBuilder<'a> {
    world: &'a TestWorld,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    stdin: Vec<u8>,
    hold_stdin: bool,
    cwd: PathBuf,
}

impl RunBuilder<'_> {
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub fn args<'a>(mut self, args: impl IntoIterator<Item = &'a str>) -> Self {
        self.args.extend(args.into_iter().map(str::to_owned));
        self
    }

    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.insert(name.to_owned(), value.into());
        self
    }

    pub fn without_env(mut self, name: &str) -> Self {
        self.env.remove(name);
        self
    }

    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Leaves standard input open after the prepared input.
    pub fn hold_stdin(mut self) -> Self {
        self.hold_stdin = true;
        self
    }

    pub fn cwd(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cwd = dir.into();
        self
    }

    /// Selects print mode with stream-json output, everything allowed.
    pub fn stream(self, prompt: &str) -> Self {
        self.args(["-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"]).arg(prompt)
    }

    /// Selects print mode with text output, nothing allowed beyond the defaults.
    pub fn print_text(self, prompt: &str) -> Self {
        self.arg("-p").arg(prompt)
    }

    /// Runs to the end without blocking the scripted model, which lives in this runtime.
    pub async fn finish(self) -> RunOutput {
        let mut child = self.start();
        tokio::task::spawn_blocking(move || child.wait_with_output()).await.expect("a finished run")
    }

    /// Starts the run and leaves it running.
    #[allow(clippy::disallowed_methods, reason = "the harness starts the program under test")]
    pub fn start(self) -> RunningChild {
        assert!(is_loopback_only(&self.env), "a run would send its credential beyond loopback: {:?}", self.env);
        let mut child = Command::new(&self.world.binary)
            .args(&self.args)
            .env_clear()
            .envs(&self.env)
            .current_dir(&self.cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        // A program need not read its input.
        drop(stdin.write_all(&self.stdin));
        let stdout = child.stdout.take().map(BufReader::new);
        RunningChild { child, stdin: self.hold_stdin.then_some(stdin), stdout, read: String::new() }
    }
}

/// Run in progress.
pub struct RunningChild {
    child: Child,
    /// Standard input, kept open only on request.
    pub stdin: Option<std::process::ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
    /// Stdout read so far.
    read: String,
}

impl RunningChild {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Reads stdout up to and including the first line that contains `part`. Blocks; panics when there is none.
    pub fn read_until(&mut self, part: &str) {
        loop {
            let start = self.read.len();
            let stdout = self.stdout.as_mut().expect("an open stdout");
            let count = stdout.read_line(&mut self.read).expect("readable output");
            assert!(count > 0, "no line has {part:?}:\n{}", self.read);
            if self.read[start..].contains(part) {
                return;
            }
        }
    }

    /// Reads stdout line by line from here on, on a separate thread.
    pub fn lines(&mut self) -> tokio::sync::mpsc::UnboundedReceiver<String> {
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        let stdout = self.stdout.take().expect("an open stdout");
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        receiver
    }

    /// Closes our end of its stdout.
    pub fn close_stdout(&mut self) {
        self.stdout = None;
    }

    pub fn kill(&mut self) {
        // A process that ended by itself need not be killed.
        drop(self.child.kill());
    }

    /// Waits for the end and returns the whole output. Panics on a timeout.
    pub fn wait_with_output(&mut self) -> RunOutput {
        let stdout = spawn_pipe_reader(self.stdout.take());
        let stderr = spawn_pipe_reader(self.child.stderr.take());
        let status = self.wait_with_timeout();
        RunOutput {
            stdout: std::mem::take(&mut self.read) + &stdout.join().expect("a reader"),
            stderr: stderr.join().expect("a reader"),
            code: exit_code(status),
        }
    }

    fn wait_with_timeout(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            if started.elapsed() > LIMIT {
                drop(self.child.kill());
                panic!("the binary did not end within {LIMIT:?}");
            }
            sleep_briefly();
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the harness waits for a child on a blocking thread")]
fn sleep_briefly() {
    std::thread::sleep(Duration::from_millis(2));
}

fn spawn_pipe_reader(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            pipe.read_to_end(&mut bytes).expect("readable output");
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_would_leave_this_machine_are_noticed() {
        let run = |pairs: &[(&str, &str)]| {
            is_loopback_only(&pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        let key = ("ANTHROPIC_API_KEY", "k");
        let at = |url| ("ANTHROPIC_BASE_URL", url);
        assert!(run(&[key, at("http://127.0.0.1:9")]) && run(&[key, at("https://localhost:9")]) && run(&[]));
        assert!(run(&[key, at("https://model.test"), ("https_proxy", "http://127.0.0.1:9")]));
        assert!(!run(&[key]) && !run(&[key, at("https://model.test")]));
    }
}
