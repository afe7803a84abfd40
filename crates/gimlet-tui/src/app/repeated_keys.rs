//! Keys that mean more when they are pressed twice.

/// A key that counts when it comes a second time soon enough.
#[derive(Clone, Copy, Debug)]
pub(super) struct RepeatedKey {
    window_ms: u64,
    first_ms: Option<u64>,
}

impl RepeatedKey {
    pub(super) fn new(window_ms: u64) -> Self {
        Self { window_ms, first_ms: None }
    }

    /// Notes a press; returns true if it is the second of two.
    pub(super) fn press(&mut self, now_ms: u64) -> bool {
        let is_second = self.first_ms.is_some_and(|first| now_ms.saturating_sub(first) <= self.window_ms);
        self.first_ms = if is_second { None } else { Some(now_ms) };
        is_second
    }

    /// The next press is a first one.
    pub(super) fn forget(&mut self) {
        self.first_ms = None;
    }
}
