//! `/context`: what fills the context window.

use gimlet_proto::{BoxFuture, ContextFile, ContextUsage};

use super::text_table::grouped;
use super::{CommandContext, CommandOutput, SlashCommand, text_table};

/// The command `/context`.
pub(super) struct ContextCommand;

impl SlashCommand for ContextCommand {
    fn name(&self) -> &str {
        "context"
    }

    fn description(&self) -> &str {
        "Show what fills the context window"
    }

    fn run<'a>(&'a self, _args: &'a str, cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        Box::pin(async move { Ok(CommandOutput::Text(render_usage(&cx.context_usage().await?))) })
    }
}

fn render_usage(usage: &ContextUsage) -> String {
    let (total, most) = (usage.total_tokens, usage.max_tokens);
    let head = format!("{}: {} of {} tokens ({})", usage.model, grouped(total), grouped(most), percent(total, most));
    let row = |name: String, tokens| vec![name, grouped(tokens), percent(tokens, most)];
    let rows: Vec<Vec<String>> =
        usage.categories.iter().map(|category| row(category.name.to_owned(), category.tokens)).collect();
    let note = match usage.last_request {
        Some(_) => "Scaled to what the server counted at the last request.",
        None => "Estimates: no request was sent yet.",
    };
    let mut text = format!("{head}\n{}\n", text_table(&rows, true));
    if !usage.memory_files.is_empty() {
        let name = |file: &ContextFile| format!("{}: {}", file.scope, file.path);
        let rows: Vec<Vec<String>> = usage.memory_files.iter().map(|file| row(name(file), file.tokens)).collect();
        text.push_str(&format!("\nMemory files\n{}\n", text_table(&rows, true)));
    }
    text + note
}

/// Returns a part in percent with one decimal; a window of size zero counts as empty.
fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0.0 %".to_owned();
    }
    format!("{:.1} %", part as f64 * 100.0 / whole as f64)
}
