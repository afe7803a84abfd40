//! When the conversation of a session is compacted: environment, then flag, then settings.

use gimlet_core::CompactionPolicy;

use super::SessionSettings;
use crate::launch_request::{CompactionWindow, LaunchRequest};

/// Returns the policy, and remarks on variables that cannot be used.
pub(super) fn compaction_policy(
    request: &LaunchRequest,
    configured: &SessionSettings,
) -> (CompactionPolicy, Vec<String>) {
    let (env, settings) = (&configured.env, &configured.effective.settings);
    let mut remarks = Vec::new();
    let from_env = env.get("CLAUDE_CODE_AUTO_COMPACT_WINDOW").filter(|value| !value.trim().is_empty());
    let from_env = from_env.and_then(|value| match CompactionWindow::parse(value) {
        Ok(window) => Some(window),
        Err(problem) => {
            remarks.push(format!("CLAUDE_CODE_AUTO_COMPACT_WINDOW is ignored: {problem}"));
            None
        }
    });
    let from_settings = || settings.auto_compact_window.map(CompactionWindow::Tokens);
    let window = from_env.or(request.limits.compaction_window).or_else(from_settings);
    let percent = env.get("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE").filter(|value| !value.trim().is_empty());
    let percent = percent.and_then(|value| match value.trim().parse().ok().filter(|share| (1..=100).contains(share)) {
        Some(share) => Some(share),
        None => {
            remarks.push(format!("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE is ignored: {value} is no number from 1 to 100"));
            None
        }
    });
    let policy = CompactionPolicy {
        enabled: !env.flag("DISABLE_COMPACT"),
        automatic: !env.flag("DISABLE_AUTO_COMPACT") && settings.auto_compact_enabled != Some(false),
        window: match window {
            Some(CompactionWindow::Tokens(tokens)) => Some(tokens),
            Some(CompactionWindow::Auto) | None => None,
        },
        percent,
    };
    (policy, remarks)
}
