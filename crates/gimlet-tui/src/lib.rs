//! The terminal front end: a conversation in a terminal, with its questions, pickers and commands.
//!
//! It speaks to a session through `gimlet-proto` alone and knows no tool by name: calls arrive as views, questions as
//! asks. All content becomes [`styled_line::StyledLine`]s first, and reaches the terminal through `text_width`.

pub mod composer;
pub mod feed;
pub mod markdown;
pub mod styled_line;
pub mod text_width;
pub mod theme;
