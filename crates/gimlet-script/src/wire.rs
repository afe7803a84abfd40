//! From events to bytes: lines, compression, chunks, and the acts between them.
//!
//! The result is a list of what to do on a socket; nothing here touches one. Whatever the chunking, the bytes written up
//! to any act are the same.

mod chunks;
mod encode;
mod faults;
mod sse;

use crate::anthropic::Event;
use crate::script::{Close, Flush, Reply, Wire};
use encode::Encoder;

pub(crate) use encode::name as encoding_name;
pub(crate) use faults::before_headers;

/// One thing to do with the connection after the response head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Write(Vec<u8>),
    Sleep {
        ms: u64,
    },
    /// Sends nothing until the client leaves or the time is over; maybe pings meanwhile.
    Stall {
        for_ms: Option<u64>,
        ping: Option<Pinger>,
    },
    Close(Close),
}

/// Bytes sent in a rhythm while everything else waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pinger {
    pub(crate) every_ms: u64,
    pub(crate) bytes: Vec<u8>,
}

/// A place in the stream: an event, or something that happens between two of them.
#[derive(Clone, Debug)]
enum Item {
    Event(Event),
    /// An event's text that is not JSON.
    RawEvent {
        name: String,
        data: String,
    },
    /// Only the first half of the event's bytes.
    Half(Event),
    Do(Act),
}

/// Lays out a whole stream of events as acts.
pub(crate) fn plan(events: Vec<Event>, reply: &Reply, wire: &Wire, seed: u64, request_id: &str) -> Vec<Act> {
    let items = faults::apply(events, &reply.faults, wire, request_id);
    let mut encoder = Encoder::new(wire.encoding);
    let mut parts = Vec::new();
    if wire.bom {
        parts.push(Part::Bytes(encoder.push("\u{feff}".as_bytes(), false)));
    }
    let flush = wire.flush == Flush::Event;
    for item in items {
        match item {
            Item::Event(event) => {
                if event.pause_ms > 0 {
                    parts.push(Part::Act(Act::Sleep { ms: event.pause_ms }));
                }
                parts.push(Part::Bytes(encoder.push(&sse::frame(&event.name, &event.data.to_string(), wire), flush)));
            }
            Item::RawEvent { name, data } => {
                parts.push(Part::Bytes(encoder.push(&sse::frame(&name, &data, wire), flush)))
            }
            Item::Half(event) => {
                let bytes = sse::frame(&event.name, &event.data.to_string(), wire);
                parts.push(Part::Bytes(encoder.push(&bytes[..bytes.len() / 2], true)));
            }
            Item::Do(act) => parts.push(Part::Act(act)),
        }
    }
    let closed = matches!(parts.last(), Some(Part::Act(Act::Close(_))));
    if !closed {
        parts.push(Part::Bytes(encoder.finish()));
    }
    let parts = faults::cut_at_bytes(parts, &reply.faults);
    chunks::write(parts, wire, seed)
}

/// Bytes of one event, or an act between events.
#[derive(Clone, Debug)]
enum Part {
    Bytes(Vec<u8>),
    Act(Act),
}

/// The acts for a body that is no event stream.
pub(crate) fn plan_body(body: &[u8], reply: &Reply, wire: &Wire, seed: u64) -> Vec<Act> {
    let mut encoder = Encoder::new(wire.encoding);
    let mut bytes = encoder.push(body, false);
    bytes.extend(encoder.finish());
    let parts = faults::cut_at_bytes(vec![Part::Bytes(bytes)], &reply.faults);
    chunks::write(faults::around_body(parts, &reply.faults), wire, seed)
}

#[cfg(test)]
mod tests;
