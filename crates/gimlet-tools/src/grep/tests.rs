//! Grep as the pipeline calls it, in real directory trees.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gimlet_core::tool::{AnyTool, ErrorClass, PromptContext, Tool, ToolError};
use gimlet_proto::{Env, View};
use gimlet_testkit::wait_until;
use serde_json::{Value, json};

use super::Grep;
use crate::glob::Glob;
use crate::search_harness::{SearchCallResult, SearchTree};

async fn grep(tree: &SearchTree, input: Value) -> SearchCallResult {
    tree.call(Grep, input).await.unwrap()
}

async fn refused(tree: &SearchTree, input: Value) -> ToolError {
    tree.call(Grep, input).await.err().expect("refused")
}

/// The lines of content mode.
async fn lines(tree: &SearchTree, mut input: Value) -> Vec<String> {
    input["output_mode"] = json!("content");
    let found = grep(tree, input).await;
    found.output["content"].as_str().unwrap().lines().map(str::to_owned).collect()
}

/// The files of files_with_matches mode, sorted by name.
async fn files(tree: &SearchTree, input: Value) -> Vec<String> {
    let found = grep(tree, input).await;
    let mut names: Vec<String> = serde_json::from_value(found.output["filenames"].clone()).unwrap();
    names.sort();
    names
}

#[tokio::test]
async fn files_with_matches_come_newest_first() {
    let tree = SearchTree::new();
    tree.aged_file("old.txt", "needle", 30);
    tree.aged_file("new.txt", "needle", 10);
    tree.aged_file("sub/middle.txt", "x\nneedle\nneedle", 20);
    tree.file("other.txt", "hay");
    let found = grep(&tree, json!({"pattern": "needle"})).await;
    assert_eq!(
        found.output,
        json!({"mode": "files_with_matches", "numFiles": 3, "totalFiles": 3,
               "filenames": ["new.txt", "sub/middle.txt", "old.txt"]})
    );
    assert!(found.text.starts_with("new.txt\nsub/middle.txt\nold.txt\n"), "{}", found.text);
    assert!(matches!(found.view, View::Files { paths, .. } if paths.len() == 3));
}

#[tokio::test]
async fn content_is_sorted_by_path_and_numbered() {
    let tree = SearchTree::new();
    tree.file("b.txt", "one\nneedle 1\n");
    tree.file("a/c.txt", "needle 2");
    tree.file("a.txt", "x needle\ny\nneedle z\n");
    let found = grep(&tree, json!({"pattern": "needle", "output_mode": "content"})).await;
    let content = "a/c.txt:1:needle 2\na.txt:1:x needle\na.txt:3:needle z\nb.txt:2:needle 1";
    assert_eq!(
        found.output,
        json!({"mode": "content", "numFiles": 3, "filenames": [], "content": content,
               "numLines": 4, "totalFiles": 3, "totalLines": 4})
    );
    assert_eq!(found.text, content);
    assert!(matches!(found.view, View::Text(text) if text == content));
    assert_eq!(lines(&tree, json!({"pattern": "needle", "path": "b.txt", "-n": false})).await, ["b.txt:needle 1"]);
}

#[tokio::test]
async fn context_lines_look_as_rg_prints_them() {
    let tree = SearchTree::new();
    tree.file("a.txt", "1\n2\nhit\n4\n5\n6\n7\nhit\n-\n");
    tree.file("b.txt", "hit\n");
    let expected =
        ["a.txt-2-2", "a.txt:3:hit", "a.txt-4-4", "--", "a.txt-7-7", "a.txt:8:hit", "a.txt-9--", "--", "b.txt:1:hit"];
    assert_eq!(lines(&tree, json!({"pattern": "hit", "-C": "1"})).await, expected);
    assert_eq!(lines(&tree, json!({"pattern": "hit", "context": 1, "-A": 9, "-B": 9})).await, expected);
    let after = ["a.txt:3:hit", "a.txt-4-4", "--", "a.txt:8:hit", "a.txt-9--", "--", "b.txt:1:hit"];
    assert_eq!(lines(&tree, json!({"pattern": "hit", "-A": 1})).await, after);
    let page = json!({"pattern": "hit", "-C": 1, "offset": 6, "head_limit": 2});
    assert_eq!(lines(&tree, page).await, expected[6..8]);
    for limit in 1..=9 {
        let shown = lines(&tree, json!({"pattern": "hit", "-C": 1, "head_limit": limit})).await;
        assert_eq!(shown, expected[..limit]);
    }
    let unnumbered = lines(&tree, json!({"pattern": "hit", "-A": 1, "-n": false, "path": "a.txt"})).await;
    assert_eq!(unnumbered, ["a.txt:hit", "a.txt-4", "--", "a.txt:hit", "a.txt--"]);
}

