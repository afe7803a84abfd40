//! Facts about models: windows, limits, prices, thinking modes. Data, not code.
//!
//! Ids that are not in the table still work, with conservative facts; the server's refusals correct wrong guesses.

mod claude_models;
mod overrides;

use std::collections::BTreeMap;

use gimlet_proto::{Env, ModelFacts, ModelPrice, model_for_phase};

pub(crate) use claude_models::CLAUDE;
pub(crate) use overrides::CatalogueOverrides;

/// Thinking mode of a model, and the way to switch thinking off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThinkingSupport {
    /// Chooses its own depth.
    Adaptive { off: OffSwitch },
    /// Thinks only with a budget in the request. `interleaved`: needs a beta to think between calls.
    Manual { interleaved: bool },
    /// Unknown: no thinking field is sent.
    Unknown,
}

/// Setting that switches adaptive thinking off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OffSwitch {
    /// Thinking cannot be switched off.
    Never,
    /// `disabled`.
    Disabled,
    /// `disabled`, which limits effort to `high`.
    DisabledUpToHigh,
    /// `between_tools`, which limits effort to `high`.
    BetweenTools,
    /// Omitting the field.
    Omit,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ModelProfile {
    pub(crate) id: &'static str,
    pub(crate) context_window: u64,
    pub(crate) max_output_tokens: u64,
    pub(crate) price: Option<ModelPrice>,
    pub(crate) thinks: ThinkingSupport,
    /// True if the model also accepts a thinking budget instead of choosing its own depth.
    pub(crate) takes_budget: bool,
    /// True if the model omits the text of its thinking unless requested.
    pub(crate) hides_thinking: bool,
    pub(crate) efforts: &'static [&'static str],
    /// True if the model uses the newer tokenizer, which produces more tokens for a text.
    pub(crate) finer_tokens: bool,
    pub(crate) min_cache_tokens: u64,
    /// True if the model accepts a `tool_choice` that forces a call.
    pub(crate) forced_choice: bool,
    /// True if the model reads files before it edits them without being forced to.
    pub(crate) edits_unread: bool,
}

impl ModelProfile {
    /// Profile of a model of which nothing is known.
    pub(crate) const UNKNOWN: ModelProfile = ModelProfile {
        id: "",
        context_window: 200_000,
        max_output_tokens: 32_000,
        price: None,
        thinks: ThinkingSupport::Unknown,
        takes_budget: false,
        hides_thinking: false,
        efforts: &[],
        finer_tokens: false,
        min_cache_tokens: 4096,
        forced_choice: true,
        edits_unread: false,
    };
}

/// Models of a provider: its names for them, and what is known about each.
#[derive(Debug)]
pub(crate) struct ProviderModels {
    /// Beginning of the vendor's own ids. Anything before it, such as a cloud's prefix, does not identify a model.
    pub(crate) brand: &'static str,
    /// Names that stand for ids.
    pub(crate) aliases: &'static [(&'static str, &'static str)],
    /// What `default` stands for: an alias or an id.
    pub(crate) default: &'static str,
    /// What `small` stands for.
    pub(crate) small: &'static str,
    /// What `best` stands for: the strongest model available to every account.
    pub(crate) best: &'static str,
    /// Variables that give an alias another meaning.
    pub(crate) variables: &'static [(&'static str, &'static str)],
    pub(crate) profiles: &'static [ModelProfile],
    /// Profile of the vendor's ids that are newer than the profiles.
    pub(crate) newer: ModelProfile,
    /// Profile of other ids.
    pub(crate) unknown: ModelProfile,
}

/// The models of a provider with the user's aliases and overrides.
#[derive(Clone, Debug)]
pub(crate) struct ModelCatalogue {
    models: &'static ProviderModels,
    aliases: Vec<(&'static str, String)>,
    overrides: CatalogueOverrides,
    /// Names that the provider uses for ids.
    routes: BTreeMap<String, String>,
}

/// Model as offered to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSummary {
    pub alias: &'static str,
    pub id: String,
    pub efforts: &'static [&'static str],
    /// True if the model decides itself how much to think.
    pub adaptive: bool,
}

/// Model that a name resolves to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ResolvedModel {
    /// Id sent on the wire.
    pub(crate) id: String,
    pub(crate) profile: ModelProfile,
    pub(crate) known: bool,
}

impl ResolvedModel {
    /// Returns the id that identifies the model family; a provider's own name need not.
    pub(crate) fn family_id(&self) -> &str {
        if self.profile.id.is_empty() { &self.id } else { self.profile.id }
    }
}

impl ModelCatalogue {
    /// Reads the user's aliases.
    pub(crate) fn new(models: &'static ProviderModels, env: &Env, overrides: CatalogueOverrides) -> Self {
        let aliases =
            models.variables.iter().filter_map(|(alias, name)| Some((*alias, env.get(name)?.to_owned()))).collect();
        Self { models, aliases, overrides, routes: BTreeMap::new() }
    }

    /// Sets the names that the provider uses for ids.
    pub(crate) fn set_routes(&mut self, routes: BTreeMap<String, String>) {
        self.routes = routes;
    }

    /// Sets the prices of settings.
    pub(crate) fn set_prices(&mut self, prices: &BTreeMap<String, ModelPrice>) {
        self.overrides.set_prices(prices);
    }

    /// Resolves an alias or id.
    pub(crate) fn resolve(&self, name: &str) -> ResolvedModel {
        let id = self.id_of(name);
        let route = self.routes.iter().find(|(own, called)| **own == id || **called == id);
        // A provider's own name does not identify the model; the id that it stands for does.
        let models = self.models;
        let key = models.normalized_id(route.map_or(&id, |(own, _)| own));
        let (profile, known) = match models.profiles.iter().find(|profile| models.normalized_id(profile.id) == key) {
            Some(profile) => (*profile, true),
            None if key.starts_with(models.brand) => (models.newer, false),
            None => (models.unknown, false),
        };
        let profile = self.overrides.apply_to(&id, profile);
        ResolvedModel { profile, id: route.map_or(id, |(_, called)| called.clone()), known }
    }

