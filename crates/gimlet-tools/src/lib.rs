//! The built-in tools, one file each. [`builtin`] is the table of them; nothing else is registered anywhere.

mod agent;
mod ask_user_question;
mod bash;
mod bounded_work;
mod builtin;
mod diff;
mod edit;
mod enter_plan_mode;
mod exit_plan_mode;
mod file_suggestions;
mod glob;
mod grep;
#[cfg(test)]
mod harness;
mod multi_edit;
mod notebook_edit;
mod read;
mod recall;
#[cfg(test)]
mod sample_images;
#[cfg(test)]
mod search_harness;
mod send_message;
mod skill;
mod special_files;
mod task_output;
mod task_stop;
mod text_file;
mod todo_write;
mod walk;
mod write;

pub use builtin::builtin;
pub use file_suggestions::suggest_files;
