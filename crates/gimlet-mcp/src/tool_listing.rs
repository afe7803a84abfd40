//! A server's tool list: limits on its size, tools that cannot be offered, and differences from the previous list.

use std::collections::{HashMap, HashSet};

use rmcp::model::{ListToolsResult, PaginatedRequestParams, Tool};
use rmcp::service::ServiceError;
use rmcp::{Peer, RoleClient};
use serde::Deserialize;
use serde_json::Value;

use crate::connection::{ListedTool, service_error_message};
use crate::server_signals::ServerSignals;
use crate::server_text::{join_names, sanitize_description};

/// Limits on the pages, tools and bytes of a list.
const MOST_PAGES: usize = 100;
const MOST_TOOLS: usize = 1_000;
const MOST_BYTES: usize = 4 << 20;

/// Tools listed by a server, and the warnings about them.
pub(crate) struct ToolListing {
    pub(crate) tools: Vec<Tool>,
    pub(crate) warnings: Vec<String>,
}

/// Lists the tools, page by page, up to the limits.
pub(crate) async fn list_tools(peer: &Peer<RoleClient>, signals: &ServerSignals) -> Result<ToolListing, String> {
    // Left over from an earlier attempt that was abandoned.
    signals.take_invalid_tools();
    let mut taken = LimitedTools::default();
    let mut seen = HashSet::new();
    let mut cursor = None;
    let mut circles = false;
    loop {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let page = peer.list_tools(Some(params)).await.map_err(|error| match error {
            ServiceError::UnexpectedResponse => "its answer is not a list of tools".to_owned(),
            error => sanitize_description(&service_error_message(error)),
        })?;
        page.tools.into_iter().for_each(|tool| taken.push(tool));
        cursor = page.next_cursor;
        let Some(next) = &cursor else { break };
        if !seen.insert(next.clone()) {
            circles = true;
            break;
        }
        if taken.is_full() || seen.len() == MOST_PAGES {
            taken.is_truncated = true;
            break;
        }
    }
    let mut trouble = Vec::new();
    if taken.is_truncated {
        let text = "lists more than 1,000 tools, 4 MB or 100 pages; what is beyond that is left out";
        trouble.push(text.to_owned());
    }
    if circles {
        trouble.push("lists pages in a circle; each counts once".to_owned());
    }
    let odd = signals.take_invalid_tools();
    if let Some(InvalidTool { why, .. }) = odd.first() {
        let names = join_names(odd.iter().map(|odd| odd.name.as_str()));
        trouble.push(format!(
            "has tools that are left out: {names}: they are not described as tools are ({})",
            sanitize_description(why)
        ));
    }
    Ok(ToolListing { tools: taken.tools, warnings: trouble })
}

/// Tool list cut to the limits.
#[derive(Default)]
struct LimitedTools {
    tools: Vec<Tool>,
    bytes: usize,
    /// True if there was more.
    is_truncated: bool,
}

impl LimitedTools {
    fn push(&mut self, tool: Tool) {
        let size = serde_json::to_string(&tool).map_or(MOST_BYTES, |text| text.len());
        if self.tools.len() == MOST_TOOLS || self.bytes + size > MOST_BYTES {
            self.is_truncated = true;
        } else {
            self.bytes += size;
            self.tools.push(tool);
        }
    }

    fn is_full(&self) -> bool {
        self.is_truncated || self.tools.len() == MOST_TOOLS
    }
}

/// Listed item that is not a valid tool.
pub(crate) struct InvalidTool {
    name: String,
    why: String,
}

/// Separates the valid tools of a list from invalid items; `None` if there is no list.
pub(crate) fn split_valid_tools(answer: &str) -> Option<(ListToolsResult, Vec<InvalidTool>)> {
    #[derive(Deserialize)]
    struct ListToolsResponse {
        result: ToolListPage,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ToolListPage {
        tools: Vec<Value>,
        next_cursor: Option<Value>,
    }
    let ToolListPage { tools, next_cursor } = serde_json::from_str::<ListToolsResponse>(answer).ok()?.result;
    let (mut sound, mut odd) = (Vec::new(), Vec::new());
    for (at, tool) in tools.into_iter().enumerate() {
        let name = tool.get("name").and_then(Value::as_str).map_or_else(|| format!("number {}", at + 1), str::to_owned);
        match serde_json::from_value(tool) {
            Ok(tool) => sound.push(tool),
            Err(error) => odd.push(InvalidTool { name, why: error.to_string() }),
        }
    }
    let mut page = ListToolsResult::with_all_items(sound);
    page.next_cursor = next_cursor.and_then(|cursor| cursor.as_str().map(str::to_owned));
    Some((page, odd))
}

/// Describes the tools that cannot be offered, with the reasons.
pub(crate) fn describe_unusable_tools(tools: &[ListedTool]) -> Vec<String> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for known in tools {
        let Err(why) = &known.input_schema else { continue };
        match found.iter_mut().find(|(known, _)| known == why) {
            Some((_, names)) => names.push(&known.tool.name),
            None => found.push((why, vec![&known.tool.name])),
        }
    }
    found.into_iter().map(|(why, names)| format!("{}: {why}", join_names(names))).collect()
}

