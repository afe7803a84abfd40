//! Recall: searches the part of the session that a compaction took out of view, agents included. It reads the session's
//! own files and no index.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use gimlet_core::tool::{AgentAvailability, PathContext, PromptContext, Tool, ToolContext, ToolError, ToolResult};
use gimlet_proto::{AccessNeed, Block, ResultContent};
use gimlet_store::{SessionFiles, TranscriptItem, TranscriptItemKind, open_transcript_view};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Number of excerpts of a call that names none, and the largest that can be named.
const USUAL_LIMIT: u32 = 5;
const MOST: u32 = 20;
/// Number of words that are looked for.
const MOST_WORDS: usize = 20;
/// Number of bytes of an excerpt.
const EXCERPT: usize = 1_500;

pub(crate) struct Recall;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecallInput {
    /// Words to look for, in any order; case does not matter
    query: String,
    /// Number of excerpts, 5 unless given, at most 20
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u32>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RecallOutput {
    matches: Vec<RecallMatch>,
    /// Number of entries that were searched.
    searched: usize,
}

/// One excerpt.
#[derive(Debug, Serialize, Deserialize)]
struct RecallMatch {
    /// Whose entry it is: `user`, `assistant`, `result`, `summary` or `note`.
    from: String,
    /// Agent that it is of; none for the main conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    text: String,
    /// Number of the words that it has.
    words: usize,
}

impl Tool for Recall {
    const NAME: &'static str = "Recall";
    type Input = RecallInput;
    type Output = RecallOutput;

    fn prompt(&self, _cx: &PromptContext) -> Cow<'static, str> {
        Cow::Borrowed(include_str!("recall.md").trim_ascii_end())
    }

    fn needs(&self, _input: &RecallInput, _cx: &PathContext) -> Vec<AccessNeed> {
        vec![AccessNeed::Session]
    }

    async fn call(&self, input: RecallInput, cx: &ToolContext) -> Result<ToolResult<RecallOutput>, ToolError> {
        let words = query_words(&input.query);
        if words.is_empty() {
            return Err(ToolError::input("the query has no word to look for"));
        }
        let Some(transcript) = cx.services.transcript().map(Path::to_owned) else {
            return Err(ToolError::failed("this session keeps no transcript, so its earlier part cannot be searched"));
        };
        let limit = input.limit.unwrap_or(USUAL_LIMIT).clamp(1, MOST) as usize;
        let search = tokio::task::spawn_blocking(move || search_session(&transcript, &words, limit));
        let output = match search.await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => return Err(ToolError::failed(error)),
            Err(error) => return Err(ToolError::failed(error.to_string())),
        };
        Ok(ToolResult::new(output))
    }

    fn to_blocks(&self, output: &RecallOutput) -> ResultContent {
        if output.matches.is_empty() {
            return format!(
                "Nothing in the {} earlier entries has these words. Try fewer or other words.",
                output.searched
            )
            .into();
        }
        let text: Vec<String> = output.matches.iter().map(RecallMatch::to_text).collect();
        text.join("\n\n").into()
    }

    fn description(&self, input: &RecallInput, _cx: &PathContext) -> String {
        input.query.trim().to_owned()
    }

    fn agent_availability(&self) -> AgentAvailability {
        AgentAvailability::Always
    }

    fn is_for_compacted(&self) -> bool {
        true
    }

    fn search_hint(&self) -> &'static str {
        "search earlier conversation history before compaction memory"
    }
}

impl RecallMatch {
    fn to_text(&self) -> String {
        let agent = self.agent.as_ref().map(|agent| format!(" of agent {agent}")).unwrap_or_default();
        let at = self.at.as_ref().map(|at| format!(", {at}")).unwrap_or_default();
        format!("[{}{agent}{at}]\n{}", self.from, self.text)
    }
}

fn query_words(query: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in query.split_whitespace().map(str::to_lowercase) {
        if !words.contains(&word) && words.len() < MOST_WORDS {
            words.push(word);
        }
    }
    words
}

/// Searches everything before the last boundary of the main conversation, and all of the agents.
fn search_session(transcript: &Path, words: &[String], limit: usize) -> Result<RecallOutput, String> {
    let mut search = SessionSearch { words, limit, found: Vec::new(), searched: 0 };
    let last = search.main_entries(transcript)?;
    search.add_file(transcript, None, last)?;
    let agents: Vec<(String, PathBuf)> =
        SessionFiles::from_transcript(transcript).map(|files| files.agent_transcripts()).unwrap_or_default();
    for (agent, path) in agents {
        // An agent whose file cannot be read is left out.
        drop(search.add_file(&path, Some(&agent), usize::MAX));
    }
    Ok(RecallOutput { matches: search.found, searched: search.searched })
}

