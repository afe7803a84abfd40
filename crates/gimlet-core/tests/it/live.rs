//! Settings under a running session: trust before anything else, changes before the next call, and what is allowed for
//! good.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use gimlet_core::{ChangedSettings, LiveSettings, SandboxNow, SettingsNow, SettingsSource};
use gimlet_policy::{Behavior, PermissionUpdate, RuleScope, RuleSet, RuleSource};
use gimlet_proto::{Answer, Approval, AskBody, Block, Body, Op, PermissionMode, Reply, TrustItem, TrustQuestion};
use serde_json::json;
use serde_json::value::RawValue;

use crate::bench::{Bench, Setup, call, reply};
use crate::driver::{Program, hook};
use crate::hooked_calls;

/// The file that changes.
const FILE: &str = "/repo/.claude/settings.json";

/// Settings whose next state a test decides.
#[derive(Clone, Default)]
struct Fake {
    /// What each look finds, one after the other.
    looks: Arc<Mutex<VecDeque<Option<SettingsNow>>>>,
    found: Arc<Mutex<Option<SettingsNow>>>,
    /// Whose settings they are, and which files were held back.
    source: Option<SettingsSource>,
    held: Arc<Mutex<Vec<PathBuf>>>,
    waits: bool,
    accepted: Arc<Mutex<bool>>,
    kept: Arc<Mutex<Vec<PermissionUpdate>>>,
}

fn now(behavior: Behavior, rule: &str) -> SettingsNow {
    let mut rules = RuleSet::default();
    rules.add(behavior, rule, &RuleSource::new(RuleScope::Project, "/")).unwrap();
    SettingsNow { rules, ..SettingsNow::default() }
}

impl LiveSettings for Fake {
    fn changed(&mut self) -> Vec<ChangedSettings> {
        let Some(found) = self.looks.lock().unwrap().pop_front().flatten() else { return Vec::new() };
        *self.found.lock().unwrap() = Some(found);
        let source = self.source.unwrap_or(SettingsSource::User);
        vec![ChangedSettings { file: FILE.into(), source }]
    }

    fn take_up(&mut self, held: &[PathBuf]) -> SettingsNow {
        self.held.lock().unwrap().extend_from_slice(held);
        let found = self.found.lock().unwrap().take().unwrap();
        if held.is_empty() { found } else { SettingsNow::default() }
    }

    fn take_up_callers(&mut self) -> Option<SettingsNow> {
        None
    }

    fn trust_question(&mut self) -> Option<TrustQuestion> {
        let item = TrustItem {
            title: "hook PreToolUse *".into(),
            file: "/repo/.claude/settings.json".into(),
            line: Some(3),
            shown: "rm -rf".into(),
            is_new: true,
        };
        self.waits.then(|| TrustQuestion { folder: "/repo".into(), items: vec![item] })
    }

    fn accept_trust(&mut self) -> SettingsNow {
        *self.accepted.lock().unwrap() = true;
        now(Behavior::Allow, "Touch")
    }

    fn said_in_session(&mut self, _: &RuleSet) -> (SandboxNow, Vec<String>) {
        (SandboxNow::Same, Vec::new())
    }

    fn keep(&mut self, update: &PermissionUpdate) -> Result<(), String> {
        self.kept.lock().unwrap().push(update.clone());
        Ok(())
    }
}

fn bench(fake: &Fake, calls: usize) -> Bench {
    let touch = |n: usize| reply(&[call(&format!("c{n}"), "Touch", json!({"name": format!("n{n}")}))]);
    let replies = (0..calls).map(touch).chain([reply(&[Block::text("done")])]).collect();
    let live: Option<Box<dyn LiveSettings>> = Some(Box::new(fake.clone()));
    Bench::new(Setup { mode: PermissionMode::Default, attended: true, live, ..Setup::default() }, replies)
}

#[tokio::test]
async fn nothing_is_sent_before_the_question_of_trust_is_answered_and_yes_takes_effect_at_once() {
    let fake = Fake { waits: true, ..Fake::default() };
    let mut bench = bench(&fake, 1);
    bench.say("go");
    let mut asked = Vec::new();
    let model = bench.model.clone();
    bench
        .turn(|event, handle| {
            let Body::Ask(ask) = &event.body else { return };
            let AskBody::Trust(question) = &ask.body else { panic!("{:?}", ask.body) };
            assert_eq!(model.requests().len(), 0, "the model must not be asked before the person was");
            asked.push(question.items[0].title.clone());
            handle.send(Op::Answer { ask: ask.id, answer: Answer::yes() });
        })
        .await;
    assert_eq!(asked, ["hook PreToolUse *"]);
    assert!(*fake.accepted.lock().unwrap());
    assert_eq!(bench.results(1)[0].2, "n0 done", "the rule that waited for trust lets the call pass");
    bench.close().await;
}

