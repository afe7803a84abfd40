//! Hooks around turns and sessions: prompts that are let in, turns that may end, and what is told at the edges.

use std::sync::Arc;
use std::time::Duration;

use gimlet_proto::{
    Block, DriverHook, EventBody, Message, ModelError, ModelErrorKind, ModelEvent, Op, StopReason, SubmittedPrompt,
    TurnEnd,
};
use gimlet_store::{LoadOptions, load_conversation};
use serde_json::{Value, json};

use crate::external_tools::FixedToolSource;
use crate::hook_program::{CallbackReaction, HookProgram, SharedProgram, context_output, hook, permission_output};
use crate::hooks_on_calls::{bench, model_texts};
use crate::session_bench::{BenchSetup, SessionBench, call, ended, reply, started};

fn text_replies(texts: &[&str]) -> Vec<Vec<ModelEvent>> {
    texts.iter().map(|text| reply(&[Block::text(text)])).collect()
}

fn all_texts(message: &Message) -> Vec<String> {
    message.blocks.iter().filter_map(|block| block.as_text().map(|text| text.into_owned())).collect()
}

async fn notices_of(bench: &mut SessionBench) -> (TurnEnd, String) {
    let mut notices = Vec::new();
    bench.say("go");
    let report = bench
        .turn(|event, _| {
            if let EventBody::Notice(notice) = &event.body {
                notices.push(notice.text.clone());
            }
        })
        .await;
    (report.end, notices.join("\n"))
}

#[tokio::test]
async fn a_blocked_prompt_never_reaches_model_or_disk_and_the_next_one_is_as_good_as_the_first() {
    let block = json!({"decision": "block", "reason": "mind your language"});
    let program = HookProgram::default().with_callback("h", move |nth, _| match nth {
        0 => CallbackReaction::Say(block.clone()),
        _ => CallbackReaction::Say(json!({})),
    });
    let setup = BenchSetup { saved: true, ..BenchSetup::default() };
    let hooks = vec![hook("UserPromptSubmit", &["h"])];
    let (mut bench, program) = bench(setup, program, hooks, text_replies(&["done"]));
    let (end, notices) = notices_of(&mut bench).await;
    assert!(matches!(&end, TurnEnd::PromptBlocked { reason } if reason == "mind your language"), "{end:?}");
    assert!(notices.contains("mind your language") && notices.contains("The prompt was: go"), "{notices}");
    assert_eq!(bench.model.requests().len(), 0);
    assert!(!bench.files.transcript().exists());
    assert_eq!(program.inputs("h")[0]["prompt"], "go");
    let report = bench.run("please").await;
    assert!(matches!(report.end, TurnEnd::Completed));
    let messages = &bench.model.requests()[0].messages;
    assert_eq!(messages.len(), 1);
    assert!(!all_texts(&messages[0]).contains(&"go".to_owned()));
    bench.close().await;
}

#[tokio::test]
async fn a_blocked_prompt_is_not_repeated_where_the_hook_hides_it() {
    let answer = json!({"decision": "block", "reason": "secret inside", "suppressOriginalPrompt": true});
    let program = HookProgram::default().with_answer("h", answer);
    let (mut bench, _) = bench(BenchSetup::default(), program, vec![hook("UserPromptSubmit", &["h"])], Vec::new());
    let (_, notices) = notices_of(&mut bench).await;
    assert!(notices.contains("secret inside") && !notices.contains("go"), "{notices}");
    bench.close().await;
}

#[tokio::test]
async fn silence_about_a_prompt_blocks_it_with_a_notice() {
    let program = HookProgram::default().with_callback("h", |_, _| CallbackReaction::Hang);
    let hooks = vec![DriverHook { timeout: Some(Duration::from_millis(10)), ..hook("UserPromptSubmit", &["h"]) }];
    let (mut bench, _) = bench(BenchSetup::default(), program, hooks, Vec::new());
    let (end, notices) = notices_of(&mut bench).await;
    assert!(matches!(end, TurnEnd::PromptBlocked { .. }), "{end:?}");
    assert!(notices.contains("did not answer within"), "{notices}");
    bench.close().await;
}

