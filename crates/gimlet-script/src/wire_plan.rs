//! Conversion of events to bytes: lines, compression, chunks, and the actions between them.
//!
//! The result is a list of actions on a socket; nothing here touches one. With any chunking, the bytes written up to
//! an action are equal.

mod body_encoder;
mod fault_injection;
mod sse_frame;
mod write_chunks;

use crate::anthropic::ScriptedEvent;
use crate::script::{CloseKind, FlushMode, ScriptedReply, WireShape};
use body_encoder::BodyEncoder;

pub(crate) use body_encoder::name as encoding_name;
pub(crate) use fault_injection::before_headers;

/// One action on the connection after the response head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WireAction {
    Write(Vec<u8>),
    Sleep {
        ms: u64,
    },
    /// Sends nothing until the client closes the connection or the time is over; may ping meanwhile.
    Stall {
        for_ms: Option<u64>,
        ping: Option<PingSchedule>,
    },
    Close(CloseKind),
}

/// Bytes sent at an interval while everything else waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PingSchedule {
    pub(crate) every_ms: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Item of the stream: an event, or an action between two of them.
#[derive(Clone, Debug)]
enum StreamItem {
    Event(ScriptedEvent),
    /// An event's text that is not JSON.
    RawEvent {
        name: String,
        data: String,
    },
    /// Only the first half of the event's bytes.
    HalfEvent(ScriptedEvent),
    Action(WireAction),
}

/// Plans a whole stream of events as actions.
pub(crate) fn plan_stream(
    events: Vec<ScriptedEvent>,
    reply: &ScriptedReply,
    wire: &WireShape,
    seed: u64,
    request_id: &str,
) -> Vec<WireAction> {
    let items = fault_injection::apply_faults(events, &reply.faults, wire, request_id);
    let mut encoder = BodyEncoder::new(wire.encoding);
    let mut parts = Vec::new();
    if wire.bom {
        parts.push(StreamPart::Bytes(encoder.push("\u{feff}".as_bytes(), false)));
    }
    let flush = wire.flush == FlushMode::Event;
    for item in items {
        match item {
            StreamItem::Event(event) => {
                if event.pause_ms > 0 {
                    parts.push(StreamPart::Action(WireAction::Sleep { ms: event.pause_ms }));
                }
                parts.push(StreamPart::Bytes(
                    encoder.push(&sse_frame::frame_event(&event.name, &event.data.to_string(), wire), flush),
                ));
            }
            StreamItem::RawEvent { name, data } => {
                parts.push(StreamPart::Bytes(encoder.push(&sse_frame::frame_event(&name, &data, wire), flush)))
            }
            StreamItem::HalfEvent(event) => {
                let bytes = sse_frame::frame_event(&event.name, &event.data.to_string(), wire);
                parts.push(StreamPart::Bytes(encoder.push(&bytes[..bytes.len() / 2], true)));
            }
            StreamItem::Action(act) => parts.push(StreamPart::Action(act)),
        }
    }
    let closed = matches!(parts.last(), Some(StreamPart::Action(WireAction::Close(_))));
    if !closed {
        parts.push(StreamPart::Bytes(encoder.finish()));
    }
    let parts = fault_injection::cut_at_bytes(parts, &reply.faults);
    write_chunks::chunk_parts(parts, wire, seed)
}

/// Bytes of one event, or an action between events.
#[derive(Clone, Debug)]
enum StreamPart {
    Bytes(Vec<u8>),
    Action(WireAction),
}

/// Returns the actions for a body that is not an event stream.
pub(crate) fn plan_body(body: &[u8], reply: &ScriptedReply, wire: &WireShape, seed: u64) -> Vec<WireAction> {
    let mut encoder = BodyEncoder::new(wire.encoding);
    let mut bytes = encoder.push(body, false);
    bytes.extend(encoder.finish());
    let parts = fault_injection::cut_at_bytes(vec![StreamPart::Bytes(bytes)], &reply.faults);
    write_chunks::chunk_parts(fault_injection::apply_body_faults(parts, &reply.faults), wire, seed)
}

#[cfg(test)]
mod tests;
