//! Settings that can change while a session runs and are read at every request: the model and its thinking.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimlet_proto::{
    Model, ModelFacts, PermissionMode, ThinkingDisplay, ThinkingMode, check_model_name, model_for_phase,
};

/// Model selection of a conversation, with the provider of the models. Clones share it.
#[derive(Clone)]
pub(crate) struct LiveModelSelection {
    provider: Arc<dyn Model>,
    now: Arc<Mutex<ModelSelection>>,
    /// Model and effort for the rest of a turn.
    for_turn: Arc<Mutex<TurnModelOverride>>,
    start: Arc<ModelSelection>,
    /// True if managed settings choose the model.
    managed: bool,
    /// Windows that servers reported, by model, where they are smaller than the known ones.
    windows: Arc<Mutex<HashMap<String, u64>>>,
}

/// What a skill chose for the rest of a turn.
#[derive(Clone, Debug, Default)]
struct TurnModelOverride {
    model: Option<String>,
    effort: Option<String>,
}

/// Current values of the selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelSelection {
    /// Model id or alias.
    pub(crate) model: String,
    pub(crate) thinking: ThinkingMode,
    /// `None`: as configured for the provider at its start.
    pub(crate) display: Option<ThinkingDisplay>,
    pub(crate) effort: Option<String>,
}

impl LiveModelSelection {
    pub(crate) fn new(provider: Arc<dyn Model>, start: ModelSelection) -> Self {
        let windows = Arc::default();
        let (now, for_turn) = (Arc::new(Mutex::new(start.clone())), Arc::default());
        Self { provider, now, for_turn, start: Arc::new(start), managed: false, windows }
    }

    /// Returns the selection with its model fixed. Those of subagents are not.
    pub(crate) fn with_managed_model(self) -> Self {
        Self { managed: true, ..self }
    }

    /// Returns the independent selection of a subagent, among the same provider's models.
    pub(crate) fn for_agent(&self, start: ModelSelection) -> Self {
        Self { windows: self.windows.clone(), ..Self::new(self.provider.clone(), start) }
    }

    pub(crate) fn provider(&self) -> &dyn Model {
        &*self.provider
    }

    /// Returns the facts about one of the provider's models.
    pub(crate) fn facts(&self, model: &str) -> ModelFacts {
        let mut facts = self.provider.facts(model);
        let windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(window) = windows.get(&facts.id) {
            facts.context_window = facts.context_window.min(*window);
        }
        facts
    }

    /// Corrects the window of a model for the rest of the session.
    pub(crate) fn correct_window(&self, model: &str, window: u64) {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner).insert(model.to_owned(), window);
    }

    pub(crate) fn current(&self) -> ModelSelection {
        let mut now = self.lock().clone();
        let TurnModelOverride { model, effort } = self.lock_for_turn().clone();
        now.model = model.unwrap_or(now.model);
        now.effort = effort.or(now.effort);
        now
    }

    /// Chooses a model and an effort for the rest of the turn; `None` leaves them as they are.
    pub(crate) fn override_for_turn(&self, model: Option<String>, effort: Option<String>) -> Result<(), String> {
        let model = model.map(|model| self.resolve_model(Some(model))).transpose();
        let mut for_turn = self.lock_for_turn();
        for_turn.effort = effort.or(for_turn.effort.take());
        let model = model?;
        for_turn.model = model.or(for_turn.model.take());
        Ok(())
    }

    /// Returns to the session's own model and effort.
    pub(crate) fn end_override(&self) {
        *self.lock_for_turn() = TurnModelOverride::default();
    }

    fn lock_for_turn(&self) -> MutexGuard<'_, TurnModelOverride> {
        self.for_turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current model, which may depend on the mode.
    pub(crate) fn model(&self, mode: PermissionMode) -> String {
        model_for_phase(&self.current().model, mode == PermissionMode::Plan).to_owned()
    }

    /// Sets the model; `None` restores the initial one.
    pub(crate) fn set_model(&self, model: Option<String>) -> Result<(), String> {
        let model = self.resolve_model(model)?;
        self.lock().model = model;
        self.lock_for_turn().model = None;
        Ok(())
    }

    /// Resolves a requested model; `None` means the initial one. A managed model is the only one.
    pub(crate) fn resolve_model(&self, model: Option<String>) -> Result<String, String> {
        let model = model.filter(|model| model != "default").unwrap_or_else(|| self.start.model.clone());
        check_model_name(&model)?;
        if self.managed && model != self.start.model {
            let fixed = &self.start.model;
            return Err(format!("the model cannot be changed to {model}: managed settings choose {fixed}"));
        }
        Ok(model)
    }

    /// Sets the thinking effort; `None` restores the initial one.
    pub(crate) fn set_effort(&self, effort: Option<String>) {
        self.lock_for_turn().effort = None;
        self.lock().effort = effort.or_else(|| self.start.effort.clone());
    }

    /// Returns the thinking effort if it differs from the initial one.
    pub(crate) fn changed_effort(&self) -> Option<String> {
        self.lock().effort.clone().filter(|effort| self.start.effort.as_ref() != Some(effort))
    }

    /// Sets the thinking mode; `None` restores the initial one.
    pub(crate) fn set_thinking(&self, thinking: Option<ThinkingMode>) {
        self.lock().thinking = thinking.unwrap_or(self.start.thinking);
    }

    /// Sets the display of thinking; `None` restores the initial one.
    pub(crate) fn set_display(&self, display: Option<ThinkingDisplay>) {
        self.lock().display = display;
    }

    fn lock(&self) -> MutexGuard<'_, ModelSelection> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use gimlet_proto::{ModelRequest, ModelStream};

    use super::*;

    /// A provider that is never asked.
    pub(crate) struct UnusedModel;

    impl Model for UnusedModel {
        fn facts(&self, model: &str) -> ModelFacts {
            ModelFacts {
                id: model.to_owned(),
                context_window: 1,
                max_output_tokens: 1,
                price: None,
                edits_unread: false,
                image_side: 1568,
                bytes_per_token: 4.0,
                min_cache_tokens: 1_024,
                known: false,
            }
        }

        fn stream(&self, _request: ModelRequest) -> ModelStream {
            Box::pin(futures_util::stream::empty())
        }
    }

    #[test]
    fn model_selection_resets_to_its_start() {
        let start = ModelSelection { model: "a".into(), thinking: ThinkingMode::Off, display: None, effort: None };
        let selection = LiveModelSelection::new(Arc::new(UnusedModel), start);
        selection.set_model(Some("b".into())).unwrap();
        selection.set_thinking(Some(ThinkingMode::Budget(9)));
        selection.set_display(Some(ThinkingDisplay::Omitted));
        selection.set_effort(Some("low".into()));
        let (model, thinking) = ("b".to_owned(), ThinkingMode::Budget(9));
        let display = Some(ThinkingDisplay::Omitted);
        assert_eq!(selection.current(), ModelSelection { model, thinking, display, effort: Some("low".into()) });
        for bad in ["", "two words", "-x", "line\nbreak"] {
            assert!(selection.set_model(Some(bad.into())).is_err(), "{bad}");
        }
        selection.set_model(None).unwrap();
        selection.set_thinking(None);
        selection.set_display(None);
        selection.set_effort(None);
        assert_eq!(selection.current(), *selection.start);
        let managed = selection.with_managed_model();
        let refusal = managed.set_model(Some("b".into())).unwrap_err();
        assert!(refusal.contains("managed settings choose a"), "{refusal}");
        assert_eq!((managed.set_model(None), managed.set_model(Some("a".into()))), (Ok(()), Ok(())));
    }
}
