//! Every target over its seeds and a fixed set of mutations of them: what cargo-fuzz does for hours, in seconds and the
//! same each time.

mod mutator;

use std::panic::{AssertUnwindSafe, catch_unwind};

use gimlet_fuzz::FuzzTarget;
use mutator::InputMutator;

fn run_target(target: FuzzTarget, mutations: usize) {
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty(), "{} has no seeds", target.name);
    let mut mutator = InputMutator::new(&seeds, target.words);
    let mutated = std::iter::repeat_with(|| mutator.next_input()).take(mutations);
    for input in seeds.iter().cloned().chain(mutated) {
        if catch_unwind(AssertUnwindSafe(|| (target.run)(&input))).is_err() {
            panic!("{} does not hold for b\"{}\"", target.name, input.escape_ascii());
        }
    }
}

#[test]
fn streams_of_a_model_can_be_cut_and_broken_anywhere() {
    run_target(gimlet_fuzz::SSE_STREAM, 25_000);
}

#[test]
fn any_transcript_loads_and_can_go_on() {
    run_target(gimlet_fuzz::JSONL_LOAD, 4_000);
}

#[test]
fn any_settings_load_and_edits_keep_foreign_bytes() {
    run_target(gimlet_fuzz::SETTINGS_LOAD, 1_000);
}

#[test]
fn any_input_of_a_tool_is_prepared_or_refused() {
    run_target(gimlet_fuzz::JSON_TOOL_INPUT, 100_000);
}

#[test]
fn any_rule_is_parsed_or_named_in_an_error() {
    run_target(gimlet_fuzz::RULE_PARSE, 3_500);
}

#[test]
fn path_patterns_match_as_a_simple_matcher_does() {
    run_target(gimlet_fuzz::PATH_MATCH, 40_000);
}

#[test]
fn any_command_text_is_analysed() {
    run_target(gimlet_fuzz::SHELL_PARSE, 12_000);
}

#[test]
fn no_rule_bracket_or_quote_makes_a_command_freer() {
    run_target(gimlet_fuzz::SHELL_DECIDE, 1_500);
}

#[test]
fn every_target_can_be_run_by_the_fuzzer() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz");
    let manifest = std::fs::read_to_string(format!("{folder}/Cargo.toml")).unwrap();
    for target in gimlet_fuzz::TARGETS {
        let binary = std::fs::read_to_string(format!("{folder}/fuzz_targets/{}.rs", target.name)).unwrap();
        assert!(binary.contains(&format!("gimlet_fuzz::{}.run", target.name.to_ascii_uppercase())), "{}", target.name);
        assert!(manifest.contains(&format!("name = \"{}\"", target.name)), "{} is no binary", target.name);
    }
}
