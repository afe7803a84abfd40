//! Tests that run hooks with handlers of any kind.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gimlet_proto::{
    AgentPath, BoxFuture, Env, EventBody, EventHub, HookPhase, Model, SessionId, ThinkingMode, ToolUseId,
};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::agents::{AgentMemoryFolders, AgentRuntime, AgentRuntimeParts, LiveAgentRoster};
use crate::gate::{Gate, PermissionConfig};
use crate::model_selection::tests::UnusedModel;
use crate::model_selection::{LiveModelSelection, ModelSelection};
use crate::record::ConversationRecord;
use crate::services::{SessionServices, SessionShared};
use crate::session::SessionState;
use crate::tool::ToolSet;
use crate::turn::TurnOptions;
use crate::usage_ledger::UsageLedger;

/// A handler that records its input.
struct RecordingHandler {
    answer: fn() -> HandlerAnswer,
    inputs: Arc<Mutex<Vec<Value>>>,
}

impl HookHandler for RecordingHandler {
    fn run(&self, call: HandlerCall) -> BoxFuture<'static, Result<HandlerReport, HandlerError>> {
        self.inputs.lock().unwrap().push(serde_json::from_str(call.input.get()).unwrap());
        let report =
            HandlerReport { answer: (self.answer)(), stdout: "out".into(), stderr: "err".into(), exit_code: Some(2) };
        Box::pin(async move { Ok(report) })
    }

    fn default_timeout(&self, _event: HookEvent) -> Duration {
        Duration::from_secs(600)
    }
}

struct HookBench {
    scope: CallScope,
    hub: EventHub,
    inputs: Arc<Mutex<Vec<Value>>>,
}

fn hook_bench() -> HookBench {
    let hub = EventHub::default();
    let state = SessionState::new("/project".into(), Vec::new());
    let shared = SessionShared::new(SessionId::new("s"), Env::default(), None, hub.clone());
    let services = SessionServices::new(shared, state, "/results".into());
    let model: Arc<dyn Model> = Arc::new(UnusedModel);
    let (env, id) = (Env::default(), SessionId::new("s"));
    let files =
        gimlet_store::StoreLocations::new(std::path::Path::new("/nowhere")).project(std::path::Path::new("/project"));
    let transcript = gimlet_store::Transcript::new_unsaved(id.clone(), gimlet_store::EntryStamp::default());
    let host = AgentRuntime::new(AgentRuntimeParts {
        roster: LiveAgentRoster::default(),
        main_launches: None,
        append_system: None,
        memory: AgentMemoryFolders::default(),
        env: &env,
        options: &TurnOptions::default(),
        result_files: &ResultFiles::new(&files.session_files(&id)),
        transcripts: ConversationRecord::new(transcript).agent_transcripts(),
        cache_ttl: None,
        ledger: &UsageLedger::default(),
    });
    let scope = CallScope {
        services: Arc::new(services),
        tools: ToolSet::new(Vec::<crate::tool::ToolRef>::new()),
        gate: Arc::new(Gate::new(PermissionConfig::default(), &model, None)),
        cancel: CancellationToken::new(),
        agent: AgentPath::default(),
        subagent: None,
        model_selection: LiveModelSelection::new(
            model,
            ModelSelection {
                model: "m".into(),
                thinking: ThinkingMode::Off,
                display: None,
                effort: Some("high".into()),
            },
        ),
        agent_runtime: Arc::new(host),
        grants: crate::skills::TurnGrants::default(),
    };
    HookBench { scope, hub, inputs: Arc::default() }
}

impl HookBench {
    fn listen(&self, event: HookEvent, matcher: Option<&str>, answer: fn() -> HandlerAnswer) {
        let entry = self.entry(event, matcher, answer);
        self.scope.services.hooks().replace(HookOwner::Settings, vec![entry]);
    }

    fn entry(&self, event: HookEvent, matcher: Option<&str>, answer: fn() -> HandlerAnswer) -> HookEntry {
        let handler = Arc::new(RecordingHandler { answer, inputs: self.inputs.clone() });
        HookEntry::new(event, HookMatcher::new(event, matcher).unwrap(), handler, Arc::from("a test"))
    }

    async fn fire(&self, occasion: &HookPayload<'_>) -> CombinedHookOutput {
        self.scope.services.hooks().fire(&self.scope, occasion).await
    }
}

