//! The environment of the gimlet process, as values that are passed down.

use std::io;
use std::path::PathBuf;

use gimlet_proto::Env;

use crate::launch_error::LaunchError;

/// Environment, folders and the user's configuration home.
#[derive(Clone)]
pub struct ProcessEnv {
    pub env: Env,
    /// The working directory with symlinks resolved.
    pub cwd: PathBuf,
    pub home: Option<PathBuf>,
    pub config_home: PathBuf,
}

impl ProcessEnv {
    /// Resolves the folders that an environment and a working directory name.
    pub fn resolve(env: Env, cwd: io::Result<PathBuf>) -> Result<Self, LaunchError> {
        let cwd = cwd.and_then(|dir| dir.canonicalize()).map_err(|error| {
            LaunchError::new(format!("the current directory cannot be used: {error}"))
                .with_hint("Change to a folder that exists and that you may read")
                .with_reason("cwd_unavailable")
        })?;
        std::fs::read_dir(&cwd).map_err(|error| {
            LaunchError::new(format!("the folder {} cannot be read: {error}", cwd.display()))
                .with_hint("Start gimlet in a folder that you may read")
                .with_reason("cwd_unavailable")
        })?;
        // Rules about `~` and the protection of files there use the resolved path, as for the working directory.
        let home = env.exact("HOME").map(PathBuf::from).map(|home| home.canonicalize().unwrap_or(home));
        let config_home = match (env.get("CLAUDE_CONFIG_DIR"), &home) {
            (Some(dir), _) => PathBuf::from(dir),
            (None, Some(home)) => home.join(".claude"),
            (None, None) => {
                return Err(
                    LaunchError::new("HOME is not set").with_hint("Set HOME, or name a folder in GIMLET_CONFIG_DIR")
                );
            }
        };
        Ok(Self { env, cwd, home, config_home })
    }
}
