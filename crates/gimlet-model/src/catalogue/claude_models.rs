//! The Claude models. Prices in USD per million tokens, as published by the vendor.

use gimlet_proto::ModelPrice;

use super::{ModelProfile, OffSwitch, ProviderModels, ThinkingSupport};

pub(crate) static CLAUDE: ProviderModels = ProviderModels {
    brand: "claude",
    aliases: ALIASES,
    default: "sonnet",
    small: "haiku",
    best: "opus",
    variables: &[
        ("opus", "ANTHROPIC_DEFAULT_OPUS_MODEL"),
        ("sonnet", "ANTHROPIC_DEFAULT_SONNET_MODEL"),
        ("haiku", "ANTHROPIC_DEFAULT_HAIKU_MODEL"),
        ("fable", "ANTHROPIC_DEFAULT_FABLE_MODEL"),
        ("small", "ANTHROPIC_SMALL_FAST_MODEL"),
        ("default", "ANTHROPIC_DEFAULT_MODEL"),
    ],
    profiles: PROFILES,
    newer: UNKNOWN_CLAUDE,
    unknown: ModelProfile::UNKNOWN,
};

/// Profile of the vendor's ids that are newer than the table: they most likely work like the newest ones.
const UNKNOWN_CLAUDE: ModelProfile = ModelProfile {
    thinks: ThinkingSupport::Adaptive { off: OffSwitch::Never },
    hides_thinking: true,
    efforts: EVERY_EFFORT,
    finer_tokens: true,
    forced_choice: false,
    ..ModelProfile::UNKNOWN
};

/// Models that the family names stand for.
const ALIASES: &[(&str, &str)] = &[
    ("opus", "claude-opus-5-5"),
    ("sonnet", "claude-sonnet-5-5"),
    ("haiku", "claude-haiku-5-5"),
    ("fable", "claude-fable-5-1"),
];

const EVERY_EFFORT: &[&str] = &["low", "medium", "high", "xhigh", "max"];
const WITHOUT_XHIGH: &[&str] = &["low", "medium", "high", "max"];
const UP_TO_HIGH: &[&str] = &["low", "medium", "high"];

const fn price(input: f64, output: f64, write_5m: f64, write_1h: f64, read: f64) -> Option<ModelPrice> {
    Some(ModelPrice { input, output, write_5m, write_1h, read, above: None })
}

/// Profile of the fifth generation; the other rows state their differences.
const NEWEST: ModelProfile = ModelProfile {
    id: "",
    context_window: 1_000_000,
    max_output_tokens: 128_000,
    price: None,
    thinks: ThinkingSupport::Adaptive { off: OffSwitch::Never },
    takes_budget: false,
    hides_thinking: true,
    efforts: EVERY_EFFORT,
    finer_tokens: true,
    min_cache_tokens: 512,
    forced_choice: false,
    edits_unread: true,
};

const FIVE: ModelProfile = ModelProfile { forced_choice: true, ..NEWEST };

/// Profile of the last models before it, which already work like it.
const FOUR_EIGHT: ModelProfile =
    ModelProfile { thinks: ThinkingSupport::Adaptive { off: OffSwitch::Omit }, edits_unread: false, ..FIVE };

const FOUR_SIX: ModelProfile = ModelProfile {
    takes_budget: true,
    hides_thinking: false,
    efforts: WITHOUT_XHIGH,
    finer_tokens: false,
    ..FOUR_EIGHT
};

const FOUR_FIVE: ModelProfile = ModelProfile {
    context_window: 200_000,
    max_output_tokens: 64_000,
    thinks: ThinkingSupport::Manual { interleaved: true },
    hides_thinking: false,
    efforts: &[],
    finer_tokens: false,
    min_cache_tokens: 4096,
    ..FOUR_EIGHT
};

const PROFILES: &[ModelProfile] = &[
    // Its price for cache reads is not published, so its cost is unknown rather than wrong.
    ModelProfile { id: "claude-fable-5-2", ..NEWEST },
    ModelProfile { id: "claude-fable-5-1", price: price(10.0, 50.0, 12.5, 20.0, 0.25), ..NEWEST },
    ModelProfile { id: "claude-fable-5", price: price(10.0, 50.0, 12.5, 20.0, 1.0), ..FIVE },
    ModelProfile { id: "claude-opus-5-5", price: price(4.0, 20.0, 5.0, 8.0, 0.2), ..NEWEST },
    ModelProfile {
        id: "claude-opus-5",
        price: price(5.0, 25.0, 6.25, 10.0, 0.5),
        thinks: ThinkingSupport::Adaptive { off: OffSwitch::DisabledUpToHigh },
        ..FIVE
    },
    ModelProfile {
        id: "claude-opus-4-8",
        price: price(5.0, 25.0, 6.25, 10.0, 0.5),
        min_cache_tokens: 1024,
        ..FOUR_EIGHT
    },
    ModelProfile {
        id: "claude-opus-4-7",
        price: price(5.0, 25.0, 6.25, 10.0, 0.5),
        min_cache_tokens: 2048,
        ..FOUR_EIGHT
    },
    ModelProfile {
        id: "claude-opus-4-6",
        price: price(5.0, 25.0, 6.25, 10.0, 0.5),
        min_cache_tokens: 4096,
        ..FOUR_SIX
    },
    ModelProfile {
        id: "claude-opus-4-5-20251101",
        price: price(5.0, 25.0, 6.25, 10.0, 0.5),
        efforts: UP_TO_HIGH,
        ..FOUR_FIVE
    },
    ModelProfile {
        id: "claude-sonnet-5-5",
        price: price(2.0, 10.0, 2.5, 4.0, 0.1),
        thinks: ThinkingSupport::Adaptive { off: OffSwitch::BetweenTools },
        ..NEWEST
    },
    ModelProfile {
        id: "claude-sonnet-5",
        price: price(2.0, 10.0, 2.5, 4.0, 0.2),
        thinks: ThinkingSupport::Adaptive { off: OffSwitch::Disabled },
        min_cache_tokens: 1024,
        ..FIVE
    },
    ModelProfile {
        id: "claude-sonnet-4-6",
        price: price(3.0, 15.0, 3.75, 6.0, 0.3),
        min_cache_tokens: 1024,
        ..FOUR_SIX
    },
    ModelProfile {
        id: "claude-sonnet-4-5-20250929",
        price: price(3.0, 15.0, 3.75, 6.0, 0.3),
        min_cache_tokens: 1024,
        ..FOUR_FIVE
    },
    ModelProfile {
        id: "claude-haiku-5-5",
        price: Some(ModelPrice {
            input: 0.1,
            output: 0.5,
            write_5m: 0.125,
            write_1h: 0.2,
            read: 0.01,
            above: Some((100_000, [0.5, 2.5, 0.625, 1.0, 0.05])),
        }),
        thinks: ThinkingSupport::Adaptive { off: OffSwitch::DisabledUpToHigh },
        ..FIVE
    },
    ModelProfile {
        id: "claude-haiku-4-5-20251001",
        price: price(1.0, 5.0, 1.25, 2.0, 0.1),
        thinks: ThinkingSupport::Manual { interleaved: false },
        ..FOUR_FIVE
    },
];
