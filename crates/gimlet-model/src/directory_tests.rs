use super::*;
use crate::catalogue::{CLAUDE, ModelProfile, ProviderModels};
use crate::providers::ProviderRow;
use crate::providers::anthropic::ANTHROPIC;

static OTHER_MODELS: ProviderModels = ProviderModels {
    brand: "other",
    aliases: &[("quick", "other-quick-2")],
    default: "other-large-2",
    small: "quick",
    profiles: &[ModelProfile { id: "other-large-2", context_window: 64_000, ..ModelProfile::UNKNOWN }],
    variables: &[],
    ..CLAUDE
};
static OTHER: ProviderRow = ProviderRow { name: "other", models: &OTHER_MODELS, ..ANTHROPIC };
static TABLE: &[&ProviderRow] = &[&ANTHROPIC, &OTHER];

fn directory(at_vendor: bool) -> ModelDirectory {
    ModelDirectory::from_env(TABLE, &ANTHROPIC, at_vendor, &Env::default()).unwrap()
}

#[test]
fn default_and_small_are_each_providers_own() {
    let directory = directory(true);
    for (name, id) in [
        ("default", "claude-sonnet-5-5"),
        ("small", "claude-haiku-5-5"),
        ("anthropic/small", "claude-haiku-5-5"),
        ("other/default", "other/other-large-2"),
        ("other/small", "other/other-quick-2"),
        ("other/quick", "other/other-quick-2"),
        ("Other/some-model", "other/some-model"),
        ("other/vendor/some-model", "other/vendor/some-model"),
    ] {
        assert_eq!(directory.facts(name).id, id, "{name}");
        assert_eq!(directory.facts(id).id, id, "an id stands for itself");
    }
    assert_eq!(directory.facts("other/default").context_window, 64_000);
    assert!(!directory.facts("other-large-2").known, "the main provider does not have it");
}

#[test]
fn a_prefix_of_no_provider_is_refused_at_the_vendors_own_host_and_part_of_the_id_elsewhere() {
    let error = directory(true).shortest_name("local/llama").unwrap_err();
    assert_eq!(
        error.to_string(),
        "'local/llama' asks for the provider 'local', which gimlet does not have; it has anthropic, other"
    );
    let profile = "arn:aws:bedrock:us-east-1:1:inference-profile/us.claude";
    assert_eq!(directory(true).shortest_name(profile).as_deref(), Ok(profile));
    for name in ["local/llama", "anthropic/claude-sonnet-5-5", "/x", "other/"] {
        assert_eq!(directory(false).shortest_name(name).as_deref(), Ok(name));
        assert_eq!(directory(false).resolve(name).provider, 0, "{name}");
    }
    assert_eq!(directory(true).shortest_name("anthropic/claude-x").as_deref(), Ok("claude-x"));
    assert_eq!(directory(false).resolve("other/x").provider, 1);
}

#[test]
fn an_entry_of_a_list_is_about_one_provider() {
    let directory = directory(true);
    for (entry, name, matches) in [
        ("sonnet", "claude-sonnet-4-5", true),
        ("sonnet", "other/claude-sonnet-4-5", false),
        ("other/quick", "other/other-quick-2", true),
        ("other/quick", "other/small", true),
        ("quick", "other/small", false),
        ("other/other-large-2", "other-large-2", false),
    ] {
        assert_eq!(directory.matches(entry, name), matches, "{entry} {name}");
    }
}
