//! Tool calls as blocks: one row that names the call and says how it went, and what it showed below.

use gimlet_proto::{HistoryCall, View};

use super::row_layout::{
    GUTTER_WIDTH, ViewDetail, first_line, format_elapsed, format_running, gutter_lines, indent_lines, join_facts,
    split_row, text_rows,
};
use super::view_lines::{render_view, summarize_view};
use crate::glyphs::RenderContext;
use crate::styled_line::{StyledLine, TextStyle, TextTone};
use crate::text_width::{BreakRule, clean_line};

/// Calls that took less are not worth a figure.
const MIN_SHOWN_ELAPSED_MS: u64 = 1_000;
/// Rows of output below a running call.
const RUNNING_ROWS: usize = 5;
/// Columns in front of a diff.
const DIFF_INDENT: usize = 2;

/// One tool call.
#[derive(Clone, Debug)]
pub struct CallBlock {
    /// The tool's display name.
    pub name: String,
    /// One line about the call.
    pub summary: String,
    pub outcome: CallOutcome,
}

/// State of a call.
#[derive(Clone, Debug)]
pub enum CallOutcome {
    /// Under way, with the last lines of its output.
    Running {
        tail: String,
        elapsed_ms: u64,
    },
    Done {
        view: View,
        elapsed_ms: Option<u64>,
    },
    Failed {
        view: View,
        elapsed_ms: Option<u64>,
    },
    /// Not allowed, with the reason.
    Refused {
        reason: String,
    },
    /// Ended without a result that is known.
    Unfinished,
    /// Ended with its turn.
    Stopped,
}

impl CallBlock {
    /// Returns the block of a past call.
    pub fn from_history(call: &HistoryCall) -> Self {
        let outcome = match &call.result {
            None => CallOutcome::Unfinished,
            Some(result) if result.failed => CallOutcome::Failed { view: result.view.clone(), elapsed_ms: None },
            Some(result) => CallOutcome::Done { view: result.view.clone(), elapsed_ms: None },
        };
        Self { name: call.name.clone(), summary: call.summary.clone(), outcome }
    }

    /// Renders the call. No rows at all if what it changed is shown elsewhere.
    pub fn render(&self, detail: ViewDetail, cx: &RenderContext<'_>) -> Vec<StyledLine> {
        if let (CallOutcome::Done { view: View::Todos(_), .. }, ViewDetail::Compact) = (&self.outcome, detail) {
            // The list stands below, where it changes in place.
            return Vec::new();
        }
        let mut rows = vec![self.render_head(cx)];
        if detail == ViewDetail::Whole {
            rows.extend(self.render_whole_summary(cx));
        }
        match &self.outcome {
            CallOutcome::Running { tail, .. } => rows.extend(render_tail(tail, cx)),
            CallOutcome::Done { view, .. } => rows.extend(render_result(view, detail, cx)),
            CallOutcome::Failed { view, .. } => rows.extend(render_failure(view, detail, cx)),
            CallOutcome::Refused { reason } => {
                rows.extend(in_gutter(cx, |cx| text_rows(reason, TextTone::Warn, cx.width, BreakRule::Words)))
            }
            CallOutcome::Unfinished | CallOutcome::Stopped => {}
        }
        rows
    }

    fn render_head(&self, cx: &RenderContext<'_>) -> StyledLine {
        let (mark, tone) = match &self.outcome {
            CallOutcome::Running { .. } => (cx.glyphs.call, TextTone::Dim),
            CallOutcome::Done { .. } => (cx.glyphs.call, TextTone::Accent),
            CallOutcome::Failed { .. } => (cx.glyphs.failure, TextTone::Error),
            CallOutcome::Refused { .. } => (cx.glyphs.failure, TextTone::Warn),
            CallOutcome::Unfinished | CallOutcome::Stopped => (cx.glyphs.call, TextTone::Dim),
        };
        let left = StyledLine::of(format!("{mark} "), tone)
            .with(clean_line(&self.name), TextStyle::of(TextTone::Text).bold())
            .with("  ", TextTone::Text)
            .with(clean_line(&first_line(&self.summary, cx.glyphs)), TextTone::Text);
        split_row(left, &self.render_facts(cx), cx)
    }

