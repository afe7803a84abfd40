//! What a server has refused in this run, by model and by conversation. Each provider has its own; its format decides
//! what a refusal means for the next request.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use gimlet_proto::ModelRequest;

use crate::catalogue::{ModelProfile, ThinkingSupport};

/// Features that this server refused for one of its models.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ModelQuirks {
    pub(crate) thinks: Option<ThinkingSupport>,
    pub(crate) no_display: bool,
    pub(crate) no_effort: bool,
    pub(crate) effort_up_to_high: bool,
    pub(crate) no_eager_input: bool,
    pub(crate) no_defer_loading: bool,
    pub(crate) no_cache_control: bool,
    pub(crate) no_task_budget: bool,
    pub(crate) no_betas: bool,
    pub(crate) refused_betas: Vec<String>,
    pub(crate) drop_unbound: bool,
    pub(crate) max_tokens: Option<u64>,
}

impl ModelQuirks {
    /// Quirks of a model whose requests were never refused.
    const NONE: ModelQuirks = ModelQuirks {
        thinks: None,
        no_display: false,
        no_effort: false,
        effort_up_to_high: false,
        no_eager_input: false,
        no_defer_loading: false,
        no_cache_control: false,
        no_task_budget: false,
        no_betas: false,
        refused_betas: Vec::new(),
        drop_unbound: false,
        max_tokens: None,
    };

    /// Returns the catalogue's row corrected by the server's refusals about thinking.
    pub(crate) fn apply_to(&self, profile: ModelProfile) -> ModelProfile {
        match self.thinks {
            Some(thinks) => ModelProfile { thinks, takes_budget: false, ..profile },
            None => profile,
        }
    }
}

/// Quirks learned in this run.
#[derive(Debug, Default)]
pub(crate) struct ServerQuirks {
    by_model: HashMap<String, ModelQuirks>,
    /// Conversations whose thinking is omitted, with the number of messages concerned.
    stripped: HashMap<u64, usize>,
}

impl ServerQuirks {
    /// Returns the quirks of a model.
    pub(crate) fn of_model(&self, model: &str) -> &ModelQuirks {
        const NONE: &ModelQuirks = &ModelQuirks::NONE;
        self.by_model.get(model).unwrap_or(NONE)
    }

    pub(crate) fn of_model_mut(&mut self, model: &str) -> &mut ModelQuirks {
        self.by_model.entry(model.to_owned()).or_default()
    }

    /// Omits the thinking from everything that this conversation has so far.
    pub(crate) fn strip_thinking(&mut self, request: &ModelRequest) {
        self.stripped.insert(conversation_key(request), request.messages.len());
    }

    /// Returns the number of messages at the start of this conversation that are sent without their thinking.
    pub(crate) fn stripped_messages(&self, request: &ModelRequest) -> usize {
        // The key takes a look at every byte of the first message.
        if self.stripped.is_empty() {
            return 0;
        }
        self.stripped.get(&conversation_key(request)).copied().unwrap_or(0)
    }
}

/// Returns a key for the conversation from its beginning; history is append-only, so the beginning stays.
fn conversation_key(request: &ModelRequest) -> u64 {
    let mut hasher = DefaultHasher::new();
    request.model.hash(&mut hasher);
    for block in request.messages.iter().take(1).flat_map(|message| &message.blocks) {
        block.json().hash(&mut hasher);
    }
    hasher.finish()
}