#[tokio::test]
async fn a_handler_may_block_or_speak_without_json() {
    let stage = hook_bench();
    let mut events = stage.hub.subscribe();
    let (id, input) = (ToolUseId::new("t"), json!({}));
    let call = CallFacts { id: &id, tool: HookSubject::from_name("Bash"), server: None, input: &input, needs: &[] };
    stage.listen(HookEvent::PreToolUse, None, || HandlerAnswer::Block("no".into()));
    assert_eq!(
        stage.fire(&HookPayload::PreToolUse(call)).await.permission,
        Some((HookPermission::Deny, Some("no".into())))
    );
    let mut shown = Vec::new();
    while shown.len() < 2 {
        if let EventBody::Hook(hook) = events.next().await.unwrap().body {
            assert_eq!(hook.name, "PreToolUse:Bash");
            shown.push(hook.phase);
        }
    }
    assert!(
        matches!(&shown[1], HookPhase::Finished { stdout, stderr, exit_code: Some(2), .. } if stdout == "out" && stderr == "err")
    );
    // Plain text goes to the model at the beginning of something, and is ignored elsewhere.
    let words = || HandlerAnswer::Text("words".into());
    stage.listen(HookEvent::UserPromptSubmit, None, words);
    assert_eq!(stage.fire(&HookPayload::UserPromptSubmit { prompt: "p", title: None }).await.contexts.len(), 1);
    stage.listen(HookEvent::PreToolUse, None, words);
    assert_eq!(stage.fire(&HookPayload::PreToolUse(call)).await.contexts.len(), 0);
}

#[tokio::test]
async fn a_tool_is_found_by_its_older_names_too() {
    let stage = hook_bench();
    let (id, input) = (ToolUseId::new("t"), json!({}));
    let tool = HookSubject { aliases: &["Task"], ..HookSubject::from_name("Agent") };
    let call = CallFacts { id: &id, tool, server: None, input: &input, needs: &[] };
    stage.listen(HookEvent::PreToolUse, Some("Task"), || HandlerAnswer::Block("no".into()));
    assert!(stage.fire(&HookPayload::PreToolUse(call)).await.permission.is_some());
    assert_eq!(stage.inputs.lock().unwrap()[0]["tool_name"], "Agent");
}

/// A hook that guards Edit also guards every tool that edits under another name.
#[test]
fn a_matcher_for_edit_also_matches_multi_edit() {
    let stage = hook_bench();
    stage.listen(HookEvent::PreToolUse, Some("Edit|Write"), || HandlerAnswer::Block("no".into()));
    let watched = |tool: &str| {
        stage.scope.services.hooks().has_matching_hook(HookEvent::PreToolUse, HookSubject::from_name(tool))
    };
    assert!(watched("MultiEdit") && watched("Edit") && !watched("Read"));
}

/// A server that lists its tool again under another name must not bypass the hook that guards it.
#[test]
fn a_tool_of_a_server_is_watched_by_every_name_that_forbids_it() {
    let stage = hook_bench();
    let also = gimlet_policy::tool_name_spellings(&["my.srv"], &["drop.table"]);
    let sent = "mcp__my_srv__drop_table__1a2b3c4d";
    let tool = HookSubject { also_named: &also, ..HookSubject::from_name(sent) };
    let watched = |matcher: &str| {
        stage.listen(HookEvent::PreToolUse, Some(matcher), || HandlerAnswer::Block("no".into()));
        stage.scope.services.hooks().has_matching_hook(HookEvent::PreToolUse, tool)
    };
    for matcher in ["mcp__my_srv__drop_table", "Bash|mcp__my_srv__drop_table", "mcp__my.srv__drop.table$", sent] {
        assert!(watched(matcher), "{matcher}");
    }
    for matcher in ["mcp__my_srv", "mcp__my_srv__drop", "mcp__s__drop_table", "^mcp__my_srv$", "^(?!mcp__my.srv__)"] {
        assert!(!watched(matcher), "{matcher}");
    }
}

#[test]
fn listener_bits_follow_registration() {
    let hooks = HookRegistry::default();
    assert!(!hooks.has_listeners(HookEvent::Stop));
    let stage = hook_bench();
    let hooks = stage.scope.services.hooks();
    stage.listen(HookEvent::Stop, None, || HandlerAnswer::Text(String::new()));
    assert!(hooks.has_listeners(HookEvent::Stop) && !hooks.has_listeners(HookEvent::PreToolUse));
    hooks.replace(HookOwner::Settings, Vec::new());
    assert!(!hooks.has_listeners(HookEvent::Stop));
}

