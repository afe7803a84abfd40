//! The permission mode that a session starts in.

use std::path::Path;

use gimlet_policy::{ModeRequest, StartMode, choose_start_mode};
use gimlet_proto::{Env, PermissionMode};

use super::main_agent::MainAgentChoice;
use super::{LaunchOptions, SessionSettings};
use crate::launch_error::LaunchError;
use crate::launch_request::LaunchRequest;
use crate::settings_mapping;

/// Mode of the session that this one replaces. It overrides the settings: they may have changed since, and must not
/// enable a mode that the old session could not have chosen.
#[derive(Clone, Copy, Debug)]
pub struct PreviousMode {
    pub mode: PermissionMode,
    pub bypass_reachable: bool,
    /// True if the mode was chosen explicitly, so that an agent's mode does not override it.
    pub mode_chosen: bool,
}

/// The mode of a new session.
pub(super) struct InitialMode {
    pub(super) mode: PermissionMode,
    pub(super) bypass_reachable: bool,
    /// True if set by a flag or an agent, which overrides the mode of a resumed session.
    pub(super) chosen: bool,
    pub(super) warnings: Vec<String>,
}

impl InitialMode {
    /// Returns true if a user or a program can answer questions about hosts from sandboxed commands.
    pub(super) fn can_answer_host_asks(&self, manner: &LaunchOptions) -> bool {
        manner.attended || self.bypass_reachable || self.mode == PermissionMode::Auto
    }

    /// Continues the previous session's mode, as far as it is still allowed.
    fn from_previous(before: PreviousMode, bypass_disabled: bool, auto_available: bool) -> Self {
        let bypass_reachable = before.bypass_reachable && !bypass_disabled;
        let mode = match before.mode {
            PermissionMode::BypassPermissions if !bypass_reachable => PermissionMode::Default,
            PermissionMode::Auto if !auto_available => PermissionMode::Default,
            mode => mode,
        };
        Self { mode, bypass_reachable, chosen: true, warnings: Vec::new() }
    }

    /// Applies the mode that an agent asks for. A definition alone cannot bypass the rules.
    fn apply_agent_mode(&mut self, agent: &str, wanted: PermissionMode, auto_available: bool) {
        match wanted {
            PermissionMode::BypassPermissions if !self.bypass_reachable => self.warnings.push(format!(
                "the agent type '{agent}' asks for bypassPermissions, which nothing else enables here; it is ignored"
            )),
            PermissionMode::Auto if !auto_available => (self.mode, self.chosen) = (PermissionMode::Default, true),
            wanted => (self.mode, self.chosen) = (wanted, true),
        }
    }
}

/// Returns the initial mode; bypass is refused to root outside a sandbox.
pub(super) fn choose_mode(
    role: &MainAgentChoice,
    manner: &LaunchOptions,
    configured: &SessionSettings,
) -> Result<InitialMode, LaunchError> {
    let request = &role.request;
    let auto_available = configured.review().is_some();
    let bypass_disabled = configured.disabled_modes().contains(&PermissionMode::BypassPermissions);
    let by_flag = request.permissions.skip || request.permissions.mode.is_some();
    let mut start = match manner.predecessor {
        Some(before) => InitialMode::from_previous(before, bypass_disabled, auto_available),
        None => mode_from_flags(request, configured, bypass_disabled, auto_available)?,
    };
    let is_open = !by_flag && manner.predecessor.is_none_or(|before| !before.mode_chosen);
    if is_open && let Some((agent, wanted)) = role.mode() {
        let chosen = start.chosen;
        start.apply_agent_mode(agent, wanted, auto_available);
        start.chosen = if role.is_restored() { chosen } else { start.chosen };
    }
    Ok(start)
}

/// Returns the mode that flags and settings name.
fn mode_from_flags(
    request: &LaunchRequest,
    configured: &SessionSettings,
    bypass_disabled: bool,
    auto_available: bool,
) -> Result<InitialMode, LaunchError> {
    let mode_request = ModeRequest {
        flag: request.permissions.mode,
        skip_permissions: request.permissions.skip,
        allow_skipping: request.permissions.allow_skipping,
        defaults: &settings_mapping::default_mode(&configured.effective).into_iter().collect::<Vec<_>>(),
        bypass_disabled,
        auto_available,
    };
    let StartMode { mode, bypass_reachable, warnings } =
        choose_start_mode(&mode_request).map_err(|error| LaunchError::new(error.to_string()))?;
    if bypass_reachable && rustix::process::getuid().is_root() && !is_in_sandbox(&configured.env) {
        return Err(LaunchError::new("bypassing permissions as root is refused outside a sandbox")
            .with_hint("Run as an ordinary user, or set IS_SANDBOX=1 if this machine is one")
            .with_reason("bypass_root"));
    }
    let chosen = request.permissions.skip || request.permissions.mode.is_some();
    Ok(InitialMode { mode, bypass_reachable, chosen, warnings })
}

fn is_in_sandbox(env: &Env) -> bool {
    env.flag("IS_SANDBOX") || ["/.dockerenv", "/run/.containerenv"].iter().any(|mark| Path::new(mark).exists())
}
