//! Prompts that were sent earlier, as an editor offers them again.

/// One earlier prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptHistoryEntry {
    /// The text as it was shown: placeholders such as `[Pasted text #1 +12 lines]` stand for pasted text, and a command
    /// for the shell begins with `!`.
    pub text: String,
    /// Pasted texts by the numbers in their placeholders.
    pub pasted: Vec<(u64, String)>,
    /// Milliseconds since 1970.
    pub at_ms: i64,
}
