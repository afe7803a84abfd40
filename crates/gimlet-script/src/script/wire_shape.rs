//! The shape of an answer on the wire. A client's result must not depend on any of these.

use std::str::FromStr;

use serde::Deserialize;

/// Cuts, framing, decoration and compression of an answer.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WireShape {
    pub chunk: ChunkMode,
    /// Pause between chunks.
    pub drip_ms: u64,
    pub framing: BodyFraming,
    pub newline: LineEnding,
    /// A byte order mark before the first event.
    pub bom: bool,
    /// A comment line before every event.
    pub comments: bool,
    /// `id:`, `retry:` and unknown fields in every event.
    pub extra_fields: bool,
    /// `data:` without the customary space.
    pub tight_data: bool,
    /// Each event's data over several `data:` lines.
    pub split_data: bool,
    /// Every character beyond ASCII as a `\u` escape, surrogate pairs included.
    pub ascii: bool,
    pub event_names: EventNames,
    pub pings: PingMode,
    /// Pings carry more than their type.
    pub fat_pings: bool,
    /// Unknown events, unknown delta types and unknown event fields here and there.
    pub unknown: bool,
    pub encoding: ContentEncoding,
    pub flush: FlushMode,
    /// The `content-encoding` header's value, independent of the actual encoding.
    pub claim_encoding: Option<String>,
    /// Characters in one text or thinking delta.
    pub text_piece: usize,
    pub input_pieces: InputPieces,
    /// A pause before each burst of tool input.
    pub input_pause_ms: u64,
    pub usage: UsageStyle,
}

impl Default for WireShape {
    fn default() -> Self {
        Self {
            chunk: ChunkMode::Event,
            drip_ms: 0,
            framing: BodyFraming::Chunked,
            newline: LineEnding::Lf,
            bom: false,
            comments: false,
            extra_fields: false,
            tight_data: false,
            split_data: false,
            ascii: false,
            event_names: EventNames::Normal,
            pings: PingMode::Start,
            fat_pings: false,
            unknown: false,
            encoding: ContentEncoding::Identity,
            flush: FlushMode::Event,
            claim_encoding: None,
            text_piece: 24,
            input_pieces: InputPieces::Bytes(32),
            input_pause_ms: 0,
            usage: UsageStyle::Normal,
        }
    }
}

/// Grouping of the bytes into writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum ChunkMode {
    Whole,
    Event,
    /// This many events in one write.
    Events(usize),
    Line,
    Bytes(usize),
    /// Lengths from the script's seed.
    Random,
    /// A cut inside every code point of more than one byte.
    Utf8,
    /// A cut inside every backslash escape, `\u` and surrogate pairs included.
    Escape,
    /// A cut between every CR and LF.
    Crlf,
}

impl TryFrom<String> for ChunkMode {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match (text.as_str(), counted(&text)) {
            ("whole", _) => Ok(ChunkMode::Whole),
            ("event", _) => Ok(ChunkMode::Event),
            ("line", _) => Ok(ChunkMode::Line),
            ("random", _) => Ok(ChunkMode::Random),
            ("utf8", _) => Ok(ChunkMode::Utf8),
            ("escape", _) => Ok(ChunkMode::Escape),
            ("crlf", _) => Ok(ChunkMode::Crlf),
            (_, Some(("events", count))) => Ok(ChunkMode::Events(count)),
            (_, Some(("bytes", count))) => Ok(ChunkMode::Bytes(count)),
            _ => Err(format!(
                "unknown chunking {text:?}; one of whole, event, events:N, line, bytes:N, random, utf8, escape, crlf"
            )),
        }
    }
}

/// Pings between the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum PingMode {
    None,
    /// One after `message_start`, as the service does.
    Start,
    /// One before `message_start`.
    BeforeStart,
    /// One after every this many events.
    Every(usize),
    /// This many at once after the first delta.
    Burst(usize),
    /// One after `message_delta`.
    AfterDelta,
}

impl TryFrom<String> for PingMode {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match (text.as_str(), counted(&text)) {
            ("none", _) => Ok(PingMode::None),
            ("start", _) => Ok(PingMode::Start),
            ("before_start", _) => Ok(PingMode::BeforeStart),
            ("after_delta", _) => Ok(PingMode::AfterDelta),
            (_, Some(("every", count))) => Ok(PingMode::Every(count)),
            (_, Some(("burst", count))) => Ok(PingMode::Burst(count)),
            _ => {
                Err(format!("unknown pings {text:?}; one of none, start, before_start, every:N, burst:N, after_delta"))
            }
        }
    }
}

/// Distribution of a tool's input over deltas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum InputPieces {
    /// All of it in one delta.
    One,
    /// About this many bytes in each (never inside a code point).
    Bytes(usize),
    /// An empty delta before and after every piece.
    Empty,
    /// No delta at all.
    None,
}

impl TryFrom<String> for InputPieces {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match (text.as_str(), counted(&text)) {
            ("one", _) => Ok(InputPieces::One),
            ("empty", _) => Ok(InputPieces::Empty),
            ("none", _) => Ok(InputPieces::None),
            (_, Some(("bytes", count))) => Ok(InputPieces::Bytes(count)),
            _ => Err(format!("unknown input pieces {text:?}; one of one, bytes:N, empty, none")),
        }
    }
}

/// Splits `word:N` with N from 1 up.
fn counted(text: &str) -> Option<(&str, usize)> {
    let (word, count) = text.split_once(':')?;
    let count = usize::from_str(count).ok().filter(|count| *count > 0)?;
    Some((word, count))
}

/// HTTP framing that marks the end of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BodyFraming {
    Chunked,
    /// A `content-length`.
    Length,
    /// The end of the connection.
    Close,
}

/// The end of a line of the event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineEnding {
    Lf,
    Crlf,
    Cr,
}

/// Content of the `event:` lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventNames {
    Normal,
    Missing,
    /// Another name than the data's type.
    Wrong,
}

/// Compression of the answer. Brotli is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentEncoding {
    Identity,
    Gzip,
    Deflate,
}

/// Times at which the compressor emits bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlushMode {
    Event,
    End,
}

/// Style of usage reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageStyle {
    Normal,
    /// Nulls where `message_delta` could repeat a value.
    Nulls,
    /// No usage in either event.
    Missing,
    /// Several `message_delta` events with growing values, the input repeated in each.
    Several,
}
