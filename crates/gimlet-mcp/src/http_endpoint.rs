//! Requests to a remote server: the backend of rmcp's streamable HTTP transport.
//!
//! Goes through gimlet's own HTTP client, so proxies and certificates are those of the rest. Only redirects within the
//! server's origin are followed, answers are limited in size, and headers of the configuration go to that origin only.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use gimlet_http::HttpTransport;
use http::header::{ACCEPT, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest::{Method, Response, Url};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use crate::server_signals::ServerSignals;

const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";
const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_HEADER: HeaderName = HeaderName::from_static("last-event-id");
/// Maximum size of one answer or event.
pub(crate) const MAX_MESSAGE_BYTES: usize = 16 << 20;
/// Maximum number of redirects in a row.
const MOST_REDIRECTS: usize = 5;
/// Bytes of an error's body that are quoted.
const QUOTED_BYTES: usize = 300;

/// Failure of a request, in words for the user.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct HttpError(pub(crate) String);

/// A remote server's address and how to reach it.
#[derive(Clone)]
pub(crate) struct HttpEndpoint {
    pub(crate) transport: Arc<HttpTransport>,
    /// Headers of the configuration.
    pub(crate) headers: HeaderMap,
    /// Time limit for the first byte of an answer.
    pub(crate) first_byte: Duration,
    pub(crate) signals: Arc<ServerSignals>,
}

type EndpointError = StreamableHttpError<HttpError>;

impl HttpEndpoint {
    /// Sends a request and follows redirects within its origin.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Option<Bytes>,
    ) -> Result<Response, HttpError> {
        let client = self.transport.client().await.map_err(|error| HttpError(error.to_string()))?;
        let mut url = Url::parse(url).map_err(|error| HttpError(format!("its url cannot be used: {error}")))?;
        for _ in 0..=MOST_REDIRECTS {
            let mut request = client.request(method.clone(), url.clone()).headers(self.headers.clone());
            // One by one: those of the protocol replace those of the configuration.
            for (name, value) in &headers {
                request = request.header(name, value);
            }
            if let Some(body) = &body {
                request = request.body(body.clone());
            }
            let answer = tokio::time::timeout(self.first_byte, request.send()).await;
            let late = |_| HttpError(format!("it sent nothing within {} s", self.first_byte.as_secs()));
            let answer = answer.map_err(late)?.map_err(|error| HttpError(request_error_message(&error)))?;
            let Some(next) = redirect_target(&url, &answer)? else { return Ok(answer) };
            url = next;
        }
        Err(HttpError("it redirects without end".to_owned()))
    }

    /// Records and describes an answer that is no success.
    pub(crate) async fn status_error(&self, answer: Response) -> EndpointError {
        let status = answer.status();
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            let challenge = answer.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
            self.signals.set_authentication_needed();
            if status == StatusCode::UNAUTHORIZED
                && let Some(challenge) = challenge
            {
                return StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge.to_owned()));
            }
        }
        let body = read_body(answer, QUOTED_BYTES * 4).await.unwrap_or_default();
        let said = String::from_utf8_lossy(&body);
        let said: String = said.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(QUOTED_BYTES).collect();
        let text = if said.is_empty() { format!("HTTP {status}") } else { format!("HTTP {status}: {said}") };
        StreamableHttpError::Client(HttpError(text))
    }
}

