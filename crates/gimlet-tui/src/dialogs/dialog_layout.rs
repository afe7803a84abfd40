//! Fits the parts of a question onto the screen: choices and keys always, of what it is about as much as there is room
//! for. What does not fit is scrolled to, and the question says so.

use std::ops::Range;

use crate::glyphs::RenderContext;
use crate::styled_line::{StyledLine, TextTone};
use crate::text_width::{line_width, truncate_line};

/// Rows of the body that are shown on the smallest screen.
const MIN_BODY: usize = 2;

/// A question as lines of at most the width that it was rendered for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DialogView {
    pub lines: Vec<StyledLine>,
    /// Row and column of the cursor in `lines`, from 0.
    pub cursor: Option<(usize, usize)>,
}

/// Part of a dialog in which the cursor or the current row is.
#[derive(Clone, Debug, Default)]
pub(crate) struct DialogSection {
    pub(crate) lines: Vec<StyledLine>,
    /// Lines that must be seen.
    pub(crate) focus: Range<usize>,
    pub(crate) cursor: Option<(usize, usize)>,
}

/// A question before it is fitted.
#[derive(Clone, Debug, Default)]
pub(crate) struct DialogParts {
    pub(crate) title: Vec<StyledLine>,
    /// What it is about; scrolled.
    pub(crate) body: Vec<StyledLine>,
    /// Choices or fields.
    pub(crate) choices: DialogSection,
    /// Short texts about keys, in order of importance.
    pub(crate) hints: Vec<String>,
}

/// How far the body is scrolled, and how far it can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BodyScroll {
    pub(crate) first: usize,
    last_first: usize,
    page: usize,
}

impl BodyScroll {
    pub(crate) fn page_down(&mut self) {
        self.first = (self.first + self.page.max(1)).min(self.last_first);
    }

    pub(crate) fn page_up(&mut self) {
        self.first = self.first.saturating_sub(self.page.max(1));
    }
}

impl DialogParts {
    /// Fits the parts into `max_rows` rows.
    pub(crate) fn fit(self, scroll: &mut BodyScroll, max_rows: usize, context: &RenderContext<'_>) -> DialogView {
        let Self { title, body, choices, hints } = self;
        let hint_row = 1;
        let gaps = usize::from(!body.is_empty()) + 1;
        let fixed = title.len() + gaps + hint_row + choices.lines.len();
        let room = max_rows.saturating_sub(fixed);
        let body_rows = room.max(MIN_BODY).min(body.len());
        let choice_rows = max_rows.saturating_sub(title.len() + gaps + hint_row + body_rows).max(1);

        let mut view = DialogView { lines: title, cursor: None };
        if !body.is_empty() {
            view.lines.push(StyledLine::blank());
            push_body(body, body_rows, scroll, context, &mut view.lines);
        }
        view.lines.push(StyledLine::blank());
        push_section(choices, choice_rows, &mut view);
        let hints = hints.join(&format!(" {} ", context.glyphs.separator));
        view.lines.push(StyledLine::of(format!("  {hints}"), TextTone::Dim));
        // Rows are wrapped by who made them; on a screen of a few columns some are still too wide.
        view.lines.iter_mut().filter(|line| line_width(line) > context.width).for_each(|line| {
            *line = truncate_line(line, context.width);
        });
        view.cursor = view.cursor.map(|(row, column)| (row, column.min(context.width.saturating_sub(1))));
        view
    }
}

fn push_body(
    body: Vec<StyledLine>,
    rows: usize,
    scroll: &mut BodyScroll,
    context: &RenderContext<'_>,
    lines: &mut Vec<StyledLine>,
) {
    let count = body.len();
    if rows >= count {
        *scroll = BodyScroll::default();
        lines.extend(body);
        return;
    }
    // One row says how much there is before and after.
    let page = rows.saturating_sub(1).max(1);
    let last_first = count - page;
    *scroll = BodyScroll { first: scroll.first.min(last_first), last_first, page };
    lines.extend(body.into_iter().skip(scroll.first).take(page));
    let (above, below) = (scroll.first, count - scroll.first - page);
    let text = match (above, below) {
        (0, below) => format!("  {below} more rows, pgdn shows them"),
        (above, 0) => format!("  {above} rows above, pgup shows them"),
        (above, below) => format!("  {above} rows above, {below} below (pgup, pgdn)"),
    };
    lines.push(truncate_line(&StyledLine::of(text, TextTone::Warn), context.width));
}

/// Adds the rows around the focus.
fn push_section(section: DialogSection, rows: usize, view: &mut DialogView) {
    let count = section.lines.len();
    let last_first = count.saturating_sub(rows);
    let first = section.focus.end.saturating_sub(rows).min(section.focus.start).min(last_first);
    let first = match section.cursor {
        Some((row, _)) if row >= first + rows => row + 1 - rows,
        Some((row, _)) if row < first => row,
        _ => first,
    };
    let base = view.lines.len();
    view.lines.extend(section.lines.into_iter().skip(first).take(rows));
    if let Some((row, column)) = section.cursor {
        view.cursor = Some((base + row - first, column));
    }
}
