//! Confinement of commands that run without approval: its rules are built for the first such command, and again when
//! the working directories change.
//!
//! The gate decides which commands are confined; `gimlet_exec` enforces the confinement.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use gimlet_exec::{Confinement, ConfinementSpec};
use gimlet_proto::Env;

/// Confinement configuration of a session.
#[derive(Debug)]
pub struct SessionConfinement {
    /// Folder of gimlet's own configuration.
    config_home: PathBuf,
    /// Folder that confined commands may write; created for the first of them.
    temp_dir: PathBuf,
    /// Paths that settings and rules deny.
    closed: Vec<PathBuf>,
    built: Mutex<Option<BuiltConfinement>>,
}

#[derive(Debug)]
struct BuiltConfinement {
    reach: ConfinedReach,
    confinement: Arc<Confinement>,
}

/// Paths that depend on the session's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfinedReach {
    pub(crate) roots: Vec<PathBuf>,
    /// Session files that commands may read.
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) home: Option<PathBuf>,
}

impl SessionConfinement {
    pub fn new(config_home: PathBuf, temp_dir: PathBuf, closed: Vec<PathBuf>) -> Self {
        Self { config_home, temp_dir, closed, built: Mutex::default() }
    }

    /// Returns the rules for commands that work in these folders. Fails if they cannot be built; then no command can
    /// be confined.
    pub(crate) fn confinement_for(&self, reach: ConfinedReach, env: &Env) -> io::Result<Arc<Confinement>> {
        // Values under this lock are replaced as a whole, so a poisoned lock still holds a complete value.
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(built) = &*built
            && built.reach == reach
            && built.confinement.is_current()
        {
            return Ok(Arc::clone(&built.confinement));
        }
        let confinement = Arc::new(Confinement::build(&ConfinementSpec {
            roots: reach.roots.clone(),
            readable: reach.readable.clone(),
            closed: self.closed.clone(),
            home: reach.home.clone(),
            config_home: self.config_home.clone(),
            temp_dir: self.temp_dir.clone(),
            env: env.clone(),
        })?);
        *built = Some(BuiltConfinement { reach, confinement: Arc::clone(&confinement) });
        Ok(confinement)
    }
}
