//! Tests of the store against real files, and against a disk that records, tears and refuses.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

mod concurrent_writers;
mod corrupted_files;
mod disk_faults;
mod inactive_sessions;
mod loading;
mod lookup_and_fork;
mod power_loss;
mod support;
mod writing;
