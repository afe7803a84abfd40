//! The lines of the transcript view: everything of a conversation whole, with the times at the right edge.

use gimlet_proto::{HistoryBody, HistoryItem};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::feed_block::{BlockSpacing, FeedBlock, render_boundary, text_of};
use super::row_layout::{NARROW, ViewDetail, fit_rows, group_digits, indent_lines, text_rows};
use crate::glyphs::RenderContext;
use crate::styled_line::{StyledLine, TextTone};
use crate::text_width::{BreakRule, line_width};

/// Columns for the time at the right edge, with the space before it.
const TIME_WIDTH: usize = 10;
/// Rows of a text that the program added for the model.
const INJECTED_ROWS: usize = 12;

/// A whole conversation, rendered.
#[derive(Debug, Default)]
pub struct TranscriptLines {
    pub lines: Vec<StyledLine>,
    /// Indexes of the lines at which prompts of the user begin.
    pub prompt_rows: Vec<usize>,
}

impl TranscriptLines {
    /// Renders a conversation, with times of this zone.
    pub fn render(items: &[HistoryItem], zone: &TimeZone, cx: &RenderContext<'_>) -> Self {
        let has_times = cx.width >= NARROW && items.iter().any(|item| item.at.is_some());
        let width = if has_times { cx.width - TIME_WIDTH } else { cx.width };
        let inner = RenderContext { width, ..*cx };
        let mut transcript = Self::default();
        let mut spacing = BlockSpacing::default();
        let mut last = ItemTime::default();
        for item in items {
            let time = item.at.as_deref().and_then(|at| ItemTime::parse(at, zone)).unwrap_or_default();
            if has_times && !time.date.is_empty() && time.date != last.date {
                // The first day goes without saying.
                if !last.date.is_empty() {
                    spacing.push_block(vec![render_boundary(&time.date, cx)], false, &mut transcript.lines);
                }
                last.date.clone_from(&time.date);
            }
            let start = transcript.lines.len();
            for (rows, is_call) in render_item(item, &inner) {
                spacing.push_block(rows, is_call, &mut transcript.lines);
            }
            let Some(first) = transcript.lines.iter().skip(start).position(|line| !line.spans.is_empty()) else {
                continue;
            };
            let is_prompt = matches!(item.body, HistoryBody::Prompt(_));
            let is_injected = matches!(item.body, HistoryBody::Injected(_));
            if is_prompt {
                transcript.prompt_rows.push(start + first);
            }
            if has_times
                && !is_injected
                && (is_prompt || time.clock != last.clock)
                && let Some(line) = transcript.lines.get_mut(start + first)
            {
                line.push(" ".repeat(cx.width - 8 - line_width(line).min(width)), TextTone::Dim);
                line.push(&time.clock, TextTone::Dim);
                last.clock = time.clock;
            }
        }
        transcript.lines = fit_rows(transcript.lines, cx.width);
        transcript
    }
}

/// When an item was written, as it is shown.
#[derive(Debug, Default)]
struct ItemTime {
    /// Eight columns.
    clock: String,
    date: String,
}

impl ItemTime {
    fn parse(at: &str, zone: &TimeZone) -> Option<Self> {
        let time = at.parse::<Timestamp>().ok()?.to_zoned(zone.clone());
        Some(Self { clock: time.strftime("%H:%M:%S").to_string(), date: time.strftime("%A, %-d %B %Y").to_string() })
    }
}

/// Renders the blocks of an item, each with whether it is a call.
fn render_item(item: &HistoryItem, cx: &RenderContext<'_>) -> Vec<(Vec<StyledLine>, bool)> {
    if let HistoryBody::Injected(blocks) = &item.body {
        return vec![(render_injected(&text_of(blocks), cx), false)];
    }
    let render = |block: FeedBlock| (block.render(ViewDetail::Whole, cx), matches!(block, FeedBlock::Call(_)));
    FeedBlock::from_history(item).into_iter().map(render).collect()
}

fn render_injected(text: &str, cx: &RenderContext<'_>) -> Vec<StyledLine> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    let mut rows = text_rows(text, TextTone::Dim, cx.width.saturating_sub(2).max(1), BreakRule::Words);
    let left_out = rows.len().saturating_sub(INJECTED_ROWS);
    if left_out > 1 {
        rows.truncate(INJECTED_ROWS);
        rows.push(StyledLine::of(format!("{} more lines", group_digits(left_out)), TextTone::Dim));
    }
    rows.insert(0, StyledLine::of("Added for the model:", TextTone::Dim));
    indent_lines(rows, 2)
}
