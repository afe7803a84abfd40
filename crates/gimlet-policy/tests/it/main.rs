//! The permission engine against the corpora and against generated commands.

#![allow(clippy::unwrap_used, reason = "a helper of a test may fail the test")]

mod accepted_edits;
mod climbing;
mod closed_files;
mod completed;
mod corpus;
mod fed;
mod flags;
mod inherited;
mod invariants;
mod kept_files;
mod launchers;
mod limits;
mod links;
mod near;
mod own_files;
mod parting;
mod properties;
mod quotes;
mod rules;
mod rules_one_by_one;
mod runners;
mod scopes;
mod traps;
mod unnamed_files;
mod worked;
mod worlds;
