//! The acceptance probes of the tool system, by their numbers: the real binary, real files and processes, a model whose
//! every word is scripted.
//!
//! Each probe states one promise that people rely on. A test named `probe_NN_…` belongs to probe NN; the others guard
//! promises of the same kind that carry no number.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

mod asking;
mod background;
mod bash;
mod calls;
mod checkpoints;
mod demo;
mod edits;
mod interrupt;
mod links;
mod permission;
mod reads;
mod requests;
mod results;
mod resumed;
mod search;
mod shell_edges;

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use gimlet_script::{Request, Script, Server};
use gimlet_testkit::{RunOutput, World, eventually, unique_sleep};
use serde_json::{Value, json};

async fn serve(script: Script) -> Server {
    script.serve().await.unwrap()
}

/// A model that makes these calls in one reply and then says that it is done.
async fn one_reply<const N: usize>(calls: [(&str, Value); N]) -> Server {
    let script = calls.into_iter().fold(Script::new(), |script, (tool, input)| script.call(tool, input));
    serve(script.then().say("done")).await
}

/// A model that makes each call in a reply of its own and then says that it is done.
async fn one_by_one<const N: usize>(calls: [(&str, Value); N]) -> Server {
    let script = calls.into_iter().fold(Script::new(), |script, (tool, input)| script.call(tool, input).then());
    serve(script.say("done")).await
}

/// Runs to the end with everything allowed; the model must have been asked exactly what it was scripted for.
async fn finish(world: &World, model: &Server) -> RunOutput {
    let run = world.run(model).stream("go").finish().await;
    run.expect_code(0);
    all_played(model);
    run
}

#[track_caller]
fn all_played(model: &Server) {
    assert_eq!((model.failures(), model.rejections(), model.unplayed()), (vec![], vec![], 0));
}

/// The results of the last message: text and whether it is an error.
fn answers(request: &Request) -> Vec<(String, bool)> {
    let messages = request.messages();
    let blocks = messages.last().and_then(|message| message["content"].as_array()).cloned().unwrap_or_default();
    let failed = blocks.iter().filter(|block| block["type"] == "tool_result").map(|block| block["is_error"] == true);
    request.tool_results().into_iter().zip(failed).collect()
}

/// The only result of request `index`, which must be an error.
#[track_caller]
fn error(model: &Server, index: usize) -> String {
    let answers = answers(&model.request(index));
    assert!(matches!(answers.as_slice(), [(_, true)]), "{answers:?}");
    answers[0].0.clone()
}

/// The only result of request `index`, which must not be an error.
#[track_caller]
fn success(model: &Server, index: usize) -> String {
    let answers = answers(&model.request(index));
    assert!(matches!(answers.as_slice(), [(_, false)]), "{answers:?}");
    answers[0].0.clone()
}

/// Every block of every message, in order.
fn blocks(request: &Request) -> Vec<Value> {
    let messages = request.messages();
    messages.iter().filter_map(|message| message["content"].as_array()).flatten().cloned().collect()
}

fn bash(command: impl AsRef<str>) -> (&'static str, Value) {
    ("Bash", json!({"command": command.as_ref()}))
}

fn read(world: &World, path: &str) -> (&'static str, Value) {
    ("Read", json!({"file_path": world.path(path)}))
}

/// How many processes of this name have an argument that contains the marker.
fn alive(name: &str, marker: &str) -> usize {
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
fn age(path: &Path) -> SystemTime {
    let then = SystemTime::now() - Duration::from_secs(3_600);
    std::fs::File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
    then
}
