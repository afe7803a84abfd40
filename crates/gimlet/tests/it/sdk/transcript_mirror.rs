//! The copy of the transcript that hosts may ask for.

use gimlet_script::Script;
use serde_json::{Value, json};

use super::SdkHost;
use crate::world;

#[tokio::test]
async fn the_copy_is_complete_and_ahead_of_the_result() {
    let world = world();
    world.file("a.txt", "hello\n");
    let read = json!({"file_path": world.path("a.txt")});
    let model =
        Script::new().call("Read", read).then().say("one").then().say("two").then().say("three").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).arg("--session-mirror"));
    host.say("first");
    host.result().await;
    let written = std::fs::read_to_string(&world.transcripts()[0]).unwrap();
    let copied = mirrored_entries(&host.seen, &world.transcripts()[0].to_string_lossy());
    assert_eq!(copied, parse_lines(&written), "all of a turn is there before its result");
    host.say("second");
    host.result().await;
    let session = host.seen.last().unwrap()["session_id"].as_str().unwrap().to_owned();
    let lines = host.end().await.clean(0);
    let path = world.transcripts()[0].clone();
    assert_eq!(
        mirrored_entries(&lines, &path.to_string_lossy()),
        parse_lines(&std::fs::read_to_string(&path).unwrap())
    );
    // A fork begins with a copy of what it was forked from.
    let resume = format!("--resume={session}");
    let mut host = SdkHost::start(world.run(&model).args(["--session-mirror", "--fork-session", &resume]));
    host.say("third");
    let result = host.result().await;
    let lines = host.end().await.clean(0);
    let forked = path.with_file_name(format!("{}.jsonl", result["session_id"].as_str().unwrap()));
    assert_eq!(
        mirrored_entries(&lines, &forked.to_string_lossy()),
        parse_lines(&std::fs::read_to_string(&forked).unwrap())
    );
}

fn parse_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn mirrored_entries(lines: &[Value], path: &str) -> Vec<Value> {
    let frames = lines.iter().filter(|line| line["type"] == "transcript_mirror" && line["filePath"] == path);
    frames.flat_map(|frame| frame["entries"].as_array().unwrap().clone()).collect()
}

#[tokio::test]
async fn without_a_transcript_there_is_nothing_to_copy() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--session-mirror", "--no-session-persistence"]));
    host.say("hi");
    let end = host.wait_for_exit().await;
    end.output.expect_code(1);
    assert!(end.lines[0]["errors"][0].as_str().unwrap().contains("--no-session-persistence"));
}

#[tokio::test]
async fn a_variable_takes_no_copy_away_from_whoever_asked_for_one() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    let run = world.run(&model).arg("--session-mirror").env("CLAUDE_CODE_SKIP_PROMPT_HISTORY", "1");
    let mut host = SdkHost::start(run);
    host.say("hi");
    host.result().await;
    let lines = host.end().await.clean(0);
    let path = world.transcripts()[0].clone();
    assert_eq!(
        mirrored_entries(&lines, &path.to_string_lossy()),
        parse_lines(&std::fs::read_to_string(&path).unwrap())
    );
}
