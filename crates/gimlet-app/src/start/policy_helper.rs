//! An administrator's requirements before a session starts: a version range, and the settings that a policy program
//! prints. If the program fails there is no session: its settings may forbid what would happen in it.

use std::time::Duration;

use gimlet_config::{PolicyHelper, PolicyHelperOutput, Settings};
use gimlet_exec::HelperCommand;
use gimlet_proto::COMPAT_VERSION;
use gimlet_text::quote_shell_word;
use serde_json::Value;

use crate::launch_error::LaunchError;
use crate::process_env::ProcessEnv;

const DEFAULT_TIMEOUT_MS: u64 = 10_000;
const LONGEST_POLICY: usize = 1 << 20;

/// Runs the program and returns its settings; `None` when it prints none.
pub(super) async fn run_policy_helper(
    helper: &PolicyHelper,
    around: &ProcessEnv,
) -> Result<Option<PolicyHelperOutput>, LaunchError> {
    let failed = |why: String| {
        LaunchError::new(format!("the administrator's policyHelper {} gave no settings: {why}", helper.path))
            .with_hint("Ask whoever manages this machine; gimlet does not start without them")
            .with_reason("managed_settings_not_delivered")
    };
    // The root is the one folder that no project can have prepared.
    let cwd = std::path::Path::new("/");
    let env = around.env.clone().with("CLAUDE_CODE_VERSION", COMPAT_VERSION);
    let limit = Duration::from_millis(helper.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS));
    let exec = crate::sandbox_process::new_exec();
    let printed = HelperCommand {
        command: &format!("exec {}", quote_shell_word(&helper.path)),
        cwd,
        env: &env,
        timeout: limit,
        max_bytes: LONGEST_POLICY,
    }
    .run(&exec)
    .await;
    exec.shutdown(Duration::ZERO).await;
    let printed = printed.map_err(|error| failed(error.to_string()))?;
    if printed.trim_ascii().is_empty() {
        return Ok(None);
    }
    let envelope: Value =
        serde_json::from_slice(&printed).map_err(|error| failed(format!("it printed no JSON: {error}")))?;
    match envelope.get("managedSettings") {
        None => Ok(None),
        Some(settings @ Value::Object(_)) => {
            Ok(Some(PolicyHelperOutput { source: helper.path.clone().into(), text: settings.to_string() }))
        }
        Some(_) => Err(failed("its managedSettings are no object".to_owned())),
    }
}

/// Checks that this version may start. A bound that is not a version is ignored.
pub(super) fn check_version(settings: &Settings) -> Result<(), LaunchError> {
    let own = parse_version(COMPAT_VERSION);
    let least =
        settings.required_minimum_version.as_deref().filter(|text| parse_version(text) > own && is_version(text));
    let most =
        settings.required_maximum_version.as_deref().filter(|text| parse_version(text) < own && is_version(text));
    let refusal = |bound: &str, words: &str| {
        LaunchError::new(format!(
            "the administrator of this machine wants version {bound} or {words}; this gimlet works like {COMPAT_VERSION}"
        ))
        .with_hint("Install another version, or ask whoever manages this machine")
    };
    match (least, most) {
        (Some(bound), _) => Err(refusal(bound, "newer").with_reason("cli_version_too_old")),
        (None, Some(bound)) => Err(refusal(bound, "older")),
        (None, None) => Ok(()),
    }
}

fn is_version(text: &str) -> bool {
    parse_version(text).is_some()
}

/// Parses the three numbers of a version, ignoring any suffix.
fn parse_version(text: &str) -> Option<[u64; 3]> {
    let plain = text.trim().split(['-', '+']).next()?;
    let mut numbers = plain.split('.').map(|number| number.parse::<u64>().ok());
    let found = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_version_outside_the_bounds_is_refused() {
        let bounds = |least: Option<&str>, most: Option<&str>| Settings {
            required_minimum_version: least.map(str::to_owned),
            required_maximum_version: most.map(str::to_owned),
            ..Settings::default()
        };
        for (least, most, starts) in [
            (None, None, true),
            (Some("2.0.0"), Some("999.0.0"), true),
            (Some(COMPAT_VERSION), Some(COMPAT_VERSION), true),
            (Some("999.0.0"), None, false),
            (None, Some("2.0.99"), false),
            (None, Some("2.1.9-beta.1"), false),
            (Some("soon"), Some("1.2"), true),
        ] {
            let outcome = check_version(&bounds(least, most));
            assert_eq!(outcome.is_ok(), starts, "{least:?} {most:?}");
        }
    }
}
