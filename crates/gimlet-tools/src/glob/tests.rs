//! Glob as the pipeline calls it, in real directory trees.

use std::os::unix::fs::symlink;
use std::time::Duration;

use gimlet_core::tool::{ErrorClass, Tool};
use gimlet_proto::View;
use serde_json::json;

use super::{Glob, GlobInput, find_files};
use crate::search_harness::{SearchCallResult, SearchTree};

async fn glob(tree: &SearchTree, pattern: &str) -> SearchCallResult {
    tree.call(Glob, json!({"pattern": pattern})).await.unwrap()
}

async fn names(tree: &SearchTree, pattern: &str) -> Vec<String> {
    let found = glob(tree, pattern).await;
    let mut names: Vec<String> = serde_json::from_value(found.output["filenames"].clone()).unwrap();
    names.sort();
    names
}

#[tokio::test]
async fn the_hundred_newest_of_many_are_listed_with_the_total() {
    let tree = SearchTree::new();
    for n in 0..150u64 {
        tree.aged_file(&format!("d{}/f{n:03}.txt", n % 7), "", n);
    }
    let found = glob(&tree, "**/*.txt").await;
    let listed = found.output["filenames"].as_array().unwrap();
    assert_eq!(listed.len(), 100);
    assert_eq!((listed[0].as_str(), listed[99].as_str()), (Some("d0/f000.txt"), Some("d1/f099.txt")));
    assert_eq!(found.output["numFiles"], 100);
    assert_eq!(found.output["totalMatches"], 150);
    assert_eq!(found.output["truncated"], true);
    assert_eq!(found.output["countIsComplete"], true);
    assert!(found.output["durationMs"].is_u64());
    assert_eq!(found.output.as_object().unwrap().len(), 6);
    assert!(found.text.starts_with("d0/f000.txt\n"), "{}", found.text);
    assert!(found.text.contains("100 most recently changed of 150"), "{}", found.text);
    assert!(matches!(found.view, View::Files { paths, note: Some(_) } if paths.len() == 100));
}

#[tokio::test]
async fn equal_times_are_ordered_by_path() {
    let tree = SearchTree::new();
    let now = std::time::SystemTime::now();
    for name in ["b", "c/a", "a"] {
        let path = tree.file(name, "");
        std::fs::File::options().write(true).open(path).unwrap().set_modified(now).unwrap();
    }
    assert_eq!(glob(&tree, "**/*").await.text, "a\nb\nc/a");
}

#[tokio::test]
async fn a_search_that_runs_out_of_time_says_so_and_keeps_what_it_has() {
    let tree = SearchTree::new();
    for n in 0..5_000 {
        tree.file(format!("d{}/f{n}", n % 100), "");
    }
    let cx = tree.context(Glob::NAME);
    let input = GlobInput { pattern: "**/*".to_owned(), path: None };
    let output = find_files(input, &cx, Duration::ZERO).await.unwrap();
    assert!(!output.count_is_complete && output.truncated);
    assert!(output.total_matches < 5_000);
    let text = Glob.to_blocks(&output).to_text();
    assert!(text.contains("Stopped after 0 s") && !text.contains("No file"), "{text}");
}

#[tokio::test]
async fn the_glob_language_is_understood() {
    let tree = SearchTree::new();
    for path in ["a.rs", "b.ts", "src/c.rs", "src/deep/d.rs", "src/x1.js", "src/x2.js", "src/[y].js"] {
        tree.file(path, "");
    }
    assert_eq!(names(&tree, "*.rs").await, ["a.rs"]);
    assert_eq!(names(&tree, "**/*.rs").await, ["a.rs", "src/c.rs", "src/deep/d.rs"]);
    assert_eq!(names(&tree, "*.{rs,ts}").await, ["a.rs", "b.ts"]);
    assert_eq!(names(&tree, "src/x?.js").await, ["src/x1.js", "src/x2.js"]);
    assert_eq!(names(&tree, "src/x[2-9].js").await, ["src/x2.js"]);
    assert_eq!(names(&tree, r"src/\[y\].js").await, ["src/[y].js"]);
    assert_eq!(names(&tree, "./src/../src/c.rs").await, ["src/c.rs"]);
    assert_eq!(names(&tree, "src").await, Vec::<String>::new());
    let absolute = format!("{}/src/**/*.rs", tree.root().display());
    assert_eq!(names(&tree, &absolute).await, ["src/c.rs", "src/deep/d.rs"]);
    let inside = tree.call(Glob, json!({"pattern": "*.rs", "path": "src"})).await.unwrap();
    assert_eq!(inside.output["filenames"], json!(["src/c.rs"]));
}

