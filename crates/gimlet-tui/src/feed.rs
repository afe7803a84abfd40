//! Blocks of a conversation, finished and live, as styled lines.

pub mod diff;
