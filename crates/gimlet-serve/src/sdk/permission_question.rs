//! Permission questions: the request to the host and the interpretation of its answer.

use std::sync::Arc;

use gimlet_proto::{Approval, AskAnswer, AskId, AskView, PermissionAsk, ServerIdentity};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{control_frames, truncate};

/// Question that was sent to the host.
pub(crate) struct PermissionQuestion {
    pub(crate) ask: AskId,
    /// The request as sent, for a host that reconnects and asks for open questions.
    pub(crate) line: String,
    tool: String,
    call: String,
    input: Arc<RawValue>,
}

#[derive(Serialize)]
struct PermissionRequest<'a> {
    subtype: &'static str,
    tool_name: &'a str,
    input: &'a RawValue,
    tool_use_id: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    permission_suggestions: Vec<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked_path: Option<String>,
    decision_reason: &'a str,
    decision_reason_type: &'a str,
    title: String,
    display_name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mcp_server: Option<&'a ServerIdentity>,
}

/// Returns true if a call's input does not fit into a line.
pub(crate) fn is_input_too_long(view: &AskView) -> bool {
    view.body.call().is_some_and(|call| call.input.get().len() >= truncate::MAX_INPUT)
}

/// Builds the question for the host. `None` for one that no host can answer.
pub(crate) fn build_question(id: &str, view: &AskView) -> Option<PermissionQuestion> {
    // Hosts read what a call asks, and the plan that it presents, from its input.
    let PermissionAsk { tool, server, call, input, label, summary, reason, reason_kind, path, suggestions, .. } =
        view.body.call()?;
    let request = PermissionRequest {
        subtype: "can_use_tool",
        tool_name: tool,
        input,
        tool_use_id: call.as_str(),
        permission_suggestions: suggestions.iter().map(|change| &*change.update).collect(),
        blocked_path: path.as_ref().map(|path| path.to_string_lossy().into_owned()),
        decision_reason: reason,
        decision_reason_type: reason_kind,
        title: match &view.agent_type {
            Some(agent) => format!("gimlet's agent {agent} wants to use {label}"),
            None => format!("gimlet wants to use {label}"),
        },
        display_name: label,
        description: summary,
        agent_id: view.agent_id.as_deref(),
        mcp_server: server.as_ref(),
    };
    let line = control_frames::request_line(id, &request);
    Some(PermissionQuestion {
        ask: view.id,
        line,
        tool: tool.clone(),
        call: call.as_str().to_owned(),
        input: input.clone(),
    })
}

/// Parses the decision from a tool's result: one text that holds the object a host would send.
pub(crate) fn parse_tool_decision(result: &Value) -> Result<Box<RawValue>, String> {
    let texts: Vec<&str> =
        result["content"].as_array().into_iter().flatten().filter_map(|part| part["text"].as_str()).collect();
    match (result["isError"] == true, texts.as_slice()) {
        (true, texts) => Err(format!("it failed: {}", texts.join(" "))),
        (false, [text]) => {
            serde_json::from_str(text).map_err(|_| "it answered with something that is no JSON".to_owned())
        }
        (false, _) => Err("it answered with something else than one text".to_owned()),
    }
}

impl PermissionQuestion {
    /// Returns the input for a tool that decides.
    pub(crate) fn to_tool_input(&self) -> Map<String, Value> {
        let input = super::host_lines::parse_lossy::<Value>(&self.input).unwrap_or_default();
        let members = [
            ("tool_name", Value::from(self.tool.clone())),
            ("input", input),
            ("tool_use_id", Value::from(self.call.clone())),
        ];
        members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Interprets the host's answer. Anything but a clear permission denies the call.
    pub(crate) fn parse_answer(&self, outcome: Result<Box<RawValue>, String>) -> AskAnswer {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct PermissionReply {
            behavior: String,
            #[serde(alias = "updated_input")]
            updated_input: Option<Box<RawValue>>,
            #[serde(default, alias = "updated_permissions")]
            updated_permissions: Option<Vec<Box<RawValue>>>,
            message: Option<String>,
            #[serde(default)]
            interrupt: Option<bool>,
        }
        let reply = match outcome {
            Ok(raw) => super::host_lines::parse_lossy::<PermissionReply>(&raw),
            Err(error) => return AskAnswer::Failed(error),
        };
        match reply {
            Some(reply) if reply.behavior == "allow" => AskAnswer::Yes(Approval {
                input: reply.updated_input.filter(|input| !self.is_same_input(input)),
                changes: reply.updated_permissions.unwrap_or_default().into_iter().map(Arc::from).collect(),
            }),
            Some(reply) if reply.behavior == "deny" => {
                deny(reply.message.unwrap_or_default(), reply.interrupt.unwrap_or(false))
            }
            Some(_) | None => AskAnswer::Failed("its answer could not be understood".to_owned()),
        }
    }

    /// Returns true if the input is unchanged. Hosts repeat the input when they change nothing.
    fn is_same_input(&self, input: &RawValue) -> bool {
        input.get() == "null"
            || super::host_lines::parse_lossy::<Value>(input) == super::host_lines::parse_lossy::<Value>(&self.input)
    }
}

/// Returns a denial with the program's own message.
pub(crate) fn deny(message: String, interrupt: bool) -> AskAnswer {
    // A user's denial without a message stops the turn; a program requests that explicitly.
    let message = if message.trim().is_empty() { "Permission denied by the host".to_owned() } else { message };
    AskAnswer::No { message, interrupt }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gimlet_proto::{AgentPath, AskBody, SuggestedChange, ToolUseId, View};
    use serde_json::json;
    use serde_json::value::to_raw_value;

    fn raw_json(json: &str) -> Arc<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap().into()
    }

