//! Questions that nobody has to answer any more, because mode or rules changed while they were open.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gimlet_core::{ChangedSettings, EffectivePermissions, SandboxUpdate, SettingsOrigin, SettingsSource};
use gimlet_policy::{Behavior, PermissionUpdate, RuleScope, RuleSet, RuleSource};
use gimlet_proto::{
    Approval, AskAnswer, AskId, Block, EventBody, Op, OpReply, PermissionMode, SessionQuery, ToolCallPhase,
    TrustQuestion,
};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::task::JoinSet;

use crate::hook_program::{CallbackReaction, HookProgram, hook};
use crate::hooks_on_calls;
use crate::session_bench::{BenchSetup, SessionBench, call, reply};

fn replies() -> Vec<Vec<gimlet_proto::ModelEvent>> {
    vec![reply(&[call("a", "Touch", json!({"name": "a"}))]), reply(&[Block::text("done")])]
}

fn asking() -> BenchSetup {
    BenchSetup { mode: PermissionMode::Default, attended: true, ..BenchSetup::default() }
}

fn no() -> AskAnswer {
    AskAnswer::No { message: "not that".into(), interrupt: false }
}

#[tokio::test]
async fn a_new_mode_answers_an_open_question_if_it_can() {
    // The mode, what the result then says, whether the question is still there to be answered.
    let cases = [
        (PermissionMode::AcceptEdits, "a done", false),
        (PermissionMode::Plan, "plan", false),
        (PermissionMode::DontAsk, "not run", false),
        (PermissionMode::Default, "not that", true),
        // This session cannot have it.
        (PermissionMode::BypassPermissions, "not that", true),
    ];
    for (mode, words, stays) in cases {
        let mut bench = SessionBench::new(asking(), replies());
        bench.say("go");
        let (mut open, mut closed): (Option<AskId>, Vec<AskId>) = (None, Vec::new());
        let report = bench
            .turn(|event, handle| match &event.body {
                EventBody::Ask(ask) => {
                    open = Some(ask.id);
                    handle.send(Op::SetMode { mode, reply: OpReply::ignored() });
                    if stays {
                        handle.send(Op::Answer { ask: ask.id, answer: no() });
                    }
                }
                EventBody::AskClosed(id) => closed.push(*id),
                // It crosses the withdrawal and changes nothing.
                EventBody::ToolFinished(_) if !stays => {
                    handle.send(Op::Answer { ask: open.unwrap(), answer: no() });
                }
                _ => {}
            })
            .await;
        let text = bench.results(1)[0].2.clone();
        assert!(text.contains(words), "{mode}: {text}");
        assert_eq!(closed, [open.unwrap()], "{mode}: a question is closed once");
        assert_eq!(report.denials.len(), usize::from(words != "a done"), "{mode}");
        bench.close().await;
    }
}

#[tokio::test]
async fn a_rule_that_one_answer_brings_answers_the_questions_beside_it() {
    let touch = |id: &str| vec![reply(&[call(id, "Touch", json!({"name": id}))]), reply(&[Block::text("did it")])];
    let tasks = vec![("one", touch("x")), ("two", touch("y"))];
    let send = |id: &str, task: &str| call(id, "Agent", json!({"task": task}));
    for (behavior, lines) in [("allow", 2), ("deny", 0)] {
        let script = vec![reply(&[send("t1", "one"), send("t2", "two")]), reply(&[Block::text("done")])];
        let mut bench = SessionBench::new(BenchSetup { tasks: tasks.clone(), ..asking() }, script);
        bench.say("go");
        let (mut open, mut closed) = (Vec::new(), 0);
        bench
            .turn(|event, handle| match &event.body {
                EventBody::Ask(ask) => {
                    open.push(ask.id);
                    if let [first, _] = open[..] {
                        let update = json!({"type": "addRules", "rules": [{"toolName": "Touch"}],
                            "behavior": behavior, "destination": "session"});
                        let update = Arc::from(RawValue::from_string(update.to_string()).unwrap());
                        let answer = AskAnswer::Yes(Approval { input: None, changes: vec![update] });
                        handle.send(Op::Answer { ask: first, answer });
                    }
                }
                EventBody::AskClosed(_) => closed += 1,
                _ => {}
            })
            .await;
        assert_eq!((open.len(), closed), (2, 2), "{behavior}");
        let ran = bench.lines().iter().filter(|line| line.ends_with("ends")).count();
        assert_eq!(ran, lines, "{behavior}: {:?}", bench.lines());
        bench.close().await;
    }
}

