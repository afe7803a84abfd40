//! Replacing text in one file: all of the replacements or none, each on what the one before it left, and one write.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_core::files::{ContentHash, Stamp, hash_beside};
use gimlet_core::tool::{PathContext, ToolContext, ToolError};
use gimlet_core::{Recorded, Services, SessionState};
use gimlet_proto::DiffHunk;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::closest;
use super::matching::{self, Found, How, NoMatch, Wanted};
use crate::diff;
use crate::text_file::open::{Loaded, load_for_change};
use crate::text_file::standing::{self, Memory, Standing};
use crate::text_file::{Encoding, Splice, TextFile, file_path, lock, normalised, replace};

/// Lines named when a text is found too often.
const MOST_NAMED: usize = 10;

/// One text for another.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Replacement {
    /// The text to replace
    pub(crate) old_string: String,
    /// What to put there
    pub(crate) new_string: String,
    /// Replace every occurrence
    #[serde(default)]
    pub(crate) replace_all: bool,
}

/// What one replacement did.
pub(crate) enum Applied {
    Created,
    Filled,
    Replaced { first_line: usize, count: usize, note: Option<&'static str> },
}

impl Applied {
    /// In a sentence of its own.
    pub(crate) fn report(&self, path: &str) -> String {
        match self {
            Applied::Created => format!("Created {path}."),
            Applied::Filled => format!("Filled {path}, which was empty."),
            Applied::Replaced { first_line, count: 1, .. } => {
                self.noted(format!("Edited {path} at line {first_line}."))
            }
            Applied::Replaced { count, .. } => self.noted(format!("Edited {path}: {count} replacements.")),
        }
    }

    /// In a list of several for the same file.
    pub(crate) fn item(&self) -> String {
        match self {
            Applied::Created => "created the file.".to_owned(),
            Applied::Filled => "filled the file, which was empty.".to_owned(),
            Applied::Replaced { first_line, count: 1, .. } => self.noted(format!("line {first_line}.")),
            Applied::Replaced { count, .. } => self.noted(format!("{count} replacements.")),
        }
    }

    fn noted(&self, mut text: String) -> String {
        if let Applied::Replaced { note: Some(note), .. } = self {
            text.push(' ');
            text.push_str(note);
        }
        text
    }
}

/// A change that was made.
pub(crate) struct Made {
    /// As spelled, for people and programs.
    pub(crate) path: String,
    pub(crate) original: Option<String>,
    pub(crate) patch: Vec<DiffHunk>,
    /// One for each replacement.
    pub(crate) applied: Vec<Applied>,
    /// What else is to be said about the file.
    pub(crate) remarks: Vec<&'static str>,
    known: Known,
}

/// What the conversation knows of the file now.
struct Known {
    target: PathBuf,
    stamp: Stamp,
    /// What the model knew before.
    before: Standing,
}

impl Made {
    /// What it tells the model with these words at the beginning.
    pub(crate) fn report(&self, mut text: String, amended: bool) -> String {
        let amended = amended.then(|| diff::amended(&self.patch));
        for remark in self.remarks.iter().copied().chain(amended.as_deref()) {
            text.push(' ');
            text.push_str(remark);
        }
        text
    }

    /// Notes what the conversation knows of the file now.
    pub(crate) fn change(&self) -> impl FnOnce(&mut SessionState) + Send + 'static {
        let Known { target, stamp, before } = &self.known;
        let (target, stamp, before) = (target.clone(), *stamp, *before);
        move |session| standing::record(&mut session.files, target, stamp, before)
    }
}

/// Makes the replacements, of which there is at least one.
pub(crate) async fn make(file: &str, wanted: Vec<Replacement>, cx: &ToolContext) -> Result<Made, ToolError> {
    let path = cx.paths.expand(Path::new(file));
    let target = cx.target(&path).to_owned();
    if crate::special::is_special(&target) {
        return Err(ToolError::failed(crate::special::special_text(&target.display().to_string())));
    }
    let held = lock::acquire(&cx.services, &target).await;
    let job = Job {
        memory: Memory::of(&target, cx),
        services: cx.services.clone(),
        recorded: cx.recorded(),
        lenient: cx.services.env.flag("GIMLET_EDIT_LENIENT"),
        reads_unasked: cx.reads_unasked(&target),
        paths: cx.paths.clone(),
        path,
        target,
        wanted,
    };
    // The lock moves along: it is held until the file is done, even if nobody waits for the result any more.
    let running = tokio::task::spawn_blocking(move || {
        let result = job.run();
        drop(held);
        result
    });
    running.await.unwrap_or_else(|error| Err(ToolError::failed(format!("The edit ended abnormally: {error}"))))
}