#[tokio::test]
async fn a_no_or_silence_trusts_nothing_and_the_session_goes_on_without() {
    for answer in [Some(Answer::No { message: String::new(), interrupt: false }), None] {
        let fake = Fake { waits: true, ..Fake::default() };
        let mut bench = bench(&fake, 0);
        bench.say("go");
        bench
            .turn(|event, handle| {
                let Body::Ask(ask) = &event.body else { return };
                match answer.clone() {
                    Some(answer) => handle.send(Op::Answer { ask: ask.id, answer }),
                    None => handle.send(Op::interrupt()),
                };
            })
            .await;
        assert!(!*fake.accepted.lock().unwrap());
        assert_eq!(bench.model.requests().len(), 1);
        bench.close().await;
    }
}

#[tokio::test]
async fn rules_that_change_between_two_calls_decide_on_the_second() {
    let fake = Fake::default();
    // A look before each request and one before its calls.
    let looks = [Some(now(Behavior::Allow, "Touch")), None, None, Some(now(Behavior::Deny, "Touch"))];
    *fake.looks.lock().unwrap() = looks.into();
    let mut bench = bench(&fake, 2);
    bench.run("go").await;
    assert_eq!(bench.lines(), ["touch n0 begins", "touch n0 ends", "change n0"]);
    assert!(bench.results(2)[0].2.contains("rule"), "{:?}", bench.results(2));
    bench.close().await;
}

#[tokio::test]
async fn a_mode_that_settings_take_away_ends_before_the_next_call() {
    let bypass = PermissionMode::BypassPermissions;
    let fake = Fake::default();
    let disabled = SettingsNow { disabled_modes: vec![bypass], ..SettingsNow::default() };
    *fake.looks.lock().unwrap() = [None, None, None, Some(disabled)].into();
    let touch = |n: usize| reply(&[call(&format!("c{n}"), "Touch", json!({"name": format!("n{n}")}))]);
    let replies = vec![touch(0), touch(1), reply(&[Block::text("done")])];
    let live: Option<Box<dyn LiveSettings>> = Some(Box::new(fake.clone()));
    let mut bench = Bench::new(Setup { mode: bypass, live, ..Setup::default() }, replies);
    bench.say("go");
    let mut told = Vec::new();
    bench
        .turn(|event, handle| match &event.body {
            Body::ModeChanged(mode) => {
                told.push(mode.to_string());
                // There is no way back to it either.
                handle.send(Op::SetMode { mode: bypass, reply: Reply::nobody() });
            }
            Body::Notice(notice) if notice.text.contains("disable") => told.push(notice.text.clone()),
            _ => {}
        })
        .await;
    assert_eq!(told, ["settings disable the mode bypassPermissions now; the session goes on in default", "default"]);
    assert_eq!(bench.lines(), ["touch n0 begins", "touch n0 ends", "change n0"]);
    bench.close().await;
}

#[tokio::test]
async fn what_is_allowed_for_good_is_offered_applied_and_kept() {
    let fake = Fake::default();
    let mut bench = bench(&fake, 2);
    bench.say("go");
    let mut asked = 0;
    bench
        .turn(|event, handle| {
            let Body::Ask(ask) = &event.body else { return };
            asked += 1;
            let update = r#"{"type":"addRules","rules":[{"toolName":"Touch"}],"behavior":"allow","destination":"localSettings"}"#;
            let update = Arc::from(RawValue::from_string(update.into()).unwrap());
            handle.send(Op::Answer { ask: ask.id, answer: Answer::Yes(Approval { input: None, changes: vec![update] }) });
        })
        .await;
    assert_eq!(asked, 1, "the second call needs no question");
    assert_eq!(fake.kept.lock().unwrap().len(), 1);
    assert_eq!(bench.results(2)[0].2, "n1 done");
    bench.close().await;
}

#[tokio::test]
async fn a_hook_can_stop_a_change_of_settings_but_not_the_administrators() {
    let block = json!({"decision": "block", "reason": "not during a release"});
    // Whose settings change, what the hook says, whether the new rule then decides.
    let cases = [
        (SettingsSource::User, json!({}), true),
        (SettingsSource::User, block.clone(), false),
        (SettingsSource::Project, block.clone(), false),
        (SettingsSource::Policy, block.clone(), true),
        (SettingsSource::Caller, block, true),
    ];
    for (source, says, taken_up) in cases {
        let fake = Fake { source: Some(source), ..Fake::default() };
        *fake.looks.lock().unwrap() = [Some(now(Behavior::Deny, "Touch"))].into();
        let program = Program::default().says("h", says.clone());
        let setup = Setup { live: Some(Box::new(fake.clone())), ..Setup::default() };
        let replies = vec![reply(&[call("c0", "Touch", json!({"name": "n0"}))]), reply(&[Block::text("done")])];
        let (mut bench, program) = hooked_calls::bench(setup, program, vec![hook("ConfigChange", &["h"])], replies);
        bench.run("go").await;
        assert_eq!(bench.lines().is_empty(), taken_up, "{source:?} {says}");
        assert_eq!(fake.held.lock().unwrap().len(), usize::from(!taken_up), "{source:?} {says}");
        let told = program.inputs("h");
        if source == SettingsSource::Caller {
            assert_eq!(told.len(), 0, "the caller knows what it did");
        } else {
            assert_eq!((told.len(), &told[0]["file_path"]), (1, &json!(FILE)));
            assert!(told[0]["source"].as_str().unwrap().ends_with("_settings"), "{}", told[0]);
        }
        bench.close().await;
    }
}
