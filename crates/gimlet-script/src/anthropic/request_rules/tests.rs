//! Tests of every rule, with a request that breaks it and one that keeps it.

use serde_json::{Value, json};

use super::*;
use crate::ReceivedRequest;
use crate::anthropic::image_header::tests::png_of;
use crate::model_capabilities::ModelCapabilities;

struct RuleCase {
    body: Value,
    betas: Vec<String>,
    version: &'static str,
    issued: IssuedBlocks,
    count_only: bool,
}

/// A request that keeps every rule.
fn good() -> RuleCase {
    let body = json!({
        "model": "claude-opus-5-5", "max_tokens": 1000, "stream": true, "system": "be brief",
        "tools": [tool("Read")],
        "messages": [{"role": "user", "content": "hi"}],
    });
    RuleCase { body, betas: Vec::new(), version: "2023-06-01", issued: IssuedBlocks::default(), count_only: false }
}

fn tool(name: &str) -> Value {
    json!({"name": name, "description": "d", "input_schema": {"type": "object"}})
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}]})
}

fn calls(ids: &[&str]) -> Value {
    let blocks: Vec<_> =
        ids.iter().map(|id| json!({"type": "tool_use", "id": id, "name": "Read", "input": {}})).collect();
    json!({"role": "assistant", "content": blocks})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "ok"})
}

fn results(ids: &[&str]) -> Value {
    json!({"role": "user", "content": ids.iter().map(|id| result(id)).collect::<Vec<_>>()})
}

impl RuleCase {
    fn set(mut self, field: &str, value: Value) -> Self {
        self.body[field] = value;
        self
    }

    fn model(self, model: &str) -> Self {
        self.set("model", json!(model))
    }

    fn messages(self, messages: Vec<Value>) -> Self {
        self.set("messages", Value::Array(messages))
    }

    fn beta(mut self, beta: &str) -> Self {
        self.betas.push(beta.to_owned());
        self
    }

    fn without(mut self, field: &str) -> Self {
        self.body.as_object_mut().unwrap().shift_remove(field);
        self
    }

    fn run(&self) -> Result<(), String> {
        let request = ReceivedRequest::for_test(&self.body.to_string());
        let (text, root) = request.parsed().unwrap();
        let profile = ModelCapabilities::find(request.model(), &[]).unwrap();
        let rules = RuleContext {
            text,
            root,
            profile: &profile,
            betas: &self.betas,
            version: self.version,
            issued: &self.issued,
            count_only: self.count_only,
        };
        check(&rules).map_err(|error| {
            assert_eq!((error.status, error.kind.as_str()), (400, "invalid_request_error"));
            error.message
        })
    }

    #[track_caller]
    fn refused(&self, words: &str) {
        let message = self.run().expect_err("should have been refused");
        assert!(message.contains(words), "{message:?} lacks {words:?}");
    }

    #[track_caller]
    fn accepted(&self) {
        assert_eq!(self.run(), Ok(()));
    }
}

#[test]
fn required_fields() {
    good().accepted();
    for field in ["model", "max_tokens", "messages"] {
        good().without(field).refused(&format!("{field}: Field required"));
    }
    good().messages(vec![]).refused("at least one message");
    let counting = || RuleCase { count_only: true, ..good().without("max_tokens").without("stream") };
    counting().accepted();
    counting().set("stream", json!(true)).refused("stream: Extra inputs");
}

