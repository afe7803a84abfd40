//! The permission engine against the corpora and against generated commands.

#![allow(clippy::unwrap_used, reason = "a helper of a test may fail the test")]

mod corpus;
mod limits;
mod properties;
mod rules;
mod worked;
