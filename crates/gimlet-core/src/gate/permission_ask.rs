//! The question about a call, with a preview of what the call would do.
//!
//! A preview reads no file that rules deny, runs on a thread that may block, and is given up after a while.

use std::path::PathBuf;
use std::time::Duration;

use gimlet_policy::Decision;
use gimlet_proto::{AccessNeed, PermissionAsk, SuggestedChange, View};

use super::{Gate, to_raw};
use crate::call::{CallScope, ToolCall};
use crate::panics::catch_panic;
use crate::tool::{PreparedCall, PreviewContext};

/// Timeout of a preview; the question is not held up for longer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reason for a question, in words and as a public identifier.
pub(super) struct AskReason {
    pub(super) text: String,
    pub(super) kind: &'static str,
}

impl Gate {
    /// Builds the question about a call.
    pub(super) async fn build_permission_ask(
        &self,
        scope: &CallScope,
        incoming: &ToolCall,
        prepared: &PreparedCall,
        reason: AskReason,
        suggestions: Vec<SuggestedChange>,
    ) -> PermissionAsk {
        PermissionAsk {
            tool: prepared.tool.to_string(),
            server: scope.tools.find(&prepared.tool).and_then(|tool| tool.server()).cloned(),
            call: incoming.id.clone(),
            input: to_raw(&prepared.input),
            label: prepared.user_facing_name.to_string(),
            summary: prepared.description.clone(),
            reason: reason.text,
            reason_kind: reason.kind,
            path: prepared.path.clone(),
            suggestions,
            preview: self.preview_call(scope, prepared).await,
            destructive: prepared.destructive,
        }
    }

    async fn preview_call(&self, scope: &CallScope, prepared: &PreparedCall) -> View {
        let Some(tool) = scope.tools.find(&prepared.tool).cloned() else {
            return View::Text(prepared.description.clone());
        };
        let (cx, input) = (self.preview_context(scope, prepared), prepared.typed.clone());
        let work = tokio::task::spawn_blocking(move || catch_panic(|| tool.preview(&*input, &cx)));
        let made = tokio::select! {
            made = tokio::time::timeout(PATIENCE, work) => made,
            // The question that follows is withdrawn at once.
            () = scope.cancel.cancelled() => return View::Text(prepared.description.clone()),
        };
        let mut view = match made {
            Ok(Ok(Ok(view))) => view,
            Ok(Ok(Err(panicked))) => {
                panicked.log(scope, &prepared.tool);
                View::Text("no preview: making it failed inside gimlet".to_owned())
            }
            Ok(Err(error)) => View::Text(format!("no preview: {error}")),
            Err(_) => View::Text(format!("no preview: making it took longer than {} s", PATIENCE.as_secs())),
        };
        scope.services.redactor().mask_view(&mut view);
        view
    }

    /// Returns what a preview may read: the files that the call itself names, except those whose reading rules deny.
    /// Files whose reading would only need a question are shown: the user is the one who is asked.
    fn preview_context(&self, scope: &CallScope, prepared: &PreparedCall) -> PreviewContext {
        let paths = scope.services.paths();
        let named = prepared.needs.iter().filter_map(|need| match need {
            AccessNeed::Read(path) | AccessNeed::Write(path) => Some(path.clone()),
            AccessNeed::Run(_) | AccessNeed::Fetch(_) | AccessNeed::Session | AccessNeed::Opaque => None,
        });
        let judge = |path: PathBuf| {
            let (decision, real) = self.judge_reading(scope, &path);
            let file = match (decision, real) {
                (Decision::Deny, _) => Err(format!("rules deny reading {}", paths.display(&path))),
                (Decision::Allow | Decision::Ask, Some(real)) => Ok(real),
                (Decision::Allow | Decision::Ask, None) => {
                    Err(format!("where {} leads cannot be found out", paths.display(&path)))
                }
            };
            (path, file)
        };
        let files = named.map(judge).collect();
        PreviewContext { paths, files }
    }
}
