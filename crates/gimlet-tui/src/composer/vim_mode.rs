//! Vim's modes and commands for the editor: motions, operators, counts, text objects, repeating. Keys that mean nothing
//! here go on to the other bindings.

mod vim_command;
mod vim_motion;
mod vim_object;

use std::ops::Range;

use crossterm::event::{KeyCode, KeyModifiers};

use super::edit_buffer::{EditBuffer, EditKind};
use super::text_editor::{TextEditor, typed_chars};
use crate::key_bindings::KeyStroke;
use vim_command::{CommandParse, VimAction, VimCommand, VimOperator, VimReach};
use vim_motion::{FindMemory, MotionSpan, motion_target};
use vim_object::object_range;

/// Columns by which `>>` moves a line.
const INDENT: &str = "  ";
/// Largest count: a slip of the finger must not fill the memory.
const MAX_COUNT: usize = 1000;

/// Mode of the editor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VimMode {
    #[default]
    Insert,
    Normal,
    Visual,
    VisualLine,
}

impl VimMode {
    /// Returns the name that the footer shows.
    pub fn label(self) -> &'static str {
        match self {
            VimMode::Insert => "INSERT",
            VimMode::Normal => "NORMAL",
            VimMode::Visual => "VISUAL",
            VimMode::VisualLine => "VISUAL LINE",
        }
    }
}

/// What a key led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VimOutcome {
    /// The key is not vim's.
    Ignored,
    Handled,
    /// Move by rows of the screen.
    Rows(isize),
    SearchHistory,
}

/// A change that `.` makes again: the keys of its command, and what was typed after them.
#[derive(Clone, Debug, Default)]
struct RepeatableChange {
    keys: Vec<char>,
    typed: Vec<KeyStroke>,
}

/// Text that was cut or copied.
#[derive(Clone, Debug, Default)]
struct VimRegister {
    text: String,
    is_linewise: bool,
}

/// Mode, and what commands remember.
#[derive(Clone, Debug, Default)]
pub(crate) struct VimState {
    mode: VimMode,
    /// Keys of a command that is not complete.
    keys: Vec<char>,
    /// The other end of what is selected.
    anchor: usize,
    register: VimRegister,
    last_find: Option<FindMemory>,
    last_change: Option<RepeatableChange>,
    /// The change whose text is being typed.
    recording: Option<RepeatableChange>,
}

impl VimState {
    pub(crate) fn mode(&self) -> VimMode {
        self.mode
    }

    /// Returns the keys of a command that is not complete.
    pub(crate) fn pending(&self) -> String {
        self.keys.iter().collect()
    }

    /// Returns to typing: the input is empty again.
    pub(crate) fn reset(&mut self) {
        self.mode = VimMode::Insert;
        self.keys.clear();
        self.recording = None;
    }

    /// Returns the selected text.
    pub(crate) fn selection(&self, buffer: &EditBuffer) -> Option<Range<usize>> {
        let (from, to) = (self.anchor.min(buffer.cursor()), self.anchor.max(buffer.cursor()));
        match self.mode {
            VimMode::Visual => Some(from..buffer.next_border(to).min(buffer.text().len())),
            VimMode::VisualLine => Some(buffer.line_range(from).start..buffer.line_range(to).end),
            VimMode::Insert | VimMode::Normal => None,
        }
    }

    /// Handles a key before any binding sees it.
    pub(crate) fn handle_key(&mut self, stroke: KeyStroke, editor: &mut TextEditor) -> VimOutcome {
        let held = KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SUPER;
        let has_modifier = stroke.modifiers().intersects(held);
        match (self.mode, stroke.code()) {
            (VimMode::Insert, KeyCode::Esc) if !has_modifier => {
                self.leave_insert(editor);
                VimOutcome::Handled
            }
            (VimMode::Insert, _) => {
                if let Some(recording) = &mut self.recording {
                    recording.typed.push(stroke);
                }
                VimOutcome::Ignored
            }
            (VimMode::Normal, KeyCode::Esc) if self.keys.is_empty() => VimOutcome::Ignored,
            (_, KeyCode::Esc) => {
                self.mode = VimMode::Normal;
                self.keys.clear();
                clamp_cursor(&mut editor.buffer);
                VimOutcome::Handled
            }
            (_, KeyCode::Char(char)) if !has_modifier => {
                self.keys.extend(typed_chars(char, stroke.modifiers()));
                self.run_keys(editor)
            }
            (_, KeyCode::Backspace | KeyCode::Left) if !has_modifier => {
                self.keys.clear();
                let cursor = editor.buffer.cursor();
                let start = editor.buffer.line_range(cursor).start;
                editor.buffer.set_cursor(editor.buffer.previous_border(cursor).max(start));
                VimOutcome::Handled
            }
            (_, KeyCode::Right) if !has_modifier => {
                self.keys.clear();
                editor.buffer.set_cursor(editor.buffer.next_border(editor.buffer.cursor()));
                clamp_cursor(&mut editor.buffer);
                VimOutcome::Handled
            }
            (_, KeyCode::Delete) if !has_modifier => {
                self.keys = vec!['x'];
                self.run_keys(editor)
            }
            _ => VimOutcome::Ignored,
        }
    }

