//! Planning: the session's plan file, and the messages for the model when plan mode begins and ends.
//!
//! The gate decides what may run while planning. This file only informs the model, once for each change of the mode,
//! so that the conversation includes it for every cause: a flag, the user, a program or a tool.

use std::path::PathBuf;

use gimlet_proto::{AgentPath, PermissionMode};

use crate::conversation::Conversation;
use crate::turn::{self, Turn};

/// Planning configuration of a session.
#[derive(Clone, Debug, Default)]
pub struct PlanConfig {
    /// Path of this session's plan file, which need not exist yet.
    pub file: Option<PathBuf>,
    /// Set if the resumed conversation ended in plan mode, so that the model still assumes it.
    pub was_planning: bool,
    /// Additional planning instructions from the client.
    pub instructions: Option<String>,
}

/// Informs the model if plan mode began or ended since the last message about it.
pub(crate) fn announce_mode_change(conversation: &mut Conversation, turn: &Turn) {
    let mode = turn.scope.gate.mode_for(&turn.scope);
    let planning = mode == PermissionMode::Plan;
    if std::mem::replace(&mut conversation.segment.announced_planning, planning) == planning {
        return;
    }
    let text = if planning { plan_begin_text(turn) } else { plan_end_text(mode) };
    turn::append_meta_message(conversation, &text);
}

fn plan_begin_text(turn: &Turn) -> String {
    let rules = "Plan mode is on: find out what there is and work out what to do, but change nothing yet. Writing files is \
                 refused, and commands that do not only read ask first.";
    let scope = &turn.scope;
    let then = match scope.services.plan_file() {
        _ if scope.agent != AgentPath::default() => "Report what you found out.".to_owned(),
        Some(file) if scope.gate.is_attended() => {
            let standing =
                if file.exists() { "which has an earlier plan: revise it" } else { "the one file you may write" };
            format!(
                "Write the plan to {} ({standing}): what is to be changed and where, in which order, and how it will be \
                 checked. Then present it with the tool for that, and begin only when the user has approved it.",
                file.display()
            )
        }
        Some(_) | None => "Nobody can approve a plan in this run: give the plan as your answer.".to_owned(),
    };
    let more = scope.services.plan_instructions().map(|text| format!("\n\n{text}")).unwrap_or_default();
    format!("<plan-mode>\n{rules} {then}{more}\n</plan-mode>")
}

fn plan_end_text(mode: PermissionMode) -> String {
    format!(
        "<plan-mode>\nPlan mode is over. The permission mode is {mode}: change what the task needs, as far as it allows.\n</plan-mode>"
    )
}
