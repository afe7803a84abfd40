//! The engine behind [`gimlet_proto::Model`]: the fallback chain, attempts, retries, and the changes that servers ask
//! for. It knows formats and providers only by their traits and rows.
//!
//! A request is retried automatically when that is safe, changed and retried when the server refuses an optional part,
//! and never repeated once text or a tool call of its reply was complete.

mod connected_provider;
mod event_sink;
mod fallback;
mod prepared_request;
mod retry;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use gimlet_proto::{
    Model, ModelChoice, ModelError, ModelErrorKind, ModelEvent, ModelFacts, ModelRequest, ModelStream, VERSION,
    check_model_name,
};
use gimlet_text::SendableImage;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};

use crate::auth::unsendable_header;
use crate::catalogue::ResolvedModel;
use crate::downgrade::Downgrade;
use crate::failure::{RequestFailure, RetryAdvice};
use crate::formats::reply_state::ReplyProgress;
use crate::formats::{PlanContext, PlannedRequest};
use crate::model_directory::LocatedModel;
use crate::provider_config::ProviderConfig;
use crate::providers::ProviderEndpoint;
use connected_provider::ConnectedProvider;
pub(crate) use event_sink::EventSink;
use event_sink::WorkStream;
use fallback::FallbackState;
use prepared_request::{AttemptError, PreparedRequest, ReplyOutcome};
pub(crate) use retry::FIRST_DELAY;
use retry::{RetryDecision, RetryTracker};

/// The model of a session: every provider of the table, each made when a request first needs it.
#[derive(Clone)]
pub struct ModelEngine {
    inner: Arc<EngineCore>,
}

struct EngineCore {
    config: ProviderConfig,
    /// By position in the table.
    providers: Vec<OnceLock<ConnectedProvider>>,
    fallback_state: FallbackState,
}

impl ModelEngine {
    /// Creates the engine. Opens no connection: the first request does.
    pub fn new(config: ProviderConfig) -> Self {
        let providers = (0..config.directory.len()).map(|_| OnceLock::new()).collect();
        Self { inner: Arc::new(EngineCore { config, providers, fallback_state: FallbackState::default() }) }
    }
}

impl Model for ModelEngine {
    fn facts(&self, model: &str) -> ModelFacts {
        self.inner.config.directory.facts(model)
    }

    fn choices(&self) -> Vec<ModelChoice> {
        let summaries = self.inner.config.model_summaries().into_iter();
        summaries.map(|offer| ModelChoice { alias: offer.alias, id: offer.id, efforts: offer.efforts }).collect()
    }

    fn check_choice(&self, model: &str) -> Result<(), String> {
        check_model_name(model)?;
        self.inner.config.model_for(Some(model)).map(drop).map_err(|error| error.to_string())
    }

    fn max_reply_tokens(&self, request: &ModelRequest) -> u64 {
        let config = &self.inner.config;
        let profile = config.directory.resolve(&request.model).model.profile;
        config.wishes.max_reply_tokens(&profile, request.max_tokens, request.effort.as_deref())
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

impl EngineCore {
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
            let (current, next) = (&chain[place], &chain[place + 1]);
            let stand_in = FallbackPolicy { for_failures: true, for_refusals: may_decline };
            let why = match self.run_model(current, request, outlet, stand_in).await {
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
            let fewer = match request.few_images.is_some() && most(&next.model) < most(&current.model) {
                true => {
                    format!(", which takes {} images in a request: the oldest are left out", most(&next.model))
                }
                false => String::new(),
            };
            let (from, to) = (&current.label, &next.label);
            outlet.push(ModelEvent::Notice(format!("{from} {why}; this turn goes on with {to}{fewer}")));
        }
        let nobody = FallbackPolicy { for_failures: false, for_refusals: false };
        self.run_model(&chain[last], request, outlet, nobody).await.map(drop)
    }

    /// Returns the requested model and its fallbacks, possibly of several providers; never empty.
    fn fallback_chain(&self, wanted: &str) -> Vec<LocatedModel> {
        let directory = &self.config.directory;
        let mut chain = vec![directory.resolve(wanted)];
        for name in &self.config.fallbacks {
            let located = directory.resolve(name);
            if chain.iter().all(|other| other.label != located.label) {
                chain.push(located);
            }
        }
        chain
    }

    /// Returns a provider; the first call for each one makes it.
    fn provider(&self, position: usize) -> Result<&ConnectedProvider, ModelError> {
        let place = &self.providers[position];
        if let Some(provider) = place.get() {
            return Ok(provider);
        }
        let endpoint = match position == self.config.directory.main() {
            true => self.config.main.clone(),
            false => self.open_further_provider(position)?,
        };
        Ok(place.get_or_init(|| ConnectedProvider::new(endpoint, &self.config)))
    }

    /// Opens a provider beside the main one. The user's helper prints the main one's key, which is nobody else's.
    fn open_further_provider(&self, position: usize) -> Result<ProviderEndpoint, ModelError> {
        let row = self.config.directory.row(position);
        ProviderEndpoint::open(row, &self.config.env, None).map_err(|error| {
            let message = format!("the provider {} cannot be used: {error}", row.name);
            *RequestFailure::new(ModelErrorKind::Authentication, RetryAdvice::Never, message).error
        })
    }

    /// Runs one request against one model until its whole reply is delivered or no retry is left.
    async fn run_model(
        &self,
        located: &LocatedModel,
        request: &ModelRequest,
        outlet: &EventSink,
        stand_in: FallbackPolicy,
    ) -> Result<ReplyOutcome, ModelError> {
        let provider = self.provider(located.provider)?;
        let mut ledger = RetryTracker::new(self.config.retries).with_fallback(stand_in.for_failures);
        let mut cx = PlanContext {
            wishes: &self.config.wishes,
            endpoint: &provider.endpoint,
            model: &located.model,
            request,
            once: None,
        };
        loop {
            let PlannedRequest { body, headers, options, room } =
                provider.row().format.plan(&cx, &provider.lock_quirks());
            let body = self.config.wishes.add_extra_body(body);
            check_size(&body, provider.row().max_body)?;
            let exchange = PreparedRequest {
                provider,
                body,
                headers: self.headers(provider, headers)?,
                secrets: provider.endpoint.auth.secrets(outlet).await?,
                model: &located.model.id,
                prefix: self.prefix(located),
                outlet,
                request,
                options,
                room,
                withholds_refusal: stand_in.for_refusals,
            };
            match self.send_until_answered(exchange, &mut ledger).await? {
                BodyOutcome::Replied(told) => return Ok(told),
                BodyOutcome::Refused(refused) => apply_downgrade(refused, provider, &mut cx, outlet)?,
            }
        }
    }

    /// Returns what stands in front of the names of this provider's models; nothing for the main one.
    fn prefix(&self, located: &LocatedModel) -> Option<&'static str> {
        let directory = &self.config.directory;
        (located.provider != directory.main()).then(|| directory.row(located.provider).name)
    }

