//! What the front end shows: finished lines to print, and the live region below them.

use super::{AppOverlay, LeavingState, TerminalApp};
use crate::composer::VimMode;
use crate::footer::{FooterFacts, render_footer};
use crate::glyphs::RenderContext;
use crate::screen::{CursorPlace, ScreenSize};
use crate::styled_line::{StyledLine, TextTone};
use crate::text_width::{clean_line, truncate_line};

/// Rows below which only the input is shown.
const MIN_FRAMED_ROWS: usize = 8;
/// Queued prompts that are shown; more are counted.
const MAX_QUEUED_ROWS: usize = 3;

/// One picture of the front end.
#[derive(Debug, Default)]
pub struct AppView {
    /// Lines for the scrollback, handed out once.
    pub finished: Vec<StyledLine>,
    pub live: Vec<StyledLine>,
    pub cursor: Option<CursorPlace>,
    /// The whole screen in place of both, while a view takes all of it.
    pub full: Option<Vec<StyledLine>>,
}

/// The part that stays at the lower end: a question, a picker or the input.
struct LowerPart {
    lines: Vec<StyledLine>,
    cursor: Option<(usize, usize)>,
}

impl TerminalApp {
    /// Renders everything for a screen of this size. Finished lines are handed out once.
    pub fn render(&mut self, size: ScreenSize) -> AppView {
        self.columns = size.columns;
        let options = self.options.clone();
        let cx = RenderContext { theme: &options.theme, glyphs: options.glyphs, width: size.columns };
        if let Some(AppOverlay::Pager(view)) = &mut self.overlay {
            let open_asks = usize::from(self.asks.is_open()) + self.asks.waiting();
            return AppView { full: Some(view.render(size.rows, open_asks, &cx)), ..AppView::default() };
        }
        if let Some(AppOverlay::Page(page)) = &mut self.overlay
            && !self.asks.is_open()
            && page.needs_whole_screen(size.rows, &cx)
        {
            return AppView { full: Some(page.render(size.rows, &cx)), ..AppView::default() };
        }
        let mut finished = std::mem::take(&mut self.printed);
        finished.extend(self.feed.take_finished(&cx));
        if let Some(last) = finished.last() {
            self.ends_blank = last.is_blank();
        }
        let lower = self.render_lower_part(size.rows, &cx);
        let room = size.rows.saturating_sub(lower.lines.len());
        let mut live = self.feed.live_lines(&cx);
        live.extend(self.queued_rows(&cx));
        let is_framed = size.rows >= MIN_FRAMED_ROWS;
        let ends_blank = live.is_empty() && self.ends_blank;
        if is_framed && room > live.len() && !ends_blank {
            live.push(StyledLine::blank());
        }
        // What is newest matters most.
        let hidden = live.len().saturating_sub(room);
        live.drain(..hidden);
        let above = live.len();
        live.extend(lower.lines);
        let cursor = lower.cursor.map(|(row, column)| CursorPlace { row: above + row, column });
        AppView { finished, live, cursor, full: None }
    }

    fn queued_rows(&self, cx: &RenderContext<'_>) -> Vec<StyledLine> {
        // A prompt that begins a turn at once never waits.
        if !self.feed.is_busy() {
            return Vec::new();
        }
        let row = |text: &str| {
            let line = StyledLine::of(format!("{} ", cx.glyphs.prompt), TextTone::Dim);
            truncate_line(&line.with(clean_line(text.trim()), TextTone::Dim), cx.width)
        };
        let texts: Vec<String> = self.queue.texts().map(str::to_owned).chain(self.held.texts()).collect();
        let mut rows: Vec<StyledLine> = texts.iter().take(MAX_QUEUED_ROWS).map(|text| row(text)).collect();
        let more = texts.len().saturating_sub(MAX_QUEUED_ROWS);
        if more > 0 {
            rows.push(StyledLine::of(format!("  {more} more queued"), TextTone::Dim));
        }
        rows
    }

    fn render_lower_part(&mut self, rows: usize, cx: &RenderContext<'_>) -> LowerPart {
        let behind = self.asks.waiting();
        if let Some(dialog) = self.asks.open() {
            let view = dialog.render(rows.saturating_sub(2).max(1), cx);
            let mut lines = view.lines;
            if behind > 0 {
                lines.push(StyledLine::of(format!("  {behind} more after this"), TextTone::Dim));
            }
            return LowerPart { lines, cursor: view.cursor };
        }
        match &mut self.overlay {
            Some(AppOverlay::AppPicker(picker)) => {
                let (lines, cursor) = picker.render(rows.saturating_sub(1).max(1), cx);
                return LowerPart { lines, cursor };
            }
            Some(AppOverlay::Page(page)) => {
                return LowerPart { lines: page.render(rows.saturating_sub(1).max(1), cx), cursor: None };
            }
            Some(AppOverlay::Pager(_)) | None => {}
        }
        self.render_input(rows, cx)
    }

    fn render_input(&mut self, rows: usize, cx: &RenderContext<'_>) -> LowerPart {
        let is_framed = rows >= MIN_FRAMED_ROWS;
        let max_rows = if is_framed { (rows / 2).max(3) } else { rows.max(1) };
        let view = self.composer.render(cx.width, max_rows, cx);
        let cursor = view.cursor;
        if !is_framed {
            return LowerPart { lines: view.lines, cursor };
        }
        let rule = || StyledLine::of(cx.glyphs.rule.repeat(cx.width), TextTone::Dim);
        let mut lines = vec![rule()];
        lines.extend(view.lines);
        lines.push(rule());
        if view.popup.is_empty() {
            lines.extend(self.render_footer(cx));
        } else {
            lines.extend(view.popup);
        }
        LowerPart { lines, cursor: cursor.map(|(row, column)| (row + 1, column)) }
    }

    fn render_footer(&self, cx: &RenderContext<'_>) -> Vec<StyledLine> {
        let hint = match self.leaving {
            LeavingState::Closing => Some("Finishing… Ctrl+C leaves at once".to_owned()),
            LeavingState::Staying => self.hint.clone(),
        };
        let pending = self.composer.pending_keys();
        let footer = FooterFacts {
            hint: hint.or_else(|| (!pending.is_empty()).then(|| format!("{pending} …"))),
            is_shell: self.composer.kind() == crate::composer::InputKind::Shell,
            editor_mode: self.composer.vim_mode().map(VimMode::label),
            mode: self.facts.mode,
            queued: if self.feed.is_busy() { self.queue.len() + self.held.len() } else { 0 },
            has_stash: self.composer.has_stash(),
            model: &self.facts.model,
            is_thinking_off: self.thinking_off,
            context_percent: self.facts.context_percent(),
            context_window: self.facts.context_window,
            cost_usd: self.facts.cost_usd,
            is_open: self.facts.is_open,
        };
        let mut lines = vec![render_footer(&footer, cx)];
        if let Some(text) = &self.facts.status_line {
            lines.extend(
                text.lines().map(|line| truncate_line(&StyledLine::of(clean_line(line), TextTone::Dim), cx.width)),
            );
        }
        lines
    }
}