#[tokio::test]
async fn what_hooks_add_to_a_prompt_follows_it_and_comes_back_when_the_session_is_resumed() {
    let long = "x".repeat(10_001);
    let program = HookProgram::default()
        .with_answer("start", context_output("SessionStart", "the build is red"))
        .with_answer("prompt", context_output("UserPromptSubmit", "it is raining"))
        .with_answer("long", context_output("UserPromptSubmit", &long));
    let hooks = vec![hook("SessionStart", &["start"]), hook("UserPromptSubmit", &["prompt", "long"])];
    let setup = BenchSetup { saved: true, ..BenchSetup::default() };
    let (mut bench, program) = bench(setup, program, hooks, text_replies(&["done", "again"]));
    bench.run("go").await;
    let texts = model_texts(&bench, 0);
    let place =
        |wanted: &str| texts.iter().position(|text| text.contains(wanted)).unwrap_or_else(|| panic!("{texts:?}"));
    assert!(place("<environment>") < place("the build is red"));
    assert!(place("the build is red") < place("go") && place("go") < place("it is raining"));
    let spilled = &texts[place("<persisted-output>")];
    assert!(spilled.len() < 5_000, "{} bytes", spilled.len());
    let path = spilled.lines().find_map(|line| line.split_once("saved to ")).unwrap().1;
    assert_eq!(std::fs::read_to_string(path).unwrap(), long);
    let start = &program.inputs("start")[0];
    assert_eq!((&start["source"], &start["model"]), (&json!("startup"), &json!("test")));
    assert!(start.get("permission_mode").is_none());
    bench.run("and now").await;
    assert_eq!(program.inputs("start").len(), 1, "a session starts once");
    let sent: Vec<String> = bench.model.requests()[1].messages.iter().flat_map(|message| all_texts(message)).collect();
    let files = bench.files.clone();
    let _dir = bench.close().await;
    let loaded = load_conversation(&files.transcript(), &LoadOptions::default()).unwrap();
    let kept: Vec<String> = loaded.messages.iter().flat_map(all_texts).collect();
    assert_eq!(kept[..sent.len()], sent);
}

#[tokio::test]
async fn prompts_that_join_a_turn_are_looked_at_too() {
    let program = HookProgram::default().with_callback("h", |nth, _| match nth {
        0 => CallbackReaction::Say(json!({})),
        _ => CallbackReaction::Say(json!({"decision": "block", "reason": "no"})),
    });
    let replies = vec![reply(&[call("a", "Touch", json!({"name": "a"}))]), reply(&[Block::text("done")])];
    let (mut bench, program) = bench(BenchSetup::default(), program, vec![hook("UserPromptSubmit", &["h"])], replies);
    bench.say("go");
    let report = bench
        .turn(|event, handle| {
            if matches!(event.body, EventBody::Block(_)) {
                handle.send(Op::Submit(SubmittedPrompt::from_text("and this")));
            }
        })
        .await;
    assert!(matches!(report.end, TurnEnd::Completed));
    assert!(program.inputs("h").len() >= 2);
    assert!(!model_texts(&bench, 1).contains(&"and this".to_owned()));
    bench.close().await;
}

