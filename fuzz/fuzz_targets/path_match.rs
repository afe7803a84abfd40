//! Gives the fuzzer's bytes to the target of the same name; what it does and what must hold stands there.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (gimlet_fuzz::PATH_MATCH.run)(data));
