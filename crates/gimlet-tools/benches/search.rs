//! Grep and Glob on a repository of 50,000 small files, measured against the `rg` binary in the same run.
//!
//! Tools leave their crate only behind the gate, so this program compiles the two in instead of linking to them. Run
//! with `cargo bench -p gimlet-tools --bench search`; without `rg` on the path only the own figures are printed.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a benchmark that cannot run has nothing to report")]

#[path = "../src"]
#[allow(dead_code, unused_imports, reason = "the modules' own tests come along and are not run from here")]
mod tools {
    pub(crate) mod bounded_work;
    pub(crate) mod glob;
    pub(crate) mod grep;
    pub(crate) mod search_harness;
    pub(crate) mod special_files;
    pub(crate) mod walk;
}

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tools::search_harness::SearchTree;
use tools::{bounded_work, glob, grep, search_harness, special_files, walk};

const FILES: usize = 50_000;
const ROUNDS: usize = 9;

fn main() {
    // `cargo test --benches` only wants to know that it builds and starts.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let tree = SearchTree::new();
    write_files(&tree);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    for (name, pattern) in [("literal, few hits", "needle_4217"), ("regex, few hits", r"needle_\d+ = 1$")] {
        compare(&runtime, &tree, name, pattern);
    }
    compare(&runtime, &tree, "literal, a million hits", "def function");
    let files = json!({"pattern": "def function"});
    report("files_with_matches", &mut times(|| call(&runtime, &tree, files.clone())));
    let every = json!({"pattern": "**/*.py"});
    report("Glob **/*.py", &mut times(|| runtime.block_on(tree.call(glob::Glob, every.clone())).unwrap().output));
}

/// Source-like files of about one kilobyte, fifty to a directory; the needle is in ten of them.
fn write_files(tree: &SearchTree) {
    tree.file(".git/HEAD", "ref: refs/heads/main\n");
    let body: String = (0..22).map(|n| format!("def function_{n}(value):\n    return value + {n}\n\n")).collect();
    for n in 0..FILES {
        let needle = if n % 5_000 == 17 { "needle_4217 = 1\n" } else { "" };
        let path = format!("pkg_{:02}/mod_{:02}/file_{n:05}.py", n / 2_500, n / 50 % 50);
        tree.file(path, format!("# file {n}\n{body}{needle}"));
    }
}

fn call(runtime: &tokio::runtime::Runtime, tree: &SearchTree, input: Value) -> Value {
    runtime.block_on(tree.call(grep::Grep, input)).unwrap().output
}

/// Runs both in turn, so that whatever else the machine does meets both alike.
fn compare(runtime: &tokio::runtime::Runtime, tree: &SearchTree, name: &str, pattern: &str) {
    let input = json!({"pattern": pattern, "output_mode": "content"});
    let (mut own, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let total = call(runtime, tree, input.clone())["totalLines"].as_u64();
        own.push(start.elapsed());
        let start = Instant::now();
        if let Some(lines) = ripgrep(tree, pattern) {
            theirs.push(start.elapsed());
            assert_eq!(total, Some(lines), "both must find the same");
        }
    }
    let own = report(&format!("Grep, {name}"), &mut own);
    if !theirs.is_empty() {
        let theirs = report(&format!("rg,   {name}"), &mut theirs);
        println!("{:34} {:6.3}", "  ratio", own.as_secs_f64() / theirs.as_secs_f64());
    }
}

/// Lines that `rg` prints, if there is an `rg`.
#[allow(clippy::disallowed_methods, reason = "the program to compare with is a process by nature")]
fn ripgrep(tree: &SearchTree, pattern: &str) -> Option<u64> {
    let mut command = std::process::Command::new("rg");
    command.args(["-n", "--hidden", "-g", "!.git", pattern, "."]).current_dir(tree.root());
    let output = command.output().ok()?;
    Some(output.stdout.iter().filter(|byte| **byte == b'\n').count() as u64)
}

fn times(mut run: impl FnMut() -> Value) -> Vec<Duration> {
    let timed = |_| {
        let start = Instant::now();
        std::hint::black_box(run());
        start.elapsed()
    };
    (0..ROUNDS).map(timed).collect()
}

/// Prints and returns the median.
fn report(name: &str, times: &mut [Duration]) -> Duration {
    times.sort();
    let (least, median) = (times[0], times[times.len() / 2]);
    println!("{name:34} median {:7.1} ms   least {:7.1} ms", median.as_secs_f64() * 1e3, least.as_secs_f64() * 1e3);
    median
}
