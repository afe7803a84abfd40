//! Waiting for what other processes do, which nobody announces: in small steps, and never for ever.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Far longer than anything in a test takes, far shorter than a person would wait.
pub const PATIENCE: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(5);

/// Waits until something holds; fails by name when it never does.
pub async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        tokio::time::sleep(STEP).await;
    }
}

/// A number of seconds for `sleep` that no other process of this machine has, so that its owner can be found by it.
pub fn unique_sleep_seconds() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("7{:07}{:03}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
