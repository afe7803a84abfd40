//! What a reply had that nobody expected and that did no harm: counted, for whoever looks for the cause of something.

/// So many different things are told apart.
const MOST: usize = 16;
/// Names of the server's own are told up to this many characters.
const LONGEST_NAME: usize = 60;

/// What was set aside, and how often.
#[derive(Debug, Default)]
pub(super) struct AnomalyCounts {
    counts: Vec<(String, u32)>,
    /// Further ones beyond those that are told apart.
    others: u32,
}

impl AnomalyCounts {
    pub(super) fn note(&mut self, what: &str, name: &str) {
        let name: String = name.chars().filter(|char| !char.is_control()).take(LONGEST_NAME).collect();
        let what = if name.is_empty() { what.to_owned() } else { format!("{what} '{name}'") };
        let has_place = self.counts.len() < MOST;
        match self.counts.iter_mut().find(|(known, _)| *known == what) {
            Some((_, count)) => *count = count.saturating_add(1),
            None if has_place => self.counts.push((what, 1)),
            None => self.others = self.others.saturating_add(1),
        }
    }

    /// All of it in one line, if there is anything.
    pub(super) fn summary_line(&self) -> Option<String> {
        let once =
            |(what, count): &(String, u32)| if *count == 1 { what.clone() } else { format!("{what} ({count}×)") };
        let mut told: Vec<String> = self.counts.iter().map(once).collect();
        if self.others > 0 {
            told.push(format!("{} others", self.others));
        }
        (!told.is_empty()).then(|| told.join(", "))
    }
}
