//! The actor that owns one session. Nobody else changes it; everyone else sends operations and reads events.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use gimlet_proto::{
    AgentPath, AgentSpec, Answer, AskBody, Body, CacheTtl, Driver, DriverHook, Env, Hub, Leaving, Level, Model, Notice,
    Op, Opened, Say, SessionHandle, SessionId, Snapshot, Thinking, ToolDef, TurnReport, enclosed,
};
use gimlet_store::{Checkpoints, ResultFiles, ToolOutputs, keep_newest_pictures};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::SessionState;
use super::desk::{Call, Desk, Switches};
use crate::agents::{AgentHost, AgentSource, HostParts, MainAgent, Roster};
use crate::call::CallScope;
use crate::conversation::{Conversation, most_pictures};
use crate::dials::{Choice, Dials};
use crate::files::FileHabits;
use crate::gate::{Asked, Asks, Gate, HostGate, Permissions};
use crate::hooks::{HookEvent, HookSurroundings, Hooks, Occasion, StartSource};
use crate::marks::SERVER_INSTRUCTIONS;
use crate::past::PastCalls;
use crate::plans::Plans;
use crate::record::Record;
use crate::redact::Redactor;
use crate::sandboxing::Sandboxing;
use crate::services::{Processes, Services};
use crate::structured::OutputSchema;
use crate::tasks::Task;
use crate::tool::{Sign, ToolSet, ToolSource};
use crate::turn::{self, Turn, TurnOptions};

/// How long background work may go on after the last answer.
const TASK_GRACE: Duration = Duration::from_secs(5);

const AGENT_GRACE: Duration = Duration::from_secs(600);

/// How long hooks may take when the session ends, at least and at most; where gimlet has to go, never more than the least.
const END_HOOKS: Duration = Duration::from_millis(1_500);
const MAX_END_HOOKS: Duration = Duration::from_secs(60);

/// What a session is opened with. Everything is a value: the session reads no environment and no settings.
pub struct SessionConfig {
    pub id: SessionId,
    pub model: Arc<dyn Model>,
    /// An id or an alias.
    pub model_id: String,
    pub thinking: Thinking,
    pub effort: Option<String>,
    pub api_key_source: String,
    pub tools: ToolSet,
    /// Further tools, which may come and go.
    pub guests: Option<Arc<dyn ToolSource>>,
    /// Kinds of subagents that the caller defined; they win over built-in ones of the same name.
    pub agents: Vec<(String, AgentSpec)>,
    /// Frozen for the segment.
    pub system: Arc<[String]>,
    pub tool_defs: Arc<[ToolDef]>,
    pub env: Env,
    pub home: Option<PathBuf>,
    pub state: SessionState,
    pub permissions: Permissions,
    /// Someone can be asked.
    pub attended: bool,
    /// What ended in the background may begin a turn by itself; else it waits for the next prompt.
    pub wakes: bool,
    /// A prompt is at hand: what calls will need can come up beside the rest of the start.
    pub prompted: bool,
    pub options: TurnOptions,
    pub cache_ttl: Option<CacheTtl>,
    pub record: Record,
    /// History of a resumed session.
    pub history: Vec<gimlet_proto::Message>,
    /// What the model said behind it, when that is a call which a hook left for later: it runs when somebody speaks.
    pub deferred: Option<gimlet_proto::Message>,
    /// What the calls in it gave back.
    pub outputs: ToolOutputs,
    pub result_files: ResultFiles,
    pub processes: Processes,
    /// gimlet's own credentials, kept out of history.
    pub redactor: Redactor,
    /// The walls around commands.
    pub sandboxing: Option<Arc<Sandboxing>>,
    pub plans: Plans,
    /// Files and folders of the session's own, its plan among them: they may always be written, also by subagents.
    pub own: Vec<PathBuf>,
    /// The form that answers have to have. Its tool is among `tools`.
    pub output: Option<Arc<OutputSchema>>,
    /// Where files are kept as they were before they changed; `None` when nobody will go back.
    pub checkpoints: Option<Checkpoints>,
    pub file_habits: FileHabits,
    /// The program that drives the session, where there is one, and the hooks that it wants called at first.
    pub driver: Option<Arc<dyn Driver>>,
    pub hooks: Vec<DriverHook>,
    /// The agent that the main conversation runs as, if it does.
    pub main_agent: Option<MainAgent>,
    /// How the session came to be.
    pub source: StartSource,
}

