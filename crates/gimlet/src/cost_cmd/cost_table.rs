//! Tables of costs with bars.

use gimlet_core::commands::{format_dollars, grouped, text_table};
use gimlet_store::{CostLine, CostTotals};
use gimlet_text::truncate_to_line;

use super::{CostGroup, CostOverview, purpose_name, sum_groups};

/// Columns of the longest bar.
const BAR_WIDTH: usize = 24;
/// Columns of a title.
const TITLE_WIDTH: usize = 40;
/// Number of cache misses that are shown.
const MOST_MISSES: usize = 20;

pub(super) fn shorten_title(title: &str) -> String {
    truncate_to_line(title, TITLE_WIDTH)
}

/// Renders the groups with bars, then the sum, and for a session what its requests were for.
pub(super) fn render_overview(overview: &CostOverview) -> String {
    if overview.totals.requests == 0 {
        return "No costs are recorded here.".to_owned();
    }
    let mut text = render_groups(overview.by, &overview.groups);
    text.push_str(&format!("\n\n{}\n", summary_line(overview)));
    if let Some(requests) = &overview.requests {
        let purposes = sum_groups(requests.iter().map(|line| (purpose_name(line), line.clone())));
        let groups: Vec<CostGroup> =
            purposes.into_iter().map(|(name, totals)| CostGroup { name: name.to_owned(), totals }).collect();
        text.push_str(&format!("\n{}\n", render_groups("used for", &groups)));
        text.push_str(&render_misses(requests));
    }
    text
}

fn render_groups(title: &str, groups: &[CostGroup]) -> String {
    let most = groups.iter().map(|group| group.totals.known_usd).fold(0.0, f64::max);
    let head = [title, "requests", "input", "output", "cached", "cost", ""].map(str::to_owned).to_vec();
    let row = |group: &CostGroup| {
        let totals = &group.totals;
        let hit_rate = totals.hit_rate().map_or_else(String::new, |rate| format!("{:.0} %", rate * 100.0));
        vec![
            group.name.clone(),
            grouped(totals.requests),
            grouped(totals.usage.prompt_tokens()),
            grouped(totals.usage.output_tokens),
            hit_rate,
            cost_text(totals),
            String::new(),
        ]
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(groups.iter().map(row)).collect();
    let table = text_table(&rows, true);
    // The bars are behind the last column, so that they all begin in the same place.
    let width = table.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let lines = table.lines().zip(std::iter::once(None).chain(groups.iter().map(Some))).map(|(line, group)| {
        let bar = group.map_or_else(String::new, |group| bar(group.totals.known_usd, most));
        let pad = width - line.chars().count() + 2;
        format!("{line}{}{bar}", " ".repeat(pad)).trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn bar(amount: f64, most: f64) -> String {
    if most <= 0.0 {
        return String::new();
    }
    let columns = (amount / most * BAR_WIDTH as f64).round() as usize;
    // A small amount is not nothing.
    "█".repeat(if amount > 0.0 { columns.max(1) } else { 0 })
}

fn cost_text(totals: &CostTotals) -> String {
    let known = format_dollars(totals.known_usd);
    if totals.unpriced.is_empty() { known } else { format!("{known} + unknown") }
}

fn summary_line(overview: &CostOverview) -> String {
    let totals = &overview.totals;
    let sessions = match overview.sessions {
        1 => "1 session".to_owned(),
        count => format!("{count} sessions"),
    };
    let mut text = format!("Total: {} in {sessions}", format_dollars(totals.known_usd));
    if !totals.unpriced.is_empty() {
        let names: Vec<&str> = totals.unpriced.iter().map(String::as_str).collect();
        text.push_str(&format!(
            ", beside what {} cost: no price is known for them (modelPrices in settings gives one)",
            names.join(", ")
        ));
    }
    if let Some(rate) = totals.hit_rate() {
        text.push_str(&format!(". {:.1} % of the prompts came from the cache", rate * 100.0));
        if totals.saved_usd > 0.0 {
            text.push_str(&format!(", which saved {}", format_dollars(totals.saved_usd)));
        }
    }
    text
}

fn render_misses(requests: &[CostLine]) -> String {
    let misses: Vec<String> =
        requests.iter().filter_map(|line| Some(format!("  {}  {}", line.at, line.miss.as_ref()?.describe()))).collect();
    if misses.is_empty() {
        return String::new();
    }
    let left_out = misses.len().saturating_sub(MOST_MISSES);
    let heading = match left_out {
        0 => "\nCache misses:".to_owned(),
        count => format!("\nCache misses, without the first {count}:"),
    };
    format!("{heading}\n{}\n", misses[left_out..].join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_follow_the_largest_amount() {
        assert_eq!(bar(4.0, 4.0).chars().count(), BAR_WIDTH);
        assert_eq!((bar(0.001, 4.0).chars().count(), bar(0.0, 4.0), bar(0.0, 0.0)), (1, String::new(), String::new()));
    }
}
