//! The terminal front end: a conversation in a terminal, with its questions, pickers and commands.
//!
//! It speaks to a session through `gimlet-proto` alone and knows no tool by name: calls arrive as views, questions as
//! asks. All content becomes [`styled_line::StyledLine`]s first, and reaches the terminal through `text_width`.

pub mod app;
pub mod commands;
pub mod composer;
pub mod dialogs;
pub mod feed;
pub mod footer;
mod fuzzy_match;
pub mod glyphs;
pub mod highlight;
pub mod key_bindings;
pub mod markdown;
pub mod pickers;
pub mod run;
pub mod screen;
pub mod services;
pub mod styled_line;
pub mod text_width;
pub mod theme;
