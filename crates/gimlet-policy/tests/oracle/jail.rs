//! A folder in which bash finds nothing but stand-ins for programs: each writes down the words it was called with. Only
//! wrappers such as `timeout` are the real ones, so that what they run is seen, too.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

const STANDINS: &[&str] = &[
    "ls", "cat", "head", "tail", "grep", "wc", "npm", "make", "git", "find", "sort", "rg", "sed", "tr", "cut", "diff",
    "date", "uniq", "basename", "dirname", "stat", "du", "seq", "curl", "rm", "touch", "bash", "sh", "sudo", "tee",
    "cp", "mv", "expr", "id", "whoami", "uname", "which", "realpath", "readlink", "comm", "cmp", "nl", "tac", "rev",
    "paste", "python3",
];
const REAL: &[&str] = &["timeout", "nice", "nohup", "xargs", "stdbuf", "env"];

/// What running a text did.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The words of every program that was started, or that was to be and does not exist.
    pub(crate) started: Vec<Vec<String>>,
    /// Files that are new or different, by their path in the jail.
    pub(crate) written: Vec<String>,
    pub(crate) syntax_error: bool,
}

pub(crate) struct Jail {
    root: PathBuf,
    log: PathBuf,
    runs: AtomicUsize,
}

impl Jail {
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
        for name in REAL {
            let real =
                ["/usr/bin", "/bin"].iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists());
            symlink(real.unwrap_or_default(), jail.root.join("bin").join(name))?;
        }
        jail.reset()?;
        Ok(jail)
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Puts the working folder back to what it was.
    fn reset(&self) -> std::io::Result<()> {
        for folder in [self.work(), self.home()] {
            if folder.exists() {
                remove(&folder)?;
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

    /// Runs a text as bash runs it, for at most two seconds.
    pub(crate) fn run(&self, text: &str) -> std::io::Result<Outcome> {
        let before = self.files()?;
        let missing = "() { printf 'w%s\\0' \"$@\" > \"$ORACLE_LOG/$BASHPID\"; return 127; }";
        // A folder of its own, for what goes on in the background may outlive its command.
        let log = self.log.join(self.runs.fetch_add(1, Ordering::Relaxed).to_string());
        fs::create_dir_all(&log)?;
        #[allow(clippy::disallowed_methods, reason = "the point of this test is what a real shell does")]
        let output = Command::new("/usr/bin/timeout")
            .args(["-k", "1", "2", "/bin/bash", "--norc", "--noprofile", "-c", text])
            .current_dir(self.work())
            .env_clear()
            .env("PATH", self.root.join("bin"))
            .env("HOME", self.home())
            .env("ORACLE_LOG", &log)
            .env("BASH_FUNC_command_not_found_handle%%", missing)
            .stdin(Stdio::null())
            .output()?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let started = take_log(&log)?;
        let after = self.files()?;
        let changed = after.iter().filter(|(path, content)| before.get(*path) != Some(content)).map(|(path, _)| path);
        let gone = before.keys().filter(|path| !after.contains_key(*path));
        let written: Vec<String> = changed.chain(gone).cloned().collect();
        if !written.is_empty() {
            self.reset()?;
        }
        let syntax_error =
            errors.contains("syntax error") || errors.contains("unexpected EOF") || errors.contains("unexpected end");
        Ok(Outcome { started, written, syntax_error })
    }

    fn files(&self) -> std::io::Result<BTreeMap<String, Vec<u8>>> {
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

impl Drop for Jail {
    fn drop(&mut self) {
        // What cannot be removed is left in the folder for temporary files.
        drop(fs::remove_dir_all(&self.root));
    }
}

/// Removes a folder into which something that goes on in the background may still write.
fn remove(folder: &Path) -> std::io::Result<()> {
    let mut left = 100;
    loop {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty && left > 0 => left -= 1,
            removed => return removed,
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// The words of every call, one file each, named by the process.
fn take_log(log: &Path) -> std::io::Result<Vec<Vec<String>>> {
    let mut started = Vec::new();
    for entry in fs::read_dir(log)? {
        let words = String::from_utf8_lossy(&fs::read(entry?.path())?).into_owned();
        let words = words.split_terminator('\0').map(|word| word.strip_prefix('w').unwrap_or(word).to_owned());
        let words: Vec<String> = words.collect();
        // A call in the background may not have got as far as its words.
        if !words.is_empty() {
            started.push(words);
        }
    }
    remove(log)?;
    Ok(started)
}
