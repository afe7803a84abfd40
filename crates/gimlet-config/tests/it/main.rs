//! Settings, trust and documents, over real files in scratch folders.
#![allow(clippy::unwrap_used, reason = "in a test a broken world is a failed test")]

mod agents_and_skills;
mod bad_input;
mod document_shapes;
mod document_trust;
mod fixture;
mod managed_precedence;
mod memory_files;
mod ownership;
mod project_trust;
mod save_and_reload;
mod schema_reference;
mod scopes;
mod scripts;