    fn sample_question() -> PermissionQuestion {
        let suggestion = r#"{"type":"setMode","mode":"acceptEdits","destination":"session"}"#;
        let body = AskBody::Permission(Box::new(PermissionAsk {
            tool: "Write".into(),
            server: None,
            call: ToolUseId::new("toolu_7"),
            input: raw_json(r#"{"file_path":"/srv/x","content":"1"}"#),
            label: "Write file".into(),
            summary: "/srv/x".into(),
            reason: "outside".into(),
            reason_kind: "workingDir",
            path: Some("/srv/x".into()),
            suggestions: vec![SuggestedChange { covers: "edits".into(), update: raw_json(suggestion) }],
            preview: View::Text("/srv/x".into()),
            destructive: false,
        }));
        build_question(
            "r1",
            &AskView { id: AskId(3), agent: AgentPath::default(), agent_id: None, agent_type: None, body },
        )
        .unwrap()
    }

    #[test]
    fn the_host_gets_all_that_is_known() {
        let line: Value = serde_json::from_str(&sample_question().line).unwrap();
        assert_eq!(
            line,
            json!({"type": "control_request", "request_id": "r1", "request": {
                "subtype": "can_use_tool", "tool_name": "Write", "tool_use_id": "toolu_7",
                "input": {"file_path": "/srv/x", "content": "1"},
                "permission_suggestions": [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}],
                "blocked_path": "/srv/x", "decision_reason": "outside", "decision_reason_type": "workingDir",
                "title": "gimlet wants to use Write file", "display_name": "Write file", "description": "/srv/x"}})
        );
    }

    fn parse_reply(json: Value) -> AskAnswer {
        sample_question().parse_answer(Ok(to_raw_value(&json).unwrap()))
    }

    #[test]
    fn a_yes_brings_its_changes_along() {
        let rule =
            json!({"type": "addRules", "rules": [{"toolName": "Write", "ruleContent": null}], "behavior": "allow"});
        let AskAnswer::Yes(plain) = parse_reply(json!({"behavior": "allow",
            "updatedInput": {"content": "1", "file_path": "/srv/x"}, "updatedPermissions": [rule]}))
        else {
            panic!()
        };
        assert!(plain.input.is_none(), "the same input is no change");
        let change: Value = serde_json::from_str(plain.changes[0].get()).unwrap();
        assert_eq!(change["type"], "addRules");
        let AskAnswer::Yes(edited) = parse_reply(json!({"behavior": "allow", "updatedInput": {"file_path": "/srv/y"}}))
        else {
            panic!()
        };
        assert_eq!(edited.input.unwrap().get(), r#"{"file_path":"/srv/y"}"#);
        let AskAnswer::Yes(snake) = parse_reply(json!({"behavior": "allow", "updated_input": {"file_path": "/srv/z"},
            "updated_permissions": [{"type": "setMode", "mode": "acceptEdits"}]}))
        else {
            panic!()
        };
        assert_eq!((snake.input.unwrap().get(), snake.changes.len()), (r#"{"file_path":"/srv/z"}"#, 1));
        assert!(matches!(parse_reply(json!({"behavior": "allow", "updatedInput": null})), AskAnswer::Yes(_)));
    }

    #[test]
    fn everything_else_is_a_no_or_a_failure() {
        for (json, words, stops) in [
            (json!({"behavior": "deny", "message": "not today"}), "not today", false),
            (json!({"behavior": "deny", "message": "stop", "interrupt": true}), "stop", true),
            (json!({"behavior": "deny"}), "Permission denied by the host", false),
        ] {
            let AskAnswer::No { message, interrupt } = parse_reply(json.clone()) else { panic!("{json}") };
            assert!(message.contains(words) && interrupt == stops, "{json}: {message}");
        }
        for json in [json!({"behavior": "maybe"}), json!({}), json!([])] {
            assert!(
                matches!(parse_reply(json.clone()), AskAnswer::Failed(why) if why.contains("understood")),
                "{json}"
            );
        }
        let broken = sample_question().parse_answer(Err("callback broke".into()));
        assert!(matches!(broken, AskAnswer::Failed(why) if why == "callback broke"));
    }
}
