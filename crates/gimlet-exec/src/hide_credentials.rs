//! Keeps what gimlet holds out of sight of the commands that it starts.
//!
//! A command of the same user may otherwise read the environment and the memory of its ancestors from `/proc`, whatever
//! was left out of its own environment. Nothing here hides a key from a root that goes looking through memory.

use std::os::unix::ffi::OsStrExt;

use gimlet_proto::Env;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::shell::is_credential_name;
use crate::sys;

/// Conceals the credentials that this process was started with, if there are any: their values are blanked where the
/// system shows them to others, and nobody of the same user may look into this process, dumps of it included.
///
/// To be called when the environment has been read for good, and before any other thread exists.
pub fn hide_credentials(env: &Env) {
    let is_secret = |name: &[u8]| std::str::from_utf8(name).is_ok_and(is_credential_name);
    if !env.vars().any(|(name, _)| is_secret(name.as_bytes())) {
        return;
    }
    forbid_inspection();
    sys::blank_environment(is_secret);
}

/// From now on nobody of the same user may look into this process, dumps of it included. For a process that got hold of
/// a credential after its start.
pub fn forbid_inspection() {
    // A system that does not know the call has nothing to switch off.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}
