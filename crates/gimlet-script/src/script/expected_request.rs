//! Conditions of a step on the request that it answers.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::ReceivedRequest;

/// Conditions on a request; those left out hold for every request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExpectedRequest {
    /// The path without its query. Left out: the dialect's path for a reply.
    pub path: Option<String>,
    pub stream: Option<bool>,
    pub model: Option<String>,
    pub tools_include: Vec<String>,
    pub tools_exclude: Vec<String>,
    /// A part of the text of the last user message (tool results not counted).
    pub last_user_text: Option<String>,
    /// The tool whose call the last message answers.
    pub tool_result_for: Option<String>,
    /// A part of one of the results in the last message.
    pub tool_result_contains: Option<String>,
    /// A part of the system prompt.
    pub system_contains: Option<String>,
    /// A part of the body's bytes.
    pub body_contains: Option<String>,
    /// Text that the body must not contain.
    pub body_lacks: Option<String>,
    pub betas_include: Vec<String>,
    /// Header name to a part of its value.
    pub headers: BTreeMap<String, String>,
    /// Number of messages in the request.
    pub messages: Option<usize>,
}

impl ExpectedRequest {
    /// Returns a message about the first condition that does not hold; `None` if all hold.
    pub(crate) fn mismatch(&self, request: &ReceivedRequest) -> Option<String> {
        self.shape_mismatch(request)
            .or_else(|| self.tools_mismatch(request))
            .or_else(|| self.text_mismatch(request))
            .or_else(|| self.header_mismatch(request))
    }

    fn shape_mismatch(&self, request: &ReceivedRequest) -> Option<String> {
        if let Some(path) = self.path.as_deref().filter(|path| *path != request.path()) {
            return Some(format!("expected path {path}, got {}", request.path()));
        }
        if let Some(stream) = self.stream.filter(|stream| *stream != request.is_streaming()) {
            return Some(format!("expected stream {stream}"));
        }
        if let Some(model) = self.model.as_deref().filter(|model| *model != request.model()) {
            return Some(format!("expected model {model}, got {}", request.model()));
        }
        let count = request.message_count();
        self.messages.filter(|wanted| *wanted != count).map(|wanted| format!("expected {wanted} messages, got {count}"))
    }

    fn tools_mismatch(&self, request: &ReceivedRequest) -> Option<String> {
        if self.tools_include.is_empty() && self.tools_exclude.is_empty() {
            return None;
        }
        let names = request.tool_names();
        let missing = self.tools_include.iter().find(|tool| !names.contains(tool));
        let extra = self.tools_exclude.iter().find(|tool| names.contains(tool));
        missing
            .map(|tool| format!("expected the tool {tool} among {names:?}"))
            .or_else(|| extra.map(|tool| format!("expected no tool {tool}")))
    }

    fn text_mismatch(&self, request: &ReceivedRequest) -> Option<String> {
        let part = |wanted: &Option<String>, what: &str, text: &dyn Fn() -> String| {
            let wanted = wanted.as_deref()?;
            let text = text();
            (!text.contains(wanted)).then(|| format!("expected {what} with {wanted:?}, got {}", excerpt(&text)))
        };
        if let Some(tool) = self.tool_result_for.as_deref() {
            let answered = request.answered_tools();
            if !answered.iter().any(|name| name == tool) {
                return Some(format!("expected a result for {tool}, got results for {answered:?}"));
            }
        }
        if let Some(word) = self.body_lacks.as_deref().filter(|word| request.body_text().contains(word)) {
            return Some(format!("the body has {word:?}, which it must not"));
        }
        part(&self.last_user_text, "a last user text", &|| request.last_user_text())
            .or_else(|| part(&self.tool_result_contains, "a tool result", &|| request.tool_results().join("\n")))
            .or_else(|| part(&self.system_contains, "a system prompt", &|| request.system_text()))
            .or_else(|| part(&self.body_contains, "a body", &|| request.body_text().into_owned()))
    }

    fn header_mismatch(&self, request: &ReceivedRequest) -> Option<String> {
        let betas = request.betas();
        if let Some(beta) = self.betas_include.iter().find(|beta| !betas.contains(beta)) {
            return Some(format!("expected the beta {beta} among {betas:?}"));
        }
        let wrong = self
            .headers
            .iter()
            .find(|(name, part)| !request.header(name).is_some_and(|value| value.contains(part.as_str())));
        wrong.map(|(name, part)| format!("expected header {name} with {part:?}, got {:?}", request.header(name)))
    }
}

/// Returns enough of a text to recognise it in a failure report.
fn excerpt(text: &str) -> String {
    let short: String = text.chars().take(200).collect();
    if short.len() < text.len() { format!("{short:?}…") } else { format!("{short:?}") }
}
