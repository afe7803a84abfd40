//! The server over real sockets, seen through a client that reads raw bytes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test's helper fails the way a test does")]

mod client;

mod cache;
mod checks;
mod faults;
mod playing;
mod thinking;
