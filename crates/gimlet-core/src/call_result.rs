//! Converts a tool's result to the model's result: empty, oversized and failed results each have their form.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_proto::{Block, ContentPart, Notice, ResultContent, ToolUseId, TurnEnd, View};
use gimlet_store::{ResultFiles, inline_fallback, persisted_preview, preview_text};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::redact::Redactor;
use crate::tool::{ErrorClass, NewMessage, ResultCap, StateChange, ToolError, ToolOutcome};

/// Number of characters above which an error goes to a file, regardless of the tool's result cap.
const MAX_ERROR_TEXT: usize = 40_000;
/// Divisor of the remaining context window that gives the share of a batch.
const BATCH_SHARE: u64 = 4;
/// Number of characters kept of a result that could not be written to a file.
const INLINE_FALLBACK: usize = 2_000;
/// Size below which results are never written to a file.
const MIN_PERSISTED: usize = 4_000;
/// Length kept of each text and list in the output of a result that was written to a file.
const LONGEST_MEMBER: usize = 2_000;
const MOST_ITEMS: usize = 100;

/// Replaces blank text in a tool's output: servers refuse blank text, also beside images.
pub(crate) fn replace_blank_text(tool: &str, content: ResultContent) -> ResultContent {
    match content {
        blank if blank.is_blank() => ResultContent::Text(format!("({tool} finished without output)")),
        ResultContent::Parts(mut parts) => {
            parts.retain(|part| !matches!(part, ContentPart::Text { text } if text.trim().is_empty()));
            ResultContent::Parts(parts)
        }
        text => text,
    }
}

/// Result of a finished call, before its block is rendered.
pub(crate) struct CallResult {
    pub(crate) content: ResultContent,
    pub(crate) output: Arc<RawValue>,
    pub(crate) error: Option<ErrorClass>,
    pub(crate) view: Option<View>,
    pub(crate) new_messages: Vec<NewMessage>,
    pub(crate) changes: Vec<StateChange>,
    pub(crate) stop_turn: bool,
    /// End of the turn requested by a hook.
    pub(crate) ends_turn: Option<TurnEnd>,
    /// Set if the model gets only a preview.
    pub(crate) persisted: bool,
    /// Set if the user was asked about a repetition and allowed it.
    pub(crate) repeat_allowed: bool,
    /// Final input of the call, if it is needed: hooks and users may have changed the model's input.
    pub(crate) input: Option<Value>,
}

impl CallResult {
    /// Converts a tool's outcome. Empty output is replaced by a note, never sent as nothing.
    pub(crate) fn from_outcome(tool: &str, outcome: ToolOutcome) -> Self {
        Self {
            content: replace_blank_text(tool, outcome.content),
            output: Arc::from(outcome.output),
            error: None,
            view: Some(outcome.view),
            new_messages: outcome.new_messages,
            changes: outcome.changes,
            stop_turn: false,
            ends_turn: None,
            persisted: false,
            repeat_allowed: false,
            input: None,
        }
    }

    /// Creates a result from text, without a call.
    pub(crate) fn from_text(text: String) -> Self {
        Self {
            content: ResultContent::Text(text),
            output: Arc::from(RawValue::NULL.to_owned()),
            error: None,
            view: None,
            new_messages: Vec::new(),
            changes: Vec::new(),
            stop_turn: false,
            ends_turn: None,
            persisted: false,
            repeat_allowed: false,
            input: None,
        }
    }

    /// Converts an error: a text for the model, and its class for programs.
    pub(crate) fn from_error(error: ToolError) -> Self {
        let mut output = match error.output.map(|output| *output) {
            Some(Value::Object(fields)) => fields,
            Some(other) => [("output".to_owned(), other)].into_iter().collect(),
            None => serde_json::Map::new(),
        };
        output.insert("errorClass".to_owned(), json!(error.class.code()));
        output.entry("error").or_insert_with(|| json!(error.user_text.as_deref().unwrap_or(&error.model_text)));
        let text = if error.class.is_input_failure() {
            format!("<tool_use_error>{}</tool_use_error>", error.model_text)
        } else {
            error.model_text
        };
        Self {
            content: ResultContent::Text(text),
            output: to_raw(&Value::Object(output)),
            error: Some(error.class),
            view: None,
            new_messages: Vec::new(),
            changes: error.changes,
            stop_turn: error.stop_turn,
            ends_turn: None,
            persisted: false,
            repeat_allowed: false,
            input: None,
        }
    }

    /// Masks gimlet's own credentials in everything that leaves the call.
    pub(crate) fn redact(&mut self, redactor: &Redactor) {
        redactor.mask_content(&mut self.content);
        if let Some(view) = &mut self.view {
            redactor.mask_view(view);
        }
        for message in &mut self.new_messages {
            match message {
                NewMessage::Text(text) | NewMessage::Notice(Notice { text, .. }) => {
                    *text = redactor.mask(text).into_owned();
                }
                NewMessage::Attachment(blocks) => blocks.iter_mut().for_each(|block| mask_block(redactor, block)),
            }
        }
        if let Cow::Owned(masked) = redactor.mask(self.output.get())
            && let Ok(output) = RawValue::from_string(masked)
        {
            self.output = Arc::from(output);
        }
    }

