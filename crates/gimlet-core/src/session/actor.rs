//! The actor that owns one session. Nobody else changes it; everyone else sends operations and reads events.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use gimlet_proto::{
    AgentPath, Answer, AskBody, Body, CacheTtl, Env, Hub, Level, Model, Notice, Op, Opened, PermissionMode,
    SessionHandle, SessionId, Snapshot, ToolDef, TurnReport,
};
use gimlet_store::{ResultFiles, ToolOutputs};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::SessionState;
use crate::call::CallScope;
use crate::conversation::Conversation;
use crate::gate::{Asked, Asks, Gate, HostGate, Permissions};
use crate::past::PastCalls;
use crate::record::Record;
use crate::redact::Redactor;
use crate::sandboxing::Sandboxing;
use crate::services::{Processes, Services};
use crate::steering::{Said, Steering};
use crate::tool::ToolSet;
use crate::turn::{self, Turn, TurnOptions};

/// How long background work may go on after the last answer.
const TASK_GRACE: Duration = Duration::from_secs(5);

/// What a session is opened with. Everything is a value: the session reads no environment and no settings.
pub struct SessionConfig {
    pub id: SessionId,
    pub model: Arc<dyn Model>,
    pub model_id: String,
    pub api_key_source: String,
    pub tools: ToolSet,
    /// Frozen for the segment.
    pub system: Arc<[String]>,
    pub tool_defs: Arc<[ToolDef]>,
    pub env: Env,
    pub home: Option<PathBuf>,
    pub state: SessionState,
    pub permissions: Permissions,
    /// Someone can be asked.
    pub attended: bool,
    pub options: TurnOptions,
    pub cache_ttl: Option<CacheTtl>,
    pub record: Record,
    /// History of a resumed session.
    pub history: Vec<gimlet_proto::Message>,
    /// What the calls in it gave back.
    pub outputs: ToolOutputs,
    pub result_files: ResultFiles,
    pub processes: Processes,
    /// gimlet's own credentials, kept out of history.
    pub redactor: Redactor,
    /// The walls around commands.
    pub sandboxing: Option<Arc<Sandboxing>>,
}

/// Opens a session. The returned future is the session's life; the caller runs it.
pub fn open(config: SessionConfig) -> (SessionHandle, impl Future<Output = ()> + Send) {
    let (ops, inbox) = mpsc::unbounded_channel();
    let (ask_sender, asked) = mpsc::unbounded_channel();
    let hub = Hub::default();
    let history: Vec<_> = config.history.into_iter().map(Arc::new).collect();
    let services = Arc::new(
        Services::new(
            config.id.clone(),
            config.env,
            config.home,
            config.result_files.dir().to_owned(),
            hub.clone(),
            config.state,
        )
        .with_ops(ops.clone())
        .with_past(PastCalls::new(history.clone(), config.outputs))
        .with_processes(config.processes)
        .with_redactor(config.redactor)
        .with_sandboxing(config.sandboxing),
    );
    let gate = Arc::new(Gate::new(config.permissions, &config.model, config.attended.then_some(ask_sender)));
    if let Some(sandboxing) = services.sandboxing() {
        sandboxing.ask_about_hosts(HostGate::new(gate.clone(), &services));
    }
    let snapshot = watch::Sender::new(Arc::new(Snapshot::default()));
    let handle = SessionHandle::new(config.id.clone(), ops, hub, snapshot.subscribe());
    let actor = Actor {
        services,
        gate,
        inbox,
        asked,
        asks: Asks::default(),
        steering: Steering::default(),
        conversation: Conversation::new(config.record, config.system, config.tool_defs, history, config.cache_ttl),
        model: config.model,
        model_id: config.model_id,
        api_key_source: config.api_key_source,
        tools: config.tools,
        options: config.options,
        items: Arc::default(),
        result_files: config.result_files,
        snapshot,
        attended: config.attended,
        closing: false,
        interrupted: false,
    };
    (handle, actor.run())
}

