//! What a command sees of its session: the handle that front ends have, and facts that only the session knows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_proto::{
    CommandInfo, ContextUsage, Model, ModelUsage, Op, OpReply, SessionHandle, SessionId, SessionSnapshot,
};

use crate::record::ConversationRecord;

/// Context of a running command.
#[derive(Clone)]
pub struct CommandContext {
    session: SessionHandle,
    model: Arc<dyn Model>,
    transcript: Option<PathBuf>,
    earlier_usage: Arc<[ModelUsage]>,
}

impl CommandContext {
    pub(crate) fn new(session: SessionHandle, model: Arc<dyn Model>, record: &mut ConversationRecord) -> Self {
        Self {
            session,
            model,
            transcript: record.transcript().path().map(Path::to_owned),
            earlier_usage: record.prior_usage().into(),
        }
    }

    pub fn session_id(&self) -> &SessionId {
        &self.session.id
    }

    /// Returns the state of the session when the command began.
    pub fn snapshot(&self) -> Arc<SessionSnapshot> {
        self.session.snapshot()
    }

    /// Returns the commands that can be typed.
    pub fn commands(&self) -> Arc<[CommandInfo]> {
        self.snapshot().commands.clone()
    }

    /// Returns the provider, which knows what models there are.
    pub fn model(&self) -> &dyn Model {
        &*self.model
    }

    /// Returns the session's file; `None` if it is not kept.
    pub fn transcript(&self) -> Option<&Path> {
        self.transcript.as_deref()
    }

    /// Returns the usage of the whole session by model, including earlier runs.
    pub fn usage(&self) -> Vec<ModelUsage> {
        ModelUsage::sum_by_model(&self.earlier_usage, &self.snapshot().by_model)
    }

    /// Returns the usage of the context window.
    pub async fn context_usage(&self) -> Result<ContextUsage, String> {
        self.request(|reply| Op::ContextUsage { reply }).await
    }

    /// Sends an operation to the session and waits for its outcome.
    pub async fn request<T>(&self, op: impl FnOnce(OpReply<T>) -> Op) -> Result<T, String> {
        let (reply, outcome) = OpReply::channel();
        self.session.send(op(reply));
        outcome.await.unwrap_or_else(|_| Err("the session is closed".to_owned()))
    }
}
