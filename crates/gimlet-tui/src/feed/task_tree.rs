//! Subagents and background commands as a tree: what each does, for how long, at what cost.

use gimlet_proto::{TaskState, TaskView, ToolUseId};

use super::row_layout::{format_running, format_tokens, join_facts, split_row};
use crate::glyphs::RenderContext;
use crate::styled_line::{StyledLine, TextStyle, TextTone};
use crate::text_width::clean_line;

/// Tasks that are shown; more are counted.
const MAX_ROWS: usize = 6;

/// Tasks that run, in the order in which they began.
#[derive(Debug, Default)]
pub struct TaskTree {
    running: Vec<TaskEntry>,
}

#[derive(Debug)]
struct TaskEntry {
    view: TaskView,
    started_ms: u64,
}

impl TaskTree {
    /// Takes over the state of a task. Returns how long it ran if it ended now.
    pub fn update(&mut self, view: &TaskView, now_ms: u64) -> Option<u64> {
        let known = self.running.iter().position(|entry| entry.view.id == view.id);
        match (known, view.state) {
            (Some(index), TaskState::Running) => {
                if let Some(entry) = self.running.get_mut(index) {
                    entry.view = view.clone();
                }
                None
            }
            (None, TaskState::Running) => {
                self.running.push(TaskEntry { view: view.clone(), started_ms: now_ms });
                None
            }
            (Some(index), _) => {
                let entry = self.running.remove(index);
                Some(now_ms.saturating_sub(entry.started_ms))
            }
            (None, _) => None,
        }
    }

    /// Returns true if a running task shows what this call does.
    pub fn has_call(&self, call: &ToolUseId) -> bool {
        self.running.iter().any(|entry| entry.view.call.as_ref() == Some(call))
    }

    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Returns the number of running tasks of this kind.
    pub fn count_running(&self) -> usize {
        self.running.len()
    }

    /// Renders a row for each task, indented by two columns, those that a subagent started below it.
    pub fn render(&self, now_ms: u64, cx: &RenderContext<'_>) -> Vec<StyledLine> {
        let shown = if self.running.len() > MAX_ROWS { MAX_ROWS - 1 } else { self.running.len() };
        let mut rows = Vec::new();
        let mut left = shown;
        let roots: Vec<&TaskEntry> = self.running.iter().filter(|entry| self.parent_of(entry).is_none()).collect();
        self.render_siblings(&roots, "  ", &mut left, now_ms, cx, &mut rows);
        if shown < self.running.len() {
            let text = format!("  {} {} more", cx.glyphs.branch_end, self.running.len() - shown);
            rows.push(StyledLine::of(text, TextTone::Dim));
        }
        rows
    }

    fn parent_of(&self, entry: &TaskEntry) -> Option<&TaskEntry> {
        let parent = entry.view.parent.as_ref()?;
        // An entry can never be above itself.
        self.running
            .iter()
            .find(|other| other.view.call.as_ref() == Some(parent) && other.view.depth < entry.view.depth)
    }

    /// Renders entries of one level and what is below them. `left` is the number of tasks that may still be shown.
    fn render_siblings(
        &self,
        siblings: &[&TaskEntry],
        indent: &str,
        left: &mut usize,
        now_ms: u64,
        cx: &RenderContext<'_>,
        rows: &mut Vec<StyledLine>,
    ) {
        for (index, entry) in siblings.iter().enumerate() {
            if *left == 0 {
                return;
            }
            *left -= 1;
            let is_last = index + 1 == siblings.len();
            let mark = if is_last { cx.glyphs.branch_end } else { cx.glyphs.branch };
            rows.push(entry.render(&format!("{indent}{mark} "), now_ms, cx));
            let indent = format!("{indent}{} ", if is_last { " " } else { cx.glyphs.gutter });
            rows.extend(entry.render_activity(&indent, cx));
            let is_child =
                |other: &&TaskEntry| self.parent_of(other).is_some_and(|parent| parent.view.id == entry.view.id);
            let children: Vec<&TaskEntry> = self.running.iter().filter(is_child).collect();
            self.render_siblings(&children, &indent, left, now_ms, cx, rows);
        }
    }
}

impl TaskEntry {
    fn render(&self, indent: &str, now_ms: u64, cx: &RenderContext<'_>) -> StyledLine {
        let view = &self.view;
        let title = view.subagent_type.as_deref().unwrap_or("Command");
        let mut left = StyledLine::of(indent, TextTone::Dim)
            .with(clean_line(title), TextStyle::of(TextTone::Text).bold())
            .with("  ", TextTone::Text)
            .with(clean_line(&view.description), TextTone::Text);
        if view.backgrounded {
            left.push("  (background)", TextTone::Dim);
        }
        let mut facts = vec![format_running(now_ms.saturating_sub(self.started_ms))];
        if let Some(progress) = &view.progress {
            if progress.tool_uses > 0 {
                facts.push(match progress.tool_uses {
                    1 => "1 tool".to_owned(),
                    count => format!("{count} tools"),
                });
            }
            if progress.total_tokens > 0 {
                facts.push(format!("{} tokens", format_tokens(progress.total_tokens)));
            }
        }
        split_row(left, &StyledLine::of(join_facts(&facts, cx.glyphs), TextTone::Dim), cx)
    }

    /// Returns the row about what a subagent does at the moment.
    fn render_activity(&self, indent: &str, cx: &RenderContext<'_>) -> Option<StyledLine> {
        let progress = self.view.progress.as_ref()?;
        if self.view.subagent_type.is_none() || progress.description.is_empty() {
            return None;
        }
        let line = StyledLine::of(format!("{indent}  {}", clean_line(&progress.description)), TextTone::Dim);
        Some(crate::text_width::truncate_line(&line, cx.width))
    }
}
