//! Firing with handlers of any kind.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gimlet_proto::{
    AgentPath, Body, BoxFuture, Env, HookPhase, Hub, Model, ModelFacts, ModelRequest, ModelStream, SessionId, Thinking,
    ToolUseId,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::agents::{AgentHost, HostParts, Roster};
use crate::dials::{Choice, Dials};
use crate::gate::{Gate, Permissions};
use crate::ledger::Ledger;
use crate::record::Record;
use crate::services::Services;
use crate::session::SessionState;
use crate::tool::ToolSet;
use crate::turn::TurnOptions;

struct NoModel;

impl Model for NoModel {
    fn facts(&self, model: &str) -> ModelFacts {
        ModelFacts {
            id: model.to_owned(),
            context_window: 1,
            max_output_tokens: 1,
            price: None,
            edits_unread: false,
            bytes_per_token: 4.0,
            min_cache_tokens: 1_024,
            known: false,
        }
    }

    fn stream(&self, _request: ModelRequest) -> ModelStream {
        Box::pin(futures_util::stream::empty())
    }
}

/// A handler that keeps what it was told.
struct Fixed {
    answer: fn() -> HandlerAnswer,
    told: Arc<Mutex<Vec<Value>>>,
}

impl HookHandler for Fixed {
    fn run(&self, call: HandlerCall) -> BoxFuture<'static, Result<HandlerReport, HandlerError>> {
        self.told.lock().unwrap().push(serde_json::from_str(call.input.get()).unwrap());
        let report =
            HandlerReport { answer: (self.answer)(), stdout: "out".into(), stderr: "err".into(), exit_code: Some(2) };
        Box::pin(async move { Ok(report) })
    }

    fn default_timeout(&self, _event: HookEvent) -> Duration {
        Duration::from_secs(600)
    }
}

struct Stage {
    scope: CallScope,
    hub: Hub,
    told: Arc<Mutex<Vec<Value>>>,
}

fn stage() -> Stage {
    let hub = Hub::default();
    let state = SessionState::new("/project".into(), Vec::new());
    let services = Services::new(SessionId::new("s"), Env::default(), None, "/results".into(), hub.clone(), state);
    let model: Arc<dyn Model> = Arc::new(NoModel);
    let (env, id) = (Env::default(), SessionId::new("s"));
    let files =
        gimlet_store::Locations::new(std::path::Path::new("/nowhere")).project(std::path::Path::new("/project"));
    let transcript = gimlet_store::Transcript::unsaved(id.clone(), gimlet_store::Stamp::default());
    let host = AgentHost::new(HostParts {
        model: &model,
        roster: Roster::default(),
        main_launches: None,
        env: &env,
        options: &TurnOptions::default(),
        items: &Arc::default(),
        result_files: &ResultFiles::new(&files.session(&id)),
        transcripts: Record::new(transcript).agents(),
        cache_ttl: None,
        ledger: &Ledger::default(),
    });
    let scope = CallScope {
        services: Arc::new(services),
        tools: ToolSet::new(Vec::<crate::tool::ToolRef>::new()),
        gate: Arc::new(Gate::new(Permissions::default(), &model, None)),
        cancel: CancellationToken::new(),
        agent: AgentPath::default(),
        subagent: None,
        dials: Dials::new(Choice {
            model: "m".into(),
            thinking: Thinking::Off,
            display: None,
            effort: Some("high".into()),
        }),
        host: Arc::new(host),
    };
    Stage { scope, hub, told: Arc::default() }
}

impl Stage {
    fn listen(&self, event: HookEvent, matcher: Option<&str>, answer: fn() -> HandlerAnswer) {
        let entry = HookEntry {
            event,
            matcher: Matcher::new(event, matcher).unwrap(),
            handler: Arc::new(Fixed { answer, told: self.told.clone() }),
            timeout: None,
            on_failure: OnTrouble::GoOn,
            on_silence: OnTrouble::GoOn,
            source: Arc::from("a test"),
        };
        self.scope.services.hooks().replace("test", vec![entry]);
    }

    async fn fire(&self, occasion: &Occasion<'_>) -> Fired {
        self.scope.services.hooks().fire(&self.scope, occasion).await
    }
}

