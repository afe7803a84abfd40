//! The way to a server that lives inside the program which drives gimlet: one JSON-RPC message a call, its answer back.

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

use crate::tool_listing::{InvalidTool, split_valid_tools};

/// Why a message came to nothing. It is not the server's own word: the server may never have seen the message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChannelError {
    #[error("{0}")]
    Driver(#[from] DriverError),
    #[error("its answer is no message of a server: {0}")]
    InvalidMessage(#[from] serde_json::Error),
    #[error("its answer is one to something else")]
    UnrelatedResponse,
}

/// Answers come in the order in which the server gives them.
pub(crate) struct DriverChannel {
    driver: Arc<dyn Driver>,
    server: Arc<str>,
    answers: mpsc::UnboundedReceiver<RxJsonRpcMessage<RoleClient>>,
    sender: mpsc::UnboundedSender<RxJsonRpcMessage<RoleClient>>,
    pending: PendingRequests,
    inbox: Arc<ServerInbox>,
}

/// The requests that nobody has answered yet. Whoever waits for one gives it up when its sender goes.
#[derive(Clone, Default)]
struct PendingRequests(Arc<Mutex<HashMap<RequestId, oneshot::Sender<Infallible>>>>);

impl PendingRequests {
    /// Comes back when the request is given up; never for what is no request.
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

    /// Gives up what a notification takes back.
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
    pub(crate) fn new(driver: Arc<dyn Driver>, server: &str) -> Self {
        let (sender, answers) = mpsc::unbounded_channel();
        let inbox = ServerInbox {
            messages: sender.clone(),
            initialized: AtomicBool::new(false),
            list_changed: AtomicBool::new(false),
            invalid_tools: Mutex::default(),
        };
        let inbox = Arc::new(inbox);
        Self { driver, server: server.into(), answers, sender, pending: PendingRequests::default(), inbox }
    }

    /// Where messages come in that the server sends by itself.
    pub(crate) fn inbox(&self) -> &Arc<ServerInbox> {
        &self.inbox
    }
}

/// The way in for what a server has to say without being asked.
pub(crate) struct ServerInbox {
    messages: mpsc::UnboundedSender<RxJsonRpcMessage<RoleClient>>,
    /// The server has been greeted: whoever speaks earlier is not understood.
    initialized: AtomicBool,
    /// The server said that its tools have changed.
    list_changed: AtomicBool,
    /// What it listed that is no tool.
    invalid_tools: Mutex<Vec<InvalidTool>>,
}

/// A server's word that its tools have changed. It stands until somebody has asked for them.
pub(crate) struct ListChangedSignal(Option<Arc<ServerInbox>>);

impl ListChangedSignal {
    /// Somebody has asked.
    pub(crate) fn acknowledge(mut self) {
        self.0 = None;
    }
}

impl Drop for ListChangedSignal {
    fn drop(&mut self) {
        if let Some(inbox) = &self.0 {
            inbox.list_changed.store(true, Ordering::SeqCst);
        }
    }
}

impl ServerInbox {
    /// Takes a request or a notification. What looks like an answer is none of ours: those come back with the question.
    pub(crate) fn accept_message(&self, message: &RawValue) -> Result<(), String> {
        let message: RxJsonRpcMessage<RoleClient> =
            serde_json::from_str(message.get()).map_err(|error| format!("this is no message of a server: {error}"))?;
        if !matches!(
            message,
            RxJsonRpcMessage::<RoleClient>::Request(_) | RxJsonRpcMessage::<RoleClient>::Notification(_)
        ) {
            return Ok(());
        }
        // Noted here and at once: whatever the program says next finds the new list.
        if let RxJsonRpcMessage::<RoleClient>::Notification(told) = &message
            && matches!(told.notification, ServerNotification::ToolListChangedNotification(_))
        {
            self.list_changed.store(true, Ordering::SeqCst);
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

    /// Whether the server said since the last time that its tools have changed.
    pub(crate) fn take_list_changed(self: &Arc<Self>) -> Option<ListChangedSignal> {
        self.list_changed.swap(false, Ordering::SeqCst).then(|| ListChangedSignal(Some(self.clone())))
    }

    /// What it listed since the last time that is no tool.
    pub(crate) fn take_invalid_tools(&self) -> Vec<InvalidTool> {
        std::mem::take(&mut *self.invalid_tools.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A message as the answer to what was asked. Of a list with something odd in it the rest is taken.
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
                    self.invalid_tools.lock().unwrap_or_else(PoisonError::into_inner).extend(odd);
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
                // What is dropped with this is withdrawn from the program.
                () = given_up => return Ok(()),
                answer = driver.send_mcp_message(&server, to_raw_value(&item)?) => answer,
            };
            // Notifications have no answer, whatever came back for them.
            let TxJsonRpcMessage::<RoleClient>::Request(asked) = item else { return Ok(()) };
            open.remove(&asked.id);
            // A session that has gone does not wait for it.
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