/// Opens a session. The returned future is the session's life; the caller runs it.
pub fn open(mut config: SessionConfig) -> (SessionHandle, impl Future<Output = ()> + Send) {
    let (ops, inbox) = mpsc::unbounded_channel();
    let (ask_sender, asked) = mpsc::unbounded_channel();
    let hub = Hub::default();
    let dials =
        Dials::new(Choice { model: config.model_id, thinking: config.thinking, display: None, effort: config.effort });
    let hooks = Hooks::new(HookSurroundings {
        driver: config.driver,
        transcript: config.record.transcript().path().map(ToOwned::to_owned),
        files: Some(config.result_files.clone()),
        source: Some(config.source),
        agent: config.main_agent.as_ref().map(|agent| agent.name.clone()),
    });
    let mut remarks: Vec<String> = hooks.set_driver_hooks(&config.hooks).err().into_iter().collect();
    let most = most_pictures(config.model.facts(&dials.now().model).context_window);
    match keep_newest_pictures(&mut config.history, most) {
        0 => {}
        count => remarks.push(format!("the oldest {count} images are left out: the model takes {most} in a request")),
    }
    let history: Vec<_> = config.history.into_iter().map(Arc::new).collect();
    let (initial_prompt, main_launches) =
        config.main_agent.map_or((None, None), |agent| (agent.initial_prompt, agent.may_launch));
    let initial_prompt = initial_prompt.filter(|_| history.is_empty());
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
        .with_walls(config.sandboxing)
        .with_plans(&config.plans)
        .with_own(config.own)
        .with_checkpoints(config.checkpoints)
        .with_file_habits(config.file_habits)
        .with_hooks(hooks),
    );
    let roster = Roster::built_in(&services.env).with(AgentSource::Caller, config.agents);
    let gate = Arc::new(Gate::new(config.permissions, &config.model, config.attended.then_some(ask_sender)));
    let snapshot = watch::Sender::new(Arc::default());
    let handle = SessionHandle::new(config.id.clone(), ops, hub, snapshot.subscribe());
    let items = Arc::default();
    let own_defs = config.tool_defs.clone();
    let mut conversation = Conversation::new(config.record, config.system, config.tool_defs, history, config.cache_ttl);
    conversation.told_planning = config.plans.was_planning;
    conversation.opening_prompt = initial_prompt;
    if let Some(asking) = config.deferred {
        conversation.leave_waiting(asking.blocks);
    }
    let host = Arc::new(AgentHost::new(HostParts {
        model: &config.model,
        roster,
        main_launches,
        env: &services.env,
        options: &config.options,
        items: &items,
        result_files: &config.result_files,
        transcripts: conversation.record.agents(),
        cache_ttl: config.cache_ttl,
        ledger: &conversation.ledger,
    }));
    services.walls().ask_about_hosts(Arc::new(HostGate::new(&gate, &services, &dials, &host)));
    if config.prompted {
        config.tools.offered().for_each(|tool| tool.anticipate(Sign::Prompted, &services));
    }
    let steering = services.mailboxes().main().clone();
    let actor = Actor {
        desk: Desk {
            services,
            gate,
            asks: Asks::default(),
            steering,
            dials,
            gauge: conversation.gauge.clone(),
            model: config.model.clone(),
            host: host.clone(),
            guests: config.guests,
            agents: conversation.record.agents(),
            switches: Switches::default(),
            cleared: false,
        },
        inbox,
        asked,
        conversation,
        model: config.model,
        api_key_source: config.api_key_source,
        own_tools: (config.tools.clone(), own_defs),
        tools: config.tools,
        host,
        options: config.options,
        items,
        result_files: config.result_files,
        output: config.output,
        snapshot,
        wakes: config.wakes,
        remarks,
        closing: false,
        interrupted: false,
        leaving: handle.leaving(),
    };
    // Whoever looks before the session's life begins sees where it will be.
    actor.publish_snapshot(false);
    (handle, actor.run())
}

