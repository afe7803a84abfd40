//! Capabilities of each model, as the strict checks need them.
//!
//! This table is written from the provider's documentation and on purpose shares nothing with the client's catalogue:
//! if both had a mistake from one source, no test could find it.

use serde::Deserialize;

/// A model as a script describes it; missing fields come from the built-in table.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    pub id: String,
    #[serde(default)]
    pub context: Option<u64>,
    #[serde(default)]
    pub max_output: Option<u64>,
    /// The accepted `thinking.type` values.
    #[serde(default)]
    pub thinking: Option<Vec<String>>,
    #[serde(default)]
    pub effort: Option<Vec<String>>,
    #[serde(default)]
    pub forced_tool_choice: Option<bool>,
    #[serde(default)]
    pub tools: Option<bool>,
    #[serde(default)]
    pub min_cache_tokens: Option<u64>,
    #[serde(default)]
    pub binding: Option<ThinkingBinding>,
}

impl ModelSpec {
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), ..Self::default() }
    }
}

/// Handling of a thinking block whose prefix changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum ThinkingBinding {
    /// Only text and signature of the latest assistant message are checked.
    #[serde(rename = "unbound")]
    Unbound,
    /// The request is refused.
    #[serde(rename = "bound:error")]
    Error,
    /// The block is left out silently.
    #[serde(rename = "bound:drop")]
    Drop,
}

/// Complete capabilities of a model.
#[derive(Clone, Debug)]
pub(crate) struct ModelCapabilities {
    pub(crate) id: String,
    pub(crate) context: u64,
    pub(crate) max_output: u64,
    pub(crate) thinking: Vec<String>,
    pub(crate) effort: Vec<String>,
    pub(crate) forced_tool_choice: bool,
    pub(crate) tools: bool,
    pub(crate) min_cache_tokens: u64,
    pub(crate) binding: ThinkingBinding,
    /// True if the history may end with the assistant.
    pub(crate) prefill: bool,
    /// True if `temperature` and related fields are accepted.
    pub(crate) sampling: bool,
    /// True if `role:"system"` messages are accepted.
    pub(crate) system_messages: bool,
    /// With these modes the effort may not exceed `high`.
    pub(crate) effort_capped_when_off: bool,
    /// True if old thinking is kept in context; false if it is dropped at the next user turn.
    pub(crate) keeps_thinking: bool,
}

struct Family {
    prefix: &'static str,
    context: u64,
    max_output: u64,
    thinking: &'static [&'static str],
    effort: &'static [&'static str],
    min_cache_tokens: u64,
    forced_tool_choice: bool,
    bound: bool,
    generation: Generation,
}

/// Generations at which rules changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Generation {
    V45,
    V46,
    V47,
    V48,
    V5,
}

const LOW_TO_HIGH: &[&str] = &["low", "medium", "high"];
const WITH_MAX: &[&str] = &["low", "medium", "high", "max"];
const ALL_EFFORTS: &[&str] = &["low", "medium", "high", "xhigh", "max"];
const ADAPTIVE: &[&str] = &["adaptive"];
const ADAPTIVE_OR_OFF: &[&str] = &["adaptive", "disabled"];
const MANUAL_OR_OFF: &[&str] = &["enabled", "disabled"];
const MILLION: u64 = 1_000_000;

/// One row: prefix, window, output, thinking modes, efforts, cache minimum, forced choice, bound, generation.
macro_rules! family {
    ($prefix:literal, $context:expr, $out:expr, $think:expr, $effort:expr, $min:expr, $forced:expr, $bound:expr, $gen:ident) => {
        Family {
            prefix: $prefix,
            context: $context,
            max_output: $out,
            thinking: $think,
            effort: $effort,
            min_cache_tokens: $min,
            forced_tool_choice: $forced,
            bound: $bound,
            generation: Generation::$gen,
        }
    };
}

