//! The way to a server that lives inside the program which drives gimlet: one JSON-RPC message a call, its answer back.

use std::sync::Arc;

use gimlet_proto::{Driver, DriverError};
use rmcp::model::RequestId;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::{ErrorData, RoleClient};
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::mpsc;

/// Answers come in the order in which the server gives them.
pub(crate) struct DriverChannel {
    driver: Arc<dyn Driver>,
    server: Arc<str>,
    answers: mpsc::UnboundedReceiver<RxJsonRpcMessage<RoleClient>>,
    sender: mpsc::UnboundedSender<RxJsonRpcMessage<RoleClient>>,
}

impl DriverChannel {
    pub(crate) fn new(driver: Arc<dyn Driver>, server: &str) -> Self {
        let (sender, answers) = mpsc::unbounded_channel();
        Self { driver, server: server.into(), answers, sender }
    }

    /// Where messages come in that the server sends by itself.
    pub(crate) fn inbox(&self) -> Inbox {
        Inbox(self.sender.clone())
    }
}

/// The way in for what a server has to say without being asked.
pub(crate) struct Inbox(mpsc::UnboundedSender<RxJsonRpcMessage<RoleClient>>);

impl Inbox {
    /// Takes a request or a notification. What looks like an answer is none of ours: those come back with the question.
    pub(crate) fn take(&self, message: &RawValue) -> Result<(), String> {
        let message: RxJsonRpcMessage<RoleClient> =
            serde_json::from_str(message.get()).map_err(|error| format!("this is no message of a server: {error}"))?;
        if !matches!(
            message,
            RxJsonRpcMessage::<RoleClient>::Request(_) | RxJsonRpcMessage::<RoleClient>::Notification(_)
        ) {
            return Ok(());
        }
        self.0.send(message).map_err(|_| "the connection is closed".to_owned())
    }
}

impl Transport<RoleClient> for DriverChannel {
    type Error = DriverError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (driver, server, answers) = (self.driver.clone(), self.server.clone(), self.sender.clone());
        async move {
            let broken = |error: serde_json::Error| DriverError::Failed(error.to_string());
            let answer = driver.mcp(&server, to_raw_value(&item).map_err(broken)?).await;
            // Notifications have no answer, whatever came back for them.
            let TxJsonRpcMessage::<RoleClient>::Request(asked) = item else { return Ok(()) };
            let answer = match answer {
                Ok(answer) => serde_json::from_str(answer.get()).map_err(broken),
                Err(error) => Err(error),
            };
            let answer = answer.unwrap_or_else(|error| refusal(asked.id, &error));
            // A session that has gone does not wait for it.
            drop(answers.send(answer));
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

/// A call that did not get through is answered in the server's place: nobody waits for ever.
fn refusal(asked: RequestId, error: &DriverError) -> RxJsonRpcMessage<RoleClient> {
    RxJsonRpcMessage::<RoleClient>::error(ErrorData::internal_error(error.to_string(), None), Some(asked))
}