#[tokio::test]
async fn a_turn_goes_on_while_a_hook_has_reasons_and_not_for_ever() {
    let block = json!({"decision": "block", "reason": "the tests are red"});
    let program = HookProgram::default().with_callback("h", move |nth, _| match nth {
        0 | 1 => CallbackReaction::Say(block.clone()),
        _ => CallbackReaction::Say(json!({})),
    });
    let (mut first, program) =
        bench(BenchSetup::default(), program, vec![hook("Stop", &["h"])], text_replies(&["1", "2", "3"]));
    let report = first.run("go").await;
    assert!(matches!(report.end, TurnEnd::Completed));
    assert_eq!(report.text, "3");
    assert!(model_texts(&first, 1)[0].contains("the tests are red"), "{:?}", model_texts(&first, 1));
    let active: Vec<Value> = program.inputs("h").iter().map(|input| input["stop_hook_active"].clone()).collect();
    assert_eq!(active, [false, true, true]);
    assert_eq!(program.inputs("h")[1]["last_assistant_message"], "2");
    assert_eq!(program.inputs("h")[0]["background_tasks"], json!([]));
    first.close().await;

    let program = HookProgram::default().with_answer("h", json!({"decision": "block", "reason": "never"}));
    let (mut second, program) =
        bench(BenchSetup::default(), program, vec![hook("Stop", &["h"])], text_replies(&["x"; 9]));
    let (end, notices) = notices_of(&mut second).await;
    assert!(matches!(end, TurnEnd::Completed));
    assert_eq!(program.inputs("h").len(), 9, "eight times the turn went on");
    assert!(notices.contains("too often"), "{notices}");
    second.close().await;
}

#[tokio::test]
async fn words_without_an_objection_keep_a_turn_going_too_and_a_failing_hook_does_not() {
    let program = HookProgram::default().with_callback("h", |nth, _| match nth {
        0 => CallbackReaction::Say(context_output("Stop", "one more thing")),
        _ => CallbackReaction::Fail("broken"),
    });
    let hooks = vec![DriverHook { blocks_on_failure: Some(true), ..hook("Stop", &["h"]) }];
    let (mut bench, _) = bench(BenchSetup::default(), program, hooks, text_replies(&["1", "2"]));
    let report = bench.run("go").await;
    assert!(matches!(report.end, TurnEnd::Completed));
    assert!(model_texts(&bench, 1)[0].contains("one more thing"));
    bench.close().await;
}

#[tokio::test]
async fn a_hook_can_end_a_turn_for_good_whatever_others_want() {
    let program = HookProgram::default()
        .with_answer("go on", json!({"decision": "block", "reason": "not yet"}))
        .with_answer("stop", json!({"continue": false}));
    let hooks = vec![hook("Stop", &["go on", "stop"])];
    let (mut bench, _) = bench(BenchSetup::default(), program, hooks, text_replies(&["1"]));
    let report = bench.run("go").await;
    assert!(matches!(report.end, TurnEnd::StopHookPrevented), "{:?}", report.end);
    assert_eq!(report.text, "1");
    bench.close().await;
}

#[tokio::test]
async fn an_interrupt_while_hooks_look_at_the_end_aborts_the_turn() {
    let program = HookProgram::default().with_callback("h", |_, _| CallbackReaction::Hang);
    let (mut bench, program) = bench(BenchSetup::default(), program, vec![hook("Stop", &["h"])], text_replies(&["1"]));
    bench.say("go");
    let turn = bench.turn(|event, handle| {
        if matches!(event.body, EventBody::Hook(_)) {
            handle.send(Op::interrupt());
        }
    });
    // Far less than the hook's own time.
    let report = tokio::time::timeout(Duration::from_secs(20), turn).await.expect("the turn ends at once");
    assert!(matches!(report.end, TurnEnd::Aborted { in_tools: false }), "{:?}", report.end);
    assert_eq!(program.withdrawn_calls(), ["h"]);
    bench.close().await;
}

