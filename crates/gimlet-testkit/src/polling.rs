//! Waiting for the effects of other processes: polling in small steps, with a timeout.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Timeout: far longer than anything in a test takes.
pub const PATIENCE: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(5);

/// Waits until a condition holds; panics with its name on a timeout.
pub async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        tokio::time::sleep(STEP).await;
    }
}

/// Returns a number of seconds for `sleep` that no other process on this machine uses, so that its process can be
/// found.
pub fn unique_sleep_seconds() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("7{:07}{:03}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
