//! The Anthropic Messages API and whatever speaks it: one endpoint, one credential, one pool of connections.
//!
//! A request is sent again by itself when that is safe, changed and sent again when the server objects to an optional
//! part, and never repeated once text or a tool call of its reply was complete.

mod config;
mod credential;
mod exchange;
mod plan;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gimlet_proto::{ErrorKind, Model, ModelError, ModelEvent, ModelFacts, ModelRequest, ModelStream, Picture};

use crate::catalogue::{Catalogue, Resolved};
use crate::cure::Cure;
use crate::failure::{Again, Failure};
use crate::fallback::{self, Fallen};
use crate::formats::anthropic::{Progress, build_body};
use crate::outlet::{Outlet, WorkStream};
use crate::retry::{Ledger, Verdict};
use crate::transport::Transport;
pub use config::{AnthropicConfig, ConfigError, Patience};
use exchange::{Exchange, Setback, Told};
use plan::Learned;

/// The largest body that the endpoint takes.
const LARGEST_BODY: usize = 32_000_000;

/// The provider.
#[derive(Clone)]
pub struct Anthropic {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    config: AnthropicConfig,
    catalogue: Catalogue,
    transport: Transport,
    learned: Mutex<Learned>,
    fallen: Fallen,
}

impl Anthropic {
    /// Makes the provider. Opens nothing: the first request does.
    pub fn new(config: AnthropicConfig) -> Self {
        let transport =
            Transport::new(config.network.clone(), config.base_url.starts_with("https:"), config.patience.connect);
        let catalogue = config.catalogue.clone();
        let (learned, fallen) = (Mutex::default(), Fallen::default());
        Self { inner: Arc::new(Inner { config, catalogue, transport, learned, fallen }) }
    }

    /// Where the key comes from, in the words of `system/init`.
    pub fn api_key_source(&self) -> &'static str {
        self.inner.config.api_key_source()
    }
}

