//! Lines from the host: prompts, requests, answers, and the end of input.

use gimlet_proto::{AskAnswer, DriverError, Op, OpReply};
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use super::{FinishedWork, SdkSession, SessionPhase, deny_ask};
use crate::sdk::control_frames::{self, ControlAnswer};
use crate::sdk::control_requests::{self, RoutedAnswer};
use crate::sdk::elicitation_request;
use crate::sdk::host_lines::{HostLine, HostLineError};
use crate::sdk::host_prompt::{self, HostPrompt};
use crate::sdk::initialize::{self, InitializeRequest};
use crate::sdk::permission_question;
use crate::sdk::truncate;

/// Maximum length of a request id: an answer has to repeat it and still fit into a line.
const LONGEST_ID: usize = 10_000;

impl SdkSession {
    pub(super) async fn handle_line(&mut self, line: Option<Result<HostLine, HostLineError>>) {
        match line {
            Some(Ok(line)) => self.handle_host_line(line).await,
            Some(Err(error)) => {
                // Later lines cannot be interpreted reliably.
                self.remark = Some(error.to_string());
                self.handle_input_end();
                self.interrupt_and_discard().await;
                self.close_session();
            }
            None => {
                let was_eliciting = !self.elicitations.is_empty();
                self.handle_input_end();
                if was_eliciting {
                    self.write_state().await;
                }
                self.check_idle();
            }
        }
    }

    /// Handles the end of input: open and later questions are not answered; accepted prompts are still finished.
    pub(super) fn handle_input_end(&mut self) {
        self.input_ended = true;
        self.host.close();
        self.wire.mark_host_left();
        self.deny_open_asks();
        for (_, ask) in self.elicitations.drain() {
            let answer = AskAnswer::NotAsked(DriverError::Closed.to_string());
            self.session.send(Op::Answer { ask, answer });
        }
    }

    /// Denies the open permission questions, so that the host need not answer them.
    pub(super) fn deny_open_asks(&mut self) {
        for (_, question) in self.questions.drain() {
            deny_ask(&self.session, question.ask);
        }
    }

    /// Interrupts the running turn and discards the waiting prompts.
    pub(super) async fn interrupt_and_discard(&mut self) {
        self.discards_waiting = true;
        self.discard_waiting_prompts().await;
        self.session.send(Op::Interrupt { cancel_queued: true, stop_agents: false, reply: OpReply::ignored() });
    }

    /// Discards the prompts that wait here; they are never started.
    pub(super) async fn discard_waiting_prompts(&mut self) {
        for prompt in std::mem::take(&mut self.waiting) {
            let told = prompt.id().map(|id| self.lifecycle.mark_discarded(id, &self.session.id));
            self.write_lines(told.unwrap_or_default()).await;
        }
    }

    pub(super) async fn handle_host_line(&mut self, line: HostLine) {
        let kind = line.kind();
        if kind.as_deref() == Some("control_response") {
            if let Some(answer) = control_frames::parse_answer(&line) {
                self.handle_answer(answer).await;
            }
            return;
        }
        if self.is_leaving || self.interrupted || !matches!(self.phase, SessionPhase::Live) {
            self.held_lines.push_back(line);
            return;
        }
        match kind.as_deref() {
            Some("user") => self.handle_prompt(&line).await,
            Some("control_request") => self.handle_request(&line).await,
            Some("control_cancel_request") => {
                let id: Value = line.get("request_id").unwrap_or(Value::Null);
                if let Some(work) = self.take_running_request(&id) {
                    work.abort();
                }
            }
            // A keep-alive, or a line that only another version understands.
            Some(_) | None => {}
        }
    }

    pub(super) async fn handle_answer(&mut self, ControlAnswer { id, outcome }: ControlAnswer) {
        if let Some(ask) = self.elicitations.remove(&id) {
            self.session.send(Op::Answer { ask, answer: elicitation_request::parse_answer(outcome) });
            return self.write_state().await;
        }
        let Some(question) = self.questions.remove(&id) else {
            // Not a question: another pending request, or none if the answer crossed our withdrawal.
            self.host.deliver_answer(&id, outcome.map_err(DriverError::Failed));
            return;
        };
        // A host that reports a failure was asked; the failure counts as a denial.
        let answer = match outcome {
            Err(error) => permission_question::deny(error, false),
            answered => question.parse_answer(answered),
        };
        self.session.send(Op::Answer { ask: question.ask, answer });
        self.write_state().await;
    }

