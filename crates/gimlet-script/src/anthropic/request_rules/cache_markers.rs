//! Rules about cache markers.

use super::fields::allow_only;
use super::{RuleContext, RuleResult};
use crate::anthropic::prompt::{CacheMarker, MarkerTtl, find_cache_markers};
use crate::anthropic::thinking_signature::is_thinking;
use crate::api_error::ApiError;
use crate::spanned_json::SpannedJson;

const MOST_MARKS: usize = 4;

pub(super) fn check(rules: &RuleContext<'_>) -> RuleResult {
    let marks = find_cache_markers(rules.root);
    if marks.len() > MOST_MARKS {
        let message =
            format!("A maximum of {MOST_MARKS} blocks with cache_control may be provided. Found {}.", marks.len());
        return Err(ApiError::invalid(message));
    }
    for mark in &marks {
        check_marker(mark)?;
    }
    check_ttl_order(&marks)
}

fn check_marker(mark: &CacheMarker<'_>) -> RuleResult {
    let path = match mark.path.as_str() {
        "cache_control" => mark.path.clone(),
        path => format!("{path}.cache_control"),
    };
    allow_only(mark.control, &path, &["type", "ttl"])?;
    if mark.control.type_tag() != "ephemeral" {
        return Err(ApiError::at(&path, "Input should be {\"type\":\"ephemeral\"}"));
    }
    if mark.control.get("ttl").is_some_and(|ttl| !matches!(ttl.as_str(), Some("5m" | "1h"))) {
        return Err(ApiError::at(&format!("{path}.ttl"), "Input should be '5m' or '1h'"));
    }
    if is_thinking(mark.holder) {
        return Err(ApiError::at(&path, "cache_control cannot be set for thinking blocks"));
    }
    if mark.holder.type_tag() == "text" && mark.holder.str_of("text").is_none_or(str::is_empty) {
        return Err(ApiError::at(&path, "cache_control cannot be set for empty text blocks"));
    }
    if mark.holder.get("defer_loading").and_then(SpannedJson::as_bool) == Some(true) {
        return Err(ApiError::at(&path, "cache_control cannot be set for tools with defer_loading"));
    }
    Ok(())
}

/// Checks that long-lived entries come before short-lived ones.
fn check_ttl_order(marks: &[CacheMarker<'_>]) -> RuleResult {
    let first_short = marks.iter().position(|mark| mark.ttl() == MarkerTtl::FiveMinutes);
    let late = first_short.and_then(|short| marks[short..].iter().find(|mark| mark.ttl() == MarkerTtl::OneHour));
    match late {
        Some(mark) => {
            let message = "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block";
            Err(ApiError::at(&mark.path, message))
        }
        None => Ok(()),
    }
}
