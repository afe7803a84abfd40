//! Conversation for a resume: repaired, except for a call at its end that a hook deferred. That call has no result
//! because it waits, not because the result was lost. Once it was marked as about to run it is not deferred any more:
//! without a result it is lost like any other.

use std::fs::File;
use std::io;

use gimlet_proto::{Message, ToolUseId};
use serde::Deserialize;

use crate::assemble;
use crate::chain::EntryChain;
use crate::damage::Damage;
use crate::entry_format::DEFERRED_CALL;
use crate::full_entry::FullEntry;
use crate::history_repair::repair_messages;
use crate::load::read_span;
use crate::transcript_index::{EntryKind, TranscriptIndex};

/// Messages of a conversation and their repairs.
pub(crate) struct RepairedConversation {
    pub(crate) messages: Vec<Message>,
    pub(crate) repairs: Vec<Damage>,
    /// Message behind them with the deferred call, which has no result.
    pub(crate) deferred: Option<Message>,
}

pub(crate) fn repair_conversation(
    file: &File,
    index: &TranscriptIndex,
    chain: &EntryChain,
    lives: Vec<FullEntry>,
) -> io::Result<RepairedConversation> {
    let (mut messages, mut repairs) = repair_messages(assemble::assemble_messages(lives), 0);
    let waiting = find_deferred_call(file, index, chain)?;
    let deferred = waiting.and_then(|call| take_deferred_call(&mut messages, &mut repairs, &call));
    Ok(RepairedConversation { messages, repairs, deferred })
}

/// Returns the call at the end of the conversation that a hook deferred; `None` if there is none.
fn find_deferred_call(file: &File, index: &TranscriptIndex, chain: &EntryChain) -> io::Result<Option<ToolUseId>> {
    #[derive(Deserialize)]
    struct DeferredEntry {
        attachment: DeferredMark,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct DeferredMark {
        r#type: String,
        tool_use_id: String,
    }
    let Some(row) = chain.last.map(|last| &index.rows[last as usize]).filter(|row| row.kind == EntryKind::Attachment)
    else {
        return Ok(None);
    };
    let mut buffer = Vec::new();
    read_span(file, row.span, &mut buffer)?;
    // Other attachments do not concern deferred calls.
    let mark = serde_json::from_slice::<DeferredEntry>(&buffer).ok().map(|entry| entry.attachment);
    Ok(mark.filter(|mark| mark.r#type == DEFERRED_CALL).map(|mark| ToolUseId::new(mark.tool_use_id)))
}

/// Removes the end of a history if it is this call alone and the synthetic result for it, and returns the call's
/// message.
fn take_deferred_call(messages: &mut Vec<Message>, repairs: &mut Vec<Damage>, call: &ToolUseId) -> Option<Message> {
    let [.., asking, answer] = messages.as_slice() else { return None };
    let calls: Vec<_> = asking.tool_uses().map(|parts| parts.id.into_owned()).collect();
    let made_up = |item: &Damage| matches!(item, Damage::MissingResult { call: missing } if missing == call);
    if calls != [call.as_str()] || answer.blocks.len() != 1 || !repairs.iter().any(made_up) {
        return None;
    }
    repairs.retain(|item| !made_up(item));
    messages.pop();
    messages.pop()
}
