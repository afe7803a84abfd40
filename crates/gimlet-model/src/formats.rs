//! Wire formats: pure translation between bytes and blocks. Nothing here opens a socket or reads a clock.
//!
//! A format is one implementation of [`WireFormat`] and one line of the table below; the rows of providers refer to it.

mod anomalies;
pub(crate) mod anthropic;
pub(crate) mod reply_state;

use bytes::Bytes;
use gimlet_proto::{ModelErrorKind, ModelEvent, ModelRequest, RateLimit, SentOption, TruncatedCall};
use reqwest::header::{HeaderMap, HeaderName};

use crate::catalogue::ResolvedModel;
use crate::downgrade::Downgrade;
use crate::error_body::ErrorBody;
use crate::failure::{self, RetryAdvice};
use crate::providers::ProviderEndpoint;
use crate::request_wishes::RequestWishes;
use crate::server_quirks::ServerQuirks;
use reply_state::{ReplyState, StreamFault, StreamFlow};

/// The Anthropic Messages format.
pub(crate) static MESSAGES: &dyn WireFormat = &anthropic::MessagesFormat;

/// Translation between gimlet's requests and replies and those of one API.
pub(crate) trait WireFormat: Send + Sync {
    /// Plans one body: what the model accepts, what the user wishes, and what this server has refused so far.
    fn plan(&self, cx: &PlanContext<'_>, quirks: &ServerQuirks) -> PlannedRequest;

    /// Creates the reader of one reply.
    fn reader(&self, start: ReplyState) -> Box<dyn WireReader>;

    /// Finds the change that may make a request acceptable which was refused with status 400.
    fn find_downgrade(&self, body: &ErrorBody) -> Option<Downgrade>;

    /// Records a downgrade for the rest of the run. Returns false if the request would not change.
    fn apply_downgrade(&self, downgrade: &Downgrade, cx: &PlanContext<'_>, quirks: &mut ServerQuirks) -> bool;

    /// Returns the status that an error without one stands for: an error inside a stream, or in a body of status 200.
    fn implied_status(&self, body: &ErrorBody) -> u16;

    /// Classifies an unsuccessful response. `told_to_wait`: the server says when to try again.
    fn classify(&self, status: u16, body: &ErrorBody, told_to_wait: bool) -> (ModelErrorKind, RetryAdvice) {
        failure::classify_status(status, body, told_to_wait)
    }

    /// Returns the account's rate limits in the headers of a response. For diagnosis only.
    fn rate_limits(&self, _headers: &HeaderMap) -> Vec<RateLimit> {
        Vec::new()
    }
}

/// Reader of one streamed reply.
///
/// Blocks come out in the shape of Anthropic's Messages API whatever the wire looks like, because history keeps that
/// shape. [`ModelEvent::Wire`] is Anthropic-shaped too, because programs that ask for raw events expect Anthropic's. The
/// reader of another format therefore translates what arrives into events of the Messages API and hands them to an
/// [`anthropic::ReplyReader`], which makes both.
pub(crate) trait WireReader: Send {
    /// Processes one event. `name` is its name in the framing, empty where there is none.
    fn read_event(
        &mut self,
        name: &str,
        data: &str,
        out: &mut dyn FnMut(ModelEvent),
    ) -> Result<StreamFlow, StreamFault>;

    /// Returns the state of the reply.
    fn state(&self) -> &ReplyState;

    fn state_mut(&mut self) -> &mut ReplyState;
}

/// Facts that a body depends on, besides the server's refusals.
#[derive(Clone, Copy)]
pub(crate) struct PlanContext<'a> {
    pub(crate) wishes: &'a RequestWishes,
    pub(crate) endpoint: &'a ProviderEndpoint,
    pub(crate) model: &'a ResolvedModel,
    pub(crate) request: &'a ModelRequest,
    /// Limit on the reply of this request only.
    pub(crate) once: Option<u64>,
}

/// A request as planned by its format.
pub(crate) struct PlannedRequest {
    pub(crate) body: Bytes,
    /// Headers that this body needs.
    pub(crate) headers: Vec<(HeaderName, String)>,
    /// Options that affect the provider's cache besides system, tools and messages.
    pub(crate) options: Vec<SentOption>,
    /// Output limit of this body, and the limit that another attempt could request.
    pub(crate) room: TruncatedCall,
}

impl PlanContext<'_> {
    /// Returns the facts to report about a call that exceeds the output limit `sent`. The next limit is at most twice
    /// this one, the model's maximum and the user's.
    pub(crate) fn output_limit(&self, quirks: &ServerQuirks, sent: u64) -> TruncatedCall {
        let learned = quirks.of_model(&self.model.id).max_tokens.unwrap_or(u64::MAX);
        let possible = self.model.profile.max_output_tokens.min(learned).min(self.once.unwrap_or(u64::MAX));
        let allowed = self.wishes.max_output_tokens.unwrap_or(u64::MAX);
        let more = sent.saturating_mul(2).min(possible).min(allowed);
        let advice = (allowed <= sent && sent < possible)
            .then(|| format!("CLAUDE_CODE_MAX_OUTPUT_TOKENS allows no more; {} can write {possible}", self.model.id));
        TruncatedCall { max_tokens: sent, more: (more > sent).then_some(more), advice }
    }
}
