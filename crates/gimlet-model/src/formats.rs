//! Wire formats: pure translation between bytes and blocks. Nothing here opens a socket or reads a clock.

pub(crate) mod anthropic;
