//! What can be changed while a session runs and is read at every request: the model and how it thinks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimlet_proto::{PermissionMode, ThinkingDisplay, ThinkingMode, check_model_name, model_for_phase};

/// A session's choices of model. Clones share them.
#[derive(Clone)]
pub(crate) struct LiveModelSelection {
    now: Arc<Mutex<ModelSelection>>,
    start: Arc<ModelSelection>,
}

/// One position of the dials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelSelection {
    /// An id or an alias.
    pub(crate) model: String,
    pub(crate) thinking: ThinkingMode,
    /// `None`: as the provider was told at its start.
    pub(crate) display: Option<ThinkingDisplay>,
    pub(crate) effort: Option<String>,
}

impl LiveModelSelection {
    pub(crate) fn new(start: ModelSelection) -> Self {
        Self { now: Arc::new(Mutex::new(start.clone())), start: Arc::new(start) }
    }

    pub(crate) fn current(&self) -> ModelSelection {
        self.lock().clone()
    }

    /// The model of the moment; which one it is may follow the mode.
    pub(crate) fn model(&self, mode: PermissionMode) -> String {
        model_for_phase(&self.lock().model, mode == PermissionMode::Plan).to_owned()
    }

    /// Changes the model; `None` goes back to the first.
    pub(crate) fn set_model(&self, model: Option<String>) -> Result<(), String> {
        let model = self.resolve_model(model)?;
        self.lock().model = model;
        Ok(())
    }

    /// The model that such a wish means.
    pub(crate) fn resolve_model(&self, model: Option<String>) -> Result<String, String> {
        let model = model.filter(|model| model != "default").unwrap_or_else(|| self.start.model.clone());
        check_model_name(&model)?;
        Ok(model)
    }

    /// Changes how hard the model thinks; `None` goes back to the start.
    pub(crate) fn set_effort(&self, effort: Option<String>) {
        self.lock().effort = effort.or_else(|| self.start.effort.clone());
    }

    /// How hard the model thinks, unless that is still as it was at the start.
    pub(crate) fn changed_effort(&self) -> Option<String> {
        self.current().effort.filter(|effort| self.start.effort.as_ref() != Some(effort))
    }

    /// Changes how the model thinks; `None` goes back to the start.
    pub(crate) fn set_thinking(&self, thinking: Option<ThinkingMode>) {
        self.lock().thinking = thinking.unwrap_or(self.start.thinking);
    }

    /// Changes what is seen of the thinking; `None` goes back to the start.
    pub(crate) fn set_display(&self, display: Option<ThinkingDisplay>) {
        self.lock().display = display;
    }

    fn lock(&self) -> MutexGuard<'_, ModelSelection> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_selection_resets_to_its_start() {
        let dials = LiveModelSelection::new(ModelSelection {
            model: "a".into(),
            thinking: ThinkingMode::Off,
            display: None,
            effort: None,
        });
        dials.set_model(Some("b".into())).unwrap();
        dials.set_thinking(Some(ThinkingMode::Budget(9)));
        dials.set_display(Some(ThinkingDisplay::Omitted));
        dials.set_effort(Some("low".into()));
        let (model, thinking) = ("b".to_owned(), ThinkingMode::Budget(9));
        let display = Some(ThinkingDisplay::Omitted);
        assert_eq!(dials.current(), ModelSelection { model, thinking, display, effort: Some("low".into()) });
        for bad in ["", "two words", "-x", "line\nbreak"] {
            assert!(dials.set_model(Some(bad.into())).is_err(), "{bad}");
        }
        dials.set_model(None).unwrap();
        dials.set_thinking(None);
        dials.set_display(None);
        dials.set_effort(None);
        assert_eq!(dials.current(), *dials.start);
    }
}