struct Actor {
    desk: Desk,
    inbox: mpsc::UnboundedReceiver<Op>,
    asked: mpsc::UnboundedReceiver<Asked>,
    conversation: Conversation,
    model: Arc<dyn Model>,
    api_key_source: String,
    /// What is offered in this turn.
    tools: ToolSet,
    /// What is always offered.
    own_tools: (ToolSet, Arc<[ToolDef]>),
    host: Arc<AgentHost>,
    options: TurnOptions,
    items: Arc<AtomicU64>,
    result_files: ResultFiles,
    output: Option<Arc<OutputSchema>>,
    snapshot: watch::Sender<Arc<Snapshot>>,
    wakes: bool,
    /// What is wrong with what the session was opened with.
    remarks: Vec<String>,
    closing: bool,
    /// The last turn was stopped before its end, or somebody wanted to go after it.
    interrupted: bool,
    leaving: Leaving,
}

impl Actor {
    async fn run(mut self) {
        let mut leaving = self.leaving.clone();
        let left = tokio::select! {
            biased;
            // The turn stays where it is: before its commands are killed it must stop listening to them.
            () = leaving.wanted() => true,
            () = self.live() => false,
        };
        if left {
            self.desk.asks.close_all(&self.desk.services);
            self.desk.services.abandon().await;
            self.tell_hooks_of_the_end().await;
        } else {
            self.tell_hooks_of_the_end().await;
            self.desk.services.close().await;
        }
        self.conversation.record.close().await;
        self.tell_trouble();
        self.publish(Body::Closed);
    }

    /// Turn after turn, until nobody wants another.
    async fn live(&mut self) {
        for text in std::mem::take(&mut self.remarks) {
            self.publish(Body::Notice(Notice { level: Level::Warning, text }));
        }
        self.ask_for_trust().await;
        while !self.closing {
            let said = match self.next_in_line() {
                Some(said) => Some(said),
                None => self.wait_for_words().await,
            };
            match said {
                Some(said) if said.silent => self.take_in(said),
                Some(said) if self.may_begin_turn(&said) => self.run_turn(said).await,
                Some(notice) => self.desk.steering.push(notice),
                None => {}
            }
        }
        self.wind_up().await;
    }

