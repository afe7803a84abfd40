//! Toy: a service that speaks Anthropic's Messages format at an address of its own.

use std::sync::Arc;

use gimlet_proto::{CredentialSource, Env};
use reqwest::header::HeaderValue;

use crate::auth::{EnvSecret, HeaderAuth, SecretHeader};
use crate::catalogue::{ModelProfile, ProviderModels};
use crate::formats;
use crate::providers::{FoundAuth, ProviderAdvice, ProviderConfigError, ProviderHeaders, ProviderRow, custom_headers};

const KEY: &str = "TOY_API_KEY";
const ADDRESS: &str = "TOY_BASE_URL";

pub(crate) static TOY: ProviderRow = ProviderRow {
    name: "toy",
    format: formats::MESSAGES,
    is_chosen: |env| env.get(KEY).is_some(),
    address: (ADDRESS, "https://api.toy.example"),
    is_vendor_host: |host| host == "api.toy.example",
    url: |base, _model| format!("{base}/v1/messages"),
    headers,
    auth,
    warning: |_| None,
    secrets: &[KEY],
    model_variable: "TOY_MODEL",
    models: &TOY_MODELS,
    max_body: 8_000_000,
    request_id_headers: &["x-request-id"],
    advice: ProviderAdvice {
        address: ADDRESS,
        path: "/v1/messages",
        credential: "the key in TOY_API_KEY",
        model: "--model and TOY_MODEL",
        key_variable: KEY,
        credential_variables: KEY,
        missing_credential: "Set TOY_API_KEY",
        missing_credential_elsewhere: "Set TOY_API_KEY, to any word where the server at TOY_BASE_URL asks for none",
        local_line: "export TOY_BASE_URL=http://127.0.0.1:{port} TOY_API_KEY=local",
    },
};

static TOY_MODELS: ProviderModels = ProviderModels {
    brand: "toy",
    aliases: &[("quick", "toy-quick-1")],
    default: "toy-large-1",
    small: "quick",
    best: "toy-large-1",
    variables: &[("quick", "TOY_QUICK_MODEL")],
    profiles: &[
        ModelProfile { id: "toy-large-1", context_window: 128_000, ..ModelProfile::UNKNOWN },
        ModelProfile { id: "toy-quick-1", context_window: 64_000, ..ModelProfile::UNKNOWN },
    ],
    newer: ModelProfile::UNKNOWN,
    unknown: ModelProfile::UNKNOWN,
};

fn headers(env: &Env) -> Result<ProviderHeaders, ProviderConfigError> {
    let mut headers = custom_headers(env, "TOY_CUSTOM_HEADERS")?;
    headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    Ok(ProviderHeaders { headers, betas: Vec::new() })
}

fn auth(env: &Env, helper: Option<Arc<dyn CredentialSource>>) -> FoundAuth {
    let key = EnvSecret { variable: KEY, header: SecretHeader::Bearer, key_source: KEY };
    if let Some(found) = HeaderAuth::from_env(env, &[key])? {
        return Ok(Some(Arc::new(found)));
    }
    match helper {
        Some(helper) => Ok(Some(Arc::new(HeaderAuth::from_helper(helper, vec![SecretHeader::Bearer])))),
        None => Ok(None),
    }
}

#[cfg(test)]
#[path = "toy_tests.rs"]
pub(crate) mod tests;
