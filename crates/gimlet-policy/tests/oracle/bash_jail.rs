//! A folder in which bash finds nothing but stand-ins for programs: each writes down the words it was called with. Only
//! wrappers such as `timeout` are the real ones, so that what they run is seen, too.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use gimlet_policy::shell::EnvironmentNames;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

const STANDINS: &[&str] = &[
    "ls", "cat", "head", "tail", "grep", "wc", "npm", "make", "git", "find", "sort", "rg", "sed", "tr", "cut", "diff",
    "date", "uniq", "basename", "dirname", "stat", "du", "seq", "curl", "rm", "touch", "bash", "sh", "sudo", "tee",
    "cp", "mv", "expr", "id", "whoami", "uname", "which", "realpath", "readlink", "comm", "cmp", "nl", "tac", "rev",
    "paste", "python3", "zip", "pip", "go", "tar", "rsync", "ssh", "man",
];
/// Stand-ins that then run what the real ones would.
const RUNNERS: &[RunnerStub] = &[
    RunnerStub {
        name: "git",
        behind: "bisect:run submodule:foreach :merge-index",
        options: "-x --exec --upload-pack --receive-pack --extcmd -u",
        needs: "rebase fetch ls-remote send-pack clone difftool",
    },
    runner_stub("npm", ":exec :x :explore", "-c --call --editor --script-shell"),
    runner_stub("zip", "", "-TT -rTT -qTT --unzip-command"),
    runner_stub("pip", "", "--editor"),
    runner_stub("go", "", "-exec -toolexec -vettool"),
    runner_stub("tar", "", "-I --to-command --use-compress-program"),
    runner_stub("rsync", "", "-e --rsh --rsync-path"),
    runner_stub("ssh", "", "ProxyCommand"),
    runner_stub("man", "", "-P -aP --pager"),
];

/// How a program runs another one.
struct RunnerStub {
    name: &'static str,
    /// Words behind which it stands, each with the one that must stand in front of it.
    behind: &'static str,
    /// Options whose value it is.
    options: &'static str,
    /// Words one of which must be there for the options to mean that.
    needs: &'static str,
}

const fn runner_stub(name: &'static str, behind: &'static str, options: &'static str) -> RunnerStub {
    RunnerStub { name, behind, options, needs: "" }
}

/// Stand-ins that then are the real ones, which run what their words say.
const SHOWN: &[&str] = &["sed", "find"];
const REAL: &[&str] = &["timeout", "nice", "nohup", "xargs", "stdbuf", "env"];

/// Runs the program that is denied, by those words and options.
const RUN: &str = r#"
run() { case $1 in *curl*|*unner*|*UNNER*) /bin/sh -c "$1";; esac; }
fits=$([ "NEEDS" ] || echo 1)
for word in "$@"; do case " NEEDS " in *" $word "*) fits=1;; esac; done
for word in "$@"; do
    [ "$fits" ] || break
    if [ "$next" ]; then run "$word"; next=; fi
    case " OPTIONS " in *" $word "*) next=1;; esac
    case $word in *=*) case " OPTIONS " in *" ${word%%=*} "*) run "${word#*=}";; esac;; esac
done
while [ $# -gt 0 ]; do
    case " BEHIND " in
    *" $before:$1 "*|*" :$1 "*) shift; while [ $# -gt 0 ]; do if [ "$1" = curl ]; then "$@"; fi; shift; done;;
    *) before=$1; shift;;
    esac
done
"#;

/// Every process of the jail holds this end of the pipe for errors, wherever its own errors go.
/// Further descriptors lead to a file outside, as if somebody had left them open.
const HELD: &str = "exec 47>&2 3>>\"$2\" 10>>\"$2\" 63<>\"$2\"; exec /bin/bash --norc --noprofile -c \"$1\"";
/// Tells the processes of a run from all others, also those that left its process group.
const MARK: &str = "ORACLE_LOG";
const PATIENCE: Duration = Duration::from_secs(2);

