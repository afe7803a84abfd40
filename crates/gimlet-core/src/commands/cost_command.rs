//! `/cost`: tokens and cost by model, and what the provider's cache did.

use gimlet_proto::{BoxFuture, ModelUsage};
use gimlet_store::{CacheMiss, CostLine, CostTotals, SessionFiles, read_costs};

use super::{CommandContext, CommandOutput, SlashCommand, format_dollars, grouped, text_table};

/// Number of cache misses that are listed.
const MOST_MISSES: usize = 5;

/// The command `/cost`.
pub(super) struct CostCommand;

impl SlashCommand for CostCommand {
    fn name(&self) -> &str {
        "cost"
    }

    fn aliases(&self) -> Vec<&str> {
        vec!["usage", "stats"]
    }

    fn description(&self) -> &str {
        "Show what this session has used and cost, by model"
    }

    fn run<'a>(&'a self, _args: &'a str, cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        Box::pin(async move {
            let files = cx.transcript().and_then(SessionFiles::from_transcript);
            let read = tokio::task::spawn_blocking(move || files.and_then(|files| read_costs(&files).ok()));
            let lines = read.await.ok().flatten().unwrap_or_default().0;
            Ok(CommandOutput::Text(render_usage(&cx.usage()) + &render_ledger(&lines)))
        })
    }
}

fn render_usage(used: &[ModelUsage]) -> String {
    if used.is_empty() {
        return "Total cost: $0.00. No request was sent yet.".to_owned();
    }
    let known: f64 = used.iter().filter_map(|entry| entry.cost_usd).fold(0.0, |sum, cost| sum + cost);
    let unpriced: Vec<&str> =
        used.iter().filter(|entry| entry.cost_usd.is_none()).map(|entry| entry.model.as_str()).collect();
    let total = match unpriced.as_slice() {
        [] => format!("Total cost: {}", format_dollars(known)),
        names => format!("Total cost: unknown, because no price is known for {}", names.join(", ")),
    };
    let head = ["model", "input", "output", "cache read", "cache write", "cost"].map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(used.iter().map(usage_row)).collect();
    format!("{total}\n{}", text_table(&rows, true))
}

fn usage_row(entry: &ModelUsage) -> Vec<String> {
    let usage = &entry.usage;
    let counts =
        [usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens];
    let cost = entry.cost_usd.map_or("price unknown".to_owned(), format_dollars);
    std::iter::once(entry.model.clone()).chain(counts.map(grouped)).chain([cost]).collect()
}

/// Renders what the ledger adds: agents, the cache, and what it missed.
fn render_ledger(lines: &[CostLine]) -> String {
    let totals: CostTotals = lines.iter().collect();
    let agents: CostTotals = lines.iter().filter(|line| line.agent.is_some()).collect();
    let mut text = String::new();
    if agents.requests > 0 {
        text.push_str(&format!("\n{} of it by subagents", format_dollars(agents.known_usd)));
    }
    if let Some(rate) = totals.hit_rate().filter(|rate| *rate > 0.0) {
        let saved = match totals.saved_usd {
            saved if saved > 0.0 => format!(", which saved {}", format_dollars(saved)),
            _ => String::new(),
        };
        text.push_str(&format!("\n{:.1} % of the prompts came from the cache{saved}", rate * 100.0));
    }
    let misses: Vec<(&CostLine, &CacheMiss)> =
        lines.iter().filter_map(|line| Some((line, line.miss.as_ref()?))).collect();
    if !misses.is_empty() {
        text.push_str(&format!("\nThe cache missed {}:", count_requests(misses.len())));
        let left_out = misses.len().saturating_sub(MOST_MISSES);
        for (line, miss) in &misses[left_out..] {
            text.push_str(&format!("\n  {}: {}", line.at, miss.describe()));
        }
    }
    text
}

fn count_requests(number: usize) -> String {
    if number == 1 { "1 request".to_owned() } else { format!("{number} requests") }
}

#[cfg(test)]
mod tests {
    use gimlet_proto::TokenUsage;
    use gimlet_store::{CostRates, RequestPurpose};

    use super::*;

    #[test]
    fn an_unknown_price_is_never_shown_as_a_sum() {
        let entry = |model: &str, cost_usd| ModelUsage {
            model: model.to_owned(),
            usage: TokenUsage { input_tokens: 1_200, output_tokens: 7, ..TokenUsage::default() },
            cost_usd,
            ..ModelUsage::default()
        };
        assert_eq!(render_usage(&[]), "Total cost: $0.00. No request was sent yet.");
        let priced = render_usage(&[entry("a", Some(0.01234)), entry("b", Some(2.0))]);
        assert!(priced.starts_with("Total cost: $2.01\n") && priced.contains("$0.0123"), "{priced}");
        let unpriced = render_usage(&[entry("a", Some(0.5)), entry("local/x", None)]);
        assert!(unpriced.starts_with("Total cost: unknown, because no price is known for local/x\n"), "{unpriced}");
        assert!(unpriced.contains("$0.5000") && unpriced.contains("price unknown"), "{unpriced}");
        assert!(unpriced.contains("1,200"), "{unpriced}");
    }

    #[test]
    fn agents_and_the_cache_are_shown_as_far_as_there_is_something() {
        assert_eq!(render_ledger(&[]), "");
        let line = |agent: Option<&str>, cache_read, changed: Option<&str>| CostLine {
            at: "2026-01-02T03:04:05.000Z".to_owned(),
            agent: agent.map(str::to_owned),
            purpose: RequestPurpose::Reply,
            model: "m".to_owned(),
            request: None,
            input: 1_000_000,
            cache_read,
            cache_write_5m: 0,
            cache_write_1h: 0,
            output: 0,
            rates: Some(CostRates {
                input: 2.0,
                output: 0.0,
                cache_write_5m: 0.0,
                cache_write_1h: 0.0,
                cache_read: 0.5,
            }),
            cost_usd: Some(2.0),
            duration_ms: 1,
            miss: changed.map(|part| CacheMiss { changed: vec![part.to_owned()], idle_ms: 5 }),
        };
        let text = render_ledger(&[line(None, 1_000_000, None), line(Some("t1"), 0, Some("tools (Edit)"))]);
        assert_eq!(
            text,
            "\n$2.00 of it by subagents\n33.3 % of the prompts came from the cache, which saved $1.50\nThe cache \
             missed 1 request:\n  2026-01-02T03:04:05.000Z: tools (Edit) changed"
        );
    }
}
