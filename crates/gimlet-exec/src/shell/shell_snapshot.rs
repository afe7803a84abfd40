//! Snapshot of what the user's `~/.bashrc` defines for an interactive shell, taken once per session and read by every
//! command.
//!
//! Functions, aliases, a few options and the search path. Never a name of a command on whose meaning decisions
//! depend: what is judged as `ls` must be `ls`. On any failure, commands run in a plain shell. The file may hold
//! anything that a start-up file does, so it is readable by this user only and is removed with the [`Exec`] that took
//! it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::exec::{DirectoryReporter, Exec, RunningCommand, SpawnRequest, StdinMode, StreamMode};

/// Timeout of a start-up file.
const LIMIT: Duration = Duration::from_secs(10);

/// Names that keep their plain meaning: read-only commands, and the words that run or find other commands.
const PLAIN_NAMES: &str = "\
    . : [ alias awk basename bash bat batcat bg break builtin bzcat cal cat cd cksum cmp column comm command continue \
    cut date declare df diff dig dirname dirs du echo egrep env eval exec exit export expr false fd fg fgrep file find \
    fold free gcc getconf git grep groups hash head help hexdump history host hostname id jobs join jq kill less let \
    ll local locale ls lsblk lscpu lsof md5sum more nl node nohup nproc od paste pgrep popd printenv printf ps pushd \
    pwd python python3 read readlink readonly realpath return rev rg rm rmdir sed seq set sh sha1sum sha256sum sha512sum \
    shift shopt sleep sort source stat strings sudo sum tac tail tar tee test time timeout tr trap tree true tsort tty \
    type typeset ulimit umask unalias uname uniq unset uptime wait wc whereis which who whoami xargs xxd yes zcat zsh";

/// Script for an interactive bash that has just read `~/.bashrc`: removes definitions of names that must keep their
/// meaning, then writes the rest, as commands, to the file `$1`. `dotglob`, `nocaseglob` and `nullglob` are left out:
/// decisions rely on `*` matching no hidden file and no other case, and on a pattern without a match staying a word,
/// without which `grep -r x zzz*` reads everything. Completion functions are many, large and of no use without a
/// prompt.
const TAKE: &str = r#"
unalias $2 2>/dev/null; unset -f $2 2>/dev/null; set +eux; umask 077
{
  shopt -s extdebug
  while read -r _ _ name; do
    location=$(declare -F -- "$name")
    [[ $location == *bash[-_]completion* ]] || declare -f -- "$name"
  done < <(declare -F)
  [[ $(alias -p) ]] && { echo 'shopt -s expand_aliases'; alias -p; }
  for name in extglob globstar lastpipe; do
    shopt -q "$name" && echo "shopt -s $name"
  done
  for name in noclobber pipefail; do
    [[ -o $name ]] && echo "set -o $name"
  done
  printf 'export PATH=%q\n' "$PATH"
  echo ': end of snapshot'
} >|"$1" 2>/dev/null
"#;

/// The last line of a snapshot that was written to its end.
const END_LINE: &str = ": end of snapshot";

/// The snapshot of a session, taken before its first command.
#[derive(Debug)]
pub(super) struct ShellSnapshot {
    file: Option<PathBuf>,
    start_up_file: Option<PathBuf>,
    taken: OnceCell<Option<PathBuf>>,
    /// Reason why there is no snapshot, until it is taken.
    error: Mutex<Option<String>>,
}

impl ShellSnapshot {
    pub(super) fn new(file: Option<PathBuf>, home: Option<PathBuf>) -> Self {
        // Two processes may run one session, and the first to end must not remove the other's file.
        let file = file.map(|file| file.with_extension(format!("{}.sh", std::process::id())));
        let start_up_file = home.map(|home| home.join(".bashrc"));
        Self { file, start_up_file, taken: OnceCell::new(), error: Mutex::default() }
    }

    pub(super) fn disabled() -> Self {
        Self::new(None, None)
    }

    /// Returns the folder that the snapshot is in, or will be.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.file.as_deref()?.parent()
    }

    /// Returns the file to read before a command; `None` for a plain shell. Concurrent commands wait for one
    /// snapshot.
    pub(super) async fn get_or_take(&self, exec: &Exec, bash: &Path, env: &[(OsString, OsString)]) -> Option<&Path> {
        let take = async || {
            let (file, start_up_file) = (self.file.as_ref()?, self.start_up_file.as_ref()?);
            if !start_up_file.is_file() {
                return None;
            }
            exec.remove_at_end(file.clone());
            match take_snapshot(exec, bash, env, file).await {
                Ok(()) => Some(file.clone()),
                Err(why) => {
                    let text =
                        format!("{} was not taken over, commands run in a plain shell: {why}", start_up_file.display());
                    *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
                    None
                }
            }
        };
        self.taken.get_or_init(take).await.as_deref()
    }

    /// Returns, once, the reason why commands run in a plain shell although there is a start-up file.
    pub(super) fn take_error(&self) -> Option<String> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Writes a complete snapshot into `file`; the error is the reason why there is none.
async fn take_snapshot(exec: &Exec, bash: &Path, env: &[(OsString, OsString)], file: &Path) -> Result<(), String> {
    let unfinished = file.with_extension("unfinished");
    if let Some(parent) = file.parent() {
        // When this fails the shell cannot write the file either, which is noticed below.
        drop(tokio::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent).await);
    }
    let args =
        ["-i".into(), "-c".into(), TAKE.into(), "bash".into(), unfinished.clone().into_os_string(), PLAIN_NAMES.into()];
    let spawn = SpawnRequest {
        program: bash.into(),
        args: args.into(),
        cwd: "/".into(),
        env: env.to_vec(),
        stdin: StdinMode::Null,
        streams: StreamMode::Merged,
        report: DirectoryReporter::Disabled,
        confinement: None,
    };
    let mut running = exec.spawn(spawn).await.map_err(|error| error.to_string())?;
    // The output of a start-up file is discarded, but a full pipe would block it.
    let ended = tokio::time::timeout(LIMIT, wait_discarding_output(&mut running)).await.is_ok();
    running.kill(Duration::ZERO).await;
    let taken = match ended {
        false => Err(format!("it took longer than {} s", LIMIT.as_secs())),
        true if !is_complete_snapshot(&unfinished).await => {
            Err("the shell ended before its functions were noted".to_owned())
        }
        true => tokio::fs::rename(&unfinished, file).await.map_err(|error| error.to_string()),
    };
    if taken.is_err() {
        // It may never have been created.
        drop(tokio::fs::remove_file(&unfinished).await);
    }
    taken
}

async fn wait_discarding_output(running: &mut RunningCommand) {
    let output = running.output.take();
    let discard = async {
        if let Some(mut output) = output {
            // An error ends the reading; the exit, which is awaited beside it, is reported separately.
            drop(tokio::io::copy(&mut output, &mut tokio::io::sink()).await);
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _ = running.wait() => {}
        () = discard => {}
    }
}

async fn is_complete_snapshot(file: &Path) -> bool {
    tokio::fs::read(file).await.is_ok_and(|bytes| bytes.trim_ascii_end().ends_with(END_LINE.as_bytes()))
}
