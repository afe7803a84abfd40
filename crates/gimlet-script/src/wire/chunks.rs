//! Grouping bytes into writes.

use super::{Act, Part};
use crate::hash::Dice;
use crate::script::{Chunk, Wire};

/// Turns parts into writes and acts. Bytes never move across an act.
pub(super) fn write(parts: Vec<Part>, wire: &Wire, seed: u64) -> Vec<Act> {
    let mut acts = Vec::new();
    let mut events: Vec<Vec<u8>> = Vec::new();
    let mut dice = Dice::new(seed);
    for part in parts {
        match part {
            Part::Bytes(bytes) if bytes.is_empty() => {}
            Part::Bytes(bytes) => events.push(bytes),
            Part::Act(act) => {
                flush(&mut events, wire, &mut dice, &mut acts);
                acts.push(act);
            }
        }
    }
    flush(&mut events, wire, &mut dice, &mut acts);
    acts
}

fn flush(events: &mut Vec<Vec<u8>>, wire: &Wire, dice: &mut Dice, acts: &mut Vec<Act>) {
    for chunk in group(std::mem::take(events), wire.chunk, dice) {
        if wire.drip_ms > 0 && matches!(acts.last(), Some(Act::Write(_))) {
            acts.push(Act::Sleep { ms: wire.drip_ms });
        }
        acts.push(Act::Write(chunk));
    }
}

fn group(events: Vec<Vec<u8>>, chunk: Chunk, dice: &mut Dice) -> Vec<Vec<u8>> {
    match chunk {
        Chunk::Event => return events,
        Chunk::Events(count) => return events.chunks(count.max(1)).map(|some| some.concat()).collect(),
        _ => {}
    }
    let bytes = events.concat();
    let cuts = match chunk {
        Chunk::Line => cuts_where(&bytes, |at| is_line_end(&bytes, at - 1)),
        Chunk::Bytes(count) => (count..bytes.len()).step_by(count.max(1)).collect(),
        Chunk::Random => random_cuts(bytes.len(), dice),
        // Before a continuation byte: inside a code point.
        Chunk::Utf8 => cuts_where(&bytes, |at| bytes[at] & 0b1100_0000 == 0b1000_0000),
        Chunk::Escape => cuts_where(&bytes, |at| in_escape(&bytes, at)),
        Chunk::Crlf => cuts_where(&bytes, |at| bytes[at] == b'\n' && bytes[at - 1] == b'\r'),
        Chunk::Whole | Chunk::Event | Chunk::Events(_) => Vec::new(),
    };
    split_at(&bytes, &cuts)
}

fn cuts_where(bytes: &[u8], is_cut: impl Fn(usize) -> bool) -> Vec<usize> {
    (1..bytes.len()).filter(|at| is_cut(*at)).collect()
}

/// Whether a line ends with this byte; the CR of a CRLF does not count.
fn is_line_end(bytes: &[u8], at: usize) -> bool {
    bytes[at] == b'\n' || (bytes[at] == b'\r' && bytes.get(at + 1) != Some(&b'\n'))
}

/// Right after a backslash, or inside the digits of a `\u` escape.
fn in_escape(bytes: &[u8], at: usize) -> bool {
    bytes[at - 1] == b'\\' || (at >= 4 && bytes[at - 4] == b'\\' && bytes[at - 3] == b'u')
}

fn random_cuts(len: usize, dice: &mut Dice) -> Vec<usize> {
    let mut cuts = Vec::new();
    let mut at = dice.roll(64);
    while at < len {
        cuts.push(at);
        at += dice.roll(64);
    }
    cuts
}

fn split_at(bytes: &[u8], cuts: &[usize]) -> Vec<Vec<u8>> {
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain([bytes.len()]);
    starts.zip(ends).map(|(start, end)| bytes[start..end].to_vec()).filter(|chunk| !chunk.is_empty()).collect()
}