#[test]
fn owners_keep_their_place_until_their_hooks_are_removed() {
    let bench = hook_bench();
    let hooks = bench.scope.services.hooks();
    let plugin = HookOwner::Plugin("p".to_owned());
    let entry = |event| bench.entry(event, None, || HandlerAnswer::Text(String::new()));
    let listed = || hooks.list().into_iter().map(|listing| listing.event).collect::<Vec<_>>();
    hooks.replace(plugin.clone(), vec![entry(HookEvent::Stop)]);
    hooks.replace(HookOwner::Settings, vec![entry(HookEvent::PreToolUse)]);
    hooks.replace(plugin.clone(), vec![entry(HookEvent::Stop), entry(HookEvent::PostToolUse)]);
    assert_eq!(listed(), ["Stop", "PostToolUse", "PreToolUse"]);
    hooks.remove(&HookOwner::Plugin("another".to_owned()));
    assert!(hooks.has_listeners(HookEvent::Stop));
    hooks.remove(&plugin);
    assert_eq!(listed(), ["PreToolUse"]);
    assert!(!hooks.has_listeners(HookEvent::Stop) && hooks.has_listeners(HookEvent::PreToolUse));
    hooks.replace(plugin, vec![entry(HookEvent::Stop)]);
    assert_eq!(listed(), ["PreToolUse", "Stop"]);
}

/// A handler that answers after a while.
struct SlowHandler(Duration);

impl HookHandler for SlowHandler {
    fn run(&self, _call: HandlerCall) -> BoxFuture<'static, Result<HandlerReport, HandlerError>> {
        let pause = self.0;
        Box::pin(async move {
            tokio::time::sleep(pause).await;
            Ok(HandlerReport::from_json(to_raw_value(&json!({})).unwrap()))
        })
    }

    fn text(&self) -> String {
        "./slow.sh".to_owned()
    }

    fn default_timeout(&self, _event: HookEvent) -> Duration {
        Duration::from_secs(600)
    }
}

fn notices(events: &mut gimlet_proto::EventReader) -> Vec<String> {
    let mut texts = Vec::new();
    while let Some(Some(event)) = futures_util::FutureExt::now_or_never(events.next()) {
        if let EventBody::Notice(notice) = &event.body {
            texts.push(notice.text.clone());
        }
    }
    texts
}

