//! Path of a request to its answer: routes, checks, cache, the script's step, the rendered response.
//!
//! One responder serves all connections of a server, one request at a time and without waiting for anything, so that
//! equal requests in an equal order always get equal bytes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::anthropic::{self, COUNT_TOKENS, IssuedBlocks, MESSAGES, MODELS, ReplyMessage, RequestPrompt, RuleContext};
use crate::api_error::{ApiError, kind_of};
use crate::digest_chain::{self, digest};
use crate::http_connection::ResponseHead;
use crate::model_capabilities::{ModelCapabilities, ModelSpec};
use crate::prompt_cache::{CacheKey, CacheLookup, PromptCache};
use crate::prompt_usage::PromptUsage;
use crate::script::{BodyFraming, CacheClock, Fault, Script, ScriptedReply, WireShape};
use crate::script_player::{ChosenReply, ScriptPlayer};
use crate::spanned_json::SpannedJson;
use crate::template::ReplyTemplate;
use crate::wire_plan::{self, WireAction};
use crate::{ReceivedRequest, received_request::RequestOutcome};

/// A planned response.
pub(crate) struct PlannedResponse {
    pub(crate) head: ResponseHead,
    /// Action instead of, or before, the head.
    pub(crate) before: Option<WireAction>,
    pub(crate) delay_ms: u64,
    pub(crate) acts: Vec<WireAction>,
    pub(crate) ending: ConnectionEnding,
    /// Cache entries that become readable when the first byte is sent.
    pub(crate) visit: Option<(CacheLookup, Duration)>,
    pub(crate) outcome: RequestOutcome,
    /// Message why the request matches no step, if so.
    pub(crate) failure: Option<String>,
}

/// State of the connection after a complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEnding {
    Keep,
    CloseQuietly,
    ResetOnReuse,
}

/// State that outlives a request.
pub(crate) struct ScriptResponder {
    seed: u64,
    strict: bool,
    keys: Vec<String>,
    models: Vec<ModelSpec>,
    vars: std::collections::BTreeMap<String, String>,
    pub(crate) player: ScriptPlayer,
    cache: PromptCache,
    issued: IssuedBlocks,
    clock: CacheClock,
    started_at: Instant,
    /// Time that tests and steps added to the clock.
    pub(crate) skipped: Duration,
}

/// Body of a response and the headers that describe it.
struct ResponseBody {
    status: u16,
    content_type: &'static str,
    acts: Vec<WireAction>,
}

/// Results of checking a request.
struct CheckedRequest {
    profile: ModelCapabilities,
    prompt_tokens: u64,
    visit: CacheLookup,
    now: Duration,
    dropped: Vec<String>,
}

impl ScriptResponder {
    pub(crate) fn new(script: Script) -> Self {
        let Script { seed, strict, keys, models, vars, steps, clock, max_body_bytes: _ } = script;
        Self {
            seed,
            strict,
            keys,
            models,
            vars,
            player: ScriptPlayer::new(steps),
            cache: PromptCache::default(),
            issued: IssuedBlocks::default(),
            clock,
            started_at: Instant::now(),
            skipped: Duration::ZERO,
        }
    }

    fn now(&self) -> Duration {
        match self.clock {
            CacheClock::Real => self.started_at.elapsed() + self.skipped,
            CacheClock::Virtual => self.skipped,
        }
    }

    pub(crate) fn request_id(&self, index: usize) -> String {
        digest_chain::make_id("req", self.seed, &index.to_string())
    }

    pub(crate) fn commit(&mut self, visit: &CacheLookup, started_at: Duration) {
        self.cache.commit(visit, started_at);
    }

    /// Answers one request.
    pub(crate) fn answer(&mut self, request: &ReceivedRequest) -> PlannedResponse {
        let request_id = self.request_id(request.index());
        let route = (request.method(), request.path());
        let known = matches!(route, ("POST", MESSAGES | COUNT_TOKENS) | ("GET", MODELS));
        if !known {
            return self.play_other_path(request, &request_id);
        }
        if let Err(error) = self.authenticate(request) {
            return error_response(error, &request_id);
        }
        if route.1 == MODELS && !self.player.has_step_for_path(request) {
            return json_response(200, &self.model_list(), &request_id);
        }
        if route.1 == MODELS {
            return self.play_other_path(request, &request_id);
        }
        let understood = match self.check_request(request) {
            Ok(understood) => understood,
            Err(error) => return error_response(error, &request_id),
        };
        if route.1 == COUNT_TOKENS && !self.player.has_step_for_path(request) {
            return json_response(200, &json!({ "input_tokens": understood.prompt_tokens }), &request_id);
        }
        match self.player.choose(request) {
            Ok(chosen) => self.play(request, chosen, understood, &request_id),
            Err(why) => unmatched_response(why, &request_id),
        }
    }