#[test]
fn unknown_fields_anywhere() {
    good().set("foo", json!(1)).refused("foo: Extra inputs are not permitted");
    good().set("tools", json!([{"name": "a", "input_schema": {"type": "object"}, "x": 1}])).refused("tools.0.x");
    good().set("thinking", json!({"type": "adaptive", "x": 1})).refused("thinking.x");
    good().set("system", json!([{"type": "text", "text": "a", "x": 1}])).refused("system.0.x");
    good().messages(vec![json!({"role": "user", "content": "a", "id": "m"})]).refused("messages.0.id");
    let block = json!({"type": "text", "text": "a", "x": 1});
    good().messages(vec![json!({"role": "user", "content": [block]})]).refused("messages.0.content.0.x");
    let marked = json!({"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "scope": "x"}});
    good().messages(vec![json!({"role": "user", "content": [marked]})]).refused("cache_control.scope");
    good().set("metadata", json!({"user_id": "a", "x": 1})).refused("metadata.x");
    good().set("metadata", json!({"user_id": "me@example.com"})).refused("opaque");
    good().set("metadata", json!({"user_id": "5a8"})).accepted();
}

#[test]
fn fields_travel_with_their_beta() {
    let pairs = [
        (
            "context_management",
            json!({"edits": [{"type": "clear_tool_uses_20250919"}]}),
            "context-management-2025-06-27",
        ),
        ("context_management", json!({"edits": [{"type": "compact_20260112"}]}), "compact-2026-01-12"),
        ("compaction", json!({"type": "summarize"}), "compact-2026-09-04"),
        ("diagnostics", json!({"previous_message_id": null}), "cache-diagnosis-2026-04-07"),
        ("fallbacks", json!("default"), "server-side-fallback-2026-07-01"),
        ("speed", json!("fast"), "fast-mode-2026-02-01"),
        ("thinking", json!({"type": "adaptive", "display": "updates"}), "thinking-display-updates-2026-08-18"),
        ("output_config", json!({"task_budget": {"type": "tokens", "total": 9}}), "task-budgets-2026-03-13"),
        (
            "thinking",
            json!({"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}),
            "thinking-binding-controls-2026-08-01",
        ),
    ];
    for (field, value, beta) in pairs {
        good().set(field, value.clone()).refused(beta);
        good().set(field, value).beta(beta).accepted();
    }
}

#[test]
fn calls_and_results_pair_up() {
    let history = |middle: Vec<Value>| good().messages([vec![user("a")], middle].concat());
    history(vec![calls(&["t1", "t2"]), results(&["t1", "t2"])]).accepted();
    history(vec![calls(&["t1", "t2"]), results(&["t2", "t1"])]).accepted();
    history(vec![calls(&["t1"])]).refused("without `tool_result` blocks immediately after: t1");
    history(vec![calls(&["t1", "t2"]), results(&["t1"])]).refused("immediately after: t2");
    history(vec![calls(&["t1"]), user("no"), results(&["t1"])]).refused("immediately after: t1");
    history(vec![results(&["t9"])]).refused("unexpected `tool_use_id` found in `tool_result` blocks: t9");
    history(vec![calls(&["t1"]), results(&["t1", "t1"])]).refused("multiple `tool_result` blocks with id t1");
    history(vec![calls(&["t1", "t1"]), results(&["t1"])]).refused("must be unique: t1");
    history(vec![calls(&["t.1"]), results(&["t.1"])]).refused("\"t.1\" should match pattern");
    let text_first = json!({"role": "user", "content": [{"type": "text", "text": "x"}, result("t1")]});
    history(vec![calls(&["t1"]), text_first]).refused("immediately after: t1");
    let text_last = json!({"role": "user", "content": [result("t1"), {"type": "text", "text": "x"}]});
    history(vec![calls(&["t1"]), text_last]).accepted();
    let split = vec![calls(&["t1", "t2"]), results(&["t1"]), results(&["t2"])];
    history(split).refused("immediately after: t2");
}

#[test]
fn an_open_server_tool_allows_results_only() {
    let mixed = json!({"role": "assistant", "content": [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "tool_use", "id": "t1", "name": "Read", "input": {}}]});
    let search = json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 8});
    let case = |answer: Value| {
        good().set("tools", json!([tool("Read"), search])).messages(vec![user("a"), mixed.clone(), answer])
    };
    case(results(&["t1"])).accepted();
    let extra = json!({"role": "user", "content": [result("t1"), {"type": "text", "text": "x"}]});
    case(extra).refused("web_search");
    case(results(&["t1"])).set("tools", json!([tool("Read")])).refused("must still be defined");
}

#[test]
fn content_is_never_empty() {
    good().messages(vec![user("")]).refused("non-empty");
    good().messages(vec![user(" \n")]).refused("non-empty");
    good().messages(vec![json!({"role": "user", "content": []})]).refused("non-empty");
    good().messages(vec![json!({"role": "user", "content": ""})]).refused("non-empty");
    good().set("system", json!([{"type": "text", "text": ""}])).refused("non-empty");
    let empty_result = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1"}]});
    good().messages(vec![user("a"), calls(&["t1"]), empty_result]).accepted();
}

#[test]
fn who_speaks_first_and_last() {
    let assistant = json!({"role": "assistant", "content": [{"type": "text", "text": "x"}]});
    good().messages(vec![assistant.clone(), user("a")]).refused("first message");
    good().messages(vec![user("a"), assistant.clone()]).refused("prefill");
    good().model("claude-opus-4-5-20251101").messages(vec![user("a"), assistant.clone()]).accepted();
    let mut paused = good().messages(vec![user("a"), assistant]);
    paused.issued.paused_tails.insert(r#"{"text":"x","type":"text"}"#.to_owned());
    paused.accepted();
    let compacted = json!({"role": "assistant", "content": [{"type": "compaction", "content": "s"}]});
    good().messages(vec![compacted, user("a")]).accepted();
    good().messages(vec![user("a"), user("b")]).accepted();
}

#[test]
fn blocks_belong_to_roles() {
    let call = json!({"type": "tool_use", "id": "t", "name": "Read", "input": {}});
    good().messages(vec![json!({"role": "user", "content": [call]})]).refused("not allowed in user messages");
    let odd = json!({"role": "assistant", "content": [{"type": "hologram", "x": 1}]});
    good().messages(vec![user("a"), odd.clone(), user("b")]).refused("hologram");
    let mut issued = good().messages(vec![user("a"), odd, user("b")]);
    issued.issued.odd_types.insert("hologram".to_owned());
    issued.accepted();
    let bad_input =
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "R", "input": "x"}]});
    good().messages(vec![user("a"), bad_input]).refused("Input should be an object");
}

