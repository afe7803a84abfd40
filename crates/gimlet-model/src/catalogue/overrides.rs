//! The user's overrides of the table: facts by model id, field by field.

use std::collections::BTreeMap;

use gimlet_proto::{Env, ModelPrice};
use serde::Deserialize;

use super::ModelProfile;

/// Context window when the long one is switched off.
const SHORT_WINDOW: u64 = 200_000;

/// Overrides of the table.
#[derive(Clone, Debug, Default)]
pub(crate) struct CatalogueOverrides {
    /// Overrides by id or by a prefix followed by `*`; sorted by length, so that the longest match takes precedence.
    by_model: Vec<(String, ModelOverride)>,
    /// Prices from settings, sorted in the same way; those above take precedence.
    prices: Vec<(String, ModelPrice)>,
    window: Option<u64>,
    short: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelOverride {
    context: Option<u64>,
    max_output: Option<u64>,
    min_cache_tokens: Option<u64>,
    forced_tool_choice: Option<bool>,
    edits_unread: Option<bool>,
    price: Option<PriceOverride>,
}

/// Prices in USD per million tokens; missing ones are derived from the input price in the usual ratio.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceOverride {
    input: f64,
    output: f64,
    write_5m: Option<f64>,
    write_1h: Option<f64>,
    read: Option<f64>,
}

impl PriceOverride {
    fn is_negative(self) -> bool {
        let further = [self.write_5m, self.write_1h, self.read];
        [self.input, self.output].into_iter().chain(further.into_iter().flatten()).any(|price| price < 0.0)
    }
}

impl From<PriceOverride> for ModelPrice {
    fn from(given: PriceOverride) -> Self {
        let usual = Self::from_input_and_output(given.input, given.output);
        Self {
            write_5m: given.write_5m.unwrap_or(usual.write_5m),
            write_1h: given.write_1h.unwrap_or(usual.write_1h),
            read: given.read.unwrap_or(usual.read),
            ..usual
        }
    }
}

impl CatalogueOverrides {
    /// Reads the user's overrides; returns the problem if they are invalid.
    pub(crate) fn from_env(env: &Env) -> Result<Self, String> {
        let given = env.get("GIMLET_MODELS").map(serde_json::from_str::<BTreeMap<String, ModelOverride>>).transpose();
        let mut by_model: Vec<(String, ModelOverride)> =
            given.map_err(|error| error.to_string())?.unwrap_or_default().into_iter().collect();
        if let Some((model, _)) = by_model.iter().find(|(_, facts)| facts.price.is_some_and(PriceOverride::is_negative))
        {
            return Err(format!("a price of {model} is below 0"));
        }
        by_model.sort_by_key(|(pattern, _)| pattern.len());
        let window = env.integer("CLAUDE_CODE_MAX_CONTEXT_TOKENS").filter(|tokens| *tokens > 0);
        Ok(Self { by_model, prices: Vec::new(), window, short: env.flag("CLAUDE_CODE_DISABLE_1M_CONTEXT") })
    }

    /// Sets the prices of settings.
    pub(crate) fn set_prices(&mut self, prices: &BTreeMap<String, ModelPrice>) {
        self.prices = prices.iter().map(|(pattern, price)| (pattern.clone(), *price)).collect();
        self.prices.sort_by_key(|(pattern, _)| pattern.len());
    }

    /// Returns the profile of `id` with the matching overrides applied.
    pub(crate) fn apply_to(&self, id: &str, mut profile: ModelProfile) -> ModelProfile {
        if self.short {
            profile.context_window = profile.context_window.min(SHORT_WINDOW);
        }
        profile.context_window = self.window.unwrap_or(profile.context_window);
        for (_, price) in self.prices.iter().filter(|(pattern, _)| matches_pattern(pattern, id)) {
            profile.price = Some(*price);
        }
        for (_, facts) in self.by_model.iter().filter(|(pattern, _)| matches_pattern(pattern, id)) {
            profile.context_window = facts.context.unwrap_or(profile.context_window);
            profile.max_output_tokens = facts.max_output.unwrap_or(profile.max_output_tokens);
            profile.min_cache_tokens = facts.min_cache_tokens.unwrap_or(profile.min_cache_tokens);
            profile.forced_choice = facts.forced_tool_choice.unwrap_or(profile.forced_choice);
            profile.edits_unread = facts.edits_unread.unwrap_or(profile.edits_unread);
            profile.price = facts.price.map(ModelPrice::from).or(profile.price);
        }
        profile
    }
}