#[tokio::test]
async fn hidden_and_ignored_files_are_listed_unless_the_environment_says_otherwise() {
    let write = |tree: &SearchTree| {
        tree.file(".gitignore", "*.log\n");
        tree.file(".git/config", "");
        tree.file("a.log", "");
        tree.file(".env", "");
        tree.file(".jj/x", "");
        tree.file("sub/.hg/x", "");
    };
    let tree = SearchTree::new();
    write(&tree);
    assert_eq!(names(&tree, "**/*").await, [".env", ".gitignore", "a.log"]);
    let tree = SearchTree::new().env("CLAUDE_CODE_GLOB_NO_IGNORE", "false").env("CLAUDE_CODE_GLOB_HIDDEN", "0");
    write(&tree);
    tree.file("b.txt", "");
    assert_eq!(names(&tree, "**/*").await, ["b.txt"]);
}

#[tokio::test]
async fn heavy_directories_are_entered_only_when_named() {
    let tree = SearchTree::new();
    tree.file("node_modules/a/index.js", "");
    tree.file("target/debug/index.js", "");
    tree.file("pkg/.venv/index.js", "");
    let none = glob(&tree, "**/*.js").await;
    assert!(none.text.contains("No file in") && none.text.contains("node_modules"), "{}", none.text);
    assert_eq!(names(&tree, "node_modules/**/*.js").await, ["node_modules/a/index.js"]);
    assert_eq!(names(&tree, "**/{target,x}/**/*.js").await, ["target/debug/index.js"]);
    let inside = tree.call(Glob, json!({"pattern": "**/*.js", "path": "pkg/.venv"})).await.unwrap();
    assert_eq!(inside.output["numFiles"], 1);
}

#[tokio::test]
async fn no_match_names_directory_and_pattern() {
    let tree = SearchTree::new();
    tree.file("src/a.rs", "");
    let found = glob(&tree, "*.rs").await;
    assert!(found.text.contains(&tree.root().display().to_string()) && found.text.contains("`*.rs`"), "{}", found.text);
    assert!(found.text.contains("`**/*.rs`"), "{}", found.text);
    assert_eq!((&found.output["numFiles"], &found.output["truncated"]), (&json!(0), &json!(false)));
    assert!(glob(&tree, "absent/**/*.rs").await.text.contains("absent"));
}

#[tokio::test]
async fn bad_inputs_are_refused_with_a_way_out() {
    let tree = SearchTree::new();
    tree.file("f", "");
    let refused = async |input| tree.call(Glob, input).await.err().expect("refused");
    for word in ["undefined", "null"] {
        let error = refused(json!({"pattern": "*", "path": word})).await;
        assert_eq!(error.class, ErrorClass::InputInvalid);
        assert!(error.model_text.contains("leave `path` out"), "{error}");
    }
    assert!(refused(json!({"pattern": "a\0b"})).await.model_text.contains("NUL"));
    assert!(refused(json!({"pattern": "*", "path": "a\0b"})).await.model_text.contains("NUL"));
    assert!(refused(json!({"pattern": "a{b"})).await.model_text.contains("a{b"));
    assert!(refused(json!({"pattern": ""})).await.model_text.contains("**/*"));
    assert!(refused(json!({"pattern": "*", "path": "absent"})).await.model_text.contains("absent"));
    assert!(refused(json!({"pattern": "*", "path": "f"})).await.model_text.contains("not a directory"));
    assert_eq!(tree.call(Glob, json!({"pattern": "*", "path": null})).await.unwrap().output["numFiles"], 1);
}

#[tokio::test]
async fn links_are_listed_when_they_lead_to_a_file_and_never_followed() {
    let tree = SearchTree::new();
    tree.file("d/a.txt", "");
    symlink("a.txt", tree.root().join("d/link.txt")).unwrap();
    symlink("nowhere", tree.root().join("d/dead.txt")).unwrap();
    symlink("..", tree.root().join("d/loop.txt")).unwrap();
    assert_eq!(names(&tree, "**/*.txt").await, ["d/a.txt", "d/link.txt"]);
    symlink("d", tree.root().join("e")).unwrap();
    let through_link = tree.call(Glob, json!({"pattern": "a.*", "path": "e"})).await.unwrap();
    assert_eq!(through_link.output["filenames"], json!(["e/a.txt"]));
}

#[tokio::test]
async fn names_that_are_no_utf8_are_listed() {
    let tree = SearchTree::new();
    tree.file(b"caf\xe9.txt", "");
    assert_eq!(names(&tree, "*.txt").await, ["caf\u{fffd}.txt"]);
}

#[tokio::test]
async fn a_cancelled_call_ends_as_interrupted() {
    let tree = SearchTree::new();
    tree.file("a", "");
    tree.cancel.cancel();
    let error = tree.call(Glob, json!({"pattern": "*"})).await.err().expect("interrupted");
    assert_eq!(error.class, ErrorClass::Interrupted);
}

#[test]
fn the_permission_asked_for_is_the_directory_that_is_searched() {
    use gimlet_core::tool::AnyTool;
    use gimlet_proto::AccessNeed;
    let cx = SearchTree::new().context(Glob::NAME);
    let prepared = AnyTool::prepare(&Glob, json!({"pattern": "/etc/ssl/**/*.pem", "path": "src"}), &cx.paths).unwrap();
    assert_eq!(prepared.needs, [AccessNeed::Read("/etc/ssl".into())]);
    assert!(prepared.read_only && prepared.concurrency_safe);
}
