//! What a new provider has to show: address, credential, names, advice, and its place in a chain.

use std::future::poll_fn;

use gimlet_proto::{
    Block, CachePlan, Message, Model, ModelError, ModelEvent, ModelRequest, ModelStream, ThinkingMode, ToolChoice,
};
use gimlet_script::{Script, ScriptServer};

use super::*;
use crate::model_choices::ModelChoices;
use crate::provider_config::ProviderConfig;
use crate::providers::anthropic::ANTHROPIC;

static TABLE: &[&ProviderRow] = &[&ANTHROPIC, &TOY];

fn toy_env(server: &ScriptServer) -> Env {
    Env::default().with("TOY_API_KEY", "toy-secret").with("TOY_BASE_URL", server.url())
}

fn config(env: &Env) -> ProviderConfig {
    ProviderConfig::from_table(TABLE, env, None).unwrap()
}

fn request(model: &str) -> ModelRequest {
    ModelRequest {
        model: model.into(),
        max_tokens: None,
        system: Arc::from([]),
        tools: Arc::from([]),
        tool_choice: ToolChoice::Auto { parallel: true },
        messages: vec![Arc::new(Message::user(vec![Block::text("hi")]))],
        few_images: None,
        cache: CachePlan { ttl: None, context: None, previous_len: None },
        thinking: ThinkingMode::ModelDefault,
        display: None,
        effort: None,
        want_wire_events: false,
    }
}

/// Returns the text of the reply and the model that gave it, or the error.
pub(crate) async fn answer(model: &dyn Model, name: &str) -> Result<(String, String), ModelError> {
    let mut stream: ModelStream = model.stream(request(name));
    let (mut text, mut by) = (String::new(), String::new());
    while let Some(event) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
        match event {
            ModelEvent::Started(start) => by = start.model,
            ModelEvent::BlockDone { block, .. } => text.push_str(&block.as_text().unwrap_or_default()),
            ModelEvent::Failed(error) => return Err(error),
            _ => {}
        }
    }
    Ok((text, by))
}

#[tokio::test]
async fn a_request_goes_to_the_toys_address_with_its_key_and_the_id_of_its_model() {
    let server = Script::new().say("Hello.").serve().await.unwrap();
    let config = config(&toy_env(&server));
    assert_eq!(config.api_key_source(), "TOY_API_KEY");
    let (text, by) = answer(config.into_model().as_ref(), "default").await.unwrap();
    assert_eq!((text.as_str(), by.as_str()), ("Hello.", "toy-large-1"));
    let seen = server.request(0);
    assert_eq!((seen.path(), seen.model()), ("/v1/messages", "toy-large-1"));
    assert_eq!(seen.header("authorization"), Some("Bearer toy-secret"));
    assert!(server.rejections().is_empty(), "{:?}", server.rejections());
}

#[tokio::test]
async fn a_refused_key_is_explained_in_the_toys_own_words() {
    let server = Script::new().error(401, "no such key").serve().await.unwrap();
    let error = answer(config(&toy_env(&server)).into_model().as_ref(), "quick").await.unwrap_err();
    assert_eq!(error.hint.as_deref(), Some("Check the key in TOY_API_KEY"));
    let nothing = Env::default().with("TOY_BASE_URL", server.url());
    assert_eq!(TOY.advice().missing_credential(&nothing), TOY.advice.missing_credential_elsewhere);
}

#[tokio::test]
async fn a_chain_crosses_from_another_provider_to_the_toy() {
    let first = Script::new().error(404, "model: claude-x").serve().await.unwrap();
    let second = Script::new().say("Here.").serve().await.unwrap();
    let env = toy_env(&second).with("ANTHROPIC_API_KEY", "sk-main").with("ANTHROPIC_BASE_URL", first.url());
    let choices = ModelChoices { fallbacks: vec!["toy/small".into()], ..ModelChoices::default() };
    let model = config(&env).with_choices(choices).into_model();
    let (text, by) = answer(model.as_ref(), "claude-x").await.unwrap();
    assert_eq!((text.as_str(), by.as_str()), ("Here.", "toy/toy-quick-1"));
    assert_eq!((first.request(0).header("x-api-key"), second.request(0).model()), (Some("sk-main"), "toy-quick-1"));
    assert_eq!(second.request(0).header("x-api-key"), None, "each provider gets its own key only");
    assert_eq!(model.facts(&by).context_window, 64_000);
}

#[tokio::test]
async fn a_provider_that_cannot_be_made_is_named_when_it_is_needed() {
    let env = Env::default().with("ANTHROPIC_API_KEY", "sk-main");
    let error = answer(config(&env).into_model().as_ref(), "toy/quick").await.unwrap_err();
    assert_eq!(error.message, "the provider toy cannot be used: no credential: set TOY_API_KEY");
}
