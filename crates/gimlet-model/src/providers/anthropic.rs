//! The Anthropic Messages API and compatible servers: one endpoint, one credential, one connection pool.
//!
//! A request is retried automatically when that is safe, changed and retried when the server refuses an optional part,
//! and never repeated once text or a tool call of its reply was complete.

mod config;
mod credential;
mod prepared_request;
mod request_plan;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gimlet_proto::{
    Model, ModelChoice, ModelError, ModelErrorKind, ModelEvent, ModelFacts, ModelRequest, ModelStream, check_model_name,
};
use gimlet_text::SendableImage;

use crate::catalogue::{ModelCatalogue, ResolvedModel};
use crate::downgrade::Downgrade;
use crate::event_sink::{EventSink, WorkStream};
use crate::failure::{RequestFailure, RetryAdvice};
use crate::fallback::{self, FallbackState};
use crate::formats::anthropic::{ReplyProgress, build_body};
use crate::retry::{RetryDecision, RetryTracker};
pub use config::{AnthropicConfig, ModelTimeouts, ProviderConfigError};
use gimlet_http::HttpTransport;
use prepared_request::{AttemptError, PreparedRequest, ReplyOutcome};
use request_plan::ServerQuirks;

/// Maximum size of a body that the endpoint accepts.
const LARGEST_BODY: usize = 32_000_000;

/// Provider for the Anthropic Messages API.
#[derive(Clone)]
pub struct AnthropicProvider {
    inner: Arc<AnthropicClient>,
}

pub(crate) struct AnthropicClient {
    config: AnthropicConfig,
    catalogue: ModelCatalogue,
    transport: HttpTransport,
    quirks: Mutex<ServerQuirks>,
    fallback_state: FallbackState,
}

impl AnthropicProvider {
    /// Creates the provider. Opens no connection: the first request does.
    pub fn new(config: AnthropicConfig) -> Self {
        let transport =
            HttpTransport::new(config.network.clone(), config.base_url.starts_with("https:"), config.patience.connect);
        let catalogue = config.catalogue.clone();
        let (learned, fallen) = (Mutex::default(), FallbackState::default());
        Self {
            inner: Arc::new(AnthropicClient { config, catalogue, transport, quirks: learned, fallback_state: fallen }),
        }
    }

    /// Returns the source of the key, as named in `system/init`.
    pub fn api_key_source(&self) -> &'static str {
        self.inner.config.api_key_source()
    }
}

impl Model for AnthropicProvider {
    fn facts(&self, model: &str) -> ModelFacts {
        self.inner.catalogue.facts(model)
    }

    fn choices(&self) -> Vec<ModelChoice> {
        let summaries = self.inner.catalogue.model_summaries().into_iter();
        summaries.map(|offer| ModelChoice { alias: offer.alias, id: offer.id, efforts: offer.efforts }).collect()
    }

    fn check_choice(&self, model: &str) -> Result<(), String> {
        check_model_name(model)?;
        self.inner.config.model_for(Some(model)).map(drop).map_err(|error| error.to_string())
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let inner = Arc::clone(&self.inner);
        Box::pin(WorkStream::new(|outlet| {
            Box::pin(async move {
                if let Err(error) = inner.run(&request, &outlet).await {
                    outlet.push(ModelEvent::Failed(error));
                }
            })
        }))
    }
}

