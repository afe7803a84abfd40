//! Ordinary read-only commands of real projects print the same and end the same whether they are confined or not.
//!
//! Output is compared byte for byte, with no normalisation; commands whose output depends on time, on other processes or
//! on the place of the temporary folder are not in the tables. Neither are `git config --list` and queries of the settings
//! that git gets through the environment of a confined command.

mod ordinary_git;
mod projects;
mod text;
mod tools;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_exec::{
    CaptureLimits, CommandEnd, Confinement, ConfinementSpec, Exec, ForegroundCommand, Shell, ShellCommand, ShellConfig,
    ShellRun, render_for_model,
};
use gimlet_proto::Env;

use super::join_all;
use crate::common::{self, PATIENCE};
use projects::SampleProjects;

/// As many must have been compared, whatever is installed.
const FEWEST_COMMANDS: usize = 300;
/// How many pairs of commands are under way at one time.
const AT_ONCE: usize = 4;

/// Commands that are run in one folder of the projects.
struct CommandTable {
    /// The working directory that confinement is built for.
    root: &'static str,
    /// The folder that the commands start in.
    folder: &'static str,
    commands: &'static [&'static str],
}

const TABLES: &[CommandTable] = &[
    CommandTable { root: "home/repo", folder: "home/repo", commands: ordinary_git::TOP },
    CommandTable { root: "home/repo/src", folder: "home/repo/src", commands: ordinary_git::ANYWHERE },
    CommandTable { root: "home/repo/src", folder: "home/repo/src", commands: ordinary_git::SUBFOLDER },
    CommandTable { root: "trees/linked", folder: "trees/linked", commands: ordinary_git::ANYWHERE },
    CommandTable { root: "trees/linked", folder: "trees/linked", commands: ordinary_git::WORKTREE },
    CommandTable { root: "home/repo", folder: "home/repo/vendor/module", commands: ordinary_git::ANYWHERE },
    CommandTable {
        root: "home/repo/vendor/module",
        folder: "home/repo/vendor/module",
        commands: ordinary_git::ANYWHERE,
    },
    CommandTable {
        root: "home/repo/vendor/module",
        folder: "home/repo/vendor/module",
        commands: ordinary_git::SUBMODULE,
    },
    CommandTable { root: "home/data", folder: "home/data", commands: text::COMMANDS },
    CommandTable { root: "home/data", folder: "home/data", commands: tools::SYSTEM },
    CommandTable { root: "home/crate", folder: "home/crate", commands: tools::CARGO },
    CommandTable { root: "home/package", folder: "home/package", commands: tools::NODE },
    CommandTable { root: "home/python", folder: "home/python", commands: tools::PYTHON },
    CommandTable { root: "home/made", folder: "home/made", commands: tools::MAKE },
];

struct OrdinaryWorld {
    projects: SampleProjects,
    exec: Exec,
    shell: Shell,
    env: Env,
}

impl OrdinaryWorld {
    fn new() -> Self {
        let projects = SampleProjects::build();
        let env = environment(projects.root());
        let config = ShellConfig {
            env: env.clone(),
            session_id: "session".into(),
            effort: None,
            snapshot_file: None,
            prestart: false,
        };
        Self { projects, exec: common::exec(None), shell: Shell::find(config).unwrap(), env }
    }

    fn confinement(&self, root: &str) -> Arc<Confinement> {
        let home = self.projects.root().join("home");
        let spec = ConfinementSpec {
            roots: vec![self.projects.root().join(root)],
            readable: Vec::new(),
            closed: Vec::new(),
            config_home: home.join(".claude"),
            temp_dir: self.projects.root().join("temp"),
            env: self.env.clone(),
            home: Some(home),
        };
        Arc::new(Confinement::build(&spec).unwrap())
    }

