//! Context window usage in the form that hosts draw.

use gimlet_proto::{ContextCategory, ContextFile, ContextKind, ContextUsage};
use serde_json::{Value, json};

use crate::wire::render_message_usage;

/// Theme colour names known to hosts, in the order of the categories.
const COLOURS: [&str; 5] = ["promptBorder", "inactive", "permission", "claude", "secondaryText"];

/// Renders the answer to `get_context_usage`.
pub(super) fn render_context_usage(usage: &ContextUsage, server_of: impl Fn(&str) -> Option<String>) -> Value {
    let percentage = percent(usage.total_tokens, usage.max_tokens);
    let categories: Vec<Value> = usage.categories.iter().zip(COLOURS.iter().cycle()).map(render_category).collect();
    let servers = usage.tools.iter().filter_map(|tool| {
        let server = server_of(&tool.name)?;
        Some(json!({"name": tool.name, "serverName": server, "tokens": tool.tokens, "isLoaded": true}))
    });
    let own = usage.tools.iter().filter(|tool| server_of(&tool.name).is_none());
    let mut answer = json!({
        "categories": categories,
        "totalTokens": usage.total_tokens,
        "maxTokens": usage.max_tokens,
        "rawMaxTokens": usage.model_window,
        "percentage": percentage,
        "model": usage.model,
        "isAutoCompactEnabled": usage.compaction_limit.is_some(),
        "memoryFiles": usage.memory_files.iter().map(render_memory_file).collect::<Vec<_>>(),
        "mcpTools": servers.collect::<Vec<_>>(),
        "systemTools": own.map(|tool| json!({"name": tool.name, "tokens": tool.tokens})).collect::<Vec<_>>(),
        "agents": [],
        "gridRows": [],
        "messageBreakdown": {
            "userMessageTokens": usage.messages.user,
            "assistantMessageTokens": usage.messages.assistant,
            "toolCallTokens": usage.messages.tool_calls,
            "toolResultTokens": usage.messages.tool_results,
        },
        "apiUsage": usage.last_request.as_ref().map(render_message_usage),
    });
    if let Some(limit) = usage.compaction_limit {
        answer["autoCompactThreshold"] = json!(limit);
    }
    answer
}

fn render_category((category, colour): (&ContextCategory, &&str)) -> Value {
    let kind = match category.kind {
        ContextKind::Used => "used",
        ContextKind::Free => "free",
        ContextKind::Buffer => "buffer",
    };
    json!({"name": category.name, "tokens": category.tokens, "color": colour, "kind": kind})
}

fn render_memory_file(file: &ContextFile) -> Value {
    json!({"path": file.path, "type": file.scope, "tokens": file.tokens})
}

/// Returns a rounded percentage; a window of size zero counts as empty.
fn percent(part: u64, whole: u64) -> u64 {
    (part * 100 + whole / 2).checked_div(whole).unwrap_or(0).min(100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gimlet_proto::{ContextMessages, ContextTool};

    #[test]
    fn every_member_that_hosts_need_is_there() {
        let usage = ContextUsage {
            model: "m".into(),
            max_tokens: 1000,
            model_window: 2000,
            compaction_limit: Some(750),
            total_tokens: 126,
            categories: vec![
                ContextCategory { name: "Messages", kind: ContextKind::Used, tokens: 126 },
                ContextCategory { name: "Free space", kind: ContextKind::Free, tokens: 874 },
            ],
            tools: ["Read", "mcp__my_calc__add"].map(|name| ContextTool { name: name.into(), tokens: 5 }).into(),
            memory_files: vec![ContextFile { path: "/p/CLAUDE.md".into(), scope: "Project".into(), tokens: 9 }],
            messages: ContextMessages { user: 7, ..ContextMessages::default() },
            last_request: None,
        };
        let rendered = render_context_usage(&usage, |tool| (tool == "mcp__my_calc__add").then(|| "my.calc".to_owned()));
        assert_eq!((&rendered["percentage"], &rendered["apiUsage"]), (&json!(13), &Value::Null));
        assert_eq!(rendered["categories"][1]["kind"], "free");
        assert_eq!((&rendered["rawMaxTokens"], &rendered["autoCompactThreshold"]), (&json!(2000), &json!(750)));
        assert_eq!(rendered["isAutoCompactEnabled"], json!(true));
        assert_eq!(rendered["mcpTools"][0]["serverName"], "my.calc");
        assert_eq!(rendered["systemTools"], json!([{"name": "Read", "tokens": 5}]));
        assert_eq!(rendered["memoryFiles"], json!([{"path": "/p/CLAUDE.md", "type": "Project", "tokens": 9}]));
        for list in ["agents", "gridRows"] {
            assert!(rendered[list].is_array(), "{list}");
        }
        assert_eq!(percent(1, 0), 0);
    }
}
