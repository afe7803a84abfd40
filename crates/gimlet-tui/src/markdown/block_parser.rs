//! Recognizes the blocks of markdown line by line, and writes the rows of what a line finishes.

use super::inline_text::{InlineText, close_open_marks, render_inline};
use super::line_kind::{
    CodeFence, ListMarker, begins_block, is_first_number, is_thematic_break, leading_spaces, parse_fence,
    parse_heading, parse_list_marker, parse_table_rule, parse_underline, split_table_cells, strip_quote_sign,
};
use super::row_writer::{ContainerBlock, ContainerKind, RowPrefix, TaskMark, push_blank_row, push_line, push_rows};
use super::table_layout::{CellAlignment, TableLayout};
use crate::glyphs::RenderContext;
use crate::highlight::CodeHighlighter;
use crate::styled_line::{StyledLine, TextStyle, TextTone};
use crate::text_width::BreakRule;

/// Bytes of a paragraph that are held because of an open mark.
const MAX_PARAGRAPH: usize = 4096;
/// Rows and bytes of a table that are held until the widths of its columns are fixed.
const MAX_TABLE_ROWS: usize = 100;
const MAX_TABLE: usize = 16 * 1024;
/// Nesting that is followed; deeper marks are text.
const MAX_DEPTH: usize = 16;
/// Columns in front of code.
const CODE_INDENT: usize = 2;
/// Spaces that begin a line of code without a fence.
const INDENTED_CODE: usize = 4;

/// Part of a line of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinePart {
    Start,
    /// Goes on with a line that was too long to be held.
    Rest,
}

/// Parser between two lines.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockParser {
    containers: Vec<ContainerBlock>,
    leaf: LeafBlock,
    /// True if a blank line came after the last row.
    is_after_blank: bool,
    last: LastBlock,
    /// True for the rendering of what may still change: open marks count as closed.
    pub(super) is_live: bool,
}

/// Block without blocks inside that may go on.
#[derive(Clone, Debug, Default)]
enum LeafBlock {
    #[default]
    None,
    Paragraph(ParagraphBlock),
    Code(CodeBlock),
    Table(Box<TableBlock>),
}

#[derive(Clone, Debug, Default)]
struct ParagraphBlock {
    /// Lines that later text may change.
    held: Vec<String>,
    held_bytes: usize,
    /// True once rows of it were written.
    is_started: bool,
}

#[derive(Clone, Debug)]
struct CodeBlock {
    /// `None` for code that is indented.
    fence: Option<CodeFence>,
    highlighter: Option<CodeHighlighter>,
    is_started: bool,
    /// Blank lines that count only if more code follows.
    blank_lines: usize,
}

#[derive(Clone, Debug)]
struct TableBlock {
    head: Vec<StyledLine>,
    alignments: Vec<CellAlignment>,
    rows: Vec<Vec<StyledLine>>,
    bytes: usize,
    /// Set once rows were written.
    layout: Option<TableLayout>,
}

/// Kind of the last block that was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LastBlock {
    #[default]
    None,
    Text,
    Heading,
    /// Code, a table, a rule: set off by blank lines on both sides.
    SetOff,
}

impl BlockParser {
    /// Takes a line without its line feed.
    pub(super) fn take_line(&mut self, line: &str, part: LinePart, cx: &RenderContext<'_>, out: &mut Vec<StyledLine>) {
        if part == LinePart::Rest {
            return self.take_rest_of_line(line, cx, out);
        }
        let (matched, rest) = self.match_containers(line);
        if matched < self.containers.len() {
            let is_lazy = matches!(&self.leaf, LeafBlock::Paragraph(_))
                && !rest.trim().is_empty()
                && !begins_block(rest)
                && parse_list_marker(rest.trim_start()).is_none();
            if is_lazy {
                return self.extend_paragraph(rest, cx, out);
            }
            self.close_leaf(cx, out);
            self.close_containers(matched, cx, out);
        }
        if let LeafBlock::Code(code) = &self.leaf {
            match &code.fence {
                Some(fence) if fence.is_closed_by(rest) => return self.close_leaf(cx, out),
                Some(_) => return self.take_code_line(rest, cx, out),
                None if rest.trim().is_empty() || leading_spaces(rest) >= INDENTED_CODE => {
                    return self.take_code_line(rest.get(INDENTED_CODE..).unwrap_or_default(), cx, out);
                }
                None => self.close_leaf(cx, out),
            }
        }
        if rest.trim().is_empty() {
            self.close_leaf(cx, out);
            self.is_after_blank = true;
            return;
        }
        let rest = self.open_containers(rest, cx, out);
        self.take_leaf_line(rest, cx, out);
    }