/// A change, ready to run on a thread that may block.
struct Job {
    memory: Memory,
    services: Arc<Services>,
    recorded: Recorded,
    lenient: bool,
    /// The model may look at the file whenever it wants to.
    reads_unasked: bool,
    paths: PathContext,
    /// As spelled, for people and programs.
    path: PathBuf,
    /// What the gate judged: the file that is written.
    target: PathBuf,
    wanted: Vec<Replacement>,
}

impl Job {
    fn run(self) -> Result<Made, ToolError> {
        match load_for_change(&self.target, &self.services.env)? {
            None => self.create(),
            Some(old) => self.change(&old),
        }
    }

    fn create(self) -> Result<Made, ToolError> {
        let Some((first, rest)) = self.wanted.split_first().filter(|(first, _)| first.old_string.is_empty()) else {
            return Err(ToolError::failed(file_path::missing_text(&self.path, &self.paths)));
        };
        let mut applied = vec![Applied::Created];
        let content = self.apply(rest, first.new_string.clone(), Encoding::Utf8, Standing::Whole, &mut applied)?;
        self.services.before_change(&self.target, None);
        let metadata = replace::create(&self.target, content.as_bytes(), &self.recorded)?;
        self.services.after_change(&self.target, None, Some(content.as_bytes()));
        let known =
            Known { stamp: Stamp::of(content.as_bytes(), &metadata), before: Standing::Whole, target: self.target };
        let path = self.path.display().to_string();
        Ok(Made { path, original: None, patch: diff::hunks("", &content), applied, remarks: Vec::new(), known })
    }

    fn change(self, old: &Loaded) -> Result<Made, ToolError> {
        let path = self.path.display().to_string();
        let (hash, file) = hash_beside(&old.bytes, || TextFile::decode(&old.bytes));
        let file = file.map_err(|error| {
            ToolError::failed(format!("{path} cannot be edited: {error}. Convert its encoding first."))
        })?;
        let (first, rest) = self.wanted.split_first().ok_or_else(|| ToolError::input("There is nothing to edit."))?;
        let before = if first.old_string.is_empty() { Standing::Whole } else { self.standing(&hash, file.text())? };
        let (raw, done) = self.replaced(&file, first, before).map_err(|error| self.numbered(0, error))?;
        let mut applied = vec![done];
        let raw = self.apply(rest, raw, file.encoding(), before, &mut applied)?;
        let bytes = file.encoding().encode(&raw);
        let mut remarks = Vec::new();
        if before == Standing::Stale {
            remarks.push("The file had other changes since you read it; they are kept.");
        }
        let stamp = if bytes == old.bytes {
            remarks.push("The file already had that text; nothing changed.");
            Stamp::new(hash, &old.metadata)
        } else {
            self.services.before_change(&self.target, Some((&old.bytes, old.metadata.mode())));
            let backups = self.services.results_dir.join("backups");
            let replace = || replace::replace(&self.target, old, &bytes, &backups, &self.recorded);
            let (hash, metadata) = hash_beside(&bytes, replace);
            let stamp = Stamp::new(hash, &metadata?);
            self.services.after_change(&self.target, Some(&old.bytes), Some(&bytes));
            stamp
        };
        let (patch, original) = (diff::hunks(file.raw(), &raw), diff::original(file.raw()));
        let known = Known { target: self.target, stamp, before };
        Ok(Made { path, original, patch, applied, remarks, known })
    }

    /// Applies what comes after the first replacement, one after the other.
    fn apply(
        &self,
        rest: &[Replacement],
        mut raw: String,
        encoding: Encoding,
        before: Standing,
        applied: &mut Vec<Applied>,
    ) -> Result<String, ToolError> {
        for wanted in rest {
            let file = TextFile::new(encoding, raw.as_str().into());
            let (next, done) =
                self.replaced(&file, wanted, before).map_err(|error| self.numbered(applied.len(), error))?;
            raw = next;
            applied.push(done);
        }
        Ok(raw)
    }