/// Returns the address that a redirect leads to; an error if it is another origin's.
fn redirect_target(from: &Url, answer: &Response) -> Result<Option<Url>, HttpError> {
    if !answer.status().is_redirection() {
        return Ok(None);
    }
    let named = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let Some(target) = named.and_then(|named| from.join(named).ok()) else {
        return Err(HttpError(format!("HTTP {} without an address", answer.status())));
    };
    let keeps_method = matches!(answer.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    if !keeps_method || target.origin() != from.origin() {
        let place = target.origin().ascii_serialization();
        return Err(HttpError(format!(
            "HTTP {}: it redirects to {place}, which is not followed; configure that address if it is right",
            answer.status()
        )));
    }
    Ok(Some(target))
}

/// Returns the message of a failed request with its causes, and without the URL, which can hold a secret.
fn request_error_message(error: &reqwest::Error) -> String {
    let mut text = if error.is_connect() { "it cannot be reached".to_owned() } else { "the request failed".to_owned() };
    let mut innermost = std::error::Error::source(error);
    while let Some(next) = innermost.and_then(std::error::Error::source) {
        innermost = Some(next);
    }
    if let Some(cause) = innermost {
        text = format!("{text}: {cause}");
    }
    text
}

/// Reads a body up to a limit; longer ones are an error.
pub(crate) async fn read_body(mut answer: Response, limit: usize) -> Result<Vec<u8>, HttpError> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| HttpError(request_error_message(&error)))? {
        if body.len() + chunk.len() > limit {
            return Err(HttpError(format!("its answer is longer than {} MB", limit >> 20)));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Returns the events of a body, none of which may be longer than the limit.
pub(crate) fn event_stream(answer: Response, limit: usize) -> BoxStream<'static, Result<Sse, SseError>> {
    let mut meter = EventMeter::default();
    let chunks = answer.bytes_stream().map(move |chunk| {
        let chunk = chunk.map_err(|error| HttpError(request_error_message(&error)))?;
        match meter.add(&chunk) > limit {
            true => Err(HttpError(format!("it sent an event of more than {} MB", limit >> 20))),
            false => Ok(chunk),
        }
    });
    SseStream::from_bytes_stream(chunks).boxed()
}

/// Measures the event that is being received.
#[derive(Default)]
struct EventMeter {
    bytes: usize,
    is_line_empty: bool,
}

impl EventMeter {
    /// Adds a chunk; returns the largest size that an unfinished event had in it.
    fn add(&mut self, chunk: &[u8]) -> usize {
        let mut largest = self.bytes;
        for byte in chunk {
            self.bytes += 1;
            match byte {
                b'\n' if self.is_line_empty => self.bytes = 0,
                b'\n' => self.is_line_empty = true,
                b'\r' => {}
                _ => self.is_line_empty = false,
            }
            largest = largest.max(self.bytes);
        }
        largest
    }
}

/// Returns true if the answer has this content type.
fn has_type(answer: &Response, wanted: &str) -> bool {
    let given = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    given.trim_start().to_ascii_lowercase().starts_with(wanted)
}

/// Collects the headers of a request.
struct RequestHeaders(HeaderMap);

impl RequestHeaders {
    fn new(accept: &'static str, given: HashMap<HeaderName, HeaderValue>) -> Self {
        let mut headers: HeaderMap = given.into_iter().collect();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        Self(headers)
    }

    /// Adds a value from the server itself.
    fn with(mut self, name: HeaderName, value: Option<&str>) -> Result<Self, EndpointError> {
        if let Some(value) = value {
            let value = HeaderValue::from_str(value).map_err(|_| {
                StreamableHttpError::UnexpectedServerResponse(Cow::Borrowed("its session id cannot be sent back"))
            })?;
            self.0.insert(name, value);
        }
        Ok(self)
    }
}

impl StreamableHttpClient for HttpEndpoint {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, EndpointError> {
        let headers = RequestHeaders::new("application/json, text/event-stream", custom_headers)
            .with(CONTENT_TYPE, Some(JSON))?
            .with(SESSION_HEADER, session_id.as_deref())?;
        let body = Bytes::from(serde_json::to_vec(&message)?);
        let is_request = matches!(message, ClientJsonRpcMessage::Request(_));
        let answer = self.send(Method::POST, &uri, headers.0, Some(body)).await.map_err(StreamableHttpError::Client)?;
        let status = answer.status();
        if status == StatusCode::NOT_FOUND && session_id.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let given = answer.headers().get(SESSION_HEADER).and_then(|value| value.to_str().ok()).map(str::to_owned);
        if !status.is_success() {
            let is_json = has_type(&answer, JSON);
            let is_refusal = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
            if !is_json || is_refusal {
                return Err(self.status_error(answer).await);
            }
            let body = read_body(answer, MAX_MESSAGE_BYTES).await.map_err(StreamableHttpError::Client)?;
            return match serde_json::from_slice(&body) {
                Ok(message @ ServerJsonRpcMessage::Error(_)) => Ok(StreamableHttpPostResponse::Json(message, given)),
                _ => Err(StreamableHttpError::Client(HttpError(format!("HTTP {status}")))),
            };
        }
        if !is_request || matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if has_type(&answer, EVENT_STREAM) {
            return Ok(StreamableHttpPostResponse::Sse(event_stream(answer, MAX_MESSAGE_BYTES), given));
        }
        if !has_type(&answer, JSON) {
            return Err(StreamableHttpError::Client(HttpError(
                "its answer is neither JSON nor an event stream: this is no address of an MCP server".to_owned(),
            )));
        }
        let body = read_body(answer, MAX_MESSAGE_BYTES).await.map_err(StreamableHttpError::Client)?;
        let message = serde_json::from_slice(&body).map_err(|error| {
            StreamableHttpError::Client(HttpError(format!("its answer is no message of a server: {error}")))
        })?;
        Ok(StreamableHttpPostResponse::Json(message, given))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), EndpointError> {
        let headers = RequestHeaders::new(JSON, custom_headers).with(SESSION_HEADER, Some(&session_id))?;
        // Servers need not support it.
        drop(self.send(Method::DELETE, &uri, headers.0, None).await.map_err(StreamableHttpError::Client)?);
        Ok(())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, EndpointError> {
        let headers = RequestHeaders::new(EVENT_STREAM, custom_headers)
            .with(SESSION_HEADER, session_id.as_deref())?
            .with(LAST_EVENT_HEADER, last_event_id.as_deref())?;
        let answer = self.send(Method::GET, &uri, headers.0, None).await.map_err(StreamableHttpError::Client)?;
        match answer.status() {
            status if status.is_success() && has_type(&answer, EVENT_STREAM) => {
                Ok(event_stream(answer, MAX_MESSAGE_BYTES))
            }
            // A server without this stream says so in many ways; asking again does not help.
            status if status.is_success() || (status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS) => {
                Err(StreamableHttpError::ServerDoesNotSupportSse)
            }
            _ => Err(self.status_error(answer).await),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_measured_one_by_one() {
        let mut meter = EventMeter::default();
        assert_eq!(meter.add(b"data: 12\n"), 9);
        assert_eq!(meter.add(b"data: 3\r\n\r\ndata: 4"), 19);
        assert_eq!(meter.add(b"5"), 8);
        assert_eq!(meter.add(b"\n\n"), 9);
        assert_eq!(meter.add(b""), 0);
    }
}