    /// Ends all blocks.
    pub(super) fn finish(&mut self, cx: &RenderContext<'_>, out: &mut Vec<StyledLine>) {
        self.close_leaf(cx, out);
        self.close_containers(0, cx, out);
    }

    fn take_rest_of_line(&mut self, rest: &str, cx: &RenderContext<'_>, out: &mut Vec<StyledLine>) {
        match &self.leaf {
            LeafBlock::Code(_) => self.take_code_line(rest, cx, out),
            LeafBlock::None | LeafBlock::Paragraph(_) => self.extend_paragraph(rest, cx, out),
            LeafBlock::Table(_) => {
                self.close_leaf(cx, out);
                self.extend_paragraph(rest, cx, out);
            }
        }
    }

    /// Returns how many containers go on with this line, and the line inside them.
    fn match_containers<'l>(&self, line: &'l str) -> (usize, &'l str) {
        let mut rest = line;
        for (index, container) in self.containers.iter().enumerate() {
            match &container.kind {
                ContainerKind::Quote => match strip_quote_sign(rest) {
                    Some(inner) => rest = inner,
                    None => return (index, rest),
                },
                ContainerKind::Item { marker_column, content_column, .. } => {
                    let indent = leading_spaces(rest);
                    if indent == rest.len() || indent >= *content_column {
                        rest = rest.get(*content_column..).unwrap_or_default();
                    } else if indent >= marker_column + 2 {
                        // Many write two spaces below a number.
                        rest = rest.get(indent..).unwrap_or_default();
                    } else {
                        return (index, rest);
                    }
                }
            }
        }
        (self.containers.len(), rest)
    }

    /// Opens the quotes and items that begin in this line, and returns the rest.
    fn open_containers<'l>(&mut self, line: &'l str, cx: &RenderContext<'_>, out: &mut Vec<StyledLine>) -> &'l str {
        let mut rest = line;
        while self.containers.len() < MAX_DEPTH {
            if let Some(inner) = strip_quote_sign(rest) {
                self.close_leaf(cx, out);
                self.containers.push(ContainerBlock::new(ContainerKind::Quote));
                rest = inner;
                continue;
            }
            let indent = leading_spaces(rest);
            let text = rest.get(indent..).unwrap_or_default();
            let Some(marker) = parse_list_marker(text) else { break };
            if indent >= INDENTED_CODE || is_thematic_break(rest) || !self.may_begin_item(&marker, text) {
                break;
            }
            self.close_leaf(cx, out);
            self.containers.push(ContainerBlock::new(ContainerKind::Item {
                marker_column: indent,
                content_column: indent + marker.length.max(2),
                number: marker.number,
                task: None,
            }));
            rest = text.get(marker.length..).unwrap_or_default();
        }
        rest
    }

    /// A paragraph is not interrupted by what is hardly meant as a list.
    fn may_begin_item(&self, marker: &ListMarker, text: &str) -> bool {
        let LeafBlock::Paragraph(paragraph) = &self.leaf else { return true };
        let is_underline = parse_underline(text).is_some() && !paragraph.held.is_empty();
        !marker.is_empty && !is_underline && marker.number.as_deref().is_none_or(is_first_number)
    }

    fn take_leaf_line(&mut self, line: &str, cx: &RenderContext<'_>, out: &mut Vec<StyledLine>) {
        match &mut self.leaf {
            LeafBlock::Table(_) if !begins_block(line) => return self.take_table_row(line, cx, out),
            LeafBlock::Paragraph(paragraph) => {
                if let Some(level) = parse_underline(line).filter(|_| !paragraph.held.is_empty()) {
                    let title = paragraph.held.join(" ");
                    self.leaf = LeafBlock::None;
                    return self.write_heading(level, &title, cx, out);
                }
                if self.begin_table(line, cx, out) {
                    return;
                }
                if !begins_block(line) {
                    return self.extend_paragraph(line, cx, out);
                }
            }
            LeafBlock::None | LeafBlock::Code(_) | LeafBlock::Table(_) => {}
        }
        self.close_leaf(cx, out);
        if line.trim().is_empty() {
            // An item that begins with its marker alone.
            return;
        }
        if let Some((level, title)) = parse_heading(line) {
            self.write_heading(level, title, cx, out);
        } else if is_thematic_break(line) {
            self.begin_leaf(LastBlock::SetOff, cx, out);
            let room = cx.width.saturating_sub(RowPrefix::for_containers(&self.containers, cx).width());
            let rule = StyledLine::of(cx.glyphs.rule.repeat(room), TextTone::Dim);
            push_rows(vec![rule], &mut self.containers, cx, out);
        } else if let Some(fence) = parse_fence(line) {
            let highlighter = CodeHighlighter::for_language(&fence.language);
            self.leaf =
                LeafBlock::Code(CodeBlock { fence: Some(fence), highlighter, is_started: false, blank_lines: 0 });
        } else if leading_spaces(line) >= INDENTED_CODE {
            self.leaf =
                LeafBlock::Code(CodeBlock { fence: None, highlighter: None, is_started: false, blank_lines: 0 });
            self.take_code_line(line.get(INDENTED_CODE..).unwrap_or_default(), cx, out);
        } else {
            let line = self.take_task_mark(line);
            self.extend_paragraph(line, cx, out);
        }
    }

    /// Ends containers beyond a number. An item without content still has its marker.
    fn close_containers(&mut self, kept: usize, cx: &RenderContext<'_>, out: &mut Vec<StyledLine>) {
        let has_bare_item = self
            .containers
            .iter()
            .skip(kept)
            .any(|container| !container.is_started && matches!(container.kind, ContainerKind::Item { .. }));
        if has_bare_item {
            self.begin_leaf(LastBlock::Text, cx, out);
            push_rows(vec![StyledLine::blank()], &mut self.containers, cx, out);
        }
        self.containers.truncate(kept);
    }

    /// Writes the blank row before a block if one is due.
    fn begin_leaf(&mut self, kind: LastBlock, cx: &RenderContext<'_>, out: &mut Vec<StyledLine>) {
        let is_inside = self.containers.iter().any(|container| matches!(container.kind, ContainerKind::Item { .. }));
        let is_set_off = !is_inside && (kind == LastBlock::SetOff || self.last == LastBlock::SetOff);
        let is_due = self.is_after_blank || is_set_off || kind == LastBlock::Heading;
        if is_due && self.last != LastBlock::None {
            push_blank_row(&self.containers, cx, out);
        }
        self.is_after_blank = false;
        self.last = kind;
    }

    fn write_heading(&mut self, level: usize, title: &str, cx: &RenderContext<'_>, out: &mut Vec<StyledLine>) {
        self.begin_leaf(LastBlock::Heading, cx, out);
        let style = TextStyle::of(TextTone::Heading).bold();
        let style = if level == 1 { style.underline() } else { style };
        let style = if level > 2 { style.italic() } else { style };
        for line in self.render_text(title, style).lines {
            push_line(&line, BreakRule::Words, &mut self.containers, cx, out);
        }
    }

    fn render_text(&self, text: &str, style: TextStyle) -> InlineText {
        if self.is_live {
            let mut text = text.to_owned();
            close_open_marks(&mut text);
            return render_inline(&text, style);
        }
        render_inline(text, style)
    }

    /// Adds a line to the paragraph, or begins one. Lines before it that can no longer change are written.
    fn extend_paragraph(&mut self, line: &str, cx: &RenderContext<'_>, out: &mut Vec<StyledLine>) {
        let line = line.trim();
        let mut paragraph = match std::mem::take(&mut self.leaf) {
            LeafBlock::Paragraph(paragraph) => paragraph,
            LeafBlock::None | LeafBlock::Code(_) | LeafBlock::Table(_) => ParagraphBlock::default(),
        };
        if !paragraph.held.is_empty() {
            let rendered = render_inline(&paragraph.held.join("\n"), TextStyle::default());
            if rendered.is_settled || paragraph.held_bytes + line.len() > MAX_PARAGRAPH {
                self.write_paragraph(&mut paragraph, rendered, cx, out);
            }
        }
        paragraph.held_bytes += line.len();
        paragraph.held.push(line.to_owned());
        self.leaf = LeafBlock::Paragraph(paragraph);
    }

    fn write_paragraph(
        &mut self,
        paragraph: &mut ParagraphBlock,
        rendered: InlineText,
        cx: &RenderContext<'_>,
        out: &mut Vec<StyledLine>,
    ) {
        if !paragraph.is_started {
            self.begin_leaf(LastBlock::Text, cx, out);
        }
        for line in rendered.lines {
            push_line(&line, BreakRule::Words, &mut self.containers, cx, out);
        }
        paragraph.is_started = true;
        paragraph.held.clear();
        paragraph.held_bytes = 0;
    }

    fn take_code_line(&mut self, line: &str, cx: &RenderContext<'_>, out: &mut Vec<StyledLine>) {
        let LeafBlock::Code(mut code) = std::mem::take(&mut self.leaf) else { return };
        // A fence that is indented takes as much from its lines.
        let indent = code.fence.as_ref().map_or(0, |fence| fence.indent).min(leading_spaces(line));
        let line = line.get(indent..).unwrap_or_default().trim_end();
        if line.is_empty() {
            code.blank_lines += 1;
        } else {
            if !code.is_started {
                code.blank_lines = 0;
                self.begin_leaf(LastBlock::SetOff, cx, out);
            }
            code.is_started = true;
            for _ in 0..std::mem::take(&mut code.blank_lines) {
                push_rows(vec![StyledLine::blank()], &mut self.containers, cx, out);
            }
            let text = match &mut code.highlighter {
                Some(highlighter) => highlighter.highlight_line(line),
                None => StyledLine::plain(line),
            };
            self.write_code_line(&text, cx, out);
        }
        self.leaf = LeafBlock::Code(code);
    }

    fn write_code_line(&mut self, line: &StyledLine, cx: &RenderContext<'_>, out: &mut Vec<StyledLine>) {
        let prefix = RowPrefix::for_containers(&self.containers, cx).width();
        let room = cx.width.saturating_sub(prefix);
        let indent = if room > 4 * CODE_INDENT { CODE_INDENT } else { 0 };
        let rows = crate::text_width::wrap_line(line, (room - indent).max(1), BreakRule::Cells);
        let indented = rows.into_iter().map(|row| {
            let mut indented = StyledLine::of(" ".repeat(indent), TextTone::Text);
            row.spans.iter().for_each(|span| indented.push(&span.text, span.style));
            indented
        });
        push_rows(indented.collect(), &mut self.containers, cx, out);
    }

    /// Begins a table if this line is the rule below a head with as many columns. Returns true if so.
    fn begin_table(&mut self, line: &str, cx: &RenderContext<'_>, out: &mut Vec<StyledLine>) -> bool {
        let Some(alignments) = parse_table_rule(line) else { return false };
        let LeafBlock::Paragraph(paragraph) = &self.leaf else { return false };
        let Some(head) = paragraph.held.last().filter(|head| head.contains('|')) else { return false };
        let cells = split_table_cells(head);
        if cells.len() != alignments.len() {
            return false;
        }
        let head = cells.iter().map(|cell| self.render_cell(cell)).collect();
        if let LeafBlock::Paragraph(paragraph) = &mut self.leaf {
            paragraph.held.pop();
        }
        self.close_leaf(cx, out);
        self.leaf =
            LeafBlock::Table(Box::new(TableBlock { head, alignments, rows: Vec::new(), bytes: 0, layout: None }));
        true
    }

    /// Renders the text of a cell as one line.
    fn render_cell(&self, text: &str) -> StyledLine {
        let mut cell = StyledLine::blank();
        for (index, line) in self.render_text(text, TextStyle::default()).lines.iter().enumerate() {
            if index > 0 {
                cell.push(" ", TextTone::Text);
            }
            line.spans.iter().for_each(|span| cell.push(&span.text, span.style));
        }
        cell
    }

    fn take_table_row(&mut self, line: &str, cx: &RenderContext<'_>, out: &mut Vec<StyledLine>) {
        let LeafBlock::Table(mut table) = std::mem::take(&mut self.leaf) else { return };
        let mut texts = split_table_cells(line);
        if texts.len() > table.head.len() {
            let rest = texts.split_off(table.head.len().saturating_sub(1));
            texts.push(rest.join(" | "));
        }
        let mut cells: Vec<StyledLine> = texts.iter().map(|cell| self.render_cell(cell)).collect();
        cells.resize_with(table.head.len(), StyledLine::blank);
        table.bytes += line.len();
        table.rows.push(cells);
        if table.layout.is_some() || table.rows.len() >= MAX_TABLE_ROWS || table.bytes > MAX_TABLE {
            self.write_table(&mut table, cx, out);
        }
        self.leaf = LeafBlock::Table(table);
    }

    /// Writes the rows of a table that are held; the first ones with its head.
    fn write_table(&mut self, table: &mut TableBlock, cx: &RenderContext<'_>, out: &mut Vec<StyledLine>) {
        let is_first = table.layout.is_none();
        if is_first {
            self.begin_leaf(LastBlock::SetOff, cx, out);
        }
        let prefix = RowPrefix::for_containers(&self.containers, cx).width();
        let inner = RenderContext { width: cx.width.saturating_sub(prefix).max(1), ..*cx };
        let layout = table.layout.take().unwrap_or_else(|| TableLayout::fit(&table.head, &table.rows, &inner));
        if is_first {
            push_rows(layout.render_head(&table.head, &table.alignments, &inner), &mut self.containers, cx, out);
        }
        for (index, row) in std::mem::take(&mut table.rows).iter().enumerate() {
            let rows = layout.render_row(&table.head, row, &table.alignments, is_first && index == 0, &inner);
            push_rows(rows, &mut self.containers, cx, out);
        }
        table.layout = Some(layout);
    }

    fn close_leaf(&mut self, cx: &RenderContext<'_>, out: &mut Vec<StyledLine>) {
        match std::mem::take(&mut self.leaf) {
            LeafBlock::Paragraph(mut paragraph) if !paragraph.held.is_empty() => {
                let rendered = self.render_text(&paragraph.held.join("\n"), TextStyle::default());
                self.write_paragraph(&mut paragraph, rendered, cx, out);
            }
            LeafBlock::Table(mut table) if table.layout.is_none() || !table.rows.is_empty() => {
                self.write_table(&mut table, cx, out);
            }
            LeafBlock::None | LeafBlock::Paragraph(_) | LeafBlock::Code(_) | LeafBlock::Table(_) => {}
        }
    }

    /// Takes the box off the first line of an item that is a task.
    fn take_task_mark<'l>(&mut self, line: &'l str) -> &'l str {
        let text = line.trim_start();
        let mark = match text.get(..4) {
            Some("[ ] ") => TaskMark::Open,
            Some("[x] " | "[X] ") => TaskMark::Done,
            _ => return line,
        };
        match self.containers.last_mut() {
            Some(ContainerBlock { kind: ContainerKind::Item { task, .. }, is_started: false }) => {
                *task = Some(mark);
                text.get(4..).unwrap_or_default()
            }
            _ => line,
        }
    }
}
