//! The permission engine against the corpora and against generated commands.

#![allow(clippy::unwrap_used, reason = "a helper of a test may fail the test")]

mod accepted_edits;
mod completed_commands;
mod corpus;
mod fixtures;
mod harmless_lookalikes;
mod inherited_environment;
mod invariants;
mod limits;
mod near_rule_reasons;
mod parent_paths;
mod parser_disagreements;
mod piped_operands;
mod program_launchers;
mod properties;
mod quotes;
mod read_denied_files;
mod read_only_flags;
mod rule_generators;
mod rule_kinds;
mod rule_scopes;
mod runners;
mod session_files;
mod symlink_reads;
mod unnamed_files;
mod worked_examples;
mod write_denied_files;
