//! Facts about models: windows, limits, prices, thinking modes. Data, not code.
//!
//! Ids that are not in the table still work, with conservative facts; the server's refusals correct wrong guesses.

mod overrides;
mod table;

use std::collections::BTreeMap;

use gimlet_proto::{Env, ModelFacts, ModelPrice, model_for_phase};

use self::overrides::CatalogueOverrides;

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

/// Alias of the default model.
const DEFAULT_ALIAS: &str = "sonnet";
const EVERY_EFFORT: &[&str] = &["low", "medium", "high", "xhigh", "max"];

/// Profile of the vendor's ids that are newer than the table: they most likely work like the newest ones.
const UNKNOWN_CLAUDE: ModelProfile = ModelProfile {
    id: "",
    context_window: 200_000,
    max_output_tokens: 32_000,
    price: None,
    thinks: ThinkingSupport::Adaptive { off: OffSwitch::Never },
    takes_budget: false,
    hides_thinking: true,
    efforts: EVERY_EFFORT,
    finer_tokens: true,
    min_cache_tokens: 4096,
    forced_choice: false,
    edits_unread: false,
};

/// Profile of another vendor's model behind this format.
const UNKNOWN: ModelProfile = ModelProfile {
    thinks: ThinkingSupport::Unknown,
    hides_thinking: false,
    efforts: &[],
    finer_tokens: false,
    forced_choice: true,
    ..UNKNOWN_CLAUDE
};

/// The table with the user's aliases and overrides.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelCatalogue {
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
    /// Reads the user's choices; returns the problem if they are invalid.
    pub(crate) fn from_env(env: &Env) -> Result<Self, String> {
        let names = [
            ("opus", "ANTHROPIC_DEFAULT_OPUS_MODEL"),
            ("sonnet", "ANTHROPIC_DEFAULT_SONNET_MODEL"),
            ("haiku", "ANTHROPIC_DEFAULT_HAIKU_MODEL"),
            ("fable", "ANTHROPIC_DEFAULT_FABLE_MODEL"),
            ("small", "ANTHROPIC_SMALL_FAST_MODEL"),
            ("default", "ANTHROPIC_DEFAULT_MODEL"),
        ];
        let aliases = names.iter().filter_map(|(alias, name)| Some((*alias, env.get(name)?.to_owned()))).collect();
        Ok(Self { aliases, overrides: CatalogueOverrides::from_env(env)?, routes: BTreeMap::new() })
    }

    /// Sets the names that the provider uses for ids.
    pub(crate) fn with_routes(mut self, routes: BTreeMap<String, String>) -> Self {
        self.routes = routes;
        self
    }

    /// Resolves an alias or id.
    pub(crate) fn resolve(&self, name: &str) -> ResolvedModel {
        let id = self.id_of(name);
        let route = self.routes.iter().find(|(own, called)| **own == id || **called == id);
        // A provider's own name does not identify the model; the id that it stands for does.
        let key = normalized_id(route.map_or(&id, |(own, _)| own));
        let (profile, known) = match table::PROFILES.iter().find(|profile| normalized_id(profile.id) == key) {
            Some(profile) => (*profile, true),
            None if key.starts_with("claude") => (UNKNOWN_CLAUDE, false),
            None => (UNKNOWN, false),
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
        ["default"].into_iter().chain(table::ALIASES.iter().map(|(alias, _)| *alias)).map(offer).collect()
    }

    /// Returns true if a list entry, which resolves to the id `listed`, matches the model `id`.
    pub(crate) fn is_same_model(&self, listed: &str, id: &str, entry: &str) -> bool {
        let (listed, id) = (normalized_id(listed), normalized_id(id));
        let family = entry.to_ascii_lowercase();
        let is_family = table::ALIASES.iter().any(|(alias, _)| *alias == family);
        listed == id || (is_family && id.starts_with(&format!("claude-{family}-")))
    }

    pub(crate) fn id_of(&self, name: &str) -> String {
        let name = strip_window(model_for_phase(name, false).trim());
        let alias = name.to_ascii_lowercase();
        let chosen = |alias: &str| {
            let found = self.aliases.iter().find(|(name, _)| *name == alias);
            found.map(|(_, id)| strip_window(id.trim()).to_owned()).filter(|id| !id.is_empty())
        };
        let family = match alias.as_str() {
            "default" => DEFAULT_ALIAS,
            "small" => "haiku",
            // The strongest model available to every account.
            "best" => "opus",
            other => other,
        };
        let Some((_, id)) = table::ALIASES.iter().find(|(alias, _)| *alias == family) else { return name.to_owned() };
        let chosen = chosen(&alias).or_else(|| chosen(family)).filter(|id| !is_alias(id));
        chosen.unwrap_or_else(|| (*id).to_owned())
    }

    pub(crate) fn facts(&self, name: &str) -> ModelFacts {
        let ResolvedModel { id, profile, known } = self.resolve(name);
        ModelFacts {
            id,
            context_window: profile.context_window,
            max_output_tokens: profile.max_output_tokens,
            price: profile.price,
            edits_unread: profile.edits_unread,
            bytes_per_token: if profile.finer_tokens { 3.5 } else { 4.0 },
            min_cache_tokens: profile.min_cache_tokens,
            known,
        }
    }
}

fn is_alias(name: &str) -> bool {
    ["default", "small", "best"].contains(&name) || table::ALIASES.iter().any(|(alias, _)| *alias == name)
}

/// Strips the suffix that requests the long window; that window is the default today.
fn strip_window(name: &str) -> &str {
    let cut = name.len().saturating_sub("[1m]".len());
    match name.get(cut..) {
        Some(end) if end.eq_ignore_ascii_case("[1m]") => &name[..cut],
        _ => name,
    }
}

/// Strips vendor prefixes, date and version suffixes from an id and writes its version with dashes, for comparison with
/// the table.
fn normalized_id(id: &str) -> String {
    let lower = id.to_ascii_lowercase();
    let mut key = lower.find("claude").map_or(lower.as_str(), |at| &lower[at..]);
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
    if key.starts_with("claude") { key.replace('.', "-") } else { key.to_owned() }
}

/// Returns suggestions for an unknown model: the default id, then those most similar to the user's.
pub(crate) fn suggestions(id: &str) -> Vec<&'static str> {
    let default = table::ALIASES.iter().find(|(alias, _)| *alias == DEFAULT_ALIAS).map(|(_, id)| *id);
    let near = nearest(id).into_iter().filter(|near| Some(*near) != default);
    default.into_iter().chain(near).collect()
}

/// Returns the known ids most similar to `id`.
fn nearest(id: &str) -> Vec<&'static str> {
    let key = normalized_id(id);
    let mut ids: Vec<(usize, &'static str)> = table::PROFILES
        .iter()
        .map(|profile| (gimlet_text::edit_distance(&key, &normalized_id(profile.id)), profile.id))
        .collect();
    ids.sort_by_key(|(far, _)| *far);
    ids.into_iter().take(3).map(|(_, id)| id).collect()
}

#[cfg(test)]
#[path = "catalogue_tests.rs"]
mod tests;
