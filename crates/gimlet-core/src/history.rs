//! The history of a conversation as items to show, built from its transcript.
//!
//! Calls become views, made by the tools from the recorded input and output. Calls of unknown tools, and those whose
//! record a tool does not understand, are shown by their text.

use std::collections::HashMap;
use std::path::Path;

use gimlet_proto::{
    Block, BlockKind, EntryId, HistoryBody, HistoryCall, HistoryItem, HistoryResult, Role, ToolUseId, View,
};
use gimlet_store::{LoadError, TranscriptItem, TranscriptItemKind, open_transcript_view};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::tool::{CallSummary, PathContext, RecordedResult, ToolSet};

/// Number of characters of the arguments of a call whose tool is unknown.
const SUMMARY_CHARS: usize = 120;

/// Reads the history from a transcript, also what was before compactions. A transcript that does not exist yet has
/// none.
pub fn read_history(transcript: &Path, tools: &ToolSet, paths: &PathContext) -> Result<Vec<HistoryItem>, LoadError> {
    let view = match open_transcript_view(transcript) {
        Ok(view) => view,
        Err(LoadError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut builder = HistoryBuilder { tools, paths, items: Vec::new(), open: HashMap::new() };
    for item in view.items() {
        builder.add_entry(item?);
    }
    Ok(builder.items)
}

struct HistoryBuilder<'a> {
    tools: &'a ToolSet,
    paths: &'a PathContext,
    items: Vec<HistoryItem>,
    /// Calls without a result so far: the position of the item, and the call's block.
    open: HashMap<String, (usize, Block)>,
}

impl HistoryBuilder<'_> {
    fn add_entry(&mut self, item: TranscriptItem) {
        match item.kind {
            TranscriptItemKind::Reply => self.add_reply(item),
            TranscriptItemKind::Results => self.add_results(item),
            TranscriptItemKind::Prompt => self.push(item, HistoryBody::Prompt),
            TranscriptItemKind::Injected => self.push(item, HistoryBody::Injected),
            TranscriptItemKind::Summary => self.push(item, HistoryBody::Summary),
            TranscriptItemKind::Failure => self.push(item, HistoryBody::Failure),
            TranscriptItemKind::Compacted => self.push(item, |_| HistoryBody::Compacted),
            TranscriptItemKind::Note => self.push(item, HistoryBody::Note),
        }
    }

    fn push(&mut self, item: TranscriptItem, body: impl FnOnce(Vec<Block>) -> HistoryBody) {
        let role = match item.kind {
            TranscriptItemKind::Reply | TranscriptItemKind::Failure => Role::Assistant,
            _ => Role::User,
        };
        self.items.push(HistoryItem { entry: item.entry, role, at: item.at, body: body(item.blocks) });
    }

    fn add_reply(&mut self, item: TranscriptItem) {
        let (calls, others): (Vec<Block>, Vec<Block>) =
            item.blocks.iter().cloned().partition(|block| block.kind() == BlockKind::ToolUse);
        if !others.is_empty() {
            self.push(TranscriptItem { blocks: others, ..item.clone() }, HistoryBody::Reply);
        }
        for block in calls {
            let Some(call) = self.render_call(&block, None) else { continue };
            self.open.insert(call.call.as_str().to_owned(), (self.items.len(), block));
            self.push(item.clone(), |_| HistoryBody::Call(Box::new(call)));
        }
    }

    fn add_results(&mut self, item: TranscriptItem) {
        let (results, others): (Vec<Block>, Vec<Block>) =
            item.blocks.iter().cloned().partition(|block| block.kind() == BlockKind::ToolResult);
        // An output belongs to a single result; where an entry has several, it is not known to which.
        let output = if results.len() == 1 { item.output.as_deref() } else { None };
        for block in &results {
            self.add_result(&item, block, output);
        }
        if !others.is_empty() {
            self.push(TranscriptItem { blocks: others, ..item }, HistoryBody::Prompt);
        }
    }

    fn add_result(&mut self, item: &TranscriptItem, block: &Block, output: Option<&RawValue>) {
        let Some(parts) = block.as_tool_result() else { return };
        let Some((position, call)) = self.open.remove(parts.tool_use_id.as_ref()) else { return };
        let text = parts.content.map(result_text).unwrap_or_default();
        let result = RecordedResult { is_error: parts.is_error, text: &text, output };
        let Some(rendered) = self.render_call(&call, Some((&result, &item.entry))) else { return };
        if let Some(item) = self.items.get_mut(position) {
            item.body = HistoryBody::Call(Box::new(rendered));
        }
    }

    /// Renders a call; `None` for a block that is none.
    fn render_call(&self, block: &Block, ended: Option<(&RecordedResult<'_>, &EntryId)>) -> Option<HistoryCall> {
        let result = ended.map(|(result, _)| result);
        let call = block.as_tool_use()?;
        let meant = self.tools.find(self.tools.resolve_name(&call.name));
        let rendered = meant.and_then(|tool| tool.summarize_past_call(call.input, result, self.paths));
        let CallSummary { name, summary, view } =
            rendered.unwrap_or_else(|| summarize_unknown_call(&call.name, call.input, result));
        let shown = ended.zip(view).map(|((result, entry), view)| HistoryResult {
            entry: entry.clone(),
            failed: result.is_error,
            view,
        });
        Some(HistoryCall { call: ToolUseId::new(call.id.as_ref()), name, summary, result: shown })
    }
}

/// Returns the text of a result's content; other parts are named by their kind.
fn result_text(content: &RawValue) -> String {
    let part = |part: &Value| match (part["text"].as_str(), part["type"].as_str()) {
        (Some(text), _) => text.to_owned(),
        (None, kind) => format!("[{}]", kind.unwrap_or("content")),
    };
    match serde_json::from_str(content.get()) {
        Ok(Value::String(text)) => text,
        Ok(Value::Array(parts)) => parts.iter().map(part).collect::<Vec<_>>().join("\n"),
        Ok(_) | Err(_) => String::new(),
    }
}

/// Renders a call of a tool that is not known, or that does not understand its record.
fn summarize_unknown_call(name: &str, input: &RawValue, result: Option<&RecordedResult<'_>>) -> CallSummary {
    let mut summary: String = input.get().chars().take(SUMMARY_CHARS).collect();
    if summary.len() < input.get().len() {
        summary.push('…');
    }
    CallSummary { name: name.to_owned(), summary, view: result.map(|result| View::Text(result.text.to_owned())) }
}
