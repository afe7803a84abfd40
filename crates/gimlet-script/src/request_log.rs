//! Log of a server: every request with its outcome, failures, and comparisons between requests.

use std::collections::BTreeSet;

use crate::ReceivedRequest;
use crate::anthropic::{PromptLayer, RequestPrompt};
use crate::received_request::RequestOutcome;
use crate::spanned_json::SpannedJson;

/// All requests of a server, in the order of their arrival.
#[derive(Default)]
pub(crate) struct RequestLog {
    requests: Vec<ReceivedRequest>,
    outcomes: Vec<RequestOutcome>,
    pub(crate) failures: Vec<String>,
    in_flight: usize,
    pub(crate) max_parallel: usize,
}

impl RequestLog {
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns the number of times that exactly this body has come before, plus one.
    pub(crate) fn attempt_of(&self, target: &str, body: &[u8]) -> u32 {
        let same =
            |request: &&ReceivedRequest| request.target() == target && request.body() == body && !body.is_empty();
        1 + self.requests.iter().filter(same).count() as u32
    }

    pub(crate) fn open(&mut self, request: ReceivedRequest) {
        self.requests.push(request);
        self.outcomes.push(RequestOutcome::default());
        self.in_flight += 1;
        self.max_parallel = self.max_parallel.max(self.in_flight);
    }

    pub(crate) fn set_outcome(&mut self, index: usize, outcome: RequestOutcome) {
        self.outcomes[index] = outcome;
    }

    pub(crate) fn close(&mut self, index: usize, outcome: RequestOutcome) {
        self.outcomes[index] = outcome;
        self.in_flight -= 1;
    }

    pub(crate) fn request(&self, index: usize) -> Option<ReceivedRequest> {
        Some(self.requests.get(index)?.with_outcome(self.outcomes[index].clone()))
    }

    pub(crate) fn all(&self) -> Vec<ReceivedRequest> {
        (0..self.requests.len()).filter_map(|index| self.request(index)).collect()
    }

    /// Returns every received secret, with its header and path.
    pub(crate) fn secrets_seen(&self) -> BTreeSet<SeenSecret> {
        let of = |request: &ReceivedRequest| -> Vec<SeenSecret> {
            let path = request.path().to_owned();
            let seen = |(header, secret)| SeenSecret { path: path.clone(), header, secret };
            request.credentials().into_iter().map(seen).collect()
        };
        self.requests.iter().flat_map(of).collect()
    }
}

/// A credential and the place it was sent to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeenSecret {
    pub path: String,
    pub header: String,
    pub secret: String,
}

/// Returns the place where `later` stops beginning with the bytes of `earlier`: tools and system equal, messages
/// continued, cache markers aside. `None` if it never does.
pub(crate) fn prefix_difference(earlier: &ReceivedRequest, later: &ReceivedRequest) -> Option<String> {
    let (Ok((text_a, a)), Ok((text_b, b))) = (earlier.parsed(), later.parsed()) else {
        return Some("a body is not JSON".to_owned());
    };
    let bytes = |root: &SpannedJson, text: &str, name: &str| root.get(name).map(|node| node.without_cache_marks(text));
    for name in ["tools", "system"] {
        if bytes(a, text_a, name) != bytes(b, text_b, name) {
            return Some(format!("`{name}` differs"));
        }
    }
    let items = |root: &SpannedJson, text: &str| -> Vec<String> {
        let messages = root.get("messages").map(SpannedJson::items).unwrap_or_default();
        messages.iter().map(|message| message.without_cache_marks(text)).collect()
    };
    let (shorter, longer) = (items(a, text_a), items(b, text_b));
    if longer.len() < shorter.len() {
        return Some(format!("`messages` shrank from {} to {}", shorter.len(), longer.len()));
    }
    let differing = shorter.iter().zip(&longer).position(|(one, other)| one != other);
    differing.map(|position| format!("`messages[{position}]` differs"))
}

/// Returns the first part that keeps `later` from reading the cache that `earlier` wrote, in the cache's own order.
pub(crate) fn first_cache_difference(earlier: &ReceivedRequest, later: &ReceivedRequest) -> Option<&'static str> {
    let (Ok((text_a, a)), Ok((text_b, b))) = (earlier.parsed(), later.parsed()) else { return Some("body") };
    let (prompt_a, prompt_b) = (RequestPrompt::read(text_a, a, &[]), RequestPrompt::read(text_b, b, &[]));
    let same_layer = |layer| prompt_a.layer_digest(layer) == prompt_b.layer_digest(layer);
    let same_field = |name: &str| {
        let bytes = |root: &SpannedJson, text: &str| root.get(name).map(|node| text[node.span.clone()].to_owned());
        bytes(a, text_a) == bytes(b, text_b)
    };
    let checks: [(&'static str, bool); 7] = [
        ("model", earlier.model() == later.model()),
        ("betas", earlier.betas() == later.betas()),
        ("tools", same_layer(PromptLayer::Tools)),
        ("system", same_layer(PromptLayer::System)),
        ("thinking", same_field("thinking") && same_field("output_config")),
        ("tool_choice", same_field("tool_choice")),
        ("messages", prefix_difference(earlier, later).is_none()),
    ];
    checks.into_iter().find(|(_, same)| !same).map(|(name, _)| name)
}
