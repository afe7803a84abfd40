//! The environment of the gimlet process: read once, here, and passed down as values.

use std::path::PathBuf;

use gimlet_proto::Env;

use crate::report::Report;

/// Environment, folders and the user's configuration home.
#[derive(Clone)]
pub(crate) struct ProcessEnv {
    pub(crate) env: Env,
    /// The working directory with symlinks resolved.
    pub(crate) cwd: PathBuf,
    pub(crate) home: Option<PathBuf>,
    pub(crate) config_home: PathBuf,
}

/// Returns the environment that gimlet was started with.
#[allow(clippy::disallowed_methods, reason = "the one place that reads it; everybody else gets the values")]
pub(crate) fn read_environment() -> Env {
    Env::new(std::env::vars_os())
}

impl ProcessEnv {
    pub(crate) fn read() -> Result<Self, Report> {
        let env = read_environment();
        let cwd = std::env::current_dir().and_then(|dir| dir.canonicalize()).map_err(|error| {
            Report::new(format!("the current directory cannot be used: {error}"))
                .with_hint("Change to a folder that exists and that you may read")
                .with_reason("cwd_unavailable")
        })?;
        std::fs::read_dir(&cwd).map_err(|error| {
            Report::new(format!("the folder {} cannot be read: {error}", cwd.display()))
                .with_hint("Start gimlet in a folder that you may read")
                .with_reason("cwd_unavailable")
        })?;
        // Rules about `~` and the protection of files there use the resolved path, as for the working directory.
        let home = env.exact("HOME").map(PathBuf::from).map(|home| home.canonicalize().unwrap_or(home));
        let config_home = match (env.get("CLAUDE_CONFIG_DIR"), &home) {
            (Some(dir), _) => PathBuf::from(dir),
            (None, Some(home)) => home.join(".claude"),
            (None, None) => {
                return Err(Report::new("HOME is not set").with_hint("Set HOME, or name a folder in GIMLET_CONFIG_DIR"));
            }
        };
        Ok(Self { env, cwd, home, config_home })
    }
}