    /// Says which of several replacements an error is about, and that none of them was made.
    fn numbered(&self, index: usize, mut error: ToolError) -> ToolError {
        if self.wanted.len() > 1 {
            let (number, all) = (index + 1, self.wanted.len());
            error.model_text = format!("Edit {number} of {all}: {} None of the edits was made.", error.model_text);
        }
        error
    }

    /// What the model knows of the file, if that is enough to edit it.
    fn standing(&self, hash: &ContentHash, text: &str) -> Result<Standing, ToolError> {
        let path = self.path.display();
        let before = self.memory.judge(hash, text);
        let is_unread = before == Standing::Unread && !self.memory.is_trusted();
        if is_unread || before == Standing::FirstPage {
            return Err(ToolError::failed(format!(
                "{path} has not been read, or only its first page. Read it, or the region around the change \
                 (`offset` and `limit`), then edit."
            )));
        }
        if before == Standing::Stale && !self.reads_unasked {
            return Err(ToolError::failed(format!(
                "{path} changed since you read it, and its present content may not be looked at unasked. Read it again, \
                 then edit."
            )));
        }
        Ok(before)
    }

    /// The text as on disk after one replacement.
    fn replaced(
        &self,
        file: &TextFile<'_>,
        wanted: &Replacement,
        before: Standing,
    ) -> Result<(String, Applied), ToolError> {
        if wanted.old_string.is_empty() {
            return Ok((file.spliced(&[self.fill(file, wanted)?]), Applied::Filled));
        }
        let found = self.find(file.text(), wanted, before)?;
        let first_line = found.splices.first().map_or(1, |splice| matching::line_of(file.text(), splice.range.start));
        let applied = Applied::Replaced { first_line, count: found.splices.len(), note: found.how.note() };
        Ok((file.spliced(&found.splices), applied))
    }

    /// Fills a file that has nothing but blanks.
    fn fill(&self, file: &TextFile<'_>, wanted: &Replacement) -> Result<Splice, ToolError> {
        if !file.text().trim().is_empty() {
            return Err(ToolError::input(format!(
                "{} is not empty, and an empty `old_string` is only for new or empty files. Name the text to replace, \
                 or use Write to replace the whole file.",
                self.path.display()
            )));
        }
        Ok(Splice { range: 0..file.text().len(), with: normalised(&wanted.new_string).into_owned() })
    }

    /// Finds the place, judged together with what the model knows of the file.
    fn find(&self, text: &str, wanted: &Replacement, before: Standing) -> Result<Found, ToolError> {
        let (old, new) = (normalised(&wanted.old_string), normalised(&wanted.new_string));
        let lenient = self.lenient && before != Standing::Stale;
        let wanted = Wanted { old: &old, new: &new, replace_all: wanted.replace_all, lenient };
        let found = matching::find(text, wanted);
        if before == Standing::Stale && !is_certain(&found) {
            return Err(ToolError::failed(format!(
                "{} changed since you read it, and the edit does not fit its present content beyond doubt. Read it \
                 again, then edit.",
                self.path.display()
            )));
        }
        found.map_err(|problem| self.explain(text, wanted, problem))
    }

    fn explain(&self, text: &str, wanted: Wanted<'_>, problem: NoMatch) -> ToolError {
        let path = self.path.display();
        match problem {
            NoMatch::Ambiguous { lines, how } => {
                let named: Vec<String> = lines.iter().take(MOST_NAMED).map(usize::to_string).collect();
                let more = if lines.len() > MOST_NAMED { " and more" } else { "" };
                let alike = if how == How::Typography { " but for the form of quotes, dashes or spaces" } else { "" };
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
                if let Some(closest) = closest::describe(text, wanted.old) {
                    message.push(' ');
                    message.push_str(&closest);
                }
                ToolError::failed(message)
            }
        }
    }
}

/// On a file with other content than the model saw, only an exact match at a single place is safe.
fn is_certain(found: &Result<Found, NoMatch>) -> bool {
    found.as_ref().is_ok_and(|found| found.how == How::Exact && found.splices.len() == 1)
}
