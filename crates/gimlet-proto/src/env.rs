//! The environment, read once by the binary and passed down as a value.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, PoisonError};

/// A snapshot of the process environment. Cloning is cheap: every call of a session carries one.
#[derive(Clone, Default)]
pub struct Env {
    vars: Arc<BTreeMap<OsString, OsString>>,
    /// Variables that were read as a number but are not one. Shared by all copies.
    invalid_integers: Arc<Mutex<BTreeSet<String>>>,
}

/// Vendor prefixes of the reference spelling, longest first; gimlet's own name replaces the prefix by `GIMLET_`.
const PREFIXES: [&str; 3] = ["CLAUDE_CODE_", "CLAUDE_", "ANTHROPIC_"];

impl Env {
    pub fn new(vars: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self { vars: Arc::new(vars.into_iter().collect()), invalid_integers: Arc::default() }
    }

    /// Returns a variable by its reference spelling. `GIMLET_X` wins over `CLAUDE_CODE_X`, `CLAUDE_X` and
    /// `ANTHROPIC_X`; an empty value counts as unset.
    pub fn get(&self, name: &str) -> Option<&str> {
        let own = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).map(|rest| format!("GIMLET_{rest}"));
        own.and_then(|own| self.exact(&own)).or_else(|| self.exact(name))
    }

    /// Returns all names of a variable, given its reference spelling.
    pub fn spellings(name: &str) -> Vec<String> {
        let own = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).map(|rest| format!("GIMLET_{rest}"));
        own.into_iter().chain([name.to_owned()]).collect()
    }

    /// Returns the variable with exactly this name; an empty or non-UTF-8 value counts as unset.
    pub fn exact(&self, name: &str) -> Option<&str> {
        self.vars.get(OsStr::new(name)).and_then(|value| value.to_str()).filter(|value| !value.is_empty())
    }

    /// Returns the unmodified value of exactly this name.
    pub fn raw(&self, name: &str) -> Option<&OsStr> {
        self.vars.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// Returns true if a switch is on: `1`, `true`, `yes` or `on`, in any case.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| ["1", "true", "yes", "on"].iter().any(|yes| value.trim().eq_ignore_ascii_case(yes)))
    }

    /// Parses an integer: plain digits, `1e6` or `64_000`. Anything else counts as unset.
    pub fn integer(&self, name: &str) -> Option<u64> {
        let number = parse_integer(self.get(name)?);
        if number.is_none() {
            self.invalid_integers.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        }
        number
    }

    /// Returns, each once, the variables that were read as a number so far and counted as unset because they are not
    /// one.
    pub fn take_invalid_integers(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.invalid_integers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns every variable, for a child process.
    pub fn vars(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.vars.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// Returns a copy with one variable set; for tests and for the demo's private environment.
    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        Arc::make_mut(&mut self.vars).insert(name.into(), value.into());
        self
    }

    /// Returns the environment without these variables.
    #[must_use]
    pub fn without_vars(mut self, names: &[&str]) -> Self {
        Arc::make_mut(&mut self.vars).retain(|name, _| !names.iter().any(|removed| name == removed));
        self
    }
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Values may be secrets; names are enough to debug with.
        f.debug_set().entries(self.vars.keys()).finish()
    }
}

fn parse_integer(text: &str) -> Option<u64> {
    let text = text.trim();
    if let Some((mantissa, exponent)) = text.split_once(['e', 'E']) {
        let mantissa: u64 = mantissa.parse().ok()?;
        let exponent: u32 = exponent.strip_prefix('+').unwrap_or(exponent).parse().ok()?;
        return mantissa.checked_mul(10u64.checked_pow(exponent)?);
    }
    if text.starts_with('_') || text.ends_with('_') {
        return None;
    }
    text.replace('_', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_names_win_and_integers_have_three_spellings() {
        let env = Env::default().with("CLAUDE_CODE_MAX_RETRIES", "3").with("ANTHROPIC_API_KEY", "theirs");
        assert_eq!(env.get("CLAUDE_CODE_MAX_RETRIES"), Some("3"));
        let env = env.with("GIMLET_MAX_RETRIES", "1e2").with("GIMLET_API_KEY", "ours");
        assert_eq!(env.integer("CLAUDE_CODE_MAX_RETRIES"), Some(100));
        assert_eq!(env.get("ANTHROPIC_API_KEY"), Some("ours"));
        assert_eq!(env.clone().with("N", "64_000").integer("N"), Some(64_000));
        assert_eq!(env.clone().with("N", "six").integer("N"), None);
        assert_eq!(env.with("N", "").get("N"), None);
    }
}