impl AnthropicClient {
    fn lock_quirks(&self) -> std::sync::MutexGuard<'_, ServerQuirks> {
        // Learned quirks are plain data, consistent at any moment.
        self.quirks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one request until the requested model or a fallback has delivered its whole reply.
    async fn run(&self, request: &ModelRequest, outlet: &EventSink) -> Result<(), ModelError> {
        // The list of permitted models applies to every choice, made at the start or later.
        let wanted = self.config.model_for(Some(&request.model)).map_err(|error| {
            *RequestFailure::new(ModelErrorKind::InvalidRequest, RetryAdvice::Never, error.to_string()).error
        })?;
        let chain = self.fallback_chain(&wanted);
        let last = chain.len() - 1;
        let mut may_decline = true;
        for place in self.fallback_state.skipped_models(request)..last {
            let (model, next) = (&chain[place], &chain[place + 1]);
            let stand_in = FallbackPolicy { for_failures: true, for_refusals: may_decline };
            let why = match self.run_model(model, request, outlet, stand_in).await {
                Ok(ReplyOutcome::Whole) => return Ok(()),
                Ok(ReplyOutcome::Declined) => {
                    // Another model may answer; if it declines as well, that is final.
                    may_decline = false;
                    "refused to answer".to_owned()
                }
                Err(error) if fallback::may_fall_back(&error) => format!("does not answer ({error})"),
                Err(error) => return Err(error),
            };
            self.fallback_state.set_position(request, place + 1);
            let most = |model: &ResolvedModel| SendableImage::max_count_for_window(model.profile.context_window);
            let fewer = match request.few_images.is_some() && most(next) < most(model) {
                true => format!(", which takes {} images in a request: the oldest are left out", most(next)),
                false => String::new(),
            };
            outlet.push(ModelEvent::Notice(format!("{} {why}; this turn goes on with {}{fewer}", model.id, next.id)));
        }
        let nobody = FallbackPolicy { for_failures: false, for_refusals: false };
        self.run_model(&chain[last], request, outlet, nobody).await.map(drop)
    }

    /// Returns the requested model and its fallbacks; never empty.
    fn fallback_chain(&self, wanted: &str) -> Vec<ResolvedModel> {
        let mut chain = vec![self.catalogue.resolve(wanted)];
        for name in &self.config.fallbacks {
            let model = self.catalogue.resolve(name);
            if chain.iter().all(|other| other.id != model.id) {
                chain.push(model);
            }
        }
        chain
    }

    /// Runs one request against one model until its whole reply is delivered or no retry is left.
    async fn run_model(
        &self,
        model: &ResolvedModel,
        request: &ModelRequest,
        outlet: &EventSink,
        stand_in: FallbackPolicy,
    ) -> Result<ReplyOutcome, ModelError> {
        let mut ledger = RetryTracker::new(self.config.max_retries, self.config.max_wait, self.config.first_delay)
            .unattended(self.config.unattended)
            .with_fallback(stand_in.for_failures);
        let mut once = None;
        loop {
            let (plan, betas) = self.lock_quirks().plan(&self.config, model, request, once);
            let room = self.lock_quirks().output_limit(&self.config, model, plan.max_tokens, once);
            let body = self.config.add_extra_body(build_body(request, &plan));
            if body.len() > LARGEST_BODY {
                return Err(too_large(body.len()));
            }
            let betas = crate::betas::header_value(
                &betas,
                &self.config.extra_betas,
                &self.lock_quirks().refused_betas(&model.id),
            );
            let headers = self.config.headers(betas.as_deref())?;
            let options = plan.options(betas.as_deref());
            let secret = self.config.credential.secret(outlet).await?;
            let exchange = PreparedRequest {
                client: self,
                body,
                headers,
                secret,
                model: &model.id,
                outlet,
                request,
                options,
                room,
                withholds_refusal: stand_in.for_refusals,
            };
            match self.send_until_answered(exchange, &mut ledger).await? {
                BodyOutcome::Replied(told) => return Ok(told),
                BodyOutcome::Refused(refused) => once = self.apply_downgrade(refused, model, request, outlet, once)?,
            }
        }
    }