#[tokio::test]
async fn pages_fit_together_and_totals_cover_everything() {
    let tree = SearchTree::new();
    for n in 0..40 {
        tree.file(format!("d{}/f{n:02}.txt", n % 3), "hit a\nmiss\nhit b\n");
    }
    let all = lines(&tree, json!({"pattern": "hit", "head_limit": 0})).await;
    assert_eq!(all.len(), 80);
    let mut paged = Vec::new();
    for offset in (0..80).step_by(7) {
        paged.extend(lines(&tree, json!({"pattern": "hit", "head_limit": 7, "offset": offset})).await);
    }
    assert_eq!(paged, all);

    let page = grep(&tree, json!({"pattern": "hit", "output_mode": "content", "head_limit": 7, "offset": 7})).await;
    assert_eq!((&page.output["numLines"], &page.output["totalLines"]), (&json!(7), &json!(80)));
    assert_eq!((&page.output["appliedLimit"], &page.output["appliedOffset"]), (&json!(7), &json!(7)));
    assert!(page.text.contains("Showing 8-14 of 80 lines in 40 files. For the next page set offset to 14"));

    let count = grep(&tree, json!({"pattern": "hit", "output_mode": "count", "head_limit": 2})).await;
    assert_eq!(count.output["content"], "d0/f00.txt:2\nd0/f03.txt:2");
    assert_eq!((&count.output["numFiles"], &count.output["numMatches"]), (&json!(40), &json!(80)));
    assert!(count.text.contains("40 files with 80 matches"), "{}", count.text);

    let page = grep(&tree, json!({"pattern": "hit", "head_limit": 5})).await;
    assert_eq!((&page.output["numFiles"], &page.output["totalFiles"]), (&json!(5), &json!(40)));
    assert_eq!(page.output["appliedLimit"], 5);
    assert!(page.text.contains("Showing 1-5 of 40 files"), "{}", page.text);
    let last = grep(&tree, json!({"pattern": "hit", "head_limit": 5, "offset": 38})).await;
    assert_eq!((&last.output["numFiles"], &last.output["appliedLimit"]), (&json!(2), &Value::Null));
}

#[tokio::test]
async fn an_offset_past_the_end_is_not_taken_for_no_match() {
    let tree = SearchTree::new();
    tree.file("a.txt", "hit\nhit\n");
    for mode in ["content", "count", "files_with_matches"] {
        let past = grep(&tree, json!({"pattern": "hit", "output_mode": mode, "offset": 5})).await;
        assert!(past.text.contains("No entries at offset 5"), "{}", past.text);
        let none = grep(&tree, json!({"pattern": "absent", "output_mode": mode, "offset": 5})).await;
        assert!(none.text.contains("No match for `absent`"), "{}", none.text);
    }
}

#[tokio::test]
async fn the_default_limit_is_250_and_zero_lifts_it() {
    let tree = SearchTree::new();
    tree.file("a.txt", "hit\n".repeat(300));
    assert_eq!(lines(&tree, json!({"pattern": "hit"})).await.len(), 250);
    assert_eq!(lines(&tree, json!({"pattern": "hit", "head_limit": 0})).await.len(), 300);
    assert!(refused(&tree, json!({"pattern": "hit", "head_limit": -1})).await.model_text.contains("at least 0"));
}

#[tokio::test]
async fn an_unlimited_result_is_cut_at_two_mebibytes_and_says_so() {
    let tree = SearchTree::new();
    for n in 0..6 {
        tree.file(format!("f{n}.txt"), format!("hit {}\n", "x".repeat(400)).repeat(2_000));
    }
    let found = grep(&tree, json!({"pattern": "hit", "output_mode": "content", "head_limit": 0})).await;
    let content = found.output["content"].as_str().unwrap();
    assert!(content.len() > 2_000_000 && content.len() < 5_000_000, "{}", content.len());
    assert_eq!(found.output["totalLines"], 12_000);
    assert!(
        found.text.contains("of 12000 lines in 6 files. One call collects 2 MiB"),
        "{}",
        &found.text[content.len()..]
    );
    let tiny = tree.file("tiny.txt", "a".repeat(3_000_000));
    let parts = json!({"pattern": "a", "output_mode": "content", "-o": true, "head_limit": 0, "path": tiny});
    let found = grep(&tree, parts).await;
    assert!(found.text.len() < 3_000_000 && found.output["totalLines"] == 3_000_000);
}

