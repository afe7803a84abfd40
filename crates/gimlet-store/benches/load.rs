//! How long a large transcript takes to load: 100 MB in 20,000 entries, of which the last megabyte is live.

#![allow(clippy::expect_used, reason = "a benchmark that cannot set up its file has nothing to measure")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use gimlet_store::{LoadOptions, load_conversation};

fn main() {
    divan::main();
}

fn uuid(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

fn write_transcript(path: &PathBuf, entries: usize, entry_bytes: usize, boundary_at: Option<usize>) {
    let mut out = BufWriter::new(File::create(path).expect("the temporary directory is writable"));
    let filler = r#"let x = \"quoted\";\n    // some ordinary source text, tabs\tand all\n"#.repeat(entry_bytes / 70);
    for number in 0..entries {
        let boundary = boundary_at == Some(number);
        let parent = if number == 0 || boundary { "null".to_owned() } else { format!("\"{}\"", uuid(number - 1)) };
        let head = format!(
            r#"{{"parentUuid":{parent},"isSidechain":false,"userType":"external","cwd":"/w","sessionId":"s","version":"2.1.325","gitBranch":"main""#
        );
        let foot = format!(r#""uuid":"{}","timestamp":"2026-01-02T03:04:05.678Z"}}"#, uuid(number));
        let body = if boundary {
            r#""type":"system","subtype":"compact_boundary","content":"Conversation compacted""#.to_owned()
        } else if number % 2 == 0 {
            format!(r#""type":"user","message":{{"role":"user","content":[{{"type":"text","text":"{filler}"}}]}}"#)
        } else {
            format!(
                r#""type":"assistant","message":{{"id":"msg_{number}","type":"message","role":"assistant","model":"m","content":[{{"type":"text","text":"{filler}"}}],"stop_reason":null,"stop_sequence":null,"usage":{{}}}}"#
            )
        };
        writeln!(out, "{head},{body},{foot}").expect("the temporary directory has room");
    }
}

fn bench_file(bencher: divan::Bencher<'_, '_>, boundary_at: Option<usize>) {
    let temp = tempfile::tempdir().expect("a temporary directory can be made");
    let path = temp.path().join("big.jsonl");
    write_transcript(&path, 20_000, 5_000, boundary_at);
    bencher.bench_local(|| {
        load_conversation(&path, &LoadOptions::default()).expect("the file is readable").messages.len()
    });
}

#[divan::bench(sample_count = 10)]
fn hundred_megabytes_one_live(bencher: divan::Bencher<'_, '_>) {
    bench_file(bencher, Some(19_800));
}

#[divan::bench(sample_count = 5)]
fn hundred_megabytes_all_live(bencher: divan::Bencher<'_, '_>) {
    bench_file(bencher, None);
}
