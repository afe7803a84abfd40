//! Changes that make a refused request acceptable. Which refusal asks for which change is the format's knowledge.

/// A change to the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Downgrade {
    /// Use a thinking budget: the model supports no other mode.
    ManualThinking,
    /// Use adaptive thinking: the model supports no other mode.
    AdaptiveThinking,
    NoThinkingField,
    NoThinkingDisplay,
    NoEffort,
    EffortUpToHigh,
    NoEagerInput,
    NoDeferLoading,
    NoCacheControl,
    NoTaskBudget,
    /// Omit this beta, or all of them when the server names none.
    NoBeta(Option<String>),
    /// Let the server drop thinking of another prefix.
    DropUnboundThinking,
    /// Omit the thinking from everything sent so far.
    StripThinking,
    /// Use the model's actual limit.
    MaxTokens(u64),
    /// Use the tokens that remain beside this prompt, for this request only.
    MaxTokensThisTime(u64),
}

impl Downgrade {
    /// Returns the notice for the user, shown once.
    pub(crate) fn notice(&self, model: &str) -> String {
        let what = match self {
            Downgrade::ManualThinking => "adaptive thinking",
            Downgrade::AdaptiveThinking => "a thinking budget",
            Downgrade::NoThinkingField => "thinking settings",
            Downgrade::NoThinkingDisplay => "readable thinking",
            Downgrade::NoEffort => "an effort setting",
            Downgrade::EffortUpToHigh => "effort above high while thinking is off",
            Downgrade::NoEagerInput => "eager tool input",
            Downgrade::NoDeferLoading => "deferred tools",
            Downgrade::NoCacheControl => "cache markers",
            Downgrade::NoTaskBudget => "a task budget",
            Downgrade::NoBeta(Some(beta)) => {
                return format!("{model} does not take the beta {beta}; going on without it");
            }
            Downgrade::NoBeta(None) => "beta features",
            Downgrade::DropUnboundThinking | Downgrade::StripThinking => {
                return "earlier thinking no longer fits this conversation; going on without it".to_owned();
            }
            Downgrade::MaxTokens(limit) | Downgrade::MaxTokensThisTime(limit) => {
                return format!("the reply may have {limit} tokens at most; asking for no more");
            }
        };
        format!("{model} does not take {what}; going on without")
    }
}
