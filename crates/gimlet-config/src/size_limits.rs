//! Maximum sizes of the files that are read.

/// Maximum size of a settings file.
pub(crate) const SETTINGS_MAX_BYTES: u64 = 1024 * 1024;
/// Maximum size of the state file that gimlet shares with other programs; it holds histories too.
pub(crate) const STATE_MAX_BYTES: u64 = 64 * 1024 * 1024;
