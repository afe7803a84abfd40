//! Shared state of the guards of commands that run concurrently.
//!
//! A guard that began while another command was running may have captured files that the command had planted.
//! Restores by the older guard override the younger one's capture; never the other way round.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use super::path_state::PathState;

/// Restored paths with their current state.
pub(super) type RestoredPaths = Vec<(PathBuf, Arc<PathState>)>;

/// A guard's place in the order in which they began.
pub(super) type GuardSeq = Arc<u64>;

#[derive(Debug, Default)]
pub(super) struct RestoreLog {
    /// Counts beginnings and ends.
    now: u64,
    running: Vec<Weak<u64>>,
    restores: Vec<RestoreRecord>,
}

#[derive(Debug)]
struct RestoreRecord {
    began: u64,
    ended: u64,
    path: PathBuf,
    state: Arc<PathState>,
}

impl RestoreRecord {
    fn applies_to(&self, began: u64) -> bool {
        self.began < began && began < self.ended
    }
}

impl RestoreLog {
    pub(super) fn begin_guard(&mut self) -> GuardSeq {
        self.now += 1;
        let began = Arc::new(self.now);
        self.running.push(Arc::downgrade(&began));
        began
    }

    /// Returns the paths that older guards restored since this one began.
    pub(super) fn restores_since(&self, began: &GuardSeq) -> BTreeMap<PathBuf, Arc<PathState>> {
        let told = self.restores.iter().filter(|mend| mend.applies_to(**began));
        told.map(|mend| (mend.path.clone(), mend.state.clone())).collect()
    }

    pub(super) fn end_guard(&mut self, ending: GuardSeq, mended: RestoredPaths) {
        self.now += 1;
        let (began, ended) = (*ending, self.now);
        drop(ending);
        self.restores.extend(mended.into_iter().map(|(path, state)| RestoreRecord { began, ended, path, state }));
        // Also guards that were given up without an end are gone.
        self.running.retain(|running| running.strong_count() > 0);
        let running: Vec<u64> = self.running.iter().filter_map(Weak::upgrade).map(|began| *began).collect();
        self.restores.retain(|mend| running.iter().any(|began| mend.applies_to(*began)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_later_guards_that_still_run_see_restores_and_old_ones_are_dropped() {
        let mut fellows = RestoreLog::default();
        let mended = |name: &str| vec![(PathBuf::from(name), Arc::new(PathState::Absent))];
        let [first, second, third] = [(); 3].map(|()| fellows.begin_guard());
        fellows.end_guard(second, mended("a"));
        assert!(fellows.restores_since(&first).is_empty());
        assert!(fellows.restores_since(&third).contains_key(&PathBuf::from("a")));
        let fourth = fellows.begin_guard();
        assert!(fellows.restores_since(&fourth).is_empty(), "it began afterwards");
        fellows.end_guard(third, Vec::new());
        assert!(fellows.restores.is_empty());
        drop(fourth);
        fellows.end_guard(first, mended("b"));
        assert!(fellows.restores.is_empty() && fellows.running.is_empty());
    }
}