    /// Returns the early answer to a body that is too large, or that the script refuses.
    pub(crate) fn refuse_upload(&self, status: u16, message: &str, index: usize) -> PlannedResponse {
        error_response(ApiError::new(status, message), &self.request_id(index))
    }

    fn authenticate(&self, request: &ReceivedRequest) -> Result<(), ApiError> {
        let mut secrets = request.credentials().into_iter().map(|(_, secret)| secret);
        let Some(first) = secrets.next() else {
            if self.strict || !self.keys.is_empty() {
                return Err(ApiError::new(401, "x-api-key header is required"));
            }
            return Ok(());
        };
        let accepted = |secret: &String| self.keys.is_empty() || self.keys.contains(secret);
        if accepted(&first) || secrets.any(|secret| accepted(&secret)) {
            return Ok(());
        }
        Err(ApiError::new(401, "invalid x-api-key"))
    }

    /// Checks a request by the dialect's rules and finds its prompt in the cache.
    fn check_request(&self, request: &ReceivedRequest) -> Result<CheckedRequest, ApiError> {
        let parsed = request.parsed().map_err(|error| ApiError::invalid(format!("the body is not JSON: {error}")));
        let (text, root) = match parsed {
            Ok(parsed) => parsed,
            Err(error) if self.strict => return Err(error),
            Err(_) => ("null", &NULL),
        };
        let betas = request.betas();
        let profile = ModelCapabilities::find(request.model(), &self.models);
        let mut dropped = Vec::new();
        if self.strict {
            let version = version_of(request)?;
            check_betas(&betas)?;
            // A missing model is reported by the field check.
            let fallback = || if request.model().is_empty() { ModelCapabilities::find("", &[]) } else { None };
            let unknown = || ApiError::new(404, format!("model: {}", request.model()));
            let profile = profile.clone().or_else(fallback).ok_or_else(unknown)?;
            let count_only = request.path() == COUNT_TOKENS;
            let issued = &self.issued;
            let (betas, profile) = (&betas, &profile);
            anthropic::check(&RuleContext { text, root, profile, betas, version, issued, count_only })?;
            dropped = anthropic::verify_thinking(self.seed, &account_of(request), profile, text, root)?;
        }
        let profile =
            profile.or_else(|| ModelCapabilities::find("", &[])).ok_or_else(|| ApiError::new(404, "model"))?;
        let mut unseen = dropped.clone();
        if !profile.keeps_thinking {
            unseen.extend(anthropic::finished_turn_thinking(root));
        }
        let prompt = RequestPrompt::read(text, root, &unseen);
        let prompt_tokens = prompt.tokens();
        if self.strict && prompt_tokens > profile.context {
            let message = format!("prompt is too long: {prompt_tokens} tokens > {} maximum", profile.context);
            return Err(ApiError::invalid(message));
        }
        let now = self.now();
        let key = cache_key(request, text, root, &betas, &prompt);
        let visit = self.cache.look_up(&prompt, &key, profile.min_cache_tokens, now);
        Ok(CheckedRequest { profile, prompt_tokens, visit, now, dropped })
    }

    fn play(
        &mut self,
        request: &ReceivedRequest,
        chosen: ChosenReply,
        understood: CheckedRequest,
        request_id: &str,
    ) -> PlannedResponse {
        let ChosenReply { step, use_number, reply, wire, advance_ms } = chosen;
        self.skipped += Duration::from_millis(advance_ms);
        let CheckedRequest { profile, visit, now, dropped, .. } = understood;
        let usage = visit.usage;
        let mut answer = if reply.is_message() && request.path() == MESSAGES {
            let place = format!("{step}.{use_number}");
            let mut message = self.message(request, &reply, &profile, usage, place);
            let told = request.betas().iter().any(|beta| beta == "thinking-binding-controls-2026-08-01");
            message.dropped = (told && !dropped.is_empty()).then(|| dropped.clone());
            self.record_issued(&message);
            self.message_answer(request, &reply, &wire, &message, request_id)
        } else {
            self.body_answer(request, &reply, &wire, request_id)
        };
        if answer.head.status == 200 {
            answer.visit = Some((visit, now));
            answer.outcome.usage = Some(usage);
        }
        answer.outcome.step = Some(step);
        answer.outcome.dropped_thinking = dropped;
        answer
    }

    /// Plays a step for a path that the dialect does not know.
    fn play_other_path(&mut self, request: &ReceivedRequest, request_id: &str) -> PlannedResponse {
        if !self.player.has_step_for_path(request) {
            return unmatched_response(format!("nothing answers {} {}", request.method(), request.path()), request_id);
        }
        match self.player.choose(request) {
            Ok(chosen) => {
                let mut answer = self.body_answer(request, &chosen.reply, &chosen.wire, request_id);
                answer.outcome.step = Some(chosen.step);
                answer
            }
            Err(why) => unmatched_response(why, request_id),
        }
    }

