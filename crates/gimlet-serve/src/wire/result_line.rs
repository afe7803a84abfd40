//! The `result` line that ends a turn.

use gimlet_proto::{
    Denial, Event, ModelErrorKind, ModelUsage, PromptDefect, PromptOrigin, SessionId, StartupFailure, StopCause,
    TokenUsage, TurnEnd, TurnReport,
};
use serde_json::{Map, Value, json};

/// Result line, with the facts that the exit code depends on.
pub(crate) struct ResultLine {
    pub(crate) json: Value,
    pub(crate) is_error: bool,
}

impl ResultLine {
    pub(crate) fn to_line(&self) -> String {
        self.json.to_string()
    }
}

/// Maximum number of characters of a problem, so that it fits into a line however it is escaped.
const LONGEST_PROBLEM: usize = 20_000;

/// Renders the only line of a session that could not start.
pub fn startup_failure_line(problem: &str, kind: &StartupFailure, session: &str) -> String {
    let problem = match problem.char_indices().nth(LONGEST_PROBLEM) {
        Some((cut, _)) => format!("{}… [{} characters left out]", &problem[..cut], problem[cut..].chars().count()),
        None => problem.to_owned(),
    };
    let mut line = json!({
        "type": "result",
        "subtype": "error_during_execution",
        "is_error": true,
        "duration_ms": 0,
        "duration_api_ms": 0,
        "num_turns": 0,
        "stop_reason": null,
        "session_id": session,
        "total_cost_usd": 0.0,
        "usage": render_usage(&TokenUsage::default(), None),
        "modelUsage": {},
        "permission_denials": [],
        "errors": [problem],
        "uuid": uuid::Uuid::new_v4().to_string(),
    });
    if let Some(reason) = kind.reason {
        line["startup_failure_reason"] = json!(reason);
    }
    if let Some(path) = &kind.invalid_file {
        line["invalid_config_file"] =
            json!({"path": path.to_string_lossy(), "is_global": false, "backup_searched": false});
    }
    line.to_string()
}

/// Renders the line for a prompt that gimlet answered without the model.
pub(crate) fn local_result_line(
    session: &SessionId,
    outcome: Result<&str, String>,
    origin: Option<&PromptOrigin>,
    used: &[ModelUsage],
    queued: usize,
) -> String {
    let mut line = json!({
        "type": "result",
        "subtype": if outcome.is_ok() { "success" } else { "error_during_execution" },
        "is_error": outcome.is_err(),
        "duration_ms": 0,
        "duration_api_ms": 0,
        "num_turns": 0,
        "stop_reason": null,
        "session_id": session,
        "total_cost_usd": total_cost(used),
        "usage": render_usage(&TokenUsage::default(), None),
        "modelUsage": render_model_usage(used),
        "permission_denials": [],
        "uuid": uuid::Uuid::new_v4().to_string(),
    });
    match outcome {
        Ok(text) => line["result"] = json!(text),
        Err(problem) => line["errors"] = json!([problem]),
    }
    if let Some(origin) = origin {
        line["origin"] = json!(origin);
    }
    if queued > 0 {
        line["queued_turn_count"] = json!(queued);
    }
    line.to_string()
}

struct TurnSummary {
    subtype: &'static str,
    is_error: bool,
    terminal_reason: Option<&'static str>,
    text: Option<String>,
    errors: Option<Vec<String>>,
}

/// Builds the result of a turn.
pub(crate) fn turn_result(event: &Event, report: &TurnReport) -> ResultLine {
    let verdict = summarize_turn(report);
    let mut line = Map::new();
    let mut set = |name: &str, value: Value| {
        line.insert(name.to_owned(), value);
    };
    set("type", json!("result"));
    set("subtype", json!(verdict.subtype));
    set("is_error", json!(verdict.is_error));
    if let TurnEnd::Failed(error) = &report.end {
        set("api_error_status", json!(error.status));
    }
    set("duration_ms", json!(report.duration_ms));
    set("duration_api_ms", json!(report.api_ms));
    set("num_turns", json!(report.num_turns));
    if let Some(text) = &verdict.text {
        set("result", json!(text));
    }
    if let Some(errors) = &verdict.errors {
        set("errors", json!(errors));
    }
    if let Some(answer) = &report.structured_output {
        set("structured_output", serde_json::from_str(answer.get()).unwrap_or(Value::Null));
    }
    match &report.end {
        TurnEnd::Deferred { call, tool, input } => {
            set("stop_reason", json!("tool_deferred"));
            let input = serde_json::from_str::<Value>(input.get()).unwrap_or(Value::Null);
            set("deferred_tool_use", json!({"id": call, "name": tool, "input": input}));
        }
        TurnEnd::DeferredUnavailable { .. } => set("stop_reason", json!("tool_deferred_unavailable")),
        // The stop reason of the last reply is not why this turn ended.
        TurnEnd::Aborted { .. } => set("stop_reason", Value::Null),
        _ => set("stop_reason", json!(report.stop_reason.as_ref().map(|reason| reason.as_str()))),
    }
    set("session_id", json!(event.session));
    set("total_cost_usd", json!(report.total_cost_usd.unwrap_or(0.0)));
    set("usage", render_usage(&report.usage, report.last_usage.as_ref()));
    set("modelUsage", render_model_usage(&report.by_model));
    set("permission_denials", Value::Array(report.denials.iter().map(render_denial).collect()));
    if let Some(reason) = verdict.terminal_reason {
        set("terminal_reason", json!(reason));
    }
    if let Some(origin) = &report.origin {
        set("origin", json!(origin));
    }
    if report.queued > 0 {
        set("queued_turn_count", json!(report.queued));
    }
    set("uuid", json!(uuid::Uuid::new_v4().to_string()));
    ResultLine { json: Value::Object(line), is_error: verdict.is_error }
}