    pub(super) async fn handle_prompt(&mut self, line: &HostLine) {
        let prompt = host_prompt::parse_prompt(line, &self.session.snapshot().commands);
        if let Some(id) = prompt.id()
            && !self.seen_prompts.insert(id.clone())
        {
            return;
        }
        self.has_prompts = true;
        // Only a host that gave a prompt an id can use reports about its lifecycle.
        if let Some(id) = prompt.id().filter(|id| line.text("uuid").as_deref() == Some(id.as_str())) {
            let told = self.lifecycle.mark_queued(id, prompt.is_silent(), &self.session.id);
            self.write_line(told).await;
        }
        match prompt {
            HostPrompt::Say(say) if self.waiting.is_empty() => self.session.send(Op::Submit(say)),
            prompt => {
                self.waiting.push_back(prompt);
                self.check_idle();
            }
        }
    }

    pub(super) async fn handle_request(&mut self, line: &HostLine) {
        let id: Value = line.get("request_id").unwrap_or(Value::Null);
        if id.to_string().len() > LONGEST_ID {
            let problem = Err(format!("a control request whose request_id has more than {LONGEST_ID} bytes"));
            return self.write_line(control_frames::answer_line(&Value::Null, problem)).await;
        }
        let request = control_requests::parse_request(line);
        let subtype = request.as_ref().and_then(|request| request.text("subtype"));
        let (Some(request), Some(subtype)) = (request, subtype) else {
            let problem = Err("a control request without a subtype".to_owned());
            return self.write_line(control_frames::answer_line(&id, problem)).await;
        };
        let routed = match subtype.as_str() {
            "initialize" => return self.handle_initialize(&id, &request).await,
            "interrupt" => {
                let cancel_queued = request.is_set("cancel_queued");
                let held = self.waiting.iter().filter_map(HostPrompt::id).cloned().collect();
                if cancel_queued {
                    for prompt in std::mem::take(&mut self.waiting) {
                        self.write_cancelled(&prompt).await;
                    }
                }
                control_requests::interrupt_turn(&self.session, cancel_queued, !self.has_task_stop, held)
            }
            "cancel_async_message" if self.withdraw_waiting_prompt(&request).await => {
                RoutedAnswer::Now(Ok(json!({"cancelled": true})))
            }
            "apply_flag_settings" => {
                let routed = control_requests::apply_settings(&request, &self.session, &self.backend);
                self.refresh_output_style();
                routed
            }
            "get_usage" => RoutedAnswer::Now(Ok(self.usage.render(&self.session.snapshot().by_model))),
            "list_models" => RoutedAnswer::Now(Ok(json!({"models": self.initialize_response.models}))),
            "reload_plugins" | "reload_skills" | "reload_output_styles" => {
                RoutedAnswer::Now(control_requests::answer_reload(
                    &subtype,
                    &request,
                    &self.initialize_response,
                    &self.session.snapshot().commands,
                    &self.backend,
                ))
            }
            _ => control_requests::route_request(&subtype, &request, &self.session, &self.backend),
        };
        match routed {
            RoutedAnswer::Now(outcome) => self.write_line(truncate::truncate_answer(&id, outcome)).await,
            RoutedAnswer::Later(answer) => {
                let asked = id.clone();
                let work = self.replies.spawn(async move { FinishedWork::Answer { id, outcome: answer.await } });
                self.running_requests.push((asked, work));
            }
            RoutedAnswer::Receipt(answer) => {
                // A sent interrupt cannot be taken back, so neither can its answer.
                self.open_receipts += 1;
                self.replies.spawn(async move { FinishedWork::Receipt { id, outcome: answer.await } });
            }
        }
    }

