//! Development only: scratch worlds in which the real binary meets a scripted model.
//!
//! Only the model is scripted. Files, processes, permissions and transcripts are real; each world has a home, a
//! project and an environment of its own, and nothing reaches beyond loopback.
#![allow(clippy::expect_used, reason = "in a test harness a broken world is a failed test")]

mod polling;
mod run_output;
mod test_world;
mod tls;

pub use polling::{PATIENCE, unique_sleep_seconds, wait_until};
pub use run_output::RunOutput;
pub use test_world::{RunBuilder, RunningChild, TestWorld, entries_of};
pub use tls::{MutualTlsServer, mutual_tls_server, tls_server};