    /// Returns the file in this directory that holds the complete output, if the call wrote one itself.
    pub(crate) fn saved_file_in(&self, dir: &Path) -> Option<PathBuf> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct PersistedOutput {
            persisted_output_path: Option<PathBuf>,
        }
        let json = self.output.get();
        // Few results have one, and some are long.
        memchr::memmem::find(json.as_bytes(), b"persistedOutputPath")?;
        let saved: PersistedOutput = serde_json::from_str(json).ok()?;
        saved.persisted_output_path.filter(|path| path.parent() == Some(dir))
    }

    /// Returns the error text for the user.
    pub(crate) fn failure_text(&self) -> String {
        preview_text(&self.content.to_text(), MAX_ERROR_TEXT)
    }

    /// Moves text over the tool's cap to a file and leaves a preview.
    pub(crate) fn apply_cap(&mut self, call: &ToolUseId, cap: ResultCap, files: &ResultFiles) {
        let limit = match (cap, self.error) {
            (ResultCap::Chars(limit), None) => limit,
            (ResultCap::Chars(limit), Some(_)) => limit.min(MAX_ERROR_TEXT),
            (ResultCap::Unlimited, Some(_)) => MAX_ERROR_TEXT,
            (ResultCap::Unlimited, None) => return,
        };
        if is_longer(&self.content, limit) {
            self.persist_to_file(call, files);
        }
    }

    fn persist_to_file(&mut self, call: &ToolUseId, files: &ResultFiles) {
        self.persisted = true;
        let text = self.content.to_text();
        let stored = files.store_result(call, &text);
        let shown = match &stored {
            Ok(path) => persisted_preview(text.len(), path, &text),
            Err(error) => inline_fallback(&text, INLINE_FALLBACK, error),
        };
        self.output = abridge_output(&self.output, stored.ok().as_deref(), text.len());
        self.content = match std::mem::replace(&mut self.content, ResultContent::Text(String::new())) {
            ResultContent::Text(_) => ResultContent::Text(shown),
            ResultContent::Parts(parts) => {
                let others = parts.into_iter().filter(|part| !matches!(part, ContentPart::Text { .. }));
                ResultContent::Parts(std::iter::once(ContentPart::Text { text: shown }).chain(others).collect())
            }
        };
    }
}

/// Masks credentials in a block.
fn mask_block(redactor: &Redactor, block: &mut Block) {
    if let Cow::Owned(masked) = redactor.mask(block.json())
        && let Ok(masked) = Block::from_json(&masked)
    {
        *block = masked;
    }
}

/// Returns true if the content has more characters of text than `limit`. Mostly the byte length already decides.
fn is_longer(content: &ResultContent, limit: usize) -> bool {
    content.text_len() > limit && content.to_text().chars().nth(limit).is_some()
}

/// Returns a tool's output without the parts that are in the file: transcripts and programs get abridged texts and
/// lists.
fn abridge_output(output: &Arc<RawValue>, stored: Option<&Path>, size: usize) -> Arc<RawValue> {
    let Ok(mut value) = serde_json::from_str::<Value>(output.get()) else { return output.clone() };
    abridge_value(&mut value);
    if let (Value::Object(fields), Some(path)) = (&mut value, stored) {
        fields.entry("persistedOutputPath").or_insert_with(|| json!(path.to_string_lossy()));
        fields.entry("persistedOutputSize").or_insert_with(|| json!(size));
    }
    to_raw(&value)
}

fn abridge_value(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > LONGEST_MEMBER => *text = preview_text(text, LONGEST_MEMBER),
        Value::Array(items) => {
            items.truncate(MOST_ITEMS);
            items.iter_mut().for_each(abridge_value);
        }
        Value::Object(fields) => fields.values_mut().for_each(abridge_value),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Share of the context window left for the results of one reply, in bytes.
pub(crate) struct BatchBudget {
    left: usize,
}

impl BatchBudget {
    pub(crate) fn new(tokens_left: u64) -> Self {
        Self { left: usize::try_from(tokens_left / BATCH_SHARE * 4).unwrap_or(usize::MAX) }
    }

    /// Returns true if a result takes no more than its share, with this number of results still open.
    pub(crate) fn fits_share(&self, settled: &CallResult, others: usize) -> bool {
        settled.content.text_len() <= self.left / (others + 1)
    }

    /// Shrinks the results of a group that exceed the budget: the largest go to files first.
    pub(crate) fn shrink_to_fit(&mut self, batch: &mut [(ToolUseId, CallResult)], files: &ResultFiles) {
        let mut total: usize = batch.iter().map(|(_, settled)| settled.content.text_len()).sum();
        while total > self.left {
            let largest = batch.iter_mut().max_by_key(|(_, settled)| settled.content.text_len());
            let Some((call, settled)) = largest else { break };
            let before = settled.content.text_len();
            if before < MIN_PERSISTED {
                break;
            }
            settled.persist_to_file(call, files);
            total -= before.saturating_sub(settled.content.text_len());
            if settled.content.text_len() >= before {
                break;
            }
        }
        self.left = self.left.saturating_sub(total);
    }
}

fn to_raw(value: &Value) -> Arc<RawValue> {
    Arc::from(serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned()))
}

/// Returns the result of a call that never started because the turn stopped.
pub(crate) fn cancelled_result(reason: &str) -> CallResult {
    CallResult::from_error(ToolError::new(ErrorClass::Cancelled, format!("Not executed: {reason}")))
}
