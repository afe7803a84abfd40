//! The table of built-in tools: the single source of names, schemas and descriptions.
//!
//! The order is the order in which the model sees them, and part of the prompt cache: append, do not shuffle.

use gimlet_core::tool::AnyTool;

/// Every built-in tool.
pub fn builtin() -> Vec<&'static dyn AnyTool> {
    vec![
        &crate::bash::Bash,
        &crate::read::Read,
        &crate::write::Write,
        &crate::edit::Edit,
        &crate::glob::Glob,
        &crate::grep::Grep,
        &crate::todo_write::TodoWrite,
        &crate::task_output::TaskOutput,
        &crate::task_stop::TaskStop,
        &crate::agent::Agent,
        &crate::ask_user_question::AskUserQuestion,
        &crate::enter_plan_mode::EnterPlanMode,
        &crate::exit_plan_mode::ExitPlanMode,
        &crate::send_message::SendMessage,
        &crate::multi_edit::MultiEdit,
        &crate::recall::Recall,
        &crate::notebook_edit::NotebookEdit,
        &crate::skill::Skill,
    ]
}
