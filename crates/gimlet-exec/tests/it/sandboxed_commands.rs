//! Commands in a sandbox do their work, end when they should, and leave nothing.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use gimlet_exec::{
    BubblewrapChoice, DirectoryReporter, Exec, ProbeOptions, SANDBOX_SETUP_FAILED, Sandbox, SandboxBackend,
    SandboxError, SandboxOutcome, SandboxSupport, ShellCommand, SpawnRequest, StdinMode, StreamMode, find_violations,
    probe_sandbox,
};
use gimlet_proto::{SandboxSpec, SandboxViolation};

use crate::common::{self, PATIENCE, TestSession, find_alive, unique_sleep_seconds, wait_for_line, wait_until};
use crate::sandbox_escapes::{all_backends, wait_for_output};

/// Where pytest lies in the cache of tools.
const PYTEST: &str = "gimlet-tools/pytest-8.4.2/bin";

pub(crate) const VICTIM_ARGUMENT: &str = "__sandboxed-victim";

/// A folder that a sandbox shows, and what may be written: that folder and a temp folder in it.
struct SandboxFolder {
    dir: tempfile::TempDir,
}

impl SandboxFolder {
    fn new() -> Self {
        let folder = Self { dir: tempfile::tempdir_in("/var/tmp").unwrap() };
        std::fs::create_dir(folder.path().join("temp")).unwrap();
        folder
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn spec(&self) -> SandboxSpec {
        let temp_dir = Some(self.path().join("temp"));
        SandboxSpec { write: vec![self.path().to_owned()], temp_dir, ..SandboxSpec::default() }
    }

    fn sandbox(&self, kind: &SandboxSupport) -> Sandbox {
        Sandbox::new(self.spec(), kind.clone(), None).unwrap()
    }

    /// A shell command with the tester's own tools.
    fn bash_spawn(&self, script: &str) -> SpawnRequest {
        #[allow(clippy::disallowed_methods, reason = "the tools of whoever runs the tests are tested")]
        let own = |name: &str| (OsString::from(name), std::env::var_os(name).unwrap_or_default());
        let (home, cache) = (own("HOME"), own("XDG_CACHE_HOME").1);
        let cache = if cache.is_empty() { Path::new(&home.1).join(".cache") } else { PathBuf::from(cache) };
        // `scripts/test` installs it there.
        let mut path = cache.join(PYTEST).into_os_string();
        path.push(":");
        path.push(own("PATH").1);
        let mut env = vec![("PATH".into(), path), home, ("GIT_CONFIG_NOSYSTEM".into(), "1".into())];
        // The Rust toolchain may be outside the home, as in images for Docker.
        let toolchain = ["RUSTUP_HOME", "CARGO_HOME", "RUSTUP_TOOLCHAIN"].map(own);
        env.extend(toolchain.into_iter().filter(|(_, value)| !value.is_empty()));
        let args = ["-c", script].map(OsString::from).to_vec();
        let cwd = self.path().to_owned();
        SpawnRequest {
            program: "bash".into(),
            args,
            cwd,
            env,
            stdin: StdinMode::Null,
            streams: StreamMode::Merged,
            report: DirectoryReporter::Disabled,
            confinement: None,
        }
    }

    async fn output_of(&self, exec: &Exec, kind: &SandboxSupport, script: &str) -> String {
        let wrapped = self.sandbox(kind).wrap_spawn(self.bash_spawn(script), &[]).unwrap();
        wait_for_output(exec.spawn(wrapped).await.unwrap()).await.1
    }
}

pub(crate) async fn ordinary_tools_work_inside() {
    let exec = common::exec(None);
    let test = r#"const t = require("node:test"); t("adds", () => require("assert").equal(1 + 1, 2));"#;
    let files = [
        ("Cargo.toml", "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n"),
        ("src/main.rs", "fn main() { println!(\"built\") }\n"),
        ("package.json", r#"{"name": "tiny", "scripts": {"test": "node --test"}}"#),
        ("tiny.test.js", test),
        ("test_tiny.py", "def test_it(tmp_path):\n    (tmp_path / 'x').write_text('1')\n    assert 1 + 1 == 2\n"),
        ("Makefile", "made: src/main.rs\n\tcp $< $@\n"),
    ];
    let commands = [
        ("cargo build --offline && target/debug/tiny", "built"),
        ("npm test", "# pass 1"),
        ("pytest", "1 passed"),
        ("make -j2 && cat made", "println"),
        ("git add . && git -c user.name=a -c user.email=a@b commit -qm tiny && git log --oneline", "tiny"),
        ("f=$(mktemp) && echo kept > $f && cat $f", "kept"),
        ("cat <(echo by descriptor)", "by descriptor"),
        ("python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [-7]))'", "[7]"),
    ];
    for kind in all_backends(&exec).await {
        let folder = SandboxFolder::new();
        std::fs::create_dir(folder.path().join("src")).unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        drop(wait_for_output(exec.spawn(folder.bash_spawn("git init -q .")).await.unwrap()).await);
        for (command, expected) in commands {
            let said = folder.output_of(&exec, &kind, command).await;
            assert!(said.contains(expected), "{command} with {:?}: {said}", kind.backend);
        }
    }
}

pub(crate) async fn a_command_has_three_descriptors_and_no_privilege_to_gain() {
    let exec = common::exec(None);
    for kind in all_backends(&exec).await {
        let folder = SandboxFolder::new();
        let open = folder.output_of(&exec, &kind, "{ : >&3; } 2>/dev/null && echo three; echo /proc/$$/fd/*").await;
        // The shell looks through 3 while it lists, and keeps a script in 255.
        let names: Vec<&str> = open.split_whitespace().filter_map(|path| path.rsplit('/').next()).collect();
        assert!(names.iter().all(|name| ["0", "1", "2", "3", "255"].contains(name)), "{:?}: {open}", kind.backend);
        let status = folder.output_of(&exec, &kind, "cat /proc/self/status").await;
        for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000"] {
            let held = status.contains(line) || (line.starts_with("CapBnd") && !rustix::process::getuid().is_root());
            assert!(held, "{line} with {:?}: {status}", kind.backend);
        }
    }
}

pub(crate) async fn codes_and_signals_come_through_the_walls() {
    let exec = common::exec(None);
    for kind in all_backends(&exec).await {
        let folder = SandboxFolder::new();
        for (script, expected) in [("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)] {
            let wrapped = folder.sandbox(&kind).wrap_spawn(folder.bash_spawn(script), &[]).unwrap();
            let (exit, said) = wait_for_output(exec.spawn(wrapped).await.unwrap()).await;
            assert_eq!(exit.shell_code(), expected, "{script} with {:?}: {said}", kind.backend);
        }
    }
}

pub(crate) async fn a_polite_end_reaches_the_command_inside() {
    let exec = common::exec(None);
    for kind in all_backends(&exec).await {
        let folder = SandboxFolder::new();
        let script = "trap 'sleep 0.1; echo done > ended; exit 5' TERM; echo up; while :; do sleep 0.01; done";
        let wrapped = folder.sandbox(&kind).wrap_spawn(folder.bash_spawn(script), &[]).unwrap();
        let mut running = exec.spawn(wrapped).await.unwrap();
        wait_for_line(&mut running, "up").await;
        running.kill(PATIENCE).await;
        assert_eq!(running.exit().and_then(|exit| exit.code), Some(5), "{:?}", kind.backend);
        assert!(folder.path().join("ended").exists());
    }
}

pub(crate) async fn killing_a_sandboxed_command_takes_its_whole_tree_along() {
    let exec = common::exec(None);
    for kind in all_backends(&exec).await {
        let (folder, sleep) = (SandboxFolder::new(), unique_sleep_seconds());
        let wrapped = folder
            .sandbox(&kind)
            .wrap_spawn(folder.bash_spawn(&crate::process_custody::escaping_processes_script(&sleep)), &[])
            .unwrap();
        let mut running = exec.spawn(wrapped).await.unwrap();
        wait_for_line(&mut running, "up").await;
        assert!(!find_alive(&sleep).is_empty());
        running.kill(Duration::ZERO).await;
        assert_eq!(find_alive(&sleep), [] as [i32; 0], "{:?}", kind.backend);
    }
}

/// Starts a tree in each kind of sandbox, says so, and waits to be killed.
pub(crate) fn run_victim(sleep: &str) -> ! {
    common::block_on(async {
        let exec = common::exec(None);
        let mut kept = Vec::new();
        for kind in all_backends(&exec).await {
            let folder = SandboxFolder::new();
            let script = crate::process_custody::escaping_processes_script(sleep);
            let wrapped = folder.sandbox(&kind).wrap_spawn(folder.bash_spawn(&script), &[]).unwrap();
            let mut running = exec.spawn(wrapped).await.unwrap();
            wait_for_line(&mut running, "up").await;
            kept.push(running);
        }
        println!("ready");
        std::future::pending::<()>().await;
    });
    unreachable!("a victim waits for ever")
}

pub(crate) async fn killing_gimlet_leaves_nothing_in_any_sandbox() {
    let sleep = unique_sleep_seconds();
    #[allow(clippy::disallowed_methods, reason = "the victim must not be under custody")]
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args([VICTIM_ARGUMENT, &sleep])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(victim.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    assert!(!find_alive(&sleep).is_empty());
    victim.kill().unwrap();
    victim.wait().unwrap();
    wait_until("everything inside ends", || find_alive(&sleep).is_empty()).await;
}

pub(crate) async fn walls_that_cannot_be_put_up_stop_the_command() {
    let exec = common::exec(None);
    let folder = SandboxFolder::new();
    let broken = SandboxSupport {
        backend: SandboxBackend::Bubblewrap { path: "/nonexistent/bwrap".into() },
        landlock_abi: 7,
        notes: Vec::new(),
    };
    let wrapped = folder.sandbox(&broken).wrap_spawn(folder.bash_spawn("touch ran"), &[]).unwrap();
    let (exit, said) = wait_for_output(exec.spawn(wrapped).await.unwrap()).await;
    assert_eq!(exit.code, Some(SANDBOX_SETUP_FAILED));
    assert!(said.contains("the sandbox was not set up: /nonexistent/bwrap"), "{said}");
    assert!(!folder.path().join("ran").exists());
}

pub(crate) async fn what_is_missing_is_named() {
    let exec = common::exec(None);
    let options = ProbeOptions { bubblewrap: BubblewrapChoice::At("/nonexistent/bwrap".into()), own_namespaces: true };
    let without_bubblewrap = probe_sandbox(&exec, &options).await;
    assert_eq!(without_bubblewrap.backend, SandboxBackend::Namespaces);
    assert!(without_bubblewrap.missing_layers().is_empty() && without_bubblewrap.notes[0].contains("bubblewrap"));
    // A bubblewrap that is there and does not work, as where user namespaces are forbidden, and one that runs nothing.
    for program in ["/bin/false", "/bin/true"] {
        let options = ProbeOptions { bubblewrap: BubblewrapChoice::At(program.into()), own_namespaces: false };
        let weak = probe_sandbox(&exec, &options).await;
        assert_eq!(weak.backend, SandboxBackend::Landlock);
        let missing: Vec<&str> = weak.missing_layers().iter().map(|layer| layer.name()).collect();
        assert_eq!(missing, ["mounts", "processes", "network"]);
        assert!(weak.notes[0].contains(program), "{:?}", weak.notes);
    }
}

pub(crate) async fn namespaces_of_its_own_come_first_unless_somebody_wants_bubblewrap() {
    let exec = common::exec(None);
    assert_eq!(probe_sandbox(&exec, &ProbeOptions::default()).await.backend, SandboxBackend::Namespaces);
    let path = PathBuf::from("/usr/bin/bwrap");
    for bubblewrap in [BubblewrapChoice::First, BubblewrapChoice::At(path.clone())] {
        let options = ProbeOptions { bubblewrap, own_namespaces: true };
        assert_eq!(probe_sandbox(&exec, &options).await.backend, SandboxBackend::Bubblewrap { path: path.clone() });
    }
    let options = ProbeOptions { own_namespaces: false, ..ProbeOptions::default() };
    assert_eq!(probe_sandbox(&exec, &options).await.backend, SandboxBackend::Bubblewrap { path });
}

pub(crate) async fn a_bubblewrap_that_commands_could_replace_is_not_used() {
    let folder = SandboxFolder::new();
    let path = folder.path().join("bwrap");
    let kind = SandboxSupport { backend: SandboxBackend::Bubblewrap { path }, landlock_abi: 7, notes: Vec::new() };
    let refused = Sandbox::new(folder.spec(), kind, None);
    assert!(matches!(refused, Err(SandboxError::BubblewrapWritable { .. })), "{refused:?}");
}

pub(crate) async fn a_shell_reports_its_directory_from_inside() {
    let exec = common::exec(None);
    for kind in all_backends(&exec).await {
        let folder = SandboxFolder::new();
        let session = TestSession::new();
        let script = folder.path().join("temp/env.sh");
        std::fs::write(&script, "FROM_FILE=yes\n").unwrap();
        let shell = common::shell(common::base_env().with("CLAUDE_ENV_FILE", script.as_os_str()), None);
        let text = "mkdir sub; cd sub; echo $FROM_FILE $TMPDIR";
        let command = ShellCommand { text, cwd: folder.path(), env: Vec::new() };
        let started = shell.start_sandboxed(&exec, command, &folder.sandbox(&kind)).await.unwrap();
        let mut running = gimlet_exec::ForegroundCommand::new(started.running, session.limits());
        let finished = tokio::time::timeout(PATIENCE, running.finish()).await.unwrap();
        assert_eq!(finished.cwd(), Some(folder.path().join("sub")), "{:?}", kind.backend);
        let said = String::from_utf8(finished.output.head.clone()).unwrap();
        assert_eq!(said, format!("yes {}\n", folder.path().join("temp").display()));
    }
}

pub(crate) async fn a_closed_place_can_have_an_open_one_in_it() {
    let exec = common::exec(None);
    for kind in all_backends(&exec).await {
        let folder = SandboxFolder::new();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(path("closed/open")).unwrap();
        for name in ["closed/secret", "closed/open/readable"] {
            std::fs::write(path(name), "text").unwrap();
        }
        let spec = SandboxSpec {
            write: vec![path("temp")],
            deny_read: vec![path("closed")],
            allow_read: vec![path("closed/open")],
            ..folder.spec()
        };
        let sandbox = Sandbox::new(spec, kind.clone(), None).unwrap();
        let script = "cat closed/secret; cat closed/open/readable; echo x > closed/open/new";
        let wrapped = sandbox.wrap_spawn(folder.bash_spawn(script), &[]).unwrap();
        let (_, said) = wait_for_output(exec.spawn(wrapped).await.unwrap()).await;
        assert!(said.ends_with("text") || said.contains("text\n") || said.contains("textbash"), "{said}");
        assert_eq!(said.matches("text").count(), 1, "{:?}: {said}", kind.backend);
        assert!(!path("closed/open/new").exists());
    }
}

pub(crate) async fn what_the_walls_refused_is_recognised() {
    let exec = common::exec(None);
    for kind in all_backends(&exec).await {
        let folder = SandboxFolder::new();
        let outside = tempfile::tempdir_in("/var/tmp").unwrap();
        let target = outside.path().join("new");
        let script = format!("touch {}; exit 1", target.display());
        let wrapped = folder.sandbox(&kind).wrap_spawn(folder.bash_spawn(&script), &[]).unwrap();
        let (exit, output) = wait_for_output(exec.spawn(wrapped).await.unwrap()).await;
        let spec = folder.spec();
        let aftermath =
            SandboxOutcome { spec: &spec, cwd: folder.path(), exit: Some(exit), output: &output, refusals: &[] };
        assert_eq!(
            find_violations(aftermath),
            [SandboxViolation::Write { path: target }],
            "{:?}: {output}",
            kind.backend
        );
    }
}

pub(crate) async fn a_closed_place_within_an_open_one_within_a_closed_one_stays_closed() {
    let exec = common::exec(None);
    for kind in all_backends(&exec).await {
        let folder = SandboxFolder::new();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(path("closed/open/shut")).unwrap();
        for name in ["closed/a", "closed/open/b", "closed/open/shut/c", "closed/open/d"] {
            std::fs::write(path(name), format!("<{name}>")).unwrap();
        }
        let spec = SandboxSpec {
            write: vec![path("temp")],
            deny_read: ["closed", "closed/open/shut", "closed/open/d"].map(path).to_vec(),
            allow_read: vec![path("closed/open")],
            ..folder.spec()
        };
        let sandbox = Sandbox::new(spec, kind.clone(), None).unwrap();
        let script = "cat closed/a closed/open/b closed/open/shut/c closed/open/d 2>/dev/null";
        let wrapped = sandbox.wrap_spawn(folder.bash_spawn(script), &[]).unwrap();
        let (_, said) = wait_for_output(exec.spawn(wrapped).await.unwrap()).await;
        assert_eq!(said, "<closed/open/b>", "{:?}", kind.backend);
    }
}

pub(crate) async fn with_files_open_everything_else_is_closed() {
    let exec = common::exec(None);
    for kind in all_backends(&exec).await {
        let (folder, elsewhere) = (SandboxFolder::new(), tempfile::tempdir().unwrap());
        let spec = SandboxSpec { files_open: true, ..folder.spec() };
        let sandbox = Sandbox::new(spec, kind.clone(), None).unwrap();
        let script = format!(
            "echo x > {}/made && echo written; exec 3<>/dev/tcp/127.0.0.1/1 || echo closed; \
             kill -0 {} 2>/dev/null || echo apart; unshare -U true 2>/dev/null || echo bare",
            elsewhere.path().display(),
            std::process::id(),
        );
        let wrapped = sandbox.wrap_spawn(folder.bash_spawn(&script), &[]).unwrap();
        let (_, said) = wait_for_output(exec.spawn(wrapped).await.unwrap()).await;
        let said: Vec<&str> = said.lines().filter(|line| !line.starts_with("bash:")).collect();
        assert_eq!(said, ["written", "closed", "apart", "bare"], "{:?}", kind.backend);
    }
}

pub(crate) async fn a_command_that_wants_more_memory_than_its_limit_does_not_get_it() {
    let exec = common::exec(None);
    for kind in all_backends(&exec).await {
        let folder = SandboxFolder::new();
        let spec = SandboxSpec { max_memory: Some(200 << 20), ..folder.spec() };
        let sandbox = Sandbox::new(spec, kind.clone(), None).unwrap();
        let script = "python3 -S -c 'x = bytearray(50 << 20); print(1)'; \
                      python3 -S -c 'x = bytearray(400 << 20); print(2)' 2>/dev/null; ulimit -c";
        let wrapped = sandbox.wrap_spawn(folder.bash_spawn(script), &[]).unwrap();
        let (_, said) = wait_for_output(exec.spawn(wrapped).await.unwrap()).await;
        assert_eq!(said, "1\n0\n", "{:?}", kind.backend);
    }
}

/// Runs one script after the other behind the same walls, as commands of a session.
async fn run_in_sequence(exec: &Exec, folder: &SandboxFolder, sandbox: &Sandbox, scripts: &[String]) -> String {
    let mut all = String::new();
    for script in scripts {
        let wrapped = sandbox.wrap_spawn(folder.bash_spawn(script), &[]).unwrap();
        all += &wait_for_output(exec.spawn(wrapped).await.unwrap()).await.1;
    }
    all
}

pub(crate) async fn a_link_in_place_of_a_folder_that_may_be_written_opens_nothing() {
    let exec = common::exec(None);
    for kind in all_backends(&exec).await {
        let (folder, outside) = (SandboxFolder::new(), tempfile::tempdir_in("/var/tmp").unwrap());
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("there")).unwrap();
        std::os::unix::fs::symlink(root.join("there"), root.join("link")).unwrap();
        // As rules that allow edits there have it: one that is there, one that is not yet, one by a link.
        let write = ["", "there", "later", "link"].map(|name| root.join(name)).to_vec();
        let spec = SandboxSpec { write, ..folder.spec() };
        let sandbox = Sandbox::new(spec, kind.clone(), None).unwrap();
        let out = outside.path().display();
        let swap = format!("ln -s {out} later; mv there old && ln -s {out} there; ln -sfn {out} link; true");
        let write = "echo x > later/a; echo x > there/b; echo x > link/c; echo x > inside; true".to_owned();
        run_in_sequence(&exec, &folder, &sandbox, &[swap, write]).await;
        assert_eq!(outside.path().read_dir().unwrap().count(), 0, "{:?}", kind.backend);
        assert!(root.join("inside").exists(), "{:?}", kind.backend);
    }
}

pub(crate) async fn a_link_to_a_closed_place_does_not_open_it_as_a_folder_to_read_or_to_begin_in() {
    let exec = common::exec(None);
    for kind in all_backends(&exec).await {
        let (folder, closed) = (SandboxFolder::new(), tempfile::tempdir_in("/var/tmp").unwrap());
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(closed.path().join("deep")).unwrap();
        std::fs::write(closed.path().join("deep/key"), "secret").unwrap();
        let (deny_read, allow_read) = (vec![closed.path().to_owned()], vec![root.join("pub")]);
        let spec = SandboxSpec { write: vec![root.clone()], deny_read, allow_read, ..folder.spec() };
        let sandbox = Sandbox::new(spec, kind.clone(), None).unwrap();
        let deep = closed.path().join("deep");
        let link = format!("ln -s {0} pub; ln -s {0} begin; true", deep.display());
        let read = "cat pub/key".to_owned();
        let mut said = run_in_sequence(&exec, &folder, &sandbox, &[link, read]).await;
        let spawn = SpawnRequest { cwd: root.join("begin"), ..folder.bash_spawn("cat key") };
        said += &wait_for_output(exec.spawn(sandbox.wrap_spawn(spawn, &[]).unwrap()).await.unwrap()).await.1;
        assert!(!said.contains("secret"), "{:?}: {said}", kind.backend);
    }
}
