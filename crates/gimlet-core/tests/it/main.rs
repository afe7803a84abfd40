//! The core with tools and a model made for the test: scheduling, permission, results, interrupts.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a broken bench is a failed test")]

mod agents;
mod asking;
mod bench;
mod driver;
mod guests;
mod hooked_calls;
mod hooked_gate;
mod hooked_turns;
mod hosts;
mod known;
mod letters;
mod live;
mod moving;
mod overtaken;
mod panicking;
mod permission;
mod planning;
mod refused;
mod repeating;
mod results;
mod rewinding;
mod schedule;
mod stalling;
mod structured;
