//! The `result` line that ends a turn.

use gimlet_proto::{Denial, ErrorKind, Event, ModelUsage, TurnEnd, TurnReport, Usage};
use serde_json::{Map, Value, json};

/// A result with what the exit code depends on.
pub(crate) struct Result {
    pub(crate) json: Value,
    pub(crate) is_error: bool,
}

impl Result {
    pub(crate) fn render(&self) -> String {
        self.json.to_string()
    }
}

/// The line for a program whose session could not even start: it waits for a result and finds the reason there.
pub fn startup_failure(problem: &str, session: &str) -> String {
    json!({
        "type": "result",
        "subtype": "error_during_execution",
        "is_error": true,
        "duration_ms": 0,
        "duration_api_ms": 0,
        "num_turns": 0,
        "stop_reason": null,
        "session_id": session,
        "total_cost_usd": 0.0,
        "usage": usage(&Usage::default()),
        "modelUsage": {},
        "permission_denials": [],
        "errors": [problem],
        "uuid": uuid::Uuid::new_v4().to_string(),
    })
    .to_string()
}

struct Verdict {
    subtype: &'static str,
    is_error: bool,
    terminal_reason: &'static str,
    text: Option<String>,
    errors: Option<Vec<String>>,
}

/// Sums a turn up.
pub(crate) fn result(event: &Event, report: &TurnReport) -> Result {
    let verdict = verdict(report);
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
        _ => set("stop_reason", json!(report.stop_reason.as_ref().map(|reason| reason.as_str()))),
    }
    set("session_id", json!(event.session));
    set("total_cost_usd", json!(report.total_cost_usd.unwrap_or(0.0)));
    set("usage", usage(&report.usage));
    set("modelUsage", model_usage(&report.by_model));
    set("permission_denials", Value::Array(report.denials.iter().map(denial).collect()));
    set("terminal_reason", json!(verdict.terminal_reason));
    set("uuid", json!(uuid::Uuid::new_v4().to_string()));
    Result { json: Value::Object(line), is_error: verdict.is_error }
}

fn verdict(report: &TurnReport) -> Verdict {
    let success = |is_error, terminal_reason, text| Verdict {
        subtype: "success",
        is_error,
        terminal_reason,
        text: Some(text),
        errors: None,
    };
    let failure = |subtype, terminal_reason, errors| Verdict {
        subtype,
        is_error: true,
        terminal_reason,
        text: None,
        errors: Some(errors),
    };
    match &report.end {
        TurnEnd::Completed => success(false, "completed", report.text.clone()),
        TurnEnd::Failed(error) => {
            let reason = if error.kind == ErrorKind::PromptTooLong { "prompt_too_long" } else { "api_error" };
            success(true, reason, format!("API Error: {error}"))
        }
        TurnEnd::Refused { .. } => success(true, "model_error", report.text.clone()),
        TurnEnd::HookStopped => success(false, "hook_stopped", report.text.clone()),
        TurnEnd::StopHookPrevented => success(false, "stop_hook_prevented", report.text.clone()),
        TurnEnd::Deferred { .. } => success(false, "tool_deferred", report.text.clone()),
        TurnEnd::PromptBlocked { reason } => success(false, "hook_stopped", reason.clone()),
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
        TurnEnd::Aborted { in_tools } => {
            let reason = if *in_tools { "aborted_tools" } else { "aborted_streaming" };
            failure("error_during_execution", reason, Vec::new())
        }
    }
}

fn usage(usage: &Usage) -> Value {
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
        "cache_creation": {
            "ephemeral_1h_input_tokens": usage.cache_creation_1h,
            "ephemeral_5m_input_tokens": usage.cache_creation_5m,
        },
        "inference_geo": "not_available",
        "iterations": [],
        "speed": "standard",
        "output_tokens_details": {"thinking_tokens": usage.thinking_tokens},
    })
}

fn model_usage(models: &[ModelUsage]) -> Value {
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

fn denial(denial: &Denial) -> Value {
    json!({
        "tool_name": denial.tool,
        "tool_use_id": denial.call,
        "tool_input": serde_json::from_str::<Value>(denial.input.get()).unwrap_or(Value::Null),
    })
}
