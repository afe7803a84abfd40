//! Injection of scripted faults into a stream: their positions and their changes.

use serde_json::json;

use super::{PingSchedule, StreamItem, StreamPart, WireAction, sse_frame};
use crate::anthropic::{EventMark, ScriptedEvent, ping};
use crate::api_error::error_body;
use crate::script::{Fault, FaultPoint, WireShape};

/// Changes the events and inserts actions between them.
pub(super) fn apply_faults(
    mut events: Vec<ScriptedEvent>,
    faults: &[Fault],
    wire: &WireShape,
    request_id: &str,
) -> Vec<StreamItem> {
    for fault in faults {
        events = reshape(events, fault);
    }
    let mut items: Vec<StreamItem> = events.into_iter().map(StreamItem::Event).collect();
    for fault in faults {
        items = interrupt(items, fault, wire, request_id);
    }
    items
}

/// Applies faults in the grammar of the stream.
fn reshape(mut events: Vec<ScriptedEvent>, fault: &Fault) -> Vec<ScriptedEvent> {
    match fault {
        Fault::NoMessageStop => events.retain(|event| event.mark != EventMark::MessageStop),
        Fault::NoMessageDelta => events.retain(|event| event.mark != EventMark::MessageDelta),
        Fault::TwoMessageStarts => {
            if let Some(at) = events.iter().position(|event| event.mark == EventMark::MessageStart) {
                let again = events[at].clone();
                events.insert(at + 1, again);
            }
        }
        Fault::IndexGaps => renumber(&mut events, |index| index * 2),
        Fault::IndexReuse => renumber(&mut events, |_| 0),
        Fault::UnknownIndex => {
            let delta = json!({ "type": "text_delta", "text": "to nobody" });
            let data = json!({ "type": "content_block_delta", "index": 99, "delta": delta });
            let at = events.iter().position(|event| matches!(event.mark, EventMark::BlockStop(_))).unwrap_or(0);
            events.insert(at, ScriptedEvent::new(EventMark::Noise, data));
        }
        Fault::StopTwice => {
            events = events
                .into_iter()
                .flat_map(|event| {
                    let copies = if matches!(event.mark, EventMark::BlockStop(_)) { 2 } else { 1 };
                    std::iter::repeat_n(event, copies)
                })
                .collect();
        }
        Fault::Interleave => events = interleaved(events),
        Fault::Cut { .. }
        | Fault::Stall { .. }
        | Fault::ErrorEvent { .. }
        | Fault::RefuseUpload { .. }
        | Fault::CloseQuietly
        | Fault::ResetOnReuse => {}
    }
    events
}

fn renumber(events: &mut [ScriptedEvent], new_index: impl Fn(u64) -> u64) {
    for event in events {
        if let Some(index) = event.index() {
            event.data["index"] = json!(new_index(index));
        }
    }
}

/// Returns all starts, then deltas taken from each block in turn, then all stops.
fn interleaved(events: Vec<ScriptedEvent>) -> Vec<ScriptedEvent> {
    let is_block = |event: &ScriptedEvent| event.index().is_some();
    let Some(first) = events.iter().position(is_block) else { return events };
    let (mut starts, mut stops, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let mut queues: Vec<std::collections::VecDeque<ScriptedEvent>> = Vec::new();
    for event in events {
        match (&event.mark, event.index()) {
            (EventMark::BlockStart(_), _) => starts.push(event),
            (EventMark::BlockStop(_), _) => stops.push(event),
            (_, Some(index)) => {
                let index = index as usize;
                queues.resize_with(queues.len().max(index + 1), Default::default);
                queues[index].push_back(event);
            }
            (_, None) => others.push(event),
        }
    }
    let tail = others.split_off(first.min(others.len()));
    let mut out = others;
    out.append(&mut starts);
    while queues.iter().any(|queue| !queue.is_empty()) {
        out.extend(queues.iter_mut().filter_map(std::collections::VecDeque::pop_front));
    }
    out.append(&mut stops);
    out.extend(tail);
    out
}

/// Applies faults that happen at a position.
fn interrupt(items: Vec<StreamItem>, fault: &Fault, wire: &WireShape, request_id: &str) -> Vec<StreamItem> {
    match fault {
        Fault::Cut { at, how } => {
            insert(items, *at, vec![StreamItem::Action(WireAction::Close(*how))], InsertTail::Nothing)
        }
        Fault::Stall { at, ping_every_ms, for_ms } => {
            let pinger = ping_every_ms.map(|every_ms| {
                let event = ping(wire.fat_pings);
                PingSchedule { every_ms, bytes: sse_frame::frame_event(&event.name, &event.data.to_string(), wire) }
            });
            insert(
                items,
                *at,
                vec![StreamItem::Action(WireAction::Stall { for_ms: *for_ms, ping: pinger })],
                InsertTail::TheRest,
            )
        }
        Fault::ErrorEvent { at, kind, message, data } => {
            let text = data.clone().unwrap_or_else(|| error_body(kind, message, request_id).to_string());
            insert(items, *at, vec![StreamItem::RawEvent { name: "error".to_owned(), data: text }], InsertTail::Nothing)
        }
        _ => items,
    }
}

/// Continuation after the inserted items.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InsertTail {
    Nothing,
    TheRest,
}

