//! A transport around another one that records what the session has to know of its messages, for every kind of server.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, RequestId, ServerNotification, ServerResult};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

use crate::server_signals::ServerSignals;
use crate::tool_listing::split_valid_tools;

/// Transport that reports to a connection's signals. A tool list with invalid items keeps its valid ones.
pub(crate) struct ObservedTransport<T> {
    inner: T,
    signals: Arc<ServerSignals>,
    /// Requests that have no answer so far.
    open_requests: HashSet<RequestId>,
    /// Those of them for tool lists.
    list_requests: HashSet<RequestId>,
}

impl<T> ObservedTransport<T> {
    pub(crate) fn new(inner: T, signals: Arc<ServerSignals>) -> Self {
        Self { inner, signals, open_requests: HashSet::new(), list_requests: HashSet::new() }
    }

    /// Returns true for an answer to a request that was never made, or was answered already.
    fn is_unrelated(&mut self, message: &RxJsonRpcMessage<RoleClient>) -> bool {
        match message {
            RxJsonRpcMessage::<RoleClient>::Response(response) => !self.open_requests.remove(&response.id),
            RxJsonRpcMessage::<RoleClient>::Error(error) => {
                error.id.as_ref().is_none_or(|id| !self.open_requests.remove(id))
            }
            _ => false,
        }
    }

    fn observe(&mut self, message: &mut RxJsonRpcMessage<RoleClient>) {
        match message {
            RxJsonRpcMessage::<RoleClient>::Response(response) if self.list_requests.remove(&response.id) => {
                if matches!(response.result, ServerResult::ListToolsResult(_)) {
                    return;
                }
                let answer = serde_json::json!({ "result": response.result });
                if let Some((page, odd)) = split_valid_tools(&answer.to_string()) {
                    response.result = ServerResult::ListToolsResult(page);
                    self.signals.add_invalid_tools(odd);
                }
            }
            RxJsonRpcMessage::<RoleClient>::Error(error) => {
                if let Some(id) = &error.id {
                    self.list_requests.remove(id);
                }
            }
            RxJsonRpcMessage::<RoleClient>::Notification(told) => match told.notification {
                ServerNotification::ToolListChangedNotification(_) => self.signals.mark_tools_changed(),
                ServerNotification::ResourceListChangedNotification(_)
                | ServerNotification::PromptListChangedNotification(_) => self.signals.mark_catalogue_changed(),
                _ => {}
            },
            _ => {}
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for ObservedTransport<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let TxJsonRpcMessage::<RoleClient>::Request(asked) = &item {
            self.open_requests.insert(asked.id.clone());
            if matches!(asked.request, ClientRequest::ListToolsRequest(_)) {
                self.list_requests.insert(asked.id.clone());
            }
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let Some(mut message) = self.inner.receive().await else {
                self.signals.mark_closed();
                return None;
            };
            if self.is_unrelated(&message) {
                self.signals.add_log_line("answered something that it was not asked".to_owned());
                continue;
            }
            self.observe(&mut message);
            return Some(message);
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.signals.mark_closed();
        self.inner.close().await
    }
}