/// The best matches so far, the best first.
struct SessionSearch<'a> {
    words: &'a [String],
    limit: usize,
    found: Vec<RecallMatch>,
    searched: usize,
}

impl SessionSearch<'_> {
    /// Returns the number of entries before the last boundary.
    fn main_entries(&self, transcript: &Path) -> Result<usize, String> {
        let view = open_transcript_view(transcript).map_err(|error| error.to_string())?;
        let mut last = 0;
        for (at, item) in view.items().enumerate() {
            if item.is_ok_and(|item| item.kind == TranscriptItemKind::Compacted) {
                last = at;
            }
        }
        Ok(last)
    }

    fn add_file(&mut self, path: &Path, agent: Option<&str>, most: usize) -> Result<(), String> {
        let view = open_transcript_view(path).map_err(|error| error.to_string())?;
        for item in view.items().take(most) {
            let Ok(item) = item else { continue };
            self.searched += 1;
            self.add_item(&item, agent);
        }
        Ok(())
    }

    fn add_item(&mut self, item: &TranscriptItem, agent: Option<&str>) {
        let Some(from) = origin(item.kind) else { return };
        let texts: Vec<String> = item.blocks.iter().filter_map(block_text).collect();
        let text = texts.join("\n");
        let lower = text.to_lowercase();
        let count = self.words.iter().filter(|word| lower.contains(word.as_str())).count();
        let worst = self.found.last().filter(|_| self.found.len() == self.limit).map_or(0, |found| found.words);
        // A newer entry with as many words stands before an older one.
        if count == 0 || count < worst {
            return;
        }
        let found = RecallMatch {
            from: from.to_owned(),
            agent: agent.map(str::to_owned),
            at: item.at.clone(),
            text: excerpt(&text, &lower, self.words),
            words: count,
        };
        let at = self.found.iter().position(|other| other.words <= count).unwrap_or(self.found.len());
        self.found.insert(at, found);
        self.found.truncate(self.limit);
    }
}

fn origin(kind: TranscriptItemKind) -> Option<&'static str> {
    match kind {
        TranscriptItemKind::Prompt => Some("user"),
        TranscriptItemKind::Reply => Some("assistant"),
        TranscriptItemKind::Results => Some("result"),
        TranscriptItemKind::Summary => Some("summary"),
        TranscriptItemKind::Injected => Some("note"),
        TranscriptItemKind::Failure | TranscriptItemKind::Compacted | TranscriptItemKind::Note => None,
    }
}

fn block_text(block: &Block) -> Option<String> {
    if let Some(call) = block.as_tool_use() {
        return Some(format!("{} {}", call.name, call.input.get()));
    }
    if let Some(result) = block.as_tool_result() {
        return result.content.map(|content| result_text(content.get()));
    }
    block.as_text().map(Cow::into_owned)
}

/// Returns the text of a result: one string, or the texts of its parts.
fn result_text(json: &str) -> String {
    match serde_json::from_str(json) {
        Ok(Value::String(text)) => text,
        Ok(Value::Array(parts)) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"),
        Ok(_) | Err(_) => String::new(),
    }
}

/// Returns the part of the text around the first word that it has.
fn excerpt(text: &str, lower: &str, words: &[String]) -> String {
    if text.len() <= EXCERPT {
        return text.to_owned();
    }
    // Lower case can have another length; a place that is a little off still shows the word in most texts.
    let first = words.iter().filter_map(|word| lower.find(word.as_str())).min().unwrap_or(0).min(text.len());
    let start = text.floor_char_boundary(first.saturating_sub(EXCERPT / 3));
    let end = text.floor_char_boundary(start.saturating_add(EXCERPT).min(text.len()));
    let before = if start > 0 { "… " } else { "" };
    let after = if end < text.len() { " …" } else { "" };
    format!("{before}{}{after}", &text[start..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_around_the_first_word() {
        let text = format!("{}the Needle{}", "a ".repeat(3_000), " b".repeat(3_000));
        let found = excerpt(&text, &text.to_lowercase(), &["needle".to_owned()]);
        assert!(found.contains("the Needle") && found.starts_with('…') && found.ends_with('…'), "{found}");
        assert!(found.len() < EXCERPT + 20, "{}", found.len());
        assert_eq!(excerpt("short", "short", &["x".to_owned()]), "short");
        assert_eq!(query_words("One  two ONE"), ["one", "two"]);
    }
}
