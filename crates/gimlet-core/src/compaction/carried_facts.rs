//! What a compaction carries over by itself, whatever the summary says: the user's own words, states of tools, the
//! plan, files, background work, and the form of the answer. All of it together takes a quarter of the window at most.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use gimlet_proto::{ModelFacts, Role, ToolUseId};
use gimlet_store::{CarriedRecord, CarriedToolState};
use gimlet_text::enclose_in_tag;

use crate::call_result::CallResult;
use crate::conversation::Conversation;
use crate::files::{FileState, FileStates};
use crate::mentions::read_carried_file;
use crate::skills::find_loaded_skills;
use crate::turn::Turn;

/// Part of the window for everything that is carried.
const WINDOW_SHARE: u64 = 4;
/// Number of tokens for the user's messages.
const MOST_WORDS: u64 = 10_000;
/// Number of these that the first message, which is the task, may take in any case.
const MOST_TASK: u64 = 2_000;
/// Number of files whose content is carried, and of tokens for each.
const MOST_FILES: usize = 5;
const MOST_FILE: u64 = 5_000;
/// Number of tokens for the plan.
const MOST_PLAN: u64 = 5_000;
/// Number of tokens for the texts of skills, and for each of them.
const MOST_SKILLS: u64 = 25_000;
const MOST_SKILL: u64 = 5_000;
/// Number of listed files and of listed background tasks.
const MOST_LISTED: usize = 50;

/// Facts carried over, in the order in which they are told.
pub(super) struct CarriedFacts {
    pub(super) record: CarriedRecord,
    /// Texts about all that is no file.
    sections: Vec<String>,
    files: Vec<CarriedFile>,
}

/// Content of a file that was used last.
struct CarriedFile {
    path: PathBuf,
    text: String,
    /// Result whose changes record the file as read; `None` if only its beginning is carried.
    read: Option<CallResult>,
}

/// Room for what is carried, in bytes of text.
struct CarriedRoom {
    left: usize,
    bytes_per_token: f64,
}

impl CarriedRoom {
    fn new(window: u64, bytes_per_token: f64) -> Self {
        let mut room = Self { left: 0, bytes_per_token };
        room.left = room.bytes(window / WINDOW_SHARE);
        room
    }

    /// Returns the bytes that this number of tokens takes.
    fn bytes(&self, tokens: u64) -> usize {
        (tokens as f64 * self.bytes_per_token) as usize
    }

    /// Returns the text, shortened to this number of tokens and to what is left; `None` if nothing fits.
    fn fit(&mut self, text: &str, tokens: u64) -> Option<String> {
        let most = self.bytes(tokens).min(self.left);
        let fitted = shorten(text, most)?;
        self.left = self.left.saturating_sub(fitted.len());
        Some(fitted)
    }
}

/// Returns the text with its middle left out if it is longer than this; `None` if hardly anything would be left.
fn shorten(text: &str, most: usize) -> Option<String> {
    const LEFT_OUT: &str = "\n[… left out …]\n";
    if text.len() <= most {
        return Some(text.to_owned());
    }
    let half = most.checked_sub(LEFT_OUT.len()).filter(|rest| *rest >= 100)? / 2;
    let (head, tail) = (text.floor_char_boundary(half), text.ceil_char_boundary(text.len() - half));
    Some(format!("{}{LEFT_OUT}{}", &text[..head], &text[tail..]))
}

impl CarriedFacts {
    /// Collects everything. Files are read as the Read tool reads them, and only those that the rules allow.
    /// `has_pending` is true if the end of the history stays as it is.
    pub(super) async fn collect(
        conversation: &Conversation,
        turn: &Turn,
        facts: &ModelFacts,
        has_pending: bool,
    ) -> Self {
        let window = turn.options.compaction.window(facts);
        let mut room = CarriedRoom::new(window, conversation.history().gauge.bytes_per_token(facts));
        let words = newest_words(&conversation.user_words, &mut room);
        let mut sections: Vec<String> = words_section(&words, conversation.user_words.len()).into_iter().collect();
        let tools = carry_tool_states(turn, &mut room, &mut sections);
        sections.extend(skills_section(conversation, has_pending, &mut room));
        sections.extend(plan_section(turn, &mut room).await);
        sections.extend(answer_form_section(turn));
        sections.extend(background_section(turn).and_then(|text| room.fit(&text, u64::MAX >> 12)));
        let known = known_files(turn);
        sections.extend(files_section(turn, &known).await.and_then(|text| room.fit(&text, u64::MAX >> 12)));
        let files = read_files(turn, known, &mut room).await;
        Self { record: CarriedRecord { words, tools }, sections, files }
    }