#[tokio::test]
async fn bad_patterns_give_the_engine_s_words_and_a_hint() {
    let tree = SearchTree::new();
    tree.file("a.go", "interface{} \n foo(\n");
    let error = refused(&tree, json!({"pattern": "foo("})).await;
    assert_eq!(error.class, ErrorClass::InputInvalid);
    assert!(error.model_text.contains("unclosed group") && error.model_text.contains("backslash"), "{error}");
    let error = refused(&tree, json!({"pattern": "a{2,1}"})).await;
    assert!(error.model_text.contains("repetition") && error.model_text.contains(r"`\{`"), "{error}");
    let error = refused(&tree, json!({"pattern": "a\\nb"})).await;
    assert!(error.model_text.contains("multiline"), "{error}");
    let error = refused(&tree, json!({"pattern": "(?<=a(b)"})).await;
    assert!(error.model_text.contains("not a valid regular expression"), "{error}");
    let error = refused(&tree, json!({"pattern": "a", "glob": "*.{rs"})).await;
    assert!(error.model_text.contains("`*.{rs`"), "{error}");
    let error = refused(&tree, json!({"pattern": "a", "type": "rs"})).await;
    assert!(error.model_text.contains("Did you mean: rust"), "{error}");
    assert!(refused(&tree, json!({"pattern": ""})).await.model_text.contains("Glob"));
    assert!(refused(&tree, json!({"pattern": "a", "path": "undefined"})).await.model_text.contains("leave `path` out"));
    for path in ["/proc/1/environ", "/proc", "/sys/../dev"] {
        let text = refused(&tree, json!({"pattern": "a", "path": path})).await.model_text;
        assert!(text.contains("device or kernel file"), "{path}: {text}");
    }
    let error = refused(&tree, json!({"pattern": "a", "path": "absent"})).await;
    assert!(error.model_text.contains("absent") && error.model_text.contains("working directory"), "{error}");
    assert!(refused(&tree, json!({"pattern": "a", "-x": 1})).await.model_text.contains("`-x`"));
}

#[tokio::test]
async fn look_around_and_backreferences_use_the_other_engine() {
    let tree = SearchTree::new();
    tree.file("a.txt", "foobar\r\nfoobaz\r\nabab\r\nÄrger ärger\r\n");
    assert_eq!(lines(&tree, json!({"pattern": "foo(?!bar)"})).await, ["a.txt:2:foobaz"]);
    assert_eq!(lines(&tree, json!({"pattern": "(?<=foo)ba.$", "-o": true})).await, ["a.txt:1:bar", "a.txt:2:baz"]);
    assert_eq!(lines(&tree, json!({"pattern": r"^(ab)\1$"})).await, ["a.txt:3:abab"]);
    assert_eq!(lines(&tree, json!({"pattern": r"(ä)rger \1rger", "-i": true})).await.len(), 1);
    let spanning = json!({"pattern": r"bar(?=\s+foo).*?baz", "multiline": true});
    assert_eq!(lines(&tree, spanning).await, ["a.txt:1:foobar", "a.txt:2:foobaz"]);
}

#[tokio::test]
async fn patterns_that_look_like_flags_are_patterns() {
    let tree = SearchTree::new();
    tree.file("a.txt", "run -v now\n--help\n");
    assert_eq!(lines(&tree, json!({"pattern": "-v"})).await, ["a.txt:1:run -v now"]);
    assert_eq!(lines(&tree, json!({"pattern": "--help"})).await, ["a.txt:2:--help"]);
}

