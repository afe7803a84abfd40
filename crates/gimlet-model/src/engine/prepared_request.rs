//! One attempt: sends the prepared bytes, reads the response to its end, and reports the progress if it breaks.

use std::future::Future;
use std::pin::pin;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use gimlet_proto::{
    ModelErrorKind, ModelEvent, ModelRequest, RateLimit, ReplyInterruption, ReplyStart, SentOption, StopReason,
    TruncatedCall,
};
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Response, Url};
use tokio::time::{Instant, timeout_at};

use super::connected_provider::ConnectedProvider;
use super::event_sink::EventSink;
use super::retry::parse_retry_after;
use crate::auth::{AuthSecrets, RequestHead};
use crate::error_body::{ErrorBody, looks_like_html, one_line};
use crate::failure::{self, RequestFailure, RetryAdvice, RetryHints};
use crate::formats::WireReader;
use crate::formats::reply_state::{ReplyProgress, ReplyState, StreamFault, StreamFlow};
use crate::providers::ProviderAdvice;
use crate::size_limits::MAX_ERROR_BODY_BYTES;
use crate::sse::{SseLimits, SseParser};

/// Number of bytes kept of a response, to identify one that turns out not to be an event stream.
const SAMPLE: usize = 2 << 10;

/// Request that is ready to be sent, any number of times, always with identical bytes.
pub(super) struct PreparedRequest<'a> {
    pub(super) provider: &'a ConnectedProvider,
    pub(super) body: Bytes,
    /// All headers but the credential.
    pub(super) headers: HeaderMap,
    pub(super) secrets: AuthSecrets,
    /// The model's id at its provider.
    pub(super) model: &'a str,
    /// Name of the provider, if it is not the main one.
    pub(super) prefix: Option<&'static str>,
    pub(super) outlet: &'a EventSink,
    pub(super) request: &'a ModelRequest,
    /// Options that affect the cache besides the conversation itself.
    pub(super) options: Vec<SentOption>,
    /// Output limit of this body, and the limit that another attempt could request.
    pub(super) room: TruncatedCall,
    /// True if a refusal is withheld because another model is asked then.
    pub(super) withholds_refusal: bool,
}

/// Outcome of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyOutcome {
    /// It was delivered to its end.
    Whole,
    /// The model refused to answer, and nothing of its reply is left.
    Declined,
}

/// Reason why an attempt produced no reply.
pub(super) enum AttemptError {
    /// No usable response. `reset`: the connection closed after it was opened and before any response arrived.
    Unanswered { failure: RequestFailure, reset: bool },
    /// The response began and broke before any of it could be used. It has been retracted.
    Broken { failure: RequestFailure, progress: ReplyProgress },
}

impl From<RequestFailure> for AttemptError {
    fn from(failure: RequestFailure) -> Self {
        AttemptError::Unanswered { failure, reset: false }
    }
}

