//! How long the slow ones among many decisions take: median, 99th percentile and maximum for texts of every shape, of one
//! and of ten kilobytes, nesting and here-documents among them. The limits are 2 ms and 50 ms for the 99th percentile.
//! An argument that is not an option measures only the shapes whose name has it in it.

#[path = "common/shapes.rs"]
mod shapes;

use std::io::{self, Write};
use std::time::{Duration, Instant};

use shapes::{DecisionQuestion, FILLED, LENGTHS, NESTED, OPENERS, PARTS};

/// Decisions on each text, the first ones not counted.
const ROUNDS: usize = 500;
const WARMING: usize = 20;

fn main() -> io::Result<()> {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let mut out = io::stdout().lock();
    writeln!(out, "{:>8} {:>10} {:>10} {:>10}  text", "bytes", "p50 us", "p99 us", "max us")?;
    for length in LENGTHS {
        let mut worst = Duration::ZERO;
        for (name, text) in texts(*length).into_iter().filter(|(name, _)| name.contains(&wanted)) {
            let bytes = text.len();
            let times = measure_decisions(&DecisionQuestion::for_command(text));
            let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| percentile(&times, share));
            worst = worst.max(p99);
            let us = |time: Duration| time.as_nanos() as f64 / 1_000.0;
            writeln!(out, "{bytes:>8} {:>10.1} {:>10.1} {:>10.1}  {name}", us(p50), us(p99), us(max))?;
        }
        writeln!(out, "{length:>8} bytes: the worst p99 is {:.3} ms\n", worst.as_secs_f64() * 1_000.0)?;
    }
    Ok(())
}

/// Every shape at a length, with a name for people.
fn texts(length: usize) -> Vec<(String, String)> {
    let shown = |text: &str| format!("{text:?}");
    let fill = |part: &str| part.repeat((length / part.len()).max(1));
    let parts = PARTS.iter().map(|part| (shown(part), fill(part)));
    let openers = OPENERS.iter().map(|opener| (format!("{} never closed", shown(opener)), fill(opener)));
    let nested =
        NESTED.iter().map(|(open, close)| (format!("{open:?} in itself"), shapes::nested_text(length, open, close)));
    let filled =
        FILLED.iter().map(|shape| (format!("{:?} in {:?}", shape.1, shape.0), shapes::filled_text(length, *shape)));
    parts.chain(openers).chain(nested).chain(filled).collect()
}

/// How long each decision took, the shortest first.
fn measure_decisions(question: &DecisionQuestion) -> Vec<Duration> {
    let timed = |_| {
        let start = Instant::now();
        std::hint::black_box(question.decide());
        start.elapsed()
    };
    let mut times: Vec<Duration> = (0..ROUNDS + WARMING).map(timed).skip(WARMING).collect();
    times.sort_unstable();
    times
}

fn percentile(sorted: &[Duration], share: f64) -> Duration {
    let index = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len());
    sorted.get(index - 1).copied().unwrap_or_default()
}