/// Longest prefix first within a name, because the first match counts.
const FAMILIES: &[Family] = &[
    family!("claude-fable-5-", MILLION, 128_000, ADAPTIVE, ALL_EFFORTS, 512, false, true, V5),
    family!("claude-fable-5", MILLION, 128_000, ADAPTIVE, ALL_EFFORTS, 512, true, false, V5),
    family!("claude-mythos-5", MILLION, 128_000, ADAPTIVE, ALL_EFFORTS, 512, true, false, V5),
    family!("claude-mythos-preview", MILLION, 128_000, &["adaptive", "enabled"], WITH_MAX, 2048, false, false, V47),
    family!("claude-opus-5-5", MILLION, 128_000, ADAPTIVE, ALL_EFFORTS, 512, false, true, V5),
    family!("claude-opus-5", MILLION, 128_000, ADAPTIVE_OR_OFF, ALL_EFFORTS, 512, true, false, V5),
    family!("claude-sonnet-5-5", MILLION, 128_000, &["adaptive", "between_tools"], ALL_EFFORTS, 512, false, true, V5),
    family!("claude-sonnet-5", MILLION, 128_000, ADAPTIVE_OR_OFF, ALL_EFFORTS, 1024, true, false, V5),
    family!("claude-haiku-5-5", MILLION, 128_000, ADAPTIVE_OR_OFF, ALL_EFFORTS, 512, true, true, V5),
    family!("claude-opus-4-8", MILLION, 128_000, ADAPTIVE_OR_OFF, ALL_EFFORTS, 1024, true, false, V48),
    family!("claude-opus-4-7", MILLION, 128_000, ADAPTIVE_OR_OFF, ALL_EFFORTS, 2048, true, false, V47),
    family!(
        "claude-opus-4-6",
        MILLION,
        128_000,
        &["adaptive", "enabled", "disabled"],
        WITH_MAX,
        4096,
        true,
        false,
        V46
    ),
    family!(
        "claude-sonnet-4-6",
        MILLION,
        128_000,
        &["adaptive", "enabled", "disabled"],
        WITH_MAX,
        1024,
        true,
        false,
        V46
    ),
    family!("claude-opus-4-5", 200_000, 64_000, MANUAL_OR_OFF, LOW_TO_HIGH, 4096, true, false, V45),
    family!("claude-sonnet-4-5", 200_000, 64_000, MANUAL_OR_OFF, &[], 1024, true, false, V45),
    family!("claude-haiku-4-5", 200_000, 64_000, MANUAL_OR_OFF, &[], 4096, true, false, V45),
    // Deliberately unusual models.
    family!("scripted-tiny", 2_000, 1_000, ADAPTIVE_OR_OFF, ALL_EFFORTS, 512, true, true, V5),
    family!("scripted-no-tools", 200_000, 64_000, ADAPTIVE_OR_OFF, ALL_EFFORTS, 512, true, true, V5),
    family!("scripted-no-effort", 200_000, 64_000, &["disabled"], &[], 512, true, true, V5),
    // Any other name counts as the newest generation, which is the strictest.
    family!("", MILLION, 128_000, ADAPTIVE_OR_OFF, ALL_EFFORTS, 512, false, true, V5),
];

impl ModelCapabilities {
    /// Returns the profile of `model`, or `None` when the script lists models and this is not one of them.
    pub(crate) fn find(model: &str, listed: &[ModelSpec]) -> Option<Self> {
        let spec = listed.iter().find(|spec| spec.id == model);
        if spec.is_none() && !listed.is_empty() {
            return None;
        }
        let family = FAMILIES.iter().find(|family| model.starts_with(family.prefix))?;
        let mut profile = Self::of_family(model, family);
        if let Some(spec) = spec {
            profile.take(spec);
        }
        Some(profile)
    }

    fn of_family(model: &str, family: &Family) -> Self {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let generation = family.generation;
        Self {
            id: model.to_owned(),
            context: family.context,
            max_output: family.max_output,
            thinking: owned(family.thinking),
            effort: owned(family.effort),
            forced_tool_choice: family.forced_tool_choice,
            tools: family.prefix != "scripted-no-tools",
            min_cache_tokens: family.min_cache_tokens,
            binding: if family.bound { ThinkingBinding::Error } else { ThinkingBinding::Unbound },
            prefill: generation < Generation::V46,
            sampling: generation < Generation::V47,
            system_messages: generation >= Generation::V48,
            effort_capped_when_off: generation >= Generation::V5 && !family.prefix.ends_with("sonnet-5"),
            keeps_thinking: generation >= Generation::V46 || family.prefix.contains("opus-4-5"),
        }
    }

    fn take(&mut self, spec: &ModelSpec) {
        self.context = spec.context.unwrap_or(self.context);
        self.max_output = spec.max_output.unwrap_or(self.max_output);
        self.forced_tool_choice = spec.forced_tool_choice.unwrap_or(self.forced_tool_choice);
        self.tools = spec.tools.unwrap_or(self.tools);
        self.min_cache_tokens = spec.min_cache_tokens.unwrap_or(self.min_cache_tokens);
        self.binding = spec.binding.unwrap_or(self.binding);
        if let Some(thinking) = &spec.thinking {
            self.thinking.clone_from(thinking);
        }
        if let Some(effort) = &spec.effort {
            self.effort.clone_from(effort);
        }
    }

    /// Returns the models that the listing route names.
    pub(crate) fn all(listed: &[ModelSpec]) -> Vec<Self> {
        if !listed.is_empty() {
            return listed.iter().filter_map(|spec| Self::find(&spec.id, listed)).collect();
        }
        let whole_names = FAMILIES.iter().filter(|family| !family.prefix.is_empty() && !family.prefix.ends_with('-'));
        whole_names.map(|family| Self::of_family(family.prefix, family)).collect()
    }

    /// Returns the limit of images in one request.
    pub(crate) fn max_images(&self) -> usize {
        if self.context <= 200_000 { 100 } else { 600 }
    }
}
