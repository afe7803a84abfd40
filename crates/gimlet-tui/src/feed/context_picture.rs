//! `/context` as a picture: a square of cells, each a hundredth of the window, with a legend beside it.

use gimlet_proto::{ContextKind, ContextUsage};

use super::row_layout::{NARROW, fit_rows, format_tokens, indent_lines, pad_end};
use crate::glyphs::RenderContext;
use crate::styled_line::{StyledLine, TextStyle, TextTone};
use crate::text_width::{clean_line, display_width, line_width};
use crate::theme::ColorDepth;

/// Cells in a row, and rows.
const SIDE: usize = 10;
const CELLS: usize = SIDE * SIDE;
/// Entries of a list of what takes the most room.
const MAX_LISTED: usize = 8;
/// Part of the window, in per cent, from which what could be freed is worth a remark.
const ROOMY_PERCENT: u64 = 50;

/// Tones of the categories, in their order; no two neighbours are alike.
const TONES: [TextTone; 7] = [
    TextTone::Accent,
    TextTone::Keyword,
    TextTone::Literal,
    TextTone::Number,
    TextTone::Link,
    TextTone::TypeName,
    TextTone::Prompt,
];

/// One category in the picture.
struct PictureEntry {
    name: &'static str,
    tokens: u64,
    cells: usize,
    /// Mark of its cells, also without colour.
    mark: &'static str,
    tone: TextTone,
}

/// Renders the window by what fills it.
pub fn render_context(usage: &ContextUsage, cx: &RenderContext<'_>) -> Vec<StyledLine> {
    let entries = entries_of(usage, cx);
    let grid = render_grid(&entries);
    let legend = render_legend(usage, &entries, cx);
    let mut out = if cx.width >= NARROW {
        beside(grid, legend)
    } else {
        let mut rows = grid;
        rows.push(StyledLine::blank());
        rows.extend(legend);
        rows
    };
    out.extend(render_parts(usage, cx));
    fit_rows(out, cx.width)
}

fn entries_of(usage: &ContextUsage, cx: &RenderContext<'_>) -> Vec<PictureEntry> {
    let window = usage.max_tokens.max(1);
    // Colours tell them apart, where there are any.
    let has_marks = cx.theme.depth == ColorDepth::None;
    let mut tones = TONES.iter().cycle();
    let mut marks = cx.glyphs.grid_used.iter().cycle();
    let mut entries: Vec<PictureEntry> = usage
        .categories
        .iter()
        .filter(|category| category.tokens > 0)
        .map(|category| {
            let (mark, tone) = match category.kind {
                ContextKind::Used => {
                    let mark = marks.next().filter(|_| has_marks).or(cx.glyphs.grid_used.first());
                    (mark.copied().unwrap_or_default(), tones.next().copied().unwrap_or_default())
                }
                ContextKind::Free => (cx.glyphs.grid_free, TextTone::Dim),
                ContextKind::Buffer => (cx.glyphs.grid_buffer, TextTone::Dim),
            };
            // What is used at all has a cell.
            let cells = (category.tokens * CELLS as u64 + window / 2) / window;
            let least = u64::from(category.kind == ContextKind::Used);
            PictureEntry {
                name: category.name,
                tokens: category.tokens,
                cells: usize::try_from(cells.max(least)).unwrap_or(CELLS),
                mark,
                tone,
            }
        })
        .collect();
    // The largest makes up for rounding.
    while entries.iter().map(|entry| entry.cells).sum::<usize>() != CELLS {
        let sum: usize = entries.iter().map(|entry| entry.cells).sum();
        let Some(largest) = entries.iter_mut().max_by_key(|entry| entry.cells) else { break };
        largest.cells =
            if sum > CELLS { largest.cells - (sum - CELLS).min(largest.cells) } else { largest.cells + CELLS - sum };
    }
    entries
}

fn render_grid(entries: &[PictureEntry]) -> Vec<StyledLine> {
    let cells: Vec<&PictureEntry> =
        entries.iter().flat_map(|entry| std::iter::repeat_n(entry, entry.cells)).take(CELLS).collect();
    let row = |cells: &[&PictureEntry]| {
        let mut line = StyledLine::plain("  ");
        for cell in cells {
            line.push(format!("{} ", cell.mark), cell.tone);
        }
        line
    };
    cells.chunks(SIDE).map(row).collect()
}

fn render_legend(usage: &ContextUsage, entries: &[PictureEntry], cx: &RenderContext<'_>) -> Vec<StyledLine> {
    let window = usage.max_tokens.max(1);
    let head = format!(
        "{} of {} tokens ({})",
        format_tokens(usage.total_tokens),
        format_tokens(usage.max_tokens),
        format_percent(usage.total_tokens, window)
    );
    let is_narrow = cx.width < NARROW;
    let model = StyledLine::of(clean_line(&usage.model), TextStyle::of(TextTone::Text).bold());
    let mut rows = if is_narrow {
        vec![model, StyledLine::plain(head)]
    } else {
        vec![model.with(format!("  {head}"), TextTone::Text)]
    };
    rows.push(StyledLine::blank());
    let name_width = entries.iter().map(|entry| display_width(entry.name)).max().unwrap_or(0);
    for entry in entries {
        let (tokens, percent) = (format_tokens(entry.tokens), format_percent(entry.tokens, window));
        rows.push(
            StyledLine::of(format!("{} ", entry.mark), entry.tone)
                .with(pad_end(entry.name, name_width), TextTone::Text)
                .with(format!("  {tokens:>6}  {percent:>7}"), TextTone::Dim),
        );
    }
    if usage.last_request.is_none() {
        rows.push(StyledLine::of("Estimates: no request was sent yet", TextTone::Dim));
    }
    if is_narrow { indent_lines(fit_rows(rows, cx.width.saturating_sub(2)), 2) } else { rows }
}

