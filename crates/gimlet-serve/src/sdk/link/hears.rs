//! What the host says: prompts, requests, answers, and the end of its lines.

use gimlet_proto::{DriverError, Op, Reply};
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use super::{Done, Link, Phase, refuse};
use crate::sdk::fit;
use crate::sdk::frames::{self, HostAnswer};
use crate::sdk::initialize::{self, Initialize};
use crate::sdk::lines::{HostLine, LineError};
use crate::sdk::permission;
use crate::sdk::prompts::{self, Prompt};
use crate::sdk::requests::{self, Routed};

/// An answer has to repeat the id of its request, and to fit into a line with it.
const LONGEST_ID: usize = 10_000;

impl Link {
    pub(super) async fn line(&mut self, line: Option<Result<HostLine, LineError>>) {
        match line {
            Some(Ok(line)) => self.host_line(line).await,
            Some(Err(error)) => {
                // Whatever follows could mean anything.
                self.remark = Some(error.to_string());
                self.end_of_lines();
                self.forget_waiting().await;
                self.close();
            }
            None => {
                self.end_of_lines();
                self.note_eliciting().await;
                self.settle();
            }
        }
    }

    /// Nothing that is asked now will be answered; what was accepted is finished all the same.
    pub(super) fn end_of_lines(&mut self) {
        self.ended = true;
        self.host.close();
        self.wire.host_leaves();
        self.refuse_open();
    }

    /// The host need not answer what it was asked about calls.
    pub(super) fn refuse_open(&mut self) {
        for (_, question) in self.questions.drain() {
            refuse(&self.session, question.ask);
        }
    }

    /// The running turn stops, and what waits will not be taken up.
    pub(super) async fn forget_waiting(&mut self) {
        self.forgets = true;
        self.discard_waiting().await;
        self.session.send(Op::Interrupt { cancel_queued: true, stop_agents: false, reply: Reply::nobody() });
    }

    /// Prompts that wait here will never have their turn.
    pub(super) async fn discard_waiting(&mut self) {
        for prompt in std::mem::take(&mut self.waiting) {
            let told = prompt.id().map(|id| self.lifecycle.discarded(id, &self.session.id));
            self.write_all(told.unwrap_or_default()).await;
        }
    }

    pub(super) async fn host_line(&mut self, line: HostLine) {
        let kind = line.kind();
        if kind.as_deref() == Some("control_response") {
            if let Some(answer) = frames::read_answer(&line) {
                self.answered(answer).await;
            }
            return;
        }
        if self.left || self.interrupted || !matches!(self.phase, Phase::Live) {
            self.held.push_back(line);
            return;
        }
        match kind.as_deref() {
            Some("user") => self.prompt(&line).await,
            Some("control_request") => self.request(&line).await,
            Some("control_cancel_request") => {
                let id: Value = line.get("request_id").unwrap_or(Value::Null);
                if let Some(work) = self.take_under_way(&id) {
                    work.abort();
                }
            }
            // A sign of life, or a line that another version of us understands.
            Some(_) | None => {}
        }
    }

    pub(super) async fn answered(&mut self, HostAnswer { id, outcome }: HostAnswer) {
        let Some(question) = self.questions.remove(&id) else {
            // Nobody's: it crossed our withdrawal, or was never asked.
            self.host.answer(&id, outcome.map_err(DriverError::Failed));
            return self.note_eliciting().await;
        };
        // A program that says that it failed has been asked, and its word is a no.
        let answer = match outcome {
            Err(error) => permission::no(error, false),
            answered => question.read(answered),
        };
        self.session.send(Op::Answer { ask: question.ask, answer });
        self.tell_state().await;
    }

    pub(super) async fn prompt(&mut self, line: &HostLine) {
        let prompt = prompts::read_prompt(line);
        if let Some(id) = prompt.id()
            && !self.seen.insert(id.clone())
        {
            return;
        }
        self.begun = true;
        // Only whoever gave a prompt an id can make something of what becomes of it.
        if let Some(id) = prompt.id().filter(|id| line.text("uuid").as_deref() == Some(id.as_str())) {
            let told = self.lifecycle.queued(id, prompt.is_silent(), &self.session.id);
            self.write(told).await;
        }
        match prompt {
            Prompt::Say(say) if self.waiting.is_empty() => self.session.send(Op::Say(say)),
            prompt => {
                self.waiting.push_back(prompt);
                self.settle();
            }
        }
    }

