//! Programs of the user's own that have the terminal while they run, such as an editor.
//!
//! They are no commands of the session: they run in gimlet's own process group, with its terminal, and gimlet waits
//! for them.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus};

use gimlet_proto::Env;

/// Runs a program with gimlet's own terminal and waits for its end. Blocks.
#[allow(clippy::disallowed_methods, reason = "the one place that gives a program the terminal")]
pub fn run_terminal_program(program: &OsStr, args: &[OsString], cwd: &Path, env: &Env) -> io::Result<ExitStatus> {
    Command::new(program).args(args).current_dir(cwd).env_clear().envs(env.vars()).status()
}
