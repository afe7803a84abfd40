//! One replacement in a text: where it applies, what the text is afterwards, and why it does not apply.

use std::path::PathBuf;

use gimlet_core::tool::ToolError;

use super::closest_match;
use super::edit_match::{self, EditMatch, EditRequest, MatchKind, NoMatch};
use super::file_edit::{ReplacementOutcome, TextReplacement};
use crate::text_file::read_state::ReadState;
use crate::text_file::{TextFile, TextSplice, normalised};

/// Lines named when a text is found too often.
const MOST_NAMED: usize = 10;

/// Makes replacements in the text of a file.
pub(super) struct TextReplacer {
    /// Path as given, for messages.
    pub(super) path: PathBuf,
    pub(super) lenient: bool,
}

impl TextReplacer {
    /// Returns the text as on disk after one replacement.
    pub(super) fn replaced(
        &self,
        file: &TextFile<'_>,
        wanted: &TextReplacement,
        before: ReadState,
    ) -> Result<(String, ReplacementOutcome), ToolError> {
        if wanted.old_string.is_empty() {
            return Ok((file.spliced(&[self.fill(file, wanted)?]), ReplacementOutcome::Filled));
        }
        let found = self.find(file.text(), wanted, before)?;
        let first_line = found.splices.first().map_or(1, |splice| edit_match::line_of(file.text(), splice.range.start));
        let applied = ReplacementOutcome::Replaced { first_line, count: found.splices.len(), note: found.how.note() };
        Ok((file.spliced(&found.splices), applied))
    }

    /// Fills a file that has nothing but whitespace.
    fn fill(&self, file: &TextFile<'_>, wanted: &TextReplacement) -> Result<TextSplice, ToolError> {
        if !file.text().trim().is_empty() {
            return Err(ToolError::input(format!(
                "{} is not empty, and an empty `old_string` is only for new or empty files. Name the text to replace, \
                 or use Write to replace the whole file.",
                self.path.display()
            )));
        }
        Ok(TextSplice { range: 0..file.text().len(), with: normalised(&wanted.new_string).into_owned() })
    }

    /// Finds the place, judged together with what the model knows of the file.
    fn find(&self, text: &str, wanted: &TextReplacement, before: ReadState) -> Result<EditMatch, ToolError> {
        let (old, new) = (normalised(&wanted.old_string), normalised(&wanted.new_string));
        let lenient = self.lenient && before != ReadState::Stale;
        let wanted = EditRequest { old: &old, new: &new, replace_all: wanted.replace_all, lenient };
        let found = edit_match::find(text, wanted);
        if before == ReadState::Stale && !is_certain(&found) {
            return Err(ToolError::failed(format!(
                "{} changed since you read it, and the edit does not fit its present content beyond doubt. Read it \
                 again, then edit.",
                self.path.display()
            )));
        }
        found.map_err(|problem| self.explain(text, wanted, problem))
    }

    fn explain(&self, text: &str, wanted: EditRequest<'_>, problem: NoMatch) -> ToolError {
        let path = self.path.display();
        match problem {
            NoMatch::Ambiguous { lines, how } => {
                let named: Vec<String> = lines.iter().take(MOST_NAMED).map(usize::to_string).collect();
                let more = if lines.len() > MOST_NAMED { " and more" } else { "" };
                let alike =
                    if how == MatchKind::Typography { " but for the form of quotes, dashes or spaces" } else { "" };
                ToolError::failed(format!(
                    "`old_string` is found {} times in {path}{alike}, on lines {}{more}. Add lines around it until it is \
                     unique, or set `replace_all`.",
                    lines.len(),
                    named.join(", ")
                ))
            }
            NoMatch::Missing => {
                let mut message = format!("`old_string` was not found in {path}; nothing was changed.");
                if !wanted.new.trim().is_empty() && text.contains(wanted.new) {
                    message.push_str(" `new_string` is there already: the edit may have been made before.");
                }
                if let Some(closest) = closest_match::describe(text, wanted.old) {
                    message.push(' ');
                    message.push_str(&closest);
                }
                ToolError::failed(message)
            }
        }
    }
}

/// Returns true for an exact match at a single place: nothing else is safe on a file that changed since the model read
/// it.
fn is_certain(found: &Result<EditMatch, NoMatch>) -> bool {
    found.as_ref().is_ok_and(|found| found.how == MatchKind::Exact && found.splices.len() == 1)
}
