//! The house rules that a compiler cannot hold: who may use whom, what a file looks like, that no list is incomplete.
//!
//! Everything is read from the tree itself. A failure names the file and what to do about it.

mod env_docs;
mod source_tree;
mod type_names;

use std::collections::BTreeSet;

use source_tree::{DependencyLine, SourceFile, SourceTree};

/// Which of our crates each crate may use in its `[dependencies]`. What a crate needs for its tests is its own affair.
const EDGES: &[(&str, &[&str])] = &[
    ("gimlet-text", &[]),
    ("gimlet-fs", &[]),
    ("gimlet-git", &["fs"]),
    ("gimlet-proto", &["text"]),
    ("gimlet-policy", &["text", "fs", "proto"]),
    ("gimlet-config", &["text", "fs", "git", "proto"]),
    ("gimlet-store", &["text", "fs", "git", "proto"]),
    ("gimlet-exec", &["text", "fs", "git", "proto"]),
    ("gimlet-http", &["text", "proto"]),
    ("gimlet-media", &["text"]),
    ("gimlet-model", &["text", "proto", "http"]),
    ("gimlet-script", &["text", "proto"]),
    ("gimlet-core", &["text", "fs", "git", "proto", "policy", "config", "store", "exec"]),
    ("gimlet-tools", &["text", "fs", "git", "proto", "policy", "config", "store", "exec", "core", "media"]),
    ("gimlet-mcp", &["text", "fs", "git", "proto", "policy", "config", "store", "exec", "http", "core"]),
    ("gimlet-hooks", &["text", "fs", "git", "proto", "policy", "config", "store", "exec", "http", "core"]),
    (
        "gimlet-app",
        &[
            "text", "fs", "git", "proto", "policy", "config", "store", "exec", "http", "model", "core", "tools",
            "hooks", "mcp", "media",
        ],
    ),
    ("gimlet-tui", &["text", "proto"]),
    ("gimlet-serve", &["text", "proto"]),
    ("gimlet-testkit", &["text", "proto", "script"]),
    ("gimlet-fuzz", &["text", "fs", "git", "proto", "policy", "config", "store", "model", "core", "tools"]),
    (
        "gimlet",
        &[
            "text", "fs", "git", "proto", "policy", "config", "store", "exec", "model", "script", "core", "tools",
            "hooks", "mcp", "tui", "serve", "app",
        ],
    ),
];

/// What the crate that everyone rebuilds with may bring along.
const PROTO_MAY_USE: &[&str] = &["futures-core", "gimlet-text", "serde", "serde_json", "tokio"];
const PROTO_MAX_LINES: usize = 4_600;

const FILE_MAX_LINES: usize = 1_000;
/// Files from here on are named beside a failure: they are next.
const FILE_LONG_LINES: usize = 700;

#[test]
fn crates_use_only_what_lies_below_them() {
    for manifest in SourceTree::read().manifests() {
        let Some((_, allowed)) = EDGES.iter().find(|(name, _)| *name == manifest.name) else {
            panic!("{} is new: say in EDGES what it may use", manifest.name);
        };
        for DependencyLine { name, .. } in manifest.dependencies("dependencies") {
            let Some(room) = name.strip_prefix("gimlet-") else { continue };
            assert!(allowed.contains(&room), "{} must not use {name}: dependencies point down", manifest.name);
        }
    }
}

#[test]
fn proto_stays_small_and_light() {
    let tree = SourceTree::read();
    let manifest = tree.manifests().into_iter().find(|manifest| manifest.name == "gimlet-proto").expect("proto");
    for DependencyLine { name, .. } in manifest.dependencies("dependencies") {
        assert!(PROTO_MAY_USE.contains(&name.as_str()), "gimlet-proto must not use {name}: every crate waits for it");
    }
    let lines: usize = tree
        .rust_files()
        .filter(|file| file.path.starts_with("crates/gimlet-proto/src"))
        .map(|file| file.lines())
        .sum();
    assert!(lines < PROTO_MAX_LINES, "gimlet-proto has {lines} lines; move out what only one room speaks");
}

#[test]
fn versions_are_named_in_one_place() {
    for manifest in SourceTree::read().manifests() {
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for DependencyLine { name, line } in manifest.dependencies(kind) {
                let wanted = format!("{name}.workspace = true");
                assert!(
                    line == wanted,
                    "{}: `{line}` should be `{wanted}`, with version and features in [workspace.dependencies]",
                    manifest.name
                );
            }
        }
    }
}

#[test]
fn every_tool_is_in_the_table() {
    let tree = SourceTree::read();
    let table = tree.file_text("crates/gimlet-tools/src/builtin.rs");
    let files = tree.rust_files().filter(|file| file.path.starts_with("crates/gimlet-tools/src") && !file.is_test());
    for file in files {
        for line in file.text.lines() {
            let Some(name) = line.strip_prefix("impl Tool for ").and_then(|rest| rest.strip_suffix(" {")) else {
                continue;
            };
            assert!(table.contains(&format!("::{name},")), "{}: {name} is not in builtin.rs", file.path);
        }
    }
}

