//! What there is to say about the list of a server's tools: which cannot be offered, and what became of those before.

use crate::server::Known;
use crate::text::some;

/// Which tools cannot be offered, and why.
pub(crate) fn left_out(tools: &[Known]) -> Vec<String> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for known in tools {
        let Err(why) = &known.form else { continue };
        match found.iter_mut().find(|(known, _)| known == why) {
            Some((_, names)) => names.push(&known.tool.name),
            None => found.push((why, vec![&known.tool.name])),
        }
    }
    found.into_iter().map(|(why, names)| format!("{}: {why}", some(names))).collect()
}

/// What became of a list. The order does not matter, everything else that a server says about a tool does.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    added: Vec<String>,
    changed: Vec<String>,
    removed: Vec<String>,
}

impl Difference {
    pub(crate) fn between(before: &[Known], after: &[Known]) -> Self {
        let find = |tools: &[Known], name: &str| tools.iter().position(|known| known.tool.name == name);
        let mut difference = Self::default();
        for (at, Known { tool, .. }) in after.iter().enumerate() {
            match find(before, &tool.name) {
                // One that is listed twice counts once.
                _ if find(after, &tool.name) != Some(at) => {}
                None => difference.added.push(tool.name.to_string()),
                Some(earlier) if before[earlier].tool != *tool => difference.changed.push(tool.name.to_string()),
                Some(_) => {}
            }
        }
        let gone = before.iter().filter(|known| find(after, &known.tool.name).is_none());
        difference.removed = gone.map(|known| known.tool.name.to_string()).collect();
        difference
    }

    /// In words; `None` when nothing is different.
    pub(crate) fn words(&self) -> Option<String> {
        let parts = [("added", &self.added), ("changed", &self.changed), ("removed", &self.removed)];
        let told = parts.iter().filter(|(_, names)| !names.is_empty());
        let told: Vec<String> =
            told.map(|(what, names)| format!("{what} {}", some(names.iter().map(String::as_str)))).collect();
        (!told.is_empty()).then(|| told.join("; "))
    }

    /// The tools that are not what somebody may have allowed.
    pub(crate) fn tools(&self) -> impl Iterator<Item = &str> {
        self.added.iter().chain(&self.changed).chain(&self.removed).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::server::known;

    fn words(before: &Value, after: &Value) -> Option<String> {
        let tools = |list: &Value| known(serde_json::from_value(list.clone()).unwrap());
        Difference::between(&tools(before), &tools(after)).words()
    }

    #[test]
    fn everything_that_is_said_about_a_tool_counts_and_the_order_does_not() {
        let tool = json!({"name": "t", "title": "T", "description": "Does.", "annotations": {"readOnlyHint": true},
            "inputSchema": {"type": "object", "properties": {"a": {"enum": ["x"]}, "b": {"default": 1}}}});
        let other = json!({"name": "u", "inputSchema": {"type": "object"}});
        let before = json!([tool, other]);
        assert_eq!(words(&before, &json!([other, tool])), None);
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
            assert_eq!(words(&before, &json!([changed, other])).as_deref(), Some("changed 't'"), "{at}");
        }
        let mut same = tool.clone();
        same["inputSchema"] = reordered;
        assert_eq!(words(&before, &json!([same, other])), None);
        let new = json!({"name": "v", "inputSchema": {"type": "object"}});
        assert_eq!(words(&before, &json!([tool, new, new])).as_deref(), Some("added 'v'; removed 'u'"));
    }
}
