//! Tests of reading real files, whole and in part, and special files.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gimlet_core::files::{FileStates, hash_content};
use gimlet_core::tool::AnyTool;
use gimlet_proto::{ContentPart, Env};
use serde_json::json;

use super::*;
use crate::harness::{ToolBench, ToolCallResult, backdate};
use crate::sample_images::{png_image, sample_images};
use crate::text_file::read_state::{self, FileKnowledge, ReadState};

async fn read(bench: &mut ToolBench, name: &str) -> ToolCallResult {
    let path = bench.path(name);
    bench.call(&Read, json!({"file_path": path})).await.unwrap()
}

async fn range(bench: &mut ToolBench, name: &str, offset: u64, limit: u64) -> Result<ToolCallResult, ToolError> {
    let path = bench.path(name);
    bench.call(&Read, json!({"file_path": path, "offset": offset, "limit": limit})).await
}

async fn refusal(bench: &mut ToolBench, path: &Path) -> String {
    let call = bench.call(&Read, json!({"file_path": path}));
    tokio::time::timeout(Duration::from_secs(5), call).await.expect("a read must not block").unwrap_err().model_text
}

fn numbered(lines: u64) -> String {
    (1..=lines).map(|n| format!("line {n}\n")).collect()
}

#[test]
fn inputs_tell_what_they_need() {
    let bench = ToolBench::new();
    let home = bench.services().paths().home.unwrap();
    let examples = [
        (json!({"file_path": "/a/b.rs"}), PathBuf::from("/a/b.rs")),
        (json!({"file_path": "src/../b.rs", "limit": "5"}), bench.path("b.rs")),
        (json!({"path": "~/b.rs", "offset": null}), home.join("b.rs")),
    ];
    for (input, path) in examples {
        assert_eq!(bench.prepare(&Read, input).unwrap().0, [AccessNeed::Read(path)]);
    }
    let prepared = AnyTool::prepare(&Read, json!({"file_path": "/a"}), &bench.services().paths()).unwrap();
    assert!(prepared.read_only && prepared.concurrency_safe && !prepared.destructive);
}

#[tokio::test]
async fn unknown_fields_are_named_and_lenient_numbers_work() {
    let mut bench = ToolBench::new();
    bench.file("a.txt", numbered(12));
    let path = bench.path("a.txt");
    let wrong = bench.call(&Read, json!({"file_path": path, "offset": " +10 ", "foo": 1})).await.unwrap_err();
    assert!(wrong.model_text.contains("`foo`"), "{wrong}");
    let given = bench.call(&Read, json!({"file_path": path, "offset": " +10 "})).await.unwrap();
    assert_eq!(
        given.text,
        "10\tline 10\n11\tline 11\n12\tline 12\n\n[PARTIAL view: lines=10-12 total=12 reason=range]"
    );
}

#[tokio::test]
async fn a_small_file_comes_whole_with_numbers_and_the_public_shape() {
    let mut bench = ToolBench::new();
    let path = bench.file("a.rs", "fn main() {\n\n}\n");
    let given = read(&mut bench, "a.rs").await;
    assert_eq!(given.text, "1\tfn main() {\n2\t\n3\t}");
    assert_eq!(
        given.output,
        json!({"type":"text","file":{"filePath": path, "content":"fn main() {\n\n}\n","numLines":3,"startLine":1,"totalLines":3}})
    );
    assert_eq!(given.view, View::Files { paths: vec![path.display().to_string()], note: Some("3 lines".to_owned()) });
    assert!(bench.state.files.get(&path).unwrap().whole);
}

#[tokio::test]
async fn empty_and_past_the_end_are_told_and_are_no_errors() {
    let mut bench = ToolBench::new();
    bench.file("empty", "");
    bench.file("two", "a\nb");
    assert!(read(&mut bench, "empty").await.text.ends_with("exists and is empty."));
    let past = range(&mut bench, "two", 9, 3).await.unwrap();
    assert!(past.text.contains("has 2 lines; line 9 is past its end"), "{}", past.text);
    let edit = json!({"file_path": bench.path("two"), "old_string": "a", "new_string": "x"});
    let refused = bench.call(&crate::edit::Edit, edit).await.unwrap_err().model_text;
    assert!(refused.contains("has not been read"), "nothing was shown: {refused}");
    assert_eq!(range(&mut bench, "two", 0, 1).await.unwrap().text.lines().next(), Some("1\ta"));
}

