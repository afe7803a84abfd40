//! WordCount: counts the lines, words and characters of a text file. It reads that one file and changes nothing.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use gimlet_core::tool::{PathContext, PromptContext, Tool, ToolContext, ToolError, ToolResult};
use gimlet_proto::{AccessNeed, ResultContent, View};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Larger files are refused: a call must end soon and the file is read as a whole.
const MOST_BYTES: u64 = 16 << 20;

pub(crate) struct WordCount;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WordCountInput {
    /// Path of the text file.
    file_path: PathBuf,
    /// Count only words with at least this many characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    min_length: Option<u32>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WordCountOutput {
    file_path: String,
    lines: usize,
    words: usize,
    characters: usize,
}

impl Tool for WordCount {
    const NAME: &'static str = "WordCount";
    type Input = WordCountInput;
    type Output = WordCountOutput;

    fn prompt(&self, _cx: &PromptContext) -> Cow<'static, str> {
        "Counts the lines, words and characters of a UTF-8 text file of up to 16 MB.".into()
    }

    fn backfill_observable_input(&self, input: &mut WordCountInput, cx: &PathContext) {
        input.file_path = cx.expand_path(&input.file_path);
    }

    fn needs(&self, input: &WordCountInput, cx: &PathContext) -> Vec<AccessNeed> {
        vec![AccessNeed::Read(cx.expand_path(&input.file_path))]
    }

    fn key_repairs(&self) -> &'static [(&'static str, &'static str)] {
        &[("path", "file_path")]
    }

    async fn call(&self, input: WordCountInput, cx: &ToolContext) -> Result<ToolResult<WordCountOutput>, ToolError> {
        let target = cx.resolved_path(&input.file_path).to_owned();
        let reading = tokio::task::spawn_blocking(move || read_text(&target));
        let text = match reading.await {
            Ok(text) => text?,
            Err(error) => return Err(ToolError::failed(format!("The count ended abnormally: {error}"))),
        };
        Ok(ToolResult::new(count(&text, &input)))
    }

    fn to_blocks(&self, output: &WordCountOutput) -> ResultContent {
        let WordCountOutput { file_path, lines, words, characters } = output;
        format!("{file_path}: {lines} lines, {words} words, {characters} characters").into()
    }

    fn view(&self, _input: &WordCountInput, output: &WordCountOutput) -> View {
        let row = [output.lines, output.words, output.characters].map(|number| number.to_string());
        View::Table { head: ["lines", "words", "characters"].map(str::to_owned).to_vec(), rows: vec![row.to_vec()] }
    }
}

/// Reads a whole file, or says what the model should do instead.
fn read_text(path: &Path) -> Result<String, ToolError> {
    let shown = path.display();
    let metadata = path.metadata().map_err(|error| {
        ToolError::failed(format!("{shown} cannot be read: {error}. Find the right path with Glob."))
    })?;
    if !metadata.is_file() {
        return Err(ToolError::failed(format!("{shown} is not a regular file. Name a text file.")));
    }
    if metadata.len() > MOST_BYTES {
        return Err(ToolError::failed(format!("{shown} is larger than 16 MB. Use a shell command such as `wc`.")));
    }
    let bytes = std::fs::read(path).map_err(|error| ToolError::failed(format!("{shown} cannot be read: {error}")))?;
    String::from_utf8(bytes).map_err(|_| ToolError::failed(format!("{shown} is not UTF-8 text; it has no words.")))
}

fn count(text: &str, input: &WordCountInput) -> WordCountOutput {
    let least = input.min_length.unwrap_or(0) as usize;
    WordCountOutput {
        file_path: input.file_path.display().to_string(),
        lines: text.lines().count(),
        words: text.split_whitespace().filter(|word| word.chars().count() >= least).count(),
        characters: text.chars().count(),
    }
}

#[cfg(test)]
#[path = "word_count_tests.rs"]
mod tests;
