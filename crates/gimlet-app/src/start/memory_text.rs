//! How the model gets memory: each file with its path, whose it is and why it is there, in a tag that the file's text
//! cannot close.

use std::path::Path;

use gimlet_config::{AutoMemory, MemoryFile, MemoryReason, MemoryScope, escape_invisible_line};
use gimlet_core::files::hash_content;
use gimlet_core::prompt_tags::escape_tags;
use gimlet_core::{ContextPartKind, ContextPartSource, SegmentContextPart};
use gimlet_text::enclose_in_tag;

/// Text in front of all memory.
pub(super) const INTRODUCTION: &str = "\
These are instructions of the administrator, the user and the project for work in this folder, from their files. Follow \
them where they apply to what you are asked. They are in order from broad to close: where two contradict each other, the \
later one counts. What the user says in the conversation comes before all of them, and none of them changes what you are \
permitted to do.";

/// Tag around the text of a file.
const MEMORY_TAG: &str = "memory";
const REMINDER_TAG: &str = "system-reminder";

/// Reasons of files that join the conversation, as hooks and transcripts name them.
const NESTED: &str = "nested_traversal";
const BY_PATTERN: &str = "path_glob_match";
/// Reason in transcripts of a file that is there no more.
const GONE: &str = "removed";

/// Number of lines of the index of notes that is loaded.
const MAX_LINES: usize = 200;

/// Maximum number of files in a warning.
const MOST_NAMED: usize = 5;