#[test]
fn system_messages_have_their_places() {
    let system = json!({"role": "system", "content": "note"});
    let assistant = json!({"role": "assistant", "content": "x"});
    good().messages(vec![user("a"), system.clone()]).accepted();
    good().messages(vec![user("a"), system.clone(), assistant.clone(), user("b")]).accepted();
    good().messages(vec![user("a"), assistant, system.clone()]).refused("placement");
    good().messages(vec![user("a"), system.clone(), user("b")]).refused("placement");
    good().messages(vec![user("a"), calls(&["t"]), system.clone(), results(&["t"])]).refused("immediately after");
    good().model("claude-opus-4-6").messages(vec![user("a"), system]).refused("not supported");
    let effort = json!({"role": "system", "content": "n", "output_config": {"effort": "low"}});
    good().messages(vec![user("a"), effort.clone()]).refused("output_config");
    good().messages(vec![user("a"), effort]).beta("mid-conversation-output-config-2026-07-01").accepted();
}

#[test]
fn thinking_effort_and_choice_follow_the_model() {
    let thinking = |model: &str, value: Value| good().model(model).set("thinking", value);
    thinking("claude-opus-5-5", json!({"type": "adaptive", "display": "summarized"})).accepted();
    thinking("claude-opus-5-5", json!({"type": "disabled"})).refused("`thinking.type.disabled` is not supported");
    thinking("claude-opus-5-5", json!({"type": "enabled", "budget_tokens": 2000})).refused("`thinking.type.enabled`");
    thinking("claude-sonnet-5-5", json!({"type": "between_tools", "display": "omitted"})).refused("thinking.display");
    thinking("claude-opus-5", json!({"type": "adaptive", "display": "loud"})).refused("thinking.display");
    let manual = |budget: u64| {
        thinking("claude-sonnet-4-5", json!({"type": "enabled", "budget_tokens": budget}))
            .set("max_tokens", json!(3000))
    };
    manual(1024).accepted();
    manual(1023).refused("budget_tokens");
    manual(3000).refused("budget_tokens");
    manual(3000).beta("interleaved-thinking-2025-05-14").accepted();

    let effort = |model: &str, level: &str| good().model(model).set("output_config", json!({"effort": level}));
    effort("claude-opus-5-5", "xhigh").accepted();
    effort("claude-opus-4-6", "xhigh").refused("output_config.effort");
    effort("claude-haiku-4-5", "low").refused("output_config.effort");
    effort("claude-opus-5", "max").set("thinking", json!({"type": "disabled"})).refused("thinking off");

    let forced = |model: &str| good().model(model).set("tool_choice", json!({"type": "any"}));
    forced("claude-opus-5-5").refused("tool_choice.type");
    forced("claude-opus-4-8").accepted();
    forced("claude-sonnet-4-5")
        .set("thinking", json!({"type": "enabled", "budget_tokens": 1024}))
        .set("max_tokens", json!(2000))
        .refused("forced");
    good().set("tool_choice", json!({"type": "auto", "disable_parallel_tool_use": true})).accepted();
    good().model("claude-opus-4-8").set("tool_choice", json!({"type": "tool", "name": "Nope"})).refused("Nope");
    good().set("max_tokens", json!(200_000)).refused("maximum allowed number of output tokens");
    good().set("max_tokens", json!(0)).refused("0 cannot be combined");
}

