//! Settings under a running session: trust before anything else, changes before the next call, and what is allowed for
//! good.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use gimlet_core::{ChangedSettings, EffectivePermissions, SandboxUpdate, SettingsOrigin, SettingsSource};
use gimlet_policy::{Behavior, PermissionUpdate, RuleScope, RuleSet, RuleSource};
use gimlet_proto::{
    Approval, AskAnswer, AskBody, Block, EventBody, Op, OpReply, PermissionMode, TrustItem, TrustQuestion,
};
use serde_json::json;
use serde_json::value::RawValue;

use crate::hook_program::{HookProgram, hook};
use crate::hooks_on_calls;
use crate::session_bench::{BenchSetup, SessionBench, call, reply};

/// The file that changes.
const FILE: &str = "/repo/.claude/settings.json";

/// Settings whose next state a test decides.
#[derive(Clone, Default)]
struct FakeSettings {
    /// What each look finds, one after the other.
    looks: Arc<Mutex<VecDeque<Option<EffectivePermissions>>>>,
    found: Arc<Mutex<Option<EffectivePermissions>>>,
    /// Whose settings they are, and which files were held back.
    source: Option<SettingsOrigin>,
    held: Arc<Mutex<Vec<PathBuf>>>,
    waits: bool,
    accepted: Arc<Mutex<bool>>,
    kept: Arc<Mutex<Vec<PermissionUpdate>>>,
}

fn permissions_with_rule(behavior: Behavior, rule: &str) -> EffectivePermissions {
    let mut rules = RuleSet::default();
    rules.add(behavior, rule, &RuleSource::new(RuleScope::Project, "/")).unwrap();
    EffectivePermissions { rules, ..EffectivePermissions::default() }
}

impl SettingsSource for FakeSettings {
    fn poll_changes(&mut self) -> Vec<ChangedSettings> {
        let Some(found) = self.looks.lock().unwrap().pop_front().flatten() else { return Vec::new() };
        *self.found.lock().unwrap() = Some(found);
        let source = self.source.unwrap_or(SettingsOrigin::User);
        vec![ChangedSettings { file: FILE.into(), source }]
    }

    fn reload_settings(&mut self, held: &[PathBuf]) -> EffectivePermissions {
        self.held.lock().unwrap().extend_from_slice(held);
        let found = self.found.lock().unwrap().take().unwrap();
        if held.is_empty() { found } else { EffectivePermissions::default() }
    }

