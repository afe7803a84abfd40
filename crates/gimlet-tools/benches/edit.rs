//! Read and Edit of one file, with everything that belongs to them: parsing the input, finding the place, the diff, the
//! atomic replacement with its syncs.
//!
//! Tools leave their crate only behind the gate, so this program compiles them in instead of linking to them. Run with
//! `cargo bench -p gimlet-tools --bench edit`.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a benchmark that cannot run has nothing to report")]

#[path = "../src"]
#[allow(dead_code, unused_imports, reason = "the modules' own tests come along and are not run from here")]
mod tools {
    pub(crate) mod bounded_work;
    pub(crate) mod diff;
    pub(crate) mod edit;
    pub(crate) mod harness;
    pub(crate) mod read;
    pub(crate) mod sample_images;
    pub(crate) mod special_files;
    pub(crate) mod text_file;
}

use std::time::{Duration, Instant};

use serde_json::json;
use tools::harness::ToolBench;
use tools::{bounded_work, diff, edit, harness, read, sample_images, special_files, text_file};

const ROUNDS: usize = 200;

fn main() {
    // `cargo test --benches` only wants to know that it builds and starts.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for lines in [40, 2_000, 50_000] {
        runtime.block_on(measure(lines));
    }
}

async fn measure(lines: usize) {
    let mut bench = ToolBench::new();
    let text: String = (0..lines).map(|n| format!("value_{n:05} = 0; // a line of ordinary length\n")).collect();
    let path = bench.file("values.rs", text);
    let mut reads = Vec::new();
    let mut edits = Vec::new();
    for round in 0..ROUNDS {
        let started = Instant::now();
        let view = json!({"file_path": path, "offset": 1 + round % lines, "limit": 200});
        drop(bench.call(&read::Read, view).await);
        reads.push(started.elapsed());
        let (old, new) = (round % 2, (round + 1) % 2);
        let at = lines / 2;
        let change = json!({"file_path": path, "old_string": format!("value_{at:05} = {old};"),
                            "new_string": format!("value_{at:05} = {new};")});
        let started = Instant::now();
        bench.call(&edit::Edit, change).await.expect("the edit applies");
        edits.push(started.elapsed());
    }
    println!(
        "{lines:6} lines: read 200 of them {:?}, edit one {:?} (medians of {ROUNDS})",
        median(reads),
        median(edits)
    );
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
