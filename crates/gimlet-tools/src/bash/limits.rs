//! Timeouts and output limits of a call: values from the environment within fixed bounds. Pure.

use std::time::Duration;

use gimlet_proto::Env;

const DEFAULT_TIMEOUT_MS: u64 = 120_000;
const DEFAULT_CEILING_MS: u64 = 600_000;
const DEFAULT_OUTPUT: usize = 30_000;
/// Upper bound on the output of a result, even if the environment asks for more.
pub(super) const LARGEST_OUTPUT: usize = 150_000;

/// Bytes of one character at most.
const LONGEST_CHARACTER: usize = 4;

/// The limits of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BashLimits {
    pub(super) timeout: Duration,
    /// Characters of output that a result holds; more goes to a file.
    pub(super) output_chars: usize,
    /// True if a command may outlive its call.
    pub(super) background: bool,
}

impl BashLimits {
    pub(super) fn new(env: &Env, wanted_ms: Option<u64>) -> Self {
        let set = |name: &str| env.integer(name).filter(|value| *value > 0);
        let default = set("BASH_DEFAULT_TIMEOUT_MS").unwrap_or(DEFAULT_TIMEOUT_MS);
        let ceiling = set("BASH_MAX_TIMEOUT_MS").unwrap_or(DEFAULT_CEILING_MS).max(default);
        let timeout_ms = wanted_ms.filter(|wanted| *wanted > 0).unwrap_or(default).min(ceiling);
        let output = set("BASH_MAX_OUTPUT_LENGTH").and_then(|value| usize::try_from(value).ok());
        Self {
            timeout: Duration::from_millis(timeout_ms),
            output_chars: output.unwrap_or(DEFAULT_OUTPUT).min(LARGEST_OUTPUT),
            background: Self::allows_background(env),
        }
    }

    /// Returns the number of output bytes kept in memory: the most that the allowed characters can take.
    pub(super) fn inline_bytes(&self) -> usize {
        self.output_chars * LONGEST_CHARACTER
    }

    pub(super) fn allows_background(env: &Env) -> bool {
        !env.flag("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeout_ms(env: &Env, wanted: Option<u64>) -> u128 {
        BashLimits::new(env, wanted).timeout.as_millis()
    }

    #[test]
    fn timeouts_are_lowered_to_the_ceiling_and_never_refused() {
        let env = Env::default();
        assert_eq!(timeout_ms(&env, None), 120_000);
        assert_eq!(timeout_ms(&env, Some(0)), 120_000);
        assert_eq!(timeout_ms(&env, Some(5_000)), 5_000);
        assert_eq!(timeout_ms(&env, Some(9_000_000)), 600_000);
    }

    #[test]
    fn a_default_above_the_ceiling_raises_the_ceiling() {
        let env = Env::default().with("BASH_DEFAULT_TIMEOUT_MS", "1e6").with("BASH_MAX_TIMEOUT_MS", "10_000");
        assert_eq!(timeout_ms(&env, None), 1_000_000);
        assert_eq!(timeout_ms(&env, Some(2_000_000)), 1_000_000);
        let env = Env::default().with("BASH_MAX_TIMEOUT_MS", "900000").with("BASH_DEFAULT_TIMEOUT_MS", "soon");
        assert_eq!((timeout_ms(&env, None), timeout_ms(&env, Some(800_000))), (120_000, 800_000));
    }

    #[test]
    fn output_may_be_set_up_to_a_bound() {
        let output =
            |text: &str| BashLimits::new(&Env::default().with("BASH_MAX_OUTPUT_LENGTH", text), None).output_chars;
        assert_eq!(
            [output("1000"), output("150_000"), output("1e9"), output("much")],
            [1_000, 150_000, 150_000, 30_000]
        );
    }
}
