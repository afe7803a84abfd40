//! Hides gimlet's credentials from the commands that it starts.
//!
//! A command of this user could otherwise read the environment and the memory of its ancestors from `/proc`, even if
//! its own environment is filtered. Nothing here hides a key from root, which can read all memory.

use std::os::unix::ffi::OsStrExt;

use gimlet_proto::Env;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::shell::is_credential_name;
use crate::sys;

/// Hides the credentials that this process was started with, if there are any: their values are blanked where the
/// system shows them, and no process of this user may inspect this one, dumps included.
///
/// Must be called after the environment was read for the last time, and before any other thread exists.
pub fn hide_credentials(env: &Env) {
    let is_secret = |name: &[u8]| std::str::from_utf8(name).is_ok_and(is_credential_name);
    if !env.vars().any(|(name, _)| is_secret(name.as_bytes())) {
        return;
    }
    forbid_inspection();
    sys::blank_environment(is_secret);
}

/// Prevents other processes of this user from inspecting this one, dumps included. For a process that received a
/// credential after its start.
pub fn forbid_inspection() {
    // A system that does not know the call has nothing to switch off.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}