    fn leave_insert(&mut self, editor: &mut TextEditor) {
        editor.buffer.end_group();
        self.mode = VimMode::Normal;
        if let Some(recording) = self.recording.take() {
            self.last_change = Some(recording);
        }
        let cursor = editor.buffer.cursor();
        if cursor > editor.buffer.line_range(cursor).start {
            editor.buffer.set_cursor(editor.buffer.previous_border(cursor));
        }
    }

    fn begin_insert(&mut self, editor: &mut TextEditor, at: usize) {
        editor.buffer.set_cursor(at);
        self.mode = VimMode::Insert;
    }

    fn run_keys(&mut self, editor: &mut TextEditor) -> VimOutcome {
        let is_visual = matches!(self.mode, VimMode::Visual | VimMode::VisualLine);
        match vim_command::parse_command(&self.keys, is_visual) {
            CommandParse::Incomplete => VimOutcome::Handled,
            CommandParse::Invalid => {
                self.keys.clear();
                VimOutcome::Handled
            }
            CommandParse::Complete(command) => {
                let keys = std::mem::take(&mut self.keys);
                if is_visual { self.run_visual(command, editor) } else { self.run_normal(command, keys, editor) }
            }
        }
    }

    fn run_normal(&mut self, command: VimCommand, keys: Vec<char>, editor: &mut TextEditor) -> VimOutcome {
        if let VimAction::Repeat = command.action {
            self.repeat(command.count, editor);
            return VimOutcome::Handled;
        }
        let changes = command.action.is_change();
        if changes {
            editor.buffer.begin_group();
        }
        let outcome = self.run_action(&command, editor);
        if changes {
            let change = RepeatableChange { keys, typed: Vec::new() };
            if self.mode == VimMode::Insert {
                self.recording = Some(change);
            } else {
                editor.buffer.end_group();
                self.last_change = Some(change);
            }
        }
        if self.mode == VimMode::Normal {
            clamp_cursor(&mut editor.buffer);
        }
        outcome
    }

    /// Makes the last change again; a count replaces its own.
    fn repeat(&mut self, count: Option<usize>, editor: &mut TextEditor) {
        let Some(change) = self.last_change.clone() else { return };
        let CommandParse::Complete(mut command) = vim_command::parse_command(&change.keys, false) else { return };
        command.count = count.or(command.count);
        editor.buffer.begin_group();
        self.run_action(&command, editor);
        if self.mode == VimMode::Insert {
            for stroke in &change.typed {
                if stroke.code() == KeyCode::Enter {
                    editor.buffer.insert("\n", EditKind::Other);
                } else {
                    editor.edit_with_key(*stroke);
                }
            }
            self.leave_insert(editor);
        }
        editor.buffer.end_group();
        self.last_change = Some(change);
        clamp_cursor(&mut editor.buffer);
    }

