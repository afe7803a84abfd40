//! How much a server may make gimlet hold. Whatever sends more is no reply, and is not asked again.

/// The longest line and the longest event of a reply. Server tools may return a whole document in one event; a longer one
/// would fit into no further request.
pub(crate) const MAX_EVENT_BYTES: usize = 32 << 20;
/// The longest reply in all: text, thinking, tool inputs, and what the wire puts around them.
pub(crate) const MAX_REPLY_BYTES: usize = 64 << 20;
/// The most blocks of a reply. Each takes more memory than its few bytes on the wire.
pub(crate) const MAX_REPLY_BLOCKS: usize = 4096;
/// How much of an error body is read; the rest is left out.
pub(crate) const MAX_ERROR_BODY_BYTES: usize = 64 << 10;
