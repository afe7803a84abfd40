//! Faults that are injected while an answer is sent.

use serde::Deserialize;

/// One injected failure. Several may be combined.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// Ends the connection.
    Cut {
        at: FaultPoint,
        #[serde(default)]
        how: CloseKind,
    },
    /// Stops sending and holds the connection open until the client closes it, or for `for_ms`.
    Stall {
        at: FaultPoint,
        /// Interval of pings meanwhile.
        #[serde(default)]
        ping_every_ms: Option<u64>,
        #[serde(default)]
        for_ms: Option<u64>,
    },
    /// An `error` event, after which the stream ends. With `data`, that text is the event's data.
    ErrorEvent {
        at: FaultPoint,
        #[serde(rename = "type", default = "overloaded")]
        kind: String,
        #[serde(default)]
        message: String,
        #[serde(default)]
        data: Option<String>,
    },
    /// Answers and closes while the client still sends its body: after `after_bytes` of it.
    RefuseUpload {
        after_bytes: usize,
        #[serde(default = "too_large")]
        status: u16,
        #[serde(default)]
        how: CloseKind,
    },
    /// Closes the connection after the answer without having announced it.
    CloseQuietly,
    /// Keeps the connection open and resets it as soon as the next request begins to arrive on it.
    ResetOnReuse,
    NoMessageStop,
    NoMessageDelta,
    TwoMessageStarts,
    /// Blocks get the indices 0, 2, 4 …
    IndexGaps,
    /// Every block has index 0.
    IndexReuse,
    /// A delta for a block that was never opened.
    UnknownIndex,
    /// Every block is stopped twice.
    StopTwice,
    /// All blocks are opened first and their deltas alternate.
    Interleave,
}

fn overloaded() -> String {
    "overloaded_error".to_owned()
}

fn too_large() -> u16 {
    413
}

/// Position in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultPoint {
    BeforeHeaders,
    AfterHeaders,
    /// In the middle of the bytes of `message_start`.
    MidMessageStart,
    /// After `message_start`, before any block.
    AfterMessageStart,
    /// After the first delta of a thinking, text or tool block.
    MidThinking,
    MidText,
    MidTool,
    /// In the middle of the bytes of the first delta.
    MidDelta,
    /// After the first block.
    BetweenBlocks,
    /// After the first complete tool call.
    AfterTool,
    /// After the event that carries the stop reason.
    AfterStopReason,
    AfterMessageStop,
    /// After this many bytes of the body as it is sent (after compression).
    Byte(usize),
    /// Before this event, counting from 0.
    Event(usize),
}

/// End of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CloseKind {
    /// An orderly end of the stream.
    #[default]
    Fin,
    /// A reset.
    Rst,
}
