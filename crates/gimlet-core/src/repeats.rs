//! Noticing a model that runs into the same wall again and again.

use crate::call::Incoming;
use crate::results::Settled;
use gimlet_proto::ResultContent;

/// Equal failures in a row after which the model is told to change its approach.
const LIMIT: u32 = 3;

/// The last failing call of a conversation and how often it came in a row.
#[derive(Default)]
pub(crate) struct Repeats {
    last: Option<(String, String, String)>,
    count: u32,
}

impl Repeats {
    /// Looks at a result; the fourth equal failure in a row gets a sentence more.
    pub(crate) fn note(&mut self, call: &Incoming, settled: &mut Settled) {
        if settled.error.is_none() {
            self.last = None;
            self.count = 0;
            return;
        }
        let text = settled.content.to_text();
        let key = (call.name.clone(), call.input.get().to_owned(), text);
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
