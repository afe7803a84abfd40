//! Error bodies, inside and outside of streams, from the vendor and from gateways in front of it.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::LossyText;

/// Parsed contents of an error body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ErrorBody {
    /// `error.type`; empty when absent.
    pub(crate) kind: String,
    /// `error.details.error_code`, which is stable enough to branch on.
    pub(crate) code: Option<String>,
    /// One readable line; empty when the body has no message.
    pub(crate) message: String,
    pub(crate) request_id: Option<String>,
}

/// Maximum length of an error message.
const LONGEST_MESSAGE: usize = 600;

#[derive(Deserialize)]
struct ErrorEnvelope<'a> {
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<LossyText<'a>>,
    #[serde(borrow, default)]
    detail: Option<LossyText<'a>>,
    #[serde(borrow, default)]
    request_id: Option<LossyText<'a>>,
}

#[derive(Deserialize)]
struct ErrorFields<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<LossyText<'a>>,
    #[serde(borrow, default)]
    message: Option<LossyText<'a>>,
    #[serde(borrow, default)]
    details: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ErrorDetails<'a> {
    #[serde(borrow, default)]
    error_code: Option<LossyText<'a>>,
}

impl ErrorBody {
    /// Parses a body of any kind: the vendor's JSON, other JSON, an HTML page, text, or nothing.
    pub(crate) fn parse(body: &str) -> Self {
        let body = body.trim();
        if let Ok(outer) = serde_json::from_str::<ErrorEnvelope<'_>>(body) {
            return Self::from_outer(&outer, body);
        }
        let message = if looks_like_html(body) { html_summary(body) } else { one_line(body) };
        Self { message, ..Self::default() }
    }

    fn from_outer(outer: &ErrorEnvelope<'_>, body: &str) -> Self {
        let request_id = outer.request_id.as_ref().map(|id| one_line(id.as_str()));
        let inner = outer.error.and_then(|raw| serde_json::from_str::<ErrorFields<'_>>(raw.get()).ok());
        let said = match (&inner, outer.error) {
            (Some(inner), _) => inner.message.as_ref().map(|text| text.as_str().to_owned()),
            (None, Some(raw)) => serde_json::from_str::<LossyText<'_>>(raw.get()).ok().map(LossyText::into_string),
            (None, None) => None,
        };
        let said = said
            .or_else(|| outer.message.as_ref().map(|text| text.as_str().to_owned()))
            .or_else(|| outer.detail.as_ref().map(|text| text.as_str().to_owned()));
        let code = inner
            .as_ref()
            .and_then(|inner| serde_json::from_str::<ErrorDetails<'_>>(inner.details?.get()).ok())
            .and_then(|details| details.error_code)
            .map(LossyText::into_string);
        Self {
            kind: inner.and_then(|inner| inner.kind).map(LossyText::into_string).unwrap_or_default(),
            code,
            message: one_line(said.as_deref().unwrap_or(body)),
            request_id,
        }
    }
}

pub(crate) fn looks_like_html(body: &str) -> bool {
    let start = body.trim_start().get(..9).unwrap_or(body.trim_start());
    start.eq_ignore_ascii_case("<!doctype")
        || start.to_ascii_lowercase().starts_with("<html")
        || start.starts_with("<?xml")
}

/// Returns the title of an HTML page, or a note that it is one.
fn html_summary(body: &str) -> String {
    let lower = body.to_ascii_lowercase();
    let title = lower.find("<title").and_then(|at| {
        let start = at + lower[at..].find('>')? + 1;
        let end = start + lower[start..].find("</title")?;
        Some(one_line(&body[start..end]))
    });
    match title.filter(|title| !title.is_empty()) {
        Some(title) => format!("an HTML page instead of an API answer: {title}"),
        None => "an HTML page instead of an API answer".to_owned(),
    }
}

/// Collapses whitespace to single spaces, removes control characters and escape sequences, and cuts a long text.
pub(crate) fn one_line(text: &str) -> String {
    let text = gimlet_text::sanitise(text);
    let mut out = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
        if out.len() > LONGEST_MESSAGE {
            out.truncate(out.floor_char_boundary(LONGEST_MESSAGE));
            out.push('…');
            break;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vendors_shape_is_read_whole() {
        let body = ErrorBody::parse(
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow\n down","details":{"error_code":"ramp_limit_exceeded"}},"request_id":"req_1"}"#,
        );
        assert_eq!(
            body,
            ErrorBody {
                kind: "rate_limit_error".into(),
                code: Some("ramp_limit_exceeded".into()),
                message: "slow down".into(),
                request_id: Some("req_1".into()),
            }
        );
    }

    #[test]
    fn foreign_bodies_still_give_one_readable_line() {
        let message = |body: &str| ErrorBody::parse(body).message;
        assert_eq!(message(r#"{"error":"no such model"}"#), "no such model");
        assert_eq!(message(r#"{"detail":"Not Found"}"#), "Not Found");
        assert_eq!(message(r#"{"error":"bad \u001b[31mred\u001b[0m thing"}"#), "bad red thing");
        assert_eq!(
            message("<html><head><TITLE>502 Bad\nGateway</TITLE>"),
            "an HTML page instead of an API answer: 502 Bad Gateway"
        );
        assert_eq!(message("<!DOCTYPE html><p>x"), "an HTML page instead of an API answer");
        assert_eq!(message(r#"{"type":"error","error":{"ty"#), r#"{"type":"error","error":{"ty"#);
        assert_eq!(message(""), "");
        assert!(message(&"é".repeat(5000)).len() < 610);
    }
}
