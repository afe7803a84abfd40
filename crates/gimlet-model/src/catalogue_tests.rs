use super::*;

fn catalogue(env: &Env) -> ModelCatalogue {
    ModelCatalogue::new(&CLAUDE, env, CatalogueOverrides::from_env(env).unwrap())
}

#[test]
fn aliases_resolve_through_the_environment_and_then_the_table() {
    let plain = catalogue(&Env::default());
    assert_eq!(plain.facts("default").id, "claude-sonnet-5-5");
    assert_eq!(plain.facts("small").id, "claude-haiku-5-5");
    assert_eq!(plain.facts("Opus[1m]").id, "claude-opus-5-5");
    assert_eq!(plain.facts("fable").id, "claude-fable-5-1");
    assert_eq!(plain.facts("best[1m]").id, "claude-opus-5-5");
    assert_eq!(plain.facts("opusplan").id, "claude-sonnet-5-5");
    let env = Env::default()
        .with("ANTHROPIC_DEFAULT_SONNET_MODEL", "gateway/claude-sonnet-5[1m]")
        .with("ANTHROPIC_DEFAULT_OPUS_MODEL", "opus");
    let chosen = catalogue(&env);
    assert_eq!(chosen.facts("sonnet").id, "gateway/claude-sonnet-5");
    assert_eq!(chosen.facts("default").id, "gateway/claude-sonnet-5");
    assert_eq!(chosen.facts("opus").id, "claude-opus-5-5");
    assert_eq!(catalogue(&env.with("ANTHROPIC_DEFAULT_MODEL", "claude-x")).facts("default").id, "claude-x");
}

#[test]
fn dates_prefixes_and_versions_find_the_same_row_and_ids_are_sent_as_given() {
    let catalogue = catalogue(&Env::default());
    for id in [
        "claude-sonnet-4-5",
        "claude-sonnet-4-5-20250929",
        "claude-sonnet-4-5-latest",
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "claude-sonnet-4-5@20250929",
        "claude-sonnet-4.5",
        "claude-sonnet-4.5-20250929",
        "anthropic/claude-sonnet-4.5",
    ] {
        let facts = catalogue.facts(id);
        assert_eq!((facts.id.as_str(), facts.known, facts.context_window), (id, true, 200_000));
    }
    assert_eq!(catalogue.facts("claude-opus-5").price.map(|price| price.input), Some(5.0));
    assert_eq!(catalogue.facts("claude-opus-5-5-20260901").price.map(|price| price.input), Some(4.0));
}

#[test]
fn unknown_ids_get_conservative_facts() {
    let catalogue = catalogue(&Env::default());
    let facts = catalogue.facts("llama-9");
    assert_eq!(
        (facts.context_window, facts.max_output_tokens, facts.price, facts.known),
        (200_000, 32_000, None, false)
    );
    assert_eq!(catalogue.resolve("llama-9").profile.thinks, ThinkingSupport::Unknown);
    assert!(matches!(catalogue.resolve("claude-saga-9").profile.thinks, ThinkingSupport::Adaptive { .. }));
}

#[test]
fn models_from_4_7_on_make_more_tokens_of_a_text() {
    let catalogue = catalogue(&Env::default());
    for (id, bytes) in [
        ("sonnet", 3.5),
        ("claude-opus-4-7", 3.5),
        ("claude-opus-4-6", 4.0),
        ("claude-sonnet-4-5", 4.0),
        ("llama", 4.0),
    ] {
        assert_eq!(catalogue.facts(id).bytes_per_token, bytes, "{id}");
    }
}

#[test]
fn mistyped_ids_have_neighbours() {
    assert_eq!(CLAUDE.nearest("claude-sonet-5-5")[0], "claude-sonnet-5-5");
    assert_eq!(CLAUDE.nearest("claude-opus-4.8")[0], "claude-opus-4-8");
    assert_eq!(CLAUDE.suggestions("claude-opus-4.8")[..2], ["claude-sonnet-5-5", "claude-opus-4-8"]);
}

#[test]
fn only_the_fifth_generation_and_whom_the_person_names_change_files_unread() {
    let careful = |catalogue: &ModelCatalogue| {
        let ids = CLAUDE.profiles.iter().map(|profile| profile.id).filter(|id| catalogue.facts(id).edits_unread);
        ids.collect::<Vec<_>>()
    };
    let plain = catalogue(&Env::default());
    assert!(careful(&plain).iter().all(|id| id.contains("-5")) && careful(&plain).len() == 8, "{:?}", careful(&plain));
    assert!(!careful(&plain).iter().any(|id| id.contains("-4-")));
    assert!(!plain.facts("claude-saga-9").edits_unread && !plain.facts("llama-9").edits_unread);
    let env = Env::default().with("GIMLET_MODELS", r#"{"llama-*": {"edits_unread": true}}"#);
    assert!(catalogue(&env).facts("llama-9").edits_unread);
}
