//! Permission questions of print mode that a server's tool answers. Nothing else can be answered here: whatever the tool
//! cannot decide counts as not asked.

use std::collections::HashMap;

use gimlet_proto::{AskAnswer, AskId, AskView, Op, OpReply, ServerRequest, SessionHandle, SessionQuery};
use tokio::task::{AbortHandle, JoinSet};

use crate::sdk::permission_question::{build_question, is_input_too_long, parse_tool_decision};

/// Reason that the model reads for a question that nobody was asked.
const NOBODY: &str = "nobody can answer questions here";

/// A tool that decides, and the questions that it was asked.
pub(super) struct PermissionTool {
    tool: Option<String>,
    decisions: JoinSet<(AskId, AskAnswer)>,
    open: HashMap<AskId, AbortHandle>,
}

impl PermissionTool {
    pub(super) fn new(tool: Option<String>) -> Self {
        Self { tool, decisions: JoinSet::new(), open: HashMap::new() }
    }

    /// Asks the tool. Any failure of the tool counts as a denial.
    pub(super) fn ask(&mut self, session: &SessionHandle, view: &AskView) {
        let refuse = |why: &str| {
            session.send(Op::Answer { ask: view.id, answer: AskAnswer::NotAsked(why.to_owned()) });
        };
        // Without a tool the session is unattended, and asks nothing that waits.
        let Some(tool) = self.tool.clone() else { return };
        // A call that cannot be shown whole must not be approved.
        if is_input_too_long(view) {
            return refuse("the input is too long to be shown whole; use a smaller one");
        }
        let Some(question) = build_question("print", view) else { return refuse(NOBODY) };
        let (reply, answer) = OpReply::channel();
        let wish = ServerRequest::Decide { tool: tool.clone(), input: question.to_tool_input() };
        session.send(Op::Query(SessionQuery::ServerRequest { wish, reply }));
        let ask = view.id;
        let work = self.decisions.spawn(async move {
            let said = answer.await.unwrap_or_else(|_| Err("the session is closed".to_owned()));
            let said = said.and_then(|result| parse_tool_decision(&result));
            let said = said.map_err(|why| format!("--permission-prompt-tool {tool}: {why}"));
            (ask, question.parse_answer(said))
        });
        self.open.insert(ask, work);
    }

    /// Withdraws a question that was closed without an answer.
    pub(super) fn withdraw(&mut self, ask: AskId) {
        if let Some(work) = self.open.remove(&ask) {
            work.abort();
        }
    }

    /// Returns the next decision; waits for ever when none is under way.
    pub(super) async fn next_decision(&mut self) -> (AskId, AskAnswer) {
        loop {
            match self.decisions.join_next().await {
                Some(Ok((ask, answer))) => {
                    self.open.remove(&ask);
                    return (ask, answer);
                }
                // Withdrawn.
                Some(Err(_)) => {}
                None => return std::future::pending().await,
            }
        }
    }
}