    fn reload_caller_settings(&mut self) -> Option<EffectivePermissions> {
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

    fn accept_trust(&mut self) -> EffectivePermissions {
        *self.accepted.lock().unwrap() = true;
        permissions_with_rule(Behavior::Allow, "Touch")
    }

    fn apply_session_rules(&mut self, _: &RuleSet) -> (SandboxUpdate, Vec<String>) {
        (SandboxUpdate::Unchanged, Vec::new())
    }

    fn save_update(&mut self, update: &PermissionUpdate) -> Result<(), String> {
        self.kept.lock().unwrap().push(update.clone());
        Ok(())
    }
}

fn bench(fake: &FakeSettings, calls: usize) -> SessionBench {
    let touch = |n: usize| reply(&[call(&format!("c{n}"), "Touch", json!({"name": format!("n{n}")}))]);
    let replies = (0..calls).map(touch).chain([reply(&[Block::text("done")])]).collect();
    let live: Option<Box<dyn SettingsSource>> = Some(Box::new(fake.clone()));
    SessionBench::new(
        BenchSetup { mode: PermissionMode::Default, attended: true, live, ..BenchSetup::default() },
        replies,
    )
}

#[tokio::test]
async fn nothing_is_sent_before_the_question_of_trust_is_answered_and_yes_takes_effect_at_once() {
    let fake = FakeSettings { waits: true, ..FakeSettings::default() };
    let mut bench = bench(&fake, 1);
    bench.say("go");
    let mut asked = Vec::new();
    let model = bench.model.clone();
    bench
        .turn(|event, handle| {
            let EventBody::Ask(ask) = &event.body else { return };
            let AskBody::Trust(question) = &ask.body else { panic!("{:?}", ask.body) };
            assert_eq!(model.requests().len(), 0, "the model must not be asked before the person was");
            asked.push(question.items[0].title.clone());
            handle.send(Op::Answer { ask: ask.id, answer: AskAnswer::yes() });
        })
        .await;
    assert_eq!(asked, ["hook PreToolUse *"]);
    assert!(*fake.accepted.lock().unwrap());
    assert_eq!(bench.results(1)[0].2, "n0 done", "the rule that waited for trust lets the call pass");
    bench.close().await;
}

#[tokio::test]
async fn a_no_or_silence_trusts_nothing_and_the_session_goes_on_without() {
    for answer in [Some(AskAnswer::No { message: String::new(), interrupt: false }), None] {
        let fake = FakeSettings { waits: true, ..FakeSettings::default() };
        let mut bench = bench(&fake, 0);
        bench.say("go");
        bench
            .turn(|event, handle| {
                let EventBody::Ask(ask) = &event.body else { return };
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
    let fake = FakeSettings::default();
    // A look before each request and one before its calls.
    let looks = [
        Some(permissions_with_rule(Behavior::Allow, "Touch")),
        None,
        None,
        Some(permissions_with_rule(Behavior::Deny, "Touch")),
    ];
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
    let fake = FakeSettings::default();
    let disabled = EffectivePermissions { disabled_modes: vec![bypass], ..EffectivePermissions::default() };
    *fake.looks.lock().unwrap() = [None, None, None, Some(disabled)].into();
    let touch = |n: usize| reply(&[call(&format!("c{n}"), "Touch", json!({"name": format!("n{n}")}))]);
    let replies = vec![touch(0), touch(1), reply(&[Block::text("done")])];
    let live: Option<Box<dyn SettingsSource>> = Some(Box::new(fake.clone()));
    let mut bench = SessionBench::new(BenchSetup { mode: bypass, live, ..BenchSetup::default() }, replies);
    bench.say("go");
    let mut told = Vec::new();
    bench
        .turn(|event, handle| match &event.body {
            EventBody::ModeChanged(mode) => {
                told.push(mode.to_string());
                // There is no way back to it either.
                handle.send(Op::SetMode { mode: bypass, reply: OpReply::ignored() });
            }
            EventBody::Notice(notice) if notice.text.contains("disable") => told.push(notice.text.clone()),
            _ => {}
        })
        .await;
    assert_eq!(told, ["settings disable the mode bypassPermissions now; the session goes on in default", "default"]);
    assert_eq!(bench.lines(), ["touch n0 begins", "touch n0 ends", "change n0"]);
    bench.close().await;
}

#[tokio::test]
async fn what_is_allowed_for_good_is_offered_applied_and_kept() {
    let fake = FakeSettings::default();
    let mut bench = bench(&fake, 2);
    bench.say("go");
    let mut asked = 0;
    bench
        .turn(|event, handle| {
            let EventBody::Ask(ask) = &event.body else { return };
            asked += 1;
            let update = r#"{"type":"addRules","rules":[{"toolName":"Touch"}],"behavior":"allow","destination":"localSettings"}"#;
            let update = Arc::from(RawValue::from_string(update.into()).unwrap());
            handle.send(Op::Answer { ask: ask.id, answer: AskAnswer::Yes(Approval { input: None, changes: vec![update] }) });
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
        (SettingsOrigin::User, json!({}), true),
        (SettingsOrigin::User, block.clone(), false),
        (SettingsOrigin::Project, block.clone(), false),
        (SettingsOrigin::Policy, block.clone(), true),
        (SettingsOrigin::Caller, block, true),
    ];
    for (source, says, taken_up) in cases {
        let fake = FakeSettings { source: Some(source), ..FakeSettings::default() };
        *fake.looks.lock().unwrap() = [Some(permissions_with_rule(Behavior::Deny, "Touch"))].into();
        let program = HookProgram::default().with_answer("h", says.clone());
        let setup = BenchSetup { live: Some(Box::new(fake.clone())), ..BenchSetup::default() };
        let replies = vec![reply(&[call("c0", "Touch", json!({"name": "n0"}))]), reply(&[Block::text("done")])];
        let (mut bench, program) = hooks_on_calls::bench(setup, program, vec![hook("ConfigChange", &["h"])], replies);
        bench.run("go").await;
        assert_eq!(bench.lines().is_empty(), taken_up, "{source:?} {says}");
        assert_eq!(fake.held.lock().unwrap().len(), usize::from(!taken_up), "{source:?} {says}");
        let told = program.inputs("h");
        if source == SettingsOrigin::Caller {
            assert_eq!(told.len(), 0, "the caller knows what it did");
        } else {
            assert_eq!((told.len(), &told[0]["file_path"]), (1, &json!(FILE)));
            assert!(told[0]["source"].as_str().unwrap().ends_with("_settings"), "{}", told[0]);
        }
        bench.close().await;
    }
}