/// Settings that change once somebody has been asked.
#[derive(Clone, Default)]
struct DelayedSettings(Arc<Mutex<VecDeque<EffectivePermissions>>>);

impl SettingsSource for DelayedSettings {
    fn poll_changes(&mut self) -> Vec<ChangedSettings> {
        if self.0.lock().unwrap().is_empty() {
            return Vec::new();
        }
        vec![ChangedSettings { file: "/home/ada/.claude/settings.json".into(), source: SettingsOrigin::User }]
    }

    fn reload_settings(&mut self, _: &[PathBuf]) -> EffectivePermissions {
        self.0.lock().unwrap().pop_front().unwrap()
    }

    fn reload_caller_settings(&mut self) -> Option<EffectivePermissions> {
        None
    }

    fn trust_question(&mut self) -> Option<TrustQuestion> {
        None
    }

    fn accept_trust(&mut self) -> EffectivePermissions {
        EffectivePermissions::default()
    }

    fn apply_session_rules(&mut self, _: &RuleSet) -> (SandboxUpdate, Vec<String>) {
        (SandboxUpdate::Unchanged, Vec::new())
    }

    fn save_update(&mut self, _: &PermissionUpdate) -> Result<(), String> {
        Ok(())
    }
}

#[tokio::test]
async fn settings_that_change_while_a_question_is_open_can_answer_it() {
    for (behavior, rule, words) in
        [(Behavior::Allow, "Touch", "a done"), (Behavior::Deny, "Touch", "rule"), (Behavior::Allow, "Look", "not that")]
    {
        let later = DelayedSettings::default();
        let live: Option<Box<dyn SettingsSource>> = Some(Box::new(later.clone()));
        let mut bench = SessionBench::new(BenchSetup { live, ..asking() }, replies());
        bench.say("go");
        let mut closed = 0;
        bench
            .turn(|event, handle| match &event.body {
                EventBody::Ask(ask) => {
                    let mut rules = RuleSet::default();
                    rules.add(behavior, rule, &RuleSource::new(RuleScope::User, "/")).unwrap();
                    let remarks = vec!["changed".to_owned()];
                    later.0.lock().unwrap().push_back(EffectivePermissions {
                        rules,
                        remarks,
                        ..EffectivePermissions::default()
                    });
                    if words == "not that" {
                        handle.send(Op::Answer { ask: ask.id, answer: no() });
                    }
                }
                EventBody::AskClosed(_) => closed += 1,
                _ => {}
            })
            .await;
        let text = bench.results(1)[0].2.clone();
        assert!(text.contains(words), "{rule}: {text}");
        assert_eq!(closed, 1, "{rule}");
        bench.close().await;
    }
}

fn permissions_with_rule(behavior: Behavior, rule: &str) -> EffectivePermissions {
    let mut rules = RuleSet::default();
    rules.add(behavior, rule, &RuleSource::new(RuleScope::User, "/")).unwrap();
    EffectivePermissions { rules, ..EffectivePermissions::default() }
}

