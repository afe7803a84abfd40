//! Limits on script runs in a session (`CLAUDE_CODE_SCRIPT_CAPS`), for jobs with untrusted prompts.
//!
//! A name counts anywhere in a command's text, so that quoting cannot evade the limit. A command that runs a script in
//! a loop is counted once: this is a second line of defence, not the first.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use gimlet_core::tool::ToolError;
use gimlet_proto::Env;

/// The calls of a session so far, by script.
#[derive(Default)]
pub(super) struct ScriptCallCounts {
    counted: Mutex<HashMap<String, u64>>,
}

impl ScriptCallCounts {
    /// Counts a command; one that would exceed a limit is an error and is not counted.
    pub(super) fn count(&self, command: &str, env: &Env) -> Result<(), ToolError> {
        if !env.flag("CLAUDE_CODE_SUBPROCESS_ENV_SCRUB") {
            return Ok(());
        }
        let Some(caps) = env.get("CLAUDE_CODE_SCRIPT_CAPS") else { return Ok(()) };
        // A limit that cannot be parsed is an error, not an absent limit.
        let caps: HashMap<String, u64> = serde_json::from_str(caps).map_err(|error| {
            ToolError::failed(format!(
                "No command runs, because CLAUDE_CODE_SCRIPT_CAPS is no JSON object of whole numbers: {error}"
            ))
        })?;
        let named = caps.iter().filter(|(script, _)| !script.is_empty());
        let named: Vec<(&String, u64, u64)> = named
            .map(|(script, cap)| (script, *cap, command.matches(script.as_str()).count() as u64))
            .filter(|(_, _, times)| *times > 0)
            .collect();
        // The map stays consistent even if a holder of the lock panicked.
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        for (script, cap, times) in &named {
            let so_far = counted.get(*script).copied().unwrap_or(0);
            if so_far.saturating_add(*times) > *cap {
                return Err(ToolError::failed(format!(
                    "The command was not run: this session may call `{script}` {cap} times, and has done so {so_far} \
                     times. Go on without it."
                )));
            }
        }
        for (script, _, times) in named {
            *counted.entry(script.clone()).or_default() += times;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_run_as_often_as_the_limit_says() {
        let env = Env::default()
            .with("CLAUDE_CODE_SCRIPT_CAPS", r#"{"label.sh": 2, "never.sh": 0}"#)
            .with("CLAUDE_CODE_SUBPROCESS_ENV_SCRUB", "1");
        let calls = ScriptCallCounts::default();
        for (command, runs) in [
            ("./never.sh", false),
            ("ls", true),
            ("./label.sh a", true),
            ("./label.sh b; sh \"./label.sh\" c", false),
            ("x=$(./scripts/label.sh b)", true),
            ("./label.sh c", false),
            ("ls", true),
        ] {
            assert_eq!(calls.count(command, &env).is_ok(), runs, "{command}");
        }
        let free = env.with("CLAUDE_CODE_SUBPROCESS_ENV_SCRUB", "0");
        assert!(calls.count("./never.sh", &free).is_ok(), "limits hold where credentials are kept from commands");
    }

    #[test]
    fn a_limit_that_cannot_be_read_lets_nothing_run() {
        for caps in ["3", "{\"a.sh\": \"x\"}", "{\"a.sh\": -1}", "{"] {
            let env =
                Env::default().with("CLAUDE_CODE_SCRIPT_CAPS", caps).with("CLAUDE_CODE_SUBPROCESS_ENV_SCRUB", "1");
            assert!(ScriptCallCounts::default().count("ls", &env).is_err(), "{caps}");
        }
    }
}
