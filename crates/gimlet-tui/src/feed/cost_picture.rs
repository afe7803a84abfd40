//! `/cost` as a picture: a bar for each model, and how the cost went from turn to turn.

use gimlet_proto::ModelUsage;

use super::row_layout::{NARROW, format_elapsed, format_tokens, pad_end};
use crate::glyphs::RenderContext;
use crate::styled_line::{StyledLine, TextStyle, TextTone};
use crate::text_width::{BreakRule, clean_line, display_width, truncate_end, truncate_line, wrap_line};

/// Columns of the longest bar.
const MAX_BAR: usize = 30;
/// Columns of a model's name.
const MAX_NAME: usize = 28;

/// What a session used so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionSpending {
    /// By model, since the session began.
    pub by_model: Vec<ModelUsage>,
    /// Cost of the last turns in dollars, the newest last; `None` where a price is unknown.
    pub turns: Vec<Option<f64>>,
    /// Time in which requests were under way, and in which turns ran.
    pub api_ms: u64,
    pub turn_ms: u64,
    pub lines_added: u64,
    pub lines_removed: u64,
}

/// Time that is worth a figure.
const MIN_SHOWN_MS: u64 = 1_000;
/// Turns whose cost is kept.
const MAX_TURNS: usize = 60;

impl SessionSpending {
    /// Adds a turn that cost this much.
    pub fn add_turn(&mut self, cost_usd: Option<f64>, api_ms: u64, turn_ms: u64) {
        if self.turns.len() >= MAX_TURNS {
            self.turns.remove(0);
        }
        self.turns.push(cost_usd);
        self.api_ms += api_ms;
        self.turn_ms += turn_ms;
    }

    /// Returns the cost of all models; `None` if a price is unknown.
    pub fn total_usd(&self) -> Option<f64> {
        self.by_model.iter().map(|model| model.cost_usd).sum()
    }
}

/// Renders what a session used.
pub fn render_cost(spending: &SessionSpending, cx: &RenderContext<'_>) -> Vec<StyledLine> {
    if spending.by_model.is_empty() {
        return vec![StyledLine::of("  No request was sent yet.", TextTone::Dim)];
    }
    let mut out = vec![render_total(spending), StyledLine::blank()];
    out.extend(render_models(&spending.by_model, cx));
    out.extend(render_turns(&spending.turns, cx));
    out.push(StyledLine::blank());
    let facts = [
        (spending.turn_ms >= MIN_SHOWN_MS).then(|| {
            let (all, api) = (format_elapsed(spending.turn_ms), format_elapsed(spending.api_ms));
            format!("turns took {all}, requests {api}")
        }),
        (spending.lines_added + spending.lines_removed > 0).then(|| {
            let glyphs = cx.glyphs;
            format!("lines {}{} {}{}", glyphs.plus, spending.lines_added, glyphs.minus, spending.lines_removed)
        }),
        Some("an estimate from list prices; what counts is your provider's bill".to_owned()),
    ];
    for fact in facts.into_iter().flatten() {
        out.push(StyledLine::of(format!("  {fact}"), TextTone::Dim).hanging(2));
    }
    out.iter().flat_map(|line| wrap_line(line, cx.width, BreakRule::Words)).collect()
}

fn render_total(spending: &SessionSpending) -> StyledLine {
    let unpriced: Vec<_> = spending
        .by_model
        .iter()
        .filter(|model| model.cost_usd.is_none())
        .map(|model| clean_line(&model.model))
        .collect();
    let line = StyledLine::plain("  ");
    match spending.total_usd() {
        Some(total) => line.with(format_dollars(total), TextStyle::default().bold()).with("  so far", TextTone::Dim),
        None => line
            .with("unknown cost", TextStyle::of(TextTone::Warn).bold())
            .with(format!("  no price is known for {}", unpriced.join(", ")), TextTone::Dim),
    }
}