#[tokio::test(start_paused = true)]
async fn the_user_is_told_which_hook_is_waited_for() {
    let bench = hook_bench();
    let mut events = bench.hub.subscribe();
    for (seconds, wanted) in [(4, 0), (6, 1)] {
        let handler = Arc::new(SlowHandler(Duration::from_secs(seconds)));
        let matcher = HookMatcher::new(HookEvent::Stop, None).unwrap();
        let entry = HookEntry::new(HookEvent::Stop, matcher, handler, Arc::from("user settings"));
        bench.scope.services.hooks().replace(HookOwner::Settings, vec![entry]);
        bench.fire(&HookPayload::Stop { last_text: "", again: false }).await;
        let told = notices(&mut events);
        assert_eq!(told.len(), wanted, "{told:?}");
        assert!(told.iter().all(|text| text == "waiting for the hook Stop of user settings: ./slow.sh"), "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn changes_of_watched_files_are_fired_with_the_name_that_a_matcher_gave() {
    let folder = tempfile::tempdir().unwrap();
    let bench = hook_bench();
    bench.scope.services.lock_state().cwd = folder.path().to_owned();
    bench.listen(HookEvent::FileChanged, Some(".env|package.json"), || {
        HandlerAnswer::Json(
            to_raw_value(&json!({"hookSpecificOutput": {"hookEventName": "FileChanged",
            "watchPaths": ["later.txt"]}}))
            .unwrap(),
        )
    });
    let scope = Arc::new(bench.scope.clone());
    let mut watch = JoinSet::new();
    watch.spawn(watch_files(scope));
    let seen = || {
        bench
            .inputs
            .lock()
            .unwrap()
            .iter()
            .map(|input| {
                let name = input["file_path"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
                (name, input["event"].as_str().unwrap().to_owned())
            })
            .collect::<Vec<_>>()
    };
    let step = || tokio::time::sleep(Duration::from_secs(3));
    step().await;
    std::fs::write(folder.path().join("other"), "x").unwrap();
    std::fs::write(folder.path().join(".env"), "x").unwrap();
    step().await;
    std::fs::write(folder.path().join(".env"), "longer").unwrap();
    step().await;
    std::fs::remove_file(folder.path().join(".env")).unwrap();
    step().await;
    let own = |change: &str| (".env".to_owned(), change.to_owned());
    assert_eq!(seen(), [own("add"), own("change"), own("unlink")]);
    bench.listen(HookEvent::FileChanged, Some(".env|later"), || HandlerAnswer::Text(String::new()));
    step().await;
    std::fs::write(folder.path().join("later.txt"), "x").unwrap();
    step().await;
    assert_eq!(seen().last().unwrap().0, "later.txt", "a hook asked for it");
    watch.shutdown().await;
}

#[tokio::test]
async fn a_condition_selects_calls_and_no_other_events() {
    let bench = hook_bench();
    let source = CallCondition::plain_source("/project");
    let condition = Arc::new(CallCondition::parse("Bash(git *)", &source).unwrap());
    let entry = |event| HookEntry {
        condition: Some(condition.clone()),
        ..bench.entry(event, None, || HandlerAnswer::Block("no".into()))
    };
    bench
        .scope
        .services
        .hooks()
        .replace(HookOwner::Settings, vec![entry(HookEvent::PreToolUse), entry(HookEvent::Stop)]);
    let id = ToolUseId::new("t");
    for (command, wanted) in [("git push", true), ("ls", false), ("echo `git log`", true)] {
        let input = json!({"command": command});
        let needs = [gimlet_proto::AccessNeed::Run(command.to_owned())];
        let call =
            CallFacts { id: &id, tool: HookSubject::from_name("Bash"), server: None, input: &input, needs: &needs };
        let fired = bench.fire(&HookPayload::PreToolUse(call)).await;
        assert_eq!(fired.permission.is_some(), wanted, "{command}");
    }
    assert!(bench.fire(&HookPayload::Stop { last_text: "", again: false }).await.blocked.is_none());
}

#[tokio::test]
async fn hooks_of_an_agent_are_for_its_conversation_and_a_hook_may_run_once() {
    let bench = hook_bench();
    let hooks = bench.scope.services.hooks();
    let entry = || bench.entry(HookEvent::Stop, None, || HandlerAnswer::Block("no".into()));
    hooks.add_agent_hooks("a1", vec![entry()]);
    assert!(!hooks.has_listeners(HookEvent::Stop) && hooks.has_listeners(HookEvent::SubagentStop));
    let ends = || HookPayload::SubagentStop { last_text: "", again: false, transcript: None };
    assert!(bench.fire(&ends()).await.blocked.is_none(), "this is not the agent's conversation");
    hooks.remove(&HookOwner::Agent("a1".to_owned()));
    hooks.add_skill_hooks("s", vec![HookEntry { once: Some(Arc::default()), ..entry() }]);
    let stop = || HookPayload::Stop { last_text: "", again: false };
    assert!(bench.fire(&stop()).await.blocked.is_some());
    hooks.add_skill_hooks("s", vec![entry()]);
    assert!(bench.fire(&stop()).await.blocked.is_none(), "it has run");
}

#[tokio::test]
async fn what_a_hook_in_the_background_adds_waits_for_the_next_prompt_and_decides_nothing() {
    let bench = hook_bench();
    let mut events = bench.hub.subscribe();
    let answer = || {
        let answer = json!({"decision": "block", "reason": "no", "systemMessage": "and-this",
            "hookSpecificOutput": {"hookEventName": "Stop", "additionalContext": "built-in-time", "other": 1}});
        HandlerAnswer::Json(to_raw_value(&answer).unwrap())
    };
    let entry = HookEntry { runs_in_background: true, ..bench.entry(HookEvent::Stop, None, answer) };
    let hooks = bench.scope.services.hooks();
    hooks.replace(HookOwner::Settings, vec![entry]);
    let fired = bench.fire(&HookPayload::Stop { last_text: "", again: false }).await;
    assert!(fired.blocked.is_none() && fired.contexts.is_empty());
    let mut late = Vec::new();
    while late.len() < 2 {
        tokio::task::yield_now().await;
        late.extend(hooks.take_late_contexts());
    }
    assert!(late[0].contains("built-in-time") && late[1].contains("and-this"), "{late:?}");
    assert!(notices(&mut events).is_empty(), "users are told nothing");
}
