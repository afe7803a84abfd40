//! The skills of a running session, which files can change.

use std::sync::{Arc, PoisonError, RwLock};

use super::SkillSet;

/// Shared set of skills. Clones see every change.
#[derive(Clone, Default)]
pub struct LiveSkillSet {
    current: Arc<RwLock<Arc<SkillSet>>>,
}

impl LiveSkillSet {
    pub fn new(skills: SkillSet) -> Self {
        Self { current: Arc::new(RwLock::new(Arc::new(skills))) }
    }

    pub fn current(&self) -> Arc<SkillSet> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn replace(&self, skills: SkillSet) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(skills);
    }
}