#[tokio::test]
async fn an_empty_line_is_a_line() {
    let mut bench = ToolBench::new();
    bench.file("a", "x\n\ny\n");
    let given = range(&mut bench, "a", 2, 1).await.unwrap();
    assert_eq!(given.text, "2\t\n\n[PARTIAL view: lines=2-2 total=3 next_offset=3 reason=range]");
}

#[tokio::test]
async fn an_over_budget_file_comes_as_parts_with_its_first_page() {
    let mut bench = ToolBench::new();
    let content: String = (1..=9_000).map(|n| format!("{n:05} {}\n", "word ".repeat(6))).collect();
    let path = bench.file("big.txt", &content);
    let given = read(&mut bench, "big.txt").await;
    assert_eq!(given.output["type"], "parts");
    assert_eq!(given.output["file"]["originalSize"], content.len());
    assert_eq!(given.output["file"].as_object().unwrap().len(), 4);
    assert!(given.text.starts_with("1\t00001 word"));
    let notice = "[PARTIAL view: lines=1-2000 total=9000 next_offset=2001 reason=token_budget]";
    assert!(given.text.contains(notice), "{}", &given.text[given.text.len() - 400..]);
    let folder = PathBuf::from(given.output["file"]["outputDir"].as_str().unwrap());
    assert!(folder.starts_with(bench.results()) && given.text.contains(folder.to_str().unwrap()));
    let mut parts: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|part| part.unwrap().path()).collect();
    parts.sort();
    assert_eq!(given.output["file"]["count"], parts.len());
    let together: String = parts.iter().map(|part| std::fs::read_to_string(part).unwrap()).collect();
    assert_eq!(together, content);
    assert!(!bench.state.files.get(&path).unwrap().whole, "a first page is not the whole file");
    for part in &parts {
        let given = bench.call(&Read, json!({"file_path": part})).await.unwrap();
        assert_eq!(given.output["type"], "text", "each part can be read whole");
        assert!(!given.text.contains("PARTIAL"));
    }
    let again = read(&mut bench, "big.txt").await;
    assert_eq!(again.output["type"], "parts", "a first page is never answered with unchanged");
    assert_ne!(again.output["file"]["outputDir"], given.output["file"]["outputDir"], "nothing is overwritten");
}

