//! The acceptance probes of the tool system, by their numbers: the real binary, real files and processes, a model whose
//! every word is scripted.
//!
//! Each probe states one promise that people rely on. A test named `probe_NN_…` belongs to probe NN; the others guard
//! promises of the same kind that carry no number.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

mod background_commands;
mod bash;
mod checkpoints;
mod demo;
mod file_edits;
mod file_reads;
mod file_search;
mod interrupts;
mod large_results;
mod print_permissions;
mod request_content;
mod resumed_state;
mod shell_edges;
mod symlinks;
mod tool_calls;
mod user_questions;

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use gimlet_script::{ReceivedRequest, Script, ScriptServer};
use gimlet_testkit::{RunOutput, TestWorld, unique_sleep_seconds, wait_until};
use serde_json::{Value, json};

async fn serve_script(script: Script) -> ScriptServer {
    script.serve().await.unwrap()
}

/// A model that makes these calls in one reply and then says that it is done.
async fn serve_in_one_reply<const N: usize>(calls: [(&str, Value); N]) -> ScriptServer {
    let script = calls.into_iter().fold(Script::new(), |script, (tool, input)| script.call(tool, input));
    serve_script(script.then().say("done")).await
}

/// A model that makes each call in a reply of its own and then says that it is done.
async fn serve_one_by_one<const N: usize>(calls: [(&str, Value); N]) -> ScriptServer {
    let script = calls.into_iter().fold(Script::new(), |script, (tool, input)| script.call(tool, input).then());
    serve_script(script.say("done")).await
}

/// Runs to the end with everything allowed; the model must have been asked exactly what it was scripted for.
async fn run_to_end(world: &TestWorld, model: &ScriptServer) -> RunOutput {
    let run = world.run(model).stream("go").finish().await;
    run.expect_code(0);
    assert_all_played(model);
    run
}

#[track_caller]
fn assert_all_played(model: &ScriptServer) {
    assert_eq!((model.failures(), model.rejections(), model.unplayed()), (vec![], vec![], 0));
}

/// The results of the last message: text and whether it is an error.
fn tool_answers(request: &ReceivedRequest) -> Vec<(String, bool)> {
    let messages = request.messages();
    let blocks = messages.last().and_then(|message| message["content"].as_array()).cloned().unwrap_or_default();
    let failed = blocks.iter().filter(|block| block["type"] == "tool_result").map(|block| block["is_error"] == true);
    request.tool_results().into_iter().zip(failed).collect()
}

/// The only result of request `index`, which must be an error.
#[track_caller]
fn tool_error(model: &ScriptServer, index: usize) -> String {
    let answers = tool_answers(&model.request(index));
    assert!(matches!(answers.as_slice(), [(_, true)]), "{answers:?}");
    answers[0].0.clone()
}

/// The only result of request `index`, which must not be an error.
#[track_caller]
fn tool_success(model: &ScriptServer, index: usize) -> String {
    let answers = tool_answers(&model.request(index));
    assert!(matches!(answers.as_slice(), [(_, false)]), "{answers:?}");
    answers[0].0.clone()
}

/// Every block of every message, in order.
fn all_blocks(request: &ReceivedRequest) -> Vec<Value> {
    let messages = request.messages();
    messages.iter().filter_map(|message| message["content"].as_array()).flatten().cloned().collect()
}

fn bash_call(command: impl AsRef<str>) -> (&'static str, Value) {
    ("Bash", json!({"command": command.as_ref()}))
}

fn read_call(world: &TestWorld, path: &str) -> (&'static str, Value) {
    ("Read", json!({"file_path": world.path(path)}))
}

/// How many processes of this name have an argument that contains the marker.
fn count_processes(name: &str, marker: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let command_lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    command_lines
        .filter(|line| {
            let mut words = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
            let program = words.next().unwrap_or_default();
            Path::new(program.as_ref()).file_name().is_some_and(|file| file == name)
                && words.any(|word| word.contains(marker))
        })
        .count()
}

/// Makes a file look as if it had been at rest for long.
fn make_old(path: &Path) -> SystemTime {
    let then = SystemTime::now() - Duration::from_secs(3_600);
    std::fs::File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
    then
}