#[tokio::test]
async fn ignore_files_are_obeyed_except_for_a_file_that_is_named() {
    let tree = SearchTree::new();
    tree.file(".git/config", "hit");
    tree.file(".gitignore", "*.log\nbuild/\n");
    tree.file("a.log", "hit");
    tree.file("build/x.txt", "hit");
    tree.file(".hidden/x.txt", "hit");
    tree.file("sub/.svn/x", "hit");
    tree.file("sub/keep.txt", "hit");
    let here = [".hidden/x.txt", "sub/keep.txt"];
    assert_eq!(files(&tree, json!({"pattern": "hit"})).await, here);
    assert_eq!(files(&tree, json!({"pattern": "hit", "glob": "**/*"})).await, here);
    assert_eq!(files(&tree, json!({"pattern": "hit", "path": "a.log"})).await, ["a.log"]);
    assert_eq!(files(&tree, json!({"pattern": "hit", "path": "build"})).await, ["build/x.txt"]);
}

#[tokio::test]
async fn globs_and_types_choose_files() {
    let tree = SearchTree::new();
    for path in ["a.ts", "b.tsx", "c.rs", "src/d.ts", "src/e.d.ts", "src/deep/f.ts"] {
        tree.file(path, "hit");
    }
    let with = async |extra: Value| {
        let mut input = json!({"pattern": "hit"});
        input.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        files(&tree, input).await
    };
    assert_eq!(with(json!({"glob": "*.{tsx,rs}"})).await, ["b.tsx", "c.rs"]);
    assert_eq!(with(json!({"glob": "*.rs, *.tsx"})).await, ["b.tsx", "c.rs"]);
    assert_eq!(with(json!({"glob": "*.ts !*.d.ts"})).await, ["a.ts", "src/d.ts", "src/deep/f.ts"]);
    assert_eq!(with(json!({"glob": "src/*.ts"})).await, ["src/d.ts", "src/e.d.ts"]);
    assert_eq!(with(json!({"glob": "src/*.ts", "path": "src"})).await, ["src/d.ts", "src/e.d.ts"]);
    assert_eq!(with(json!({"glob": "deep/*.ts", "path": "src"})).await, ["src/deep/f.ts"]);
    assert_eq!(with(json!({"type": "rust"})).await, ["c.rs"]);
    assert_eq!(with(json!({"type": "ts", "glob": "b*"})).await, ["b.tsx"]);
}

#[tokio::test]
async fn binary_files_are_searched_up_to_the_first_nul_unless_named() {
    let tree = SearchTree::new();
    tree.file("a.bin", b"hit one\n\0\nhit two\n");
    tree.file("b.bin", b"\x7fELF\0\0hit\n");
    let mut large = b"hit one\n".repeat(20_000);
    large.extend(b"\0\nhit two\n");
    tree.file("c.bin", large);
    let found = grep(&tree, json!({"pattern": "hit", "output_mode": "count"})).await;
    assert!(found.output["content"].as_str().unwrap().starts_with("a.bin:1\nc.bin:"), "{}", found.text);
    assert_eq!(files(&tree, json!({"pattern": "hit two"})).await, Vec::<String>::new());
    let named = grep(&tree, json!({"pattern": "hit two", "path": "a.bin", "output_mode": "content"})).await;
    assert!(named.output["content"].as_str().unwrap().ends_with("hit two"), "{}", named.text);
    assert!(named.text.contains("binary file (NUL byte at offset 8)"), "{}", named.text);
}

#[tokio::test]
async fn line_ends_and_encodings_do_not_hide_matches() {
    let tree = SearchTree::new();
    tree.file("crlf.txt", "one end\r\ntwo\r\n");
    assert_eq!(lines(&tree, json!({"pattern": "end$"})).await, ["crlf.txt:1:one end"]);
    assert_eq!(lines(&tree, json!({"pattern": r"end\r$"})).await, ["crlf.txt:1:one end"]);
    let utf16: Vec<u8> = "\u{feff}wide hit\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    tree.file("wide.txt", utf16);
    assert_eq!(lines(&tree, json!({"pattern": "^wide hit"})).await, ["wide.txt:1:wide hit"]);
    tree.file("bom.txt", "\u{feff}marked\n");
    assert_eq!(lines(&tree, json!({"pattern": "^marked"})).await, ["bom.txt:1:marked"]);
    tree.file("latin.txt", b"caf\xe9 latin\n");
    assert_eq!(lines(&tree, json!({"pattern": "latin"})).await, ["latin.txt:1:caf\u{fffd} latin"]);
    tree.file(b"n\xe9.txt", "odd name\n");
    assert_eq!(lines(&tree, json!({"pattern": "odd name"})).await, ["n\u{fffd}.txt:1:odd name"]);
}

