//! The server over real sockets, seen through a client that reads raw bytes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test's helper fails the way a test does")]

mod raw_client;

mod cache_hits;
mod faults;
mod request_checks;
mod script_playback;
mod thinking_replay;