struct Actor {
    services: Arc<Services>,
    gate: Arc<Gate>,
    inbox: mpsc::UnboundedReceiver<Op>,
    asked: mpsc::UnboundedReceiver<Asked>,
    asks: Asks,
    steering: Steering,
    conversation: Conversation,
    model: Arc<dyn Model>,
    model_id: String,
    api_key_source: String,
    tools: ToolSet,
    options: TurnOptions,
    items: Arc<AtomicU64>,
    result_files: ResultFiles,
    snapshot: watch::Sender<Arc<Snapshot>>,
    attended: bool,
    closing: bool,
    /// The last turn was stopped before its end, or somebody wanted to go after it.
    interrupted: bool,
}

impl Actor {
    async fn run(mut self) {
        self.publish_snapshot(false);
        self.ask_for_trust().await;
        while !self.closing {
            let said = match self.next_in_line() {
                Some(said) => Some(said),
                None => self.wait_for_words().await,
            };
            match said {
                Some(said) if self.may_begin_turn(&said) => self.run_turn(said).await,
                Some(notice) => self.steering.push(notice),
                None => {}
            }
        }
        self.close().await;
    }

    /// Before anything else: may what this folder's files name be used? Until the answer is yes, nothing of it is.
    async fn ask_for_trust(&mut self) {
        let Some(question) = self.gate.trust_question() else { return };
        let (reply, mut answer) = oneshot::channel();
        let asked = Asked { agent: AgentPath::default(), body: AskBody::Trust(question), reply };
        self.asks.open(asked, &self.services);
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => {
                    if matches!(answer, Ok(Answer::Yes | Answer::Always(_))) {
                        self.gate.accept_trust(&self.services);
                    }
                    return;
                }
                op = self.inbox.recv() => match op {
                    Some(Op::Say { blocks, plain, uuid, synthetic }) => {
                        self.steering.push(Said { blocks, plain, uuid, synthetic });
                    }
                    Some(Op::Answer { ask, answer }) => self.asks.answer(ask, answer, &self.services),
                    Some(Op::SetMode(mode)) => set_mode(&self.gate, &self.services, mode),
                    Some(Op::SetModel(model)) => self.model_id = model,
                    // Whoever does not want to answer has not said yes.
                    Some(Op::Interrupt) => self.asks.close_all(&self.services),
                    Some(Op::Close) | None => {
                        self.closing = true;
                        self.asks.close_all(&self.services);
                    }
                },
            }
        }
    }

    fn next_in_line(&self) -> Option<Said> {
        if self.attended { self.steering.pop() } else { self.steering.pop_words() }
    }

    /// With nobody there, the answer that was asked for is the last word: a notice waits for the next prompt instead of
    /// beginning a turn of its own behind it.
    fn may_begin_turn(&self, said: &Said) -> bool {
        self.attended || !said.synthetic
    }

    /// Idle: handles operations until something is said.
    async fn wait_for_words(&mut self) -> Option<Said> {
        let op = tokio::select! {
            // A command in the background may want to know something.
            Some(ask) = self.asked.recv() => {
                self.asks.open(ask, &self.services);
                return None;
            }
            op = self.inbox.recv() => op,
        };
        match op {
            Some(Op::Say { blocks, plain, uuid, synthetic }) => Some(Said { blocks, plain, uuid, synthetic }),
            Some(Op::SetMode(mode)) => {
                set_mode(&self.gate, &self.services, mode);
                self.publish_snapshot(false);
                None
            }
            Some(Op::SetModel(model)) => {
                self.model_id = model;
                self.publish_snapshot(false);
                None
            }
            Some(Op::Answer { ask, answer }) => {
                self.asks.answer(ask, answer, &self.services);
                None
            }
            // Nothing runs, unless in the background: whoever closes the session next does not want to wait for that.
            Some(Op::Interrupt) => {
                self.asks.close_all(&self.services);
                self.interrupted = true;
                None
            }
            Some(Op::Close) | None => {
                self.closing = true;
                None
            }
        }
    }

    /// One turn, with the inbox open all along.
    async fn run_turn(&mut self, said: Said) {
        self.publish_opened();
        self.publish_snapshot(true);
        let cancel = CancellationToken::new();
        let turn = self.turn(cancel.clone());
        let Self { conversation, inbox, asked, asks, steering, gate, model_id, closing, services, .. } = self;
        let report = {
            let mut running = Box::pin(turn::run(conversation, &turn, said));
            loop {
                tokio::select! {
                    report = &mut running => break report,
                    Some(ask) = asked.recv() => asks.open(ask, services),
                    op = inbox.recv() => match op {
                        Some(Op::Say { blocks, plain, uuid, synthetic }) => {
                            steering.push(Said { blocks, plain, uuid, synthetic });
                        }
                        Some(Op::Answer { ask, answer }) => asks.answer(ask, answer, services),
                        Some(Op::SetMode(mode)) => set_mode(gate, services, mode),
                        Some(Op::SetModel(model)) => *model_id = model,
                        Some(Op::Interrupt) => cancel.cancel(),
                        Some(Op::Close) | None => {
                            *closing = true;
                            cancel.cancel();
                        }
                    },
                }
                if cancel.is_cancelled() {
                    asks.close_all(services);
                }
            }
        };
        self.interrupted = cancel.is_cancelled();
        self.finish_turn(report);
    }

    fn finish_turn(&mut self, report: TurnReport) {
        self.tell_trouble();
        self.publish(Body::TurnEnded(Box::new(report)));
        self.publish_snapshot(false);
    }

    fn tell_trouble(&mut self) {
        if let Some(text) = self.conversation.record.take_warning() {
            self.publish(Body::Notice(Notice { level: Level::Error, text }));
        }
    }

    fn turn(&self, cancel: CancellationToken) -> Turn {
        Turn {
            model: self.model.clone(),
            model_id: self.model_id.clone(),
            scope: Arc::new(CallScope {
                services: self.services.clone(),
                tools: self.tools.clone(),
                gate: self.gate.clone(),
                cancel,
                agent: AgentPath::default(),
            }),
            options: self.options.clone(),
            steering: self.steering.clone(),
            items: self.items.clone(),
            result_files: self.result_files.clone(),
        }
    }

    fn publish(&self, body: Body) {
        self.services.publish(&AgentPath::default(), body);
    }

    fn publish_opened(&self) {
        self.publish(Body::Opened(Arc::new(Opened {
            cwd: self.services.paths().cwd,
            model: self.model.facts(&self.model_id).id,
            mode: self.gate.mode(),
            tools: self.tools.offered().map(|tool| tool.name().to_owned()).collect(),
            api_key_source: self.api_key_source.clone(),
        })));
    }

    fn publish_snapshot(&self, busy: bool) {
        self.snapshot.send_replace(Arc::new(Snapshot {
            busy,
            mode: self.gate.mode(),
            model: self.model_id.clone(),
            cwd: self.services.paths().cwd,
            context_tokens: self.conversation.context_tokens,
            by_model: self.conversation.ledger.by_model(),
            tasks: self.services.tasks.all().iter().map(|task| task.view()).collect(),
        }));
    }

    /// Background work gets a short grace, then everything ends and everything is written.
    async fn close(mut self) {
        let tasks = self.services.tasks.running();
        let all_ended = async {
            for task in &tasks {
                task.finished().await;
            }
        };
        // Whoever interrupted the turn wants to go now.
        let patience = if self.interrupted { Duration::ZERO } else { TASK_GRACE };
        let ended = tokio::select! {
            biased;
            () = all_ended => true,
            () = interrupt(&mut self.inbox) => false,
            // Running out of grace is the normal end of a server left in the background.
            () = tokio::time::sleep(patience) => false,
        };
        if !ended {
            let running = self.services.tasks.running();
            let names: Vec<String> = running.iter().map(|task| format!("{} ({})", task.id, task.description)).collect();
            let text = format!("stopped what still ran in the background: {}", names.join(", "));
            self.publish(Body::Notice(Notice { level: Level::Warning, text }));
        }
        self.services.close().await;
        self.conversation.record.close().await;
        self.tell_trouble();
        self.publish(Body::Closed);
    }
}

/// Waits for someone who does not want to wait any longer.
async fn interrupt(inbox: &mut mpsc::UnboundedReceiver<Op>) {
    loop {
        match inbox.recv().await {
            Some(Op::Interrupt) => return,
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}

/// Changes the mode, or says why not.
fn set_mode(gate: &Gate, services: &Services, mode: PermissionMode) {
    if !gate.set_mode(mode) {
        let text = format!("the mode {mode} cannot be chosen in this session; the mode stays {}", gate.mode());
        services.publish(&AgentPath::default(), Body::Notice(Notice { level: Level::Warning, text }));
    }
}
