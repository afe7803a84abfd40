//! The user's choices about models: permitted models, fallbacks for an overloaded one, and a gateway's names for them.
//! Pure: names in, names out.

use std::collections::BTreeMap;

use gimlet_proto::model_for_phase;

use crate::model_directory::{ModelDirectory, UnknownProviderError};

/// Maximum number of fallback models.
const MOST_FALLBACKS: usize = 3;

/// User's choices; empty by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelChoices {
    /// The only permitted models: ids, or aliases for whole families. `None` permits all of them, an empty list only
    /// the default one.
    pub available: Option<Vec<String>>,
    /// True if the default model must be one of them as well.
    pub enforced: bool,
    /// Fallback models while the requested one is overloaded or unavailable, in order.
    pub fallbacks: Vec<String>,
    /// The provider's names for model ids.
    pub routes: BTreeMap<String, String>,
}

/// Error for a model that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnavailableModelError {
    /// The list of permitted models does not have it.
    #[error("the model '{wanted}' may not be used here: {}", allowed(available))]
    NotPermitted { wanted: String, available: Vec<String> },
    #[error(transparent)]
    UnknownProvider(#[from] UnknownProviderError),
}

fn allowed(available: &[String]) -> String {
    match available {
        [] => "availableModels leaves only the default one".to_owned(),
        names => format!("availableModels has only {}", names.join(", ")),
    }
}

impl ModelChoices {
    /// Returns the model for a requested name, or the default one without a name; an error if it is not permitted.
    pub(crate) fn model_for(
        &self,
        directory: &ModelDirectory,
        wish: Option<&str>,
    ) -> Result<String, UnavailableModelError> {
        let wish = wish.map(str::trim).filter(|wish| !wish.is_empty()).unwrap_or("default");
        let wish = directory.shortest_name(wish)?;
        let wish = wish.as_str();
        let Some(available) = &self.available else { return Ok(wish.to_owned()) };
        let is_default = wish.eq_ignore_ascii_case("default");
        if self.permits(directory, wish) || (is_default && !self.enforced) {
            return Ok(wish.to_owned());
        }
        match available.first() {
            Some(first) if is_default => Ok(first.clone()),
            // With an empty list the default can be nothing else.
            None if is_default => Ok(wish.to_owned()),
            _ => {
                let (wanted, available) = (wish.to_owned(), available.clone());
                Err(UnavailableModelError::NotPermitted { wanted, available })
            }
        }
    }

    /// Returns true if the list permits this model, or everything that it may stand for.
    fn permits(&self, directory: &ModelDirectory, name: &str) -> bool {
        let Some(available) = &self.available else { return true };
        let phases = [model_for_phase(name, true), model_for_phase(name, false)];
        if phases != [name; 2] {
            return phases.iter().all(|name| self.permits(directory, name));
        }
        available
            .iter()
            .map(|entry| entry.trim())
            .any(|entry| entry.eq_ignore_ascii_case(name) || directory.matches(entry, name))
    }

    /// Returns the permitted fallback models, and a warning about the others.
    pub(crate) fn usable_fallbacks(&self, directory: &ModelDirectory) -> (Vec<String>, Vec<String>) {
        let (mut kept, mut remarks): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        for name in self.fallbacks.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
            match self.model_for(directory, Some(name)) {
                Err(error) => remarks.push(format!("it is no fallback: {error}")),
                Ok(name) if kept.iter().any(|other| directory.id_of(other) == directory.id_of(&name)) => {}
                Ok(name) if kept.len() == MOST_FALLBACKS => {
                    remarks.push(format!("{name} is no fallback: there can be {MOST_FALLBACKS} at most"));
                }
                Ok(name) => kept.push(name),
            }
        }
        (kept, remarks)
    }
}

#[cfg(test)]
#[path = "choice_tests.rs"]
mod tests;
