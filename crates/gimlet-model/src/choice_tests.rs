use gimlet_proto::Env;

use super::*;
use crate::providers::PROVIDERS;

/// The names of a server at an address of the user's own.
fn directory() -> ModelDirectory {
    ModelDirectory::from_env(PROVIDERS, PROVIDERS[0], false, &Env::default()).unwrap()
}

fn only(names: &[&str]) -> ModelChoices {
    let available = Some(names.iter().map(|name| (*name).to_owned()).collect());
    ModelChoices { available, ..ModelChoices::default() }
}

#[test]
fn a_list_of_models_permits_ids_aliases_and_whole_families() {
    let catalogue = directory();
    for (list, wish, permitted) in [
        (&["sonnet"][..], "sonnet", true),
        (&["sonnet"], "claude-sonnet-5-5", true),
        (&["sonnet"], "claude-sonnet-4-5-20250929", true),
        (&["sonnet"], "Sonnet[1m]", true),
        (&["sonnet"], "opus", false),
        (&["sonnet"], "claude-opus-5-5", false),
        (&["sonnet"], "sonnet-like-other", false),
        (&["claude-sonnet-4-5"], "claude-sonnet-4-5-20250929", true),
        (&["claude-sonnet-4-5"], "claude-sonnet-5-5", false),
        (&["claude-sonnet-4-5"], "sonnet", false),
        (&["claude-haiku-5-5"], "haiku", true),
        (&["local/llama"], "local/llama", true),
        (&["local/llama"], "local/llama-2", false),
        (&[], "sonnet", false),
        (&[], "default", true),
        (&["opus"], "default", true),
        (&["opus"], "best", true),
        (&["sonnet"], "best", false),
        (&["sonnet"], "opusplan", false),
        (&["sonnet", "opus"], "opusplan", true),
    ] {
        let found = only(list).model_for(&catalogue, Some(wish));
        assert_eq!(found.is_ok(), permitted, "{wish} of {list:?}: {found:?}");
    }
    let refused = only(&["sonnet", "haiku"]).model_for(&catalogue, Some("opus")).unwrap_err();
    assert_eq!(refused.to_string(), "the model 'opus' may not be used here: availableModels has only sonnet, haiku");
}

#[test]
fn an_enforced_list_is_where_the_default_comes_from() {
    let catalogue = directory();
    let enforced = ModelChoices { enforced: true, ..only(&["opus", "haiku"]) };
    assert_eq!(enforced.model_for(&catalogue, None).unwrap(), "opus");
    assert_eq!(only(&["opus"]).model_for(&catalogue, None).unwrap(), "default");
    let inside = ModelChoices { enforced: true, ..only(&["opus", "sonnet"]) };
    assert_eq!(inside.model_for(&catalogue, Some("default")).unwrap(), "default");
    let empty = ModelChoices { enforced: true, ..only(&[]) };
    assert_eq!(empty.model_for(&catalogue, None).unwrap(), "default");
}

#[test]
fn fallbacks_are_few_different_and_available() {
    let catalogue = directory();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let choices = |fallbacks: &[&str]| ModelChoices { fallbacks: names(fallbacks), ..ModelChoices::default() };
    let (kept, remarks) =
        choices(&["sonnet", " default ", "claude-sonnet-5-5", "haiku", "", "opus", "x"]).usable_fallbacks(&catalogue);
    assert_eq!(kept, names(&["sonnet", "haiku", "opus"]));
    assert_eq!(remarks.len(), 1, "{remarks:?}");
    let narrow = ModelChoices { fallbacks: names(&["opus", "haiku"]), ..only(&["haiku"]) };
    let (kept, remarks) = narrow.usable_fallbacks(&catalogue);
    assert_eq!(kept, names(&["haiku"]));
    assert!(remarks[0].contains("'opus'"), "{remarks:?}");
}