    pub(super) async fn request(&mut self, line: &HostLine) {
        let id: Value = line.get("request_id").unwrap_or(Value::Null);
        if id.to_string().len() > LONGEST_ID {
            let problem = Err(format!("a control request whose request_id has more than {LONGEST_ID} bytes"));
            return self.write(frames::answer(&Value::Null, problem)).await;
        }
        let request = requests::members(line);
        let subtype = request.as_ref().and_then(|request| request.text("subtype"));
        let (Some(request), Some(subtype)) = (request, subtype) else {
            let problem = Err("a control request without a subtype".to_owned());
            return self.write(frames::answer(&id, problem)).await;
        };
        let routed = match subtype.as_str() {
            "initialize" => return self.greet(&id, &request).await,
            "interrupt" => {
                let cancel_queued = request.flag("cancel_queued");
                let held = self.waiting.iter().filter_map(Prompt::id).cloned().collect();
                if cancel_queued {
                    for prompt in std::mem::take(&mut self.waiting) {
                        self.tell_cancelled(&prompt).await;
                    }
                }
                requests::interrupt(&self.session, cancel_queued, !self.stops_tasks, held)
            }
            "cancel_async_message" if self.withdraw_waiting(&request).await => {
                Routed::Now(Ok(json!({"cancelled": true})))
            }
            "apply_flag_settings" => {
                let routed = requests::apply_settings(&request, &self.session, &self.backstage);
                self.show_output_style();
                routed
            }
            "get_usage" => Routed::Now(Ok(self.tally.render(&self.session.snapshot().by_model))),
            "list_models" => Routed::Now(Ok(json!({"models": self.welcome.models}))),
            "reload_plugins" | "reload_skills" | "reload_output_styles" => {
                Routed::Now(requests::reload(&subtype, &request, &self.welcome, &self.backstage))
            }
            _ => requests::route(&subtype, &request, &self.session, &self.backstage),
        };
        match routed {
            Routed::Now(outcome) => self.write(fit::answer(&id, outcome)).await,
            Routed::Later(answer) => {
                let asked = id.clone();
                let work = self.replies.spawn(async move { Done::Answer { id, outcome: answer.await } });
                self.under_way.push((asked, work));
            }
            Routed::Receipt(answer) => {
                // What has been sent cannot be taken back, so its answer is not either.
                self.receipts += 1;
                self.replies.spawn(async move { Done::Receipt { id, outcome: answer.await } });
            }
        }
    }

    /// The work on a request, which is not under way any more.
    pub(super) fn take_under_way(&mut self, id: &Value) -> Option<AbortHandle> {
        let at = self.under_way.iter().position(|(asked, _)| asked == id)?;
        Some(self.under_way.remove(at).1)
    }

    /// The output style is told as settings name it now.
    fn show_output_style(&mut self) {
        if let Some(style) = self.backstage.output_style() {
            self.wire.set_output_style(&style);
            self.welcome.output_style = style;
        }
    }

    /// Forgets a prompt that waits here and not in the session; says whether it was one.
    async fn withdraw_waiting(&mut self, request: &HostLine) -> bool {
        let Some(wanted) = request.text("message_uuid") else { return false };
        let at = self.waiting.iter().position(|prompt| prompt.id().is_some_and(|id| id.as_str() == wanted));
        let Some(prompt) = at.and_then(|at| self.waiting.remove(at)) else { return false };
        self.tell_cancelled(&prompt).await;
        true
    }

    async fn tell_cancelled(&mut self, prompt: &Prompt) {
        let told = prompt.id().map(|id| self.lifecycle.cancelled(id, &self.session.id));
        self.write_all(told.unwrap_or_default()).await;
    }

    /// The session was opened with a greeting that came first. What another one wants is done as far as it still can be;
    /// when something cannot, nothing is.
    pub(super) async fn greet(&mut self, id: &Value, request: &HostLine) {
        let wishes = Initialize::read(request);
        let again = std::mem::replace(&mut self.welcomed, true);
        if std::mem::take(&mut self.greeted) {
            return self.tell_welcome(id, &wishes).await;
        }
        if let Err(problem) = self.backstage.check_hooks(&wishes) {
            return self.write(fit::answer(id, Err(problem))).await;
        }
        let reshapes = wishes.reshapes(&self.wishes, self.begun);
        if reshapes.is_empty() {
            self.heed(&wishes);
            self.tell_welcome(id, &wishes).await;
            let tasks = self.wire.background_tasks(&self.session.id).filter(|_| again);
            self.write_all(tasks.into_iter().collect()).await;
        } else if self.begun {
            let problem = format!("initialize came after the first prompt, too late for: {}", reshapes.join(", "));
            self.write(fit::answer(id, Err(problem))).await;
        } else if let Err(problem) = self.backstage.check_shape(&wishes) {
            // While there still is a session that can go on.
            self.write(fit::answer(id, Err(problem))).await;
        } else {
            self.change_shape(id, wishes);
        }
    }

    /// What can change in a session that is there.
    pub(super) fn heed(&mut self, wishes: &Initialize) {
        if let Some(hooks) = wishes.hooks.clone() {
            self.hooks = Some(hooks.clone());
            self.session.send(Op::SetHooks { hooks, reply: Reply::nobody() });
        }
        if let Some(servers) = self.backstage.servers() {
            servers.admit(&wishes.sdk_mcp_servers, &wishes.sdk_mcp_server_configs);
        }
        self.stops_tasks = wishes.per_task_stop.unwrap_or(self.stops_tasks);
        if wishes.forward_subagent_text == Some(true) {
            self.wire.show_subagent_text();
        }
        if let Some(title) = &wishes.title {
            // A session that is not kept has no title.
            drop(self.backstage.entitle(&self.session.id, title));
        }
    }

    pub(super) async fn tell_welcome(&mut self, id: &Value, wishes: &Initialize) {
        let response = self.welcome.response(wishes);
        let open = self.questions.values().map(|question| question.line.as_str());
        let (welcome, left) = initialize::welcome_lines(id, &response, open);
        self.write(welcome).await;
        self.write_all(left).await;
    }
}
