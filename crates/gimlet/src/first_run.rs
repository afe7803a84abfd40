//! Message for a user who starts gimlet without a configured model.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use gimlet_app::{ProcessEnv, ProviderLoginError, StoredKeys, provider_or_stored_key};
use gimlet_config::EffectiveSettings;
use gimlet_model::{ProviderConfigError, ProviderRow};
use gimlet_proto::Env;

use crate::config_cmd;

/// Servers on this machine that speak the Messages API, by their usual ports.
const LOCAL_SERVERS: [(&str, u16); 3] = [("Ollama", 11434), ("LM Studio", 1234), ("llama.cpp", 8080)];
/// Timeout of the probe: a server on loopback answers at once or is not there.
const PROBE: Duration = Duration::from_millis(50);

/// Checks that a session would have a credential: in the environment, in the `env` of settings, or from a command that
/// prints one.
pub(crate) fn check_credentials(around: &ProcessEnv) -> Result<(), ProviderConfigError> {
    check_credentials_with(around, &config_cmd::find(around).effective)
}

/// Checks for a credential under settings that were read already.
pub(crate) fn check_credentials_with(
    around: &ProcessEnv,
    effective: &EffectiveSettings,
) -> Result<(), ProviderConfigError> {
    let env = settings_env(around, effective);
    match provider_or_stored_key(&env, None, &StoredKeys::new(&around.config_home)) {
        Ok(_) => Ok(()),
        Err(ProviderLoginError::Config(ProviderConfigError::MissingCredential { .. }))
            if effective.settings.api_key_helper.is_some() =>
        {
            Ok(())
        }
        // The session says what is wrong with the stored keys.
        Err(ProviderLoginError::Stored(_)) => Ok(()),
        Err(ProviderLoginError::Config(error)) => Err(error),
    }
}

/// Returns the environment with the variables of settings.
pub(crate) fn settings_env(around: &ProcessEnv, effective: &EffectiveSettings) -> Env {
    effective.env.iter().fold(around.env.clone(), |env, line| env.with(&line.name, &line.value))
}

/// Returns the three ways to start: a key, a local model, the demo.
pub(crate) fn setup_instructions(env: &Env) -> String {
    let advice = ProviderRow::chosen_by(env).advice();
    let running = LOCAL_SERVERS.iter().find(|(_, port)| is_listening(*port));
    let (name, port) = running.unwrap_or(&LOCAL_SERVERS[0]);
    let found = match running {
        Some((name, port)) => format!("{name} seems to be running on port {port}"),
        None => "Ollama, LM Studio and llama.cpp have one; none was found running".to_owned(),
    };
    format!(
        "gimlet needs a model to talk to. Three ways to get started:\n\
         \n\
         1. A key\n\
         \x20    {key}\n\
         2. A model on this machine ({found})\n\
         \x20    {local}   # {name}\n\
         3. No model at all: watch it work\n\
         \x20    gimlet demo\n\
         \n\
         Then: gimlet -p \"fix the failing test\"",
        key = advice.key_line(),
        local = advice.local_line(*port),
    )
}

/// Returns what the form for a key says first: what it is for, and the other ways to start.
pub(crate) fn login_advice(env: &Env) -> String {
    let advice = ProviderRow::chosen_by(env).advice();
    let running = LOCAL_SERVERS.iter().find(|(_, port)| is_listening(*port));
    let (name, port) = running.unwrap_or(&LOCAL_SERVERS[0]);
    format!(
        "gimlet needs a model to talk to, and found no API key.\n\
         Paste one: a small request tests it, and it is stored in a file for you alone.\n\
         \n\
         Or leave with Esc, and then\n\
         {local}   # a model on this machine: {name}\n\
         gimlet demo   # no model at all: watch it work",
        local = advice.local_line(*port),
    )
}

fn is_listening(port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), PROBE).is_ok()
}