    fn message(
        &self,
        request: &ReceivedRequest,
        reply: &ScriptedReply,
        profile: &ModelCapabilities,
        usage: PromptUsage,
        place: String,
    ) -> ReplyMessage {
        let account = account_of(request);
        let binder = request
            .parsed()
            .ok()
            .map(|(text, root)| anthropic::ThinkingSigner::after_request(self.seed, &account, &profile.id, text, root));
        let ids = anthropic::IdSource { seed: self.seed, place };
        let template = ReplyTemplate::new(&self.vars, request);
        let echo;
        let reply = if reply.echo {
            let short = digest(&request.body_text());
            echo = ScriptedReply::say(format!("{} messages, digest {short}", request.message_count()));
            &echo
        } else {
            reply
        };
        anthropic::build_message(reply, &ids, &template, &profile.id, binder, usage)
    }

    /// Records the blocks that were issued and must be accepted later.
    fn record_issued(&mut self, message: &ReplyMessage) {
        for block in &message.blocks {
            self.issued.odd_types.insert(block.kind().to_owned());
        }
        if message.stop_reason.as_deref() == Some("pause_turn") {
            self.issued.paused_tails.extend(message.blocks.last().and_then(anthropic::canonical_tail));
        }
    }

    fn message_answer(
        &self,
        request: &ReceivedRequest,
        reply: &ScriptedReply,
        wire: &WireShape,
        message: &ReplyMessage,
        request_id: &str,
    ) -> PlannedResponse {
        let seed = self.seed ^ request.index() as u64;
        let (content_type, acts) = if request.is_streaming() {
            let events = anthropic::render(message, wire);
            ("text/event-stream; charset=utf-8", wire_plan::plan_stream(events, reply, wire, seed, request_id))
        } else {
            let body = anthropic::to_json(message).to_string();
            ("application/json", wire_plan::plan_body(body.as_bytes(), reply, wire, seed))
        };
        self.finish(request, reply, wire, ResponseBody { status: 200, content_type, acts }, request_id)
    }

    /// Returns a bare status with a body of the script's, or the dialect's error body.
    fn body_answer(
        &self,
        request: &ReceivedRequest,
        reply: &ScriptedReply,
        wire: &WireShape,
        request_id: &str,
    ) -> PlannedResponse {
        let status = reply.status.unwrap_or(200);
        let template = ReplyTemplate::new(&self.vars, request);
        let (content_type, body) = match &reply.body {
            Some(Value::String(text)) => ("text/html; charset=utf-8", template.fill(text, 1)),
            Some(other) => ("application/json", template.fill_value(other, 1).to_string()),
            None => ("application/json", error_of(reply, status).body(request_id).to_string()),
        };
        let acts = wire_plan::plan_body(body.as_bytes(), reply, wire, self.seed);
        self.finish(request, reply, wire, ResponseBody { status, content_type, acts }, request_id)
    }

    /// Combines head, faults and body.
    fn finish(
        &self,
        request: &ReceivedRequest,
        reply: &ScriptedReply,
        wire: &WireShape,
        body: ResponseBody,
        request_id: &str,
    ) -> PlannedResponse {
        let ResponseBody { status, content_type, acts } = body;
        let template = ReplyTemplate::new(&self.vars, request);
        let mut headers = standard_headers(content_type, request_id);
        if let Some(encoding) = wire.claim_encoding.as_deref().or(wire_plan::encoding_name(wire.encoding)) {
            headers.push(("content-encoding".to_owned(), encoding.to_owned()));
        }
        for (name, value) in &reply.headers {
            headers.retain(|(own, _)| !own.eq_ignore_ascii_case(name));
            headers.push((name.clone(), template.fill(value, 1)));
        }
        let has = |fault: &Fault| reply.faults.contains(fault);
        let ending = match (has(&Fault::CloseQuietly), has(&Fault::ResetOnReuse)) {
            (true, _) => ConnectionEnding::CloseQuietly,
            (false, true) => ConnectionEnding::ResetOnReuse,
            (false, false) => ConnectionEnding::Keep,
        };
        PlannedResponse {
            head: ResponseHead { status, headers, framing: wire.framing },
            before: wire_plan::before_headers(&reply.faults),
            delay_ms: reply.delay_ms,
            acts,
            ending,
            visit: None,
            outcome: RequestOutcome { status: Some(status), ..RequestOutcome::default() },
            failure: None,
        }
    }