    async fn finish(&self, run: ShellRun) -> (CommandEnd, String) {
        let limits = CaptureLimits::for_foreground(500_000, self.projects.root().join("output"));
        let mut command = ForegroundCommand::new(run.running, limits);
        let finished = tokio::time::timeout(PATIENCE, command.finish()).await.unwrap();
        (finished.end, without_blame_clock(&render_for_model(&finished.output.head)))
    }

    /// Runs a command in both ways; returns what differs.
    async fn compare(&self, table: &CommandTable, confinement: &Arc<Confinement>, text: &str) -> Option<String> {
        let folder: PathBuf = self.projects.root().join(table.folder);
        let command = || ShellCommand { text, cwd: &folder, env: Vec::<(OsString, OsString)>::new() };
        let open = self.finish(self.shell.start(&self.exec, command()).await.unwrap()).await;
        let confined = self.shell.start_confined(&self.exec, command(), confinement).await.unwrap();
        let confined = self.finish(confined).await;
        (format!("{open:?}") != format!("{confined:?}")).then(|| {
            format!("`{text}` in {} (root {}):\n  open     {open:?}\n  confined {confined:?}", table.folder, table.root)
        })
    }

    /// Whether every program that a command begins with is here.
    fn has_programs(&self, text: &str) -> bool {
        let optional = text.split(['|', ';', '(']).filter_map(|part| part.split_whitespace().next());
        optional.into_iter().filter(|name| tools::OPTIONAL.contains(name)).all(|name| {
            let path = self.env.raw("PATH").unwrap();
            std::env::split_paths(path).any(|folder| folder.join(name).is_file())
        })
    }
}

/// Removes the time that `git blame` gives lines that are not committed, which is the current one.
fn without_blame_clock(output: &str) -> String {
    const MARK: &str = "Not Committed Yet ";
    let strip_time = |line: &str| match line.split_once(MARK) {
        Some((before, after)) => format!("{before}{MARK}{}", after.get("2026-11-19 01:56:19".len()..).unwrap_or(after)),
        None => line.to_owned(),
    };
    output.lines().map(strip_time).collect::<Vec<_>>().join("\n")
}

/// The variables of a user whose home is a folder of the projects, and whose tools are those of whoever runs the tests.
fn environment(root: &Path) -> Env {
    #[allow(clippy::disallowed_methods, reason = "the tools of whoever runs the tests")]
    let real = |name: &str| std::env::var_os(name);
    let mut env = Env::default()
        .with("HOME", root.join("home").as_os_str())
        .with("PATH", real("PATH").unwrap())
        .with("LANG", "C.UTF-8")
        .with("USER", "ada")
        // It asks the network, and tells now and then.
        .with("npm_config_update_notifier", "false")
        .with("GIT_CONFIG_NOSYSTEM", "1");
    let real_home = PathBuf::from(real("HOME").unwrap_or_default());
    for (name, folder) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo"), ("PYENV_ROOT", ".pyenv")] {
        let path = real(name).map_or_else(|| real_home.join(folder), PathBuf::from);
        if path.exists() {
            env = env.with(name, path.as_os_str());
        }
    }
    if let Some(toolchain) = real("RUSTUP_TOOLCHAIN") {
        env = env.with("RUSTUP_TOOLCHAIN", toolchain);
    }
    env
}

pub(crate) async fn ordinary_commands_do_the_same_confined() {
    let world = OrdinaryWorld::new();
    let (mut count, mut wrong) = (0, Vec::new());
    for table in TABLES {
        let confinement = world.confinement(table.root);
        assert!(confinement.is_enforced(), "this kernel has no Landlock");
        let commands: Vec<&str> = table.commands.iter().copied().filter(|text| world.has_programs(text)).collect();
        count += commands.len();
        for chunk in commands.chunks(AT_ONCE) {
            let pairs = chunk.iter().map(|text| world.compare(table, &confinement, text));
            wrong.extend(join_all(pairs).await.into_iter().flatten());
        }
    }
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= FEWEST_COMMANDS, "{count} commands were compared");
}