/// Returns the message for a deferred call whose tool does not exist in this session.
pub(crate) fn unavailable_call_message(tool: &str) -> String {
    format!("The call that was left for later cannot run: there is no tool named {tool} in this session.")
}

fn summarize_turn(report: &TurnReport) -> TurnSummary {
    let success = |is_error, terminal_reason, text| TurnSummary {
        subtype: "success",
        is_error,
        terminal_reason: Some(terminal_reason),
        text: Some(text),
        errors: None,
    };
    let failure = |subtype, terminal_reason, errors| TurnSummary {
        subtype,
        is_error: true,
        terminal_reason: Some(terminal_reason),
        text: None,
        errors: Some(errors),
    };
    match &report.end {
        TurnEnd::Completed => success(false, "completed", report.text.clone()),
        TurnEnd::Failed(error) => {
            let reason = match error.kind {
                ModelErrorKind::PromptTooLong => Some("prompt_too_long"),
                // No request was sent to the server.
                ModelErrorKind::NotLoggedIn => None,
                _ => Some("api_error"),
            };
            TurnSummary { terminal_reason: reason, ..success(true, "api_error", error.to_reply_text()) }
        }
        TurnEnd::Refused { .. } => success(true, "model_error", report.text.clone()),
        TurnEnd::HookStopped => success(false, "hook_stopped", report.text.clone()),
        TurnEnd::StopHookPrevented => success(false, "stop_hook_prevented", report.text.clone()),
        TurnEnd::Deferred { .. } => success(false, "tool_deferred", report.text.clone()),
        TurnEnd::DeferredUnavailable { tool } => {
            success(true, "tool_deferred_unavailable", unavailable_call_message(tool))
        }
        TurnEnd::PromptBlocked { reason } => success(false, "hook_stopped", reason.clone()),
        TurnEnd::PromptUnusable { reason, because } => {
            let word = match because {
                PromptDefect::Images => "image_error",
                PromptDefect::Length => "prompt_too_long",
                PromptDefect::Misplaced => "turn_setup_failed",
            };
            success(true, word, reason.clone())
        }
        TurnEnd::MaxTurns(max) => {
            failure("error_max_turns", "max_turns", vec![format!("Reached maximum number of turns ({max})")])
        }
        TurnEnd::Budget(max) => {
            failure("error_max_budget_usd", "budget_exhausted", vec![format!("Reached maximum budget (${max})")])
        }
        TurnEnd::StructuredOutputRetries(max) => failure(
            "error_max_structured_output_retries",
            "structured_output_retry_exhausted",
            vec![format!("No valid structured output after {max} attempts")],
        ),
        TurnEnd::Command { error: None } => {
            TurnSummary { terminal_reason: None, ..success(false, "completed", report.text.clone()) }
        }
        TurnEnd::Command { error: Some(problem) } => TurnSummary {
            terminal_reason: None,
            ..failure("error_during_execution", "completed", vec![problem.clone()])
        },
        TurnEnd::Stopped { reason, because } => {
            let word = match because {
                StopCause::RepeatedCalls => "repeated_calls",
                StopCause::TokenLimit => "max_total_tokens",
                StopCause::TimeLimit => "max_time",
                StopCause::RapidRefill => "rapid_refill_breaker",
                StopCause::InternalError => "internal_error",
            };
            failure("error_during_execution", word, vec![reason.clone()])
        }
        TurnEnd::Aborted { in_tools } => {
            let reason = if *in_tools { "aborted_tools" } else { "aborted_streaming" };
            failure("error_during_execution", reason, Vec::new())
        }
    }
}

fn render_usage(usage: &TokenUsage, last: Option<&TokenUsage>) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_creation_input_tokens,
        "cache_read_input_tokens": usage.cache_read_input_tokens,
        "output_tokens": usage.output_tokens,
        "server_tool_use": {
            "web_search_requests": usage.web_search_requests,
            "web_fetch_requests": usage.web_fetch_requests,
        },
        "service_tier": "standard",
        "cache_creation": render_cache_creation(usage),
        "inference_geo": "not_available",
        "iterations": last.map(render_iteration).into_iter().collect::<Vec<_>>(),
        "speed": "standard",
        "output_tokens_details": {"thinking_tokens": usage.thinking_tokens},
    })
}