#[tokio::test]
async fn hooks_hear_of_a_turn_that_failed_instead_of_its_end() {
    let error = ModelError {
        kind: ModelErrorKind::RateLimit,
        status: Some(429),
        message: "slow down".into(),
        hint: None,
        request_id: None,
    };
    let program = HookProgram::default()
        .with_answer("f", json!({}))
        .with_answer("other", json!({}))
        .with_answer("stop", json!({}));
    let with = |matcher: &str, id: &str| DriverHook { matcher: Some(matcher.into()), ..hook("StopFailure", &[id]) };
    let hooks = vec![with("rate_limit|overloaded", "f"), with("server_error", "other"), hook("Stop", &["stop"])];
    let replies = vec![vec![started(), ModelEvent::Failed(error)]];
    let (mut bench, program) = bench(BenchSetup::default(), program, hooks, replies);
    bench.run("go").await;
    assert_eq!(program.called_ids(), ["f"]);
    assert_eq!(program.inputs("f")[0]["error"], "rate_limit");
    assert!(program.inputs("f")[0]["error_details"].as_str().unwrap().contains("slow down"));
    bench.close().await;
}

#[tokio::test]
async fn hooks_see_a_whole_batch_once_and_may_stop_there() {
    let calls = || {
        reply(&[call("a", "Look", json!({"name": "a"})), call("b", "Touch", json!({"name": "b", "manner": "fail"}))])
    };
    let program = HookProgram::default().with_callback("h", |nth, _| match nth {
        0 => CallbackReaction::Say(context_output("PostToolBatch", "both seen")),
        _ => CallbackReaction::Say(json!({"decision": "block", "reason": "that will do"})),
    });
    let second = reply(&[call("c", "Look", json!({"name": "c"}))]);
    let (mut bench, program) =
        bench(BenchSetup::default(), program, vec![hook("PostToolBatch", &["h"])], vec![calls(), second]);
    let (end, notices) = notices_of(&mut bench).await;
    assert!(matches!(end, TurnEnd::HookStopped), "{end:?}");
    assert!(notices.contains("that will do"));
    let batch = program.inputs("h")[0]["tool_calls"].clone();
    assert_eq!(
        batch[0],
        json!({"tool_name": "Look", "tool_input": {"name": "a", "ms": 0, "manner": ""}, "tool_use_id": "a",
               "tool_response": "a done"})
    );
    assert_eq!(batch[1]["tool_response"], "b failed");
    assert!(model_texts(&bench, 1)[0].contains("both seen"));
    bench.close().await;
}

#[tokio::test]
async fn of_a_batch_hooks_hear_what_was_called_in_the_end() {
    let rewrites = json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"name": "hooked"}}});
    let denies = permission_output("deny", "no");
    let program = HookProgram::default().with_answer("h", json!({})).with_callback("p", move |_, input| {
        CallbackReaction::Say(if input["tool_use_id"] == "a" { rewrites.clone() } else { denies.clone() })
    });
    let hooks = vec![hook("PreToolUse", &["p"]), hook("PostToolBatch", &["h"])];
    let name = |name: &str| json!({"name": name});
    let calls = [call("a", "Touch", name("a")), call("b", "Touch", name("b")), call("c", "Nothing", name("c"))];
    let (mut bench, program) =
        bench(BenchSetup::default(), program, hooks, vec![reply(&calls), reply(&[Block::text("done")])]);
    bench.run("go").await;
    let batch = program.inputs("h")[0]["tool_calls"].clone();
    let inputs = [0, 1, 2].map(|at: usize| batch[at]["tool_input"].clone());
    let whole = |name: &str| json!({"name": name, "ms": 0, "manner": ""});
    assert_eq!(inputs, [whole("hooked"), whole("b"), name("c")]);
    bench.close().await;
}

#[tokio::test]
async fn hooks_hear_of_the_end_of_a_session_and_cannot_hold_it_up() {
    let program =
        HookProgram::default().with_answer("h", json!({})).with_callback("slow", |_, _| CallbackReaction::Hang);
    let hooks = vec![
        hook("SessionEnd", &["h"]),
        DriverHook { timeout: Some(Duration::from_millis(10)), ..hook("SessionEnd", &["slow"]) },
    ];
    let (mut bench, program) = bench(BenchSetup::default(), program, hooks, text_replies(&["1"]));
    bench.run("go").await;
    bench.close().await;
    assert_eq!(program.inputs("h")[0]["reason"], "other");
    assert_eq!(program.withdrawn_calls(), ["slow"]);
}

