//! Settings and trust, over real files in scratch folders.
#![allow(clippy::unwrap_used, reason = "in a test a broken world is a failed test")]

mod bad_input;
mod fixture;
mod managed_precedence;
mod ownership;
mod project_trust;
mod save_and_reload;
mod schema_reference;
mod scopes;
mod scripts;
