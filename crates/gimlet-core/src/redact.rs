//! gimlet's own credentials, masked before text enters history or a log.
//!
//! A command may print the environment, a file may hold the key: what a tool gives back is searched for the exact
//! values. What the person wrote is never touched.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};

use gimlet_proto::{ContentPart, ResultContent, Secret, View};

/// What stands in a secret's place.
const MASK: &str = "***";
/// Shorter values are no secrets but placeholders for local servers, and would be found everywhere.
const SHORTEST: usize = 8;

/// More values than this are not kept: a helper that prints another key each time has made the first ones useless
/// long before.
const MOST: usize = 256;

/// The values to mask. Copies share them, so what one learns all of them mask.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    secrets: Arc<RwLock<Vec<Secret>>>,
}

impl Redactor {
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        let redactor = Self::default();
        secrets.into_iter().for_each(|secret| redactor.learn(secret));
        redactor
    }

    /// Masks this value, too, from now on.
    pub fn learn(&self, secret: Secret) {
        // A list of values is whole whatever a panicking holder was doing.
        let mut secrets = self.secrets.write().unwrap_or_else(PoisonError::into_inner);
        if secret.expose().len() < SHORTEST || secrets.contains(&secret) {
            return;
        }
        if secrets.len() == MOST {
            secrets.remove(0);
        }
        secrets.push(secret);
    }

    /// The text without secrets.
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut masked = Cow::Borrowed(text);
        for secret in self.secrets.read().unwrap_or_else(PoisonError::into_inner).iter() {
            if masked.contains(secret.expose()) {
                masked = Cow::Owned(masked.replace(secret.expose(), MASK));
            }
        }
        masked
    }

    fn mask_in_place(&self, text: &mut String) {
        if let Cow::Owned(masked) = self.mask(text) {
            *text = masked;
        }
    }

    pub(crate) fn mask_content(&self, content: &mut ResultContent) {
        match content {
            ResultContent::Text(text) => self.mask_in_place(text),
            ResultContent::Parts(parts) => {
                for part in parts {
                    if let ContentPart::Text { text } = part {
                        self.mask_in_place(text);
                    }
                }
            }
        }
    }

    pub(crate) fn mask_view(&self, view: &mut View) {
        match view {
            View::Text(text) => self.mask_in_place(text),
            View::Diff { hunks, .. } => {
                hunks.iter_mut().flat_map(|hunk| &mut hunk.lines).for_each(|line| self.mask_in_place(line));
            }
            View::Terminal { command, output, .. } => {
                self.mask_in_place(command);
                self.mask_in_place(output);
            }
            View::Table { rows, .. } => rows.iter_mut().flatten().for_each(|cell| self.mask_in_place(cell)),
            View::Files { .. } | View::Todos(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_values_are_masked_and_placeholders_are_not() {
        let redactor = Redactor::new([Secret::new("sk-0123456789"), Secret::new("k")]);
        assert_eq!(redactor.mask("KEY=sk-0123456789; look"), "KEY=***; look");
        assert!(matches!(redactor.mask("nothing here"), Cow::Borrowed(_)));
        let mut content = ResultContent::Parts(vec![ContentPart::Text { text: "sk-0123456789".into() }]);
        redactor.mask_content(&mut content);
        assert_eq!(content.to_text(), "***");
    }

    #[test]
    fn a_value_that_comes_later_is_masked_by_every_copy_and_the_list_stays_short() {
        let redactor = Redactor::default();
        let copy = redactor.clone();
        for number in 0..=MOST {
            redactor.learn(Secret::new(format!("key-number-{number:03}")));
            redactor.learn(Secret::new(format!("key-number-{number:03}")));
        }
        assert_eq!(copy.mask("key-number-256 key-number-001"), "*** ***");
        assert_eq!(copy.mask("key-number-000"), "key-number-000");
    }
}
