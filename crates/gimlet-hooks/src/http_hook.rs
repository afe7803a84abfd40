//! The `http` handler: posts the event to a server and reads its answer.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use gimlet_core::{HandlerAnswer, HandlerCall, HandlerError, HandlerReport, HookEvent, HookHandler};
use gimlet_exec::is_public_address;
use gimlet_proto::{BoxFuture, Env};
use reqwest::Url;

use crate::command_hook::{default_timeout, refuse_untrusted};
use crate::hook_answer::parse_answer;
use crate::hook_host::{HookHost, HookTrustCheck};

/// Longest answer that is read.
const MAX_ANSWER: usize = 1 << 20;

/// A hook that asks a server.
pub(crate) struct HttpHook {
    pub(crate) host: Arc<HookHost>,
    pub(crate) request: Arc<HttpHookRequest>,
    pub(crate) trust: Option<HookTrustCheck>,
}

/// Where and how the event is posted.
pub(crate) struct HttpHookRequest {
    pub(crate) url: Url,
    pub(crate) headers: BTreeMap<String, String>,
    /// Variables whose values may stand in headers.
    pub(crate) allowed_variables: Vec<String>,
    /// True if a loopback or private address may be reached: the user's own hooks and managed ones.
    pub(crate) may_reach_private: bool,
}

impl HookHandler for HttpHook {
    fn run(&self, call: HandlerCall) -> BoxFuture<'static, Result<HandlerReport, HandlerError>> {
        let (host, request) = (self.host.clone(), self.request.clone());
        let objection = self.trust.as_ref().and_then(|check| check());
        Box::pin(async move {
            if let Some(reason) = objection {
                return refuse_untrusted(call.event, reason);
            }
            post_event(&host, &request, &call).await.map_err(HandlerError::Failed)
        })
    }

    fn kind(&self) -> &'static str {
        "http"
    }

    fn text(&self) -> String {
        self.request.url.to_string()
    }

    fn default_timeout(&self, event: HookEvent) -> Duration {
        default_timeout(event)
    }
}

async fn post_event(host: &HookHost, request: &HttpHookRequest, call: &HandlerCall) -> Result<HandlerReport, String> {
    if !request.may_reach_private {
        refuse_private_address(&request.url).await?;
    }
    let transport = if request.may_reach_private { &host.transport } else { &host.public_transport };
    let client = transport.client().await.map_err(|error| error.to_string())?;
    let env = host.env();
    let mut post = client
        .post(request.url.clone())
        .header(reqwest::header::CONTENT_TYPE, "application/json")
        .body(call.input.get().to_owned());
    for (name, value) in &request.headers {
        post = post.header(name, fill_variables(value, &request.allowed_variables, &env));
    }
    let origin = request.url.origin().ascii_serialization();
    let mut response =
        post.send().await.map_err(|error| format!("{origin} cannot be reached: {}", describe_request_error(&error)))?;
    let status = response.status();
    if !status.is_success() {
        return Err(format!("{origin} answered with status {}", status.as_u16()));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| format!("its answer broke off: {error}"))? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_ANSWER {
            return Err(format!("its answer is longer than {} KiB", MAX_ANSWER >> 10));
        }
    }
    let text = String::from_utf8_lossy(&body).into_owned();
    let answer = if text.trim().is_empty() {
        HandlerAnswer::Text(String::new())
    } else {
        parse_answer(&text).ok_or_else(|| "its answer is not a JSON object".to_owned())??
    };
    Ok(HandlerReport { answer, stdout: text, stderr: String::new(), exit_code: None })
}

/// Returns the innermost cause of a failed request, without the address, which may hold a secret.
fn describe_request_error(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Fails if the host is, or resolves to, an address that only the user's own hooks may reach.
async fn refuse_private_address(url: &Url) -> Result<(), String> {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let port = url.port_or_known_default().unwrap_or(443);
    let found = tokio::net::lookup_host((host, port)).await;
    let addresses: Vec<IpAddr> =
        found.map_err(|error| format!("{host} cannot be resolved: {error}"))?.map(|address| address.ip()).collect();
    match addresses.iter().find(|address| !is_public_address(**address)) {
        Some(address) => {
            Err(format!("{host} is {address}, a loopback or private address, which only your own hooks may reach"))
        }
        None => Ok(()),
    }
}

/// Replaces `$NAME` and `${NAME}` in a header: with the value if the name is allowed, else with nothing.
fn fill_variables(text: &str, allowed: &[String], env: &Env) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        filled.push_str(before);
        let (name, tail) = match after.strip_prefix('{').and_then(|braced| braced.split_once('}')) {
            Some(pair) => pair,
            None => {
                let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
                after.split_at(end)
            }
        };
        if name.is_empty() {
            filled.push('$');
            rest = after;
            continue;
        }
        if allowed.iter().any(|known| known == name) {
            filled.push_str(env.exact(name).unwrap_or_default());
        }
        rest = tail;
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_variables_reach_headers() {
        let env = Env::default().with("TOKEN", "t").with("OTHER", "o");
        let allowed = ["TOKEN".to_owned()];
        for (text, wanted) in [
            ("Bearer $TOKEN", "Bearer t"),
            ("${TOKEN}-$OTHER-x", "t--x"),
            ("$TOKEN_X|$", "|$"),
            ("costs $ 5 ${", "costs $ 5 ${"),
        ] {
            assert_eq!(fill_variables(text, &allowed, &env), wanted, "{text}");
        }
    }
}
