//! Many writers of one file.

use std::io::Write;

use gimlet_store::*;

use crate::support::*;

#[test]
fn eight_writers_and_the_session_never_mix_their_lines() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    append_prompt(&mut transcript, "first");
    let sizes = [1, 50, 700, 4_095, 4_097, 65_536, 1_000_000];
    let path = home.path();
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let path = &path;
            scope.spawn(move || {
                let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
                for round in 0..60 {
                    let size = if round == 30 { 1_000_000 } else { sizes[(writer + round) % 5] };
                    let line =
                        format!("{{\"type\":\"noise\",\"writer\":{writer},\"fill\":\"{}\"}}\n", "x".repeat(size));
                    assert_eq!(file.write(line.as_bytes()).unwrap(), line.len());
                }
            });
        }
        for round in 0..60 {
            append_prompt(&mut transcript, &format!("{round} {}", "y".repeat(sizes[round % 5])));
        }
    });
    // A writer that looks while another is in the middle of a line may put an empty line behind it, never more.
    let lines: Vec<String> = home.transcript_lines().into_iter().filter(|line| !line.is_empty()).collect();
    assert!(lines.iter().all(|line| serde_json::from_str::<serde::de::IgnoredAny>(line).is_ok()));
    assert_eq!(lines.iter().filter(|line| line.starts_with("{\"type\":\"noise\"")).count(), 480);
    let loaded = home.load();
    assert!(loaded.damage.is_empty(), "{:?}", loaded.damage);
    assert_eq!(loaded.messages[0].blocks.len(), 61);
    assert_eq!(loaded.unknown_entries, 480);
}

/// Two runs may be told to begin a session under the same id.
#[test]
fn a_session_that_somebody_else_began_first_is_theirs() {
    let home = StoreFixture::new();
    let (mut first, mut second) = (home.create(), home.create());
    append_prompt(&mut first, "mine");
    append_prompt(&mut second, "late");
    assert!(matches!(second.take_error(), Some(TranscriptError::Busy { .. })));
    first.end_turn();
    drop(first);
    append_prompt(&mut second, "later");
    assert!(!second.is_complete());
    let (loaded, mut first) = home.resume();
    append_prompt(&mut first, "more");
    assert_eq!((loaded.messages.len(), loaded.messages[0].text().as_str()), (1, "mine"));
    assert!(home.transcript_lines().iter().all(|line| !line.contains("late")));
}

#[test]
fn a_reader_beside_the_session_misses_at_most_the_line_being_written() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    append_prompt(&mut transcript, "first");
    std::thread::scope(|scope| {
        let path = home.path();
        let reader = scope.spawn(move || {
            let mut most = 0;
            while most < 200 {
                let loaded = load_conversation(&path, &LoadOptions::default()).unwrap();
                assert!(loaded.damage.items.iter().all(|damage| matches!(damage, Damage::TornTail { .. })));
                let seen = loaded.messages[0].blocks.len();
                assert!(seen >= most, "what was once seen stays");
                most = seen;
            }
        });
        for _ in 1..200 {
            append_prompt(&mut transcript, &"z".repeat(3_000));
        }
        reader.join().unwrap();
    });
}
