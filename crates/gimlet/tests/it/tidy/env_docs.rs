//! `docs/environment.md` names every environment variable that the code names, and no other.

use std::collections::BTreeSet;

use super::source_tree::{SourceFile, SourceTree};

/// The calls that read a variable by its name.
const READERS: [&str; 5] = ["get(\"", "flag(\"", "integer(\"", "exact(\"", "is_off(\""];
/// Texts in capitals that are no variables.
const NOT_VARIABLES: [&str; 3] = ["INVALID_JSON", "CARGO_PKG_VERSION", "FILE_OR_JSON"];
/// Files with lists of variables that are judged or taken away, and never read.
const LISTS: [&str; 4] = [
    "crates/gimlet-config/src/forbidden_env.rs",
    "crates/gimlet-exec/src/sandbox/sandbox_env.rs",
    "crates/gimlet-policy/src/shell/command_parts.rs",
    "crates/gimlet-policy/src/shell/environment_names.rs",
];

#[test]
fn every_variable_is_documented_and_every_documented_one_exists() {
    let tree = SourceTree::read();
    let page = tree.file_text("docs/environment.md");
    let used: BTreeSet<String> =
        tree.rust_files().filter(|file| is_program_code(file)).flat_map(variable_names).collect();
    let missing: Vec<&String> = used.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/environment.md does not mention {missing:?}");

    let listed = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(name, _)| name);
    let gone: Vec<&str> = listed.filter(|name| !used.contains(*name) && !is_own_spelling(name, &used)).collect();
    assert!(gone.is_empty(), "docs/environment.md lists {gone:?}, which no code reads or sets");
}

/// The program's own code; what tests and their harness set is not part of the program.
fn is_program_code(file: &SourceFile) -> bool {
    file.path.contains("/src/")
        && !file.is_test()
        && !file.path.starts_with("crates/gimlet-testkit/")
        && !file.path.starts_with("crates/gimlet-fuzz/")
        && !LISTS.contains(&file.path.as_str())
}

/// A name with gimlet's prefix stands for the same name with the reference's.
fn is_own_spelling(name: &str, used: &BTreeSet<String>) -> bool {
    let Some(rest) = name.strip_prefix("GIMLET_") else { return false };
    ["CLAUDE_CODE_", "CLAUDE_", "ANTHROPIC_"].iter().any(|prefix| used.contains(&format!("{prefix}{rest}")))
}

/// The names in a file: whatever is given to a reader, and every text that looks like a variable's name.
fn variable_names(file: &SourceFile) -> BTreeSet<String> {
    // Unit tests stand at the end of a file; the variables that they make up are theirs.
    let code = file.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let is_name = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    };
    // Nothing but a name in quotes looks like a name between two quotes, whichever of them opens.
    let looks_like_one = code.split('"').filter(|text| is_name(text) && text.contains('_') && !text.ends_with('_'));
    let read = READERS.iter().flat_map(|reader| code.split(reader).skip(1)).filter_map(|rest| rest.split('"').next());
    let read = read.filter(|text| is_name(text));
    looks_like_one.chain(read).filter(|name| !NOT_VARIABLES.contains(name)).map(str::to_owned).collect()
}