    fn model_list(&self) -> Value {
        let models: Vec<Value> = ModelCapabilities::all(&self.models).iter().map(model_entry).collect();
        let (first, last) = (models.first().map(|model| &model["id"]), models.last().map(|model| &model["id"]));
        json!({ "first_id": first, "last_id": last, "has_more": false, "data": models })
    }
}

const NULL: SpannedJson = SpannedJson { span: 0..4, kind: crate::spanned_json::SpannedJsonKind::Null };

fn model_entry(profile: &ModelCapabilities) -> Value {
    let supported = |names: &[String]| -> serde_json::Map<String, Value> {
        names.iter().map(|name| (name.clone(), json!({ "supported": true }))).collect()
    };
    json!({
        "type": "model",
        "id": profile.id,
        "display_name": profile.id,
        "max_input_tokens": profile.context,
        "max_tokens": profile.max_output,
        "lifecycle": "active",
        "capabilities": {
            "effort": supported(&profile.effort),
            "thinking": { "types": supported(&profile.thinking) },
        },
    })
}

/// Returns the error for a scripted status.
fn error_of(reply: &ScriptedReply, status: u16) -> ApiError {
    let spec = reply.error.clone().unwrap_or_default();
    let message = if spec.message.is_empty() { format!("scripted {status}") } else { spec.message };
    let kind = spec.kind.unwrap_or_else(|| kind_of(status).to_owned());
    ApiError { status, kind, message, code: spec.code }
}

fn standard_headers(content_type: &str, request_id: &str) -> Vec<(String, String)> {
    let pairs = [("content-type", content_type), ("request-id", request_id), ("cache-control", "no-cache")];
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

pub(crate) fn json_response(status: u16, body: &Value, request_id: &str) -> PlannedResponse {
    PlannedResponse {
        head: ResponseHead {
            status,
            headers: standard_headers("application/json", request_id),
            framing: BodyFraming::Length,
        },
        before: None,
        delay_ms: 0,
        acts: vec![WireAction::Write(body.to_string().into_bytes())],
        ending: ConnectionEnding::Keep,
        visit: None,
        outcome: RequestOutcome { status: Some(status), ..RequestOutcome::default() },
        failure: None,
    }
}

/// Returns the response for an error that a rule caused.
fn error_response(error: ApiError, request_id: &str) -> PlannedResponse {
    let mut answer = json_response(error.status, &error.body(request_id), request_id);
    answer.outcome.rejection = Some(error.message);
    answer
}

/// Returns the response to a request that the script did not expect: a failed test, which must not be retried.
fn unmatched_response(why: String, request_id: &str) -> PlannedResponse {
    let error = ApiError::new(599, format!("the script has no answer: {why}"));
    let mut answer = json_response(599, &error.body(request_id), request_id);
    answer.head.headers.push(("x-should-retry".to_owned(), "false".to_owned()));
    answer.failure = Some(why);
    answer
}

/// Returns the account of a request: the digest of the credential, since a script has no other accounts.
fn account_of(request: &ReceivedRequest) -> String {
    digest(&request.credentials().into_iter().next().map(|(_, secret)| secret).unwrap_or_default())
}

fn version_of(request: &ReceivedRequest) -> Result<&str, ApiError> {
    match request.header("anthropic-version") {
        Some(version @ ("2023-06-01" | "2026-10-21")) => Ok(version),
        Some(other) => Err(ApiError::at("anthropic-version", format!("{other:?} is not a valid version"))),
        None => Err(ApiError::at("anthropic-version", "header is required")),
    }
}

fn check_betas(betas: &[String]) -> Result<(), ApiError> {
    for (position, beta) in betas.iter().enumerate() {
        if beta.is_empty() || betas[..position].contains(beta) {
            return Err(ApiError::at("anthropic-beta", format!("empty or repeated value {beta:?}")));
        }
    }
    Ok(())
}

/// Returns the values that a cache entry depends on beside the prompt's bytes.
fn cache_key(
    request: &ReceivedRequest,
    text: &str,
    root: &SpannedJson,
    betas: &[String],
    prompt: &RequestPrompt,
) -> CacheKey {
    let bytes = |node: Option<&SpannedJson>| node.map_or("", |node| &text[node.span.clone()]).to_owned();
    let config = |name: &str| bytes(root.get("output_config").and_then(|config| config.get(name)));
    let mut betas = betas.to_vec();
    betas.sort();
    let secret = request.credentials().into_iter().next().map(|(_, secret)| secret).unwrap_or_default();
    CacheKey {
        all: [secret, request.model().to_owned(), betas.join(","), config("format")].join("\n"),
        system: bytes(root.get("speed")),
        messages: [
            bytes(root.get("thinking")),
            config("effort"),
            bytes(root.get("tool_choice")),
            prompt.has_images.to_string(),
        ]
        .join("\n"),
    }
}
