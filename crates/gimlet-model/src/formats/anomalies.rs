//! Unexpected but harmless parts of a reply, counted for diagnosis.

/// Maximum number of distinct anomalies.
const MOST: usize = 16;
/// Maximum number of characters of a server's own names.
const LONGEST_NAME: usize = 60;

/// Ignored parts with their counts.
#[derive(Debug, Default)]
pub(crate) struct AnomalyCounts {
    counts: Vec<(String, u32)>,
    /// Number of anomalies beyond the distinct ones.
    others: u32,
}

impl AnomalyCounts {
    pub(crate) fn note(&mut self, what: &str, name: &str) {
        let name: String = name.chars().filter(|char| !char.is_control()).take(LONGEST_NAME).collect();
        let what = if name.is_empty() { what.to_owned() } else { format!("{what} '{name}'") };
        let has_place = self.counts.len() < MOST;
        match self.counts.iter_mut().find(|(known, _)| *known == what) {
            Some((_, count)) => *count = count.saturating_add(1),
            None if has_place => self.counts.push((what, 1)),
            None => self.others = self.others.saturating_add(1),
        }
    }

    /// Returns a one-line summary; `None` if there are no anomalies.
    pub(crate) fn summary_line(&self) -> Option<String> {
        let once =
            |(what, count): &(String, u32)| if *count == 1 { what.clone() } else { format!("{what} ({count}×)") };
        let mut told: Vec<String> = self.counts.iter().map(once).collect();
        if self.others > 0 {
            told.push(format!("{} others", self.others));
        }
        (!told.is_empty()).then(|| told.join(", "))
    }
}
