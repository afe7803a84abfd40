//! Settings and trust, over real files in scratch folders.
#![allow(clippy::unwrap_used, reason = "in a test a broken world is a failed test")]

mod bad_input;
mod managed;
mod ownership;
mod reference;
mod save;
mod scopes;
mod scripts;
mod trust;
mod world;