impl PreparedRequest<'_> {
    /// Sends the request and emits its reply. After `Whole`, the end of the reply has been emitted too.
    pub(super) async fn attempt(&self) -> Result<ReplyOutcome, AttemptError> {
        let response = self.send().await?;
        let row = self.provider.row();
        let hints = hints(response.headers(), row.request_id_headers);
        let limits = row.format.rate_limits(response.headers());
        if response.status() != reqwest::StatusCode::OK {
            let mut failure = self.read_refusal(response, &hints).await;
            if failure.error.kind == ModelErrorKind::RateLimit
                && let Some(used_up) = failure::describe_exhausted(&limits)
            {
                failure.error.message = format!("{} ({used_up})", failure.error.message);
            }
            self.report_limits(limits);
            return Err(failure.into());
        }
        self.report_limits(limits);
        let mime = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        let is_page = mime.to_ascii_lowercase().starts_with("text/html");
        if is_page || mime.to_ascii_lowercase().starts_with("application/json") {
            let body = self.error_body(response).await;
            return Err(self.non_stream_failure(&body, &hints).into());
        }
        self.read_reply(response, &hints).await
    }

    fn advice(&self) -> &'static ProviderAdvice {
        &self.provider.row().advice
    }

    /// Returns the name under which a model of this provider can be requested.
    fn label_of(&self, model: String) -> String {
        match self.prefix {
            Some(provider) if !model.is_empty() => format!("{provider}/{model}"),
            _ => model,
        }
    }

    fn report_limits(&self, limits: Vec<RateLimit>) {
        if !limits.is_empty() {
            self.outlet.push(ModelEvent::RateLimits(limits));
        }
    }

    async fn send(&self) -> Result<Response, AttemptError> {
        let ConnectedProvider { endpoint, timeouts, transport, .. } = self.provider;
        transport.discard_unended_bodies().await;
        let client = transport.client().await.map_err(RequestFailure::from)?;
        let mut head = RequestHead { url: endpoint.url(self.model), headers: self.headers.clone() };
        endpoint.auth.dress(&self.secrets, &mut head, &self.body)?;
        let proxy = transport.proxy_for(&head.url);
        let sending = client.post(head.url).headers(head.headers).body(self.body.clone()).send();
        let limit = timeouts.headers;
        match self.wait_with_notices(sending, limit).await {
            Some(Ok(response)) => {
                transport.mark_warm();
                Ok(response)
            }
            Some(Err(error)) => {
                let connecting = error.is_connect();
                let error = error.without_url();
                let reset = !connecting && !error.is_timeout() && !error.is_builder();
                let local = if connecting { endpoint.local_server() } else { None };
                let refused =
                    local.and_then(|server| failure::connection_refused_locally(&error, &server, self.advice()));
                let failure = refused
                    .unwrap_or_else(|| failure::from_transport(&error, connecting, proxy.as_ref(), self.advice()));
                Err(AttemptError::Unanswered { failure, reset })
            }
            None => {
                let message = format!("the server did not answer within {} s", limit.as_secs());
                Err(RequestFailure::new(ModelErrorKind::Timeout, RetryAdvice::Budget, message).into())
            }
        }
    }

    /// Waits for `what` at most for `limit`, notifying the user of silence. `None` on a timeout.
    async fn wait_with_notices<T>(&self, what: impl Future<Output = T>, limit: Duration) -> Option<T> {
        let mut what = pin!(what);
        let start = Instant::now();
        let waiting = self.provider.timeouts.waiting.max(Duration::from_millis(1));
        let mut remark = waiting;
        loop {
            if let Ok(done) = timeout_at(start + remark.min(limit), what.as_mut()).await {
                return Some(done);
            }
            if start.elapsed() >= limit {
                return None;
            }
            let silent_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.outlet.push(ModelEvent::Waiting { silent_ms });
            remark += waiting;
        }
    }

    async fn read_refusal(&self, response: Response, hints: &RetryHints) -> RequestFailure {
        let status = response.status().as_u16();
        if response.status().is_redirection() {
            return redirect_failure(&response, hints, self.advice());
        }
        let body = self.error_body(response).await;
        failure::from_response(self.provider.row(), status, &ErrorBody::parse(&body), hints, self.model)
    }

    /// Reads as much of a short body as arrives in time; an error page may be cut.
    async fn error_body(&self, mut response: Response) -> String {
        let mut body = Vec::new();
        let limit = self.provider.timeouts.idle.min(Duration::from_secs(10));
        while body.len() < MAX_ERROR_BODY_BYTES {
            match self.wait_with_notices(response.chunk(), limit).await {
                Some(Ok(Some(piece))) => body.extend_from_slice(&piece),
                Some(Ok(None) | Err(_)) | None => break,
            }
        }
        String::from_utf8_lossy(&body).into_owned()
    }

    /// Classifies a success without a stream: an error in disguise, or a server that is not the API.
    fn non_stream_failure(&self, body: &str, hints: &RetryHints) -> RequestFailure {
        let parsed = ErrorBody::parse(body);
        if !parsed.kind.is_empty() {
            let row = self.provider.row();
            return failure::from_response(row, row.format.implied_status(&parsed), &parsed, hints, self.model);
        }
        if body.trim().is_empty() {
            return empty_answer(hints);
        }
        let what = if looks_like_html(body) { parsed.message } else { "JSON instead of a stream".to_owned() };
        let mut failure =
            RequestFailure::new(ModelErrorKind::Protocol, RetryAdvice::Never, format!("the server sent {what}"))
                .with_hint(self.advice().check_proxy());
        failure.error.request_id = hints.request_id.clone();
        failure
    }

    /// Forwards an event with the facts that only the sender has, unless it is a refusal that another model is to
    /// answer.
    fn forward_event(&self, event: ModelEvent, told: &mut ReplyOutcome) {
        match event {
            ModelEvent::Started(start) => {
                let (options, model) = (self.options.clone(), self.label_of(start.model));
                self.outlet.push(ModelEvent::Started(ReplyStart { options, model, ..start }));
            }
            ModelEvent::Done(end) if self.withholds_refusal && end.stop_reason == Some(StopReason::Refusal) => {
                *told = ReplyOutcome::Declined;
                self.outlet.push(ModelEvent::Spent { model: self.label_of(self.model.to_owned()), usage: end.usage });
            }
            event => self.outlet.push(event),
        }
    }

    async fn read_reply(&self, mut response: Response, hints: &RetryHints) -> Result<ReplyOutcome, AttemptError> {
        let mut parser = SseParser::new(SseLimits::default());
        let state = ReplyState::new(hints.request_id.clone(), self.request.want_wire_events);
        let mut reply = self.provider.row().format.reader(state.with_output_limit(self.room.clone()));
        let mut sample = Vec::new();
        let patience = self.provider.timeouts;
        let mut last_word = Instant::now();
        loop {
            let piece = match self.wait_with_notices(response.chunk(), patience.idle).await {
                Some(Ok(Some(piece))) => piece,
                Some(Ok(None)) => return self.finish_ended_stream(reply, &sample, hints),
                Some(Err(error)) => {
                    let failure = failure::from_transport(&error.without_url(), false, None, self.advice());
                    return self.finish_broken_reply(reply, failure, hints);
                }
                None => {
                    let message = format!("the server fell silent for {} s", patience.idle.as_secs());
                    return self.finish_broken_reply(
                        reply,
                        RequestFailure::new(ModelErrorKind::Timeout, RetryAdvice::Budget, message),
                        hints,
                    );
                }
            };
            if !reply.state().has_started() && sample.len() < SAMPLE {
                sample.extend_from_slice(&piece[..piece.len().min(SAMPLE)]);
            }
            let (mut flow, mut told) = (Ok(StreamFlow::Noise), ReplyOutcome::Whole);
            let fed = parser.push(&piece, |event| {
                if matches!(flow, Ok(StreamFlow::More | StreamFlow::Noise)) {
                    let next =
                        reply.read_event(&event.name, &event.data, &mut |event| self.forward_event(event, &mut told));
                    // Noise after a meaningful event does not hide that event.
                    if !(matches!(flow, Ok(StreamFlow::More)) && matches!(next, Ok(StreamFlow::Noise))) {
                        flow = next;
                    }
                }
            });
            match flow {
                Ok(StreamFlow::Finished) => {
                    self.provider.transport.keep_until_ended(response).await;
                    return Ok(told);
                }
                Ok(StreamFlow::More) => last_word = Instant::now(),
                Ok(StreamFlow::Noise) if last_word.elapsed() >= patience.quiet => {
                    last_word = Instant::now();
                    let seconds = patience.quiet.as_secs();
                    self.outlet.push(ModelEvent::Notice(format!("nothing but keep-alives for {seconds} s")));
                }
                Ok(StreamFlow::Noise) => {}
                Err(fault) => {
                    let failure = self.stream_failure(fault, hints);
                    return self.finish_broken_reply(reply, failure, hints);
                }
            }
            if let Err(error) = fed {
                let failure = RequestFailure::new(ModelErrorKind::Protocol, RetryAdvice::Never, error.to_string());
                return self.finish_broken_reply(reply, failure, hints);
            }
            self.outlet.wait_until_drained().await;
        }
    }

    fn stream_failure(&self, fault: StreamFault, hints: &RetryHints) -> RequestFailure {
        match fault {
            StreamFault::Protocol(what) => RequestFailure::new(ModelErrorKind::Protocol, RetryAdvice::Budget, what),
            StreamFault::TooManyBlocks { limit } => {
                let message = format!("the answer has more than {limit} blocks");
                RequestFailure::new(ModelErrorKind::Protocol, RetryAdvice::Never, message)
            }
            StreamFault::Reported(data) => {
                let body = ErrorBody::parse(&data);
                // The response's headers belong to a success; only its request id is still meaningful.
                let hints = RetryHints { request_id: hints.request_id.clone(), ..RetryHints::default() };
                let row = self.provider.row();
                failure::from_response(row, row.format.implied_status(&body), &body, &hints, self.model)
            }
        }
    }

    fn finish_ended_stream(
        &self,
        reply: Box<dyn WireReader>,
        sample: &[u8],
        hints: &RetryHints,
    ) -> Result<ReplyOutcome, AttemptError> {
        let sample = String::from_utf8_lossy(sample);
        if !reply.state().has_started() && (looks_like_html(&sample) || sample.trim_start().starts_with('{')) {
            return Err(self.non_stream_failure(&sample, hints).into());
        }
        if one_line(&sample).is_empty() {
            return self.finish_broken_reply(reply, empty_answer(hints), hints);
        }
        let message = "the connection ended in the middle of the answer";
        self.finish_broken_reply(
            reply,
            RequestFailure::new(ModelErrorKind::Network, RetryAdvice::Budget, message),
            hints,
        )
    }

    /// Handles a broken reply by its progress. One that lacked only its final stop event counts as whole; one with a
    /// usable block is kept as far as it came, because repeating it could run a tool twice.
    fn finish_broken_reply(
        &self,
        mut reply: Box<dyn WireReader>,
        mut failure: RequestFailure,
        hints: &RetryHints,
    ) -> Result<ReplyOutcome, AttemptError> {
        if failure.error.request_id.is_none() {
            failure.error.request_id = hints.request_id.clone();
        }
        let mut told = ReplyOutcome::Whole;
        match reply.state().progress() {
            ReplyProgress::Complete => {
                reply.state_mut().finish_unstopped(&mut |event| self.forward_event(event, &mut told));
            }
            ReplyProgress::Usable if failure.retry_advice != RetryAdvice::Never => {
                let auth = self.provider.endpoint.auth.as_ref();
                let message = auth.redact_error(&self.secrets, *failure.error).to_string();
                reply.state().anomalies_event().into_iter().for_each(|anomalies| self.outlet.push(anomalies));
                self.outlet.push(ModelEvent::Done(reply.state().interrupt(ReplyInterruption { message })));
            }
            progress => {
                if reply.state().has_started() {
                    self.outlet.push(ModelEvent::ReplyDiscarded);
                }
                return Err(AttemptError::Broken { failure, progress });
            }
        }
        Ok(told)
    }
}

