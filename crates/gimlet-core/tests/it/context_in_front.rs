//! What stands in front of a conversation is sent first in every request and is no part of its history.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gimlet_core::{
    ContextPartKind, SegmentContextPart, SegmentContextRequest, SegmentContextSource, SegmentContextUpdate,
};
use gimlet_proto::{Block, ModelRequest, Role};

use crate::session_bench::{BenchSetup, SessionBench, reply};

fn texts(request: &ModelRequest, message: usize) -> Vec<String> {
    request.messages[message].blocks.iter().map(|block| block.as_text().unwrap().into_owned()).collect()
}

fn context() -> Vec<SegmentContextPart> {
    vec![
        SegmentContextPart::new(ContextPartKind::Memory, "be kind"),
        SegmentContextPart::new(ContextPartKind::Other, " \n"),
        SegmentContextPart::new(ContextPartKind::Skills, "- tidy"),
    ]
}

#[tokio::test]
async fn the_context_comes_first_in_every_request_with_a_cache_mark_at_its_end() {
    let setup = BenchSetup { context: context(), saved: true, ..BenchSetup::default() };
    let mut bench = SessionBench::new(setup, vec![reply(&[Block::text("1")]), reply(&[Block::text("2")])]);
    bench.run("one").await;
    bench.run("two").await;
    let requests = bench.model.requests();
    for request in &requests {
        assert_eq!(request.messages[0].role, Role::User);
        assert_eq!(texts(request, 0), ["be kind", "- tidy"]);
        assert_eq!(request.cache.context, Some((0, 1)));
    }
    assert!(texts(&requests[0], 1)[0].starts_with("<environment>"));
    assert_eq!((requests[0].messages.len(), requests[0].cache.previous_len), (2, None));
    assert_eq!((requests[1].messages.len(), requests[1].cache.previous_len), (4, Some(2)));
    assert_eq!(requests[1].messages[..2], requests[0].messages[..]);
    let kept = bench.lines().join("\n");
    assert!(!kept.contains("be kind"), "the conversation on disk does not have it: {kept}");
    bench.close().await;
}

#[tokio::test]
async fn without_context_a_conversation_begins_with_its_environment() {
    let mut bench = SessionBench::new(BenchSetup::default(), vec![reply(&[Block::text("1")])]);
    bench.run("one").await;
    let request = bench.model.requests().remove(0);
    assert_eq!((request.messages.len(), request.cache.context), (1, Some((0, 0))));
    bench.close().await;
}

/// Gives one part when a segment opens, and says once that it changed.
#[derive(Default)]
struct CountingSource {
    openings: AtomicUsize,
    looks: AtomicUsize,
}

fn list_part(text: &str) -> SegmentContextUpdate {
    let parts = vec![SegmentContextPart::new(ContextPartKind::Skills, text)];
    SegmentContextUpdate { parts, warnings: Vec::new() }
}

impl SegmentContextSource for CountingSource {
    fn opening_parts(&self, request: &SegmentContextRequest) -> SegmentContextUpdate {
        assert!(request.delivered.parts().is_empty() && request.agent.is_none());
        self.openings.fetch_add(1, Ordering::SeqCst);
        list_part("first list")
    }

    fn changed_parts(&self, request: &SegmentContextRequest) -> SegmentContextUpdate {
        let known = request.delivered.parts().len();
        match self.looks.fetch_add(1, Ordering::SeqCst) {
            1 => {
                assert_eq!(known, 1);
                list_part("second list")
            }
            2 => panic!("a source that fails says nothing"),
            _ => SegmentContextUpdate::default(),
        }
    }
}

#[tokio::test]
async fn a_segment_asks_its_sources_once_and_later_for_changes() {
    let lists = Arc::new(CountingSource::default());
    let setup = BenchSetup { context_sources: vec![lists.clone()], saved: true, ..BenchSetup::default() };
    let replies = ["1", "2", "3"].map(|text| reply(&[Block::text(text)])).to_vec();
    let mut bench = SessionBench::new(setup, replies);
    for prompt in ["one", "two", "three"] {
        bench.run(prompt).await;
    }
    assert_eq!((lists.openings.load(Ordering::SeqCst), lists.looks.load(Ordering::SeqCst)), (1, 3));
    let requests = bench.model.requests();
    assert!(requests.iter().all(|request| texts(request, 0) == ["first list"]));
    assert_eq!(texts(&requests[1], 3), ["two", "second list"]);
    assert_eq!(texts(&requests[2], 5), ["three"]);
    bench.close().await;
}
