//! The older HTTP transport: one event stream for everything that the server says, and a POST for every message to it.
//!
//! The server names the address for messages in its first event. It must be of the stream's own origin, because the
//! configured headers go there.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::Sse;

use crate::http_endpoint::{HttpEndpoint, HttpError, MAX_MESSAGE_BYTES, event_stream};

/// Transport over one event stream.
pub(crate) struct SseTransport {
    endpoint: HttpEndpoint,
    events: BoxStream<'static, Result<Sse, SseError>>,
    /// Address for messages.
    target: Arc<str>,
}

impl SseTransport {
    /// Opens the stream and waits for the address for messages.
    pub(crate) async fn open(endpoint: HttpEndpoint, url: &str) -> Result<Self, HttpError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let answer = endpoint.send(Method::GET, url, headers, None).await?;
        if !answer.status().is_success() {
            return Err(HttpError(endpoint.status_error(answer).await.to_string()));
        }
        let base = answer.url().clone();
        let mut events = event_stream(answer, MAX_MESSAGE_BYTES);
        while let Some(event) = events.next().await {
            let event = event.map_err(|error| HttpError(error.to_string()))?;
            if event.event.as_deref() == Some("endpoint") {
                let target = message_address(&base, event.data.as_deref().unwrap_or_default())?;
                return Ok(Self { endpoint, events, target });
            }
        }
        Err(HttpError("its event stream ended before it named an address for messages".to_owned()))
    }
}

fn message_address(base: &Url, named: &str) -> Result<Arc<str>, HttpError> {
    let target = base.join(named.trim()).map_err(|error| HttpError(format!("its address for messages: {error}")))?;
    if target.origin() != base.origin() {
        let place = target.origin().ascii_serialization();
        return Err(HttpError(format!("its address for messages is at {place}, another origin than its own")));
    }
    Ok(target.as_str().into())
}

impl Transport<RoleClient> for SseTransport {
    type Error = HttpError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (endpoint, target) = (self.endpoint.clone(), self.target.clone());
        async move {
            let body = serde_json::to_vec(&item).map_err(|error| HttpError(error.to_string()))?;
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            let answer = endpoint.send(Method::POST, &target, headers, Some(Bytes::from(body))).await?;
            if answer.status().is_success() {
                return Ok(());
            }
            Err(HttpError(endpoint.status_error(answer).await.to_string()))
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            match self.events.next().await {
                Some(Ok(event)) => {
                    let is_message = matches!(event.event.as_deref(), None | Some("message"));
                    let data = event.data.as_deref().filter(|_| is_message);
                    if let Some(message) = data.and_then(|data| serde_json::from_str(data).ok()) {
                        return Some(message);
                    }
                }
                Some(Err(error)) => {
                    self.endpoint.signals.set_end_reason(format!("its event stream broke: {error}"));
                    return None;
                }
                None => {
                    self.endpoint.signals.set_end_reason("its event stream ended");
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.events = futures_util::stream::empty().boxed();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_go_to_the_streams_own_origin_only() {
        let base = Url::parse("https://a.test/sse").unwrap();
        let address = |named| message_address(&base, named);
        assert_eq!(&*address("/messages?session=1").unwrap(), "https://a.test/messages?session=1");
        assert_eq!(&*address("https://a.test/m").unwrap(), "https://a.test/m");
        for elsewhere in ["https://b.test/m", "http://a.test/m", "//a.test:81/m"] {
            assert!(address(elsewhere).unwrap_err().to_string().contains("another origin"), "{elsewhere}");
        }
    }
}
