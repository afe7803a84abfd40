//! The guide to adding a provider stays true: its code is the code that is compiled, tested and run here.

pub(crate) mod toy;
mod toy_lines;

const GUIDE: &str = include_str!("../../../../docs/adding-a-provider.md");
const FILES: [&str; 4] = [
    include_str!("toy.rs"),
    include_str!("toy_tests.rs"),
    include_str!("toy_lines.rs"),
    include_str!("toy_lines_tests.rs"),
];

#[test]
fn the_guide_shows_the_code_that_is_compiled_here() {
    let shown = rust_blocks(GUIDE);
    // The words between two blocks stand where blank lines are in the files, so those do not count.
    let mut shown = shown.lines().filter(|line| !line.trim().is_empty());
    for line in FILES.iter().flat_map(|file| file.lines()).filter(|line| !line.trim().is_empty()) {
        assert_eq!(shown.next(), Some(line), "docs/adding-a-provider.md (left) is not the code in tests/guide (right)");
    }
    assert_eq!(shown.next(), None, "docs/adding-a-provider.md shows code that is not in tests/guide");
}

#[test]
fn the_guides_new_row_stands_behind_the_last_one_of_the_table() {
    let table = include_str!("../../src/providers.rs");
    let rows = table.lines().find(|line| line.contains("static PROVIDERS")).expect("the table is one line");
    let (_, diff) = GUIDE.split_once("```diff\n").expect("the guide shows the row");
    let shown: Vec<&str> = diff.lines().take_while(|line| *line != "```").collect();
    assert_eq!(shown, [format!("-{rows}"), format!("+{}", rows.replace("];", ", &toy::TOY];"))]);
}

/// The text of every fenced `rust` block, in order.
fn rust_blocks(markdown: &str) -> String {
    let mut inside = false;
    let mut blocks = String::new();
    for line in markdown.lines() {
        match line {
            "```rust" => inside = true,
            "```" => inside = false,
            line if inside => {
                blocks.push_str(line);
                blocks.push('\n');
            }
            _ => {}
        }
    }
    blocks
}
