//! Rate limits of the account in a response's headers. For diagnosis only: nothing is decided by them.

use gimlet_proto::RateLimit;
use reqwest::header::HeaderMap;

/// Prefixes of such headers; the limit's name and the kind of fact follow.
const FAMILIES: [(&str, &str); 3] =
    [("anthropic-ratelimit-", ""), ("anthropic-priority-", "priority-"), ("anthropic-fast-", "fast-")];
/// Maximum number of limits, more than any server has; the headers are untrusted.
const MOST: usize = 32;

/// Parses the limits in a response, in their order.
pub(super) fn parse_headers(headers: &HeaderMap) -> Vec<RateLimit> {
    let mut limits: Vec<RateLimit> = Vec::new();
    for (header, value) in headers {
        let Some((name, fact)) = split_header_name(header.as_str()) else { continue };
        let Ok(value) = value.to_str() else { continue };
        let at = match limits.iter().position(|limit| limit.name == name) {
            Some(at) => at,
            None if limits.len() < MOST => {
                limits.push(RateLimit { name, ..RateLimit::default() });
                limits.len() - 1
            }
            None => continue,
        };
        let limit = &mut limits[at];
        match fact {
            "limit" => limit.limit = value.parse().ok(),
            "remaining" => limit.remaining = value.parse().ok(),
            _ => limit.reset = Some(value.chars().filter(|c| !c.is_control()).take(40).collect()),
        }
    }
    limits.retain(|limit| limit.limit.is_some() || limit.remaining.is_some());
    limits
}

fn split_header_name(header: &str) -> Option<(String, &str)> {
    let (rest, prefix) =
        FAMILIES.iter().find_map(|(family, prefix)| header.strip_prefix(family).map(|rest| (rest, prefix)))?;
    let (name, fact) = rest.rsplit_once('-')?;
    ["limit", "remaining", "reset"].contains(&fact).then(|| (format!("{prefix}{name}"), fact))
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;
    use crate::failure::describe_exhausted;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn limits_are_gathered_by_name() {
        let limits = parse_headers(&headers(&[
            ("anthropic-ratelimit-input-tokens-limit", "40000"),
            ("anthropic-ratelimit-input-tokens-remaining", "0"),
            ("anthropic-ratelimit-input-tokens-reset", "2026-11-15T10:00:00Z"),
            ("anthropic-ratelimit-requests-remaining", "49"),
            ("anthropic-fast-output-tokens-limit", "100"),
            ("anthropic-ratelimit-odd", "1"),
            ("anthropic-ratelimit-tokens-reset", "2026-11-15T10:00:00Z"),
            ("retry-after", "3"),
        ]));
        let told: Vec<String> = limits.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "input-tokens: 0 of 40000 left until 2026-11-15T10:00:00Z",
                "requests: 49 left",
                "fast-output-tokens: limit 100"
            ]
        );
        assert_eq!(describe_exhausted(&limits).as_deref(), Some(told[0].as_str()));
        assert_eq!(describe_exhausted(&limits[1..]), None);
        assert!(parse_headers(&headers(&[("content-type", "text/event-stream")])).is_empty());
    }
}