fn matches_pattern(pattern: &str, id: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => id.starts_with(beginning),
        None => id == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CLAUDE, ModelCatalogue};
    use super::*;

    fn catalogue(env: Env) -> ModelCatalogue {
        ModelCatalogue::new(&CLAUDE, &env, CatalogueOverrides::from_env(&env).unwrap())
    }

    #[test]
    fn fields_are_merged_and_the_longest_pattern_has_the_last_word() {
        let models = r#"{"local/*": {"context": 65536, "max_output": 8192, "price": {"input": 0, "output": 0}},
                         "local/big": {"context": 131072},
                         "claude-opus-5-5": {"price": {"input": 1, "output": 2, "read": 0.5}}}"#;
        let catalogue = catalogue(Env::default().with("GIMLET_MODELS", models));
        let big = catalogue.facts("local/big");
        assert_eq!((big.context_window, big.max_output_tokens), (131_072, 8_192));
        assert_eq!(big.price.map(|price| (price.input, price.read)), Some((0.0, 0.0)));
        assert_eq!(catalogue.facts("local/small").context_window, 65_536);
        let opus = catalogue.facts("opus");
        assert_eq!((opus.context_window, opus.known), (1_000_000, true));
        let price = opus.price.unwrap();
        assert_eq!((price.input, price.write_5m, price.write_1h, price.read), (1.0, 1.25, 2.0, 0.5));
        assert_eq!(catalogue.facts("claude-opus-5").price.map(|price| price.input), Some(5.0));
    }

    #[test]
    fn prices_of_settings_stand_between_the_table_and_the_variable() {
        let mut catalogue = catalogue(
            Env::default().with("GIMLET_MODELS", r#"{"claude-opus-5-5": {"price": {"input": 7, "output": 8}}}"#),
        );
        let price = |input| ModelPrice::from_input_and_output(input, 2.0);
        let prices = [("claude-*", price(1.0)), ("claude-sonnet-5-5", price(3.0)), ("local/x", price(0.0))];
        catalogue.set_prices(&prices.map(|(model, price)| (model.to_owned(), price)).into());
        let input = |model: &str| catalogue.facts(model).price.map(|price| price.input);
        assert_eq!((input("opus"), input("sonnet"), input("haiku")), (Some(7.0), Some(3.0), Some(1.0)));
        assert_eq!((input("local/x"), input("local/y")), (Some(0.0), None));
    }

    #[test]
    fn the_window_has_switches_of_its_own() {
        let short = Env::default().with("CLAUDE_CODE_DISABLE_1M_CONTEXT", "1");
        assert_eq!(catalogue(short.clone()).facts("opus").context_window, 200_000);
        let chosen = catalogue(short.with("CLAUDE_CODE_MAX_CONTEXT_TOKENS", "300_000"));
        assert_eq!(chosen.facts("opus").context_window, 300_000);
        assert_eq!(chosen.facts("llama-9").context_window, 300_000);
    }

    #[test]
    fn slips_are_told_not_overlooked() {
        let negative = r#"{"opus": {"price": {"input": 1, "output": -2}}}"#;
        for wrong in [negative, "opus", "[]", r#"{"opus": {"contxt": 1}}"#, r#"{"opus": {"context": "many"}}"#] {
            assert!(CatalogueOverrides::from_env(&Env::default().with("GIMLET_MODELS", wrong)).is_err(), "{wrong}");
        }
    }
}