    /// Returns how the call went, for the right side.
    fn render_facts(&self, cx: &RenderContext<'_>) -> StyledLine {
        let (summary, elapsed) = match &self.outcome {
            CallOutcome::Running { elapsed_ms, .. } => {
                let is_worth = *elapsed_ms >= MIN_SHOWN_ELAPSED_MS;
                (None, if is_worth { Some(format_running(*elapsed_ms)) } else { None })
            }
            CallOutcome::Done { view, elapsed_ms } => (summarize_view(view, cx.glyphs), shown_elapsed(*elapsed_ms)),
            CallOutcome::Failed { view, elapsed_ms } => {
                let summary = match view {
                    View::Terminal { exit_code: Some(_), .. } => summarize_view(view, cx.glyphs),
                    _ => Some(StyledLine::of("failed", TextTone::Error)),
                };
                (summary, shown_elapsed(*elapsed_ms))
            }
            CallOutcome::Refused { .. } => (Some(StyledLine::of("refused", TextTone::Warn)), None),
            CallOutcome::Unfinished => (Some(StyledLine::of("no result", TextTone::Dim)), None),
            CallOutcome::Stopped => (Some(StyledLine::of("stopped", TextTone::Warn)), None),
        };
        let mut facts = summary.unwrap_or_default();
        if let Some(elapsed) = elapsed {
            let separator = if facts.spans.is_empty() {
                String::new()
            } else {
                join_facts(&[String::new(), String::new()], cx.glyphs)
            };
            facts.push(separator, TextTone::Dim);
            facts.push(elapsed, TextTone::Dim);
        }
        facts
    }

    /// Returns all of a summary that the first row cannot hold.
    fn render_whole_summary(&self, cx: &RenderContext<'_>) -> Vec<StyledLine> {
        let command = match &self.outcome {
            CallOutcome::Done { view: View::Terminal { command, .. }, .. }
            | CallOutcome::Failed { view: View::Terminal { command, .. }, .. } => command,
            _ => &self.summary,
        };
        let fits = !command.trim().contains('\n') && command.len() + self.name.len() + GUTTER_WIDTH <= cx.width / 2;
        if fits {
            return Vec::new();
        }
        let inner = RenderContext { width: cx.width.saturating_sub(GUTTER_WIDTH).max(1), ..*cx };
        indent_lines(text_rows(command, TextTone::Code, inner.width, BreakRule::Cells), GUTTER_WIDTH)
    }
}

fn shown_elapsed(elapsed_ms: Option<u64>) -> Option<String> {
    elapsed_ms.filter(|elapsed| *elapsed >= MIN_SHOWN_ELAPSED_MS).map(format_elapsed)
}

fn in_gutter(cx: &RenderContext<'_>, render: impl FnOnce(&RenderContext<'_>) -> Vec<StyledLine>) -> Vec<StyledLine> {
    let inner = RenderContext { width: cx.width.saturating_sub(GUTTER_WIDTH).max(1), ..*cx };
    gutter_lines(render(&inner), cx.glyphs)
}

fn render_result(view: &View, detail: ViewDetail, cx: &RenderContext<'_>) -> Vec<StyledLine> {
    if let View::Diff { .. } = view {
        let inner = RenderContext { width: cx.width.saturating_sub(DIFF_INDENT).max(1), ..*cx };
        return indent_lines(render_view(view, detail, &inner), DIFF_INDENT);
    }
    in_gutter(cx, |cx| render_view(view, detail, cx))
}

fn render_failure(view: &View, detail: ViewDetail, cx: &RenderContext<'_>) -> Vec<StyledLine> {
    match view {
        View::Text(_) => in_gutter(cx, |cx| {
            let mut rows = render_view(view, detail, cx);
            for span in rows.iter_mut().flat_map(|row| &mut row.spans) {
                span.style.tone = TextTone::Error;
            }
            rows
        }),
        _ => render_result(view, detail, cx),
    }
}

fn render_tail(tail: &str, cx: &RenderContext<'_>) -> Vec<StyledLine> {
    if tail.trim().is_empty() {
        return Vec::new();
    }
    in_gutter(cx, |cx| {
        let mut rows: Vec<StyledLine> = text_rows(tail, TextTone::Dim, cx.width, BreakRule::Cells);
        let excess = rows.len().saturating_sub(RUNNING_ROWS);
        rows.drain(..excess);
        rows
    })
}
