//! Keys that belong to hosted services of another vendor. They are read and checked, so that a mistyped one is found,
//! and have no effect.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct HostedSettings {
    fast_mode: Option<bool>,
    fast_mode_per_session_opt_in: Option<bool>,
    advisor_model: Option<String>,
    switch_models_on_flag: Option<bool>,
    voice: Option<Value>,
    voice_enabled: Option<bool>,
    attribution: HostedAttribution,
    sync_claude_ai_skills: Option<bool>,
    allowed_channel_plugins: Option<Vec<Value>>,
    channels_enabled: Option<bool>,
    allow_all_claude_ai_mcps: Option<bool>,
    disable_claude_ai_connectors: Option<bool>,
    force_login_method: Option<String>,
    #[serde(rename = "forceLoginOrgUUID")]
    force_login_org_uuid: Option<OneOrMany>,
    force_login_gateway_url: Option<String>,
    feedback_survey_rate: Option<f64>,
    remote: HostedRemote,
    remote_control_at_startup: Option<bool>,
    disable_remote_control: Option<bool>,
    agent_push_notif_enabled: Option<bool>,
    input_needed_notif_enabled: Option<bool>,
    away_summary_enabled: Option<bool>,
    disable_artifact: Option<bool>,
    enable_artifact: Option<bool>,
    disable_deep_link_registration: Option<Value>,
    ssh_configs: Option<Value>,
    ssh_host_allowlist: Option<Vec<String>>,
    browser_external_page_tools: Option<Value>,
    disable_browser_external_navigation: Option<bool>,
    disable_mobile_simulator_tools: Option<bool>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct HostedAttribution {
    session_url: Option<bool>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct HostedRemote {
    default_environment_id: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Several(Vec<String>),
}