    /// Returns the headers of a request without its credential. Ours take precedence over the user's.
    fn headers(
        &self,
        provider: &ConnectedProvider,
        planned: Vec<(HeaderName, String)>,
    ) -> Result<HeaderMap, ModelError> {
        let mut headers = provider.endpoint.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let agent = [format!("gimlet/{VERSION}")].into_iter().chain(self.config.callers.iter().cloned());
        let agent = (USER_AGENT, agent.collect::<Vec<_>>().join(" "));
        for (name, value) in [agent].into_iter().chain(planned) {
            let value = HeaderValue::from_str(&value).map_err(|_| *unsendable_header(&name).error)?;
            headers.insert(name, value);
        }
        Ok(headers)
    }

    /// Sends one body until it is answered. Returns the downgrade when the server wants another body.
    async fn send_until_answered(
        &self,
        mut exchange: PreparedRequest<'_>,
        ledger: &mut RetryTracker,
    ) -> Result<BodyOutcome, ModelError> {
        let auth = exchange.provider.endpoint.auth.as_ref();
        let mut may_race = true;
        let mut resets = 0;
        loop {
            // The server may close a pooled connection at the very moment it is reused.
            let raced = may_race && exchange.provider.transport.is_warm();
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
            *failure.error = auth.redact_error(&exchange.secrets, *failure.error);
            if failure.error.status.is_some_and(|status| auth.renews_on(status))
                && ledger.may_renew()
                && let Some(renewed) = auth.renew(&exchange.secrets, exchange.outlet).await
            {
                exchange.secrets = renewed?;
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
                    // The secrets may have expired meanwhile.
                    exchange.secrets = auth.secrets(exchange.outlet).await?;
                }
            }
        }
    }
}

/// Records a downgrade for the rest of the run and notifies the user. Fails when it would change nothing.
fn apply_downgrade(
    refused: RefusedBody,
    provider: &ConnectedProvider,
    cx: &mut PlanContext<'_>,
    outlet: &EventSink,
) -> Result<(), ModelError> {
    let RefusedBody { downgrade, error } = refused;
    if let Downgrade::MaxTokensThisTime(left) = downgrade {
        cx.once = Some(left);
    } else if !provider.row().format.apply_downgrade(&downgrade, cx, &mut provider.lock_quirks()) {
        return Err(error);
    }
    outlet.push(ModelEvent::Notice(downgrade.notice(&cx.model.id)));
    Ok(())
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

fn check_size(body: &Bytes, most: usize) -> Result<(), ModelError> {
    let bytes = body.len();
    if bytes <= most {
        return Ok(());
    }
    let message = format!("the request has {bytes} bytes; the API takes {most} at most");
    Err(*RequestFailure::new(ModelErrorKind::RequestTooLarge, RetryAdvice::Never, message).error)
}
