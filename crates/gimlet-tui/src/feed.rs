//! A conversation as styled lines: finished blocks that are printed once, and the live ones below them.
//!
//! [`FeedModel`] takes a session's events. What is finished is handed out once and forgotten; what may still change is
//! rendered anew whenever it is asked for. The model does no I/O and reads no clock: the caller sets the time.

mod activity;
mod call_block;
mod context_picture;
mod cost_picture;
pub mod diff;
mod feed_block;
mod feed_model;
mod image_lines;
mod row_layout;
mod task_tree;
mod transcript_lines;
mod view_lines;

pub use activity::{MotionMode, SPINNER_FRAME_MS};
pub use call_block::{CallBlock, CallOutcome};
pub use context_picture::render_context;
pub use cost_picture::{SessionSpending, render_cost};
pub use feed_block::{FeedBlock, render_history};
pub use feed_model::FeedModel;
pub use row_layout::{
    ViewDetail, first_line, format_elapsed, format_running, format_tokens, group_digits, gutter_lines, indent_lines,
    join_facts, pad_end, prefix_line, split_row, text_rows,
};
pub use task_tree::TaskTree;
pub use transcript_lines::TranscriptLines;
pub use view_lines::{render_todos, render_view, summarize_view};

#[cfg(test)]
pub(crate) mod tests;