    /// Before anything else: may what this folder's files name be used? Until the answer is yes, nothing of it is.
    async fn ask_for_trust(&mut self) {
        let Some(question) = self.desk.gate.trust_question() else { return };
        let (reply, mut answer) = oneshot::channel();
        let asked = Asked { agent: AgentPath::default(), body: AskBody::Trust(question), reply };
        let Self { desk, inbox, closing, .. } = self;
        desk.asks.open(asked, &desk.services);
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => {
                    if matches!(answer, Ok(Answer::Yes(_))) {
                        desk.gate.accept_trust(&desk.services).await;
                    }
                    return;
                }
                op = inbox.recv() => match desk.take(op) {
                    Some(Call::Said(said)) => desk.steering.push(said),
                    // Whoever does not want to answer has not said yes.
                    Some(Call::Interrupt) => desk.asks.close_all(&desk.services),
                    Some(Call::Close) => {
                        *closing = true;
                        desk.asks.close_all(&desk.services);
                    }
                    None => {}
                },
            }
        }
    }

    fn next_in_line(&self) -> Option<Say> {
        if self.wakes { self.desk.steering.pop() } else { self.desk.steering.pop_words() }
    }

    /// With nobody there, the answer that was asked for is the last word: a notice waits for the next prompt instead of
    /// beginning a turn of its own behind it.
    fn may_begin_turn(&self, said: &Say) -> bool {
        self.wakes || !said.synthetic
    }

    /// Something to be known, without a turn.
    fn take_in(&mut self, said: Say) {
        let turn = self.turn(CancellationToken::new());
        turn::take_note(&mut self.conversation, &turn, said);
    }

    /// Idle: handles operations until something is said.
    async fn wait_for_words(&mut self) -> Option<Say> {
        let Self { desk, inbox, asked, .. } = self;
        let model_changed = desk.switches.made.clone();
        let op = tokio::select! {
            biased;
            // Before whatever its answer leads to.
            () = model_changed.notified() => {
                self.publish_snapshot(false);
                return None;
            }
            op = inbox.recv() => op,
            // Agents in the background have questions too.
            Some(ask) = asked.recv() => {
                desk.asks.open(ask, &desk.services);
                return None;
            }
            _ = desk.asks.abandoned() => {
                desk.asks.close_abandoned(&desk.services);
                return None;
            }
        };
        match self.desk.take(op) {
            Some(Call::Said(said)) => return Some(said),
            // Nothing runs, unless in the background: whoever closes the session next does not want to wait for that.
            Some(Call::Interrupt) => {
                self.desk.asks.close_all(&self.desk.services);
                self.interrupted = true;
            }
            Some(Call::Close) => self.closing = true,
            None => self.publish_snapshot(false),
        }
        None
    }

    /// One turn, with the inbox open all along.
    async fn run_turn(&mut self, said: Say) {
        let cancel = CancellationToken::new();
        // From here on the session is at work, whatever it waits for first.
        self.publish_snapshot(true);
        self.invite_guests(&cancel).await;
        self.publish(Body::Opened(Arc::new(self.opened())));
        self.tell_of_guests();
        let turn = self.turn(cancel.clone());
        let Self { conversation, inbox, asked, desk, closing, .. } = self;
        let report = {
            let mut running = Box::pin(turn::run(conversation, &turn, said));
            loop {
                tokio::select! {
                    report = &mut running => break report,
                    Some(ask) = asked.recv() => desk.asks.open(ask, &desk.services),
                    // Whatever was stopped has no questions any more; agents in the background may still have some.
                    _ = desk.asks.abandoned() => desk.asks.close_abandoned(&desk.services),
                    op = inbox.recv() => *closing |= desk.take_during(op, &cancel),
                }
                if cancel.is_cancelled() {
                    // A command's question about a host does not know of the turn; nobody will wait for its answer.
                    desk.asks.close_main(&desk.services);
                }
            }
        };
        desk.asks.close_abandoned(&desk.services);
        self.interrupted = cancel.is_cancelled();
        self.finish_turn(report);
    }

    /// Finds out which guests there are. Whoever interrupts does not wait for them, nor does the turn that follows.
    async fn invite_guests(&mut self, cancel: &CancellationToken) {
        let Some(source) = self.desk.guests.clone() else { return };
        let mut looking = source.tools();
        let Self { desk, inbox, asked, closing, .. } = self;
        let guests = loop {
            tokio::select! {
                guests = &mut looking => break guests,
                () = cancel.cancelled() => return,
                // Agents in the background go on meanwhile.
                Some(ask) = asked.recv() => desk.asks.open(ask, &desk.services),
                _ = desk.asks.abandoned() => desk.asks.close_abandoned(&desk.services),
                op = inbox.recv() => *closing |= desk.take_during(op, cancel),
            }
        };
        let (own, defs) = &self.own_tools;
        // Two servers may come to one name: what is sent and what can be called must be the same list.
        let guests = own.newcomers(guests.into_iter().filter(|guest| !self.desk.gate.removes_tool(&**guest)));
        self.tools = own.with_guests(&guests).without(source.absent());
        self.conversation.offer(crate::context::with_guests(defs, &guests));
        // Who has nothing to offer has nothing to say.
        let is_here = |server: &str| guests.iter().any(|guest| guest.server().is_some_and(|of| of.name == server));
        for (server, said) in source.instructions().into_iter().filter(|(server, _)| is_here(server)) {
            let text = format!("The server '{server}' says this about using its tools:\n{said}");
            self.conversation.say_once(enclosed(SERVER_INSTRUCTIONS, &text));
        }
    }

    /// What there is to say about guests, and about those that did not come.
    fn tell_of_guests(&self) {
        let Some(source) = &self.desk.guests else { return };
        let news = source.news();
        self.desk.gate.forget_allowed(&self.desk.services, &news.changed);
        news.notices.into_iter().for_each(|notice| self.publish(Body::Notice(notice)));
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
            dials: self.desk.dials.clone(),
            scope: Arc::new(CallScope {
                services: self.desk.services.clone(),
                tools: self.tools.clone(),
                gate: self.desk.gate.clone(),
                cancel,
                agent: AgentPath::default(),
                subagent: None,
                dials: self.desk.dials.clone(),
                host: self.host.clone(),
            }),
            options: self.options.clone(),
            steering: self.desk.steering.clone(),
            items: self.items.clone(),
            result_files: self.result_files.clone(),
            output: self.output.clone(),
        }
    }

    fn publish(&self, body: Body) {
        self.desk.services.publish(&AgentPath::default(), body);
    }

    /// What a turn that begins now runs in.
    fn opened(&self) -> Opened {
        Opened {
            cwd: self.desk.services.paths().cwd,
            model: self.model.facts(&self.desk.model_name()).id,
            mode: self.desk.gate.mode(),
            tools: self.tools.offered().map(|tool| tool.listed_as().to_owned()).collect(),
            servers: self.desk.guests.as_ref().map(|guests| guests.servers()).unwrap_or_default(),
            agents: self.desk.gate.offers(self.host.roster()).into_iter().map(|offer| offer.name).collect(),
            api_key_source: self.api_key_source.clone(),
        }
    }

    fn publish_snapshot(&self, busy: bool) {
        self.snapshot.send_replace(Arc::new(Snapshot {
            busy,
            mode: self.desk.gate.mode(),
            model: self.desk.dials.now().model,
            cwd: self.desk.services.paths().cwd,
            context_tokens: self.conversation.context_tokens,
            by_model: self.conversation.ledger.by_model(),
            tasks: self.desk.services.tasks.all().iter().map(|task| task.view()).collect(),
            opened: self.opened(),
        }));
    }

    async fn tell_hooks_of_the_end(&mut self) {
        let services = self.desk.services.clone();
        let hooks = services.hooks();
        if !hooks.has_begun() && !self.desk.cleared {
            return;
        }
        let Some(longest) = hooks.longest_chosen(HookEvent::SessionEnd) else { return };
        let scope = self.turn(CancellationToken::new()).scope;
        let budget = end_budget(&services.env, longest);
        let end = Occasion::SessionEnd { reason: if self.desk.cleared { "clear" } else { "other" } };
        let told = hooks.fire(&scope, &end);
        let mut leaving = self.leaving.clone();
        let hurry = async {
            leaving.wanted().await;
            tokio::time::sleep(END_HOOKS).await;
        };
        // Hooks that are not done by then are withdrawn.
        tokio::select! {
            _ = tokio::time::timeout(budget, told) => {}
            () = hurry => {}
        }
    }

    /// Background work gets a short grace.
    async fn wind_up(&mut self) {
        self.desk.withdraw_all();
        let (agents, commands): (Vec<_>, Vec<_>) =
            self.desk.services.tasks.running().into_iter().partition(|task| task.agent.is_some());
        let graces = async {
            // Whoever interrupted the turn wants to go now.
            if !self.interrupted {
                all_ended(&agents, agent_patience(&self.desk.services.env, self.wakes)).await;
                // Running out of grace is the normal end of a server left in the background.
                all_ended(&commands, TASK_GRACE).await;
            }
        };
        tokio::select! {
            biased;
            () = graces => {}
            () = interrupt(&mut self.inbox) => {}
        }
        let running = self.desk.services.tasks.running();
        if !running.is_empty() {
            let names: Vec<String> = running.iter().map(|task| format!("{} ({})", task.id, task.description)).collect();
            let text = format!("stopped what still ran in the background: {}", names.join(", "));
            self.publish(Body::Notice(Notice { level: Level::Warning, text }));
        }
    }
}