/// Returns the failure for an empty response: an intermediary dropped the content, and a retry may succeed.
fn empty_answer(hints: &RetryHints) -> RequestFailure {
    let mut failure =
        RequestFailure::new(ModelErrorKind::Network, RetryAdvice::Budget, "the server sent an empty answer");
    failure.error.request_id = hints.request_id.clone();
    failure
}

fn redirect_failure(response: &Response, hints: &RetryHints, words: &ProviderAdvice) -> RequestFailure {
    let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let host = target.and_then(|target| Url::parse(target).ok()).and_then(|url| url.host_str().map(ToOwned::to_owned));
    let to = host.map_or_else(|| "another address".to_owned(), |host| one_line(&host));
    let mut failure = RequestFailure::new(
        ModelErrorKind::Protocol,
        RetryAdvice::Never,
        format!("the server redirects to {to}; gimlet does not carry its credential there"),
    )
    .with_hint(words.follow_redirect());
    failure.error.status = Some(response.status().as_u16());
    failure.error.request_id = hints.request_id.clone();
    failure
}

fn hints(headers: &HeaderMap, request_ids: &[&str]) -> RetryHints {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    RetryHints {
        wait: parse_retry_after(text("retry-after-ms"), text("retry-after"), SystemTime::now()),
        should_retry: match text("x-should-retry") {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => None,
        },
        request_id: request_ids.iter().find_map(|name| text(name)).map(one_line),
    }
}
