//! Marks that the terminal front end draws with, in Unicode and in ASCII, and what rendering functions are given.

use crate::theme::ColorTheme;

/// Marks of the front end. Widgets take them from here, so that a terminal without Unicode shows plain characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlyphSet {
    /// In front of the input and of a sent prompt.
    pub prompt: &'static str,
    /// In front of the current row of a list.
    pub pointer: &'static str,
    /// In front of a tool call.
    pub call: &'static str,
    pub success: &'static str,
    pub failure: &'static str,
    /// In front of a warning.
    pub warning: &'static str,
    /// Between facts of one line, with a space on either side.
    pub separator: &'static str,
    pub ellipsis: &'static str,
    /// Repeated: the line above and below the input.
    pub rule: &'static str,
    /// In front of output that belongs to a call, and of its last row.
    pub gutter: &'static str,
    pub gutter_end: &'static str,
    /// In front of a row of a tree, and of its last row.
    pub branch: &'static str,
    pub branch_end: &'static str,
    pub todo_pending: &'static str,
    pub todo_active: &'static str,
    pub todo_done: &'static str,
    /// In front of a choice of several.
    pub marked: &'static str,
    pub unmarked: &'static str,
    /// In place of a character of a secret.
    pub masked: &'static str,
    pub bullet: &'static str,
    pub quote: &'static str,
    /// Up and down: directions of a list, tokens sent and received.
    pub up: &'static str,
    pub down: &'static str,
    /// Signs of a diff.
    pub plus: &'static str,
    pub minus: &'static str,
    /// Cells of a bar: full, empty.
    pub cell_full: &'static str,
    pub cell_empty: &'static str,
    /// Cells of a square: of what is used, one mark after the other, of what is free, and of what is kept free.
    pub grid_used: &'static [&'static str],
    pub grid_free: &'static str,
    pub grid_buffer: &'static str,
    /// Heights of a small chart, rising.
    pub chart: &'static [&'static str],
    /// Frames of the activity mark.
    pub spinner: &'static [&'static str],
    /// Lines of a table: horizontal, vertical, crossing.
    pub table_rule: &'static str,
    pub table_bar: &'static str,
    pub table_cross: &'static str,
    /// True if text outside ASCII can be shown.
    pub is_unicode: bool,
}

impl GlyphSet {
    /// Marks for terminals that show Unicode.
    pub const UNICODE: GlyphSet = GlyphSet {
        prompt: "❯",
        pointer: "❯",
        call: "●",
        success: "✓",
        failure: "✗",
        warning: "!",
        separator: "·",
        ellipsis: "…",
        rule: "─",
        gutter: "│",
        gutter_end: "╰",
        branch: "├",
        branch_end: "╰",
        todo_pending: "☐",
        todo_active: "◐",
        todo_done: "☒",
        marked: "[✓]",
        unmarked: "[ ]",
        masked: "•",
        bullet: "•",
        quote: "▎",
        up: "↑",
        down: "↓",
        plus: "+",
        minus: "−",
        cell_full: "█",
        cell_empty: "░",
        grid_used: &["■", "◆", "●", "▲", "▼", "★", "◼"],
        grid_free: "·",
        grid_buffer: "×",
        chart: &["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"],
        spinner: &["·", "✢", "✶", "✻", "✽", "✻", "✶", "✢"],
        table_rule: "─",
        table_bar: "│",
        table_cross: "┼",
        is_unicode: true,
    };

    /// Marks for terminals that show ASCII only.
    pub const ASCII: GlyphSet = GlyphSet {
        prompt: ">",
        pointer: ">",
        call: "*",
        success: "ok",
        failure: "x",
        warning: "!",
        separator: "-",
        ellipsis: "~",
        rule: "-",
        gutter: "|",
        gutter_end: "`",
        branch: "|",
        branch_end: "`",
        todo_pending: "[ ]",
        todo_active: "[>]",
        todo_done: "[x]",
        marked: "[x]",
        unmarked: "[ ]",
        masked: "*",
        bullet: "-",
        quote: "|",
        up: "^",
        down: "v",
        plus: "+",
        minus: "-",
        cell_full: "#",
        cell_empty: ".",
        grid_used: &["#", "o", "+", "%", "@", "&", "*"],
        grid_free: ".",
        grid_buffer: "x",
        chart: &[".", "_", "-", "=", "+", "*", "%", "#"],
        spinner: &["|", "/", "-", "\\"],
        table_rule: "-",
        table_bar: "|",
        table_cross: "+",
        is_unicode: false,
    };
}

/// What content is rendered for.
#[derive(Clone, Copy, Debug)]
pub struct RenderContext<'a> {
    pub theme: &'a ColorTheme,
    pub glyphs: &'a GlyphSet,
    /// Columns of the screen. Rendered lines are at most this wide, wrapped by whoever renders them.
    pub width: usize,
}

#[cfg(test)]
mod tests {
    use super::GlyphSet;
    use crate::text_width::display_width;

    #[test]
    fn marks_have_the_width_that_layouts_count_on() {
        let marks = |glyphs: GlyphSet| {
            let GlyphSet { prompt, pointer, call, separator, ellipsis, rule, gutter, branch, .. } = glyphs;
            [prompt, pointer, call, separator, ellipsis, rule, gutter, branch].map(display_width)
        };
        assert_eq!(marks(GlyphSet::UNICODE), [1; 8]);
        assert_eq!(marks(GlyphSet::ASCII), [1; 8]);
        assert!(GlyphSet::ASCII.spinner.concat().is_ascii() && GlyphSet::ASCII.chart.concat().is_ascii());
    }
}
