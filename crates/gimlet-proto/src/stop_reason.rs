//! Reasons for the end of a reply.

/// The model's `stop_reason`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    EndTurn,
    StopSequence,
    ToolUse,
    PauseTurn,
    MaxTokens,
    ContextWindowExceeded,
    Compaction,
    Refusal,
    Other(String),
}

impl StopReason {
    pub fn parse(name: &str) -> Self {
        match name {
            "end_turn" => StopReason::EndTurn,
            "stop_sequence" => StopReason::StopSequence,
            "tool_use" => StopReason::ToolUse,
            "pause_turn" => StopReason::PauseTurn,
            "max_tokens" => StopReason::MaxTokens,
            "model_context_window_exceeded" => StopReason::ContextWindowExceeded,
            "compaction" => StopReason::Compaction,
            "refusal" => StopReason::Refusal,
            other => StopReason::Other(other.to_owned()),
        }
    }

    pub fn as_str(&self) -> &str {
        match self {
            StopReason::EndTurn => "end_turn",
            StopReason::StopSequence => "stop_sequence",
            StopReason::ToolUse => "tool_use",
            StopReason::PauseTurn => "pause_turn",
            StopReason::MaxTokens => "max_tokens",
            StopReason::ContextWindowExceeded => "model_context_window_exceeded",
            StopReason::Compaction => "compaction",
            StopReason::Refusal => "refusal",
            StopReason::Other(name) => name,
        }
    }
}
