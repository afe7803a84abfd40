//! The rules that a request must keep, checked at least as strictly as the service checks them.
//!
//! A history bug that the stand-in lets pass is a bug that a person meets, so when in doubt a rule here refuses. Every
//! refusal names the rule and the place.

mod config;
mod content;
mod fields;
mod history;
mod marks;
mod tools;

use std::collections::HashSet;

use crate::api_error::ApiError;
use crate::json::Node;
use crate::profile::Profile;

/// What the server gave out itself and must therefore take back.
#[derive(Default, Debug)]
pub(crate) struct Issued {
    /// Block types that the rules do not know but a script sent.
    pub(crate) odd_types: HashSet<String>,
    /// Canonical last blocks of replies that paused; a history may end with one.
    pub(crate) paused_tails: HashSet<String>,
}

/// Everything a rule may look at.
pub(crate) struct Rules<'a> {
    pub(crate) text: &'a str,
    pub(crate) root: &'a Node,
    pub(crate) profile: &'a Profile,
    pub(crate) betas: &'a [String],
    /// The value of `anthropic-version`.
    pub(crate) version: &'a str,
    pub(crate) issued: &'a Issued,
    /// Whether tokens are only counted.
    pub(crate) count_only: bool,
}

type Checked = Result<(), ApiError>;

impl Rules<'_> {
    fn has_beta(&self, beta: &str) -> bool {
        self.betas.iter().any(|value| value == beta)
    }

    /// The newer API version removed some parameters.
    fn is_new_version(&self) -> bool {
        self.version == "2026-10-21"
    }

    fn items(&self, name: &str) -> &[Node] {
        self.root.get(name).map(Node::items).unwrap_or_default()
    }

    fn has(&self, name: &str) -> bool {
        self.root.get(name).is_some_and(|node| !node.is_null())
    }
}

/// Checks everything about one body that can be said without the conversation's past.
pub(crate) fn check(rules: &Rules<'_>) -> Checked {
    fields::check(rules)?;
    config::check(rules)?;
    tools::check(rules)?;
    content::check(rules)?;
    history::check(rules)?;
    marks::check(rules)
}

#[cfg(test)]
mod tests;
