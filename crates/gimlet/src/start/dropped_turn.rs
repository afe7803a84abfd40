//! `--resume-drops-turn`: what a resumed session leaves out must be one turn and nothing else.
//!
//! Programs take a turn back this way; whatever else is in that part of the transcript would be lost with it.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::report::Report;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    uuid: Option<String>,
    #[serde(default)]
    is_sidechain: bool,
    #[serde(default)]
    is_meta: bool,
    #[serde(rename = "sourceToolAssistantUUID")]
    source: Option<String>,
    message: Option<Message>,
    attachment: Option<Value>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Value,
}

/// Refuses unless everything behind `cut` belongs to the turn of `prompt`.
pub(super) fn check(transcript: &Path, cut: &str, prompt: &str) -> Result<(), Report> {
    let text = std::fs::read_to_string(transcript)
        .map_err(|error| Report::new(format!("{} cannot be read: {error}", transcript.display())))?;
    let entries = text.lines().filter_map(|line| serde_json::from_str::<Entry>(line).ok());
    objection(entries.filter(|entry| !entry.is_sidechain), cut, prompt)
        .map_or(Ok(()), |why| Err(Report::new(format!("Resume rejected by --resume-drops-turn: {why}"))))
}

fn objection(entries: impl Iterator<Item = Entry>, cut: &str, prompt: &str) -> Option<String> {
    if prompt.trim().is_empty() {
        return Some("it names no prompt".to_owned());
    }
    let mut behind = entries.skip_while(|entry| entry.uuid.as_deref() != Some(cut));
    if behind.next().is_none() {
        return Some(format!("there is no message {cut} to resume at"));
    }
    let mut dropped: Vec<String> = Vec::new();
    let mut begun = false;
    for entry in behind {
        let Some(uuid) = entry.uuid.clone() else { continue };
        if entry.is_prompt() {
            match (begun, uuid == prompt) {
                (false, true) => begun = true,
                (false, false) => return Some(format!("the first prompt behind {cut} is {uuid}")),
                (true, _) => return Some(format!("another prompt, {uuid}, would be lost")),
            }
        } else if let Some(why) = entry.is_foreign(&dropped, begun) {
            return Some(format!("{why}, {uuid}, would be lost"));
        }
        dropped.push(uuid);
    }
    (!begun).then(|| format!("there is no prompt {prompt} behind {cut}"))
}

impl Entry {
    fn blocks(&self) -> &[Value] {
        let content = self.message.as_ref().map(|message| &message.content);
        content.and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn text(&self) -> &str {
        let content = self.message.as_ref().map_or(&Value::Null, |message| &message.content);
        content.as_str().or_else(|| self.blocks().first()?["text"].as_str()).unwrap_or_default()
    }

    fn is_result(&self) -> bool {
        self.blocks().iter().any(|block| block["type"] == "tool_result")
    }

    /// Somebody's words; what gimlet says itself, also about an interrupt, belongs to the turn it is said in.
    fn is_prompt(&self) -> bool {
        self.kind == "user"
            && !self.is_meta
            && !self.is_result()
            && !self.text().starts_with("[Request interrupted by user")
    }

    /// Something that belongs to another turn than the one that is dropped.
    fn is_foreign(&self, dropped: &[String], begun: bool) -> Option<&'static str> {
        let kept_source = self.source.as_ref().is_some_and(|source| !dropped.contains(source));
        let attached = self.attachment.as_ref().map(|attachment| &attachment["type"]);
        if self.is_result() && kept_source {
            return Some("a result of a turn that is kept");
        }
        if self.is_meta && self.text().trim_start().starts_with("<task-notification>") {
            return Some("a notice about a background task");
        }
        match attached.and_then(Value::as_str) {
            Some("queued_command") => Some("a prompt that waited"),
            Some("structured_output") if !begun => Some("an output of a turn that is kept"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn user(uuid: &str, content: Value) -> Value {
        json!({"type": "user", "uuid": uuid, "message": {"role": "user", "content": content}})
    }

    fn refusal(entries: &[Value], cut: &str, prompt: &str) -> Option<String> {
        let entries: Vec<Entry> = entries.iter().map(|entry| Entry::deserialize(entry).unwrap()).collect();
        objection(entries.into_iter(), cut, prompt)
    }

    #[test]
    fn one_whole_turn_may_go_and_nothing_else() {
        let reply = |uuid: &str| json!({"type": "assistant", "uuid": uuid, "message": {"content": [{"type": "text"}]}});
        let mut result = user("r1", json!([{"type": "tool_result", "tool_use_id": "t"}]));
        result["sourceToolAssistantUUID"] = json!("a2");
        let stopped = user("s1", json!([{"type": "text", "text": "[Request interrupted by user]"}]));
        let mut context = user("m1", json!("context"));
        context["isMeta"] = json!(true);
        let turn =
            [user("p1", json!("one")), reply("a1"), context, user("p2", json!("two")), reply("a2"), result, stopped];
        assert_eq!(refusal(&turn, "a1", "p2"), None);
        for (cut, prompt, why) in [
            ("a1", "", "names no prompt"),
            ("zz", "p2", "no message zz"),
            ("a1", "p9", "the first prompt behind a1 is p2"),
            ("a2", "p2", "a result of a turn that is kept"),
            ("s1", "p2", "no prompt p2"),
        ] {
            assert!(refusal(&turn, cut, prompt).unwrap().contains(why), "{cut} {prompt}");
        }
        let mut more = turn.to_vec();
        more.push(user("p3", json!("three")));
        assert!(refusal(&more, "a1", "p2").unwrap().contains("another prompt, p3"));
        let mut notice = user("n1", json!([{"type": "text", "text": "<task-notification>x</task-notification>"}]));
        notice["isMeta"] = json!(true);
        let mut told = turn.to_vec();
        told.push(notice);
        assert!(refusal(&told, "a1", "p2").unwrap().contains("background task"));
    }
}