    /// Carries a command of normal mode out.
    fn run_action(&mut self, command: &VimCommand, editor: &mut TextEditor) -> VimOutcome {
        let count = command.count.unwrap_or(1).min(MAX_COUNT);
        let buffer = &mut editor.buffer;
        let cursor = buffer.cursor();
        let line = buffer.line_range(cursor);
        match command.action {
            VimAction::Move(motion) => {
                if let Some(rows) = motion.rows() {
                    return VimOutcome::Rows(rows * count.cast_signed());
                }
                if let Some(target) = motion_target(buffer, cursor, motion, command.count, &mut self.last_find) {
                    buffer.set_cursor(target.at);
                }
            }
            VimAction::Operate { operator, reach } => self.operate(operator, reach, command.count, editor),
            VimAction::InsertBefore => self.begin_insert(editor, cursor),
            VimAction::InsertAfter => {
                let at = if cursor < line.end { buffer.next_border(cursor) } else { cursor };
                self.begin_insert(editor, at);
            }
            VimAction::InsertAtStart => {
                let at = buffer.first_nonblank(cursor);
                self.begin_insert(editor, at);
            }
            VimAction::InsertAtEnd => self.begin_insert(editor, line.end),
            VimAction::OpenBelow => {
                buffer.replace(line.end..line.end, "\n", EditKind::Other);
                self.begin_insert(editor, line.end + 1);
            }
            VimAction::OpenAbove => {
                buffer.replace(line.start..line.start, "\n", EditKind::Other);
                self.begin_insert(editor, line.start);
            }
            VimAction::Put { is_before } => self.put(buffer, is_before, count),
            VimAction::Join => {
                for _ in 0..count.max(2) - 1 {
                    join_line(buffer);
                }
            }
            VimAction::ToggleCase => {
                let end = units_after(buffer, cursor, count, line.end);
                let text = toggle_case(buffer.slice(cursor..end));
                buffer.replace(cursor..end, &text, EditKind::Other);
            }
            VimAction::ReplaceChar(char) => {
                let end = units_after(buffer, cursor, count, line.end);
                let replaced = count_units(buffer, cursor, end);
                if replaced == count {
                    let text: String = std::iter::repeat_n(char, count).collect();
                    buffer.replace(cursor..end, &text, EditKind::Other);
                    let at = buffer.previous_border(buffer.cursor());
                    buffer.set_cursor(at);
                }
            }
            VimAction::Undo => {
                for _ in 0..count {
                    buffer.undo();
                }
            }
            VimAction::Select { is_linewise } => {
                self.anchor = cursor;
                self.mode = if is_linewise { VimMode::VisualLine } else { VimMode::Visual };
            }
            VimAction::SearchHistory => return VimOutcome::SearchHistory,
            VimAction::Repeat | VimAction::Object { .. } | VimAction::OperateSelection(_) | VimAction::SwapEnds => {}
            VimAction::SetCase { .. } | VimAction::PutOver => {}
        }
        VimOutcome::Handled
    }

    /// Applies an operator to what a motion, a text object or a doubled key reaches.
    fn operate(&mut self, operator: VimOperator, reach: VimReach, count: Option<usize>, editor: &mut TextEditor) {
        let buffer = &editor.buffer;
        let cursor = buffer.cursor();
        let (range, is_linewise) = match reach {
            VimReach::Lines => {
                let mut last = buffer.line_range(cursor);
                for _ in 1..count.unwrap_or(1).min(MAX_COUNT) {
                    last = buffer.line_below(last.start).unwrap_or(last);
                }
                (buffer.line_range(cursor).start..last.end, true)
            }
            VimReach::Object { is_around, object } => match object_range(buffer, cursor, is_around, object) {
                Some(range) => (range, false),
                None => return,
            },
            VimReach::Motion(motion) => {
                let motion = if operator == VimOperator::Change { motion.for_change(buffer, cursor) } else { motion };
                let Some(target) = motion_target(buffer, cursor, motion, count, &mut self.last_find) else { return };
                let (from, to) = (cursor.min(target.at), cursor.max(target.at));
                match target.span {
                    MotionSpan::Linewise => (buffer.line_range(from).start..buffer.line_range(to).end, true),
                    MotionSpan::Inclusive => (from..buffer.next_border(to).min(buffer.line_range(to).end), false),
                    // A word at the end of a line does not take the line break with it.
                    MotionSpan::Exclusive if motion.is_word_forward() && buffer.slice(from..to).contains('\n') => {
                        (from..buffer.line_range(from).end.max(from), false)
                    }
                    MotionSpan::Exclusive => (from..to, false),
                }
            }
        };
        self.apply_operator(operator, range, is_linewise, editor);
    }