    /// Sends one body until it is answered. Returns the downgrade when the server wants another body.
    async fn send_until_answered(
        &self,
        mut exchange: PreparedRequest<'_>,
        ledger: &mut RetryTracker,
    ) -> Result<BodyOutcome, ModelError> {
        let credential = &self.config.credential;
        let mut may_race = true;
        let mut resets = 0;
        loop {
            // The server may close a pooled connection at the very moment it is reused.
            let raced = may_race && self.transport.is_warm();
            let setback = match exchange.attempt().await {
                Ok(told) => return Ok(BodyOutcome::Replied(told)),
                Err(setback) => setback,
            };
            let mut failure = match setback {
                AttemptError::Unanswered { reset, .. } if reset && raced => {
                    may_race = false;
                    continue;
                }
                AttemptError::Unanswered { reset, mut failure } => {
                    resets += u32::from(reset);
                    if resets > 1 && exchange.body.len() > SUSPICIOUS_BODY {
                        failure = probable_size_refusal(exchange.body.len());
                    }
                    failure
                }
                AttemptError::Broken { failure, progress } => match (progress, failure.retry_advice) {
                    (ReplyProgress::ThinkingOnly, RetryAdvice::Budget) => {
                        RequestFailure { retry_advice: RetryAdvice::AtMost(2), ..failure }
                    }
                    _ => failure,
                },
            };
            *failure.error = credential.redact_error(&exchange.secret, *failure.error);
            if failure.error.status == Some(401)
                && ledger.may_renew()
                && let Some(renewed) = credential.renew(&exchange.secret, exchange.outlet).await
            {
                exchange.secret = renewed?;
                continue;
            }
            match ledger.decide(failure.clone()) {
                RetryDecision::GiveUp(error) => return Err(error),
                RetryDecision::Downgrade(cure) => {
                    return Ok(BodyOutcome::Refused(RefusedBody { downgrade: cure, error: *failure.error }));
                }
                RetryDecision::Retry { attempt, max, delay, error } => {
                    let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
                    exchange.outlet.push(ModelEvent::Retrying { attempt, max, delay_ms, error });
                    tokio::time::sleep(delay).await;
                    // The secret may have expired meanwhile.
                    exchange.secret = credential.secret(exchange.outlet).await?;
                }
            }
        }
    }

    /// Records a downgrade for the rest of the run and notifies the user. Fails when it would change nothing.
    fn apply_downgrade(
        &self,
        refused: RefusedBody,
        model: &ResolvedModel,
        request: &ModelRequest,
        outlet: &EventSink,
        once: Option<u64>,
    ) -> Result<Option<u64>, ModelError> {
        let RefusedBody { downgrade: cure, error } = refused;
        if let Downgrade::MaxTokensThisTime(left) = cure {
            outlet.push(ModelEvent::Notice(cure.notice(&model.id)));
            return Ok(Some(left));
        }
        if !self.lock_quirks().apply_downgrade(&cure, &self.config, model, request) {
            return Err(error);
        }
        outlet.push(ModelEvent::Notice(cure.notice(&model.id)));
        Ok(once)
    }
}

/// Conditions for falling back to another model of the chain.
#[derive(Clone, Copy)]
struct FallbackPolicy {
    for_failures: bool,
    for_refusals: bool,
}

/// Outcome of sending one body.
enum BodyOutcome {
    Replied(ReplyOutcome),
    Refused(RefusedBody),
}

/// Body that the server would accept in another form.
struct RefusedBody {
    downgrade: Downgrade,
    error: ModelError,
}

/// Body size from which a connection closed during the upload most likely means that the server's refusal got lost.
const SUSPICIOUS_BODY: usize = 4 << 20;

fn probable_size_refusal(bytes: usize) -> RequestFailure {
    let message = format!("the server closed the connection while it received a request of {bytes} bytes");
    RequestFailure::new(ModelErrorKind::RequestTooLarge, RetryAdvice::Never, message)
}

fn too_large(bytes: usize) -> ModelError {
    let message = format!("the request has {bytes} bytes; the API takes {LARGEST_BODY} at most");
    *RequestFailure::new(ModelErrorKind::RequestTooLarge, RetryAdvice::Never, message).error
}

/// Default maximum delay that a server may request.
const DEFAULT_MAX_WAIT: Duration = Duration::from_secs(300);