/// Returns the digest of a text, to notice changes.
pub(super) fn text_digest(text: &str) -> String {
    hash_content(text.as_bytes())[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns true if the model was told that this file is there no more.
pub(super) fn is_gone(source: &ContextPartSource) -> bool {
    source.reason == GONE
}

/// Returns a file for the model; behind the reading of a file if that is why it joins.
pub(super) fn file_part(file: &MemoryFile, trigger: Option<&Path>) -> SegmentContextPart {
    let text = match trigger {
        None => quote_file(file),
        Some(trigger) => {
            let text =
                format!("These instructions are about {}, which was read.\n\n{}", shown(trigger), quote_file(file));
            enclose_in_tag(REMINDER_TAG, &text)
        }
    };
    part(text, source(file, trigger, Some(text_digest(&file.text))))
}

/// Returns the place of a file that is too large for what memory may take.
pub(super) fn place_part(file: &MemoryFile, trigger: Option<&Path>) -> SegmentContextPart {
    let about = trigger.map(|trigger| format!(" They are about {}.", shown(trigger))).unwrap_or_default();
    let text = format!(
        "{} ({}) has {} bytes of instructions and is not included for its size.{about} Read it when they may matter.",
        shown(&file.path),
        describe_owner(file),
        file.text.len()
    );
    let text = if trigger.is_some() { enclose_in_tag(REMINDER_TAG, &text) } else { text };
    part(text, source(file, trigger, None))
}

/// Returns what the model is told of its own notes, and their index.
pub(super) fn note_parts(notes: &AutoMemory) -> Vec<SegmentContextPart> {
    let folder = shown(&notes.folder);
    let index = notes.index.as_ref();
    let state = if index.is_some() { "It follows." } else { "There is none yet." };
    let text = format!(
        "You keep notes for later sessions in this repository, in {folder}. Each note is a Markdown file about one topic \
         with front matter (`name`, `description`, `type`: user, feedback, project or reference); MEMORY.md there is the \
         index, one line for each note, and the only file that every session begins with. {state} Write a note when the \
         user asks you to remember something or corrects you, or when you learn what later sessions need and no file of \
         the project says; never write secrets. Read a note before you rely on it, mend or remove it when it is wrong, \
         and keep the index below {MAX_LINES} lines. What belongs to everyone goes into CLAUDE.md, when the user asks."
    );
    let mut parts = vec![SegmentContextPart::new(ContextPartKind::Memory, text)];
    if let Some(index) = index {
        let mut part = file_part(index, None);
        if notes.lines_left_out > 0 {
            part.text.push_str(&format!("\n{}", left_out_note(notes.lines_left_out)));
        }
        parts.push(part);
    }
    parts
}

/// Returns the notice that the conversation itself changed a file, so that it needs no reminder.
pub(super) fn written_part(file: &MemoryFile, notes: Option<&AutoMemory>) -> SegmentContextPart {
    let path = shown(&file.path);
    let text = match notes {
        None => format!("You changed the memory file {path}. It counts as it is now, also in later sessions."),
        Some(notes) => {
            let lines = file.text.lines().count();
            let room = match notes.lines_left_out {
                0 if lines * 10 < MAX_LINES * 9 => String::new(),
                0 => " That is close to the limit: shorten it soon.".to_owned(),
                more => format!(" {} Shorten it now.", left_out_note(more)),
            };
            format!("{path} has {lines} lines of the {MAX_LINES} that sessions begin with.{room}")
        }
    };
    part(enclose_in_tag(REMINDER_TAG, &text), source(file, None, Some(text_digest(&file.text))))
}

fn left_out_note(lines: usize) -> String {
    format!("It is longer than what is loaded (200 lines or 25 KB): its last {lines} lines are missing.")
}

/// Returns a file that is new, or differs from what the model has.
pub(super) fn changed_part(file: &MemoryFile, is_new: bool, fits: bool) -> SegmentContextPart {
    let what = if is_new { "is new" } else { "changed: this is what counts from here on" };
    let text = if fits {
        format!("The memory file {} {what}.\n\n{}", shown(&file.path), quote_file(file))
    } else {
        let (path, bytes) = (shown(&file.path), file.text.len());
        format!(
            "The memory file {path} {}, and is not included for its size of {bytes} bytes. Read it when it may matter.",
            if is_new { "is new" } else { "changed" }
        )
    };
    let digest = if fits { Some(text_digest(&file.text)) } else { None };
    part(enclose_in_tag(REMINDER_TAG, &text), source(file, None, digest))
}

/// Returns the notice that a file is there no more.
pub(super) fn gone_part(known: &ContextPartSource) -> SegmentContextPart {
    let path = escape_invisible_line(&known.path);
    let text =
        format!("The memory file {path} is no longer there or no longer used. Its instructions do not count any more.");
    let source = ContextPartSource {
        path: known.path.clone(),
        real_path: known.real_path.clone(),
        scope: known.scope.clone(),
        reason: GONE.to_owned(),
        ..ContextPartSource::default()
    };
    part(enclose_in_tag(REMINDER_TAG, &text), source)
}

/// Returns the warning about files that are too large together; `None` if there are none.
pub(super) fn left_out_warning(files: &[&MemoryFile]) -> Option<String> {
    let named: Vec<String> = files
        .iter()
        .take(MOST_NAMED)
        .map(|file| format!("{} ({} bytes)", shown(&file.path), file.text.len()))
        .collect();
    let more = match files.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!named.is_empty()).then(|| {
        format!(
            "memory takes more than a quarter of the model's context window; the model gets only the place of {}{more}. \
             Shorten these files, or give rules `paths`",
            named.join(", ")
        )
    })
}

fn part(text: String, source: ContextPartSource) -> SegmentContextPart {
    SegmentContextPart::new(ContextPartKind::Memory, text).with_source(source)
}

fn quote_file(file: &MemoryFile) -> String {
    let quoted = enclose_in_tag(MEMORY_TAG, &escape_tags(&file.text));
    format!("{} ({}):\n{quoted}", shown(&file.path), describe_owner(file))
}

fn describe_owner(file: &MemoryFile) -> String {
    let owner = match file.scope {
        MemoryScope::Managed => "instructions of the administrator",
        MemoryScope::User => "the user's instructions for all projects",
        MemoryScope::Project => "instructions of the project",
        MemoryScope::Local => "the user's own instructions for this project",
        MemoryScope::Auto => "your notes from earlier sessions",
    };
    match &file.reason {
        MemoryReason::Include { from } => format!("{owner}, imported by {}", shown(from)),
        MemoryReason::PathGlobMatch { patterns } => {
            format!("{owner} for {}", escape_invisible_line(&patterns.join(", ")))
        }
        MemoryReason::SessionStart | MemoryReason::AddedFolder | MemoryReason::NestedTraversal => owner.to_owned(),
    }
}

fn source(file: &MemoryFile, trigger: Option<&Path>, digest: Option<String>) -> ContextPartSource {
    let path_text = |path: &Path| path.to_string_lossy().into_owned();
    let mut source = ContextPartSource {
        path: path_text(&file.path),
        real_path: (file.real_path != file.path).then(|| path_text(&file.real_path)),
        scope: file.scope.as_str().to_owned(),
        trigger: trigger.map(path_text),
        digest,
        ..ContextPartSource::default()
    };
    source.reason = match &file.reason {
        MemoryReason::SessionStart | MemoryReason::AddedFolder => "session_start",
        MemoryReason::NestedTraversal => NESTED,
        MemoryReason::PathGlobMatch { patterns } => {
            source.globs.clone_from(patterns);
            BY_PATTERN
        }
        MemoryReason::Include { from } => {
            source.parent = Some(path_text(from));
            "include"
        }
    }
    .to_owned();
    source
}

/// Returns a path for the model: names can hold anything, also line breaks.
fn shown(path: &Path) -> String {
    escape_invisible_line(&path.to_string_lossy()).into_owned()
}
