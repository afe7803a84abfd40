//! Tests of the store against real files, and against a disk that records, tears and refuses.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

mod concurrent;
mod crash;
mod faults;
mod finding;
mod loading;
mod reading;
mod robust;
mod support;
mod writing;
