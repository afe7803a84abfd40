//! Putting scripted failures into a stream: which event they come after, what they change.

use serde_json::json;

use super::{Act, Item, Part, Pinger, sse};
use crate::anthropic::{Event, EventMark as Mark, ping};
use crate::api_error::error_body;
use crate::script::{At, Fault, Wire};

/// Changes the events and puts acts between them.
pub(super) fn apply(mut events: Vec<Event>, faults: &[Fault], wire: &Wire, request_id: &str) -> Vec<Item> {
    for fault in faults {
        events = reshape(events, fault);
    }
    let mut items: Vec<Item> = events.into_iter().map(Item::Event).collect();
    for fault in faults {
        items = interrupt(items, fault, wire, request_id);
    }
    items
}

/// Faults in the grammar of the stream.
fn reshape(mut events: Vec<Event>, fault: &Fault) -> Vec<Event> {
    match fault {
        Fault::NoMessageStop => events.retain(|event| event.mark != Mark::MessageStop),
        Fault::NoMessageDelta => events.retain(|event| event.mark != Mark::MessageDelta),
        Fault::TwoMessageStarts => {
            if let Some(at) = events.iter().position(|event| event.mark == Mark::MessageStart) {
                let again = events[at].clone();
                events.insert(at + 1, again);
            }
        }
        Fault::IndexGaps => renumber(&mut events, |index| index * 2),
        Fault::IndexReuse => renumber(&mut events, |_| 0),
        Fault::UnknownIndex => {
            let delta = json!({ "type": "text_delta", "text": "to nobody" });
            let data = json!({ "type": "content_block_delta", "index": 99, "delta": delta });
            let at = events.iter().position(|event| matches!(event.mark, Mark::BlockStop(_))).unwrap_or(0);
            events.insert(at, Event::new(Mark::Noise, data));
        }
        Fault::StopTwice => {
            events = events
                .into_iter()
                .flat_map(|event| {
                    let copies = if matches!(event.mark, Mark::BlockStop(_)) { 2 } else { 1 };
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

fn renumber(events: &mut [Event], new_index: impl Fn(u64) -> u64) {
    for event in events {
        if let Some(index) = event.index() {
            event.data["index"] = json!(new_index(index));
        }
    }
}

/// All starts, then deltas taken from each block in turn, then all stops.
fn interleaved(events: Vec<Event>) -> Vec<Event> {
    let is_block = |event: &Event| event.index().is_some();
    let Some(first) = events.iter().position(is_block) else { return events };
    let (mut starts, mut stops, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let mut queues: Vec<std::collections::VecDeque<Event>> = Vec::new();
    for event in events {
        match (&event.mark, event.index()) {
            (Mark::BlockStart(_), _) => starts.push(event),
            (Mark::BlockStop(_), _) => stops.push(event),
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

/// Faults that happen at a place.
fn interrupt(items: Vec<Item>, fault: &Fault, wire: &Wire, request_id: &str) -> Vec<Item> {
    match fault {
        Fault::Cut { at, how } => insert(items, *at, vec![Item::Do(Act::Close(*how))], After::Nothing),
        Fault::Stall { at, ping_every_ms, for_ms } => {
            let pinger = ping_every_ms.map(|every_ms| {
                let event = ping(wire.fat_pings);
                Pinger { every_ms, bytes: sse::frame(&event.name, &event.data.to_string(), wire) }
            });
            insert(items, *at, vec![Item::Do(Act::Stall { for_ms: *for_ms, ping: pinger })], After::TheRest)
        }
        Fault::ErrorEvent { at, kind, message, data } => {
            let text = data.clone().unwrap_or_else(|| error_body(kind, message, request_id).to_string());
            insert(items, *at, vec![Item::RawEvent { name: "error".to_owned(), data: text }], After::Nothing)
        }
        _ => items,
    }
}

/// What follows the inserted items.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Nothing,
    TheRest,
}

fn insert(mut items: Vec<Item>, at: At, inserted: Vec<Item>, after: After) -> Vec<Item> {
    let Some(place) = find(&items, at) else { return items };
    let mut rest = items.split_off(place.index);
    if place.half
        && let Some(Item::Event(event)) = rest.first().cloned()
    {
        items.push(Item::Half(event));
    }
    items.extend(inserted);
    if after == After::TheRest {
        // A half event cannot be continued by its other half once it is framed anew, so the rest begins after it.
        items.extend(rest.drain(usize::from(place.half)..));
    }
    items
}

struct Place {
    index: usize,
    /// In the middle of the event at `index`.
    half: bool,
}

/// Where a place is in this stream; `None` when it has no such place or it is not about events.
fn find(items: &[Item], at: At) -> Option<Place> {
    let position = |wanted: &dyn Fn(&Mark) -> bool| {
        items.iter().position(|item| matches!(item, Item::Event(event) if wanted(&event.mark)))
    };
    let before = |index: Option<usize>| index.map(|index| Place { index, half: false });
    let after = |index: Option<usize>| before(index.map(|index| index + 1));
    let half = |index: Option<usize>| index.map(|index| Place { index, half: true });
    let delta_of = |kind: &'static str| move |mark: &Mark| matches!(mark, Mark::Delta(of) if of == kind);
    match at {
        At::BeforeHeaders | At::Byte(_) => None,
        At::AfterHeaders => before(Some(0)),
        At::MidMessageStart => half(position(&|mark| *mark == Mark::MessageStart)),
        At::AfterMessageStart => after(position(&|mark| *mark == Mark::MessageStart)),
        At::MidThinking => after(position(&delta_of("thinking"))),
        At::MidText => after(position(&delta_of("text"))),
        At::MidTool => after(position(&delta_of("tool_use"))),
        At::MidDelta => half(position(&|mark| matches!(mark, Mark::Delta(_)))),
        At::BetweenBlocks => after(position(&|mark| matches!(mark, Mark::BlockStop(_)))),
        At::AfterTool => after(position(&|mark| matches!(mark, Mark::BlockStop(of) if of == "tool_use"))),
        At::AfterStopReason => {
            let last =
                items.iter().rposition(|item| matches!(item, Item::Event(event) if event.mark == Mark::MessageDelta));
            after(last)
        }
        At::AfterMessageStop => Some(Place { index: items.len(), half: false }),
        At::Event(count) => before(Some(count.min(items.len()))),
    }
}

/// Acts at a byte of the body as it goes over the wire.
pub(super) fn cut_at_bytes(mut parts: Vec<Part>, faults: &[Fault]) -> Vec<Part> {
    for fault in faults {
        match fault {
            Fault::Cut { at: At::Byte(limit), how } => {
                parts = split(parts, *limit).0;
                parts.push(Part::Act(Act::Close(*how)));
            }
            Fault::Stall { at: At::Byte(limit), for_ms, .. } => {
                let (before, after) = split(parts, *limit);
                parts = before;
                parts.push(Part::Act(Act::Stall { for_ms: *for_ms, ping: None }));
                parts.extend(after);
            }
            _ => {}
        }
    }
    parts
}

fn split(parts: Vec<Part>, limit: usize) -> (Vec<Part>, Vec<Part>) {
    let (mut before, mut after, mut seen) = (Vec::new(), Vec::new(), 0);
    for part in parts {
        match part {
            _ if seen >= limit => after.push(part),
            Part::Bytes(mut bytes) => {
                let rest = bytes.split_off((limit - seen).min(bytes.len()));
                seen += bytes.len();
                before.push(Part::Bytes(bytes));
                if !rest.is_empty() {
                    after.push(Part::Bytes(rest));
                }
            }
            act => before.push(act),
        }
    }
    (before, after)
}

/// The places that a body without events has: its beginning and its end.
pub(super) fn around_body(mut parts: Vec<Part>, faults: &[Fault]) -> Vec<Part> {
    for fault in faults {
        match fault {
            Fault::Cut { at: At::AfterHeaders, how } => parts = vec![Part::Act(Act::Close(*how))],
            Fault::Stall { at: At::AfterHeaders, for_ms, .. } => {
                parts.insert(0, Part::Act(Act::Stall { for_ms: *for_ms, ping: None }));
            }
            Fault::Cut { at: At::AfterMessageStop, how } => parts.push(Part::Act(Act::Close(*how))),
            _ => {}
        }
    }
    parts
}

/// What happens before the response's head, if anything.
pub(crate) fn before_headers(faults: &[Fault]) -> Option<Act> {
    faults.iter().find_map(|fault| match fault {
        Fault::Cut { at: At::BeforeHeaders, how } => Some(Act::Close(*how)),
        Fault::Stall { at: At::BeforeHeaders, for_ms, .. } => Some(Act::Stall { for_ms: *for_ms, ping: None }),
        _ => None,
    })
}
