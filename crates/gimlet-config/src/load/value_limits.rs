//! Limits of values beyond their types, and the repair of managed values that do not fit.

use crate::deserialize::ValueMismatch;
use crate::json::{JsonMember, JsonNode, JsonValue};
use crate::settings::{Settings, WorkTime};

/// Checks the values that have bounds.
pub(super) fn check_limits(settings: &Settings, root: &JsonNode) -> Result<(), ValueMismatch> {
    let wrong = |path: &str, message: &str| Err(ValueMismatch::for_key(root, path, message));
    if settings.auto_compact_window.is_some_and(|tokens| !(100_000..=1_000_000).contains(&tokens)) {
        return wrong("autoCompactWindow", "expected a number from 100000 to 1000000");
    }
    if settings.skill_listing_budget_fraction.is_some_and(|share| !(share > 0.0 && share <= 1.0)) {
        return wrong("skillListingBudgetFraction", "expected a number above 0 and up to 1");
    }
    if settings.limits.max_budget_usd.is_some_and(|most| most <= 0.0) {
        return wrong("limits.maxBudgetUsd", "expected a number above 0");
    }
    if let Some(Err(problem)) = settings.limits.max_time.as_ref().map(WorkTime::duration) {
        return wrong("limits.maxTime", &problem);
    }
    let mut prices = settings.model_prices.iter().flatten();
    if let Some((model, _)) = prices.find(|(_, price)| price.all().any(|price| price < 0.0)) {
        return wrong("modelPrices", &format!("a price of {model} is below 0"));
    }
    if settings.footer_links_regexes.as_ref().is_some_and(|links| links.len() > 5) {
        return wrong("footerLinksRegexes", "there can be at most 5 links");
    }
    if let Some(helper) = &settings.policy_helper {
        if !helper.path.starts_with('/') {
            return wrong("policyHelper.path", "expected an absolute path");
        }
        if helper.timeout_ms.is_some_and(|ms| ms < 1_000) {
            return wrong("policyHelper.timeoutMs", "expected a number of at least 1000");
        }
        if helper.refresh_interval_ms.is_some_and(|ms| ms != 0 && ms < 60_000) {
            return wrong("policyHelper.refreshIntervalMs", "expected 0 or a number of at least 60000");
        }
    }
    Ok(())
}

/// Managed keys that fail closed when they cannot be read, with their closed values.
const CLOSED: [(&str, FailClosedValue); 6] = [
    ("allowedMcpServers", FailClosedValue::EmptyList),
    ("availableModels", FailClosedValue::EmptyList),
    ("allowManagedHooksOnly", FailClosedValue::True),
    ("allowManagedMcpServersOnly", FailClosedValue::True),
    ("disableCommandPluginSources", FailClosedValue::True),
    ("enforceAvailableModels", FailClosedValue::True),
];

#[derive(Clone, Copy)]
enum FailClosedValue {
    EmptyList,
    True,
}

/// Makes the value at this path valid with as little loss as possible, and returns a description of the change.
pub(super) fn repair_value(root: &mut JsonNode, path: &str) -> String {
    let parts: Vec<&str> = path.split('.').collect();
    if let Some((_, closed)) = CLOSED.iter().find(|(key, _)| *key == path)
        && let Some(node) = root.get_mut(path)
    {
        let (json, words) = match closed {
            FailClosedValue::EmptyList => (JsonValue::Array(Vec::new()), "an empty list"),
            FailClosedValue::True => (JsonValue::Bool(true), "true"),
        };
        node.json = json;
        return format!("it counts as {words}");
    }
    if remove_list_entry(root, &parts) {
        return "this entry is handled as the strictest one that it can be, or dropped".into();
    }
    let (last, above) = parts.split_last().map_or(("", &[][..]), |(last, above)| (*last, above));
    let removed = root.find_mut(above.iter().copied()).and_then(|node| node.remove(last));
    if removed.is_none() {
        // A path that does not exist must not be tried again.
        let top = parts.first().copied().unwrap_or_default();
        root.remove(top);
        return format!("{top} is dropped");
    }
    "it is dropped".into()
}

/// Drops the outermost list entry on the path; a secret that should be hidden somehow is hidden altogether.
fn remove_list_entry(root: &mut JsonNode, parts: &[&str]) -> bool {
    let credentials = matches!(parts, ["sandbox", "credentials", "files" | "envVars", ..]);
    let mut node = root;
    for part in parts {
        if let JsonValue::Array(_) = node.json {
            let Some((entries, at)) = node.elements_mut().zip(part.parse::<usize>().ok()) else { return false };
            if at >= entries.len() {
                return false;
            }
            match hidden_credential(&entries[at]).filter(|hidden| credentials && entries[at] != *hidden) {
                Some(hidden) => entries[at] = hidden,
                None => drop(entries.remove(at)),
            }
            return true;
        }
        match node.get_mut(part) {
            Some(below) => node = below,
            None => return false,
        }
    }
    false
}

fn hidden_credential(entry: &JsonNode) -> Option<JsonNode> {
    let named = entry.members().iter().find(|member| {
        matches!(member.key.as_str(), "path" | "name") && member.value.as_str().is_some_and(|name| !name.is_empty())
    })?;
    let value = JsonNode { json: JsonValue::String("deny".into()), span: entry.span.clone() };
    let mode = JsonMember { key: "mode".into(), key_span: entry.span.clone(), value };
    Some(JsonNode { json: JsonValue::Object(vec![named.clone(), mode]), span: entry.span.clone() })
}
