//! Noticing a model that runs into the same wall again and again.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::call::Incoming;
use crate::results::Settled;
use crate::tool::Prepared;
use gimlet_proto::ResultContent;

/// Equal failures in a row after which the model is told to change its approach.
const LIMIT: u32 = 3;

/// What a call means, however it was written: the tool and its input with repaired names and whole paths.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meaning(u64);

impl Meaning {
    pub(crate) fn of(prepared: &Prepared) -> Self {
        Self::hashed((&prepared.tool, &prepared.input))
    }

    /// Of a call that was not understood: its words.
    pub(crate) fn of_words(call: &Incoming) -> Self {
        Self::hashed((&call.name, call.input.get()))
    }

    fn hashed(parts: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        parts.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// The last failing call of a conversation and how often it came in a row.
#[derive(Default)]
pub(crate) struct Repeats {
    last: Option<(Meaning, String)>,
    count: u32,
}

impl Repeats {
    /// Looks at a result; the fourth equal failure in a row gets a sentence more.
    pub(crate) fn note(&mut self, meaning: Meaning, settled: &mut Settled) {
        if settled.error.is_none() {
            self.last = None;
            self.count = 0;
            return;
        }
        let key = (meaning, settled.content.to_text());
        if self.last.as_ref() == Some(&key) {
            self.count += 1;
        } else {
            self.last = Some(key);
            self.count = 1;
        }
        if self.count > LIMIT {
            let ResultContent::Text(text) = &mut settled.content else { return };
            text.push_str(&format!(
                "\n\nThis is the same call with the same failure for the {}th time. Repeating it will not help: \
                 change the input, use another tool, or tell the user what is in the way.",
                self.count
            ));
        }
    }
}
