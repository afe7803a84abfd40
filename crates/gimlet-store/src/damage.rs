//! Descriptions of damage in a transcript or a history. Damage is tolerated, never fatal.

use gimlet_proto::ToolUseId;

/// Damage that was found, and its handling.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    #[error("line {line}: cut off at the end of the file; skipped")]
    TornTail { line: usize },
    #[error("line {line}: not a JSON object; skipped")]
    BrokenLine { line: usize },
    #[error("line {line}: a whole record was recovered from a broken line")]
    FusedLine { line: usize },
    #[error("line {line}: zero bytes were ignored")]
    ZeroBytes { line: usize },
    #[error("line {line}: the message could not be read; the conversation goes on without it")]
    BadMessage { line: usize },
    #[error("line {line}: a block of the message is not what it says it is; left out or mended")]
    BadBlock { line: usize },
    #[error("line {line}: half a character stands in a text; replaced by a mark")]
    HalfCharacter { line: usize },
    #[error("line {line}: an image cannot be sent ({why}); a note stands in its place")]
    BadImage { line: usize, why: &'static str },
    #[error("line {line}: repeats an earlier entry, which it replaces")]
    DuplicateEntry { line: usize },
    #[error("line {line}: follows an entry that is missing; linked to the one before it")]
    MissingParent { line: usize },
    #[error("line {line}: follows itself in a circle; the chain was cut there")]
    Cycle { line: usize },
    #[error("call {call} has no result; marked as interrupted")]
    MissingResult { call: ToolUseId },
    #[error("result for {call} answers no call of the message before it; dropped")]
    OrphanResult { call: String },
    #[error("call {call} has a second result; dropped")]
    DuplicateResult { call: ToolUseId },
    #[error("call id {call} was used before or is not a valid id; the call was dropped")]
    BadCall { call: String },
    #[error("call {call} of a tool of the vendor's was still running when the conversation went on; dropped")]
    OvertakenCall { call: String },
    #[error("an empty text was dropped")]
    BlankText,
    #[error("an empty message was dropped")]
    EmptyMessage,
    #[error("the conversation began with a reply; a note was put before it")]
    MissingStart,
    #[error("results stood behind other content or out of order; sorted")]
    ResultOrder,
    #[error("messages of the same role were joined")]
    SplitMessage,
}

impl Damage {
    /// Returns a short name for programs and for lookup.
    pub fn kind(&self) -> &'static str {
        match self {
            Damage::TornTail { .. } => "torn-tail",
            Damage::BrokenLine { .. } => "broken-line",
            Damage::FusedLine { .. } => "fused-line",
            Damage::ZeroBytes { .. } => "zero-bytes",
            Damage::BadMessage { .. } => "bad-message",
            Damage::BadBlock { .. } => "bad-block",
            Damage::HalfCharacter { .. } => "half-character",
            Damage::BadImage { .. } => "bad-image",
            Damage::DuplicateEntry { .. } => "duplicate-entry",
            Damage::MissingParent { .. } => "missing-parent",
            Damage::Cycle { .. } => "cycle",
            Damage::MissingResult { .. } => "missing-result",
            Damage::OrphanResult { .. } => "orphan-result",
            Damage::DuplicateResult { .. } => "duplicate-result",
            Damage::BadCall { .. } => "bad-call",
            Damage::OvertakenCall { .. } => "overtaken-call",
            Damage::BlankText => "blank-text",
            Damage::EmptyMessage => "empty-message",
            Damage::MissingStart => "missing-start",
            Damage::ResultOrder => "result-order",
            Damage::SplitMessage => "split-message",
        }
    }

    /// Returns the line of the file, where it is known.
    pub fn line(&self) -> Option<usize> {
        match self {
            Damage::TornTail { line }
            | Damage::BrokenLine { line }
            | Damage::FusedLine { line }
            | Damage::ZeroBytes { line }
            | Damage::BadMessage { line }
            | Damage::BadBlock { line }
            | Damage::HalfCharacter { line }
            | Damage::BadImage { line, .. }
            | Damage::DuplicateEntry { line }
            | Damage::MissingParent { line }
            | Damage::Cycle { line } => Some(*line),
            _ => None,
        }
    }
}

/// Descriptions of damage, limited in number (a hundred unless more are wanted), and the total count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamageReport {
    pub items: Vec<Damage>,
    pub total: usize,
    most: usize,
}

impl Default for DamageReport {
    fn default() -> Self {
        Self::with_limit(Self::ENOUGH_TO_GO_ON)
    }
}

impl DamageReport {
    /// Maximum number of findings that a resumed session keeps in memory.
    const ENOUGH_TO_GO_ON: usize = 100;

    /// Creates a report that describes at most `most` items.
    pub(crate) fn with_limit(most: usize) -> Self {
        Self { items: Vec::new(), total: 0, most }
    }

    pub(crate) fn add(&mut self, damage: Damage) {
        self.total += 1;
        if self.items.len() < self.most {
            self.items.push(damage);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.total == 0
    }
}
