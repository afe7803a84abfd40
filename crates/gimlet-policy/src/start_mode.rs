//! Permission mode that a session starts in, resumes in and changes to. Flags and settings come in as values; a
//! setting that grants more than its scope may grant is ignored with a warning.

use gimlet_proto::PermissionMode;

use crate::rules::RuleScope;

/// Inputs that determine the mode of a new session.
#[derive(Clone, Debug, Default)]
pub struct ModeRequest<'a> {
    /// `--permission-mode`
    pub flag: Option<PermissionMode>,
    /// `--dangerously-skip-permissions`
    pub skip_permissions: bool,
    /// `--allow-dangerously-skip-permissions`: bypassing can be chosen later, but is not on.
    pub allow_skipping: bool,
    /// `permissions.defaultMode` of each scope that has one, the strongest scope first.
    pub defaults: &'a [(RuleScope, PermissionMode)],
    /// `permissions.disableBypassPermissionsMode` is `disable` somewhere.
    pub bypass_disabled: bool,
    /// True if a classifier can be used.
    pub auto_available: bool,
}

/// The mode of a new session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartMode {
    pub mode: PermissionMode,
    /// True if the session may switch to bypassing permissions later.
    pub bypass_reachable: bool,
    /// Warnings about ignored values, for users.
    pub warnings: Vec<String>,
}

/// A flag that settings forbid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    #[error("{flag} is refused: the settings disable bypassing permissions")]
    BypassDisabled { flag: &'static str },
}

/// Chooses the mode: the flags, then the strongest setting, then the default mode.
pub fn choose_start_mode(request: &ModeRequest<'_>) -> Result<StartMode, ModeError> {
    let bypass = PermissionMode::BypassPermissions;
    let flags = [
        (request.skip_permissions, "--dangerously-skip-permissions"),
        (request.flag == Some(bypass), "--permission-mode bypassPermissions"),
        (request.allow_skipping, "--allow-dangerously-skip-permissions"),
    ];
    let by_flag = flags.into_iter().find(|(given, _)| *given);
    if let (Some((_, flag)), true) = (by_flag, request.bypass_disabled) {
        return Err(ModeError::BypassDisabled { flag });
    }
    let mut warnings = Vec::new();
    let wanted = match (request.skip_permissions, request.flag) {
        (true, _) => bypass,
        (false, Some(mode)) => mode,
        (false, None) => mode_from_settings(request, &mut warnings),
    };
    let mode = match wanted {
        PermissionMode::Auto if !request.auto_available => PermissionMode::Default,
        mode => mode,
    };
    Ok(StartMode { mode, bypass_reachable: by_flag.is_some() || mode == bypass, warnings })
}

fn mode_from_settings(request: &ModeRequest<'_>, warnings: &mut Vec<String>) -> PermissionMode {
    for (scope, mode) in request.defaults {
        match (mode, scope) {
            // A project that requests it gets the default mode, not the one that the user chose for elsewhere.
            (PermissionMode::Auto, RuleScope::Project | RuleScope::Local) => return PermissionMode::Default,
            (PermissionMode::BypassPermissions, RuleScope::Project) => {
                warnings
                    .push(format!("{scope}: the default mode bypassPermissions is ignored; a project cannot grant it"));
            }
            (PermissionMode::BypassPermissions, _) if request.bypass_disabled => {
                warnings
                    .push(format!("{scope}: the default mode bypassPermissions is ignored; the settings disable it"));
                return PermissionMode::Default;
            }
            (mode, _) => return *mode,
        }
    }
    PermissionMode::Default
}

/// Returns the mode of a resumed session that ended in this one; a plan or a bypass holds only for the run it was
/// chosen for.
pub fn choose_resumed_mode(stored: PermissionMode, auto_available: bool) -> Option<PermissionMode> {
    match stored {
        PermissionMode::Plan | PermissionMode::BypassPermissions => None,
        PermissionMode::Auto if !auto_available => None,
        mode => Some(mode),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PermissionMode::{AcceptEdits, Auto, BypassPermissions, Default as Ordinary, DontAsk, Plan};
    use RuleScope::{Local, Project, User};

    fn start_with_defaults(defaults: &[(RuleScope, PermissionMode)]) -> StartMode {
        choose_start_mode(&ModeRequest { defaults, auto_available: true, ..ModeRequest::default() }).unwrap()
    }

    #[test]
    fn flags_come_before_settings_and_settings_before_the_ordinary_mode() {
        assert_eq!(start_with_defaults(&[]).mode, Ordinary);
        assert_eq!(start_with_defaults(&[(Local, Plan), (User, AcceptEdits)]).mode, Plan);
        let flag = ModeRequest { flag: Some(DontAsk), defaults: &[(User, Plan)], ..ModeRequest::default() };
        assert_eq!(choose_start_mode(&flag).unwrap().mode, DontAsk);
        let skip = ModeRequest { skip_permissions: true, ..flag };
        assert_eq!(choose_start_mode(&skip).unwrap().mode, BypassPermissions);
    }

    #[test]
    fn a_project_grants_itself_nothing() {
        assert_eq!(start_with_defaults(&[(Project, Auto), (User, AcceptEdits)]).mode, Ordinary);
        assert_eq!(start_with_defaults(&[(User, Auto)]).mode, Auto);
        let ignored = start_with_defaults(&[(Project, BypassPermissions), (User, AcceptEdits)]);
        assert_eq!((ignored.mode, ignored.bypass_reachable, ignored.warnings.len()), (AcceptEdits, false, 1));
        let own = start_with_defaults(&[(User, BypassPermissions)]);
        assert_eq!((own.mode, own.bypass_reachable), (BypassPermissions, true));
    }

    #[test]
    fn auto_without_a_classifier_is_the_ordinary_mode() {
        let request = ModeRequest { flag: Some(Auto), ..ModeRequest::default() };
        assert_eq!(choose_start_mode(&request).unwrap().mode, Ordinary);
        assert_eq!(choose_resumed_mode(Auto, false), None);
        assert_eq!(choose_resumed_mode(Auto, true), Some(Auto));
    }

    #[test]
    fn settings_that_disable_the_bypass_refuse_every_way_to_it() {
        let off = || ModeRequest { bypass_disabled: true, ..ModeRequest::default() };
        for request in [
            ModeRequest { skip_permissions: true, ..off() },
            ModeRequest { allow_skipping: true, ..off() },
            ModeRequest { flag: Some(BypassPermissions), ..off() },
        ] {
            assert!(choose_start_mode(&request).is_err(), "{request:?}");
        }
        let start = choose_start_mode(&ModeRequest { defaults: &[(User, BypassPermissions)], ..off() }).unwrap();
        assert_eq!((start.mode, start.bypass_reachable, start.warnings.len()), (Ordinary, false, 1));
    }

    #[test]
    fn bypassing_is_reachable_only_when_it_was_enabled_at_the_start() {
        let later = ModeRequest { allow_skipping: true, ..ModeRequest::default() };
        let start = choose_start_mode(&later).unwrap();
        assert_eq!((start.mode, start.bypass_reachable), (Ordinary, true));
        assert!(!start_with_defaults(&[(User, Plan)]).bypass_reachable);
    }
}
