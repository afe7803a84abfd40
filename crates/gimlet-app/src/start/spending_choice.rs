//! Ceilings of a session, and prices of models: flags, then settings. Nothing passes a ceiling of managed settings.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use gimlet_config::{ModelPriceSettings, Scope, Settings};
use gimlet_core::SpendingLimits;
use gimlet_proto::ModelPrice;

use super::SessionSettings;
use crate::launch_request::LaunchRequest;

/// Returns the ceilings.
pub(super) fn spending_limits(request: &LaunchRequest, configured: &SessionSettings) -> SpendingLimits {
    let (asked, settings) = (&request.limits, &configured.effective.settings.limits);
    let time = settings.max_time.as_ref().and_then(|time| time.duration().ok());
    SpendingLimits {
        max_budget_usd: lower_of(
            asked.max_budget_usd,
            settings.max_budget_usd,
            is_managed(configured, "limits.maxBudgetUsd"),
        ),
        max_total_tokens: lower_of(
            asked.max_total_tokens,
            settings.max_total_tokens.map(NonZeroU64::get),
            is_managed(configured, "limits.maxTotalTokens"),
        ),
        max_time: lower_of(asked.max_time, time, is_managed(configured, "limits.maxTime")),
    }
}

/// Returns the maximum number of model requests per prompt.
pub(super) fn turn_limit(request: &LaunchRequest, configured: &SessionSettings) -> Option<u32> {
    let setting = configured.effective.settings.limits.max_turns;
    let most = gimlet_core::max_turns(request.limits.max_turns, &configured.env, setting);
    match setting.filter(|bound| *bound > 0) {
        Some(bound) if is_managed(configured, "limits.maxTurns") => Some(most.map_or(bound, |most| most.min(bound))),
        Some(_) | None => most,
    }
}

/// Returns the requested value, or else that of settings, which a managed one bounds.
fn lower_of<T: PartialOrd>(asked: Option<T>, setting: Option<T>, is_managed: bool) -> Option<T> {
    match (asked, setting) {
        (Some(asked), Some(setting)) if is_managed && setting < asked => Some(setting),
        (Some(asked), _) => Some(asked),
        (None, setting) => setting,
    }
}

/// Returns true if managed settings give the value of this key.
fn is_managed(configured: &SessionSettings, key: &str) -> bool {
    let sources = configured.effective.merged.sources(key);
    sources.last().is_some_and(|source| source.origin.scope == Scope::Managed)
}

/// Returns the prices of models that settings give.
pub(super) fn model_prices(settings: &Settings) -> BTreeMap<String, ModelPrice> {
    let given = settings.model_prices.iter().flatten();
    given.map(|(model, price)| (model.clone(), to_price(price))).collect()
}

fn to_price(given: &ModelPriceSettings) -> ModelPrice {
    let usual = ModelPrice::from_input_and_output(given.input, given.output);
    ModelPrice {
        read: given.cache_read.unwrap_or(usual.read),
        write_5m: given.cache_write.unwrap_or(usual.write_5m),
        write_1h: given.cache_write_long.unwrap_or(usual.write_1h),
        ..usual
    }
}
