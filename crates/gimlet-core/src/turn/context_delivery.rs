//! Delivery of memory and lists: in front of a segment when it opens, behind the reads that they belong to, and behind
//! a prompt where they changed. Each part is recorded with its source, so that a resumed session knows what it has.

use std::path::PathBuf;
use std::sync::Arc;

use gimlet_proto::{Block, NoticeLevel};
use gimlet_store::{ContextPartKind, SegmentContextPart};

use super::Turn;
use crate::conversation::Conversation;
use crate::hooks::{HookEvent, HookPayload};
use crate::segment_context::{
    DeliveredContext, SegmentAgent, SegmentContextRequest, SegmentContextSource, SegmentContextUpdate,
};

/// Opens the segment of a conversation, unless it is open: its context is read and recorded with the frozen prompt.
/// After an interrupt it stays as it is, and the next turn opens it.
pub(crate) async fn open_segment(conversation: &mut Conversation, turn: &Turn) {
    if conversation.segment.is_open() {
        return;
    }
    let delivered = conversation.segment.delivered().clone();
    let Some(update) = ask_sources(turn, delivered, |source, request| source.opening_parts(request)).await else {
        return;
    };
    report_update(turn, &update);
    conversation.segment.open(update.parts);
    conversation.record_frozen_prompt();
}

/// Reads the context anew for the segment that a compaction begins; `None` if the turn is interrupted meanwhile.
pub(crate) async fn read_compacted_context(turn: &Turn) -> Option<Vec<SegmentContextPart>> {
    let nothing = Arc::new(DeliveredContext::default());
    let mut update = ask_sources(turn, nothing, |source, request| source.opening_parts(request)).await?;
    for source in update.parts.iter_mut().filter_map(|part| part.source.as_mut()) {
        if source.reason == "session_start" {
            "compact".clone_into(&mut source.reason);
        }
    }
    report_update(turn, &update);
    Some(update.parts)
}

/// Appends what belongs to files that calls have read and written since the last look.
pub(super) async fn deliver_for_files(conversation: &mut Conversation, turn: &Turn) {
    let read: Arc<[PathBuf]> = turn.scope.services.take_read_files().into();
    if !read.is_empty() {
        deliver(conversation, turn, move |source, request| source.parts_for_read_files(&read, request)).await;
    }
    let written: Arc<[PathBuf]> = turn.scope.services.take_written_files().into();
    if !written.is_empty() {
        deliver(conversation, turn, move |source, request| source.parts_for_written_files(&written, request)).await;
    }
}

/// Appends what changed since the conversation got it.
pub(super) async fn deliver_changes(conversation: &mut Conversation, turn: &Turn) {
    if conversation.segment.is_open() {
        deliver(conversation, turn, |source, request| source.changed_parts(request)).await;
    }
}

async fn deliver(
    conversation: &mut Conversation,
    turn: &Turn,
    ask: impl Fn(&dyn SegmentContextSource, &SegmentContextRequest) -> SegmentContextUpdate + Send + 'static,
) {
    let delivered = conversation.segment.delivered().clone();
    let Some(update) = ask_sources(turn, delivered, ask).await else { return };
    report_update(turn, &update);
    for part in update.parts {
        conversation.record.transcript().append_context_part(&part);
        conversation.history_mut().push_user(vec![Block::text(&part.text)]);
        conversation.segment.note_delivered(part);
    }
}

/// Asks every source; `None` if the turn is interrupted meanwhile.
async fn ask_sources(
    turn: &Turn,
    delivered: Arc<DeliveredContext>,
    ask: impl Fn(&dyn SegmentContextSource, &SegmentContextRequest) -> SegmentContextUpdate + Send + 'static,
) -> Option<SegmentContextUpdate> {
    let scope = &turn.scope;
    let sources = scope.services.context_sources().to_vec();
    if sources.is_empty() {
        return Some(SegmentContextUpdate::default());
    }
    let agent = scope.subagent.as_ref();
    let request = SegmentContextRequest {
        agent: agent.map(|agent| SegmentAgent { kind: agent.kind.clone(), loads_memory: agent.loads_memory }),
        facts: turn.model_facts(),
        added_dirs: scope.services.paths().roots.into_iter().skip(1).collect(),
        delivered,
        rules: scope.gate.rules(),
        tools: scope.tools.clone(),
        denied: scope.gate.files_denied_to_documents(scope),
    };
    let asking = tokio::task::spawn_blocking(move || {
        let mut all = SegmentContextUpdate::default();
        for source in sources {
            let update = ask(&*source, &request);
            all.parts.extend(update.parts);
            all.warnings.extend(update.warnings);
        }
        all
    });
    tokio::select! {
        biased;
        () = scope.cancel.cancelled() => None,
        // A source that panics has nothing to say.
        update = asking => Some(update.unwrap_or_default()),
    }
}

/// Publishes the warnings, and tells hooks which files the model gets.
fn report_update(turn: &Turn, update: &SegmentContextUpdate) {
    for warning in &update.warnings {
        turn.publish_notice(NoticeLevel::Warning, warning);
    }
    let hooks = turn.scope.services.hooks();
    if !hooks.has_listeners(HookEvent::InstructionsLoaded) {
        return;
    }
    let is_loaded = |part: &&SegmentContextPart| part.kind == ContextPartKind::Memory;
    for source in update.parts.iter().filter(is_loaded).filter_map(|part| part.source.as_ref()) {
        // Files that were removed, or of which only the place is given, are not loaded.
        if source.digest.is_some() && source.scope != "Auto" {
            hooks.fire_detached(&turn.scope, &HookPayload::InstructionsLoaded { source });
        }
    }
}
