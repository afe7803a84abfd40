//! Logging in with an API key: the key is tested with a small request at the server that sessions here would use, and
//! stored for that server. Logging out removes it.

use std::sync::Arc;

use futures_util::StreamExt;
use gimlet_model::{ProviderConfig, ProviderConfigError, ProviderRow};
use gimlet_proto::{
    Block, CachePlan, CredentialSource, Env, Message, ModelErrorKind, ModelEvent, ModelRequest, Secret, ThinkingMode,
    ToolChoice,
};

use crate::process_env::ProcessEnv;
use crate::stored_keys::{StoredKeyError, StoredKeys};

/// Tokens of the answer to the test, which is thrown away.
const TEST_TOKENS: u64 = 16;

/// Reads the provider from the environment; where that has no credential, the key that is stored for its server is
/// used. Also returns that key, for masking.
pub fn provider_or_stored_key(
    env: &Env,
    helper: Option<Arc<dyn CredentialSource>>,
    stored: &StoredKeys,
) -> Result<(ProviderConfig, Option<Secret>), ProviderLoginError> {
    let missing = match ProviderConfig::from_env_or(env, helper) {
        Err(error @ ProviderConfigError::MissingCredential { .. }) => error,
        found => return Ok((found?, None)),
    };
    let row = ProviderRow::chosen_by(env);
    let Some(key) = stored.find_key(row.address_in(env))? else { return Err(missing.into()) };
    let with_key = env.clone().with(row.advice().key_variable(), key.expose());
    Ok((ProviderConfig::from_env(&with_key)?.with_key_source("/login"), Some(key)))
}

/// Reason why there is no provider to use.
#[derive(Debug, thiserror::Error)]
pub enum ProviderLoginError {
    #[error(transparent)]
    Config(#[from] ProviderConfigError),
    #[error(transparent)]
    Stored(#[from] StoredKeyError),
}

/// Tests a key at the server of this environment and stores it; returns a line for the user.
pub async fn log_in(around: &ProcessEnv, env: &Env, key: Secret) -> Result<String, String> {
    let row = ProviderRow::chosen_by(env);
    let address = row.address_in(env).to_owned();
    let variable = row.advice().key_variable();
    let names: Vec<String> = gimlet_model::secret_variables().flat_map(Env::spellings).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let is_overridden = names.iter().find(|name| env.exact(name).is_some());
    let tested = env.clone().without_vars(&names).with(variable, key.expose());
    test_key(&tested).await.map_err(|problem| problem.replace(key.expose(), "***"))?;
    let stored = StoredKeys::new(&around.config_home);
    let path = stored.path().display().to_string();
    let storing = tokio::task::spawn_blocking(move || stored.store_key(&address, &key));
    let done = storing.await.map_err(|error| error.to_string())?;
    done.map_err(|error| error.to_string())?;
    Ok(match is_overridden {
        Some(name) => format!("The key works and is stored in {path}. {name} comes first while it is set"),
        None => format!("The key works and is stored in {path}"),
    })
}

/// Removes the key for the server of this environment; returns a line for the user.
pub fn log_out(around: &ProcessEnv, env: &Env) -> Result<String, String> {
    let address = ProviderRow::chosen_by(env).address_in(env);
    match StoredKeys::new(&around.config_home).remove_key(address) {
        Ok(true) => Ok(format!("The key for {address} is removed. This session still has it")),
        Ok(false) => Ok(format!("No key is stored for {address}")),
        Err(error) => Err(error.to_string()),
    }
}

async fn test_key(env: &Env) -> Result<(), String> {
    let provider = ProviderConfig::from_env(env).map_err(|error| error.to_string())?;
    let model = provider.model_for(None).map_err(|error| error.to_string())?;
    let mut stream = provider.into_model().stream(ModelRequest {
        model,
        max_tokens: Some(TEST_TOKENS),
        system: ["You answer in one word.".to_owned()].into(),
        tools: [].into(),
        tool_choice: ToolChoice::Auto { parallel: false },
        messages: vec![Arc::new(Message::user(vec![Block::text("Say yes.")]))],
        few_images: None,
        cache: CachePlan { ttl: None, context: None, previous_len: None },
        thinking: ThinkingMode::Off,
        display: None,
        effort: None,
        want_wire_events: false,
    });
    while let Some(event) = stream.next().await {
        match event {
            // The head of an answer says enough.
            ModelEvent::Started(_) | ModelEvent::Done(_) => return Ok(()),
            ModelEvent::Failed(error) if error.kind == ModelErrorKind::Authentication => {
                return Err(format!("the server does not accept this key: {}", error.message));
            }
            ModelEvent::Failed(error) => return Err(format!("the key could not be tested: {error}")),
            _ => {}
        }
    }
    Err("the key could not be tested: the server gave no answer".to_owned())
}
