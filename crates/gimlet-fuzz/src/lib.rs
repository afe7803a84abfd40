//! Fuzz targets: each is a function that takes any bytes, drives one entry point that reads untrusted input, and
//! asserts its invariants.
//!
//! `fuzz/` runs these with cargo-fuzz; the tests of this crate run them over seeds and a fixed set of mutations.
//! Nothing here is part of the program. A target must not depend on earlier inputs and must not use private items: it
//! fuzzes only what untrusted bytes can reach.

mod input_fields;
mod json_tool_input;
mod jsonl_load;
mod path_match;
mod permission_corpus;
mod rule_parse;
mod scratch_folder;
mod settings_load;
mod shell_decide;
mod shell_parse;
mod sse_stream;

pub use json_tool_input::TARGET as JSON_TOOL_INPUT;
pub use jsonl_load::TARGET as JSONL_LOAD;
pub use path_match::TARGET as PATH_MATCH;
pub use rule_parse::TARGET as RULE_PARSE;
pub use settings_load::TARGET as SETTINGS_LOAD;
pub use shell_decide::TARGET as SHELL_DECIDE;
pub use shell_parse::TARGET as SHELL_PARSE;
pub use sse_stream::TARGET as SSE_STREAM;

/// Function under fuzzing, with its seeds.
#[derive(Clone, Copy)]
pub struct FuzzTarget {
    pub name: &'static str,
    /// Runs one input of any bytes; panics when an invariant does not hold.
    pub run: fn(&[u8]),
    /// Small inputs that reach much of the code.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Tokens that inputs are made of.
    pub words: &'static [&'static str],
}

/// Every target.
pub const TARGETS: [FuzzTarget; 8] =
    [JSON_TOOL_INPUT, JSONL_LOAD, PATH_MATCH, RULE_PARSE, SETTINGS_LOAD, SHELL_DECIDE, SHELL_PARSE, SSE_STREAM];
