//! `/context`: what fills the context window.

use gimlet_proto::{BoxFuture, ContextFile, ContextTool, ContextUsage, provider_safe_name};

use super::{CommandContext, CommandOutput, SlashCommand, grouped, text_table};

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
        Box::pin(async move {
            let servers = cx.snapshot().turn_setup.servers.iter().map(|server| server.name.clone()).collect::<Vec<_>>();
            Ok(CommandOutput::Text(render_usage(&cx.context_usage().await?, &servers)))
        })
    }
}

fn render_usage(usage: &ContextUsage, servers: &[String]) -> String {
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
    let rows: Vec<Vec<String>> = server_costs(&usage.tools, servers)
        .into_iter()
        .map(|(server, tools, tokens)| {
            row(format!("{server} ({tools} {})", if tools == 1 { "tool" } else { "tools" }), tokens)
        })
        .collect();
    if !rows.is_empty() {
        text.push_str(&format!("\nMCP servers\n{}\n", text_table(&rows, true)));
    }
    text + note
}

/// Returns the number and the tokens of the tools of each server that has any, the most expensive first.
fn server_costs<'a>(tools: &[ContextTool], servers: &'a [String]) -> Vec<(&'a str, usize, u64)> {
    let prefixes: Vec<String> = servers.iter().map(|server| format!("mcp__{}__", provider_safe_name(server))).collect();
    let mut costs: Vec<(&str, usize, u64)> = servers.iter().map(|server| (server.as_str(), 0, 0)).collect();
    for tool in tools {
        // Of two servers whose names both fit, the longer one has the tool.
        let fitting = prefixes.iter().enumerate().filter(|(_, prefix)| tool.name.starts_with(prefix.as_str()));
        if let Some((place, _)) = fitting.max_by_key(|(_, prefix)| prefix.len()) {
            costs[place].1 += 1;
            costs[place].2 += tool.tokens;
        }
    }
    costs.retain(|(_, count, _)| *count > 0);
    costs.sort_by_key(|(_, _, tokens)| std::cmp::Reverse(*tokens));
    costs
}

/// Returns a part in percent with one decimal; a window of size zero counts as empty.
fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0.0 %".to_owned();
    }
    format!("{:.1} %", part as f64 * 100.0 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_counted_for_the_server_that_has_them() {
        let tools = [("Read", 50), ("mcp__my_db__read", 10), ("mcp__my_db__x__read", 5), ("mcp__my_db__write", 20)];
        let tools = tools.map(|(name, tokens)| ContextTool { name: name.to_owned(), tokens });
        let servers = ["idle", "my.db__x", "my.db"].map(str::to_owned);
        assert_eq!(server_costs(&tools, &servers), [("my.db", 2, 30), ("my.db__x", 1, 5)]);
    }
}