/// Puts the legend at the right of the grid.
fn beside(grid: Vec<StyledLine>, legend: Vec<StyledLine>) -> Vec<StyledLine> {
    let column = grid.iter().map(line_width).max().unwrap_or(0) + 3;
    let rows = grid.len().max(legend.len());
    let (mut grid, mut legend) = (grid.into_iter(), legend.into_iter());
    (0..rows)
        .map(|_| {
            let mut line = grid.next().unwrap_or_default();
            if let Some(right) = legend.next().filter(|right| !right.is_blank()) {
                line.push(" ".repeat(column.saturating_sub(line_width(&line))), TextTone::Text);
                right.spans.into_iter().for_each(|span| line.push(span.text, span.style));
            }
            line
        })
        .collect()
}

/// Returns what takes the most room within the categories, and what could be done about it.
fn render_parts(usage: &ContextUsage, cx: &RenderContext<'_>) -> Vec<StyledLine> {
    let messages = &usage.messages;
    let of_messages = [
        ("Your messages", messages.user),
        ("Answers", messages.assistant),
        ("Tool calls", messages.tool_calls),
        ("Tool results", messages.tool_results),
    ];
    let mut out = Vec::new();
    let messages = of_messages.iter().map(|(name, tokens)| ((*name).to_owned(), *tokens));
    push_list("Messages", messages.collect(), cx, &mut out);
    let files = usage.memory_files.iter().map(|file| (format!("{}  {}", file.path, file.scope), file.tokens));
    push_list("Memory files", files.collect(), cx, &mut out);
    let tools = usage.tools.iter().map(|tool| (tool.name.clone(), tool.tokens));
    push_list("Tools", tools.collect(), cx, &mut out);
    let percent = usage.total_tokens * 100 / usage.max_tokens.max(1);
    if percent >= ROOMY_PERCENT {
        out.push(StyledLine::blank());
        out.push(StyledLine::of("  /compact goes on from a summary, /clear begins anew", TextTone::Dim));
    }
    out
}

fn push_list(title: &str, mut entries: Vec<(String, u64)>, cx: &RenderContext<'_>, out: &mut Vec<StyledLine>) {
    entries.retain(|(_, tokens)| *tokens > 0);
    if entries.is_empty() {
        return;
    }
    entries.sort_by_key(|(_, tokens)| std::cmp::Reverse(*tokens));
    out.push(StyledLine::blank());
    out.push(StyledLine::of(format!("  {title}"), TextStyle::default().bold()));
    let shown = if entries.len() > MAX_LISTED + 1 { MAX_LISTED } else { entries.len() };
    for (name, tokens) in entries.iter().take(shown) {
        let line = StyledLine::of(format!("    {:>6}  ", format_tokens(*tokens)), TextTone::Dim);
        out.push(crate::text_width::truncate_line(&line.with(clean_line(name), TextTone::Text), cx.width));
    }
    let rest = entries.get(shown..).unwrap_or_default();
    if !rest.is_empty() {
        let tokens: u64 = rest.iter().map(|(_, tokens)| tokens).sum();
        let text = format!("    {:>6}  {} more", format_tokens(tokens), rest.len());
        out.push(StyledLine::of(text, TextTone::Dim));
    }
}

fn format_percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use gimlet_proto::{ContextCategory, ContextFile, ContextMessages, ContextTool, TokenUsage};

    use super::*;
    use crate::feed::tests::{context, show};
    use crate::glyphs::GlyphSet;

    fn usage() -> ContextUsage {
        let category = |name, kind, tokens| ContextCategory { name, kind, tokens };
        ContextUsage {
            model: "claude-sonnet-5-5".into(),
            max_tokens: 200_000,
            model_window: 200_000,
            compaction_limit: Some(167_000),
            total_tokens: 108_500,
            categories: vec![
                category("System prompt", ContextKind::Used, 3_100),
                category("System tools", ContextKind::Used, 12_400),
                category("MCP tools", ContextKind::Used, 0),
                category("Memory files", ContextKind::Used, 900),
                category("Messages", ContextKind::Used, 92_100),
                category("Free space", ContextKind::Free, 58_500),
                category("Compaction buffer", ContextKind::Buffer, 33_000),
            ],
            tools: (1..=12).map(|index| ContextTool { name: format!("Tool{index}"), tokens: index * 150 }).collect(),
            memory_files: vec![ContextFile { path: "CLAUDE.md".into(), scope: "project".into(), tokens: 900 }],
            messages: ContextMessages { user: 1_200, assistant: 20_900, tool_calls: 10_000, tool_results: 60_000 },
            last_request: Some(TokenUsage::default()),
        }
    }

    #[test]
    fn the_window_is_a_square_with_a_legend() {
        insta::assert_snapshot!("context_80", show(&render_context(&usage(), &context(80)), 80));
        insta::assert_snapshot!("context_40", show(&render_context(&usage(), &context(40)), 40));
    }

    #[test]
    fn every_cell_is_drawn_whatever_the_figures_are() {
        let mut odd = usage();
        for (tokens, max) in [(0, 0), (1, 200_000), (500_000, 200_000), (199_999, 200_000)] {
            odd.max_tokens = max;
            odd.categories.iter_mut().for_each(|category| category.tokens = tokens / 7);
            let cx = RenderContext { glyphs: &GlyphSet::ASCII, ..context(80) };
            let entries = entries_of(&odd, &cx);
            let cells: usize = entries.iter().map(|entry| entry.cells).sum();
            assert!(cells == CELLS || entries.is_empty(), "{tokens} of {max}: {cells}");
            assert!(show(&render_context(&odd, &cx), 80).is_ascii());
        }
    }
}
