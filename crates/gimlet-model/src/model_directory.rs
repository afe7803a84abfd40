//! Names of models across providers: `provider/model`, or a model of the main provider by its bare name. Pure.

use std::collections::BTreeMap;

use gimlet_proto::{Env, ModelFacts, ModelPrice};

use crate::catalogue::{CatalogueOverrides, ModelCatalogue, ModelSummary, ResolvedModel};
use crate::providers::ProviderRow;

/// The catalogues of all providers.
#[derive(Clone, Debug)]
pub(crate) struct ModelDirectory {
    catalogues: Vec<(&'static ProviderRow, ModelCatalogue)>,
    /// Position of the provider whose models need no prefix.
    main: usize,
    /// True if requests go to the main provider's own host, which has no models of others.
    at_vendor: bool,
}

/// Model of one provider.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LocatedModel {
    /// Position of its provider in the table.
    pub(crate) provider: usize,
    pub(crate) model: ResolvedModel,
    /// Name by which it can be requested: its id, behind the name of a provider that is not the main one.
    pub(crate) label: String,
}

/// Error for a name with a provider in front that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{name}' asks for the provider '{provider}', which gimlet does not have; it has {known}")]
pub struct UnknownProviderError {
    pub name: String,
    pub provider: String,
    pub known: String,
}

impl ModelDirectory {
    /// Reads the user's choices for every provider; returns the problem if they are invalid.
    pub(crate) fn from_env(
        table: &'static [&'static ProviderRow],
        main: &'static ProviderRow,
        at_vendor: bool,
        env: &Env,
    ) -> Result<Self, String> {
        let overrides = CatalogueOverrides::from_env(env)?;
        let catalogues: Vec<(&'static ProviderRow, ModelCatalogue)> =
            table.iter().map(|row| (*row, ModelCatalogue::new(row.models, env, overrides.clone()))).collect();
        let main = table.iter().position(|row| row.name == main.name).unwrap_or(0);
        Ok(Self { catalogues, main, at_vendor })
    }

    /// Sets the names that the main provider uses for ids.
    pub(crate) fn with_routes(mut self, routes: &BTreeMap<String, String>) -> Self {
        self.catalogues[self.main].1.set_routes(routes.clone());
        self
    }

    /// Sets the prices of settings, for the models of every provider.
    pub(crate) fn with_prices(mut self, prices: &BTreeMap<String, ModelPrice>) -> Self {
        self.catalogues.iter_mut().for_each(|(_, catalogue)| catalogue.set_prices(prices));
        self
    }

    /// Splits a name into the position of its provider and the provider's own name for the model.
    ///
    /// At the main provider's own host every prefix names a provider. Elsewhere a slash may be part of a server's own
    /// id, so that only the prefix of another provider counts.
    fn locate<'a>(&self, name: &'a str) -> Result<(usize, &'a str), UnknownProviderError> {
        let name = name.trim();
        let Some((prefix, rest)) = name.split_once('/') else { return Ok((self.main, name)) };
        let row = self.catalogues.iter().position(|(row, _)| row.name.eq_ignore_ascii_case(prefix));
        match row {
            Some(other) if other != self.main && !rest.is_empty() => Ok((other, rest)),
            Some(_) if self.at_vendor && !rest.is_empty() => Ok((self.main, rest)),
            None if self.at_vendor && can_be_provider(prefix) => {
                let known: Vec<&str> = self.catalogues.iter().map(|(row, _)| row.name).collect();
                let (name, provider) = (name.to_owned(), prefix.to_owned());
                Err(UnknownProviderError { name, provider, known: known.join(", ") })
            }
            _ => Ok((self.main, name)),
        }
    }

    /// Returns the provider and the name of a model that no provider is asked about.
    fn locate_anyhow<'a>(&self, name: &'a str) -> (usize, &'a str) {
        self.locate(name).unwrap_or((self.main, name))
    }

    /// Returns a name without the prefix of the main provider; an error if its provider does not exist.
    pub(crate) fn shortest_name(&self, name: &str) -> Result<String, UnknownProviderError> {
        match self.locate(name)? {
            (main, own) if main == self.main => Ok(own.to_owned()),
            _ => Ok(name.trim().to_owned()),
        }
    }

    /// Resolves an alias or id, with or without a provider in front.
    pub(crate) fn resolve(&self, name: &str) -> LocatedModel {
        let (provider, own) = self.locate_anyhow(name);
        let model = self.catalogues[provider].1.resolve(own);
        LocatedModel { provider, label: self.label(provider, &model.id), model }
    }

    pub(crate) fn facts(&self, name: &str) -> ModelFacts {
        let (provider, own) = self.locate_anyhow(name);
        let facts = self.catalogues[provider].1.facts(own);
        ModelFacts { id: self.label(provider, &facts.id), ..facts }
    }

    pub(crate) fn id_of(&self, name: &str) -> String {
        let (provider, own) = self.locate_anyhow(name);
        self.label(provider, &self.catalogues[provider].1.id_of(own))
    }

    /// Returns the name under which the model `id` of a provider can be requested.
    pub(crate) fn label(&self, provider: usize, id: &str) -> String {
        match provider == self.main {
            true => id.to_owned(),
            false => format!("{}/{id}", self.row(provider).name),
        }
    }

    pub(crate) fn main(&self) -> usize {
        self.main
    }

    /// Returns the number of providers.
    pub(crate) fn len(&self) -> usize {
        self.catalogues.len()
    }

    pub(crate) fn row(&self, provider: usize) -> &'static ProviderRow {
        self.catalogues[provider].0
    }

    /// Returns true if an entry of a list of models matches a name: the same model of the same provider.
    pub(crate) fn matches(&self, entry: &str, name: &str) -> bool {
        let ((listed, entry), (provider, name)) = (self.locate_anyhow(entry), self.locate_anyhow(name));
        let catalogue = &self.catalogues[provider].1;
        listed == provider && catalogue.is_same_model(&catalogue.id_of(entry), &catalogue.id_of(name), entry)
    }

    /// Returns the models behind the main provider's aliases, the default first.
    pub(crate) fn model_summaries(&self) -> Vec<ModelSummary> {
        self.catalogues[self.main].1.model_summaries()
    }
}

/// Returns true if a prefix looks like the name of a provider and not like a part of a longer id.
fn can_be_provider(prefix: &str) -> bool {
    !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
