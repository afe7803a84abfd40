//! Finished blocks of a conversation, and the blank lines between them.

use std::borrow::Cow;

use gimlet_proto::{Block, BlockKind, HistoryBody, HistoryItem, ModelError, TurnEnd};

use super::call_block::CallBlock;
use super::row_layout::{ViewDetail, fit_rows, format_elapsed, indent_lines, more_lines_row, text_rows};
use crate::glyphs::RenderContext;
use crate::markdown::render_markdown;
use crate::styled_line::{StyledLine, TextStyle, TextTone};
use crate::text_width::{BreakRule, clean_line, clean_text, wrap_line};

/// Columns in front of text.
pub(crate) const TEXT_INDENT: usize = 2;
/// Thinking that took less is not worth a figure.
const MIN_SHOWN_THINKING_MS: u64 = 1_000;
/// Lines of a prompt that are shown at first.
const COMPACT_PROMPT: usize = 40;

/// One finished thing.
#[derive(Clone, Debug)]
pub enum FeedBlock {
    /// What the user wrote.
    Prompt(Vec<Block>),
    /// Text of the model.
    Text(String),
    Thinking {
        text: String,
        elapsed_ms: Option<u64>,
    },
    Call(CallBlock),
    /// A line of the program's own.
    Notice {
        tone: TextTone,
        text: String,
    },
    /// Text of the program's own that is laid out already.
    Preformatted(String),
    /// A request failed for good.
    Failure {
        message: String,
        hint: Option<String>,
    },
    /// The conversation before this was replaced by a summary.
    Compacted,
    /// The summary itself.
    Summary(String),
}

impl FeedBlock {
    /// Returns the block about a request that failed.
    pub fn from_error(error: &ModelError) -> Self {
        let mut message = match error.status {
            Some(status) => format!("{status} {}", error.message),
            None => error.message.clone(),
        };
        if let Some(id) = &error.request_id {
            message.push_str(&format!(" (request {id})"));
        }
        FeedBlock::Failure { message, hint: error.hint.clone() }
    }

    /// Returns the block about the end of a turn; `None` if nothing needs to be said.
    pub fn from_turn_end(end: &TurnEnd) -> Option<Self> {
        let warn = |text: String| Some(FeedBlock::Notice { tone: TextTone::Warn, text });
        match end {
            TurnEnd::Completed | TurnEnd::Command { error: None } | TurnEnd::Deferred { .. } => None,
            TurnEnd::Failed(error) => Some(FeedBlock::from_error(error)),
            TurnEnd::Command { error: Some(problem) } => {
                Some(FeedBlock::Failure { message: problem.clone(), hint: None })
            }
            TurnEnd::MaxTurns(limit) => warn(format!("Stopped after {limit} turns, the limit that was set")),
            TurnEnd::Budget(limit) => {
                warn(format!("Stopped: the session has cost ${limit:.2}, the limit that was set"))
            }
            TurnEnd::Aborted { .. } => warn("Interrupted. Say what to do instead".to_owned()),
            TurnEnd::Refused { explanation } => warn(match explanation {
                Some(explanation) => format!("The model refused to answer: {explanation}"),
                None => "The model refused to answer. Say it differently, or choose another model".to_owned(),
            }),
            TurnEnd::StructuredOutputRetries(count) => {
                warn(format!("The model did not answer in the requested form, {count} times"))
            }
            TurnEnd::HookStopped => warn("A hook stopped the turn".to_owned()),
            TurnEnd::StopHookPrevented => warn("A stop hook ended the turn here".to_owned()),
            TurnEnd::DeferredUnavailable { tool } => {
                warn(format!("The call cannot go on: there is no {tool} any more"))
            }
            TurnEnd::PromptUnusable { reason, .. } => warn(format!("The prompt was not sent: {reason}")),
            TurnEnd::PromptBlocked { reason } => warn(format!("A hook blocked the prompt: {reason}")),
            TurnEnd::Stopped { reason, .. } => warn(format!("Stopped: {reason}")),
        }
    }