fn insert(mut items: Vec<StreamItem>, at: FaultPoint, inserted: Vec<StreamItem>, after: InsertTail) -> Vec<StreamItem> {
    let Some(place) = find(&items, at) else { return items };
    let mut rest = items.split_off(place.index);
    if place.half
        && let Some(StreamItem::Event(event)) = rest.first().cloned()
    {
        items.push(StreamItem::HalfEvent(event));
    }
    items.extend(inserted);
    if after == InsertTail::TheRest {
        // A half event cannot be continued by its other half once it is framed again, so the rest begins after it.
        items.extend(rest.drain(usize::from(place.half)..));
    }
    items
}

struct InsertPosition {
    index: usize,
    /// True in the middle of the event at `index`.
    half: bool,
}

/// Returns the position of a fault in this stream; `None` when it has no such position or it is not about events.
fn find(items: &[StreamItem], at: FaultPoint) -> Option<InsertPosition> {
    let position = |wanted: &dyn Fn(&EventMark) -> bool| {
        items.iter().position(|item| matches!(item, StreamItem::Event(event) if wanted(&event.mark)))
    };
    let before = |index: Option<usize>| index.map(|index| InsertPosition { index, half: false });
    let after = |index: Option<usize>| before(index.map(|index| index + 1));
    let half = |index: Option<usize>| index.map(|index| InsertPosition { index, half: true });
    let delta_of = |kind: &'static str| move |mark: &EventMark| matches!(mark, EventMark::Delta(of) if of == kind);
    match at {
        FaultPoint::BeforeHeaders | FaultPoint::Byte(_) => None,
        FaultPoint::AfterHeaders => before(Some(0)),
        FaultPoint::MidMessageStart => half(position(&|mark| *mark == EventMark::MessageStart)),
        FaultPoint::AfterMessageStart => after(position(&|mark| *mark == EventMark::MessageStart)),
        FaultPoint::MidThinking => after(position(&delta_of("thinking"))),
        FaultPoint::MidText => after(position(&delta_of("text"))),
        FaultPoint::MidTool => after(position(&delta_of("tool_use"))),
        FaultPoint::MidDelta => half(position(&|mark| matches!(mark, EventMark::Delta(_)))),
        FaultPoint::BetweenBlocks => after(position(&|mark| matches!(mark, EventMark::BlockStop(_)))),
        FaultPoint::AfterTool => after(position(&|mark| matches!(mark, EventMark::BlockStop(of) if of == "tool_use"))),
        FaultPoint::AfterStopReason => {
            let last = items
                .iter()
                .rposition(|item| matches!(item, StreamItem::Event(event) if event.mark == EventMark::MessageDelta));
            after(last)
        }
        FaultPoint::AfterMessageStop => Some(InsertPosition { index: items.len(), half: false }),
        FaultPoint::Event(count) => before(Some(count.min(items.len()))),
    }
}

/// Inserts actions at a byte of the encoded body.
pub(super) fn cut_at_bytes(mut parts: Vec<StreamPart>, faults: &[Fault]) -> Vec<StreamPart> {
    for fault in faults {
        match fault {
            Fault::Cut { at: FaultPoint::Byte(limit), how } => {
                parts = split(parts, *limit).0;
                parts.push(StreamPart::Action(WireAction::Close(*how)));
            }
            Fault::Stall { at: FaultPoint::Byte(limit), for_ms, .. } => {
                let (before, after) = split(parts, *limit);
                parts = before;
                parts.push(StreamPart::Action(WireAction::Stall { for_ms: *for_ms, ping: None }));
                parts.extend(after);
            }
            _ => {}
        }
    }
    parts
}

fn split(parts: Vec<StreamPart>, limit: usize) -> (Vec<StreamPart>, Vec<StreamPart>) {
    let (mut before, mut after, mut seen) = (Vec::new(), Vec::new(), 0);
    for part in parts {
        match part {
            _ if seen >= limit => after.push(part),
            StreamPart::Bytes(mut bytes) => {
                let rest = bytes.split_off((limit - seen).min(bytes.len()));
                seen += bytes.len();
                before.push(StreamPart::Bytes(bytes));
                if !rest.is_empty() {
                    after.push(StreamPart::Bytes(rest));
                }
            }
            act => before.push(act),
        }
    }
    (before, after)
}

/// Applies faults at the positions that a body without events has: its beginning and its end.
pub(super) fn apply_body_faults(mut parts: Vec<StreamPart>, faults: &[Fault]) -> Vec<StreamPart> {
    for fault in faults {
        match fault {
            Fault::Cut { at: FaultPoint::AfterHeaders, how } => {
                parts = vec![StreamPart::Action(WireAction::Close(*how))]
            }
            Fault::Stall { at: FaultPoint::AfterHeaders, for_ms, .. } => {
                parts.insert(0, StreamPart::Action(WireAction::Stall { for_ms: *for_ms, ping: None }));
            }
            Fault::Cut { at: FaultPoint::AfterMessageStop, how } => {
                parts.push(StreamPart::Action(WireAction::Close(*how)))
            }
            _ => {}
        }
    }
    parts
}

/// Returns the action before the response's head, if any.
pub(crate) fn before_headers(faults: &[Fault]) -> Option<WireAction> {
    faults.iter().find_map(|fault| match fault {
        Fault::Cut { at: FaultPoint::BeforeHeaders, how } => Some(WireAction::Close(*how)),
        Fault::Stall { at: FaultPoint::BeforeHeaders, for_ms, .. } => {
            Some(WireAction::Stall { for_ms: *for_ms, ping: None })
        }
        _ => None,
    })
}
