//! Development only: scratch worlds in which the real binary meets a scripted model.
//!
//! Only the model is scripted. Files, processes, permissions and transcripts are real; each world has a home, a
//! project and an environment of its own, and nothing reaches beyond loopback.
#![allow(clippy::expect_used, reason = "in a test harness a broken world is a failed test")]

mod output;
mod tls;
mod waiting;
mod world;

pub use output::RunOutput;
pub use tls::{Mutual, certified, mutual};
pub use waiting::{PATIENCE, eventually, unique_sleep};
pub use world::{Run, RunningChild, World, entries_of};
