//! Writer of the session's cost ledger.

use std::sync::{Mutex, PoisonError};

use gimlet_store::{CostLedger, CostLine};

/// The session's cost ledger; nothing is written for a session that is not stored.
#[derive(Default)]
pub(crate) struct CostLog {
    file: Option<Mutex<CostLogFile>>,
}

struct CostLogFile {
    ledger: CostLedger,
    /// True if the user was warned that lines are missing.
    told: bool,
}

impl CostLog {
    pub(crate) fn new(ledger: Option<CostLedger>) -> Self {
        Self { file: ledger.map(|ledger| Mutex::new(CostLogFile { ledger, told: false })) }
    }

    /// Writes a line. Returns a warning the first time that this fails.
    pub(super) fn write(&self, line: impl FnOnce() -> CostLine) -> Option<String> {
        let mut file = self.file.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        let error = file.ledger.append(&line()).err()?;
        let first = !std::mem::replace(&mut file.told, true);
        first.then(|| format!("what requests cost cannot be kept in {}: {error}", file.ledger.path().display()))
    }
}
