//! What the guards of commands that run at the same time know of each other.
//!
//! One that began while another command was running may have noted what that command had planted. What the older guard
//! puts back is the truth for the younger one; never the other way round.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use super::state::State;

/// Places that were put back, and how they are now.
pub(super) type Mended = Vec<(PathBuf, Arc<State>)>;

/// A guard's place in the order in which they began.
pub(super) type Began = Arc<u64>;

#[derive(Debug, Default)]
pub(super) struct Fellows {
    /// Counts beginnings and ends.
    now: u64,
    running: Vec<Weak<u64>>,
    mends: Vec<Mend>,
}

#[derive(Debug)]
struct Mend {
    began: u64,
    ended: u64,
    path: PathBuf,
    state: Arc<State>,
}

impl Mend {
    fn concerns(&self, began: u64) -> bool {
        self.began < began && began < self.ended
    }
}

impl Fellows {
    pub(super) fn begin(&mut self) -> Began {
        self.now += 1;
        let began = Arc::new(self.now);
        self.running.push(Arc::downgrade(&began));
        began
    }

    /// What older guards put back since this one began.
    pub(super) fn told(&self, began: &Began) -> BTreeMap<PathBuf, Arc<State>> {
        let told = self.mends.iter().filter(|mend| mend.concerns(**began));
        told.map(|mend| (mend.path.clone(), mend.state.clone())).collect()
    }

    pub(super) fn end(&mut self, ending: Began, mended: Mended) {
        self.now += 1;
        let (began, ended) = (*ending, self.now);
        drop(ending);
        self.mends.extend(mended.into_iter().map(|(path, state)| Mend { began, ended, path, state }));
        // Also guards that were given up without an end are gone.
        self.running.retain(|running| running.strong_count() > 0);
        let running: Vec<u64> = self.running.iter().filter_map(Weak::upgrade).map(|began| *began).collect();
        self.mends.retain(|mend| running.iter().any(|began| mend.concerns(*began)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_younger_that_still_run_are_told_and_nothing_is_kept_for_nobody() {
        let mut fellows = Fellows::default();
        let mended = |name: &str| vec![(PathBuf::from(name), Arc::new(State::Absent))];
        let [first, second, third] = [(); 3].map(|()| fellows.begin());
        fellows.end(second, mended("a"));
        assert!(fellows.told(&first).is_empty());
        assert!(fellows.told(&third).contains_key(&PathBuf::from("a")));
        let fourth = fellows.begin();
        assert!(fellows.told(&fourth).is_empty(), "it began afterwards");
        fellows.end(third, Vec::new());
        assert!(fellows.mends.is_empty());
        drop(fourth);
        fellows.end(first, mended("b"));
        assert!(fellows.mends.is_empty() && fellows.running.is_empty());
    }
}