    /// Renders the block without blank lines around it. No rows at all if there is nothing to show.
    pub fn render(&self, detail: ViewDetail, cx: &RenderContext<'_>) -> Vec<StyledLine> {
        let inner = RenderContext { width: cx.width.saturating_sub(TEXT_INDENT).max(1), ..*cx };
        let indented = |rows| indent_lines(rows, TEXT_INDENT);
        match self {
            FeedBlock::Prompt(blocks) => render_prompt(blocks, detail, cx),
            FeedBlock::Text(text) => indented(render_markdown(text, &inner)),
            FeedBlock::Thinking { text, elapsed_ms } => indented(render_thinking(text, *elapsed_ms, detail, &inner)),
            FeedBlock::Call(call) => call.render(detail, cx),
            FeedBlock::Notice { tone, text } => indented(text_rows(text, *tone, inner.width, BreakRule::Words)),
            FeedBlock::Preformatted(text) => indented(text_rows(text, TextTone::Text, inner.width, BreakRule::Words)),
            FeedBlock::Failure { message, hint } => render_failure(message, hint.as_deref(), cx),
            FeedBlock::Compacted => vec![render_boundary("The conversation so far was summarized", cx)],
            FeedBlock::Summary(text) => match detail {
                ViewDetail::Compact => Vec::new(),
                ViewDetail::Whole => indented(render_markdown(text, &inner)),
            },
        }
    }

    /// Returns the blocks of one item of a past conversation.
    pub fn from_history(item: &HistoryItem) -> Vec<FeedBlock> {
        match &item.body {
            HistoryBody::Prompt(blocks) => vec![FeedBlock::Prompt(blocks.clone())],
            HistoryBody::Reply(blocks) => blocks.iter().filter_map(from_reply_block).collect(),
            HistoryBody::Call(call) => vec![FeedBlock::Call(CallBlock::from_history(call))],
            HistoryBody::Failure(blocks) => vec![FeedBlock::Failure { message: text_of(blocks), hint: None }],
            HistoryBody::Compacted => vec![FeedBlock::Compacted],
            HistoryBody::Summary(blocks) => vec![FeedBlock::Summary(text_of(blocks))],
            HistoryBody::Note(blocks) => vec![FeedBlock::Notice { tone: TextTone::Dim, text: text_of(blocks) }],
            HistoryBody::Injected(_) => Vec::new(),
        }
    }
}

/// Returns the block for a part of a reply; `None` for parts that are not shown.
pub(crate) fn from_reply_block(block: &Block) -> Option<FeedBlock> {
    match block.kind() {
        BlockKind::Text => Some(FeedBlock::Text(block.as_text()?.into_owned())),
        BlockKind::Thinking => {
            let text = block.as_thinking()?.into_owned();
            if text.trim().is_empty() { None } else { Some(FeedBlock::Thinking { text, elapsed_ms: None }) }
        }
        BlockKind::Fallback => {
            let text = format!("From here on {} answers", block.as_fallback()?);
            Some(FeedBlock::Notice { tone: TextTone::Dim, text })
        }
        BlockKind::ServerToolUse => {
            let text = server_call_name(block)?;
            Some(FeedBlock::Notice { tone: TextTone::Dim, text })
        }
        BlockKind::Compaction => Some(FeedBlock::Compacted),
        BlockKind::RedactedThinking
        | BlockKind::ToolUse
        | BlockKind::ToolResult
        | BlockKind::ServerToolResult
        | BlockKind::Image
        | BlockKind::Document
        | BlockKind::Other => None,
    }
}

/// Returns the name and the first argument of a call that the vendor runs.
fn server_call_name(block: &Block) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(block.json()).ok()?;
    let name = value.get("name")?.as_str()?;
    let argument = value.get("input").and_then(|input| input.as_object()?.values().find_map(|value| value.as_str()));
    Some(match argument {
        Some(argument) => format!("{name}  {argument}"),
        None => name.to_owned(),
    })
}

/// Returns all text of blocks.
pub(crate) fn text_of(blocks: &[Block]) -> String {
    let texts: Vec<Cow<'_, str>> = blocks.iter().filter_map(Block::as_text).collect();
    texts.join("\n")
}

fn render_prompt(blocks: &[Block], detail: ViewDetail, cx: &RenderContext<'_>) -> Vec<StyledLine> {
    let style = TextStyle::of(TextTone::Prompt);
    let mut lines: Vec<StyledLine> = Vec::new();
    for block in blocks {
        match block.kind() {
            BlockKind::Text => {
                let text = block.as_text().unwrap_or_default();
                let text = clean_text(&text);
                lines.extend(text.trim_end().split('\n').map(|line| StyledLine::of(line.trim_end(), style)));
            }
            BlockKind::Image => lines.push(StyledLine::of(super::image_lines::describe_image(block), TextTone::Dim)),
            BlockKind::Document => lines.push(StyledLine::of("[document]", TextTone::Dim)),
            _ => {}
        }
    }
    let width = cx.width.saturating_sub(2).max(1);
    let rows: Vec<StyledLine> = lines.iter().flat_map(|line| wrap_line(line, width, BreakRule::Words)).collect();
    let shown =
        if detail == ViewDetail::Compact && rows.len() > COMPACT_PROMPT + 1 { COMPACT_PROMPT } else { rows.len() };
    let left_out = rows.len() - shown;
    let mut out: Vec<StyledLine> = Vec::with_capacity(shown + 1);
    for (index, row) in rows.into_iter().take(shown).enumerate() {
        let mark = if index == 0 { format!("{} ", cx.glyphs.prompt) } else { "  ".to_owned() };
        out.push(super::row_layout::prefix_line(&mark, style, row));
    }
    if left_out > 0 {
        out.extend(indent_lines(vec![more_lines_row(left_out, cx)], 2));
    }
    out
}

