//! Limits on the data that a server may make gimlet hold. A larger response is not a reply, and is not retried.

/// Maximum length of a line and of an event of a reply. Server tools may return a whole document in one event; a longer
/// one would fit into no further request.
pub(crate) const MAX_EVENT_BYTES: usize = 32 << 20;
/// Maximum length of a whole reply: text, thinking, tool inputs, and their framing on the wire.
pub(crate) const MAX_REPLY_BYTES: usize = 64 << 20;
/// Maximum number of blocks of a reply. Each takes more memory than its few bytes on the wire.
pub(crate) const MAX_REPLY_BLOCKS: usize = 4096;
/// Maximum number of bytes read of an error body; the rest is ignored.
pub(crate) const MAX_ERROR_BODY_BYTES: usize = 64 << 10;
