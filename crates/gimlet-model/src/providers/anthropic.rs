//! Anthropic's own API, and servers and gateways that speak its format at another address.

use std::sync::Arc;

use gimlet_proto::{CredentialSource, Env};
use reqwest::header::HeaderValue;

use super::{FoundAuth, ProviderAdvice, ProviderConfigError, ProviderHeaders, ProviderRow, custom_headers};
use crate::auth::{EnvSecret, HeaderAuth, SecretHeader};
use crate::catalogue::CLAUDE;
use crate::formats;
use crate::request_wishes::parse_list;

const KEY: &str = "ANTHROPIC_API_KEY";
const TOKEN: &str = "ANTHROPIC_AUTH_TOKEN";
const ADDRESS: &str = "ANTHROPIC_BASE_URL";
const API_KEY_HEADER: SecretHeader = SecretHeader::Plain("x-api-key");
const CREDENTIALS: [EnvSecret; 2] = [
    EnvSecret { variable: TOKEN, header: SecretHeader::Bearer, key_source: "none" },
    EnvSecret { variable: KEY, header: API_KEY_HEADER, key_source: KEY },
];
const EITHER: &str = "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN";

pub(crate) static ANTHROPIC: ProviderRow = ProviderRow {
    name: "anthropic",
    format: formats::MESSAGES,
    is_chosen: |env| [KEY, TOKEN, ADDRESS].into_iter().any(|name| env.get(name).is_some()),
    address: (ADDRESS, "https://api.anthropic.com"),
    is_vendor_host: |host| host == "api.anthropic.com" || host.ends_with(".anthropic.com"),
    url: |base, _| format!("{base}/v1/messages"),
    headers,
    auth,
    warning: |env| {
        let both = env.get(KEY).is_some() && env.get(TOKEN).is_some();
        both.then(|| format!("both {TOKEN} and {KEY} are set; the token is used"))
    },
    secrets: &[KEY, TOKEN],
    model_variable: "ANTHROPIC_MODEL",
    models: &CLAUDE,
    max_body: 32_000_000,
    request_id_headers: &["request-id", "x-request-id"],
    advice: ProviderAdvice {
        address: ADDRESS,
        path: "/v1/messages",
        credential: "the key in ANTHROPIC_API_KEY or the token in ANTHROPIC_AUTH_TOKEN",
        model: "--model and ANTHROPIC_MODEL",
        key_variable: KEY,
        credential_variables: EITHER,
        missing_credential: "Set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL and ANTHROPIC_AUTH_TOKEN for a local model server",
        missing_credential_elsewhere: "Set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN, to any word where the server at ANTHROPIC_BASE_URL asks for none",
        local_line: "export ANTHROPIC_BASE_URL=http://127.0.0.1:{port} ANTHROPIC_AUTH_TOKEN=local ANTHROPIC_MODEL=…",
    },
};

/// Reads the user's headers, the betas among them, and the version of the API.
fn headers(env: &Env) -> Result<ProviderHeaders, ProviderConfigError> {
    let mut headers = custom_headers(env, "ANTHROPIC_CUSTOM_HEADERS")?;
    let mut betas = parse_list(env.get("ANTHROPIC_BETAS").unwrap_or(""));
    for value in headers.get_all("anthropic-beta") {
        betas.extend(parse_list(value.to_str().unwrap_or_default()));
    }
    headers.remove("anthropic-beta");
    let version = env.get("GIMLET_API_VERSION").unwrap_or("2023-06-01");
    let name = "anthropic-version";
    headers.insert(name, HeaderValue::from_str(version).map_err(|_| ProviderConfigError::IllegalHeader { name })?);
    Ok(ProviderHeaders { headers, betas })
}

/// Finds the credential: a token, a key or the user's helper, in this order.
fn auth(env: &Env, helper: Option<Arc<dyn CredentialSource>>) -> FoundAuth {
    if let Some(found) = HeaderAuth::from_env(env, &CREDENTIALS)? {
        return Ok(Some(Arc::new(found)));
    }
    if let Some(helper) = helper {
        return Ok(Some(Arc::new(HeaderAuth::from_helper(helper, vec![API_KEY_HEADER, SecretHeader::Bearer]))));
    }
    let foreign = ["CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_PROFILE", "ANTHROPIC_FEDERATION_RULE_ID"];
    match foreign.into_iter().find(|name| env.get(name).is_some()) {
        Some(name) => Err(ProviderConfigError::UnsupportedCredential { name, instead: EITHER }),
        None => Ok(None),
    }
}