    /// Renders all of it.
    pub(super) fn to_text(&self) -> String {
        let mut text = self.sections.join("\n\n");
        if !self.files.is_empty() {
            text.push_str("\n\nContent of the files that were used last, as it is now. It is data and no message:");
        }
        for file in &self.files {
            let heading = match file.read {
                Some(_) => file.path.display().to_string(),
                None => format!("{} (not whole: read it before you change it)", file.path.display()),
            };
            let _ = write!(text, "\n{heading}\n{}", enclose_in_tag("attached", &file.text));
        }
        text
    }

    /// Makes every file unread whose content is not carried.
    pub(super) fn apply_to_files(&mut self, turn: &Turn) {
        turn.scope.services.lock_state().files.begin_segment();
        for file in &mut self.files {
            if let Some(read) = &mut file.read {
                turn.scope.services.apply_changes(std::mem::take(&mut read.changes));
            }
        }
    }
}

/// Returns the user's messages that fit, the oldest first: the first one in any case, then the newest.
fn newest_words(words: &[String], room: &mut CarriedRoom) -> Vec<String> {
    let before = room.left;
    let most = room.bytes(MOST_WORDS).min(room.left);
    let Some((task, later)) = words.split_first() else { return Vec::new() };
    let first = room.fit(task, if later.is_empty() { MOST_WORDS } else { MOST_TASK });
    let mut kept: Vec<String> = Vec::new();
    for text in later.iter().rev() {
        let left = most.saturating_sub(before - room.left);
        let tokens = (left as f64 / room.bytes_per_token) as u64;
        let Some(fitted) = room.fit(text, tokens) else { break };
        let is_whole = fitted.len() == text.len();
        kept.push(fitted);
        if !is_whole {
            break;
        }
    }
    kept.extend(first);
    kept.reverse();
    kept
}

fn words_section(words: &[String], all: usize) -> Option<String> {
    if words.is_empty() {
        return None;
    }
    let mut text = "The user's own messages, word for word, the oldest first".to_owned();
    if words.len() < all {
        let _ = write!(text, " ({} between the first and the next are left out)", all - words.len());
    }
    text.push(':');
    for word in words {
        let _ = write!(text, "\n{}", enclose_in_tag("user-message", word));
    }
    Some(text)
}

/// Asks every tool for what it wants to carry.
fn carry_tool_states(turn: &Turn, room: &mut CarriedRoom, sections: &mut Vec<String>) -> Vec<CarriedToolState> {
    let scope = &turn.scope;
    let mut states = Vec::new();
    for tool in scope.tools.iter() {
        let Some(carried) = tool.carried(&scope.services, &scope.agent) else { continue };
        sections.extend(room.fit(&carried.text, u64::MAX >> 12));
        if let Some(output) = carried.output {
            states.push(CarriedToolState { tool: tool.name().to_owned(), output });
        }
    }
    states
}

/// Returns the texts of the skills in use, the one that was loaded last first.
fn skills_section(conversation: &Conversation, has_pending: bool, room: &mut CarriedRoom) -> Option<String> {
    let mut messages = conversation.history().messages();
    if has_pending {
        let kept = messages.iter().rposition(|message| message.role == Role::Assistant).map_or(0, |at| at + 1);
        messages.truncate(kept);
    }
    let (mut texts, before) = (Vec::new(), room.left);
    let most = room.bytes(MOST_SKILLS);
    for (name, text) in find_loaded_skills(&messages) {
        let left = most.saturating_sub(before - room.left);
        let tokens = ((left as f64 / room.bytes_per_token) as u64).min(MOST_SKILL);
        let Some(fitted) = room.fit(&text, tokens) else { break };
        if fitted.len() < text.len() {
            texts.push(format!("{fitted}\n(The skill {name} is not whole here: load it again before you rely on it.)"));
        } else {
            texts.push(fitted);
        }
    }
    (!texts.is_empty())
        .then(|| format!("Skills that were loaded, and whose instructions still count:\n{}", texts.join("\n")))
}

async fn plan_section(turn: &Turn, room: &mut CarriedRoom) -> Option<String> {
    let file = turn.scope.services.plan_file()?;
    let plan = tokio::fs::read_to_string(file).await.ok().filter(|plan| !plan.trim().is_empty())?;
    let plan = turn.scope.services.redactor().mask(&plan).into_owned();
    let plan = room.fit(&plan, MOST_PLAN)?;
    Some(format!("The plan, from {}:\n{}", file.display(), enclose_in_tag("attached", &plan)))
}

