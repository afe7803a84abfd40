//! The guides to a hook event and a settings key follow an example of the tree. Each piece of code that they show stands
//! in the file that they name before it; tests of that example run with all others.

use std::path::Path;

const GUIDES: [(&str, usize); 2] = [("docs/adding-a-hook-event.md", 7), ("docs/adding-a-settings-key.md", 6)];

/// A piece of code with the file that was named last before it.
struct QuotedCode {
    file: String,
    code: String,
}

#[test]
fn guides_show_code_as_it_stands_in_the_named_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (guide, expected) in GUIDES {
        let text = std::fs::read_to_string(root.join(guide)).unwrap();
        let quotes = quoted_code(&text);
        assert_eq!(quotes.len(), expected, "{guide} shows another number of pieces");
        for QuotedCode { file, code } in quotes {
            let source = std::fs::read_to_string(root.join(&file)).unwrap();
            assert!(trimmed(&source).contains(&trimmed(&code)), "{guide}: {file} does not contain\n{code}");
        }
    }
}

#[test]
fn every_file_that_a_guide_quotes_is_among_those_to_touch() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (guide, _) in GUIDES {
        let text = std::fs::read_to_string(root.join(guide)).unwrap();
        let table: String = text.lines().filter(|line| line.starts_with('|')).collect();
        for QuotedCode { file, .. } in quoted_code(&text) {
            let is_call_site = file == "crates/gimlet-core/src/session/queries.rs";
            assert!(is_call_site || table.contains(&file), "{guide} quotes {file} and does not list it");
        }
    }
}

/// Returns the `rust` blocks of a guide.
fn quoted_code(text: &str) -> Vec<QuotedCode> {
    let (mut file, mut block): (String, Option<String>) = (String::new(), None);
    let mut all = Vec::new();
    for line in text.lines() {
        match (&mut block, line) {
            (None, "```rust") => block = Some(String::new()),
            (Some(code), "```") => {
                all.push(QuotedCode { file: file.clone(), code: std::mem::take(code) });
                block = None;
            }
            (Some(code), line) => {
                code.push_str(line);
                code.push('\n');
            }
            (None, line) => {
                let names = line.split('`').skip(1).step_by(2);
                if let Some(name) = names.filter(|name| name.starts_with("crates/")).last() {
                    name.clone_into(&mut file);
                }
            }
        }
    }
    all
}

/// Returns the lines without indentation and blank lines.
fn trimmed(code: &str) -> String {
    code.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}
