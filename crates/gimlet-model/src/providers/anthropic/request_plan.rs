//! Planning of a request body: the catalogue's facts, the user's settings, and the server's refusals in this run.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use gimlet_proto::{BlockKind, Message, ModelRequest, Role, ThinkingDisplay, ThinkingMode, ToolChoice, TruncatedCall};
use gimlet_text::SendableImage;

use super::AnthropicConfig;
use crate::betas::{self, BETAS, BetaConditions, BetaFeature};
use crate::catalogue::{ModelProfile, OffSwitch, ResolvedModel, ThinkingSupport};
use crate::downgrade::Downgrade;
use crate::formats::anthropic::{BodyPlan, ThinkingField};

const DEFAULT_OUTPUT: u64 = 32_000;
const DEFAULT_OUTPUT_AT_HIGH_EFFORT: u64 = 64_000;
const SMALLEST_BUDGET: u64 = 1_024;
/// Default thinking budget of a model that needs one.
const USUAL_BUDGET: u64 = 31_999;

/// Features that this server refused for one of its models.
#[derive(Clone, Debug, Default, PartialEq)]
struct ModelQuirks {
    thinks: Option<ThinkingSupport>,
    no_display: bool,
    no_effort: bool,
    effort_up_to_high: bool,
    no_eager_input: bool,
    no_defer_loading: bool,
    no_cache_control: bool,
    no_task_budget: bool,
    no_betas: bool,
    refused_betas: Vec<String>,
    drop_unbound: bool,
    max_tokens: Option<u64>,
}

impl ModelQuirks {
    /// Returns true if the server has not refused this beta so far.
    fn accepts_beta(&self, beta: &BetaFeature) -> bool {
        !self.no_betas && !self.refused_betas.iter().any(|refused| refused == beta.value)
    }

    /// Returns the catalogue's row corrected by the server's refusals about thinking.
    fn apply_to(&self, profile: ModelProfile) -> ModelProfile {
        match self.thinks {
            Some(thinks) => ModelProfile { thinks, takes_budget: false, ..profile },
            None => profile,
        }
    }
}

/// Quirks learned in this run.
#[derive(Debug, Default)]
pub(super) struct ServerQuirks {
    by_model: HashMap<String, ModelQuirks>,
    /// Conversations whose thinking is omitted, with the number of messages concerned.
    stripped: HashMap<u64, usize>,
}

impl ServerQuirks {
    /// Records a downgrade. Returns false if the body would not change.
    pub(super) fn apply_downgrade(
        &mut self,
        cure: &Downgrade,
        config: &AnthropicConfig,
        model: &ResolvedModel,
        request: &ModelRequest,
    ) -> bool {
        let before = self.plan(config, model, request, None);
        let betas_before = self.refused_betas(&model.id);
        self.record_downgrade(cure, config, model, request);
        let after = self.plan(config, model, request, None);
        before != after || betas_before != self.refused_betas(&model.id)
    }

    fn record_downgrade(
        &mut self,
        cure: &Downgrade,
        config: &AnthropicConfig,
        model: &ResolvedModel,
        request: &ModelRequest,
    ) {
        let lessons = self.by_model.entry(model.id.clone()).or_default();
        match cure {
            Downgrade::ManualThinking => lessons.thinks = Some(ThinkingSupport::Manual { interleaved: false }),
            Downgrade::AdaptiveThinking => lessons.thinks = Some(ThinkingSupport::Adaptive { off: OffSwitch::Omit }),
            Downgrade::NoThinkingField => lessons.thinks = Some(ThinkingSupport::Unknown),
            Downgrade::NoThinkingDisplay => lessons.no_display = true,
            Downgrade::NoEffort => lessons.no_effort = true,
            Downgrade::EffortUpToHigh => lessons.effort_up_to_high = true,
            Downgrade::NoEagerInput => lessons.no_eager_input = true,
            Downgrade::NoDeferLoading => lessons.no_defer_loading = true,
            Downgrade::NoCacheControl => lessons.no_cache_control = true,
            Downgrade::NoTaskBudget => lessons.no_task_budget = true,
            Downgrade::NoBeta(Some(beta)) => lessons.refused_betas.push(beta.clone()),
            Downgrade::NoBeta(None) => {
                lessons.no_betas = true;
                lessons.refused_betas.extend(config.extra_betas.iter().cloned());
            }
            Downgrade::MaxTokens(limit) => lessons.max_tokens = Some(*limit),
            Downgrade::DropUnboundThinking
                if config.betas && is_thinking_adaptive(config, model, lessons, request) && !lessons.drop_unbound =>
            {
                lessons.drop_unbound = true;
            }
            Downgrade::DropUnboundThinking | Downgrade::StripThinking => {
                lessons.drop_unbound = false;
                self.stripped.insert(conversation_key(request), request.messages.len());
            }
            Downgrade::MaxTokensThisTime(_) => {}
        }
    }

    pub(super) fn refused_betas(&self, model: &str) -> Vec<String> {
        self.by_model.get(model).map(|lessons| lessons.refused_betas.clone()).unwrap_or_default()
    }

