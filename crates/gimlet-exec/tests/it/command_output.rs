//! What a command prints arrives whole, in order, within bounds, and without holding anybody up.

use std::time::{Duration, Instant};

use gimlet_exec::{BackgroundState, CaptureLimits, CommandEnd, ForegroundCommand, render_for_model};

use crate::common::{PATIENCE, TestSession, find_alive, unique_sleep_seconds, wait_until};

pub(crate) async fn both_streams_interleave_as_written() {
    let session = TestSession::new();
    let said = session.output_of("for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; done").await;
    let expected: Vec<String> = (1..10).flat_map(|i| [format!("out {i}"), format!("err {i}")]).collect();
    assert_eq!(said, expected.join("\n"));
}

pub(crate) async fn a_background_grandchild_does_not_hold_the_call() {
    let session = TestSession::new();
    let sleep = unique_sleep_seconds();
    let begun = Instant::now();
    assert_eq!(session.output_of(&format!("(sleep {sleep} &); echo done")).await, "done");
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    assert!(!find_alive(&sleep).is_empty(), "what the command left behind lives until the session ends");
}

pub(crate) async fn a_survivor_that_prints_is_neither_stopped_nor_killed() {
    let session = TestSession::new();
    session.run("(until [ -e go ]; do sleep 0.01; done; head -c 1000000 /dev/zero && touch survived) & echo").await;
    std::fs::write(session.path().join("go"), "").unwrap();
    let proof = session.path().join("survived");
    wait_until("a megabyte went into the pipe", || proof.exists()).await;
}

pub(crate) async fn a_timed_out_command_goes_on_in_the_background() {
    let session = TestSession::new();
    let fifo = session.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    let mut command = session.foreground("echo one; read -r word < fifo; echo $word; exit 2").await;
    while command.progress(5).last_lines != ["one"] {
        assert!(tokio::time::timeout(Duration::from_millis(20), command.finish()).await.is_err());
    }
    let background = command.into_background();
    let file = background.output_file().to_owned();
    assert_eq!(std::fs::read(&file).unwrap(), b"one\n", "the file has what came before at once");
    assert!(matches!(background.state(), BackgroundState::Running));
    tokio::task::spawn_blocking(move || std::fs::write(fifo, "two\n")).await.unwrap().unwrap();
    let finished = tokio::time::timeout(PATIENCE, background.wait()).await.unwrap().unwrap();
    assert!(matches!(finished.end, CommandEnd::Exited(exit) if exit.code == Some(2)));
    assert_eq!(std::fs::read(&file).unwrap(), b"one\ntwo\n");
    assert_eq!(background.progress(1).last_lines, ["two"]);
}

pub(crate) async fn a_background_command_can_be_killed() {
    let session = TestSession::new();
    let sleep = unique_sleep_seconds();
    let background = session.foreground(&format!("setsid sleep {sleep} & sleep {sleep}")).await.into_background();
    // Bash that is still about to wait for its child may look at the signal only afterwards.
    wait_until("both sleep", || find_alive(&format!("sleep\0{sleep}")).len() == 2).await;
    let finished = tokio::time::timeout(PATIENCE, background.kill(Duration::from_millis(200))).await.unwrap().unwrap();
    assert!(matches!(finished.end, CommandEnd::Killed(Some(exit)) if exit.signal == Some(15)), "{:?}", finished.end);
    assert_eq!(find_alive(&sleep), Vec::<i32>::new());
    assert!(background.kill(Duration::ZERO).await.is_some(), "a second kill finds it over");
}

