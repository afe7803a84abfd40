//! The user's wishes about every request, whoever answers it. A format honours those that it has a word for.

use bytes::Bytes;
use gimlet_proto::{Env, ThinkingDisplay};

use crate::catalogue::ModelProfile;
use crate::json::OrderedMembers;
use crate::providers::ProviderConfigError;

/// Tokens of a reply unless something else is asked for.
const DEFAULT_OUTPUT: u64 = 32_000;
const DEFAULT_OUTPUT_AT_HIGH_EFFORT: u64 = 64_000;
/// Switch for streaming tool inputs unbuffered, at any endpoint.
const EAGER_INPUT: &str = "CLAUDE_CODE_ENABLE_FINE_GRAINED_TOOL_STREAMING";
/// Switches that turn cache markers off for a model family.
const UNCACHED: [(&str, &str); 4] = [
    ("DISABLE_PROMPT_CACHING_OPUS", "opus"),
    ("DISABLE_PROMPT_CACHING_SONNET", "sonnet"),
    ("DISABLE_PROMPT_CACHING_HAIKU", "haiku"),
    ("DISABLE_PROMPT_CACHING_FABLE", "fable"),
];

/// Wishes about every request.
#[derive(Clone, Debug)]
pub struct RequestWishes {
    /// True if opt-in features of an API are used at all.
    pub(crate) sends_betas: bool,
    /// Opt-in features that flags name.
    pub(crate) betas: Vec<String>,
    /// True if models may think between tool calls.
    pub(crate) interleaved_thinking: bool,
    /// True if models that also accept a thinking budget get one instead of choosing their own depth.
    pub(crate) fixed_thinking: bool,
    /// True if an effort is sent to every model, even to those not known to accept one.
    pub(crate) always_effort: bool,
    /// Override for streaming tool inputs unbuffered; by default only at a vendor's own host.
    pub(crate) eager_input: Option<bool>,
    pub(crate) max_output_tokens: Option<u64>,
    /// Model families that get no cache markers.
    uncached: Vec<&'static str>,
    /// Additional body members, which replace ours of their names.
    extra_body: Vec<(String, String)>,
    /// Requested display of the model's thinking; all of it by default.
    pub thinking_display: Option<ThinkingDisplay>,
    /// Token budget of the whole task, as stated to the model.
    pub task_budget: Option<u64>,
}

impl RequestWishes {
    pub(crate) fn from_env(env: &Env) -> Result<Self, ProviderConfigError> {
        Ok(Self {
            sends_betas: !env.flag("GIMLET_DISABLE_BETAS") && !env.flag("CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS"),
            betas: Vec::new(),
            interleaved_thinking: !env.flag("DISABLE_INTERLEAVED_THINKING"),
            fixed_thinking: env.flag("CLAUDE_CODE_DISABLE_ADAPTIVE_THINKING"),
            always_effort: env.flag("CLAUDE_CODE_ALWAYS_ENABLE_EFFORT"),
            eager_input: env.get(EAGER_INPUT).map(|_| env.flag(EAGER_INPUT)),
            max_output_tokens: env.integer("CLAUDE_CODE_MAX_OUTPUT_TOKENS").filter(|tokens| *tokens > 0),
            uncached: UNCACHED.into_iter().filter(|(name, _)| env.flag(name)).map(|(_, family)| family).collect(),
            extra_body: extra_body(env.get("CLAUDE_CODE_EXTRA_BODY").unwrap_or("{}"))?,
            thinking_display: None,
            task_budget: None,
        })
    }

    /// Returns true if cache markers are sent to this model.
    pub(crate) fn sends_cache_markers(&self, model: &str) -> bool {
        !self.uncached.iter().any(|family| model.contains(family))
    }

    /// Returns the number of tokens that a reply may take: as the request asks, or else as the user allows, or else the
    /// usual number for this effort.
    pub(crate) fn max_reply_tokens(&self, profile: &ModelProfile, asked: Option<u64>, effort: Option<&str>) -> u64 {
        let usual = match effort {
            Some("xhigh" | "max") => DEFAULT_OUTPUT_AT_HIGH_EFFORT,
            _ => DEFAULT_OUTPUT,
        };
        let allowed = self.max_output_tokens;
        let asked = asked.map(|asked| asked.min(allowed.unwrap_or(u64::MAX)));
        asked.or(allowed).unwrap_or(usual).clamp(1, profile.max_output_tokens)
    }

    /// Returns a body with the user's additional members.
    pub(crate) fn add_extra_body(&self, body: Bytes) -> Bytes {
        if self.extra_body.is_empty() {
            return body;
        }
        let Ok(members) = serde_json::from_slice::<OrderedMembers>(&body) else { return body };
        let extra: Vec<(&str, String)> =
            self.extra_body.iter().map(|(name, json)| (name.as_str(), json.clone())).collect();
        Bytes::from(members.render(&extra))
    }
}

/// Parses the user's additional body members. Members that a reply depends on (model, messages, stream) are an error.
fn extra_body(text: &str) -> Result<Vec<(String, String)>, ProviderConfigError> {
    let wrong = |reason: String| ProviderConfigError::ExtraBody { reason };
    let members: OrderedMembers = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    let members = members.into_pairs();
    match members.iter().find(|(name, _)| ["model", "messages", "stream"].contains(&name.as_str())) {
        Some((name, _)) => Err(wrong(format!("`{name}` cannot be changed there"))),
        None => Ok(members),
    }
}

/// Parses a comma-separated list of values.
pub(crate) fn parse_list(text: &str) -> Vec<String> {
    text.split([',', '\n']).map(str::trim).filter(|value| !value.is_empty()).map(ToOwned::to_owned).collect()
}