    /// Removes a request from those in progress and returns its abort handle.
    pub(super) fn take_running_request(&mut self, id: &Value) -> Option<AbortHandle> {
        let at = self.running_requests.iter().position(|(asked, _)| asked == id)?;
        Some(self.running_requests.remove(at).1)
    }

    /// Updates the reported output style to the one in the settings.
    fn refresh_output_style(&mut self) {
        if let Ok(settings) = self.backend.settings() {
            self.wire.set_output_style(&settings.output_style);
            self.initialize_response.output_style = settings.output_style;
        }
    }

    /// Withdraws a prompt that waits here and not in the session; returns true if there was one.
    async fn withdraw_waiting_prompt(&mut self, request: &HostLine) -> bool {
        let Some(wanted) = request.text("message_uuid") else { return false };
        let at = self.waiting.iter().position(|prompt| prompt.id().is_some_and(|id| id.as_str() == wanted));
        let Some(prompt) = at.and_then(|at| self.waiting.remove(at)) else { return false };
        self.write_cancelled(&prompt).await;
        true
    }

    async fn write_cancelled(&mut self, prompt: &HostPrompt) {
        let told = prompt.id().map(|id| self.lifecycle.mark_cancelled(id, &self.session.id));
        self.write_lines(told.unwrap_or_default()).await;
    }

    /// Handles an initialize request. The session was opened with a request that came first; a later one is applied as
    /// far as still possible, and not at all if any part of it is impossible.
    pub(super) async fn handle_initialize(&mut self, id: &Value, request: &HostLine) {
        let wishes = InitializeRequest::from_request(request);
        let again = std::mem::replace(&mut self.is_initialized, true);
        if std::mem::take(&mut self.first_initialize_applied) {
            return self.write_initialize_response(id, &wishes).await;
        }
        if let Err(problem) = wishes.check_hooks(|hooks| self.backend.check_hooks(hooks)) {
            return self.write_line(truncate::truncate_answer(id, Err(problem))).await;
        }
        let reshapes = wishes.fixed_members(&self.opened_with, self.has_prompts);
        if reshapes.is_empty() {
            self.apply_initialize(&wishes);
            self.write_initialize_response(id, &wishes).await;
            let tasks = if again { self.wire.background_tasks_line(&self.session.id) } else { None };
            self.write_lines(tasks.into_iter().collect()).await;
        } else if self.has_prompts {
            let problem = format!("initialize came after the first prompt, too late for: {}", reshapes.join(", "));
            self.write_line(truncate::truncate_answer(id, Err(problem))).await;
        } else if let Err(problem) = self.backend.check_changes(&wishes.session_changes()) {
            // Reported while there still is a session that can continue.
            self.write_line(truncate::truncate_answer(id, Err(problem))).await;
        } else {
            self.begin_reinitialize(id, wishes);
        }
    }

    /// Applies the parts of the request that can change in an open session.
    pub(super) fn apply_initialize(&mut self, wishes: &InitializeRequest) {
        if let Some(hooks) = wishes.hooks.clone() {
            self.hooks = Some(hooks.clone());
            self.session.send(Op::SetHooks { hooks, reply: OpReply::ignored() });
        }
        if let Some(servers) = self.backend.servers() {
            servers.admit_driver_servers(&wishes.sdk_mcp_servers, &wishes.sdk_mcp_server_configs);
        }
        self.has_task_stop = wishes.per_task_stop.unwrap_or(self.has_task_stop);
        if wishes.forward_subagent_text == Some(true) {
            self.wire.enable_subagent_text();
        }
        if let Some(title) = &wishes.title {
            // A session that is not saved has no title.
            drop(self.backend.set_default_title(&self.session.id, title));
        }
    }

    pub(super) async fn write_initialize_response(&mut self, id: &Value, wishes: &InitializeRequest) {
        let response = self.initialize_response.to_json(wishes, &self.session.snapshot().commands);
        let open = self.questions.values().map(|question| question.line.as_str());
        let (welcome, left) = initialize::initialize_lines(id, &response, open);
        self.write_line(welcome).await;
        self.write_lines(left).await;
    }
}
