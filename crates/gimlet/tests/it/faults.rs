//! Everything that can go wrong between gimlet and a model, one row each: what was injected, what must come of it, and
//! that the conversation can always go on.
//!
//! Every row runs the real binary twice: once against a model that misbehaves, once to resume that session against a
//! fresh strict one, which refuses any history that the service would refuse.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot set up its stage must stop")]

mod cut_streams;
mod error_events;
mod error_lines;
mod fault_row;
mod http_statuses;
mod network_front;
mod prompt_cache;
mod reply_sizes;
mod stop_reasons;
mod stream_shapes;
mod stream_stalls;
mod tls_and_proxies;

use gimlet_script::Script;
use serde_json::json;

use fault_row::{FaultRow, new_row, play_rows};

/// The current reply reads a small file.
fn with_read_call(script: Script) -> Script {
    script.call("Read", json!({"file_path": "{{dir}}/a.txt"}))
}

/// The reply after the current one is the whole answer.
fn with_final_answer(script: Script) -> Script {
    script.then().say("done")
}