    /// Returns the facts to report about a call that exceeds the output limit. The next limit is at most twice this
    /// one, the model's maximum and the user's.
    pub(super) fn output_limit(
        &self,
        config: &AnthropicConfig,
        model: &ResolvedModel,
        sent: u64,
        once: Option<u64>,
    ) -> TruncatedCall {
        let learned = self.by_model.get(&model.id).and_then(|lessons| lessons.max_tokens).unwrap_or(u64::MAX);
        let possible = model.profile.max_output_tokens.min(learned).min(once.unwrap_or(u64::MAX));
        let allowed = config.max_output_tokens.unwrap_or(u64::MAX);
        let more = sent.saturating_mul(2).min(possible).min(allowed);
        let advice = (allowed <= sent && sent < possible)
            .then(|| format!("CLAUDE_CODE_MAX_OUTPUT_TOKENS allows no more; {} can write {possible}", model.id));
        TruncatedCall { max_tokens: sent, more: (more > sent).then_some(more), advice }
    }

    /// Plans a body, with the betas that its fields need. `once` limits the reply of this request only.
    pub(super) fn plan(
        &self,
        config: &AnthropicConfig,
        model: &ResolvedModel,
        request: &ModelRequest,
        once: Option<u64>,
    ) -> (BodyPlan, Vec<&'static BetaFeature>) {
        let none = ModelQuirks::default();
        let lessons = self.by_model.get(&model.id).unwrap_or(&none);
        let profile = lessons.apply_to(model.profile);
        let mut effort = effort(config, &profile, request.effort.as_deref()).filter(|_| !lessons.no_effort);
        let max_tokens = max_tokens(config, &profile, request.max_tokens, effort)
            .min(lessons.max_tokens.unwrap_or(u64::MAX))
            .min(once.unwrap_or(u64::MAX));
        let tool_choice = tool_choice(&profile, &request.tool_choice);
        let forced = matches!(tool_choice, ToolChoice::Any { .. } | ToolChoice::Tool { .. });
        let strip_thinking = match self.stripped.is_empty() {
            true => 0,
            false => self.stripped.get(&conversation_key(request)).copied().unwrap_or(0),
        };
        let thinking = thinking(config, &profile, request, max_tokens, lessons).filter(|field| {
            // A budget excludes a forced call, and a turn that began without thinking.
            !matches!(field, ThinkingField::Enabled { .. })
                || !forced && !turn_began_without_thinking(request, strip_thinking)
        });
        if effort_is_capped(&profile, thinking, lessons) {
            effort = effort.map(|level| if matches!(level, "xhigh" | "max") { "high" } else { level });
        }
        let betas = needed_betas(config, &profile, thinking, lessons);
        let plan = BodyPlan {
            model: model.id.clone(),
            max_tokens,
            thinking,
            effort: effort.map(ToOwned::to_owned),
            task_budget: config.task_budget.filter(|_| betas.contains(&&betas::TASK_BUDGET)),
            tool_choice,
            caching: !lessons.no_cache_control && config.sends_cache_markers(model.family_id()),
            eager_input: config.eager_input.unwrap_or(config.first_party) && !lessons.no_eager_input,
            defer_loading: config.first_party && !lessons.no_defer_loading,
            strip_thinking,
            most_images: SendableImage::max_count_for_window(profile.context_window),
        };
        (plan, betas)
    }
}

fn is_thinking_adaptive(
    config: &AnthropicConfig,
    model: &ResolvedModel,
    lessons: &ModelQuirks,
    request: &ModelRequest,
) -> bool {
    let profile = lessons.apply_to(model.profile);
    matches!(thinking(config, &profile, request, u64::MAX, lessons), Some(ThinkingField::Adaptive { .. }))
}

fn max_tokens(config: &AnthropicConfig, profile: &ModelProfile, asked: Option<u64>, effort: Option<&str>) -> u64 {
    let usual = match effort {
        Some("xhigh" | "max") => DEFAULT_OUTPUT_AT_HIGH_EFFORT,
        _ => DEFAULT_OUTPUT,
    };
    let allowed = config.max_output_tokens;
    let asked = asked.map(|asked| asked.min(allowed.unwrap_or(u64::MAX)));
    asked.or(allowed).unwrap_or(usual).clamp(1, profile.max_output_tokens)
}

/// Returns the requested level, or the next lower one that the model supports.
fn effort<'a>(config: &AnthropicConfig, profile: &ModelProfile, asked: Option<&'a str>) -> Option<&'a str> {
    let asked = asked?;
    if profile.efforts.contains(&asked) || profile.efforts.is_empty() && config.always_effort {
        return Some(asked);
    }
    match asked {
        "max" | "xhigh" if profile.efforts.contains(&"high") => Some("high"),
        _ => None,
    }
}

fn effort_is_capped(profile: &ModelProfile, thinking: Option<ThinkingField>, lessons: &ModelQuirks) -> bool {
    let off = matches!(thinking, Some(ThinkingField::Disabled | ThinkingField::BetweenTools));
    let by_table = matches!(
        profile.thinks,
        ThinkingSupport::Adaptive { off: OffSwitch::DisabledUpToHigh | OffSwitch::BetweenTools }
    );
    lessons.effort_up_to_high || (off && by_table)
}