    fn apply_operator(
        &mut self,
        operator: VimOperator,
        range: Range<usize>,
        is_linewise: bool,
        editor: &mut TextEditor,
    ) {
        let buffer = &mut editor.buffer;
        if !matches!(operator, VimOperator::Indent | VimOperator::Outdent) {
            self.register = VimRegister { text: buffer.slice(range.clone()).to_owned(), is_linewise };
        }
        match operator {
            VimOperator::Yank => buffer.set_cursor(range.start),
            VimOperator::Delete if is_linewise => {
                let start = range.start;
                let whole = if range.end < buffer.text().len() {
                    range.start..range.end + 1
                } else {
                    range.start.saturating_sub(1)..range.end
                };
                buffer.replace(whole, "", EditKind::Other);
                let at = buffer.first_nonblank(start.min(buffer.text().len()));
                buffer.set_cursor(at);
            }
            VimOperator::Delete => {
                let start = range.start;
                buffer.replace(range, "", EditKind::Other);
                buffer.set_cursor(start);
            }
            VimOperator::Change => {
                let start = range.start;
                buffer.replace(range, "", EditKind::Other);
                self.begin_insert(editor, start);
            }
            VimOperator::Indent | VimOperator::Outdent => shift_lines(buffer, range, operator == VimOperator::Indent),
        }
    }

    fn put(&self, buffer: &mut EditBuffer, is_before: bool, count: usize) {
        if self.register.text.is_empty() && !self.register.is_linewise {
            return;
        }
        let cursor = buffer.cursor();
        let line = buffer.line_range(cursor);
        if self.register.is_linewise {
            let lines = vec![self.register.text.as_str(); count].join("\n");
            let at = if is_before { line.start } else { line.end };
            let text = if is_before { format!("{lines}\n") } else { format!("\n{lines}") };
            buffer.replace(at..at, &text, EditKind::Other);
            let start = if is_before { at } else { at + 1 };
            let start = buffer.first_nonblank(start);
            buffer.set_cursor(start);
            return;
        }
        let at = if is_before || cursor >= line.end { cursor } else { buffer.next_border(cursor) };
        buffer.replace(at..at, &self.register.text.repeat(count), EditKind::Other);
        let last = buffer.previous_border(buffer.cursor());
        buffer.set_cursor(last);
    }

    /// Carries a command for selected text out.
    fn run_visual(&mut self, command: VimCommand, editor: &mut TextEditor) -> VimOutcome {
        let Some(range) = self.selection(&editor.buffer) else { return VimOutcome::Handled };
        let is_linewise = self.mode == VimMode::VisualLine;
        let cursor = editor.buffer.cursor();
        match command.action {
            VimAction::Move(motion) => {
                if let Some(rows) = motion.rows() {
                    return VimOutcome::Rows(rows * command.count.unwrap_or(1).min(MAX_COUNT).cast_signed());
                }
                let target = motion_target(&editor.buffer, cursor, motion, command.count, &mut self.last_find);
                if let Some(target) = target {
                    editor.buffer.set_cursor(target.at);
                    clamp_cursor(&mut editor.buffer);
                }
                return VimOutcome::Handled;
            }
            VimAction::Object { is_around, object } => {
                if let Some(range) = object_range(&editor.buffer, cursor, is_around, object)
                    && !range.is_empty()
                {
                    self.anchor = range.start;
                    editor.buffer.set_cursor(editor.buffer.previous_border(range.end));
                }
                return VimOutcome::Handled;
            }
            VimAction::SwapEnds => {
                editor.buffer.set_cursor(std::mem::replace(&mut self.anchor, cursor));
                return VimOutcome::Handled;
            }
            VimAction::Select { is_linewise: to_lines } => {
                self.mode = match (to_lines, is_linewise) {
                    (true, false) => VimMode::VisualLine,
                    (false, true) => VimMode::Visual,
                    _ => VimMode::Normal,
                };
                return VimOutcome::Handled;
            }
            _ => {}
        }
        self.mode = VimMode::Normal;
        editor.buffer.begin_group();
        let buffer = &mut editor.buffer;
        match command.action {
            VimAction::OperateSelection(operator) => self.apply_operator(operator, range, is_linewise, editor),
            VimAction::ToggleCase | VimAction::SetCase { .. } | VimAction::ReplaceChar(_) => {
                let text = buffer.slice(range.clone());
                let changed = match command.action {
                    VimAction::SetCase { is_upper: true } => text.to_uppercase(),
                    VimAction::SetCase { is_upper: false } => text.to_lowercase(),
                    VimAction::ReplaceChar(char) => replace_all(buffer, range.clone(), char),
                    _ => toggle_case(text),
                };
                let start = range.start;
                buffer.replace(range, &changed, EditKind::Other);
                buffer.set_cursor(start);
            }
            VimAction::PutOver => {
                let register = self.register.clone();
                let start = range.start;
                let removed = buffer.slice(range.clone()).to_owned();
                buffer.replace(range, &register.text, EditKind::Other);
                buffer.set_cursor(start);
                self.register = VimRegister { text: removed, is_linewise };
            }
            VimAction::Join => {
                let lines = buffer.slice(range.clone()).matches('\n').count().max(1);
                buffer.set_cursor(range.start);
                for _ in 0..lines {
                    join_line(buffer);
                }
            }
            _ => {}
        }
        if self.mode == VimMode::Normal {
            editor.buffer.end_group();
            clamp_cursor(&mut editor.buffer);
        }
        VimOutcome::Handled
    }
}

