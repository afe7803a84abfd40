//! Hostile commands under confinement, as if the analysis called everything read-only: none of them reads a secret,
//! changes a file, sends anything or reaches another process.
//!
//! Each is a bash text. Those that are [`checked`] are run without confinement first, in a copy of the world, where they
//! must succeed: a command that fails anyway proves nothing.

mod changing;
mod escaping;
mod git_world;
mod hostile_git;
mod reading;
mod sending;
mod services;
mod world;

use std::process::{Command, ExitCode};
use std::time::Duration;

use gimlet_exec::{BubblewrapChoice, Exec, ProbeOptions, probe_sandbox};

use super::join_all;
use crate::common;
use services::DecoyServices;
use world::HostileWorld;

pub(crate) const SUITE_ARGUMENT: &str = "__hostile-suite";
/// Nobody, in every distribution.
const ORDINARY_USER: &str = "65534";
/// How many commands are under way at one time.
const AT_ONCE: usize = 4;
/// The first version of Landlock that holds signals back.
const ABI_WITH_SIGNALS: u32 = 6;

/// Text that is in every secret and in no command.
const SECRET: &str = "TOPSECRET";
/// Printed by a command that did what it must not. In the texts it is written in two parts.
const SUCCESS: &str = "gotthrough";

/// One hostile command.
pub(crate) struct HostileAttempt {
    purpose: &'static str,
    text: &'static str,
    /// Whether it must succeed without confinement on a machine with git, python3 and perl.
    is_checked: bool,
    /// Whether it works by sending signals, which older kernels do not hold back.
    sends_signals: bool,
}

/// A command that succeeds without confinement, and whose effects stay in the world then.
const fn checked(purpose: &'static str, text: &'static str) -> HostileAttempt {
    HostileAttempt { purpose, text, is_checked: true, sends_signals: false }
}

/// A command that is only run confined: it needs a program that may be missing, or would reach the real system.
const fn held(purpose: &'static str, text: &'static str) -> HostileAttempt {
    HostileAttempt { purpose, text, is_checked: false, sends_signals: false }
}

/// A command that is only run confined and sends signals.
const fn signalling(purpose: &'static str, text: &'static str) -> HostileAttempt {
    HostileAttempt { purpose, text, is_checked: false, sends_signals: true }
}

/// Before each text: `py` runs Python with the variables of the world and `call`, a system call by number.
const PRELUDE: &str = r#"py() { python3 -S -c "
import ctypes, fcntl, mmap, os, resource, socket, struct, sys
E = os.environ
H, O, P, T, MARK = E['H'], E['O'], E['P'], E['TMPDIR'], E['MARK']
TCP, UDP, SOCK, ABSTRACT = int(E['TCP']), int(E['UDP']), E['SOCK'], E['ABSTRACT']
VICTIM, TEST = int(E['VICTIM']), int(E['TEST'])
libc = ctypes.CDLL(None, use_errno=True)
def call(*a):
    return libc.syscall(*[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
def won(): print('got' + 'through')
def show(path): print(open(path, errors='replace').read())
$1" 2>/dev/null; }; "#;

fn attempts() -> impl Iterator<Item = &'static HostileAttempt> {
    [reading::FILES, reading::SYSTEM, hostile_git::ATTEMPTS, changing::FILES, changing::SYSTEM, sending::ATTEMPTS]
        .into_iter()
        .chain([escaping::ATTEMPTS])
        .flatten()
}

/// Everything that hostile commands achieved, and every checked command that proves nothing.
async fn run_suite() -> Vec<String> {
    let exec = common::exec(None);
    let options = ProbeOptions { bubblewrap: BubblewrapChoice::Never, own_namespaces: false };
    let holds_signals = probe_sandbox(&exec, &options).await.landlock_abi >= ABI_WITH_SIGNALS;
    let services = DecoyServices::start();
    let template = HostileWorld::build(&services);
    let before = template.state();
    let tried: Vec<&HostileAttempt> = attempts().filter(|attempt| holds_signals || !attempt.sends_signals).collect();
    let mut wrong = Vec::new();
    for chunk in tried.chunks(AT_ONCE) {
        let outputs = join_all(chunk.iter().map(|attempt| template.run_confined(&exec, attempt.text))).await;
        for (attempt, output) in chunk.iter().zip(outputs) {
            let leaks = template.leaks(&output);
            if !leaks.is_empty() {
                wrong.push(format!("'{}' ({}): {}", attempt.purpose, attempt.text, leaks.join("; ")));
            }
        }
        let effects = [services.effects(), template.changes(&before)].concat();
        if !effects.is_empty() {
            let purposes: Vec<&str> = chunk.iter().map(|attempt| attempt.purpose).collect();
            wrong.push(format!("one of {purposes:?}: {}", effects.join("; ")));
            template.remove_marks();
            break;
        }
    }
    if wrong.is_empty() && rustix::process::getuid().is_root() {
        wrong.extend(check_without_confinement(&exec, &template, &services).await);
    }
    // Also ends what commands left running, so that nothing can happen after the last look.
    exec.shutdown(Duration::ZERO).await;
    wrong.extend(template.changes(&before));
    wrong
}

/// Runs the checked commands without confinement, each in a world that is as new.
async fn check_without_confinement(exec: &Exec, template: &HostileWorld, services: &DecoyServices) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut world = template.copy(services);
    let mut before = world.state();
    for attempt in attempts().filter(|attempt| attempt.is_checked) {
        let output = world.run_open(exec, attempt.text).await;
        let is_changed = !world.changes(&before).is_empty();
        if !is_changed && services.effects().is_empty() && world.leaks(&output).is_empty() {
            wrong.push(format!("'{}' proves nothing, it fails without confinement too: {output}", attempt.purpose));
        }
        if is_changed {
            world = template.copy(services);
            before = world.state();
        }
    }
    wrong
}

/// The suite in a process of its own, for another user.
pub(crate) fn be_the_suite() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let wrong = runtime.block_on(run_suite());
    eprint!("{}", wrong.join("\n"));
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub(crate) async fn no_hostile_command_has_an_effect() {
    assert!(attempts().count() >= 200);
    assert!(attempts().filter(|attempt| attempt.is_checked).count() >= 150);
    let wrong = run_suite().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

pub(crate) async fn no_hostile_command_of_an_ordinary_user_has_an_effect() {
    if !rustix::process::getuid().is_root() {
        // Then the test above was this one.
        return;
    }
    // Somewhere that the other user can read, whatever the build folder's mode.
    let dir =
        tempfile::Builder::new().permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755)).tempdir().unwrap();
    let harness = dir.path().join("harness");
    std::fs::copy(std::env::current_exe().unwrap(), &harness).unwrap();
    #[allow(clippy::disallowed_methods, reason = "the whole suite runs in it, custody included")]
    let output = Command::new("setpriv")
        .args(["--reuid", ORDINARY_USER, "--regid", ORDINARY_USER, "--clear-groups"])
        .arg(&harness)
        .arg(SUITE_ARGUMENT)
        .current_dir("/")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