/// Renders the usage of the last reply.
fn render_iteration(usage: &TokenUsage) -> Value {
    json!({
        "type": "message",
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cache_read_input_tokens,
        "cache_creation_input_tokens": usage.cache_creation_input_tokens,
        "cache_creation": render_cache_creation(usage),
    })
}

fn render_cache_creation(usage: &TokenUsage) -> Value {
    json!({
        "ephemeral_1h_input_tokens": usage.cache_creation_1h,
        "ephemeral_5m_input_tokens": usage.cache_creation_5m,
    })
}

/// Returns the cost of all models together; zero if any price is unknown.
pub(crate) fn total_cost(models: &[ModelUsage]) -> f64 {
    models.iter().try_fold(0.0, |sum, entry| Some(sum + entry.cost_usd?)).unwrap_or(0.0)
}

pub(crate) fn render_model_usage(models: &[ModelUsage]) -> Value {
    let entries = models.iter().map(|entry| {
        let value = json!({
            "inputTokens": entry.usage.input_tokens,
            "outputTokens": entry.usage.output_tokens,
            "cacheReadInputTokens": entry.usage.cache_read_input_tokens,
            "cacheCreationInputTokens": entry.usage.cache_creation_input_tokens,
            "webSearchRequests": entry.usage.web_search_requests,
            "costUSD": entry.cost_usd.unwrap_or(0.0),
            "contextWindow": entry.context_window,
            "maxOutputTokens": entry.max_output_tokens,
            "costBasis": if entry.cost_usd.is_some() { "list" } else { "unknown" },
        });
        (entry.model.clone(), value)
    });
    Value::Object(entries.collect())
}

fn render_denial(denial: &Denial) -> Value {
    json!({
        "tool_name": denial.tool,
        "tool_use_id": denial.call,
        "tool_input": serde_json::from_str::<Value>(denial.input.get()).unwrap_or(Value::Null),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gimlet_proto::{AgentPath, EventBody, SessionId, ToolUseId};
    use serde_json::value::RawValue;

    use super::*;

    fn result_json(end: TurnEnd) -> Value {
        let report = TurnReport {
            end,
            text: "last words".into(),
            stop_reason: None,
            num_turns: 1,
            duration_ms: 1,
            api_ms: 1,
            usage: TokenUsage::default(),
            last_usage: None,
            total_cost_usd: None,
            by_model: Vec::new(),
            denials: Vec::new(),
            origin: None,
            queued: 0,
            structured_output: None,
        };
        let event = Event {
            seq: 1,
            session: SessionId::new("s"),
            agent: AgentPath::default(),
            at: Arc::from(""),
            body: EventBody::Closed,
        };
        turn_result(&event, &report).json
    }

    #[test]
    fn a_failure_of_any_length_fits_into_a_line() {
        let told = |problem: &str| -> Value {
            let line = startup_failure_line(problem, &StartupFailure::default(), "s");
            assert!(line.len() < 1_000_000, "{}", line.len());
            serde_json::from_str::<Value>(&line).unwrap()["errors"][0].clone()
        };
        assert_eq!(told("no such thing"), "no such thing");
        let cut = told(&"\u{1}".repeat(2_000_000));
        assert!(cut.as_str().unwrap().ends_with("[1980000 characters left out]"));
    }

    #[test]
    fn turns_that_hooks_ended_are_successes_that_say_so() {
        let input = Arc::from(RawValue::from_string(r#"{"command":"make"}"#.into()).unwrap());
        let deferred = TurnEnd::Deferred { call: ToolUseId::new("t1"), tool: "Bash".into(), input };
        let cases = [
            (TurnEnd::HookStopped, "hook_stopped", "last words"),
            (TurnEnd::StopHookPrevented, "stop_hook_prevented", "last words"),
            (TurnEnd::PromptBlocked { reason: "not now".into() }, "hook_stopped", "not now"),
            (deferred.clone(), "tool_deferred", "last words"),
        ];
        for (end, reason, text) in cases {
            let line = result_json(end);
            assert_eq!((&line["subtype"], &line["is_error"]), (&json!("success"), &json!(false)), "{line}");
            assert_eq!((&line["terminal_reason"], &line["result"]), (&json!(reason), &json!(text)), "{line}");
        }
        let line = result_json(deferred);
        assert_eq!(line["deferred_tool_use"], json!({"id": "t1", "name": "Bash", "input": {"command": "make"}}));
        assert_eq!(line["stop_reason"], "tool_deferred");
    }

    #[test]
    fn a_call_that_waited_in_vain_is_an_error_that_names_its_tool() {
        let line = result_json(TurnEnd::DeferredUnavailable { tool: "mcp__x__y".into() });
        assert_eq!((&line["subtype"], &line["is_error"]), (&json!("success"), &json!(true)), "{line}");
        assert_eq!(
            (&line["terminal_reason"], &line["stop_reason"]),
            (&line["stop_reason"], &json!("tool_deferred_unavailable"))
        );
        assert!(line["result"].as_str().unwrap().contains("mcp__x__y"), "{line}");
    }
}