#[tokio::test]
async fn the_end_of_a_conversation_that_makes_room_for_a_new_one_says_so() {
    let program = HookProgram::default().with_answer("h", json!({}));
    let (bench, program) = bench(BenchSetup::default(), program, vec![hook("SessionEnd", &["h"])], Vec::new());
    bench.handle.send(Op::Clear);
    bench.close().await;
    assert_eq!(program.inputs("h")[0]["reason"], "clear");
}

#[tokio::test]
async fn a_call_can_be_left_for_later_and_is_decided_on_when_somebody_speaks_again() {
    let program = HookProgram::default().with_callback("h", |nth, _| match nth {
        0 => CallbackReaction::Say(permission_output("defer", "")),
        _ => CallbackReaction::Say(json!({})),
    });
    let replies = vec![reply(&[call("a", "Touch", json!({"name": "a"}))]), reply(&[Block::text("done")])];
    let (mut bench, _) = bench(BenchSetup::default(), program, vec![hook("PreToolUse", &["h"])], replies);
    let report = bench.run("go").await;
    let TurnEnd::Deferred { call, tool, input } = report.end else { panic!("{:?}", report.end) };
    assert_eq!((call.as_str(), tool.as_str(), input.get()), ("a", "Touch", r#"{"name":"a"}"#));
    assert_eq!(bench.lines(), Vec::<String>::new());
    let report = bench.run("go on").await;
    assert!(matches!(report.end, TurnEnd::Completed), "{:?}", report.end);
    assert_eq!(bench.results(1), [("a".to_owned(), false, "a done".to_owned())]);
    assert!(model_texts(&bench, 1).contains(&"go on".to_owned()));
    bench.close().await;
}

#[tokio::test]
async fn what_is_only_to_be_known_does_not_come_between_a_call_that_waits_and_its_result() {
    let program = HookProgram::default().with_callback("h", |nth, _| match nth {
        0 => CallbackReaction::Say(permission_output("defer", "")),
        _ => CallbackReaction::Say(json!({})),
    });
    let replies = vec![reply(&[call("a", "Touch", json!({"name": "a"}))]), reply(&[Block::text("done")])];
    let (mut bench, _) = bench(BenchSetup::default(), program, vec![hook("PreToolUse", &["h"])], replies);
    bench.run("go").await;
    bench.handle.send(Op::Submit(SubmittedPrompt { silent: true, ..SubmittedPrompt::from_text("by the way") }));
    bench.run("go on").await;
    let last = bench.model.requests().pop().unwrap().messages.last().unwrap().clone();
    assert!(last.blocks[0].as_tool_result().is_some(), "{last:?}");
    assert_eq!(all_texts(&last), ["by the way", "go on"]);
    bench.close().await;
}

#[tokio::test]
async fn a_call_that_was_left_for_later_runs_when_the_session_is_resumed() {
    let setup = || BenchSetup { saved: true, ..BenchSetup::default() };
    let defers = || HookProgram::default().with_answer("h", permission_output("defer", ""));
    let hooks = || vec![hook("PreToolUse", &["h"])];
    let touch = reply(&[call("a", "Touch", json!({"name": "a"}))]);
    let (mut first, _) = bench(setup(), defers(), hooks(), vec![touch]);
    assert!(matches!(first.run("go").await.end, TurnEnd::Deferred { .. }));
    let session = first.handle.id.clone();
    let dir = first.close().await;

    // Hooks look again, and may leave it once more.
    let with_hooks = |program: HookProgram| BenchSetup {
        driver: Some(Arc::new(SharedProgram(Arc::new(program)))),
        hooks: hooks(),
        ..setup()
    };
    let mut again = SessionBench::open(dir, session.clone(), with_hooks(defers()), Vec::new());
    assert!(matches!(again.run("now?").await.end, TurnEnd::Deferred { .. }));
    let dir = again.close().await;

    let allows = HookProgram::default().with_answer("h", json!({}));
    let done = vec![reply(&[Block::text("done")])];
    let mut last = SessionBench::open(dir, session.clone(), with_hooks(allows), done);
    let report = last.run("go on").await;
    assert!(matches!(report.end, TurnEnd::Completed), "{:?}", report.end);
    assert_eq!(last.results(0), [("a".to_owned(), false, "a done".to_owned())]);
    assert!(model_texts(&last, 0).contains(&"go on".to_owned()));
    let dir = last.close().await;

    let mut after = SessionBench::open(dir, session, setup(), vec![reply(&[Block::text("ok")])]);
    assert!(matches!(after.run("and?").await.end, TurnEnd::Completed), "it ran once");
    assert_eq!(after.lines().len(), 3, "{:?}", after.lines());
    after.close().await;
}

#[tokio::test]
async fn a_call_that_was_left_for_later_does_not_run_again_when_its_run_was_cut_off() {
    let setup = || BenchSetup { saved: true, ..BenchSetup::default() };
    let program = HookProgram::default().with_answer("h", permission_output("defer", ""));
    let touch = reply(&[call("a", "Touch", json!({"name": "a", "manner": "hang"}))]);
    let (mut first, _) = bench(setup(), program, vec![hook("PreToolUse", &["h"])], vec![touch]);
    assert!(matches!(first.run("go").await.end, TurnEnd::Deferred { .. }));
    let session = first.handle.id.clone();
    let dir = first.close().await;

    let cut_off = SessionBench::open(dir, session.clone(), setup(), Vec::new());
    cut_off.say("go on");
    cut_off.log.gate.notified().await;
    let dir = cut_off.crash().await;

    let mut last = SessionBench::open(dir, session, setup(), text_replies(&["done"]));
    assert!(matches!(last.run("and?").await.end, TurnEnd::Completed));
    let begun = last.lines().into_iter().filter(|line| line == "touch a begins").count();
    assert_eq!(begun, 1, "{:?}", last.lines());
    let sent = last.model.requests().remove(0);
    let told = sent.messages.iter().flat_map(|message| &message.blocks).find(|block| block.as_tool_result().is_some());
    assert!(told.unwrap().json().contains("It may have run"), "{told:?}");
    last.close().await;
}

#[tokio::test]
async fn a_call_whose_tool_is_gone_when_it_should_run_ends_the_turn_with_an_error() {
    let program = HookProgram::default().with_answer("h", permission_output("defer", ""));
    let quiz = reply(&[call("a", "mcp__x__y", json!({}))]);
    let setup = BenchSetup {
        saved: true,
        guests: Some(Arc::new(FixedToolSource(vec![("mcp__x__y", "y")]))),
        ..BenchSetup::default()
    };
    let (mut first, _) = bench(setup, program, vec![hook("PreToolUse", &["h"])], vec![quiz]);
    assert!(matches!(first.run("go").await.end, TurnEnd::Deferred { .. }));
    let session = first.handle.id.clone();
    let dir = first.close().await;
    let setup = BenchSetup { saved: true, ..BenchSetup::default() };
    let mut last = SessionBench::open(dir, session, setup, vec![reply(&[Block::text("done")])]);
    let report = last.run("go on").await;
    assert!(matches!(&report.end, TurnEnd::DeferredUnavailable { tool } if tool == "mcp__x__y"), "{:?}", report.end);
    assert!(matches!(last.run("what now?").await.end, TurnEnd::Completed), "the history is whole");
    last.close().await;
}

#[tokio::test]
async fn leaving_for_later_needs_a_lone_call_and_nobody_to_ask() {
    let two = || reply(&[call("a", "Touch", json!({"name": "a"})), call("b", "Touch", json!({"name": "b"}))]);
    let one = || reply(&[call("a", "Touch", json!({"name": "a"}))]);
    for (attended, calls) in [(false, two()), (true, one())] {
        let program = HookProgram::default().with_answer("h", permission_output("defer", ""));
        let setup = BenchSetup { attended, ..BenchSetup::default() };
        let replies = vec![calls, reply(&[Block::text("done")])];
        let (mut bench, _) = bench(setup, program, vec![hook("PreToolUse", &["h"])], replies);
        let (end, notices) = notices_of(&mut bench).await;
        assert!(matches!(end, TurnEnd::Completed), "{end:?}");
        assert!(notices.contains("decided on as usual"), "{notices}");
        assert_eq!(bench.results(1)[0].2, "a done");
        bench.close().await;
    }
}

#[tokio::test]
async fn a_reply_that_is_cut_does_not_call_hooks_at_the_end_until_it_is_whole() {
    let mut cut = vec![started()];
    cut.push(ModelEvent::BlockDone { index: 0, block: Block::text("half"), bad_input: None });
    cut.push(ended(StopReason::MaxTokens));
    let program = HookProgram::default().with_answer("h", json!({}));
    let (mut bench, program) = bench(
        BenchSetup::default(),
        program,
        vec![hook("Stop", &["h"])],
        vec![cut, reply(&[Block::text(" and half")])],
    );
    bench.run("go").await;
    let inputs = program.inputs("h");
    assert_eq!(inputs.len(), 1);
    assert_eq!(inputs[0]["last_assistant_message"], "half and half");
    bench.close().await;
}

#[tokio::test]
async fn a_subagents_hooks_carry_its_name_and_its_beginning_and_end_have_events_of_their_own() {
    let program = HookProgram::default()
        .with_answer("start", context_output("SubagentStart", "be brief"))
        .with_callback("stop", |nth, _| match nth {
            0 => CallbackReaction::Say(json!({"decision": "block", "reason": "look again"})),
            _ => CallbackReaction::Say(json!({})),
        })
        .with_answer("call", json!({}))
        .with_answer("never", json!({}));
    let hooks = vec![
        hook("SubagentStart", &["start"]),
        hook("SubagentStop", &["stop"]),
        DriverHook { matcher: Some("Look".into()), ..hook("PreToolUse", &["call"]) },
        DriverHook { matcher: Some("no such kind".into()), ..hook("SubagentStart", &["never"]) },
    ];
    let look = reply(&[call("x", "Look", json!({"name": "x"}))]);
    let tasks = vec![("count", vec![look, reply(&[Block::text("two")]), reply(&[Block::text("three")])])];
    let replies = vec![reply(&[call("t", "Agent", json!({"task": "count"}))]), reply(&[Block::text("done")])];
    let setup = BenchSetup { tasks, saved: true, ..BenchSetup::default() };
    let (mut bench, program) = bench(setup, program, hooks, replies);
    bench.run("go").await;
    assert_eq!(program.called_ids(), ["start", "call", "stop", "stop"]);
    let start = &program.inputs("start")[0];
    let (id, kind) = (start["agent_id"].clone(), start["agent_type"].clone());
    assert!(id.is_string() && kind.is_string(), "{start}");
    for input in ["call", "stop"].iter().flat_map(|callback| program.inputs(callback)) {
        assert_eq!((&input["agent_id"], &input["agent_type"]), (&id, &kind));
        assert_eq!(input["prompt_id"], program.inputs("start")[0]["prompt_id"], "the person's prompt, not the task");
    }
    let stop = &program.inputs("stop")[1];
    assert_eq!(stop["background_tasks"], json!([]), "the agent itself is waited for");
    assert_eq!((&stop["last_assistant_message"], &stop["stop_hook_active"]), (&json!("three"), &json!(true)));
    assert!(std::path::Path::new(stop["agent_transcript_path"].as_str().unwrap()).exists(), "{stop}");
    let task = model_texts(&bench, 1);
    assert!(task.last().unwrap().contains("be brief"), "{task:?}");
    assert!(model_texts(&bench, 3)[0].contains("look again"));
    bench.close().await;
}

#[tokio::test]
async fn a_hook_that_says_stop_at_the_beginning_is_heeded() {
    let stop = json!({"continue": false, "stopReason": "not today"});
    let program = HookProgram::default().with_answer("h", stop.clone());
    let (mut first, _) =
        bench(BenchSetup::default(), program, vec![hook("SessionStart", &["h"])], text_replies(&["done"]));
    let (end, notices) = notices_of(&mut first).await;
    assert!(matches!(end, TurnEnd::HookStopped) && notices.contains("not today"), "{end:?}: {notices}");
    assert_eq!(first.model.requests().len(), 0);
    assert!(matches!(first.run("then this").await.end, TurnEnd::Completed), "a session starts once");
    first.close().await;

    let program = HookProgram::default().with_answer("h", stop.clone());
    let tasks = vec![("count", Vec::new())];
    let replies = vec![reply(&[call("t", "Agent", json!({"task": "count"}))]), reply(&[Block::text("done")])];
    let setup = BenchSetup { tasks, ..BenchSetup::default() };
    let (mut second, _) = bench(setup, program, vec![hook("SubagentStart", &["h"])], replies);
    assert!(matches!(second.run("go").await.end, TurnEnd::Completed), "only the agent is stopped");
    let (_, _, text) = second.results(1)[0].clone();
    assert!(text.contains("a hook stopped it"), "{text}");
    second.close().await;

    // What only looks on stops nothing, and nothing says that it did.
    let program = HookProgram::default().with_answer("h", stop);
    let failure = ModelError {
        kind: ModelErrorKind::InvalidRequest,
        status: None,
        message: "no".into(),
        hint: None,
        request_id: None,
    };
    let failed = vec![vec![ModelEvent::Failed(failure)]];
    let (mut third, program) = bench(BenchSetup::default(), program, vec![hook("StopFailure", &["h"])], failed);
    let (end, notices) = notices_of(&mut third).await;
    assert!(!matches!(end, TurnEnd::HookStopped) && !notices.contains("stopped by the hook"), "{end:?}: {notices}");
    assert_eq!(program.inputs("h").len(), 1);
    third.close().await;
}

#[tokio::test]
async fn the_first_prompt_stands_near_the_beginning_however_much_hooks_say_before_it() {
    let ids: Vec<String> = (0..9).map(|n| format!("h{n}")).collect();
    let mut program = HookProgram::default();
    for id in &ids {
        program = program.with_answer(id, context_output("SessionStart", &format!("{id} {}", "\u{e9}".repeat(9_000))));
    }
    let names: Vec<&str> = ids.iter().map(String::as_str).collect();
    let setup = BenchSetup { saved: true, ..BenchSetup::default() };
    let (mut bench, _) = bench(setup, program, vec![hook("SessionStart", &names)], text_replies(&["done"]));
    bench.run("the first prompt").await;
    let texts = model_texts(&bench, 0);
    assert!(texts.iter().any(|text| text.contains("SessionStart:startup says:\nh0 ")), "{texts:?}");
    let rest = texts.iter().find(|text| text.contains("more than fits here")).unwrap();
    let path = rest.lines().find_map(|line| line.split_once("saved to ")).unwrap().1;
    let spilled = std::fs::read_to_string(path).unwrap();
    assert!(spilled.contains("h8 ") && !spilled.contains("h0 "));
    let files = bench.files.clone();
    let _dir = bench.close().await;
    let transcript = std::fs::read_to_string(files.transcript()).unwrap();
    let place = transcript.find("the first prompt").unwrap();
    assert!(place < 48 << 10, "{place}");
}