#[test]
fn a_manual_budget_wants_thinking_first() {
    let case = |first: Value| {
        let turn = json!({"role": "assistant", "content": [first, {"type": "tool_use", "id": "t", "name": "Read", "input": {}}]});
        good()
            .model("claude-sonnet-4-5")
            .set("max_tokens", json!(2000))
            .set("thinking", json!({"type": "enabled", "budget_tokens": 1024}))
            .messages(vec![user("a"), turn, results(&["t"])])
    };
    case(json!({"type": "text", "text": "x"})).refused("Expected `thinking`");
    case(json!({"type": "redacted_thinking", "data": "x"})).accepted();
}

#[test]
fn sampling_is_gone_from_new_models_and_versions() {
    for field in ["temperature", "top_p", "top_k"] {
        good().set(field, json!(1)).refused(field);
        good().model("claude-opus-4-6").set(field, json!(1)).accepted();
        RuleCase { version: "2026-10-21", ..good().model("claude-opus-4-6").set(field, json!(1)) }
            .refused("2026-10-21");
    }
}

#[test]
fn cache_markers_are_few_ordered_and_well_placed() {
    let marked = |ttl: Option<&str>| {
        let mut control = json!({"type": "ephemeral"});
        if let Some(ttl) = ttl {
            control["ttl"] = json!(ttl);
        }
        json!({"type": "text", "text": "a", "cache_control": control})
    };
    let case = |blocks: Vec<Value>| good().messages(vec![json!({"role": "user", "content": blocks})]);
    case(vec![marked(None); 4]).accepted();
    case(vec![marked(None); 5]).refused("maximum of 4");
    case(vec![marked(None); 4]).set("cache_control", json!({"type": "ephemeral"})).refused("Found 5");
    case(vec![marked(Some("1h")), marked(Some("5m"))]).accepted();
    case(vec![marked(Some("5m")), marked(Some("1h"))]).refused("must not come after");
    case(vec![marked(Some("2h"))]).refused("'5m' or '1h'");
    let mut deferred = tool("Later");
    deferred["defer_loading"] = json!(true);
    good().set("tools", json!([tool("Read"), deferred])).accepted();
    deferred["cache_control"] = json!({"type": "ephemeral"});
    good().set("tools", json!([tool("Read"), deferred])).refused("defer_loading");
    let thought = json!({"role": "assistant", "content": [
        {"type": "thinking", "thinking": "", "signature": "s", "cache_control": {"type": "ephemeral"}}]});
    good().messages(vec![user("a"), thought, user("b")]).refused("cache_control");
}