pub(crate) async fn five_megabytes_stay_within_memory_bounds() {
    let session = TestSession::new();
    session.run("true").await;
    let before = resident_kilobytes();
    let finished = session.run("head -c 5000000 /dev/zero | tr '\\0' 'x'; echo; echo end").await;
    let growth = resident_kilobytes().saturating_sub(before);
    assert!(growth < 4096, "grew by {growth} kB");
    assert_eq!((finished.output.total_bytes, finished.output.total_lines), (5_000_005, 2));
    assert_eq!(finished.output.head.len(), 30_000);
    assert!(finished.output.tail.len() <= 32 * 1024 && finished.output.tail.ends_with(b"x\nend\n"));
    let file = std::fs::read(finished.output.file.unwrap()).unwrap();
    assert_eq!((file.len(), finished.output.file_bytes), (5_000_005, 5_000_005));
    assert!(file.ends_with(b"x\nend\n"));
}

fn resident_kilobytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    rss.trim().trim_end_matches(" kB").parse().unwrap()
}

pub(crate) async fn endless_output_is_ended_at_the_limit() {
    let session = TestSession::new();
    let limits = CaptureLimits { kill_bytes: 3_000_000, file_bytes: 1_000_000, ..session.limits() };
    let sleep = unique_sleep_seconds();
    let running = session.start(&format!("setsid sleep {sleep} & yes")).await.running;
    let mut command = ForegroundCommand::new(running, limits);
    let finished = tokio::time::timeout(PATIENCE, command.finish()).await.unwrap();
    assert!(matches!(finished.end, CommandEnd::OutputLimit { limit_bytes: 3_000_000 }), "{:?}", finished.end);
    assert_eq!(std::fs::metadata(finished.output.file.unwrap()).unwrap().len(), 1_000_000);
    assert_eq!(find_alive(&sleep), Vec::<i32>::new());
}

pub(crate) async fn bytes_that_are_no_text_are_kept_raw() {
    let session = TestSession::new();
    let finished = session.run(r"printf 'a\377\376b\n\303'; sleep 0.01; printf '\251\0'").await;
    assert_eq!(finished.output.head, b"a\xff\xfeb\n\xc3\xa9\0");
    assert_eq!(render_for_model(&finished.output.head), "a\u{fffd}\u{fffd}b\né");
}

pub(crate) async fn redirecting_to_dev_stderr_does_not_truncate() {
    let session = TestSession::new();
    assert_eq!(
        session.output_of("echo one; echo two > /dev/stderr; echo three > /dev/stdout").await,
        "one\ntwo\nthree"
    );
}

pub(crate) async fn progress_shows_the_last_lines_while_running() {
    let session = TestSession::new();
    let sleep = unique_sleep_seconds();
    let mut command = session.foreground(&format!("seq 1 1000; printf 1000; sleep {sleep}")).await;
    while command.progress(0).total_bytes < 3897 {
        assert!(tokio::time::timeout(Duration::from_millis(20), command.finish()).await.is_err());
    }
    let progress = command.progress(3);
    assert_eq!((progress.total_lines, progress.total_bytes), (1001, 3897));
    assert_eq!(progress.last_lines, ["999", "1000", "1000"]);
}

pub(crate) async fn a_background_file_is_cut_when_its_command_is_over_or_dropped() {
    const MEBIBYTE: u64 = 1024 * 1024;
    let session = TestSession::new();
    let size = |file: &std::path::Path| std::fs::metadata(file).unwrap().len();
    let finite = session.foreground("head -c 70000000 /dev/zero").await.into_background();
    let finished = tokio::time::timeout(PATIENCE, finite.wait()).await.unwrap().unwrap();
    let left = size(finite.output_file());
    assert_eq!((finished.output.total_bytes, finished.output.file_bytes), (70_000_000, left));
    assert!(left > 64 * MEBIBYTE && left < 65 * MEBIBYTE, "{left}");
    let endless = session.foreground("head -c 70000000 /dev/zero; sleep 1000").await.into_background();
    let file = endless.output_file().to_owned();
    wait_until("all is written", || size(&file) > 69_000_000).await;
    drop(endless);
    wait_until("the file is cut", || size(&file) < 65 * MEBIBYTE).await;
}
