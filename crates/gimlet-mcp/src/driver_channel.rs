//! Transport to a server inside the program that drives gimlet: one JSON-RPC message per call, and its answer.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimlet_proto::{Driver, DriverError};
use rmcp::RoleClient;
use rmcp::model::{ClientNotification, ClientRequest, JsonRpcRequest, RequestId, ServerNotification, ServerResult};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{mpsc, oneshot};

use crate::server_signals::ServerSignals;
use crate::tool_listing::split_valid_tools;

/// Reason why a message failed. It does not come from the server, which may never have received the message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChannelError {
    #[error("{0}")]
    Driver(#[from] DriverError),
    #[error("its answer is no message of a server: {0}")]
    InvalidMessage(#[from] serde_json::Error),
    #[error("its answer is one to something else")]
    UnrelatedResponse,
}

/// Transport to the driving program. Answers arrive in the order in which the server sends them.
pub(crate) struct DriverChannel {
    driver: Arc<dyn Driver>,
    server: Arc<str>,
    answers: mpsc::UnboundedReceiver<RxJsonRpcMessage<RoleClient>>,
    sender: mpsc::UnboundedSender<RxJsonRpcMessage<RoleClient>>,
    pending: PendingRequests,
    inbox: Arc<ServerInbox>,
}

/// Requests without an answer so far. Dropping a sender cancels the wait for its request.
#[derive(Clone, Default)]
struct PendingRequests(Arc<Mutex<HashMap<RequestId, oneshot::Sender<Infallible>>>>);

impl PendingRequests {
    /// Resolves when the request is cancelled; never for a message that is not a request.
    fn wait_until_cancelled(&self, item: &TxJsonRpcMessage<RoleClient>) -> impl Future<Output = ()> + Send + use<> {
        let given_up = match item {
            TxJsonRpcMessage::<RoleClient>::Request(asked) => {
                let (sender, given_up) = oneshot::channel();
                self.lock().insert(asked.id.clone(), sender);
                Some(given_up)
            }
            _ => None,
        };
        async move {
            match given_up {
                Some(given_up) => drop(given_up.await),
                None => std::future::pending().await,
            }
        }
    }

    /// Cancels the request that a cancellation notification names.
    fn handle_cancellation(&self, item: &TxJsonRpcMessage<RoleClient>) {
        if let TxJsonRpcMessage::<RoleClient>::Notification(told) = item
            && let ClientNotification::CancelledNotification(cancelled) = &told.notification
            && let Some(id) = &cancelled.params.request_id
        {
            self.remove(id);
        }
    }

    fn remove(&self, id: &RequestId) {
        self.lock().remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, oneshot::Sender<Infallible>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DriverChannel {
    pub(crate) fn new(driver: Arc<dyn Driver>, server: &str, signals: Arc<ServerSignals>) -> Self {
        let (sender, answers) = mpsc::unbounded_channel();
        let inbox = ServerInbox { messages: sender.clone(), initialized: AtomicBool::new(false), signals };
        let inbox = Arc::new(inbox);
        Self { driver, server: server.into(), answers, sender, pending: PendingRequests::default(), inbox }
    }

    /// Returns the inbox for messages that the server sends on its own.
    pub(crate) fn inbox(&self) -> &Arc<ServerInbox> {
        &self.inbox
    }
}

/// Inbox for unsolicited messages from a server.
pub(crate) struct ServerInbox {
    messages: mpsc::UnboundedSender<RxJsonRpcMessage<RoleClient>>,
    /// True once the server is initialised; earlier messages are not understood.
    initialized: AtomicBool,
    signals: Arc<ServerSignals>,
}

impl ServerInbox {
    /// Accepts a request or a notification. Responses are ignored here: they come back
    /// through the call.
    pub(crate) fn accept_message(&self, message: &RawValue) -> Result<(), String> {
        let message: RxJsonRpcMessage<RoleClient> =
            serde_json::from_str(message.get()).map_err(|error| format!("this is no message of a server: {error}"))?;
        if !matches!(
            message,
            RxJsonRpcMessage::<RoleClient>::Request(_) | RxJsonRpcMessage::<RoleClient>::Notification(_)
        ) {
            return Ok(());
        }
        // Recorded at once, so that the program's next request already finds the new list.
        if let RxJsonRpcMessage::<RoleClient>::Notification(told) = &message
            && matches!(told.notification, ServerNotification::ToolListChangedNotification(_))
        {
            self.signals.mark_tools_changed();
        }
        if !self.initialized.load(Ordering::SeqCst) {
            return match message {
                RxJsonRpcMessage::<RoleClient>::Request(_) => Err("the server is not connected yet".to_owned()),
                _ => Ok(()),
            };
        }
        self.messages.send(message).map_err(|_| "the connection is closed".to_owned())
    }

    pub(crate) fn mark_initialized(&self) {
        self.initialized.store(true, Ordering::SeqCst);
    }

    /// Parses a message as the response to a request. Invalid items of a list are skipped.
    fn parse_response(
        &self,
        asked: &JsonRpcRequest<ClientRequest>,
        text: &str,
    ) -> Result<RxJsonRpcMessage<RoleClient>, ChannelError> {
        match serde_json::from_str(text)? {
            RxJsonRpcMessage::<RoleClient>::Response(mut response) if response.id == asked.id => {
                let is_list = matches!(asked.request, ClientRequest::ListToolsRequest(_));
                if is_list
                    && !matches!(response.result, ServerResult::ListToolsResult(_))
                    && let Some((page, odd)) = split_valid_tools(text)
                {
                    response.result = ServerResult::ListToolsResult(page);
                    self.signals.add_invalid_tools(odd);
                }
                Ok(RxJsonRpcMessage::<RoleClient>::Response(response))
            }
            RxJsonRpcMessage::<RoleClient>::Error(mut error) if error.id.as_ref().is_none_or(|id| *id == asked.id) => {
                error.id = Some(asked.id.clone());
                Ok(RxJsonRpcMessage::<RoleClient>::Error(error))
            }
            _ => Err(ChannelError::UnrelatedResponse),
        }
    }
}

impl Transport<RoleClient> for DriverChannel {
    type Error = ChannelError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (driver, server, answers) = (self.driver.clone(), self.server.clone(), self.sender.clone());
        let (open, inbox) = (self.pending.clone(), self.inbox.clone());
        open.handle_cancellation(&item);
        let given_up = open.wait_until_cancelled(&item);
        async move {
            let answer = tokio::select! {
                biased;
                // Dropping the call withdraws it from the program.
                () = given_up => return Ok(()),
                answer = driver.send_mcp_message(&server, to_raw_value(&item)?) => answer,
            };
            // Notifications have no answer; anything returned for them is ignored.
            let TxJsonRpcMessage::<RoleClient>::Request(asked) = item else { return Ok(()) };
            open.remove(&asked.id);
            // A closed session does not wait for the answer.
            drop(answers.send(inbox.parse_response(&asked, answer?.get())?));
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.answers.recv().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.answers.close();
        Ok(())
    }
}
