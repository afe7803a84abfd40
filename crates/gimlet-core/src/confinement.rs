//! Confinement of commands that nobody was asked about: which rules hold for them, built when the first one needs them and
//! again when the working directories are others.
//!
//! Which commands are confined is the gate's to say; how they are held is `gimlet_exec`'s.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use gimlet_exec::{Confinement, ConfinementSpec};
use gimlet_proto::Env;

/// What a session confines commands with.
#[derive(Debug)]
pub struct SessionConfinement {
    /// The folder that holds gimlet's own configuration.
    config_home: PathBuf,
    /// A folder that confined commands may write; made with the first of them.
    temp_dir: PathBuf,
    /// Places that settings and rules close.
    closed: Vec<PathBuf>,
    built: Mutex<Option<BuiltConfinement>>,
}

#[derive(Debug)]
struct BuiltConfinement {
    reach: ConfinedReach,
    confinement: Arc<Confinement>,
}

/// What depends on where the session is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfinedReach {
    pub(crate) roots: Vec<PathBuf>,
    /// The session's own files that commands may read.
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) home: Option<PathBuf>,
}

impl SessionConfinement {
    pub fn new(config_home: PathBuf, temp_dir: PathBuf, closed: Vec<PathBuf>) -> Self {
        Self { config_home, temp_dir, closed, built: Mutex::default() }
    }

    /// Returns the rules for commands that work in these folders. Fails when they cannot be built; then no command can be
    /// confined.
    pub(crate) fn confinement_for(&self, reach: ConfinedReach, env: &Env) -> io::Result<Arc<Confinement>> {
        // Whole values are swapped under this lock; one that was poisoned still guards a whole value.
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
