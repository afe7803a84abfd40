//! The line below the input: mode and hints on the left, model, context and cost on the right.

use gimlet_proto::PermissionMode;

use crate::feed::format_tokens;
use crate::glyphs::RenderContext;
use crate::styled_line::{StyledLine, TextTone};
use crate::text_width::{clean_line, display_width, line_width, truncate_line};

/// Columns below which only mode and context are shown.
const MIN_WIDE_COLUMNS: usize = 60;
/// Part of the context window from which its use is shown as a warning.
const FULL_PERCENT: u64 = 80;

/// Facts of the footer.
#[derive(Debug, Default)]
pub struct FooterFacts<'a> {
    /// Takes the place of the mode.
    pub hint: Option<String>,
    pub is_shell: bool,
    /// Mode of the editor, if it has any.
    pub editor_mode: Option<&'static str>,
    pub mode: PermissionMode,
    pub queued: usize,
    pub has_stash: bool,
    pub model: &'a str,
    pub is_thinking_off: bool,
    pub context_percent: Option<u64>,
    pub context_window: u64,
    pub cost_usd: Option<f64>,
    pub is_open: bool,
}

/// Returns what a mode means, in a few words.
pub fn describe_mode(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Default => "ask before changes",
        PermissionMode::AcceptEdits => "edits allowed",
        PermissionMode::Plan => "plan only, no changes",
        PermissionMode::Auto => "auto: a reviewer decides",
        PermissionMode::DontAsk => "never ask, refuse instead",
        PermissionMode::BypassPermissions => "EVERYTHING ALLOWED",
    }
}

fn mode_tone(mode: PermissionMode) -> TextTone {
    match mode {
        PermissionMode::Default => TextTone::Dim,
        PermissionMode::AcceptEdits | PermissionMode::Plan | PermissionMode::Auto | PermissionMode::DontAsk => {
            TextTone::Accent
        }
        PermissionMode::BypassPermissions => TextTone::Error,
    }
}

/// Returns a model's name without the vendor's prefix.
pub fn short_model(model: &str) -> &str {
    model.strip_prefix("claude-").unwrap_or(model)
}

/// Renders the footer as one line.
pub fn render_footer(footer: &FooterFacts<'_>, cx: &RenderContext<'_>) -> StyledLine {
    let is_wide = cx.width >= MIN_WIDE_COLUMNS;
    let separator = format!(" {} ", cx.glyphs.separator);
    let mut left = StyledLine::plain("  ");
    if let Some(hint) = &footer.hint {
        left.push(hint, TextTone::Warn);
    } else if !footer.is_open {
        left.push("starting", TextTone::Dim);
    } else if footer.is_shell {
        left.push("shell command, run by you", TextTone::Warn);
    } else {
        left.push(describe_mode(footer.mode), mode_tone(footer.mode));
        if is_wide {
            left.push(" (shift+tab)", TextTone::Dim);
        }
    }
    if let Some(mode) = footer.editor_mode {
        left.push(&separator, TextTone::Dim);
        left.push(mode, TextTone::Text);
    }
    if footer.queued > 0 {
        left.push(&separator, TextTone::Dim);
        left.push(format!("{} queued", footer.queued), TextTone::Accent);
    }
    if footer.has_stash && is_wide {
        left.push(&separator, TextTone::Dim);
        left.push("draft put aside (ctrl+s)", TextTone::Dim);
    }
    let right = right_part(footer, is_wide, &separator);
    let gap = cx.width.saturating_sub(line_width(&left) + line_width(&right) + 2);
    if gap == 0 {
        return truncate_line(&left, cx.width);
    }
    left.push(" ".repeat(gap), TextTone::Text);
    right.spans.into_iter().for_each(|span| left.push(span.text, span.style));
    left
}

fn right_part(footer: &FooterFacts<'_>, is_wide: bool, separator: &str) -> StyledLine {
    let mut right = StyledLine::blank();
    let mut facts: Vec<(String, TextTone)> = Vec::new();
    if is_wide && !footer.model.is_empty() {
        let model = clean_line(short_model(footer.model)).into_owned();
        if display_width(&model) <= 30 {
            facts.push((model, TextTone::Dim));
        }
        if footer.is_thinking_off {
            facts.push(("no thinking".to_owned(), TextTone::Dim));
        }
    }
    if let Some(percent) = footer.context_percent {
        let tone = if percent >= FULL_PERCENT { TextTone::Warn } else { TextTone::Dim };
        let text = if is_wide {
            format!("{percent} % of {}", format_tokens(footer.context_window))
        } else {
            format!("{percent} %")
        };
        facts.push((text, tone));
    }
    if is_wide && let Some(cost) = footer.cost_usd {
        facts.push((format!("${cost:.2}"), TextTone::Dim));
    }
    for (index, (text, tone)) in facts.into_iter().enumerate() {
        if index > 0 {
            right.push(separator, TextTone::Dim);
        }
        right.push(text, tone);
    }
    right
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::glyphs::GlyphSet;
    use crate::theme::{ColorDepth, ColorTheme, ScreenBackground};

    fn text(footer: &FooterFacts<'_>, width: usize) -> String {
        let theme = ColorTheme { background: ScreenBackground::Dark, depth: ColorDepth::None };
        render_footer(footer, &RenderContext { theme: &theme, glyphs: &GlyphSet::UNICODE, width }).text()
    }

    #[test]
    fn a_narrow_screen_keeps_mode_and_context() {
        let footer = FooterFacts {
            mode: PermissionMode::AcceptEdits,
            queued: 1,
            model: "claude-sonnet-5-5",
            context_percent: Some(23),
            context_window: 200_000,
            cost_usd: Some(0.14),
            is_open: true,
            ..FooterFacts::default()
        };
        let wide = text(&footer, 100);
        assert!(wide.starts_with("  edits allowed (shift+tab) · 1 queued"), "{wide}");
        assert!(wide.ends_with("sonnet-5-5 · 23 % of 200k · $0.14"), "{wide}");
        assert_eq!(text(&footer, 40), "  edits allowed · 1 queued        23 %");
        assert!(display_width(&text(&footer, 12)) <= 12);
    }
}
