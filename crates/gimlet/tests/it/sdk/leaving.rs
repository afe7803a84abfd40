//! Runs that are told to go: who hears of it, what is left of the turn, and how long that takes.

use std::time::{Duration, Instant};

use gimlet_script::{At, Fault, Script, Server};
use gimlet_testkit::{World, eventually};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};

use super::{End, Host};
use crate::world;

/// Where a session is when the signal comes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    Command,
    Stream,
    Rest,
}

fn pid(text: &str) -> Pid {
    Pid::from_raw(text.trim().parse().unwrap()).unwrap()
}

fn send(host: &Host, signal: Signal) {
    kill_process(pid(&host.child.pid().to_string()), signal).unwrap();
}

async fn model(moment: Moment) -> Server {
    let script = Script::new();
    let stall = Fault::Stall { at: At::MidText, ping_every_ms: None, for_ms: None };
    let script = match moment {
        Moment::Command => script.call("Bash", json!({"command": "echo $$ > pid; sleep 600"})).then().say("never"),
        Moment::Stream => script.say("These are some words.").fault(stall),
        Moment::Rest => script.say("Done."),
    };
    script.serve().await.unwrap()
}

/// A session at this moment, whose host has a hook at its end.
async fn at(moment: Moment, world: &World, model: &Server) -> Host {
    let mut host = Host::start(world.run(model).args(["--dangerously-skip-permissions", "--include-partial-messages"]));
    let hooks = json!({"SessionEnd": [{"hookCallbackIds": ["bye"], "timeout": 30}],
        "Stop": [{"hookCallbackIds": ["stop"]}]});
    host.ask(json!({"subtype": "initialize", "hooks": hooks})).await;
    host.say("go");
    match moment {
        Moment::Command => {
            let written = || std::fs::read_to_string(world.project.join("pid")).is_ok_and(|pid| pid.ends_with('\n'));
            eventually("the command said its number", written).await;
        }
        Moment::Stream => drop(host.until(|line| line["event"]["delta"]["type"] == "text_delta").await),
        Moment::Rest => {
            let asked = host.asked("hook_callback").await;
            host.answer(&asked, json!({}));
            host.state("idle").await;
        }
    }
    host
}

/// No turn came to its end after the signal.
fn unfinished(end: End, code: i32, moment: Moment) {
    let lines = end.clean(code);
    let results = lines.iter().filter(|line| line["type"] == "result").count();
    assert_eq!(results, usize::from(moment == Moment::Rest), "{moment:?}: {lines:#?}");
    assert!(lines.iter().all(|line| line["type"] != "user"), "{lines:#?}");
}

#[tokio::test]
async fn hooks_hear_of_the_end_and_the_session_can_be_gone_on_with() {
    for moment in [Moment::Command, Moment::Stream, Moment::Rest] {
        for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
            let world = world();
            let model = model(moment).await;
            let mut host = at(moment, &world, &model).await;
            send(&host, signal);
            let asked = host.asked("hook_callback").await;
            let input = &asked["request"]["input"];
            assert_eq!((&input["hook_event_name"], &input["reason"]), (&json!("SessionEnd"), &json!("other")));
            if moment == Moment::Command {
                assert!(test_kill_process(pid(&world.read("pid"))).is_err(), "the command ended first");
            }
            host.answer(&asked, json!({}));
            let answered = Instant::now();
            unfinished(host.ended().await, code, moment);
            assert!(answered.elapsed() < Duration::from_secs(1), "{moment:?}: {:?}", answered.elapsed());
            assert_eq!(model.requests().len(), 1);
            let next = Script::new().say("ok").serve().await.unwrap();
            world.run(&next).args(["-p", "--continue", "and now?"]).finish().await.expect_code(0);
            assert!(next.rejections().is_empty(), "{:?}", next.rejections());
            let roles: Vec<Value> = next.request(0).messages().iter().map(|line| line["role"].clone()).collect();
            let before: &[&str] = match moment {
                Moment::Command => &["user", "assistant", "user"],
                Moment::Stream => &["user"],
                Moment::Rest => &["user", "assistant"],
            };
            assert_eq!(roles, [before, &["user"]].concat(), "{moment:?}");
        }
    }
}

#[tokio::test]
async fn nobody_keeps_it_for_long() {
    // A hook that does not answer, whatever time it was given.
    let (world, model) = (world(), model(Moment::Stream).await);
    let mut host = at(Moment::Stream, &world, &model).await;
    send(&host, Signal::TERM);
    let asked = host.asked("hook_callback").await;
    let since = Instant::now();
    let end = host.ended().await;
    assert!(since.elapsed() < Duration::from_secs(3), "{:?}", since.elapsed());
    let withdrawn =
        |line: &Value| line["type"] == "control_cancel_request" && line["request_id"] == asked["request_id"];
    assert!(end.lines.iter().any(withdrawn), "{:#?}", end.lines);
    unfinished(end, 143, Moment::Stream);
}

#[tokio::test]
async fn told_twice_it_goes_at_once() {
    for second in [Signal::TERM, Signal::HUP, Signal::INT] {
        let (world, model) = (world(), model(Moment::Command).await);
        let mut host = at(Moment::Command, &world, &model).await;
        send(&host, Signal::TERM);
        host.asked("hook_callback").await;
        // Sooner it would be taken for an echo of the first.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let since = Instant::now();
        send(&host, second);
        unfinished(host.ended().await, 143, Moment::Command);
        assert!(since.elapsed() < Duration::from_millis(800), "{second:?}: {:?}", since.elapsed());
        assert!(test_kill_process(pid(&world.read("pid"))).is_err());
    }
}

#[tokio::test]
async fn a_host_that_says_or_reads_nothing_more_is_not_waited_for() {
    let (world, model) = (world(), model(Moment::Command).await);
    let mut host = at(Moment::Command, &world, &model).await;
    host.child.stdin = None;
    // The end of its lines has been seen.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let since = Instant::now();
    send(&host, Signal::TERM);
    let end = host.ended().await;
    assert!(since.elapsed() < Duration::from_millis(1_200), "{:?}", since.elapsed());
    assert!(end.lines.iter().all(|line| line["request"]["subtype"] != "hook_callback"), "{:#?}", end.lines);
    unfinished(end, 143, Moment::Command);

    let mut host = at(Moment::Rest, &world, &self::model(Moment::Rest).await).await;
    host.lines.close();
    // What reads for us stops with the first line that nobody takes.
    host.send(json!({"type": "control_request", "request_id": "r", "request": {"subtype": "get_session_cost"}}));
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut child = host.child;
    let since = Instant::now();
    kill_process(pid(&child.pid().to_string()), Signal::TERM).unwrap();
    let output = tokio::task::spawn_blocking(move || child.wait_with_output()).await.unwrap();
    assert_eq!(output.code, 143, "{}", output.stderr);
    assert!(since.elapsed() < Duration::from_millis(1_200), "{:?}", since.elapsed());
}