#[tokio::test]
async fn a_named_range_comes_in_full_or_not_at_all() {
    let mut bench = ToolBench::new();
    bench.env = bench.env.clone().with("CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS", "100");
    bench.file("a.txt", numbered(500));
    let error = range(&mut bench, "a.txt", 10, 400).await.unwrap_err().model_text;
    assert!(error.contains("100 tokens") && error.contains("smaller `limit`"), "{error}");
    let fitting: u64 = error.split("tokens; ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert_eq!(range(&mut bench, "a.txt", 10, fitting).await.unwrap().output["file"]["numLines"], fitting);
    assert!(range(&mut bench, "a.txt", 10, fitting + 1).await.is_err());
}

#[tokio::test]
async fn json_and_east_asian_text_count_double() {
    let mut bench = ToolBench::new();
    bench.env = bench.env.clone().with("GIMLET_FILE_READ_MAX_OUTPUT_TOKENS", "1000");
    let line = "x".repeat(99) + "\n";
    for (name, lines, kind) in
        [("a.txt", 35, "text"), ("b.txt", 42, "parts"), ("c.json", 18, "text"), ("d.json", 30, "parts")]
    {
        bench.file(name, line.repeat(lines));
        assert_eq!(read(&mut bench, name).await.output["type"], kind, "{name}");
    }
    bench.file("cjk.txt", format!("{}\n", "漢".repeat(33)).repeat(25));
    assert_eq!(read(&mut bench, "cjk.txt").await.output["type"], "parts");
}

#[tokio::test]
async fn an_unchanged_file_is_not_sent_twice() {
    let mut bench = ToolBench::new();
    let path = bench.file("a.txt", "one\ntwo\n");
    read(&mut bench, "a.txt").await;
    let again = read(&mut bench, "a.txt").await;
    assert_eq!(again.output, json!({"type":"file_unchanged","file":{"filePath": path}}));
    assert_eq!(again.text.lines().count(), 1);
    assert_eq!(range(&mut bench, "a.txt", 2, 1).await.unwrap().output["type"], "text", "another view");
    assert_eq!(range(&mut bench, "a.txt", 2, 1).await.unwrap().output["type"], "file_unchanged");
}

#[tokio::test]
async fn what_the_model_cannot_have_seen_is_sent_again() {
    let mut bench = ToolBench::new();
    let path = bench.file("a.txt", "one\n");
    let time = path.metadata().unwrap().modified().unwrap();
    read(&mut bench, "a.txt").await;
    std::fs::write(&path, "two\n").unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    assert_eq!(read(&mut bench, "a.txt").await.text, "1\ttwo", "same time and size, other content");

    bench.state.files = FileStates::default();
    assert_eq!(read(&mut bench, "a.txt").await.text, "1\ttwo", "the earlier result is gone from the conversation");

    std::fs::write(&path, "two\n").unwrap();
    assert_eq!(read(&mut bench, "a.txt").await.text, "1\ttwo", "a file just written is always sent");
    assert_eq!(read(&mut bench, "a.txt").await.text, "1\ttwo", "and again while it is young");
    backdate(&path);
    read(&mut bench, "a.txt").await;
    assert_eq!(read(&mut bench, "a.txt").await.output["type"], "file_unchanged");
}

#[tokio::test]
async fn what_is_not_a_file_is_refused_without_blocking() {
    let mut bench = ToolBench::new();
    let fifo = bench.path("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(bench.path("socket")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", bench.path("zero")).unwrap();
    std::os::unix::fs::symlink("fifo", bench.path("to-fifo")).unwrap();
    assert!(refusal(&mut bench, &fifo).await.contains("a named pipe"));
    for name in ["socket", "zero", "to-fifo"] {
        let path = bench.path(name);
        assert!(refusal(&mut bench, &path).await.contains("only touch regular files"), "{name}");
    }
    for path in ["/dev/zero", "/dev/random", "/dev/stdin", "/proc/self/fd/0", "/proc/self/mem", "/dev/../dev/full"] {
        assert!(refusal(&mut bench, Path::new(path)).await.contains("device or kernel file"), "{path}");
    }
    let folder = bench.state.cwd.clone();
    assert!(refusal(&mut bench, &folder).await.contains("is a directory"));
}

#[tokio::test]
async fn a_link_that_appears_after_the_gate_looked_is_not_followed() {
    let bench = ToolBench::new();
    bench.file("secret", "s");
    std::os::unix::fs::symlink("secret", bench.path("link")).unwrap();
    let services = bench.services();
    // A context in which the gate took the link for a file.
    let cx = services.tool_context(
        "Read",
        gimlet_proto::ToolUseId::new("t"),
        Default::default(),
        bench.cancel.clone(),
        String::new(),
        vec![],
    );
    let input = serde_json::from_value(json!({"file_path": bench.path("link")})).unwrap();
    let Err(error) = Read.call(input, &cx).await else { panic!("the link was followed") };
    assert!(error.model_text.contains("symbolic link"), "{error}");
}

#[tokio::test]
async fn a_missing_file_names_the_working_directory_and_close_names() {
    let mut bench = ToolBench::new();
    bench.file("main.rs", "");
    bench.file("Makefile", "");
    let path = bench.path("mian.rs");
    let text = refusal(&mut bench, &path).await;
    assert!(text.contains("does not exist") && text.contains("/main.rs?"), "{text}");
    assert!(text.contains(bench.state.cwd.to_str().unwrap()));
    let path = bench.path("lost/main.rs");
    assert!(refusal(&mut bench, &path).await.contains("Did you mean"), "the same name where we are");
}

#[tokio::test]
async fn kinds_are_recognised_by_content() {
    let mut bench = ToolBench::new();
    bench.file("photo.txt", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    bench.file("blank.jpg", "");
    bench.file("paper", b"%PDF-1.7 ...");
    bench.file("data", b"abc\0def");
    for (name, parts) in [
        ("photo.txt", ["cannot be shown", "PNG image is damaged or cut off"]),
        ("blank.jpg", ["is empty", "no image"]),
        ("paper", ["PDF", "pdftotext"]),
        ("data", ["not text (7 bytes)", "xxd"]),
    ] {
        let path = bench.path(name);
        let text = refusal(&mut bench, &path).await;
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
    bench.file("page.png", "<html>\n");
    assert_eq!(read(&mut bench, "page.png").await.text, "1\t<html>");
    bench.file("drawing.svg", "<svg/>");
    assert_eq!(read(&mut bench, "drawing.svg").await.text, "1\t<svg/>");
    let path = bench.path("x.zip");
    assert!(refusal(&mut bench, &path).await.contains("binary file by its name"));
}

#[tokio::test]
async fn encodings_and_line_ends_are_understood_and_broken_text_is_told() {
    let mut bench = ToolBench::new();
    bench.file("dos", "a\r\nb\r\n");
    bench.file("marked", b"\xEF\xBB\xBFa\n");
    let wide: Vec<u8> =
        [0xFF, 0xFE].into_iter().chain("h\u{e9}\r\n\u{1F600}".encode_utf16().flat_map(u16::to_le_bytes)).collect();
    bench.file("wide", wide);
    bench.file("latin", b"caf\xE9\n");
    assert_eq!(read(&mut bench, "dos").await.text, "1\ta\n2\tb");
    assert_eq!(read(&mut bench, "marked").await.text, "1\ta");
    assert_eq!(read(&mut bench, "wide").await.text, "1\th\u{e9}\n2\t\u{1F600}");
    let latin = read(&mut bench, "latin").await.text;
    assert!(latin.starts_with("1\tcaf\u{FFFD}\n[Some bytes are not valid text"), "{latin}");
    assert!(!bench.state.files.get(&bench.path("latin")).unwrap().whole);
}

#[tokio::test]
async fn a_long_line_is_cut_and_told_and_leaves_the_file_editable_only() {
    let mut bench = ToolBench::new();
    let path = bench.file("a.js", format!("short\n{}\n", "é".repeat(30_000)));
    let given = read(&mut bench, "a.js").await;
    assert!(given.text.contains("[line cut: 2000 of 30000 characters]"));
    assert!(given.text.ends_with("[PARTIAL view: lines=1-2 total=2 reason=long_lines]"), "{}", &given.text[3900..]);
    let known = bench.state.files.get(&path).unwrap();
    assert!(!known.whole && known.views == [read_state::GLIMPSE]);
    assert_eq!(read(&mut bench, "a.js").await.output["type"], "text", "a cut view is never called unchanged");
}

#[tokio::test]
async fn a_range_of_a_large_file_is_streamed() {
    let mut bench = ToolBench::new();
    let path = bench.file("big.log", numbered(600_000));
    let given = range(&mut bench, "big.log", 599_999, 10).await.unwrap();
    assert!(given.text.starts_with(
        "599999\tline 599999\n600000\tline 600000\n\n[PARTIAL view: lines=599999-600000 total=600000 reason=range]"
    ));
    let stamp = bench.state.files.get(&path).unwrap().stamp;
    assert_eq!(stamp.hash, hash_content(&std::fs::read(&path).unwrap()), "the streamed hash is the file's");
    let whole = read(&mut bench, "big.log").await;
    assert_eq!(whole.output["type"], "parts");
}

#[tokio::test]
async fn a_file_that_is_not_stored_as_parts_says_why() {
    let mut bench = ToolBench::new();
    let line = format!("{}\n", "x".repeat(999));
    bench.file("big.log", line.repeat(9_000));
    let given = read(&mut bench, "big.log").await;
    assert_eq!(given.output["type"], "text");
    assert!(given.text.contains("next_offset=100 reason=token_budget]"), "{}", &given.text[given.text.len() - 400..]);
    let why = "[The file is not stored as parts: it has 9000000 bytes, more than 8 MiB. Go on with `offset`, or find \
               the place with Grep.]";
    assert!(given.text.ends_with(why), "{}", &given.text[given.text.len() - 400..]);
    assert!(!bench.results().exists());
}

#[tokio::test]
async fn a_sparse_terabyte_is_refused_at_once_and_an_interrupt_stops_a_scan() {
    let mut bench = ToolBench::new();
    let path = bench.path("sparse");
    File::create(&path).unwrap().set_len(1 << 40).unwrap();
    assert!(refusal(&mut bench, &path).await.contains("not text"));
    bench.file("long.txt", numbered(100_000));
    bench.cancel.cancel();
    let error = range(&mut bench, "long.txt", 1, 1).await.unwrap_err();
    assert_eq!(error.class, gimlet_core::tool::ErrorClass::Interrupted);
}

#[tokio::test]
async fn the_end_of_text_above_the_counted_size_is_left_open() {
    let mut bench = ToolBench::new();
    let path = bench.path("huge.txt");
    let mut head = "line\n".repeat(10_000).into_bytes();
    head.truncate(file_kind::HEAD + 100);
    std::fs::write(&path, head).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(300 << 20).unwrap();
    let given = range(&mut bench, "huge.txt", 1, 2).await.unwrap();
    assert!(given.text.starts_with("1\tline\n2\tline\n") && given.text.contains("+ next_offset=3"), "{}", given.text);
    assert!(bench.state.files.get(&path).is_none(), "what was not read to its end cannot be recognised later");
}

#[tokio::test]
async fn pages_of_a_text_file_are_refused() {
    let mut bench = ToolBench::new();
    let path = bench.file("a.txt", "x");
    let error = bench.call(&Read, json!({"file_path": path, "pages": "1"})).await.unwrap_err();
    assert!(error.model_text.contains("`offset` and `limit`"), "{error}");
}

#[test]
fn page_ranges_are_checked_before_anything_else() {
    for pages in ["3", "1-5", " 2 - 21 "] {
        assert!(check_pages(pages).is_ok(), "{pages}");
    }
    for pages in ["abc", "5-1", "0", "1-21", "-3", ""] {
        assert!(check_pages(pages).is_err(), "{pages}");
    }
}

#[test]
fn the_description_stays_short() {
    assert!(include_str!("../read.md").len() <= 900, "every request carries it");
}

#[tokio::test]
async fn an_output_that_a_hook_wrote_reads_like_our_own_and_nothing_else_does() {
    let mut bench = ToolBench::new();
    std::fs::write(bench.path("a"), numbered(3)).unwrap();
    let given = read(&mut bench, "a").await;
    let raw = |json: &serde_json::Value| serde_json::value::to_raw_value(json).unwrap();
    let content = AnyTool::content_from_output(&Read, &raw(&given.output)).expect("its own output has its form");
    assert_eq!(content.to_text(), given.text);
    for odd in [json!("text"), json!({"type": "text"}), json!({"type": "parts", "file": {}}), json!(null)] {
        assert!(AnyTool::content_from_output(&Read, &raw(&odd)).is_none(), "{odd}");
    }
}

#[tokio::test]
async fn a_default_page_is_told_like_every_cut_and_adds_up_to_the_whole() {
    let mut bench = ToolBench::new();
    bench.habits.default_lines = NonZeroU64::new(3);
    let path = bench.file("a.txt", numbered(7));
    let whole = |bench: &ToolBench| {
        FileKnowledge::for_file(&path, &context(bench)).read_state(&hash_content(numbered(7).as_bytes()), &numbered(7))
    };
    let first = read(&mut bench, "a.txt").await;
    assert!(
        first.text.ends_with("3\tline 3\n\n[PARTIAL view: lines=1-3 total=7 next_offset=4 reason=default_lines]"),
        "{}",
        first.text
    );
    assert_eq!(whole(&bench), ReadState::Parts);
    assert!(read(&mut bench, "a.txt").await.text.contains("unchanged"), "the same page again");
    let next = bench.call(&Read, json!({"file_path": path, "offset": 4})).await.unwrap();
    assert!(next.text.contains("lines=4-6 total=7 next_offset=7 reason=default_lines"), "{}", next.text);
    let last = bench.call(&Read, json!({"file_path": path, "offset": 7})).await.unwrap();
    assert!(last.text.ends_with("[PARTIAL view: lines=7-7 total=7 reason=range]"), "{}", last.text);
    assert_eq!(whole(&bench), ReadState::Whole);
    let asked = bench.call(&Read, json!({"file_path": path, "limit": 5})).await.unwrap();
    assert!(asked.text.contains("lines=1-5 total=7 next_offset=6 reason=range"), "{}", asked.text);
    bench.file("short.txt", numbered(3));
    assert_eq!(read(&mut bench, "short.txt").await.text, "1\tline 1\n2\tline 2\n3\tline 3");
}

#[tokio::test]
async fn a_default_page_that_does_not_fit_is_cut_by_the_budget_and_stored_in_parts() {
    let mut bench = ToolBench::new();
    bench.habits.default_lines = NonZeroU64::new(5_000);
    bench.env = Env::default().with("CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS", "100");
    bench.file("a.txt", numbered(9_000));
    let given = read(&mut bench, "a.txt").await;
    assert!(given.text.contains("reason=token_budget]") && given.text.contains("parts in"), "{}", given.text);
}

fn context(bench: &ToolBench) -> ToolContext {
    let (call, agent) = (gimlet_proto::ToolUseId::new("toolu_1"), gimlet_proto::AgentPath::default());
    bench.services().tool_context(Read::NAME, call, agent, bench.cancel.clone(), String::new(), Vec::new())
}

#[tokio::test]
async fn an_image_comes_as_one_with_its_sizes() {
    let mut bench = ToolBench::new();
    let small = png_image(40, 30);
    let path = bench.file("small.dat", &small);
    let given = read(&mut bench, "small.dat").await;
    assert_eq!(given.text, format!("{}: image, 40 × 30 pixels", path.display()));
    let file = json!({"base64": STANDARD.encode(&small), "type": "image/png", "originalSize": small.len(),
        "dimensions": {"originalWidth": 40, "originalHeight": 30, "displayWidth": 40, "displayHeight": 30}});
    assert_eq!(given.output, json!({"type": "image", "file": file}));
    let note = Some("image, 40 × 30 pixels".to_owned());
    assert_eq!(given.view, View::Files { paths: vec![path.display().to_string()], note });

    for (media_type, bytes) in sample_images(1_960, 20) {
        bench.file("large", &bytes);
        let given = read(&mut bench, "large").await;
        let said = "image, 1960 × 20 pixels, shown at 1568 × 16: multiply coordinates by 1.250";
        assert!(given.text.contains(said), "{media_type}: {}", given.text);
        assert_eq!(given.output["file"]["dimensions"]["displayWidth"], 1_568);
    }
    let path = bench.path("large");
    let pages = bench.call(&Read, json!({"file_path": path, "pages": "1"})).await.unwrap_err();
    assert!(pages.model_text.contains("`pages` is for PDFs"), "{pages}");
}

#[tokio::test]
async fn an_interrupt_ends_the_decoding_of_an_image() {
    let mut bench = ToolBench::new();
    bench.file("large.png", png_image(3_000, 2_000));
    bench.cancel.cancel();
    let path = bench.path("large.png");
    assert!(refusal(&mut bench, &path).await.contains("interrupted"));
}

#[tokio::test]
async fn a_notebook_comes_as_cells_with_outputs_and_images() {
    let mut bench = ToolBench::new();
    let image = STANDARD.encode(png_image(20, 10));
    let long = "long ".repeat(3_000);
    let book = json!({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [
        {"cell_type": "markdown", "id": "m", "metadata": {}, "source": ["# Title\n", "words\n"]},
        {"cell_type": "code", "id": "c", "metadata": {}, "execution_count": 2, "source": "plot()", "outputs": [
            {"output_type": "stream", "name": "stdout", "text": long},
            {"output_type": "display_data", "data": {"image/png": image, "text/plain": "<Figure>"}, "metadata": {}},
            {"output_type": "display_data", "data": {"image/png": "AAAA"}, "metadata": {}}]},
        {"cell_type": "raw", "id": "r", "metadata": {}, "source": []}]});
    let path = bench.file("b.ipynb", book.to_string());
    let result = bench.call_on(&bench.services(), &Read, json!({"file_path": path})).await.unwrap();
    let ResultContent::Parts(parts) = Read.to_blocks(&result.data) else { panic!("an image makes parts") };
    let [ContentPart::Text { text: before }, ContentPart::Image { source }, ContentPart::Text { text: after }] =
        parts.as_slice()
    else {
        panic!("{parts:?}")
    };
    assert_eq!(source.data(), image);
    let start = "<cell id=\"m\" type=\"markdown\">\n# Title\nwords\n</cell>\n\
        <cell id=\"c\" type=\"code\" language=\"python\" run=\"2\">\nplot()\n</cell>\n<output cell=\"c\" type=\"stream\">\n\
        (15000 characters are left out; see them with: jq '.cells[1].outputs[0]' ";
    assert!(before.starts_with(start), "{before}");
    assert!(before.ends_with("<output cell=\"c\" type=\"display_data\">\n<Figure>\n</output>"), "{before}");
    assert!(after.contains("An image was left out: it is neither PNG") && after.ends_with("</cell>"), "{after}");

    let given = read(&mut bench, "b.ipynb").await;
    let cells = &given.output["file"]["cells"];
    assert_eq!(cells[0], json!({"cellType": "markdown", "source": "# Title\nwords\n", "cell_id": "m"}));
    assert_eq!(cells[1]["outputs"][1]["image"], json!({"image_data": image, "media_type": "image/png"}));
    assert_eq!(
        given.view,
        View::Files { paths: vec![path.display().to_string()], note: Some("notebook, 3 cells".into()) }
    );
    assert!(bench.state.files.get(&path).unwrap().whole);
    assert!(!read(&mut bench, "b.ipynb").await.text.contains("unchanged"), "a notebook is shown again");
}

#[tokio::test]
async fn cells_are_paged_like_lines() {
    let mut bench = ToolBench::new();
    let cells: Vec<_> = (0..60)
        .map(|at| json!({"cell_type": "raw", "metadata": {}, "source": format!("{at}: {}", "x".repeat(4_000))}))
        .collect();
    let book = json!({"nbformat": 4, "nbformat_minor": 2, "metadata": {}, "cells": cells});
    let path = bench.file("b.ipynb", book.to_string());
    let first = read(&mut bench, "b.ipynb").await;
    let notice = "[PARTIAL view: cells=1-24 total=60 next_offset=25 reason=token_budget]";
    assert!(first.text.ends_with(notice), "{}", &first.text[first.text.len() - 200..]);
    assert!(!bench.state.files.get(&path).unwrap().whole);
    let rest = range(&mut bench, "b.ipynb", 59, 5).await.unwrap().text;
    assert!(rest.contains("<cell id=\"cell-59\" type=\"raw\">\n59: x") && !rest.contains("cell-57"), "{rest}");
    assert!(rest.ends_with("[PARTIAL view: cells=59-60 total=60 reason=range]"), "{rest}");
    assert!(range(&mut bench, "b.ipynb", 61, 1).await.unwrap().text.contains("cell 61 is past its end"));
    bench.file("broken.ipynb", "{\"cells\": [");
    let path = bench.path("broken.ipynb");
    assert!(refusal(&mut bench, &path).await.contains("cannot be shown as a notebook: it is not valid JSON"));
}
