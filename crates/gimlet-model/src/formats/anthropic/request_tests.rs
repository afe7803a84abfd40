use std::sync::Arc;

use gimlet_proto::{CachePlan, ThinkingMode};
use serde_json::{Value, value::RawValue};

use super::*;

fn tool(name: &str, defer: bool) -> ToolDef {
    ToolDef {
        name: name.into(),
        description: format!("Does \"{name}\".\n"),
        input_schema: RawValue::from_string(r#"{"type":"object","z":1.0}"#.into()).unwrap(),
        eager_input: true,
        defer_loading: defer,
    }
}

fn request(messages: Vec<Arc<Message>>) -> ModelRequest {
    ModelRequest {
        model: "default".into(),
        max_tokens: None,
        system: Arc::from(["You help.".to_owned(), " ".to_owned()]),
        tools: Arc::from([tool("Read", false), tool("Rare", true)]),
        tool_choice: ToolChoice::Auto { parallel: true },
        messages,
        few_images: None,
        cache: CachePlan { ttl: Some(CacheTtl::FiveMinutes), context: Some((0, 0)), previous_len: None },
        thinking: ThinkingMode::ModelDefault,
        display: None,
        effort: None,
        want_wire_events: false,
    }
}

fn user(text: &str) -> Arc<Message> {
    Arc::new(Message::user(vec![Block::text(text)]))
}

fn body(request: &ModelRequest, plan: &BodyPlan) -> String {
    let bytes = build_body(request, plan);
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    serde_json::from_str::<Value>(&text).expect("a body is valid JSON");
    text
}

fn plain() -> BodyPlan {
    BodyPlan::plain("m", 1000)
}

const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

#[test]
fn the_whole_body_has_one_order_and_exact_bytes() {
    let mut plan = plain();
    plan.thinking = Some(ThinkingField::Adaptive { display: Some(ThinkingDisplay::Summarized), drop_unbound: false });
    plan.effort = Some("low".into());
    assert_eq!(
        body(&request(vec![user("hi\u{1}")]), &plan),
        concat!(
            r#"{"model":"m","max_tokens":1000,"system":[{"type":"text","text":"You help.","cache_control":{"type":"ephemeral"}}],"#,
            r#""tools":[{"name":"Read","description":"Does \"Read\".\n","input_schema":{"type":"object","z":1.0},"eager_input_streaming":true},"#,
            r#"{"name":"Rare","description":"Does \"Rare\".\n","input_schema":{"type":"object","z":1.0},"eager_input_streaming":true,"defer_loading":true}],"#,
            r#""thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"low"},"#,
            r#""stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"hi\u0001","cache_control":{"type":"ephemeral"}}]}]}"#
        )
    );
}

#[test]
fn tool_choice_is_said_only_when_it_differs_from_the_default() {
    let said = |choice: ToolChoice| {
        let mut plan = plain();
        plan.tool_choice = choice;
        let body: Value = serde_json::from_str(&body(&request(vec![user("x")]), &plan)).unwrap();
        body.get("tool_choice").map(Value::to_string)
    };
    assert_eq!(said(ToolChoice::Auto { parallel: true }), None);
    assert_eq!(
        said(ToolChoice::Auto { parallel: false }).unwrap(),
        r#"{"type":"auto","disable_parallel_tool_use":true}"#
    );
    assert_eq!(said(ToolChoice::Any { parallel: true }).unwrap(), r#"{"type":"any"}"#);
    assert_eq!(
        said(ToolChoice::Tool { name: "Read".into(), parallel: false }).unwrap(),
        r#"{"type":"tool","name":"Read","disable_parallel_tool_use":true}"#
    );
    assert_eq!(said(ToolChoice::None).unwrap(), r#"{"type":"none"}"#);
}

#[test]
fn without_system_the_last_loaded_tool_carries_the_static_marker() {
    let mut request = request(vec![user("x")]);
    request.system = Arc::from([]);
    let body: Value = serde_json::from_str(&body(&request, &plain())).unwrap();
    assert!(body["tools"][0].get("cache_control").is_some());
    assert!(body["tools"][1].get("cache_control").is_none());
}

#[test]
fn markers_avoid_thinking_and_blank_text_and_can_be_long_lived_or_absent() {
    let last = Arc::new(Message::user(vec![
        Block::from_json(r#"{"type":"tool_result","tool_use_id":"t","content":"r"}"#).unwrap(),
        Block::from_json(r#"{"type":"thinking","thinking":"","signature":"s"}"#).unwrap(),
        Block::text("  "),
    ]));
    let mut request = request(vec![user("x"), last]);
    request.cache.ttl = Some(CacheTtl::OneHour);
    let text = body(&request, &plain());
    assert!(text.contains(r#""content":"r","cache_control":{"type":"ephemeral","ttl":"1h"}}"#));
    assert_eq!(text.matches("cache_control").count(), 3);
    let mut off = plain();
    off.caching = false;
    assert!(!body(&request, &off).contains("cache_control"));
    request.cache.ttl = None;
    assert!(!body(&request, &plain()).contains("cache_control"));
}

#[test]
fn text_about_markers_does_not_count_as_one() {
    let text = body(&request(vec![user(r#"say "cache_control": {}"#)]), &plain());
    assert_eq!(text.matches(MARK).count(), 2);
}

#[test]
fn a_growing_history_keeps_its_bytes_and_never_has_more_than_four_markers() {
    let mut messages = vec![user("context"), user("go")];
    let mut before: Option<(String, usize)> = None;
    for turn in 0..12 {
        let mut request = request(messages.clone());
        request.cache.previous_len = before.as_ref().map(|(_, len)| *len);
        let text = body(&request, &plain());
        assert!(text.matches("cache_control").count() <= 4, "{text}");
        let bare = text.replace(MARK, "");
        if let Some((earlier, len)) = &before {
            let prefix = earlier.strip_suffix("]}").unwrap();
            assert!(bare.starts_with(prefix), "turn {turn} changed what was sent before");
            // The previous request's newest marker is still there, on its block.
            let marked = serde_json::from_str::<Value>(&text).unwrap()["messages"][len - 1].clone();
            assert!(marked["content"].as_array().unwrap().last().unwrap().get("cache_control").is_some());
        }
        before = Some((bare, messages.len()));
        let call = format!(r#"{{"type":"tool_use","id":"t{turn}","name":"Read","input":{{"n":{turn}.0}}}}"#);
        let thought = r#"{"type":"thinking","thinking":"","signature":"s"}"#;
        messages.push(Arc::new(Message::assistant(vec![
            Block::from_json(thought).unwrap(),
            Block::from_json(&call).unwrap(),
        ])));
        let results = (0..=turn).map(|n| Block::tool_result(&format!("t{turn}"), &format!("{n}").into(), false));
        messages.push(Arc::new(Message::user(results.collect())));
    }
}

#[test]
fn stripping_removes_thinking_from_the_start_only() {
    let thought = || Block::from_json(r#"{"type":"thinking","thinking":"","signature":"s"}"#).unwrap();
    let only = Arc::new(Message::assistant(vec![thought()]));
    let both = Arc::new(Message::assistant(vec![thought(), Block::text("a")]));
    let mut plan = plain();
    plan.strip_thinking = 3;
    let text = body(&request(vec![user("x"), only, both.clone(), user("y"), both, user("z")]), &plan);
    assert_eq!(text.matches("signature").count(), 1);
    assert_eq!(text.matches(r#""role":"assistant""#).count(), 2);
}

#[test]
fn every_form_of_thinking_is_rendered() {
    let said = |field: ThinkingField| {
        let mut plan = plain();
        plan.thinking = Some(field);
        serde_json::from_str::<Value>(&body(&request(vec![user("x")]), &plan)).unwrap()["thinking"].to_string()
    };
    assert_eq!(said(ThinkingField::Enabled { budget: 2048 }), r#"{"type":"enabled","budget_tokens":2048}"#);
    assert_eq!(said(ThinkingField::Disabled), r#"{"type":"disabled"}"#);
    assert_eq!(said(ThinkingField::BetweenTools), r#"{"type":"between_tools"}"#);
    assert_eq!(
        said(ThinkingField::Adaptive { display: None, drop_unbound: true }),
        r#"{"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"drop_block"}}"#
    );
}
