//! Hosts that a sandboxed command wants to reach and that are on no list: who is asked, what is remembered, and what is
//! written down. The commands are connections to the sandbox's proxy.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use gimlet_core::{ChangedSettings, EffectivePermissions, SandboxUpdate, SessionSandbox, SettingsSource};
use gimlet_exec::{ProxyConfig, Sandbox, SandboxBackend, SandboxProxy, SandboxSupport};
use gimlet_policy::{PermissionUpdate, RuleSet};
use gimlet_proto::{
    Approval, AskAnswer, AskBody, EventBody, NetworkAccess, Op, PermissionMode, SandboxSpec, TrustQuestion,
};
use gimlet_store::{Decider, DecisionOutcome};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::session_bench::{BenchSetup, SessionBench, call, reply};

/// Walls that no command of these tests needs, with a real proxy in front of names that lead to private addresses.
fn test_sandbox(dir: &Path, asks_about_hosts: bool) -> SessionSandbox {
    let lead = |_: String, port: u16| -> gimlet_proto::BoxFuture<'static, std::io::Result<Vec<std::net::SocketAddr>>> {
        Box::pin(async move { Ok(vec![([10, 0, 0, 1], port).into()]) })
    };
    let (allow, deny) = (Vec::new(), vec!["denied.example".to_owned()]);
    let config = ProxyConfig {
        socket: dir.join("proxy"),
        deny: deny.clone(),
        resolver: Some(Arc::new(lead)),
        ..ProxyConfig::default()
    };
    let proxy = SandboxProxy::start(config).unwrap();
    let spec = SandboxSpec { network: NetworkAccess::Proxy { allow, deny }, ..SandboxSpec::default() };
    let available = SandboxSupport { backend: SandboxBackend::Namespaces, landlock_abi: 7, notes: Vec::new() };
    SessionSandbox {
        sandbox: Sandbox::new(spec.clone(), available.clone(), Some(dir.join("proxy"))).unwrap(),
        spec,
        available,
        auto_allow: true,
        may_run_unsandboxed: true,
        excluded: Vec::new(),
        quarantine: dir.join("quarantine"),
        settings: None,
        proxy: Some(proxy),
        asks_about_hosts,
        denied_files: None,
        read_only_files: None,
        expected_violations: Vec::new(),
        state: Default::default(),
    }
}

struct ProxyScene {
    bench: SessionBench,
    socket: PathBuf,
    _dir: tempfile::TempDir,
}

impl ProxyScene {
    fn new(setup: BenchSetup, asks_about_hosts: bool, replies: Vec<Vec<gimlet_proto::ModelEvent>>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let sandboxing = Some(test_sandbox(dir.path(), asks_about_hosts));
        let socket = dir.path().join("proxy");
        Self { bench: SessionBench::new(BenchSetup { sandboxing, ..setup }, replies), socket, _dir: dir }
    }

