//! Grouping of bytes into writes.

use super::{StreamPart, WireAction};
use crate::digest_chain::SeededRng;
use crate::script::{ChunkMode, WireShape};

/// Converts parts to writes and actions. Bytes never move across an action.
pub(super) fn chunk_parts(parts: Vec<StreamPart>, wire: &WireShape, seed: u64) -> Vec<WireAction> {
    let mut acts = Vec::new();
    let mut events: Vec<Vec<u8>> = Vec::new();
    let mut dice = SeededRng::new(seed);
    for part in parts {
        match part {
            StreamPart::Bytes(bytes) if bytes.is_empty() => {}
            StreamPart::Bytes(bytes) => events.push(bytes),
            StreamPart::Action(act) => {
                flush(&mut events, wire, &mut dice, &mut acts);
                acts.push(act);
            }
        }
    }
    flush(&mut events, wire, &mut dice, &mut acts);
    acts
}

fn flush(events: &mut Vec<Vec<u8>>, wire: &WireShape, dice: &mut SeededRng, acts: &mut Vec<WireAction>) {
    for chunk in group(std::mem::take(events), wire.chunk, dice) {
        if wire.drip_ms > 0 && matches!(acts.last(), Some(WireAction::Write(_))) {
            acts.push(WireAction::Sleep { ms: wire.drip_ms });
        }
        acts.push(WireAction::Write(chunk));
    }
}

fn group(events: Vec<Vec<u8>>, chunk: ChunkMode, dice: &mut SeededRng) -> Vec<Vec<u8>> {
    match chunk {
        ChunkMode::Event => return events,
        ChunkMode::Events(count) => return events.chunks(count.max(1)).map(|some| some.concat()).collect(),
        _ => {}
    }
    let bytes = events.concat();
    let cuts = match chunk {
        ChunkMode::Line => cuts_where(&bytes, |at| is_line_end(&bytes, at - 1)),
        ChunkMode::Bytes(count) => (count..bytes.len()).step_by(count.max(1)).collect(),
        ChunkMode::Random => random_cuts(bytes.len(), dice),
        // Before a continuation byte: inside a code point.
        ChunkMode::Utf8 => cuts_where(&bytes, |at| bytes[at] & 0b1100_0000 == 0b1000_0000),
        ChunkMode::Escape => cuts_where(&bytes, |at| in_escape(&bytes, at)),
        ChunkMode::Crlf => cuts_where(&bytes, |at| bytes[at] == b'\n' && bytes[at - 1] == b'\r'),
        ChunkMode::Whole | ChunkMode::Event | ChunkMode::Events(_) => Vec::new(),
    };
    split_at(&bytes, &cuts)
}

fn cuts_where(bytes: &[u8], is_cut: impl Fn(usize) -> bool) -> Vec<usize> {
    (1..bytes.len()).filter(|at| is_cut(*at)).collect()
}

/// Returns true if a line ends with this byte; the CR of a CRLF does not count.
fn is_line_end(bytes: &[u8], at: usize) -> bool {
    bytes[at] == b'\n' || (bytes[at] == b'\r' && bytes.get(at + 1) != Some(&b'\n'))
}

/// Returns true right after a backslash, or inside the digits of a `\u` escape.
fn in_escape(bytes: &[u8], at: usize) -> bool {
    bytes[at - 1] == b'\\' || (at >= 4 && bytes[at - 4] == b'\\' && bytes[at - 3] == b'u')
}

fn random_cuts(len: usize, dice: &mut SeededRng) -> Vec<usize> {
    let mut cuts = Vec::new();
    let mut at = dice.next_up_to(64);
    while at < len {
        cuts.push(at);
        at += dice.next_up_to(64);
    }
    cuts
}

fn split_at(bytes: &[u8], cuts: &[usize]) -> Vec<Vec<u8>> {
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain([bytes.len()]);
    starts.zip(ends).map(|(start, end)| bytes[start..end].to_vec()).filter(|chunk| !chunk.is_empty()).collect()
}
