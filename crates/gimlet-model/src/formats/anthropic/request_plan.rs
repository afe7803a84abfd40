//! Planning of a request body: the catalogue's facts, the user's wishes, and the server's refusals in this run.

use gimlet_proto::{BlockKind, Message, ModelRequest, Role, ThinkingDisplay, ThinkingMode, ToolChoice};
use gimlet_text::SendableImage;

use super::betas::{self, BETAS, BetaConditions, BetaFeature};
use super::request::{BodyPlan, ThinkingField};
use crate::catalogue::{ModelProfile, OffSwitch, ThinkingSupport};
use crate::downgrade::Downgrade;
use crate::formats::PlanContext;
use crate::request_wishes::RequestWishes;
use crate::server_quirks::{ModelQuirks, ServerQuirks};

const SMALLEST_BUDGET: u64 = 1_024;
/// Default thinking budget of a model that needs one.
const USUAL_BUDGET: u64 = 31_999;

impl ModelQuirks {
    /// Returns true if the server has not refused this beta so far.
    fn accepts_beta(&self, beta: &BetaFeature) -> bool {
        !self.no_betas && !self.refused_betas.iter().any(|refused| refused == beta.value)
    }
}

/// Records a downgrade. Returns false if the body would not change.
pub(super) fn apply_downgrade(downgrade: &Downgrade, cx: &PlanContext<'_>, quirks: &mut ServerQuirks) -> bool {
    let cx = PlanContext { once: None, ..*cx };
    let before = plan_body(&cx, quirks);
    let betas_before = quirks.of_model(&cx.model.id).refused_betas.clone();
    record_downgrade(downgrade, &cx, quirks);
    let after = plan_body(&cx, quirks);
    before != after || betas_before != quirks.of_model(&cx.model.id).refused_betas
}

fn record_downgrade(downgrade: &Downgrade, cx: &PlanContext<'_>, quirks: &mut ServerQuirks) {
    let lessons = quirks.of_model_mut(&cx.model.id);
    match downgrade {
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
            lessons.refused_betas.extend(extra_betas(cx).cloned());
        }
        Downgrade::MaxTokens(limit) => lessons.max_tokens = Some(*limit),
        Downgrade::DropUnboundThinking
            if cx.wishes.sends_betas && is_thinking_adaptive(cx, lessons) && !lessons.drop_unbound =>
        {
            lessons.drop_unbound = true;
        }
        Downgrade::DropUnboundThinking | Downgrade::StripThinking => {
            lessons.drop_unbound = false;
            quirks.strip_thinking(cx.request);
        }
        Downgrade::MaxTokensThisTime(_) => {}
    }
}

/// Returns the betas that the user requests.
fn extra_betas<'a>(cx: &PlanContext<'a>) -> impl Iterator<Item = &'a String> + use<'a> {
    let betas = if cx.wishes.sends_betas { [&cx.endpoint.betas, &cx.wishes.betas] } else { [const { &Vec::new() }; 2] };
    betas.into_iter().flatten()
}

/// Plans a body and the value of the header for betas.
pub(super) fn plan_request(cx: &PlanContext<'_>, quirks: &ServerQuirks) -> (BodyPlan, Option<String>) {
    let (plan, betas) = plan_body(cx, quirks);
    let extra: Vec<String> = extra_betas(cx).cloned().collect();
    let betas = betas::header_value(&betas, &extra, &quirks.of_model(&cx.model.id).refused_betas);
    (plan, betas)
}

/// Plans a body, with the betas that its fields need.
fn plan_body(cx: &PlanContext<'_>, quirks: &ServerQuirks) -> (BodyPlan, Vec<&'static BetaFeature>) {
    let PlanContext { wishes, model, request, .. } = *cx;
    let lessons = quirks.of_model(&model.id);
    let profile = lessons.apply_to(model.profile);
    let mut effort = if lessons.no_effort { None } else { effort(wishes, &profile, request.effort.as_deref()) };
    let max_tokens = wishes
        .max_reply_tokens(&profile, request.max_tokens, effort)
        .min(lessons.max_tokens.unwrap_or(u64::MAX))
        .min(cx.once.unwrap_or(u64::MAX));
    let tool_choice = tool_choice(&profile, &request.tool_choice);
    let forced = matches!(tool_choice, ToolChoice::Any { .. } | ToolChoice::Tool { .. });
    let strip_thinking = quirks.stripped_messages(request);
    let thinking = thinking(wishes, &profile, request, max_tokens, lessons).filter(|field| {
        // A budget excludes a forced call, and a turn that began without thinking.
        !matches!(field, ThinkingField::Enabled { .. })
            || !forced && !turn_began_without_thinking(request, strip_thinking)
    });
    if effort_is_capped(&profile, thinking, lessons) {
        effort = effort.map(|level| if matches!(level, "xhigh" | "max") { "high" } else { level });
    }
    let betas = needed_betas(wishes, &profile, thinking, lessons);
    let is_vendor = cx.endpoint.is_vendor;
    let plan = BodyPlan {
        model: model.id.clone(),
        max_tokens,
        thinking,
        effort: effort.map(ToOwned::to_owned),
        task_budget: if betas.contains(&&betas::TASK_BUDGET) { wishes.task_budget } else { None },
        tool_choice,
        caching: !lessons.no_cache_control && wishes.sends_cache_markers(model.family_id()),
        eager_input: wishes.eager_input.unwrap_or(is_vendor) && !lessons.no_eager_input,
        defer_loading: is_vendor && !lessons.no_defer_loading,
        strip_thinking,
        most_images: SendableImage::max_count_for_window(profile.context_window),
    };
    (plan, betas)
}

fn is_thinking_adaptive(cx: &PlanContext<'_>, lessons: &ModelQuirks) -> bool {
    let profile = lessons.apply_to(cx.model.profile);
    matches!(thinking(cx.wishes, &profile, cx.request, u64::MAX, lessons), Some(ThinkingField::Adaptive { .. }))
}

/// Returns the requested level, or the next lower one that the model supports.
fn effort<'a>(wishes: &RequestWishes, profile: &ModelProfile, asked: Option<&'a str>) -> Option<&'a str> {
    let asked = asked?;
    if profile.efforts.contains(&asked) || profile.efforts.is_empty() && wishes.always_effort {
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
    wishes: &RequestWishes,
    profile: &ModelProfile,
    request: &ModelRequest,
    max_tokens: u64,
    lessons: &ModelQuirks,
) -> Option<ThinkingField> {
    let asked = request.thinking;
    let display = display(request.display.or(wishes.thinking_display), profile);
    let on = ThinkingField::Adaptive {
        display: if lessons.no_display { None } else { display },
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
        (ThinkingSupport::Adaptive { .. }, _) if wishes.fixed_thinking && profile.takes_budget => {
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
    wishes: &RequestWishes,
    profile: &ModelProfile,
    thinking: Option<ThinkingField>,
    lessons: &ModelQuirks,
) -> Vec<&'static BetaFeature> {
    let circumstances = BetaConditions {
        thinks: profile.thinks,
        thinking,
        interleaves: wishes.interleaved_thinking,
        has_task_budget: wishes.task_budget.is_some() && !lessons.no_task_budget,
    };
    let usable = |beta: &&&BetaFeature| wishes.sends_betas && lessons.accepts_beta(beta);
    BETAS.iter().filter(usable).filter(|beta| (beta.wanted)(&circumstances)).copied().collect()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