#[tokio::test]
async fn a_yes_that_crosses_a_rule_which_refuses_the_call_is_none() {
    for (behavior, words) in [(Behavior::Deny, "rule"), (Behavior::Ask, "a done")] {
        let later = DelayedSettings::default();
        let live: Option<Box<dyn SettingsSource>> = Some(Box::new(later.clone()));
        let mut bench = SessionBench::new(BenchSetup { live, ..asking() }, replies());
        bench.say("go");
        let mut asked = 0;
        bench
            .turn(|event, handle| {
                let EventBody::Ask(ask) = &event.body else { return };
                asked += 1;
                if asked == 1 {
                    later.0.lock().unwrap().push_back(permissions_with_rule(behavior, "Touch"));
                }
                let update = json!({"type": "addRules", "rules": [{"toolName": "Look"}], "behavior": "deny",
                    "destination": "session"});
                let changes = vec![Arc::from(RawValue::from_string(update.to_string()).unwrap())];
                handle.send(Op::Answer { ask: ask.id, answer: AskAnswer::Yes(Approval { input: None, changes }) });
            })
            .await;
        let text = bench.results(1)[0].2.clone();
        assert!(text.contains(words), "{behavior:?}: {text}");
        let (reply, view) = OpReply::channel();
        bench.handle.send(Op::Query(SessionQuery::Permissions { reply }));
        let view = view.await.unwrap().unwrap();
        let came_along = view.rules.iter().any(|rule| rule.rule == "Look");
        assert_eq!(came_along, behavior == Behavior::Ask, "what comes with a yes goes with it");
        bench.close().await;
    }
}

/// A hook that looks at changed settings while a question is open must not keep the answer from being heard.
#[tokio::test]
async fn a_yes_that_comes_while_a_hook_looks_at_settings_is_heard() {
    let later = DelayedSettings::default();
    let live: Option<Box<dyn SettingsSource>> = Some(Box::new(later.clone()));
    let program = HookProgram::default().with_callback("h", |before, _| match before {
        0 => CallbackReaction::Hang,
        _ => CallbackReaction::Say(json!({})),
    });
    let hooks = vec![hook("ConfigChange", &["h"])];
    let (mut bench, program) = hooks_on_calls::bench(BenchSetup { live, ..asking() }, program, hooks, replies());
    bench.say("go");
    let (hanging, mut answering) = (program.hanging.clone(), JoinSet::new());
    let turn = bench.turn(|event, handle| {
        let EventBody::Ask(ask) = &event.body else { return };
        later.0.lock().unwrap().push_back(permissions_with_rule(Behavior::Allow, "Look"));
        let (hanging, handle, ask) = (hanging.clone(), handle.clone(), ask.id);
        answering.spawn(async move {
            hanging.notified().await;
            handle.send(Op::Answer { ask, answer: AskAnswer::yes() });
        });
    });
    tokio::time::timeout(Duration::from_secs(30), turn).await.expect("the answer is heard");
    assert_eq!(bench.results(1)[0].2, "a done");
    assert_eq!(
        (program.withdrawn_calls(), program.inputs("h").len()),
        (vec!["h".to_owned()], 2),
        "it is asked once more"
    );
    bench.close().await;
}

#[tokio::test]
async fn a_rule_that_comes_while_a_call_waits_for_its_turn_refuses_it() {
    // Those that change something wait for each other; readers do where too many are at once.
    for (tool, concurrency) in [("Touch", 10), ("Look", 1)] {
        let later = DelayedSettings::default();
        let live: Option<Box<dyn SettingsSource>> = Some(Box::new(later.clone()));
        let calls = [call("a", tool, json!({"name": "a", "manner": "wait"})), call("b", tool, json!({"name": "b"}))];
        let script = vec![reply(&calls), reply(&[Block::text("done")])];
        let mut bench =
            SessionBench::new(BenchSetup { live, concurrency, early: false, ..BenchSetup::default() }, script);
        bench.say("go");
        let log = bench.log.clone();
        bench
            .turn(|event, _| {
                let EventBody::Tool(view) = &event.body else { return };
                if matches!(view.phase, ToolCallPhase::Running) {
                    later.0.lock().unwrap().push_back(permissions_with_rule(Behavior::Deny, tool));
                    log.go.notify_one();
                }
            })
            .await;
        let results = bench.results(1);
        assert_eq!(results[0].2, "a went on", "{tool}");
        assert!(results[1].2.contains("rule"), "{tool}: {}", results[1].2);
        bench.close().await;
    }
}