    /// Returns the models behind the aliases, the default first.
    pub(crate) fn model_summaries(&self) -> Vec<ModelSummary> {
        let offer = |alias: &'static str| {
            let ResolvedModel { id, profile, .. } = self.resolve(alias);
            let adaptive = matches!(profile.thinks, ThinkingSupport::Adaptive { .. });
            ModelSummary { alias, id, efforts: profile.efforts, adaptive }
        };
        ["default"].into_iter().chain(self.models.aliases.iter().map(|(alias, _)| *alias)).map(offer).collect()
    }

    /// Returns true if a list entry, which resolves to the id `listed`, matches the model `id`.
    pub(crate) fn is_same_model(&self, listed: &str, id: &str, entry: &str) -> bool {
        let models = self.models;
        let (listed, id) = (models.normalized_id(listed), models.normalized_id(id));
        let family = entry.to_ascii_lowercase();
        let is_family = models.aliases.iter().any(|(alias, _)| *alias == family);
        listed == id || (is_family && id.starts_with(&format!("{}-{family}-", models.brand)))
    }

    pub(crate) fn id_of(&self, name: &str) -> String {
        let name = strip_window(model_for_phase(name, false).trim());
        let alias = name.to_ascii_lowercase();
        let chosen = |alias: &str| {
            let found = self.aliases.iter().find(|(name, _)| *name == alias);
            found.map(|(_, id)| strip_window(id.trim()).to_owned()).filter(|id| !id.is_empty())
        };
        let role = self.models.role(&alias);
        let family = role.unwrap_or(&alias);
        let id = match self.models.aliases.iter().find(|(alias, _)| *alias == family) {
            Some((_, id)) => *id,
            None if role.is_some() => family,
            None => return name.to_owned(),
        };
        let chosen = chosen(&alias).or_else(|| chosen(family)).filter(|id| !self.models.is_alias(id));
        chosen.unwrap_or_else(|| id.to_owned())
    }

    pub(crate) fn facts(&self, name: &str) -> ModelFacts {
        let ResolvedModel { id, profile, known } = self.resolve(name);
        ModelFacts {
            id,
            context_window: profile.context_window,
            max_output_tokens: profile.max_output_tokens,
            price: profile.price,
            edits_unread: profile.edits_unread,
            // Models with the newer tokenizer also see more of an image; no larger one may stand among many.
            image_side: if profile.finer_tokens { gimlet_text::SendableImage::SMALL_SIDE } else { 1_568 },
            bytes_per_token: if profile.finer_tokens { 3.5 } else { 4.0 },
            min_cache_tokens: profile.min_cache_tokens,
            known,
        }
    }
}

impl ProviderModels {
    /// Returns what a name stands for that every provider has.
    fn role(&self, name: &str) -> Option<&'static str> {
        match name {
            "default" => Some(self.default),
            "small" => Some(self.small),
            "best" => Some(self.best),
            _ => None,
        }
    }

    fn is_alias(&self, name: &str) -> bool {
        self.role(name).is_some() || self.aliases.iter().any(|(alias, _)| *alias == name)
    }

    /// Strips vendor prefixes, date and version suffixes from an id and writes its version with dashes, for comparison
    /// with the profiles.
    fn normalized_id(&self, id: &str) -> String {
        let lower = id.to_ascii_lowercase();
        let mut key = lower.find(self.brand).map_or(lower.as_str(), |at| &lower[at..]);
        if let Some((head, version)) = key.rsplit_once("-v")
            && !version.is_empty()
            && version.bytes().all(|byte| byte.is_ascii_digit() || byte == b':')
        {
            key = head;
        }
        key = key.strip_suffix("-latest").unwrap_or(key);
        if let Some((head, date)) = key.rsplit_once(['-', '@'])
            && date.len() == 8
            && date.bytes().all(|byte| byte.is_ascii_digit())
        {
            key = head;
        }
        // Gateways write versions with a dot.
        if key.starts_with(self.brand) { key.replace('.', "-") } else { key.to_owned() }
    }

    /// Returns suggestions for an unknown model: the default id, then those most similar to the user's.
    pub(crate) fn suggestions(&self, id: &str) -> Vec<&'static str> {
        let default = self.aliases.iter().find(|(alias, _)| *alias == self.default).map_or(self.default, |(_, id)| *id);
        let near = self.nearest(id).into_iter().filter(|near| *near != default);
        [default].into_iter().chain(near).collect()
    }

    /// Returns the known ids most similar to `id`.
    fn nearest(&self, id: &str) -> Vec<&'static str> {
        let key = self.normalized_id(id);
        let mut ids: Vec<(usize, &'static str)> = self
            .profiles
            .iter()
            .map(|profile| (gimlet_text::edit_distance(&key, &self.normalized_id(profile.id)), profile.id))
            .collect();
        ids.sort_by_key(|(far, _)| *far);
        ids.into_iter().take(3).map(|(_, id)| id).collect()
    }
}

/// Strips the suffix that requests the long window; that window is the default today.
fn strip_window(name: &str) -> &str {
    let cut = name.len().saturating_sub("[1m]".len());
    match name.get(cut..) {
        Some(end) if end.eq_ignore_ascii_case("[1m]") => &name[..cut],
        _ => name,
    }
}

#[cfg(test)]
#[path = "catalogue_tests.rs"]
mod tests;
