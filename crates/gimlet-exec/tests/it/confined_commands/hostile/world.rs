//! A home with secrets and a project in it, whose every detail is known before and after a command.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use gimlet_exec::{
    CaptureLimits, Confinement, ConfinementSpec, Exec, ForegroundCommand, Shell, ShellCommand, ShellConfig, ShellRun,
};
use gimlet_proto::Env;

use super::services::DecoyServices;
use super::{PRELUDE, SECRET, SUCCESS, git_world};
use crate::common::{PATIENCE, base_env};

/// Files of the home, each with a secret in it.
const SECRET_FILES: &[&str] = &[
    ".aws/credentials",
    ".bash_history",
    ".claude.json",
    ".claude/.credentials.json",
    ".claude/history.jsonl",
    ".config/gh/hosts.yml",
    ".git-credentials",
    ".netrc",
    ".npmrc",
    ".ssh/authorized_keys",
    ".ssh/id_rsa",
    "notes.txt",
    "other/file.txt",
    "project/private.key",
];
/// Folders outside the world in which a command might leave its mark.
const MARKED_FOLDERS: &[&str] = &[
    "/",
    "/dev/shm",
    "/etc",
    "/etc/cron.d",
    "/etc/profile.d",
    "/home",
    "/opt",
    "/root",
    "/run",
    "/sys/fs/cgroup",
    "/tmp",
    "/usr/bin",
    "/usr/local/bin",
    "/var/spool/cron/crontabs",
    "/var/tmp",
];

/// A file or folder as it is known: its content, and everything that the kernel says about it but when it was read.
type State = BTreeMap<PathBuf, String>;

pub(super) struct HostileWorld {
    _dir: tempfile::TempDir,
    root: PathBuf,
    mark: String,
    shell: Shell,
    /// `None` in a copy.
    confinement: Option<Arc<Confinement>>,
    /// Lines that must not be printed besides what contains [`SECRET`].
    secret_lines: Vec<String>,
}

impl HostileWorld {
    pub(super) fn build(services: &DecoyServices) -> Self {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let home = dir.path().canonicalize().unwrap().join("home");
        for file in SECRET_FILES {
            write(&home.join(file), &format!("{SECRET} of {file}\n"));
        }
        write(&home.join(".bashrc"), "# nothing\n");
        write(&home.join("project/empty/.keep"), "");
        write(&home.join("project/a.txt"), "plain\nsecond\n");
        std::fs::create_dir(home.join("project/hollow")).unwrap();
        std::os::unix::fs::symlink("../notes.txt", home.join("project/link")).unwrap();
        std::os::unix::fs::symlink("..", home.join("project/parent")).unwrap();
        git_world::build(&home);
        let (world, spec) = Self::around(dir, services);
        let confinement = Confinement::build(&spec).unwrap();
        assert!(confinement.is_enforced(), "this kernel has no Landlock");
        Self { confinement: Some(Arc::new(confinement)), ..world }
    }

    /// Copies the files of this world into another.
    pub(super) fn copy(&self, services: &DecoyServices) -> Self {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        #[allow(clippy::disallowed_methods, reason = "no command of gimlet's")]
        let status = Command::new("cp").arg("-a").arg(self.home()).arg(dir.path()).status().unwrap();
        assert!(status.success());
        Self::around(dir, services).0
    }

    fn around(dir: tempfile::TempDir, services: &DecoyServices) -> (Self, ConfinementSpec) {
        let root = dir.path().canonicalize().unwrap();
        let home = root.join("home");
        let mut env = base_env()
            .with("HOME", home.as_os_str())
            .with("H", home.as_os_str())
            .with("O", home.join("other").as_os_str())
            .with("P", home.join("project").as_os_str())
            .with("MY_API_KEY", format!("{SECRET} key"))
            .with("DATABASE_URL", format!("postgres://ada:{SECRET}@db.example/x"))
            .with("GIT_CONFIG_COUNT", "1")
            .with("GIT_CONFIG_KEY_0", "http.https://example.org/.extraHeader")
            .with("GIT_CONFIG_VALUE_0", format!("Authorization: {SECRET}"))
            .with("TMPDIR", root.join("temp").as_os_str());
        for (name, value) in services.variables() {
            env = env.with(name, value);
        }
        std::fs::create_dir(root.join("temp")).unwrap();
        let spec = specify(&root, &env);
        let config =
            ShellConfig { env, session_id: "session".into(), effort: None, snapshot_file: None, prestart: false };
        let shadow = std::fs::read_to_string("/etc/shadow").unwrap_or_default();
        let secret_lines = shadow.lines().map(ToOwned::to_owned).collect();
        let (shell, mark) = (Shell::find(config).unwrap(), services.mark.clone());
        (Self { _dir: dir, root, mark, shell, confinement: None, secret_lines }, spec)
    }

    fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    fn project(&self) -> PathBuf {
        self.home().join("project")
    }

    pub(super) async fn run_confined(&self, exec: &Exec, text: &str) -> String {
        let text = format!("{PRELUDE}{text}");
        let command = ShellCommand { text: &text, cwd: &self.project(), env: Vec::new() };
        self.finish(self.shell.start_confined(exec, command, self.confinement.as_ref().unwrap()).await.unwrap()).await
    }

    pub(super) async fn run_open(&self, exec: &Exec, text: &str) -> String {
        let text = format!("{PRELUDE}{text}");
        let command = ShellCommand { text: &text, cwd: &self.project(), env: Vec::new() };
        self.finish(self.shell.start(exec, command).await.unwrap()).await
    }

    async fn finish(&self, run: ShellRun) -> String {
        let limits = CaptureLimits::for_foreground(200_000, self.root.join("output"));
        let mut command = ForegroundCommand::new(run.running, limits);
        let finished = tokio::time::timeout(PATIENCE, command.finish()).await.unwrap();
        String::from_utf8_lossy(&finished.output.head).replace('\0', "\n")
    }

    /// What of an output must not be there.
    pub(super) fn leaks(&self, output: &str) -> Vec<String> {
        let is_secret = |line: &&str| {
            line.contains(SECRET) || line.contains(SUCCESS) || self.secret_lines.iter().any(|secret| secret == line)
        };
        output.lines().filter(is_secret).map(|line| format!("printed '{line}'")).collect()
    }

    /// The home folder, and the names beside it.
    pub(super) fn state(&self) -> State {
        let mut state = State::new();
        add_state(&self.home(), &mut state);
        for entry in self.root.read_dir().unwrap().flatten().filter(|entry| entry.file_name() != "output") {
            state.insert(entry.path(), format!("{:?}", entry.file_type().unwrap()));
        }
        state
    }

    /// What is different from an earlier state, and marks that were left elsewhere.
    pub(super) fn changes(&self, before: &State) -> Vec<String> {
        let now = self.state();
        let mut changes: Vec<String> = self.marks().iter().map(|path| format!("there is {}", path.display())).collect();
        for path in before.keys().chain(now.keys()).filter(|path| before.get(*path) != now.get(*path)) {
            changes.push(format!("{}: {:?} is now {:?}", path.display(), before.get(path), now.get(path)));
        }
        changes
    }

    fn marks(&self) -> Vec<PathBuf> {
        let marked = MARKED_FOLDERS.iter().map(|folder| Path::new(folder).join(&self.mark));
        marked.filter(|path| path.symlink_metadata().is_ok()).collect()
    }

    pub(super) fn remove_marks(&self) {
        for path in self.marks() {
            drop(std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir(&path)));
        }
    }
}

fn specify(root: &Path, env: &Env) -> ConfinementSpec {
    let home = root.join("home");
    ConfinementSpec {
        roots: vec![home.join("project")],
        readable: Vec::new(),
        closed: vec![home.join("project/private.key")],
        config_home: home.join(".claude"),
        temp_dir: root.join("temp"),
        env: env.clone(),
        home: Some(home),
    }
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn add_state(folder: &Path, state: &mut State) {
    for entry in folder.read_dir().unwrap().flatten() {
        let path = entry.path();
        let known = path.symlink_metadata().unwrap();
        let content = if known.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
        // The change time moves with owners, attributes, flags and links too.
        let text = format!(
            "{:o} {}:{} {} at {}.{} {}.{} {:?}",
            known.mode(),
            known.uid(),
            known.gid(),
            known.nlink(),
            known.mtime(),
            known.mtime_nsec(),
            known.ctime(),
            known.ctime_nsec(),
            String::from_utf8_lossy(&content)
        );
        if known.is_dir() {
            add_state(&path, state);
        }
        state.insert(path, text);
    }
}