/// What running a text did.
#[derive(Debug, Default)]
pub(crate) struct JailOutcome {
    /// The words of every program that was started, or that was to be and does not exist.
    pub(crate) started: Vec<Vec<String>>,
    /// Files that are new or different, by their path in the jail.
    pub(crate) written: Vec<String>,
    pub(crate) syntax_error: bool,
    /// Whether it came to its end by itself.
    pub(crate) ended: bool,
}

pub(crate) struct BashJail {
    root: PathBuf,
    log: PathBuf,
    runs: AtomicUsize,
}

impl BashJail {
    /// Makes the folder at this path, which must not exist.
    pub(crate) fn new(root: PathBuf) -> std::io::Result<Self> {
        fs::create_dir_all(root.join("bin"))?;
        let jail = Self { log: root.join("log"), root, runs: AtomicUsize::new(0) };
        let script = "#!/bin/sh\nprintf 'w%s\\0' \"${0##*/}\" \"$@\" > \"$ORACLE_LOG/$$\"\necho a\n";
        for name in STANDINS {
            let path = jail.root.join("bin").join(name);
            fs::write(&path, script)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        for RunnerStub { name, behind, options, needs } in RUNNERS {
            let run = RUN.replace("BEHIND", behind).replace("OPTIONS", options).replace("NEEDS", needs);
            fs::write(jail.root.join("bin").join(name), format!("{script}{run}"))?;
        }
        for name in SHOWN {
            fs::write(jail.root.join("bin").join(name), format!("{script}exec /usr/bin/{name} \"$@\"\n"))?;
        }
        for name in REAL {
            let real =
                ["/usr/bin", "/bin"].iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists());
            symlink(real.unwrap_or_default(), jail.root.join("bin").join(name))?;
        }
        jail.reset()?;
        Ok(jail)
    }

    pub(crate) fn work_folder(&self) -> PathBuf {
        self.root.join("work")
    }

    /// A file that nothing may read or write.
    fn outside_file(&self) -> PathBuf {
        self.root.join("outside")
    }

    /// Variables that somebody set before: paths that lead out, and commands.
    fn inherited_variables(&self) -> Vec<(&'static str, OsString)> {
        let (outside, root) = (self.outside_file().into_os_string(), self.root.clone().into_os_string());
        vec![
            ("k", outside.clone()),
            ("npm_package_config_k", outside.clone()),
            ("KEPT", outside),
            ("dir", root.clone()),
            ("ROOT", root),
            ("runner", "curl".into()),
            ("RUNNER", "curl s".into()),
            ("option", "-o".into()),
        ]
    }

    /// The names of every variable that a text begins with.
    pub(crate) fn environment(&self) -> EnvironmentNames {
        let own = ["PATH", "HOME", MARK];
        EnvironmentNames::new(self.inherited_variables().iter().map(|(name, _)| *name).chain(own))
    }

