//! A copy of every transcript line for hosts that keep transcripts themselves.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::mpsc;

use super::truncate::{MAX_LINE, truncate_line};

/// Maximum size of a frame's payload, with room for its envelope.
const MAX_FRAME: usize = MAX_LINE - 20_000;

struct MirrorEntry {
    path: Arc<str>,
    line: String,
}

/// Sender for the lines of transcripts as they are written.
#[derive(Clone)]
pub struct TranscriptMirror {
    entries: mpsc::UnboundedSender<MirrorEntry>,
}

/// Receiver of the lines that have not been forwarded.
pub struct MirrorFeed {
    entries: mpsc::UnboundedReceiver<MirrorEntry>,
    /// Entry that was received and is not part of a frame yet.
    next: Option<MirrorEntry>,
}

/// Creates a mirror and the feed of its lines.
pub fn mirror_channel() -> (TranscriptMirror, MirrorFeed) {
    let (entries, receiver) = mpsc::unbounded_channel();
    (TranscriptMirror { entries }, MirrorFeed { entries: receiver, next: None })
}

impl TranscriptMirror {
    /// Returns the callback for every line of the transcript at this path.
    pub fn of(&self, path: &str) -> impl FnMut(&str) + Send + 'static {
        let (path, entries) = (Arc::from(path), self.entries.clone());
        move |line| {
            // After the host is gone no copy is needed.
            drop(entries.send(MirrorEntry { path: Arc::clone(&path), line: line.to_owned() }));
        }
    }
}

impl MirrorFeed {
    /// Resolves when there is a line to forward.
    pub(super) async fn wait_ready(&mut self) {
        if self.next.is_none() {
            self.next = self.entries.recv().await;
        }
        if self.next.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns the next frame of the received lines.
    pub(super) fn next_frame(&mut self) -> Option<String> {
        let first = self.next.take().or_else(|| self.entries.try_recv().ok())?;
        let mut size = first.line.len();
        let mut lines = vec![truncate_line(first.line)];
        while let Ok(entry) = self.entries.try_recv() {
            size += entry.line.len() + 1;
            if entry.path != first.path || size > MAX_FRAME {
                self.next = Some(entry);
                break;
            }
            lines.push(entry.line);
        }
        let path = json!(&*first.path);
        Some(format!(r#"{{"type":"transcript_mirror","filePath":{path},"entries":[{}]}}"#, lines.join(",")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[tokio::test]
    async fn entries_keep_their_order_their_bytes_and_their_file() {
        let (mirror, mut feed) = mirror_channel();
        let (mut main, mut agent) = (mirror.of("/p/s.jsonl"), mirror.of("/p/s/subagents/a.jsonl"));
        main(r#"{"b":1,"a":2}"#);
        main(r#"{"n":2}"#);
        agent(r#"{"n":3}"#);
        main(r#"{"n":4}"#);
        feed.wait_ready().await;
        assert_eq!(
            feed.next_frame().unwrap(),
            r#"{"type":"transcript_mirror","filePath":"/p/s.jsonl","entries":[{"b":1,"a":2},{"n":2}]}"#
        );
        assert!(feed.next_frame().unwrap().contains(r#""/p/s/subagents/a.jsonl","entries":[{"n":3}]"#));
        assert!(feed.next_frame().unwrap().contains(r#"[{"n":4}]"#));
        assert!(feed.next_frame().is_none());
    }

    #[test]
    fn frames_stay_short() {
        let (mirror, mut feed) = mirror_channel();
        let mut write = mirror.of("/p/s.jsonl");
        for _ in 0..5 {
            write(&format!(r#"{{"text":"{}"}}"#, "x".repeat(400_000)));
        }
        write(&format!(r#"{{"text":"{}"}}"#, "x".repeat(2 * MAX_LINE)));
        let frames: Vec<String> = std::iter::from_fn(|| feed.next_frame()).collect();
        assert!(frames.iter().all(|frame| frame.len() < MAX_LINE + 1_000));
        let count = |frame: &String| serde_json::from_str::<Value>(frame).unwrap()["entries"].as_array().unwrap().len();
        assert_eq!(frames.iter().map(count).sum::<usize>(), 6);
    }
}