#[tokio::test]
async fn large_files_stream_and_long_lines_are_clipped_around_the_match() {
    let tree = SearchTree::new();
    let mut text = "filler line\n".repeat(50_000);
    text.push_str(&format!("{}needle{}\n", "a".repeat(100_000), "b".repeat(100_000)));
    tree.file("large.txt", text);
    let found = lines(&tree, json!({"pattern": "needle"})).await;
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("large.txt:50001:[99850 bytes cut] aaa"), "{}", &found[0][..60]);
    assert!(found[0].contains("aneedleb") && found[0].len() < 700);
}

#[tokio::test]
async fn multiline_patterns_span_lines_and_parts_are_shown_alone() {
    let tree = SearchTree::new();
    tree.file("a.rs", "fn a(\n    x: u8,\n) {}\nfn b() {}\n");
    assert_eq!(files(&tree, json!({"pattern": r"fn a\(.*\) \{"})).await, Vec::<String>::new());
    let spanning = lines(&tree, json!({"pattern": r"fn a\(.*?\) \{", "multiline": true})).await;
    assert_eq!(spanning, ["a.rs:1:fn a(", "a.rs:2:    x: u8,", "a.rs:3:) {}"]);
    let parts = lines(&tree, json!({"pattern": r"\(.*?\)", "multiline": true, "-o": true})).await;
    assert_eq!(parts, ["a.rs:1:(", "a.rs:2:    x: u8,", "a.rs:3:)", "a.rs:4:()"]);
    let parts = lines(&tree, json!({"pattern": r"u8,\n|x*", "multiline": true, "-o": true})).await;
    assert_eq!(parts, ["a.rs:2:x", "a.rs:2:u8,"]);
    let count = json!({"pattern": r"fn \w", "multiline": true, "output_mode": "count"});
    assert_eq!(grep(&tree, count).await.output["numMatches"], 2);
    let parts = lines(&tree, json!({"pattern": r"\w+\(", "-o": true})).await;
    assert_eq!(parts, ["a.rs:1:a(", "a.rs:4:b("]);
    assert_eq!(lines(&tree, json!({"pattern": "FN B", "-i": "true"})).await, ["a.rs:4:fn b() {}"]);
}

#[tokio::test]
async fn parameters_of_another_mode_are_ignored_with_a_note() {
    let tree = SearchTree::new();
    tree.file("a.txt", "hit\n");
    let found = grep(&tree, json!({"pattern": "hit", "-A": 2, "-o": true, "-n": true})).await;
    assert!(found.text.starts_with("a.txt\n"), "{}", found.text);
    assert!(found.text.contains("only for output_mode content: -A, -o."), "{}", found.text);
}

#[tokio::test]
async fn links_are_not_followed_and_odd_files_are_not_opened() {
    let tree = SearchTree::new();
    tree.file("d/a.txt", "hit");
    symlink("..", tree.root().join("d/loop")).unwrap();
    symlink("a.txt", tree.root().join("d/link.txt")).unwrap();
    let fifo = tree.root().join("d/pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    assert_eq!(files(&tree, json!({"pattern": "hit"})).await, ["d/a.txt"]);
    let error = refused(&tree, json!({"pattern": "hit", "path": "d/pipe"})).await;
    assert!(error.model_text.contains("neither a directory nor a regular file"), "{error}");
    assert_eq!(files(&tree, json!({"pattern": "hit", "path": "d/loop/d"})).await, ["d/loop/d/a.txt"]);
}

#[tokio::test]
async fn whoever_swaps_a_folder_for_a_link_shows_nothing_from_outside() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let (tree, outside) = (SearchTree::new(), tempfile::tempdir().unwrap());
    tree.file("d/f.txt", "needle inside\n");
    std::fs::write(outside.path().join("f.txt"), "needle canary\n").unwrap();
    symlink(outside.path(), tree.root().join("link")).unwrap();
    let (folder, link) = (tree.root().join("d"), tree.root().join("link"));
    let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let until = done.clone();
    let swapping = std::thread::spawn(move || {
        while !until.load(std::sync::atomic::Ordering::Relaxed) {
            renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE).unwrap();
        }
    });
    for _ in 0..500 {
        let found = grep(&tree, json!({"pattern": "needle", "output_mode": "content"})).await;
        assert!(!found.text.contains("canary"), "{}", found.text);
    }
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    swapping.join().unwrap();
}