fn render_models(by_model: &[ModelUsage], cx: &RenderContext<'_>) -> Vec<StyledLine> {
    let most_usd = by_model.iter().filter_map(|model| model.cost_usd).fold(0.0, f64::max);
    let name = |model: &ModelUsage| truncate_end(&clean_line(&model.model), MAX_NAME.min(cx.width / 2)).into_owned();
    let name_width = by_model.iter().map(|model| display_width(&name(model))).max().unwrap_or(0);
    let room = cx.width.saturating_sub(name_width + 16).clamp(1, MAX_BAR);
    let mut rows = Vec::new();
    for model in by_model {
        let part = match model.cost_usd {
            Some(cost) if most_usd > 0.0 => cost / most_usd,
            _ => 0.0,
        };
        let filled = ((part * room as f64).round() as usize).clamp(usize::from(part > 0.0), room);
        let cost = model.cost_usd.map_or("unknown".to_owned(), format_dollars);
        let bar = cx.glyphs.cell_full.repeat(filled);
        let row = StyledLine::plain(format!("  {}  ", pad_end(&name(model), name_width)))
            .with(bar, TextTone::Accent)
            .with(cx.glyphs.cell_empty.repeat(room - filled), TextTone::Dim)
            .with(format!("  {cost}"), TextTone::Text);
        rows.push(truncate_line(&row, cx.width));
        let usage = &model.usage;
        let parts = [
            ("in", usage.input_tokens),
            ("out", usage.output_tokens),
            ("from cache", usage.cache_read_input_tokens),
            ("into cache", usage.cache_creation_input_tokens),
        ];
        let parts = parts.map(|(what, tokens)| format!("{} {what}", format_tokens(tokens)));
        let text = parts.join(&format!(" {} ", cx.glyphs.separator));
        let indent = if cx.width < NARROW { 4 } else { name_width + 4 };
        rows.push(truncate_line(&StyledLine::of(format!("{}{text}", " ".repeat(indent)), TextTone::Dim), cx.width));
    }
    rows
}

fn render_turns(turns: &[Option<f64>], cx: &RenderContext<'_>) -> Vec<StyledLine> {
    let most = turns.iter().filter_map(|turn| *turn).fold(0.0, f64::max);
    if turns.len() < 2 || most <= 0.0 {
        return Vec::new();
    }
    let title = "  by turn  ";
    let room = cx.width.saturating_sub(title.len() + 12).max(1);
    let shown = turns.get(turns.len().saturating_sub(room)..).unwrap_or_default();
    let heights = cx.glyphs.chart;
    let bar = |turn: &Option<f64>| match turn {
        Some(cost) => {
            let height = (cost / most * heights.len() as f64).ceil() as usize;
            heights.get(height.clamp(1, heights.len()) - 1).copied().unwrap_or_default()
        }
        None => " ",
    };
    let chart: String = shown.iter().map(bar).collect();
    let row = StyledLine::of(title, TextTone::Dim)
        .with(chart, TextTone::Accent)
        .with(format!("  top {}", format_dollars(most)), TextTone::Dim);
    vec![StyledLine::blank(), truncate_line(&row, cx.width)]
}

/// Returns an amount with cents, and small amounts with a hundredth of a cent.
fn format_dollars(amount: f64) -> String {
    if amount > 0.0 && amount < 1.0 { format!("${amount:.4}") } else { format!("${amount:.2}") }
}

#[cfg(test)]
mod tests {
    use gimlet_proto::TokenUsage;

    use super::*;
    use crate::feed::tests::{context, show};
    use crate::glyphs::GlyphSet;

    fn spending() -> SessionSpending {
        let model = |name: &str, cost_usd| ModelUsage {
            model: name.into(),
            usage: TokenUsage {
                input_tokens: 12_300,
                output_tokens: 4_500,
                cache_read_input_tokens: 1_250_000,
                cache_creation_input_tokens: 45_000,
                ..TokenUsage::default()
            },
            cost_usd,
            ..ModelUsage::default()
        };
        let mut spending = SessionSpending {
            by_model: vec![model("claude-sonnet-5-5", Some(1.25)), model("claude-haiku-4-5", Some(0.0312))],
            lines_added: 120,
            lines_removed: 31,
            ..SessionSpending::default()
        };
        for cents in [2, 10, 35, 1, 7, 70] {
            spending.add_turn(Some(f64::from(cents) / 100.0), 4_000, 10_000);
        }
        spending
    }

    #[test]
    fn models_are_bars_and_turns_a_chart() {
        insta::assert_snapshot!("cost_80", show(&render_cost(&spending(), &context(80)), 80));
        insta::assert_snapshot!("cost_40", show(&render_cost(&spending(), &context(40)), 40));
        let cx = RenderContext { glyphs: &GlyphSet::ASCII, ..context(80) };
        assert!(show(&render_cost(&spending(), &cx), 80).is_ascii());
    }

    #[test]
    fn an_unknown_price_is_never_shown_as_a_sum() {
        let mut spending = spending();
        spending.by_model[1].cost_usd = None;
        let text = show(&render_cost(&spending, &context(80)), 80);
        assert!(text.starts_with("  unknown cost  no price is known for claude-haiku-4-5\n"), "{text}");
        let none = show(&render_cost(&SessionSpending::default(), &context(80)), 80);
        assert_eq!(none, "  No request was sent yet.\n");
        (0..100).for_each(|_| spending.add_turn(None, 1, 1));
        assert_eq!(spending.turns.len(), MAX_TURNS);
    }
}
