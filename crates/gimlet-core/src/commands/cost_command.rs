//! `/cost`: tokens and cost by model.

use gimlet_proto::{BoxFuture, ModelUsage};

use super::text_table::grouped;
use super::{CommandContext, CommandOutput, SlashCommand, text_table};

/// The command `/cost`.
pub(super) struct CostCommand;

impl SlashCommand for CostCommand {
    fn name(&self) -> &str {
        "cost"
    }

    fn aliases(&self) -> Vec<&str> {
        vec!["usage"]
    }

    fn description(&self) -> &str {
        "Show what this session has used and cost, by model"
    }

    fn run<'a>(&'a self, _args: &'a str, cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        Box::pin(async move { Ok(CommandOutput::Text(render_usage(&cx.usage()))) })
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
        [] => format!("Total cost: {}", dollars(known)),
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
    let cost = entry.cost_usd.map_or("price unknown".to_owned(), dollars);
    std::iter::once(entry.model.clone()).chain(counts.map(grouped)).chain([cost]).collect()
}

/// Returns an amount with cents, and small amounts with a hundredth of a cent.
fn dollars(amount: f64) -> String {
    if amount < 1.0 { format!("${amount:.4}") } else { format!("${amount:.2}") }
}

#[cfg(test)]
mod tests {
    use gimlet_proto::TokenUsage;

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
}