    pub(crate) fn home_folder(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Puts the working folder back to what it was.
    fn reset(&self) -> std::io::Result<()> {
        for folder in [self.work_folder(), self.home_folder()] {
            if folder.exists() {
                fs::remove_dir_all(&folder)?;
            }
        }
        for folder in ["work/sub", "work/out", "home"] {
            fs::create_dir_all(self.root.join(folder))?;
        }
        for file in ["work/a", "work/b", "work/a.txt", "work/sub/a", "home/a", "outside"] {
            fs::write(self.root.join(file), "a\n")?;
        }
        fs::create_dir_all(&self.log)
    }

    /// Runs a text as bash runs it, and waits for everything that it starts, also in the background. What has not ended
    /// in time is ended, all of it; what it had done until then counts like anything else.
    pub(crate) fn run(&self, text: &str) -> std::io::Result<JailOutcome> {
        let before = self.read_files()?;
        let missing = "() { printf 'w%s\\0' \"$@\" > \"$ORACLE_LOG/$BASHPID\"; return 127; }";
        let log = self.log.join(self.runs.fetch_add(1, Ordering::Relaxed).to_string());
        fs::create_dir_all(&log)?;
        #[allow(clippy::disallowed_methods, reason = "the point of this test is what a real shell does")]
        let child = Command::new("/bin/bash")
            .args(["--norc", "--noprofile", "-c", HELD, "bash", text])
            .arg(self.outside_file())
            .current_dir(self.work_folder())
            .env_clear()
            .env("PATH", self.root.join("bin"))
            .env("HOME", self.home_folder())
            .env(MARK, &log)
            .envs(self.inherited_variables())
            .env("BASH_FUNC_command_not_found_handle%%", missing)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let (errors, ended) = wait_for_end(child, &log)?;
        let started = take_log(&log)?;
        let after = self.read_files()?;
        let changed = after.iter().filter(|(path, content)| before.get(*path) != Some(content)).map(|(path, _)| path);
        let gone = before.keys().filter(|path| !after.contains_key(*path));
        let written: Vec<String> = changed.chain(gone).cloned().collect();
        if !written.is_empty() {
            self.reset()?;
        }
        let syntax_error =
            errors.contains("syntax error") || errors.contains("unexpected EOF") || errors.contains("unexpected end");
        Ok(JailOutcome { started, written, syntax_error, ended })
    }

    fn read_files(&self) -> std::io::Result<BTreeMap<String, Vec<u8>>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
                let path = entry?.path();
                let name = path.strip_prefix(&self.root).unwrap_or(&path).display().to_string();
                if path.is_dir() {
                    if !matches!(name.as_str(), "bin" | "log") {
                        folders.push(path);
                    }
                } else {
                    files.insert(name, fs::read(&path)?);
                }
            }
        }
        Ok(files)
    }
}

impl Drop for BashJail {
    fn drop(&mut self) {
        // What cannot be removed is left in the folder for temporary files.
        drop(fs::remove_dir_all(&self.root));
    }
}

/// What the run wrote as errors, and whether it ended by itself: the pipe's end is the end of its last process.
fn wait_for_end(mut child: Child, log: &Path) -> std::io::Result<(String, bool)> {
    let mut pipe = child.stderr.take().unwrap();
    let (sender, errors) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = pipe.read_to_end(&mut bytes).map(|_| String::from_utf8_lossy(&bytes).into_owned());
        // Whoever waited may have failed meanwhile.
        drop(sender.send(read));
    });
    let mut answer = errors.recv_timeout(PATIENCE);
    let ended = answer.is_ok();
    while answer.is_err() {
        kill_all(&child, log)?;
        // One that forked while we looked is found the next time.
        answer = errors.recv_timeout(Duration::from_millis(20));
    }
    child.wait()?;
    reader.join().unwrap();
    Ok((answer.unwrap()?, ended))
}

/// Ends the group of the run's first process and whatever else bears the mark of the run.
fn kill_all(child: &Child, log: &Path) -> std::io::Result<()> {
    let group = Pid::from_child(child);
    ignore_missing_process(kill_process_group(group, Signal::KILL))?;
    let mark = format!("{MARK}={}", log.display());
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else {
            continue;
        };
        // Processes of others cannot be read, and those of ours may be gone.
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
            ignore_missing_process(kill_process(pid, Signal::KILL))?;
        }
    }
    Ok(())
}

fn ignore_missing_process(killed: rustix::io::Result<()>) -> std::io::Result<()> {
    match killed {
        Err(rustix::io::Errno::SRCH) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The words of every call, one file each, named by the process.
fn take_log(log: &Path) -> std::io::Result<Vec<Vec<String>>> {
    let mut started = Vec::new();
    for entry in fs::read_dir(log)? {
        let words = String::from_utf8_lossy(&fs::read(entry?.path())?).into_owned();
        let words = words.split_terminator('\0').map(|word| word.strip_prefix('w').unwrap_or(word).to_owned());
        let words: Vec<String> = words.collect();
        // A call that was ended may not have got as far as its words.
        if !words.is_empty() {
            started.push(words);
        }
    }
    fs::remove_dir_all(log)?;
    Ok(started)
}
