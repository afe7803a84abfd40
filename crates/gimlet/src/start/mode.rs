//! The permission mode that a session starts in.

use std::path::Path;

use gimlet_policy::{ModeRequest, StartMode, start_mode};
use gimlet_proto::{Env, PermissionMode};

use super::agents::Role;
use super::{Configured, Manner};
use crate::report::Report;
use crate::settings;

/// The mode of a new session.
pub(super) struct Start {
    pub(super) mode: PermissionMode,
    pub(super) bypass_reachable: bool,
    /// By a flag or an agent: that of a resumed session does not count then.
    pub(super) chosen: bool,
    pub(super) warnings: Vec<String>,
}

impl Start {
    /// Whether somebody or something could answer what a sandboxed command wants to know.
    pub(super) fn answers_about_hosts(&self, manner: &Manner) -> bool {
        manner.attended || self.bypass_reachable || self.mode == PermissionMode::Auto
    }

    /// Takes up the mode that an agent asks for. A definition alone opens no way past the rules.
    fn run_as(&mut self, agent: &str, wanted: PermissionMode, auto_available: bool) {
        match wanted {
            PermissionMode::BypassPermissions if !self.bypass_reachable => self.warnings.push(format!(
                "the agent type '{agent}' asks for bypassPermissions, which nothing else enables here; it is ignored"
            )),
            PermissionMode::Auto if !auto_available => (self.mode, self.chosen) = (PermissionMode::Default, true),
            wanted => (self.mode, self.chosen) = (wanted, true),
        }
    }
}

/// The mode to start in; bypass is refused to root outside a sandbox.
pub(super) fn mode(role: &Role, configured: &Configured) -> Result<Start, Report> {
    let run = &role.run;
    let auto_available = configured.review().is_some();
    let permissions = &configured.effective.settings.permissions;
    let request = ModeRequest {
        flag: run.permission_mode,
        skip_permissions: run.dangerously_skip_permissions,
        allow_skipping: run.allow_dangerously_skip_permissions,
        defaults: &settings::default_mode(&configured.effective).into_iter().collect::<Vec<_>>(),
        bypass_disabled: permissions.disable_bypass_permissions_mode.is_some(),
        auto_available,
    };
    let StartMode { mode, bypass_reachable, warnings } =
        start_mode(&request).map_err(|error| Report::new(error.to_string()))?;
    if bypass_reachable && rustix::process::getuid().is_root() && !in_sandbox(&configured.env) {
        return Err(Report::new("bypassing permissions as root is refused outside a sandbox")
            .hint("Run as an ordinary user, or set IS_SANDBOX=1 if this machine is one")
            .because("bypass_root"));
    }
    let chosen = run.dangerously_skip_permissions || run.permission_mode.is_some();
    let mut start = Start { mode, bypass_reachable, chosen, warnings };
    if let Some((agent, wanted)) = role.mode().filter(|_| !chosen) {
        start.run_as(agent, wanted, auto_available);
    }
    Ok(start)
}

fn in_sandbox(env: &Env) -> bool {
    env.flag("IS_SANDBOX") || ["/.dockerenv", "/run/.containerenv"].iter().any(|mark| Path::new(mark).exists())
}
