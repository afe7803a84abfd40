//! Everything that can go wrong between gimlet and a model, one row each: what was injected, what must come of it, and
//! that the conversation can always go on.
//!
//! Every row runs the real binary twice: once against a model that misbehaves, once to resume that session against a
//! fresh strict one, which refuses any history that the service would refuse.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot set up its stage must stop")]

mod cuts;
mod events;
mod front;
mod lines;
mod links;
mod prefix;
mod row;
mod shapes;
mod sizes;
mod stalls;
mod statuses;
mod stops;

use gimlet_script::Script;
use serde_json::json;

use row::{Row, play, row};

/// The current reply reads a small file.
fn reads(script: Script) -> Script {
    script.call("Read", json!({"file_path": "{{dir}}/a.txt"}))
}

/// The reply after the current one is the whole answer.
fn then_done(script: Script) -> Script {
    script.then().say("done")
}
