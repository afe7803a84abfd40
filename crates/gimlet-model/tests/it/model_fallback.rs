//! Models that stand in for one that does not answer, and ids that a gateway has other names for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gimlet_model::{ModelChoices, ModelEngine, ProviderConfig};
use gimlet_proto::{Block, Message, Model, ModelEvent, ModelRequest, ResultContent};

use crate::canned_server::{CannedAnswer, CannedServer, RecordedRequest, error, stream};
use crate::*;

fn falling_back(server: &CannedServer, fallbacks: &[&str]) -> ModelEngine {
    let fallbacks = fallbacks.iter().map(|name| (*name).to_owned()).collect();
    let choices = ModelChoices { fallbacks, ..ModelChoices::default() };
    let mut config = ProviderConfig::from_env(&env(server)).unwrap().with_choices(choices);
    config.retries.first_delay = Duration::from_millis(1);
    ModelEngine::new(config)
}

fn overloaded() -> CannedAnswer {
    error(529, "overloaded_error", "Overloaded", &[])
}

/// The request after a call of the same turn.
fn with_result() -> ModelRequest {
    let mut request = request("hi");
    let call = Block::from_json(r#"{"type":"tool_use","id":"t1","name":"Read","input":{}}"#).unwrap();
    let result = Block::tool_result("t1", &ResultContent::Text("text".into()), false);
    request.messages.push(Arc::new(Message::assistant(vec![call])));
    request.messages.push(Arc::new(Message::user(vec![result])));
    request.messages.push(Arc::new(Message::user(vec![Block::text("said meanwhile")])));
    request
}

fn models(server: &CannedServer) -> Vec<String> {
    server.recorded_requests().iter().map(|seen| seen.json()["model"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn an_overloaded_model_is_replaced_for_the_rest_of_the_turn_and_wanted_again_at_the_next_prompt() {
    let reply = || stream(&REPLY);
    let plans = vec![overloaded(), overloaded(), overloaded(), reply(), reply(), reply()];
    let server = CannedServer::start(plans).await;
    let provider = falling_back(&server, &["haiku", "opus"]);
    let events = collect_events(&provider, request("hi")).await;
    assert_eq!(summarize_events(&events)[..3], ["retry 1 Overloaded", "retry 2 Overloaded", "notice"]);
    assert_eq!(summarize_events(&events)[3..], WHOLE);
    assert!(
        matches!(&events[2], ModelEvent::Notice(text) if text.contains("claude-sonnet-5-5") && text.contains("claude-haiku-5-5"))
    );
    assert_eq!(summarize_events(&collect_events(&provider, with_result()).await), WHOLE);
    assert_eq!(summarize_events(&collect_events(&provider, request("next")).await), WHOLE);
    let [primary, haiku] = ["claude-sonnet-5-5", "claude-haiku-5-5"];
    assert_eq!(models(&server), [primary, primary, primary, haiku, haiku, primary]);
}

#[tokio::test]
async fn every_model_of_the_chain_has_its_turn_and_the_last_error_is_told() {
    let gone = |model: &str| error(404, "not_found_error", &format!("model: {model}"), &[]);
    let server = CannedServer::start(vec![gone("a"), gone("b"), gone("c")]).await;
    let events = collect_events(&falling_back(&server, &["haiku", "claude-sonnet-5-5", "opus"]), request("hi")).await;
    assert_eq!(summarize_events(&events), ["notice", "notice", "failed ModelNotFound"]);
    assert_eq!(models(&server), ["claude-sonnet-5-5", "claude-haiku-5-5", "claude-opus-5-5"]);
}

#[tokio::test]
async fn what_is_wrong_with_the_key_the_account_or_the_request_is_wrong_for_every_model() {
    for (status, kind) in [
        (401, "authentication_error"),
        (402, "billing_error"),
        (403, "permission_error"),
        (400, "invalid_request_error"),
        (413, "request_too_large"),
    ] {
        let server = CannedServer::start(vec![error(status, kind, "no", &[("x-should-retry", "false")])]).await;
        collect_events(&falling_back(&server, &["haiku"]), request("hi")).await;
        assert_eq!(models(&server), ["claude-sonnet-5-5"], "{status}");
    }
    let limited = error(429, "rate_limit_error", "slow down", &[("x-should-retry", "false")]);
    let server = CannedServer::start(vec![limited]).await;
    collect_events(&falling_back(&server, &["haiku"]), request("hi")).await;
    assert_eq!(models(&server), ["claude-sonnet-5-5"], "a limit is the account's");
}

#[tokio::test]
async fn an_id_goes_out_under_the_providers_name_with_the_facts_of_its_own() {
    let server = CannedServer::start(vec![stream(&REPLY)]).await;
    let routes = BTreeMap::from([("claude-sonnet-5-5".to_owned(), "arn:aws:model/x".to_owned())]);
    let choices = ModelChoices { routes, ..ModelChoices::default() };
    let provider = ModelEngine::new(ProviderConfig::from_env(&env(&server)).unwrap().with_choices(choices));
    assert_eq!(
        summarize_events(&collect_events(&provider, ModelRequest { model: "default".into(), ..request("hi") }).await),
        WHOLE
    );
    assert_eq!(models(&server), ["arn:aws:model/x"]);
    for name in ["sonnet", "claude-sonnet-5-5", "arn:aws:model/x"] {
        let facts = provider.facts(name);
        assert_eq!((facts.id.as_str(), facts.known, facts.price.is_some()), ("arn:aws:model/x", true, true), "{name}");
    }
}

#[tokio::test]
async fn a_model_that_may_not_be_used_is_never_asked() {
    let server = CannedServer::start(vec![stream(&REPLY)]).await;
    let choices = ModelChoices { available: Some(vec!["haiku".into()]), enforced: true, ..ModelChoices::default() };
    let provider = ModelEngine::new(ProviderConfig::from_env(&env(&server)).unwrap().with_choices(choices));
    let events = collect_events(&provider, request("hi")).await;
    assert_eq!(summarize_events(&events), ["failed InvalidRequest"]);
    assert!(final_error(&events).message.contains("'claude-sonnet-5-5'"), "{:?}", final_error(&events));
    assert_eq!(
        summarize_events(&collect_events(&provider, ModelRequest { model: "default".into(), ..request("hi") }).await),
        WHOLE
    );
    assert_eq!(models(&server), ["claude-haiku-5-5"]);
}

#[tokio::test]
async fn a_model_that_takes_fewer_images_gets_the_messages_with_fewer() {
    let plans = vec![overloaded(), overloaded(), overloaded(), stream(&REPLY), stream(&REPLY)];
    let server = CannedServer::start(plans).await;
    let provider = falling_back(&server, &["claude-haiku-4-5"]);
    let few = Some(vec![Arc::new(Message::user(vec![Block::text("few")]))]);
    let events = collect_events(&provider, ModelRequest { few_images: few.clone(), ..request("all") }).await;
    let says = |event: &ModelEvent| matches!(event, ModelEvent::Notice(text) if text.contains("takes 100 images"));
    assert!(events.iter().any(says), "{events:?}");
    let wanted = ModelRequest { model: "claude-haiku-4-5".into(), few_images: few, ..request("all") };
    collect_events(&provider, wanted).await;
    let said = |seen: &RecordedRequest| seen.json()["messages"][0]["content"][0]["text"].as_str().unwrap().to_owned();
    let said: Vec<String> = server.recorded_requests().iter().map(said).collect();
    assert_eq!(said, ["all", "all", "all", "few", "few"]);
}