#[test]
fn no_integration_test_is_forgotten() {
    let tree = SourceTree::read();
    for file in tree.rust_files() {
        let Some((krate, name)) = file.path.strip_suffix(".rs").and_then(|path| path.split_once("/tests/it/")) else {
            continue;
        };
        if name == "main" || name.contains('/') {
            continue;
        }
        let main = tree.file_text(&format!("{krate}/tests/it/main.rs"));
        assert!(main.lines().any(|line| line == format!("mod {name};")), "{} is not a `mod` of main.rs", file.path);
    }
}

#[test]
fn files_can_be_read_in_one_sitting() {
    let tree = SourceTree::read();
    let longer = |limit: usize| -> Vec<String> {
        let files = tree.rust_files().filter(|file| file.lines() > limit);
        files.map(|file| format!("{} ({} lines)", file.path, file.lines())).collect()
    };
    let too_long = longer(FILE_MAX_LINES);
    assert!(
        too_long.is_empty(),
        "split into rooms with names: {}\nalso getting long: {}",
        too_long.join(", "),
        longer(FILE_LONG_LINES).join(", ")
    );
}

#[test]
fn every_source_file_says_what_it_is_for() {
    let silent: Vec<String> = SourceTree::read()
        .rust_files()
        .filter(|file| !file.is_test() && !file.text.starts_with("//!"))
        .map(|file| file.path.clone())
        .collect();
    assert!(silent.is_empty(), "these do not open with a `//!` paragraph: {}", silent.join(", "));
}

#[test]
fn documents_point_to_what_exists() {
    let tree = SourceTree::read();
    for page in tree.files().filter(|file| file.path.ends_with(".md") && !file.path.starts_with("crates/")) {
        let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let links = page.text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://") && !link.starts_with('#')) {
            let file = link.split('#').next().unwrap_or(link);
            assert!(tree.root().join(folder).join(file).exists(), "{} links to {link}", page.path);
        }
        // The guides to new tools, commands and providers name files that their readers make.
        let made = ["word_count", "where_command", "/toy"];
        let names = page.text.split('`').skip(1).step_by(2).filter(|name| name.starts_with("crates/"));
        for name in names.filter(|name| !made.iter().any(|made| name.contains(made))) {
            assert!(tree.root().join(name).exists(), "{} names {name}", page.path);
        }
    }
}

#[test]
fn nothing_is_left_for_later() {
    // Put together here, so that this file does not find itself.
    let marks = [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("#[", "ignore")];
    for file in SourceTree::read().rust_files() {
        for mark in marks {
            assert!(!file.text.contains(mark), "{} contains {mark}", file.path);
        }
    }
}

#[test]
fn the_tree_stands_on_its_own() {
    let tree = SourceTree::read();
    for manifest in tree.manifests().iter().map(|manifest| &manifest.text).chain([&tree.file_text("Cargo.toml")]) {
        for path in manifest.lines().filter_map(|line| line.split_once("path = \"")).map(|(_, path)| path) {
            let inside = !path.starts_with('/') && !path.starts_with("..");
            assert!(inside, "a path in a manifest leads out of the repository: {path}");
        }
    }
    let checkout = tree.root().display().to_string();
    for file in tree.files() {
        assert!(!file.text.contains(&checkout), "{} names the folder that it was written in", file.path);
    }
}

#[test]
fn packages_come_from_the_public_registry_and_no_mirror_is_named() {
    let tree = SourceTree::read();
    let sources: BTreeSet<String> =
        tree.file_text("Cargo.lock").lines().filter(|line| line.starts_with("source = ")).map(str::to_owned).collect();
    let public = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    assert_eq!(sources, BTreeSet::from([public.to_owned()]));
    // Put together here, so that this file does not find itself.
    let marks = [
        concat!("replace", "-with"),
        concat!("[source", "."),
        concat!("[registries", "."),
        concat!("sparse", "+http"),
        concat!("index-", "url"),
        concat!("art", "ifactory"),
        concat!("static.", "crates.io"),
        concat!("index.", "crates.io"),
        concat!("registry.", "npmjs"),
        concat!("pypi", ".org"),
    ];
    for file in tree.files() {
        let lower = file.text.to_lowercase();
        for mark in marks {
            assert!(!lower.contains(mark), "{} names a package registry or mirror ({mark})", file.path);
        }
    }
}

impl SourceFile {
    fn lines(&self) -> usize {
        self.text.lines().count()
    }

    /// Code that only runs in tests and benchmarks.
    fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        let folder = |name: &str| self.path.split('/').any(|part| part == name);
        name == "tests.rs" || name.ends_with("_tests.rs") || folder("tests") || folder("benches")
    }
}
