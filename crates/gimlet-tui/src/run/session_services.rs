//! What commands want beside the conversation: side questions, servers, and a key.

use std::sync::Arc;

use gimlet_proto::{AsideRequest, NoticeLevel, Op, OpReply, Secret, ServerRegistry, SessionQuery};

use super::{FinishedWork, FrontEnd};
use crate::app::{AppReply, ServerChange, ServerListUse};

impl FrontEnd {
    pub(super) fn ask_aside(&mut self, question: String) {
        let request = AsideRequest::Question(question.clone());
        let (reply, answer) = OpReply::channel();
        self.send(Op::Query(SessionQuery::Aside { request, reply }));
        let asking = self.work.spawn(async move {
            match answer.await {
                Ok(answer) => FinishedWork::Reply(AppReply::Aside { question, answer }),
                Err(_) => FinishedWork::Nothing,
            }
        });
        self.aside = Some(asking);
    }

    /// Gives up the question, which ends its request.
    pub(super) fn cancel_aside(&mut self) {
        if let Some(asking) = self.aside.take() {
            asking.abort();
        }
    }

    fn servers(&mut self) -> Option<Arc<dyn ServerRegistry>> {
        self.host.servers()
    }

    pub(super) fn query_servers(&mut self, used_for: ServerListUse) {
        let servers = self.servers().map(|servers| servers.list()).unwrap_or_default();
        self.work.spawn(async move { FinishedWork::Reply(AppReply::Servers { servers, used_for }) });
    }

    pub(super) fn change_server(&mut self, server: String, change: ServerChange) {
        let Some(servers) = self.servers() else { return };
        let begins = match change {
            ServerChange::Reconnect => Some(format!("Connecting {server}…")),
            ServerChange::Enable | ServerChange::Disable => None,
        };
        if let Some(text) = begins {
            self.app.notice(NoticeLevel::Info, text);
        }
        self.work.spawn(async move {
            let (done, outcome) = match change {
                ServerChange::Reconnect => ("is connected", servers.reconnect(&server).await),
                ServerChange::Enable => ("is on", servers.set_enabled(&server, true).await),
                ServerChange::Disable => ("is off for this session", servers.set_enabled(&server, false).await),
            };
            FinishedWork::Reply(match outcome {
                Ok(()) => AppReply::Done(format!("{server} {done}. Its tools follow with the next prompt")),
                Err(problem) => AppReply::Failed(format!("{server}: {problem}")),
            })
        });
    }

    pub(super) fn log_in(&mut self, key: Secret) {
        self.app.notice(NoticeLevel::Info, "Testing the key…");
        let testing = self.services.log_in(key);
        self.work.spawn(async move { FinishedWork::LoggedIn(testing.await) });
    }
}
