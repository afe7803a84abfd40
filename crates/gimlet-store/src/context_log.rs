//! What stood in front of a session's conversation and what joined it, turn by turn, as its transcript says.

use std::io;
use std::path::Path;

use gimlet_proto::Block;
use memchr::memmem;
use serde::Deserialize;

use crate::entry_format::CONTEXT_PART;
use crate::line_reader::LineReader;
use crate::segment_context::{ContextPartLabel, SegmentContextPart};

/// Context of one turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnContext {
    /// First line of the prompt; `None` for what came before the first one.
    pub prompt: Option<String>,
    /// Parts in front of a segment that this turn opened. All of them are in front of later turns, too.
    pub opening: Option<Vec<SegmentContextPart>>,
    /// Parts that joined in this turn and stay in the conversation.
    pub joined: Vec<SegmentContextPart>,
}

/// Reads the context of every turn. Branches that were left later are among them. Lines that cannot be read are passed
/// over.
pub fn read_context_log(path: &Path) -> io::Result<Vec<TurnContext>> {
    let mut lines = LineReader::new(crate::disk::open_regular(path)?);
    let mut log = ContextLog::default();
    while let Some(line) = lines.next_line()? {
        log.add_line(line.bytes);
    }
    Ok(log.finish())
}

#[derive(Default)]
struct ContextLog {
    turns: Vec<TurnContext>,
    /// True once the model has answered the last prompt.
    is_answered: bool,
    /// Opening of a segment whose prompt is not written yet.
    waiting: Option<Vec<SegmentContextPart>>,
}

#[derive(Deserialize)]
struct FrozenLine {
    #[serde(default)]
    context: Vec<SegmentContextPart>,
}

#[derive(Deserialize)]
struct UserLine {
    message: UserMessage,
    #[serde(default, rename = "gimletContext")]
    context: Option<ContextPartLabel>,
    #[serde(default, rename = "isMeta")]
    is_meta: bool,
    #[serde(default, rename = "isCompactSummary")]
    is_summary: bool,
}

#[derive(Deserialize)]
struct UserMessage {
    content: serde_json::Value,
}

impl ContextLog {
    fn add_line(&mut self, line: &[u8]) {
        let has = |text: &str| memmem::find(line, text.as_bytes()).is_some();
        if has(r#""type":"assistant""#) {
            self.is_answered = true;
        } else if has(r#""type":"gimlet-frozen""#) {
            let Ok(FrozenLine { context }) = serde_json::from_slice(line) else { return };
            match self.turns.last_mut().filter(|_| !self.is_answered) {
                Some(turn) => turn.opening = Some(context),
                None => self.waiting = Some(context),
            }
        } else if has(r#""type":"user""#) && (has(CONTEXT_PART) || !has(r#""isMeta":true"#)) {
            let Ok(line) = serde_json::from_slice::<UserLine>(line) else { return };
            self.add_user_line(line);
        }
    }

    fn add_user_line(&mut self, line: UserLine) {
        let Some(text) = first_text(&line.message.content) else { return };
        if let Some(ContextPartLabel { kind, source }) = line.context {
            let part = SegmentContextPart { kind, text, source };
            match self.turns.last_mut() {
                Some(turn) => turn.joined.push(part),
                None => self.turns.push(TurnContext { joined: vec![part], ..TurnContext::default() }),
            }
        } else if !line.is_meta && !line.is_summary {
            let prompt = Some(crate::entry_format::to_one_line(&text));
            self.turns.push(TurnContext { prompt, opening: self.waiting.take(), joined: Vec::new() });
            self.is_answered = false;
        }
    }

    fn finish(mut self) -> Vec<TurnContext> {
        if let (Some(opening), Some(turn)) = (self.waiting.take(), self.turns.last_mut()) {
            turn.opening = Some(opening);
        }
        self.turns
    }
}

/// Returns the first text of a message; `None` for one that holds results of calls.
fn first_text(content: &serde_json::Value) -> Option<String> {
    if let Some(text) = content.as_str() {
        return Some(text.to_owned());
    }
    let blocks = content.as_array()?;
    if blocks.iter().any(|block| block["type"] == "tool_result") {
        return None;
    }
    let block = blocks.iter().find(|block| block["type"] == "text")?;
    Block::from_json(&block.to_string()).ok()?.as_text().map(std::borrow::Cow::into_owned)
}
