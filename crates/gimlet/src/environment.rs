//! The environment of the gimlet process: read once, here, and passed down as values.

use gimlet_app::ProcessEnv;
use gimlet_proto::Env;

use crate::report::Report;

/// Returns the environment that gimlet was started with.
#[allow(clippy::disallowed_methods, reason = "the one place that reads it; everybody else gets the values")]
pub(crate) fn read_environment() -> Env {
    Env::new(std::env::vars_os())
}

/// Returns the environment with the folders that gimlet works in.
pub(crate) fn read_process_env() -> Result<ProcessEnv, Report> {
    Ok(ProcessEnv::resolve(read_environment(), std::env::current_dir())?)
}