#[tokio::test]
async fn a_handler_may_block_or_speak_without_json() {
    let stage = stage();
    let mut events = stage.hub.subscribe();
    let (id, input) = (ToolUseId::new("t"), json!({}));
    let call = CallFacts { id: &id, tool: Subject::of("Bash"), server: None, input: &input };
    stage.listen(HookEvent::PreToolUse, None, || HandlerAnswer::Block("no".into()));
    assert_eq!(stage.fire(&Occasion::PreToolUse(call)).await.permission, Some((Permission::Deny, Some("no".into()))));
    let mut shown = Vec::new();
    while shown.len() < 2 {
        if let Body::Hook(hook) = events.next().await.unwrap().body {
            assert_eq!(hook.name, "PreToolUse:Bash");
            shown.push(hook.phase);
        }
    }
    assert!(
        matches!(&shown[1], HookPhase::Finished { stdout, stderr, exit_code: Some(2), .. } if stdout == "out" && stderr == "err")
    );
    // Plain words are for the model at the beginning of something, and for nobody elsewhere.
    let words = || HandlerAnswer::Text("words".into());
    stage.listen(HookEvent::UserPromptSubmit, None, words);
    assert_eq!(stage.fire(&Occasion::UserPromptSubmit { prompt: "p", title: None }).await.contexts.len(), 1);
    stage.listen(HookEvent::PreToolUse, None, words);
    assert_eq!(stage.fire(&Occasion::PreToolUse(call)).await.contexts.len(), 0);
}

#[tokio::test]
async fn a_tool_is_found_by_its_older_names_too() {
    let stage = stage();
    let (id, input) = (ToolUseId::new("t"), json!({}));
    let tool = Subject { aliases: &["Task"], ..Subject::of("Agent") };
    let call = CallFacts { id: &id, tool, server: None, input: &input };
    stage.listen(HookEvent::PreToolUse, Some("Task"), || HandlerAnswer::Block("no".into()));
    assert!(stage.fire(&Occasion::PreToolUse(call)).await.permission.is_some());
    assert_eq!(stage.told.lock().unwrap()[0]["tool_name"], "Agent");
}

/// A guard of Edit is one of every tool that edits under another name.
#[test]
fn whoever_watches_edit_watches_multi_edit() {
    let stage = stage();
    stage.listen(HookEvent::PreToolUse, Some("Edit|Write"), || HandlerAnswer::Block("no".into()));
    let watched = |tool: &str| stage.scope.services.hooks().is_awaited(HookEvent::PreToolUse, Subject::of(tool));
    assert!(watched("MultiEdit") && watched("Edit") && !watched("Read"));
}

/// A server that lists a twin of its tool gives it another name, and no way past its guard.
#[test]
fn a_tool_of_a_server_is_watched_by_every_name_that_forbids_it() {
    let stage = stage();
    let also = gimlet_policy::spellings(&["my.srv"], &["drop.table"]);
    let sent = "mcp__my_srv__drop_table__1a2b3c4d";
    let tool = Subject { also_named: &also, ..Subject::of(sent) };
    let watched = |matcher: &str| {
        stage.listen(HookEvent::PreToolUse, Some(matcher), || HandlerAnswer::Block("no".into()));
        stage.scope.services.hooks().is_awaited(HookEvent::PreToolUse, tool)
    };
    for matcher in ["mcp__my_srv__drop_table", "Bash|mcp__my_srv__drop_table", "mcp__my.srv__drop.table$", sent] {
        assert!(watched(matcher), "{matcher}");
    }
    for matcher in ["mcp__my_srv", "mcp__my_srv__drop", "mcp__s__drop_table", "^mcp__my_srv$", "^(?!mcp__my.srv__)"] {
        assert!(!watched(matcher), "{matcher}");
    }
}

#[test]
fn nobody_listens_until_somebody_does_and_again_when_they_go() {
    let hooks = Hooks::default();
    assert!(!hooks.listens(HookEvent::Stop));
    let stage = stage();
    let hooks = stage.scope.services.hooks();
    stage.listen(HookEvent::Stop, None, || HandlerAnswer::Text(String::new()));
    assert!(hooks.listens(HookEvent::Stop) && !hooks.listens(HookEvent::PreToolUse));
    hooks.replace("test", Vec::new());
    assert!(!hooks.listens(HookEvent::Stop));
}