#[test]
fn tool_lists() {
    let tools = |tools: Vec<Value>| good().set("tools", Value::Array(tools));
    tools(vec![tool("bad name")]).refused("tools.0.name");
    tools(vec![tool(&"x".repeat(65))]).refused("tools.0.name");
    tools(vec![tool("A"), tool("A")]).refused("must be unique");
    tools(vec![json!({"name": "A"})]).refused("input_schema: Field required");
    tools(vec![json!({"name": "A", "input_schema": {"type": "array"}})]).refused("'object'");
    let with = |field: &str, count: usize| -> Vec<Value> {
        let make = |n: usize| json!({"name": format!("T{n}"), field: true, "input_schema": {"type": "object", "additionalProperties": false}});
        (0..count).map(make).collect()
    };
    tools(with("defer_loading", 2)).refused("at least one tool");
    tools(with("strict", 20)).accepted();
    tools(with("strict", 21)).refused("21 strict tools");
    tools(vec![json!({"name": "A", "strict": true, "input_schema": {"type": "object"}})])
        .refused("additionalProperties");
    good().model("scripted-no-tools").refused("does not support tools");
    let reference = |name: &str| {
        let part = json!({"type": "tool_reference", "tool_name": name});
        let answer =
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [part]}]});
        good().messages(vec![user("a"), calls(&["t"]), answer])
    };
    reference("Read").accepted();
    reference("Nope").refused("Nope");
}

#[test]
fn images_are_what_they_say_and_not_too_large() {
    let image = |kind: &str, data: String| json!({"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}});
    let case = |images: Vec<Value>| good().messages(vec![json!({"role": "user", "content": images})]);
    case(vec![image("image/png", png_of(10, 10))]).accepted();
    case(vec![image("image/jpeg", png_of(10, 10))]).refused("appears to be image/png");
    case(vec![image("image/png", "bm8=".to_owned())]).refused("could not process image");
    case(vec![image("image/png", png_of(8001, 10))]).refused("8000 pixels");
    case(vec![image("image/png", png_of(2001, 10)); 20]).accepted();
    case(vec![image("image/png", png_of(2001, 10)); 21]).refused("2000 pixels");
    case(vec![image("image/png", png_of(1, 1)); 601]).refused("too many images");
    case(vec![image("image/png", png_of(1, 1)); 101]).model("claude-haiku-4-5").refused("too many images");
    case(vec![image("image/png", "A".repeat(10_000_001))]).refused("10 MB");
}

#[test]
fn the_new_version_takes_less() {
    let document = json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}});
    let case = |version| RuleCase {
        version,
        ..good().messages(vec![user("a"), json!({"role": "assistant", "content": [document]}), user("b")])
    };
    case("2023-06-01").accepted();
    case("2026-10-21").refused("document");
}

#[test]
fn names_of_calls_have_an_alphabet_and_a_length() {
    let named = |name: &str| {
        let call =
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": name, "input": {}}]});
        good().messages(vec![user("hi"), call, results(&["a"])])
    };
    named("mcp__a-b__c").accepted();
    named(&"x".repeat(128)).accepted();
    for bad in ["", "a b", "a.b", "é", &"x".repeat(129)] {
        named(bad).refused("name: String should match pattern");
    }
}

#[test]
fn documents_are_what_they_say() {
    let with = |source: Value| {
        let document = json!({"type": "document", "source": source});
        good().messages(vec![json!({"role": "user", "content": [document]})])
    };
    let pdf = |data: &str| with(json!({"type": "base64", "media_type": "application/pdf", "data": data}));
    pdf("JVBERi0xLjQ=").accepted();
    pdf("AAAA").refused("not a valid PDF");
    pdf("").refused("not a valid PDF");
    with(json!({"type": "text", "media_type": "text/plain", "data": "words"})).accepted();
    with(json!({"type": "text", "media_type": "text/plain", "data": " "})).refused("some text");
    with(json!({"type": "url", "url": "https://a/b.pdf"})).accepted();
    with(json!({"type": "url", "url": "file:///b.pdf"})).refused("not an address");
    with(json!({"type": "scroll"})).refused("unknown document source");
}

#[test]
fn parameters_of_tools_have_plain_names() {
    let with = |properties: Value| {
        let schema = json!({"type": "object", "properties": properties});
        good().set("tools", json!([{"name": "a", "input_schema": schema}]))
    };
    with(json!({"a.b-c_1": {}})).accepted();
    with(json!({"a b": {}})).refused("Property keys");
    with(json!([])).refused("JSON schema is invalid");
}