impl Model for Anthropic {
    fn facts(&self, model: &str) -> ModelFacts {
        self.inner.catalogue.facts(model)
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

impl Inner {
    fn learned(&self) -> std::sync::MutexGuard<'_, Learned> {
        // What was learned is plain data, whole at any moment.
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One request until its reply is told whole by the wanted model or by one that stands in for it.
    async fn run(&self, request: &ModelRequest, outlet: &Outlet) -> Result<(), ModelError> {
        // Whoever chose it, at the start or later: there is no way around the list of those that may be used.
        let wanted = self
            .config
            .model_for(Some(&request.model))
            .map_err(|error| *Failure::new(ErrorKind::InvalidRequest, Again::Never, error.to_string()).error)?;
        let chain = self.chain(&wanted);
        let last = chain.len() - 1;
        let mut may_decline = true;
        for place in self.fallen.skipped(request)..last {
            let (model, next) = (&chain[place], &chain[place + 1]);
            let stand_in = StandIn { for_failures: true, for_refusals: may_decline };
            let why = match self.run_with(model, request, outlet, stand_in).await {
                Ok(Told::Whole) => return Ok(()),
                Ok(Told::Declined) => {
                    // Another model may see it otherwise, and one that agrees settles it.
                    may_decline = false;
                    "refused to answer".to_owned()
                }
                Err(error) if fallback::is_worth_another_model(&error) => format!("does not answer ({error})"),
                Err(error) => return Err(error),
            };
            self.fallen.fall_to(request, place + 1);
            let most = |model: &Resolved| Picture::most_in(model.profile.context_window);
            let fewer = match request.few_images.is_some() && most(next) < most(model) {
                true => format!(", which takes {} images in a request: the oldest are left out", most(next)),
                false => String::new(),
            };
            outlet.push(ModelEvent::Notice(format!("{} {why}; this turn goes on with {}{fewer}", model.id, next.id)));
        }
        let nobody = StandIn { for_failures: false, for_refusals: false };
        self.run_with(&chain[last], request, outlet, nobody).await.map(drop)
    }

    /// The wanted model and those that may stand in for it; never empty.
    fn chain(&self, wanted: &str) -> Vec<Resolved> {
        let mut chain = vec![self.catalogue.resolve(wanted)];
        for name in &self.config.fallbacks {
            let model = self.catalogue.resolve(name);
            if chain.iter().all(|other| other.id != model.id) {
                chain.push(model);
            }
        }
        chain
    }

    /// One request to one model until its reply is told whole, or until nothing more can be done.
    async fn run_with(
        &self,
        model: &Resolved,
        request: &ModelRequest,
        outlet: &Outlet,
        stand_in: StandIn,
    ) -> Result<Told, ModelError> {
        let mut ledger = Ledger::new(self.config.max_retries, self.config.max_wait, self.config.first_delay)
            .unattended(self.config.unattended)
            .replaceable(stand_in.for_failures);
        let mut once = None;
        loop {
            let (plan, betas) = self.learned().plan(&self.config, model, request, once);
            let room = self.learned().room(&self.config, model, plan.max_tokens, once);
            let body = self.config.with_extra(build_body(request, &plan));
            if body.len() > LARGEST_BODY {
                return Err(too_large(body.len()));
            }
            let betas =
                crate::betas::header(&betas, &self.config.extra_betas, &self.learned().refused_betas(&model.id));
            let headers = self.config.headers(betas.as_deref())?;
            let options = plan.options(betas.as_deref());
            let secret = self.config.credential.secret(outlet).await?;
            let exchange = Exchange {
                inner: self,
                body,
                headers,
                secret,
                model: &model.id,
                outlet,
                request,
                options,
                room,
                yields: stand_in.for_refusals,
            };
            match self.attempts(exchange, &mut ledger).await? {
                Answer::Told(told) => return Ok(told),
                Answer::Refused(refused) => once = self.adopt(refused, model, request, outlet, once)?,
            }
        }
    }

    /// Sends one body until it is answered. Gives back the cure when the server wants another body.
    async fn attempts(&self, mut exchange: Exchange<'_>, ledger: &mut Ledger) -> Result<Answer, ModelError> {
        let credential = &self.config.credential;
        let mut may_race = true;
        let mut resets = 0;
        loop {
            // A connection from the pool may be closed by the server at the very moment it is used again.
            let raced = may_race && self.transport.is_warm();
            let setback = match exchange.attempt().await {
                Ok(told) => return Ok(Answer::Told(told)),
                Err(setback) => setback,
            };
            let mut failure = match setback {
                Setback::Unanswered { reset, .. } if reset && raced => {
                    may_race = false;
                    continue;
                }
                Setback::Unanswered { reset, mut failure } => {
                    resets += u32::from(reset);
                    if resets > 1 && exchange.body.len() > SUSPICIOUS_BODY {
                        failure = unheard_refusal(exchange.body.len());
                    }
                    failure
                }
                Setback::Broken { failure, progress } => match (progress, failure.again) {
                    (Progress::ThinkingOnly, Again::Budget) => Failure { again: Again::AtMost(2), ..failure },
                    _ => failure,
                },
            };
            *failure.error = credential.told(&exchange.secret, *failure.error);
            if failure.error.status == Some(401)
                && ledger.may_renew()
                && let Some(renewed) = credential.renewed(&exchange.secret, exchange.outlet).await
            {
                exchange.secret = renewed?;
                continue;
            }
            match ledger.judge(failure.clone()) {
                Verdict::GiveUp(error) => return Err(error),
                Verdict::Cure(cure) => return Ok(Answer::Refused(Refused { cure, error: *failure.error })),
                Verdict::Retry { attempt, max, delay, error } => {
                    let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
                    exchange.outlet.push(ModelEvent::Retrying { attempt, max, delay_ms, error });
                    tokio::time::sleep(delay).await;
                    // It may have become too old meanwhile.
                    exchange.secret = credential.secret(exchange.outlet).await?;
                }
            }
        }
    }

    /// Remembers a cure for the rest of the run and tells the person. Fails when it would change nothing.
    fn adopt(
        &self,
        refused: Refused,
        model: &Resolved,
        request: &ModelRequest,
        outlet: &Outlet,
        once: Option<u64>,
    ) -> Result<Option<u64>, ModelError> {
        let Refused { cure, error } = refused;
        if let Cure::MaxTokensThisTime(left) = cure {
            outlet.push(ModelEvent::Notice(cure.notice(&model.id)));
            return Ok(Some(left));
        }
        if !self.learned().adopt(&cure, &self.config, model, request) {
            return Err(error);
        }
        outlet.push(ModelEvent::Notice(cure.notice(&model.id)));
        Ok(once)
    }
}

/// What another model of the chain would stand in for.
#[derive(Clone, Copy)]
struct StandIn {
    for_failures: bool,
    for_refusals: bool,
}

/// What became of one body.
enum Answer {
    Told(Told),
    Refused(Refused),
}

/// A body that the server would take in another form.
struct Refused {
    cure: Cure,
    error: ModelError,
}

/// A server that closes the connection while a body this long is on its way most likely said so in an answer that got
/// lost.
const SUSPICIOUS_BODY: usize = 4 << 20;

fn unheard_refusal(bytes: usize) -> Failure {
    let message = format!("the server closed the connection while it received a request of {bytes} bytes");
    Failure::new(ErrorKind::RequestTooLarge, Again::Never, message)
}

fn too_large(bytes: usize) -> ModelError {
    let message = format!("the request has {bytes} bytes; the API takes {LARGEST_BODY} at most");
    *Failure::new(ErrorKind::RequestTooLarge, Again::Never, message).error
}

/// The longest wait that a server may ask of us when nobody said otherwise.
const DEFAULT_MAX_WAIT: Duration = Duration::from_secs(300);