fn thinking(
    config: &AnthropicConfig,
    profile: &ModelProfile,
    request: &ModelRequest,
    max_tokens: u64,
    lessons: &ModelQuirks,
) -> Option<ThinkingField> {
    let asked = request.thinking;
    let on = ThinkingField::Adaptive {
        display: display(request.display.or(config.thinking_display), profile).filter(|_| !lessons.no_display),
        drop_unbound: lessons.drop_unbound && lessons.accepts_beta(&betas::THINKING_BINDING),
    };
    let off = matches!(asked, ThinkingMode::Off | ThinkingMode::Budget(0));
    match (profile.thinks, asked) {
        (ThinkingSupport::Adaptive { off: switch }, _) if off => match switch {
            // The model thinks anyway; then its text between calls should at least be readable.
            OffSwitch::Never => Some(on),
            OffSwitch::Disabled | OffSwitch::DisabledUpToHigh => Some(ThinkingField::Disabled),
            OffSwitch::BetweenTools => Some(ThinkingField::BetweenTools),
            OffSwitch::Omit => None,
        },
        (ThinkingSupport::Adaptive { .. }, _) if config.fixed_thinking && profile.takes_budget => {
            budgeted_thinking(if let ThinkingMode::Budget(budget) = asked { budget } else { USUAL_BUDGET }, max_tokens)
        }
        // The model chooses the depth; a budget only states that it should think.
        (ThinkingSupport::Adaptive { .. }, _) => Some(on),
        (ThinkingSupport::Manual { .. }, _) if off => None,
        (ThinkingSupport::Manual { .. }, ThinkingMode::Budget(budget)) => budgeted_thinking(budget, max_tokens),
        (ThinkingSupport::Manual { .. }, _) => budgeted_thinking(USUAL_BUDGET, max_tokens),
        (ThinkingSupport::Unknown, _) => None,
    }
}

/// Returns true if the model is in the middle of a turn that began without thinking, or whose thinking is not sent:
/// servers then refuse a budget. A resumed session or another model may have begun it.
fn turn_began_without_thinking(request: &ModelRequest, stripped: usize) -> bool {
    let messages = &request.messages;
    let is_answer = |message: &Message| match message.role {
        Role::Assistant => true,
        Role::User => message.blocks.first().is_some_and(|block| block.kind() == BlockKind::ToolResult),
    };
    let start = messages.iter().rposition(|message| !is_answer(message)).map_or(0, |prompt| prompt + 1);
    let Some(first) = messages.get(start).and_then(|reply| reply.blocks.first()) else { return false };
    start < stripped || !matches!(first.kind(), BlockKind::Thinking | BlockKind::RedactedThinking)
}

/// Returns thinking with a budget that leaves room for an answer; `None` if there is no room.
fn budgeted_thinking(budget: u64, max_tokens: u64) -> Option<ThinkingField> {
    let budget = budget.max(SMALLEST_BUDGET).min(max_tokens.saturating_sub(1));
    (budget >= SMALLEST_BUDGET).then_some(ThinkingField::Enabled { budget })
}

/// Returns the display to send; `None` if it is the model's default.
fn display(wanted: Option<ThinkingDisplay>, profile: &ModelProfile) -> Option<ThinkingDisplay> {
    match (wanted.unwrap_or(ThinkingDisplay::Summarized), profile.hides_thinking) {
        (ThinkingDisplay::Summarized, true) => Some(ThinkingDisplay::Summarized),
        (ThinkingDisplay::Omitted, false) => Some(ThinkingDisplay::Omitted),
        (ThinkingDisplay::Summarized, false) | (ThinkingDisplay::Omitted, true) => None,
    }
}

/// Returns the tool choice; a forced call becomes optional where the model refuses forced calls.
fn tool_choice(profile: &ModelProfile, asked: &ToolChoice) -> ToolChoice {
    match asked {
        ToolChoice::Any { parallel } | ToolChoice::Tool { parallel, .. } if !profile.forced_choice => {
            ToolChoice::Auto { parallel: *parallel }
        }
        other => other.clone(),
    }
}

fn needed_betas(
    config: &AnthropicConfig,
    profile: &ModelProfile,
    thinking: Option<ThinkingField>,
    lessons: &ModelQuirks,
) -> Vec<&'static BetaFeature> {
    let circumstances = BetaConditions {
        thinks: profile.thinks,
        thinking,
        interleaves: config.interleaved_thinking,
        has_task_budget: config.task_budget.is_some() && !lessons.no_task_budget,
    };
    let usable = |beta: &&&BetaFeature| config.betas && lessons.accepts_beta(beta);
    BETAS.iter().filter(usable).filter(|beta| (beta.wanted)(&circumstances)).copied().collect()
}

/// Returns a key for the conversation from its beginning; history is append-only, so the beginning stays.
fn conversation_key(request: &ModelRequest) -> u64 {
    let mut hasher = DefaultHasher::new();
    request.model.hash(&mut hasher);
    for block in request.messages.iter().take(1).flat_map(|message| &message.blocks) {
        block.json().hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
