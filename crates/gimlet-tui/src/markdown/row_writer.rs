//! Rows of blocks with the marks of the containers around them: the sign of a list item, the bar of a quote, and the
//! indentation of what follows.

use crate::glyphs::RenderContext;
use crate::styled_line::{StyledLine, TextTone};
use crate::text_width::{BreakRule, display_width, line_width, truncate_line, wrap_line};

/// Block around other blocks.
#[derive(Clone, Debug)]
pub(super) struct ContainerBlock {
    pub(super) kind: ContainerKind,
    /// True once a row of it was written.
    pub(super) is_started: bool,
}

#[derive(Clone, Debug)]
pub(super) enum ContainerKind {
    Quote,
    Item {
        /// Columns from the start of the surrounding block to the marker, and to the content.
        marker_column: usize,
        content_column: usize,
        /// `None` for a bullet.
        number: Option<String>,
        task: Option<TaskMark>,
    },
}

/// Box of an item that is a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskMark {
    Open,
    Done,
}

impl ContainerBlock {
    pub(super) fn new(kind: ContainerKind) -> Self {
        Self { kind, is_started: false }
    }

    /// Returns what stands in front of the first row and of the others.
    fn prefixes(&self, cx: &RenderContext<'_>) -> (String, String) {
        match &self.kind {
            ContainerKind::Quote => {
                let bar = format!("{} ", cx.glyphs.quote);
                (bar.clone(), bar)
            }
            ContainerKind::Item { number, task, .. } => {
                let mark = match (number, task) {
                    (_, Some(TaskMark::Open)) => cx.glyphs.todo_pending,
                    (_, Some(TaskMark::Done)) => cx.glyphs.todo_done,
                    (Some(number), None) => number,
                    (None, None) => cx.glyphs.bullet,
                };
                let mark = format!("{mark} ");
                let indent = " ".repeat(display_width(&mark));
                (mark, indent)
            }
        }
    }

    fn tone(&self) -> TextTone {
        match self.kind {
            ContainerKind::Quote => TextTone::Dim,
            ContainerKind::Item { .. } => TextTone::Accent,
        }
    }
}

/// Prefix of the rows inside containers.
pub(super) struct RowPrefix {
    first: StyledLine,
    rest: StyledLine,
}

impl RowPrefix {
    /// Returns the prefix inside these containers. Half of the screen stays for the content: of deeper nesting the outer
    /// levels are left out.
    pub(super) fn for_containers(containers: &[ContainerBlock], cx: &RenderContext<'_>) -> Self {
        let mut levels: Vec<(&ContainerBlock, (String, String))> =
            containers.iter().map(|container| (container, container.prefixes(cx))).collect();
        let mut width: usize = levels.iter().map(|(_, (_, rest))| display_width(rest)).sum();
        while width > cx.width / 2 && !levels.is_empty() {
            let (_, (_, rest)) = levels.remove(0);
            width -= display_width(&rest);
        }
        let (mut first, mut following) = (StyledLine::blank(), StyledLine::blank());
        for (container, (mark, rest)) in levels {
            let tone = container.tone();
            let rest_tone = if mark == rest { tone } else { TextTone::Text };
            if container.is_started {
                first.push(&rest, rest_tone);
            } else {
                first.push(mark, tone);
            }
            following.push(rest, rest_tone);
        }
        Self { first, rest: following }
    }

    pub(super) fn width(&self) -> usize {
        line_width(&self.rest)
    }
}

/// Appends rows that fit the width already.
pub(super) fn push_rows(
    rows: Vec<StyledLine>,
    containers: &mut [ContainerBlock],
    cx: &RenderContext<'_>,
    out: &mut Vec<StyledLine>,
) {
    if rows.is_empty() {
        return;
    }
    let prefix = RowPrefix::for_containers(containers, cx);
    for (index, row) in rows.into_iter().enumerate() {
        let mut line = if index == 0 { prefix.first.clone() } else { prefix.rest.clone() };
        for span in &row.spans {
            line.push(&span.text, span.style);
        }
        out.push(trim_blank_end(truncate_line(&line, cx.width.max(1))));
    }
    for container in containers {
        container.is_started = true;
    }
}

/// Appends a line, wrapped to the room inside the containers.
pub(super) fn push_line(
    line: &StyledLine,
    rule: BreakRule,
    containers: &mut [ContainerBlock],
    cx: &RenderContext<'_>,
    out: &mut Vec<StyledLine>,
) {
    let room = cx.width.saturating_sub(RowPrefix::for_containers(containers, cx).width()).max(1);
    push_rows(wrap_line(line, room, rule), containers, cx, out);
}

/// Appends the blank row between two blocks, with the bars of the quotes that go on.
pub(super) fn push_blank_row(containers: &[ContainerBlock], cx: &RenderContext<'_>, out: &mut Vec<StyledLine>) {
    let started = containers.iter().take_while(|container| container.is_started).count();
    let prefix = RowPrefix::for_containers(containers.get(..started).unwrap_or_default(), cx);
    out.push(trim_blank_end(prefix.rest));
}

/// Removes spaces at the end of a row, which no one sees.
fn trim_blank_end(mut line: StyledLine) -> StyledLine {
    while let Some(span) = line.spans.last_mut() {
        let kept = span.text.trim_end_matches(' ').len();
        span.text.truncate(kept);
        if kept > 0 {
            break;
        }
        line.spans.pop();
    }
    line
}