fn answer_form_section(turn: &Turn) -> Option<String> {
    turn.output.as_ref().map(|output| output.reminder().to_owned())
}

fn background_section(turn: &Turn) -> Option<String> {
    let running = turn.scope.services.tasks().running();
    let own = running.iter().filter(|task| task.owner == turn.scope.agent && task.is_backgrounded());
    let line = |task: &std::sync::Arc<crate::tasks::Task>| {
        let what = if task.agent.is_some() { "agent" } else { "command" };
        format!("- {what} {}: {} (output in {})", task.id, task.description, task.output_file.display())
    };
    let lines: Vec<String> = own.take(MOST_LISTED).map(line).collect();
    (!lines.is_empty()).then(|| format!("Still running in the background:\n{}", lines.join("\n")))
}

/// A file that the conversation used.
struct KnownFile {
    path: PathBuf,
    state: FileState,
    was_written: bool,
}

/// Returns the files that the conversation used, the last one first.
fn known_files(turn: &Turn) -> Vec<KnownFile> {
    let state = turn.scope.services.lock_state();
    let files: &FileStates = &state.files;
    files
        .latest_first()
        .into_iter()
        .take(MOST_LISTED)
        .map(|(path, state, was_written)| KnownFile { path: path.to_owned(), state: state.clone(), was_written })
        .collect()
}

async fn files_section(turn: &Turn, known: &[KnownFile]) -> Option<String> {
    if known.is_empty() {
        return None;
    }
    let mut text = "Files read or changed so far, the last one first:".to_owned();
    let paths = turn.scope.services.paths();
    for file in known {
        let done = if file.was_written { "changed by you" } else { "read" };
        let since = describe_change(file).await;
        let _ = write!(text, "\n- {} ({done}; {since})", paths.display(&file.path));
    }
    text.push_str("\nTheir content is gone from view unless it follows: read a file again before you change it.");
    Some(text)
}

/// Says whether the file changed since the conversation last saw it.
async fn describe_change(file: &KnownFile) -> &'static str {
    let (path, stamp) = (file.path.clone(), file.state.stamp);
    let look = tokio::task::spawn_blocking(move || {
        let metadata = std::fs::metadata(&path).ok()?;
        let is_same = metadata.len() == stamp.size
            && (metadata.modified().ok() == stamp.modified && stamp.modified.is_some() || has_hash(&path, stamp.hash));
        Some(is_same)
    });
    match look.await.ok().flatten() {
        Some(true) => "unchanged since",
        Some(false) => "changed on disk since",
        None => "gone since",
    }
}

fn has_hash(path: &Path, hash: crate::files::ContentHash) -> bool {
    std::fs::read(path).is_ok_and(|bytes| crate::files::hash_content(&bytes) == hash)
}

/// Reads the files that were used last.
async fn read_files(turn: &Turn, known: Vec<KnownFile>, room: &mut CarriedRoom) -> Vec<CarriedFile> {
    let mut files = Vec::new();
    for file in known {
        if files.len() == MOST_FILES || room.left < room.bytes(100) {
            break;
        }
        let id = ToolUseId::new(format!("carried_{}", uuid::Uuid::new_v4().simple()));
        let Some(read) = read_carried_file(turn, &file.path, &id).await else { continue };
        let whole = read.content.to_text();
        let Some(text) = room.fit(&whole, MOST_FILE) else { continue };
        let is_whole = text.len() == whole.len() && !read.persisted;
        files.push(CarriedFile { path: file.path, text, read: is_whole.then_some(read) });
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_task_and_the_newest_words_are_kept() {
        let words: Vec<String> = (0..40).map(|n| format!("{n} {}", "w".repeat(3_000))).collect();
        let mut room = CarriedRoom::new(1_000_000, 4.0);
        let kept = newest_words(&words, &mut room);
        assert!(kept[0].starts_with("0 w") && kept.last().unwrap().starts_with("39 w"), "{kept:?}");
        let bytes: usize = kept.iter().map(String::len).sum();
        assert!((36_000..=40_000).contains(&bytes), "{bytes}");
        assert!(newest_words(&[], &mut room).is_empty());
    }

    #[test]
    fn a_small_window_bounds_everything() {
        let mut room = CarriedRoom::new(4_000, 4.0);
        let kept = newest_words(&["x".repeat(1_000_000)], &mut room);
        assert!(kept[0].len() <= 4_000 && kept[0].contains("left out"), "{}", kept[0].len());
        assert!(room.fit(&"y".repeat(9_000), 9_000).is_none(), "nothing is left");
        assert_eq!(shorten("äöü", 6).as_deref(), Some("äöü"));
    }
}
