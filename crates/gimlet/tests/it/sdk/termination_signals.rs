//! Runs that are told to go: who hears of it, what is left of the turn, and how long that takes.

use std::time::{Duration, Instant};

use gimlet_script::{Fault, FaultPoint, Script, ScriptServer};
use gimlet_testkit::{TestWorld, wait_until};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};

use super::{HostEnd, SdkHost};
use crate::world;

/// Where a session is when the signal comes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum SignalMoment {
    Command,
    Stream,
    Rest,
}

fn parse_pid(text: &str) -> Pid {
    Pid::from_raw(text.trim().parse().unwrap()).unwrap()
}

fn send_signal(host: &SdkHost, signal: Signal) {
    kill_process(parse_pid(&host.child.pid().to_string()), signal).unwrap();
}

async fn serve_moment(moment: SignalMoment) -> ScriptServer {
    let script = Script::new();
    let stall = Fault::Stall { at: FaultPoint::MidText, ping_every_ms: None, for_ms: None };
    let script = match moment {
        SignalMoment::Command => {
            script.call("Bash", json!({"command": "echo $$ > pid; sleep 600"})).then().say("never")
        }
        SignalMoment::Stream => script.say("These are some words.").fault(stall),
        SignalMoment::Rest => script.say("Done."),
    };
    script.serve().await.unwrap()
}

/// A session at this moment, whose host has a hook at its end.
async fn start_at_moment(moment: SignalMoment, world: &TestWorld, model: &ScriptServer) -> SdkHost {
    let mut host =
        SdkHost::start(world.run(model).args(["--dangerously-skip-permissions", "--include-partial-messages"]));
    let hooks = json!({"SessionEnd": [{"hookCallbackIds": ["bye"], "timeout": 30}],
        "Stop": [{"hookCallbackIds": ["stop"]}]});
    host.send_request(json!({"subtype": "initialize", "hooks": hooks})).await;
    host.say("go");
    match moment {
        SignalMoment::Command => {
            let written = || std::fs::read_to_string(world.project.join("pid")).is_ok_and(|pid| pid.ends_with('\n'));
            wait_until("the command said its number", written).await;
        }
        SignalMoment::Stream => drop(host.until(|line| line["event"]["delta"]["type"] == "text_delta").await),
        SignalMoment::Rest => {
            let asked = host.wait_for_request("hook_callback").await;
            host.answer(&asked, json!({}));
            host.wait_for_state("idle").await;
        }
    }
    host
}

/// No turn came to its end after the signal.
fn assert_unfinished(end: HostEnd, code: i32, moment: SignalMoment) {
    let lines = end.clean(code);
    let results = lines.iter().filter(|line| line["type"] == "result").count();
    assert_eq!(results, usize::from(moment == SignalMoment::Rest), "{moment:?}: {lines:#?}");
    assert!(lines.iter().all(|line| line["type"] != "user"), "{lines:#?}");
}

#[tokio::test]
async fn hooks_hear_of_the_end_and_the_session_can_be_gone_on_with() {
    for moment in [SignalMoment::Command, SignalMoment::Stream, SignalMoment::Rest] {
        for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
            let world = world();
            let model = serve_moment(moment).await;
            let mut host = start_at_moment(moment, &world, &model).await;
            send_signal(&host, signal);
            let asked = host.wait_for_request("hook_callback").await;
            let input = &asked["request"]["input"];
            assert_eq!((&input["hook_event_name"], &input["reason"]), (&json!("SessionEnd"), &json!("other")));
            if moment == SignalMoment::Command {
                assert!(test_kill_process(parse_pid(&world.read("pid"))).is_err(), "the command ended first");
            }
            host.answer(&asked, json!({}));
            let answered = Instant::now();
            assert_unfinished(host.wait_for_exit().await, code, moment);
            assert!(answered.elapsed() < Duration::from_secs(20), "{moment:?}: {:?}", answered.elapsed());
            assert_eq!(model.requests().len(), 1);
            let next = Script::new().say("ok").serve().await.unwrap();
            world.run(&next).args(["-p", "--continue", "and now?"]).finish().await.expect_code(0);
            assert!(next.rejections().is_empty(), "{:?}", next.rejections());
            let roles: Vec<Value> = next.request(0).messages().iter().map(|line| line["role"].clone()).collect();
            let before: &[&str] = match moment {
                SignalMoment::Command => &["user", "assistant", "user"],
                SignalMoment::Stream => &["user"],
                SignalMoment::Rest => &["user", "assistant"],
            };
            assert_eq!(roles, [before, &["user"]].concat(), "{moment:?}");
        }
    }
}

#[tokio::test]
async fn hooks_do_not_delay_the_exit_for_long() {
    // A hook that does not answer, whatever time it was given.
    let (world, model) = (world(), serve_moment(SignalMoment::Stream).await);
    let mut host = start_at_moment(SignalMoment::Stream, &world, &model).await;
    send_signal(&host, Signal::TERM);
    let asked = host.wait_for_request("hook_callback").await;
    let since = Instant::now();
    let end = host.wait_for_exit().await;
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    let withdrawn =
        |line: &Value| line["type"] == "control_cancel_request" && line["request_id"] == asked["request_id"];
    assert!(end.lines.iter().any(withdrawn), "{:#?}", end.lines);
    assert_unfinished(end, 143, SignalMoment::Stream);
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let mut fastest = Duration::MAX;
    for second in [Signal::TERM, Signal::HUP, Signal::INT] {
        let (world, model) = (world(), serve_moment(SignalMoment::Command).await);
        let mut host = start_at_moment(SignalMoment::Command, &world, &model).await;
        send_signal(&host, Signal::TERM);
        host.wait_for_request("hook_callback").await;
        // Sooner it would be taken for an echo of the first.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let since = Instant::now();
        send_signal(&host, second);
        assert_unfinished(host.wait_for_exit().await, 143, SignalMoment::Command);
        fastest = fastest.min(since.elapsed());
        assert!(test_kill_process(parse_pid(&world.read("pid"))).is_err());
    }
    // The best of the three: a busy machine may delay one of them.
    assert!(fastest < Duration::from_millis(800), "{fastest:?}");
}

#[tokio::test]
async fn a_host_that_says_or_reads_nothing_more_is_not_waited_for() {
    let (world, model) = (world(), serve_moment(SignalMoment::Command).await);
    let mut host = start_at_moment(SignalMoment::Command, &world, &model).await;
    host.child.stdin = None;
    // The end of its lines has been seen.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let since = Instant::now();
    send_signal(&host, Signal::TERM);
    let end = host.wait_for_exit().await;
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    assert!(end.lines.iter().all(|line| line["request"]["subtype"] != "hook_callback"), "{:#?}", end.lines);
    assert_unfinished(end, 143, SignalMoment::Command);

    let mut host = start_at_moment(SignalMoment::Rest, &world, &serve_moment(SignalMoment::Rest).await).await;
    host.lines.close();
    // What reads for us stops with the first line that nobody takes.
    host.send_line(json!({"type": "control_request", "request_id": "r", "request": {"subtype": "get_session_cost"}}));
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut child = host.child;
    let since = Instant::now();
    kill_process(parse_pid(&child.pid().to_string()), Signal::TERM).unwrap();
    let output = tokio::task::spawn_blocking(move || child.wait_with_output()).await.unwrap();
    assert_eq!(output.code, 143, "{}", output.stderr);
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
}