/// How long agents in the background may go on after the last answer. Whoever could have waited for them and closed the
/// session does not want them any more; with nobody there, their work is what the run was for.
fn agent_patience(env: &Env, wakes: bool) -> Duration {
    match env.integer("CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS") {
        _ if wakes => TASK_GRACE,
        Some(0) => Duration::MAX,
        Some(limit) => Duration::from_millis(limit),
        None => AGENT_GRACE,
    }
}

/// Waits until these have ended, or for so long.
async fn all_ended(tasks: &[Arc<Task>], patience: Duration) {
    let ends = async {
        for task in tasks {
            task.finished().await;
        }
    };
    // Either way the caller looks at what still runs.
    drop(tokio::time::timeout(patience, ends).await);
}

/// How long hooks may look at the end of a session altogether: as long as the slowest of them asked for, within limits.
fn end_budget(env: &Env, longest: Duration) -> Duration {
    let wanted = env.integer("CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS");
    wanted.map_or(longest.clamp(END_HOOKS, MAX_END_HOOKS), Duration::from_millis)
}

/// Waits for someone who does not want to wait any longer.
async fn interrupt(inbox: &mut mpsc::UnboundedReceiver<Op>) {
    loop {
        match inbox.recv().await {
            Some(Op::Interrupt { .. }) => return,
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}