fn render_thinking(text: &str, elapsed_ms: Option<u64>, detail: ViewDetail, cx: &RenderContext<'_>) -> Vec<StyledLine> {
    let title = match elapsed_ms.filter(|elapsed| *elapsed >= MIN_SHOWN_THINKING_MS) {
        Some(elapsed) => format!("Thought for {}", format_elapsed(elapsed)),
        None => "Thought".to_owned(),
    };
    let style = TextStyle::of(TextTone::Dim).italic();
    if detail == ViewDetail::Compact {
        return vec![StyledLine::of(format!("{title} {} ctrl+o", cx.glyphs.separator), style)];
    }
    let mut rows = vec![StyledLine::of(title, style)];
    rows.extend(text_rows(text, style, cx.width, BreakRule::Words));
    rows
}

fn render_failure(message: &str, hint: Option<&str>, cx: &RenderContext<'_>) -> Vec<StyledLine> {
    let hang = crate::text_width::display_width(cx.glyphs.failure) + 1;
    let mut rows = Vec::new();
    for (index, line) in clean_text(message.trim()).split('\n').enumerate() {
        let mark = if index == 0 { format!("{} ", cx.glyphs.failure) } else { " ".repeat(hang) };
        let line = StyledLine::of(mark, TextTone::Error).with(line.trim_end(), TextTone::Error).hanging(hang);
        rows.extend(wrap_line(&line, cx.width, BreakRule::Words));
    }
    if let Some(hint) = hint {
        let line = StyledLine::of(" ".repeat(hang), TextTone::Text).with(clean_line(hint), TextTone::Dim).hanging(hang);
        rows.extend(wrap_line(&line, cx.width, BreakRule::Words));
    }
    rows
}

/// Returns a rule across the screen with a remark in it.
pub(crate) fn render_boundary(remark: &str, cx: &RenderContext<'_>) -> StyledLine {
    let rule = cx.glyphs.rule;
    let mut text = format!("{} {remark} ", rule.repeat(2));
    let used = crate::text_width::display_width(&text);
    text.push_str(&rule.repeat(cx.width.saturating_sub(used)));
    crate::text_width::truncate_line(&StyledLine::of(text, TextTone::Dim), cx.width)
}

/// Decides where a blank line stands between blocks: everywhere but between calls of one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BlockSpacing {
    /// Nothing was shown so far.
    #[default]
    Start,
    /// The last block was a call of one row.
    AfterCallRow,
    AfterBlock,
}

impl BlockSpacing {
    /// Adds a block's rows, with the blank line in front of them if one is due.
    pub(crate) fn push_block(&mut self, rows: Vec<StyledLine>, is_call: bool, out: &mut Vec<StyledLine>) {
        if rows.is_empty() {
            return;
        }
        if self.needs_blank_line(is_call) {
            out.push(StyledLine::blank());
        }
        *self = if is_call && rows.len() == 1 { BlockSpacing::AfterCallRow } else { BlockSpacing::AfterBlock };
        out.extend(rows);
    }

    pub(crate) fn needs_blank_line(self, is_call: bool) -> bool {
        match self {
            BlockSpacing::Start => false,
            BlockSpacing::AfterCallRow => !is_call,
            BlockSpacing::AfterBlock => true,
        }
    }
}

/// Renders a past conversation as blocks: compact as it looked, or whole.
pub fn render_history(items: &[HistoryItem], detail: ViewDetail, cx: &RenderContext<'_>) -> Vec<StyledLine> {
    let mut spacing = BlockSpacing::default();
    let mut out = Vec::new();
    for item in items {
        for block in FeedBlock::from_history(item) {
            let rows = block.render(detail, cx);
            spacing.push_block(rows, matches!(block, FeedBlock::Call(_)), &mut out);
        }
    }
    fit_rows(out, cx.width)
}