#[tokio::test]
async fn what_could_not_be_searched_is_said() {
    let tree = SearchTree::new();
    tree.file("a.txt", "hit");
    // Longer than the memory that one file may take, and all one line.
    let long = std::fs::File::create(tree.root().join("long.txt")).unwrap();
    std::io::Write::write_all(&mut &long, &vec![b'x'; 40 * 1024 * 1024]).unwrap();
    let found = grep(&tree, json!({"pattern": "hit"})).await;
    assert!(found.text.starts_with("a.txt\n") && found.text.contains("could not be searched"), "{}", found.text);
    assert!(found.text.contains("long.txt"), "{}", found.text);
}

/// A file of zeros that takes far longer to search than any test may run, and no space.
fn endless(tree: &SearchTree) -> PathBuf {
    let path = tree.root().join("endless");
    std::fs::File::create(&path).unwrap().set_len(1 << 38).unwrap();
    path.canonicalize().unwrap()
}

/// Returns true if this process has the file open.
fn holds_open(file: &Path) -> bool {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    open.filter_map(|entry| std::fs::read_link(entry.path()).ok()).any(|target| target == file)
}

#[tokio::test]
async fn an_interrupt_ends_a_search_in_the_middle_of_a_file() {
    let tree = SearchTree::new();
    let file = endless(&tree);
    let call = tree.call(Grep, json!({"pattern": "hit", "path": "endless"}));
    let interrupt = async {
        wait_until("the file is being searched", || holds_open(&file)).await;
        tree.cancel.cancel();
        Instant::now()
    };
    let (result, interrupted_at) = tokio::join!(call, interrupt);
    assert!(interrupted_at.elapsed() < Duration::from_secs(5), "{:?}", interrupted_at.elapsed());
    assert_eq!(result.err().expect("interrupted").class, ErrorClass::Interrupted);
    // The runtime waits for its blocking threads when it is dropped: the test ends because the search really did.
}

#[tokio::test]
async fn a_timeout_is_an_error_that_names_it() {
    let tree = SearchTree::new().env("CLAUDE_CODE_GLOB_TIMEOUT_SECONDS", "1");
    drop(endless(&tree));
    let error = refused(&tree, json!({"pattern": "hit", "path": "endless"})).await;
    assert_eq!(error.class, ErrorClass::TimedOut);
    assert!(error.model_text.contains("within 1 s,") && error.model_text.contains("narrower path"), "{error}");
}

#[test]
fn schemas_and_prompts_are_small_and_strict() {
    let cx =
        PromptContext { env: Env::default(), tools: Vec::new(), background: false, sandbox: None, agents: Vec::new() };
    assert!(Tool::prompt(&Glob, &cx).len() <= 350 && Tool::prompt(&Grep, &cx).len() <= 700);
    let schema = AnyTool::schema(&Grep);
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["required"], json!(["pattern"]));
    let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    let expected = [
        "pattern",
        "path",
        "glob",
        "type",
        "output_mode",
        "-A",
        "-B",
        "-C",
        "context",
        "-n",
        "-i",
        "-o",
        "head_limit",
        "offset",
        "multiline",
    ];
    assert_eq!(names, expected);
    assert_eq!(schema["properties"]["head_limit"]["default"], 250);
    assert_eq!(schema["properties"]["output_mode"]["enum"], json!(["content", "files_with_matches", "count"]));
    for tool in [AnyTool::schema(&Glob), schema] {
        let fields = tool["properties"].as_object().unwrap();
        assert!(fields.values().all(|field| field["description"].is_string()), "{tool}");
    }
}

#[tokio::test]
async fn an_output_that_a_hook_wrote_is_told_like_our_own_if_it_has_the_form() {
    let tree = SearchTree::new();
    tree.file("a.txt", "needle\n");
    let raw = |json: &Value| serde_json::value::to_raw_value(json).unwrap();
    let found = grep(&tree, json!({"pattern": "needle", "output_mode": "content"})).await;
    assert_eq!(AnyTool::content_from_output(&Grep, &raw(&found.output)).unwrap().to_text(), found.text);
    let listed = tree.call(Glob, json!({"pattern": "*.txt"})).await.unwrap();
    assert_eq!(AnyTool::content_from_output(&Glob, &raw(&listed.output)).unwrap().to_text(), listed.text);
    assert!(AnyTool::content_from_output(&Grep, &raw(&listed.output)).is_none());
}