/// Keeps the cursor of normal mode on a character.
pub(crate) fn clamp_cursor(buffer: &mut EditBuffer) {
    let cursor = buffer.cursor();
    let line = buffer.line_range(cursor);
    if cursor == line.end && cursor > line.start {
        let last = buffer.previous_border(cursor);
        buffer.set_cursor(last);
    }
}

/// Returns the border that lies some units after another, at most `end`.
fn units_after(buffer: &EditBuffer, from: usize, count: usize, end: usize) -> usize {
    let mut at = from;
    for _ in 0..count {
        if at >= end {
            break;
        }
        at = buffer.next_border(at);
    }
    at.min(end)
}

fn count_units(buffer: &EditBuffer, from: usize, to: usize) -> usize {
    let (mut at, mut count) = (from, 0);
    while at < to {
        at = buffer.next_border(at);
        count += 1;
    }
    count
}

/// Returns the text of a range with every visible character replaced.
fn replace_all(buffer: &EditBuffer, range: Range<usize>, char: char) -> String {
    let (mut at, mut out) = (range.start, String::new());
    while at < range.end {
        let next = buffer.next_border(at);
        out.push(if buffer.slice(at..next) == "\n" { '\n' } else { char });
        at = next;
    }
    out
}

fn toggle_case(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_uppercase() {
            out.extend(char.to_lowercase());
        } else {
            out.extend(char.to_uppercase());
        }
    }
    out
}

/// Joins the next line to the one of the cursor, with one space between.
fn join_line(buffer: &mut EditBuffer) {
    let line = buffer.line_range(buffer.cursor());
    let Some(below) = buffer.line_below(line.start) else { return };
    let text_start = buffer.first_nonblank(below.start);
    let is_gap_needed = line.end > line.start && text_start < below.end;
    let gap = if is_gap_needed && !buffer.slice(line.clone()).ends_with(' ') { " " } else { "" };
    buffer.replace(line.end..text_start, gap, EditKind::Other);
    buffer.set_cursor(line.end);
}

fn shift_lines(buffer: &mut EditBuffer, range: Range<usize>, is_right: bool) {
    let mut starts = vec![buffer.line_range(range.start).start];
    while let Some(below) = starts.last().and_then(|start| buffer.line_below(*start)) {
        if below.start > range.end {
            break;
        }
        starts.push(below.start);
    }
    // From the last line on, so that the starts of those before stay where they are.
    for start in starts.iter().rev() {
        let line = buffer.line_range(*start);
        if is_right && !line.is_empty() {
            buffer.replace(*start..*start, INDENT, EditKind::Other);
        } else if !is_right {
            let text = buffer.slice(line);
            let blanks = text.len() - text.trim_start_matches(' ').len();
            let removed = if text.starts_with('\t') { 1 } else { blanks.min(INDENT.len()) };
            buffer.replace(*start..*start + removed, "", EditKind::Other);
        }
    }
    let at = buffer.first_nonblank(starts.first().copied().unwrap_or_default());
    buffer.set_cursor(at);
}

#[cfg(test)]
mod tests;