    /// Tries to reach a host; answers whoever asks about it. Gives what the proxy said, and the questions.
    async fn reach(&mut self, host: &str, answer: impl Fn(&AskBody) -> AskAnswer) -> (String, Vec<String>) {
        let mut client = UnixStream::connect(&self.socket).await.unwrap();
        client.write_all(format!("CONNECT {host} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
        let mut said = Vec::new();
        let mut asked = Vec::new();
        loop {
            tokio::select! {
                _ = client.read_to_end(&mut said) => break,
                event = self.bench.events.next() => {
                    if let EventBody::Ask(ask) = event.unwrap().body {
                        if let Some(gimlet_proto::PermissionAsk { tool, input, .. }) = ask.body.call() {
                            asked.push(format!("{tool} {}", input.get()));
                        }
                        self.bench.handle.send(Op::Answer { ask: ask.id, answer: answer(&ask.body) });
                    }
                }
            }
        }
        (String::from_utf8_lossy(&said).into_owned(), asked)
    }
}

/// Let through, the name is looked up and found to lead where no name may.
const LET_THROUGH: &str = "private address";
const DECLINED: &str = "asked about and not allowed";

fn in_mode(mode: PermissionMode, attended: bool) -> BenchSetup {
    BenchSetup { mode, attended, ..BenchSetup::default() }
}

#[tokio::test]
async fn a_person_is_asked_once_for_a_host_and_the_answer_holds_for_the_session() {
    let mut scene = ProxyScene::new(in_mode(PermissionMode::Default, true), true, Vec::new());
    let (said, asked) = scene.reach("a.example:443", |_| AskAnswer::yes()).await;
    assert!(said.contains(LET_THROUGH), "{said}");
    assert_eq!(asked, [r#"SandboxNetworkAccess {"host":"a.example","port":443}"#]);
    let (said, asked) = scene.reach("a.example:80", |_| AskAnswer::yes()).await;
    assert!(said.contains(LET_THROUGH) && asked.is_empty(), "{said} {asked:?}");
    let no = |_: &AskBody| AskAnswer::No { message: "not there".into(), interrupt: false };
    let (said, asked) = scene.reach("b.example:443", no).await;
    assert!(said.contains(DECLINED) && asked.len() == 1, "{said}");
    let (said, asked) = scene.reach("b.example:443", |_| AskAnswer::yes()).await;
    assert!(said.contains(DECLINED) && asked.is_empty(), "{said}");
    // Programs answer with the input; another one is no answer to this question.
    for (input, expected) in [(r#"{"port":443,"host":"c.example"}"#, LET_THROUGH), (r#"{"host":"x"}"#, DECLINED)] {
        let host = if expected == LET_THROUGH { "c.example:443" } else { "d.example:443" };
        let input = serde_json::value::RawValue::from_string(input.to_owned()).unwrap();
        let yes = |_: &AskBody| AskAnswer::Yes(Approval { input: Some(input.clone()), changes: Vec::new() });
        let (said, _) = scene.reach(host, yes).await;
        assert!(said.contains(expected), "{said}");
    }
    let (said, asked) = scene.reach("denied.example:443", |_| AskAnswer::yes()).await;
    assert!(said.contains("denied") && asked.is_empty(), "{said}");
    let decisions: Vec<_> =
        scene.bench.decisions().into_iter().map(|line| (line.tool, line.summary, line.outcome, line.by)).collect();
    let line =
        |summary: &str, outcome| ("SandboxNetworkAccess".to_owned(), summary.to_owned(), outcome, Decider::Person);
    assert_eq!(
        decisions[..2],
        [
            line("connect to a.example:443", DecisionOutcome::Allowed),
            line("connect to b.example:443", DecisionOutcome::Refused)
        ]
    );
    scene.bench.close().await;
}

#[tokio::test]
async fn the_mode_decides_where_it_leaves_nothing_to_ask() {
    for (mode, attended, asks, expected, by) in [
        (PermissionMode::DontAsk, true, true, DECLINED, Some(Decider::Policy)),
        (PermissionMode::BypassPermissions, true, true, LET_THROUGH, Some(Decider::Policy)),
        (PermissionMode::Default, false, true, DECLINED, Some(Decider::Nobody)),
        // Only the lists count.
        (PermissionMode::Default, true, false, "not in the list", None),
        (PermissionMode::BypassPermissions, true, false, "not in the list", None),
    ] {
        let mut scene = ProxyScene::new(in_mode(mode, attended), asks, Vec::new());
        let (said, asked) = scene.reach("a.example:443", |_| AskAnswer::yes()).await;
        assert!(said.contains(expected) && asked.is_empty(), "{mode} {attended} {asks}: {said}");
        assert_eq!(scene.bench.decisions().first().map(|line| line.by), by, "{mode} {attended} {asks}");
        scene.bench.close().await;
    }
}

#[tokio::test]
async fn in_auto_mode_the_reviewer_answers() {
    for (allow, expected) in [(true, LET_THROUGH), (false, DECLINED)] {
        let verdict = call("v", "verdict", json!({"allow": allow, "reason": "because"}));
        let setup = BenchSetup { review: true, ..in_mode(PermissionMode::Auto, true) };
        let mut scene = ProxyScene::new(setup, true, vec![reply(&[verdict])]);
        let (said, asked) = scene.reach("a.example:443", |_| AskAnswer::yes()).await;
        assert!(said.contains(expected) && asked.is_empty(), "{said} {asked:?}");
        assert_eq!(scene.bench.decisions()[0].by, Decider::Classifier);
        let question = format!("{:?}", scene.bench.model.requests()[0].messages);
        assert!(question.contains("a.example"), "{question}");
        scene.bench.close().await;
    }
}

/// Settings that only keep what they are given.
#[derive(Clone, Default)]
struct RecordingSettings(Arc<Mutex<Vec<PermissionUpdate>>>);

impl SettingsSource for RecordingSettings {
    fn poll_changes(&mut self) -> Vec<ChangedSettings> {
        Vec::new()
    }

    fn reload_settings(&mut self, _: &[PathBuf]) -> EffectivePermissions {
        EffectivePermissions::default()
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

    fn save_update(&mut self, update: &PermissionUpdate) -> Result<(), String> {
        self.0.lock().unwrap().push(update.clone());
        Ok(())
    }
}

#[tokio::test]
async fn do_not_ask_again_is_a_rule_in_local_settings_and_only_for_ports_that_rules_know() {
    let kept = RecordingSettings::default();
    let setup = BenchSetup { live: Some(Box::new(kept.clone())), ..in_mode(PermissionMode::Default, true) };
    let mut scene = ProxyScene::new(setup, true, Vec::new());
    let always = |body: &AskBody| {
        let suggestions = &body.call().unwrap().suggestions;
        AskAnswer::Yes(Approval {
            input: None,
            changes: suggestions.iter().map(|change| change.update.clone()).collect(),
        })
    };
    let (said, _) = scene.reach("a.example:443", always).await;
    assert!(said.contains(LET_THROUGH), "{said}");
    let saved = serde_json::to_value(kept.0.lock().unwrap().clone()).unwrap();
    assert_eq!(
        saved,
        json!([{
            "type": "addRules",
            "rules": [{"toolName": "WebFetch", "ruleContent": "domain:a.example"}],
            "behavior": "allow",
            "destination": "localSettings",
        }])
    );
    let (said, asked) = scene.reach("a.example:22", always).await;
    assert!(said.contains(LET_THROUGH) && asked.len() == 1, "{said} {asked:?}");
    assert_eq!(kept.0.lock().unwrap().len(), 1);
    scene.bench.close().await;
}

#[tokio::test]
async fn an_interrupt_of_the_turn_closes_the_question_about_a_host() {
    let hang = call("h1", "Look", json!({"name": "h1", "manner": "hang"}));
    let mut scene = ProxyScene::new(in_mode(PermissionMode::Default, true), true, vec![reply(&[hang])]);
    scene.bench.say("go");
    scene.bench.log.gate.notified().await;
    let mut client = UnixStream::connect(&scene.socket).await.unwrap();
    client.write_all(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n").await.unwrap();
    let mut told = Vec::new();
    scene
        .bench
        .turn(|event, handle| match &event.body {
            EventBody::Ask(ask) => {
                told.push(("asked", ask.id));
                handle.send(Op::interrupt());
            }
            EventBody::AskClosed(id) => told.push(("closed", *id)),
            _ => {}
        })
        .await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!((told[1].0, told[1].1), ("closed", told[0].1));
    let mut said = String::new();
    client.read_to_string(&mut said).await.unwrap();
    assert!(said.contains(DECLINED), "{said}");
    scene.bench.close().await;
}