/// Returns the first index of each name.
fn index_by_name(tools: &[ListedTool]) -> HashMap<&str, usize> {
    tools.iter().enumerate().rev().map(|(at, known)| (&*known.tool.name, at)).collect()
}

/// Difference between two lists. The order is ignored; everything else about a tool counts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ToolListDiff {
    added: Vec<String>,
    changed: Vec<String>,
    removed: Vec<String>,
}

impl ToolListDiff {
    pub(crate) fn between(before: &[ListedTool], after: &[ListedTool]) -> Self {
        let (earlier, now) = (index_by_name(before), index_by_name(after));
        let mut difference = Self::default();
        for (at, ListedTool { tool, .. }) in after.iter().enumerate() {
            match earlier.get(&*tool.name) {
                // A tool that is listed twice counts once.
                _ if now.get(&*tool.name) != Some(&at) => {}
                None => difference.added.push(tool.name.to_string()),
                Some(earlier) if before[*earlier].tool != *tool => difference.changed.push(tool.name.to_string()),
                Some(_) => {}
            }
        }
        let gone = before.iter().filter(|known| !now.contains_key(&*known.tool.name));
        difference.removed = gone.map(|known| known.tool.name.to_string()).collect();
        difference
    }

    /// Describes the difference; `None` when there is none.
    pub(crate) fn describe(&self) -> Option<String> {
        let parts = [("added", &self.added), ("changed", &self.changed), ("removed", &self.removed)];
        let told = parts.iter().filter(|(_, names)| !names.is_empty());
        let told: Vec<String> =
            told.map(|(what, names)| format!("{what} {}", join_names(names.iter().map(String::as_str)))).collect();
        (!told.is_empty()).then(|| told.join("; "))
    }

    /// Returns the names of the tools that may differ from what the user allowed.
    pub(crate) fn tool_names(&self) -> impl Iterator<Item = &str> {
        self.added.iter().chain(&self.changed).chain(&self.removed).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::connection::to_listed_tools;

    fn describe_diff(before: &Value, after: &Value) -> Option<String> {
        let tools = |list: &Value| to_listed_tools(serde_json::from_value(list.clone()).unwrap());
        ToolListDiff::between(&tools(before), &tools(after)).describe()
    }

    #[test]
    fn everything_that_is_said_about_a_tool_counts_and_the_order_does_not() {
        let tool = json!({"name": "t", "title": "T", "description": "Does.", "annotations": {"readOnlyHint": true},
            "inputSchema": {"type": "object", "properties": {"a": {"enum": ["x"]}, "b": {"default": 1}}}});
        let other = json!({"name": "u", "inputSchema": {"type": "object"}});
        let before = json!([tool, other]);
        assert_eq!(describe_diff(&before, &json!([other, tool])), None);
        let reordered = json!({"type": "object", "properties": {"b": {"default": 1}, "a": {"enum": ["x"]}}});
        let changes = [
            ("/description", json!("Does.\u{200b}")),
            ("/title", json!("Other")),
            ("/annotations/readOnlyHint", json!(false)),
            ("/inputSchema/properties/a/enum", json!(["x", "y"])),
            ("/inputSchema/properties/b/default", json!(2)),
        ];
        for (at, value) in changes {
            let mut changed = tool.clone();
            *changed.pointer_mut(at).unwrap() = value;
            assert_eq!(describe_diff(&before, &json!([changed, other])).as_deref(), Some("changed 't'"), "{at}");
        }
        let mut same = tool.clone();
        same["inputSchema"] = reordered;
        assert_eq!(describe_diff(&before, &json!([same, other])), None);
        let new = json!({"name": "v", "inputSchema": {"type": "object"}});
        assert_eq!(describe_diff(&before, &json!([tool, new, new])).as_deref(), Some("added 'v'; removed 'u'"));
    }
}
