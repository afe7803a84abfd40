//! Servers that fall silent, and servers that are merely slow.

use gimlet_script::{At, Chunk, Fault, Script, Wire};

use super::{Row, play, reads, row, then_done};

fn stall(at: At) -> Fault {
    Fault::Stall { at, ping_every_ms: None, for_ms: None }
}

/// Watches the server more closely than any person may choose to.
fn watched(row: Row) -> Row {
    row.env("GIMLET_TEST_LEAST_TIMEOUT_MS", "1")
        .env("API_TIMEOUT_MS", "400")
        .env("CLAUDE_STREAM_IDLE_TIMEOUT_MS", "400")
}

#[tokio::test]
async fn silence_is_a_cut() {
    let places = [
        ("before the headers", At::BeforeHeaders),
        ("after the headers", At::AfterHeaders),
        ("inside message_start", At::MidMessageStart),
        ("inside a text", At::MidText),
        ("inside an event", At::MidDelta),
    ];
    let mut rows: Vec<Row> = places
        .into_iter()
        .map(|(name, at)| row(name, then_done(Script::new().say("lost words").fault(stall(at)))).retried(1))
        .collect();
    let history = "u:text+text a:text+call u:result a:text u:text";
    rows.extend([
        row("after a text", reads(Script::new().say("First.")).fault(stall(At::BetweenBlocks)))
            .answers("First.")
            .notice("the reply was cut (the server fell silent"),
        row("after a call", then_done(reads(Script::new().say("Looking.")).fault(stall(At::AfterTool))))
            .requests(2)
            .notice("the reply was cut")
            .history(history),
        row("after thinking", then_done(Script::new().think("hm").say("lost words").fault(stall(At::MidText))))
            .retried(1),
        row("after the stop reason", Script::new().say("done").fault(stall(At::AfterStopReason))),
        row("after the end", Script::new().say("done").fault(stall(At::AfterMessageStop))),
        row("for ever", Script::new().say("lost words").fault(stall(At::AfterHeaders)).forever())
            .env("GIMLET_MAX_RETRIES", "1")
            .retried(1)
            .fails("the server fell silent"),
    ]);
    play(rows.into_iter().map(|row| watched(row).lacks("lost words")).collect()).await;
}

#[tokio::test]
async fn whoever_reads_text_is_told_that_the_model_is_waited_for() {
    let world = crate::world();
    let model = Script::new().say("done").delay_ms(1_200).serve().await.unwrap();
    let run = world.run(&model).print("go").env("GIMLET_TEST_LEAST_TIMEOUT_MS", "1").env("GIMLET_WAITING_MS", "700");
    let run = run.finish().await;
    assert_eq!((run.code, run.stdout.as_str()), (0, "done\n"));
    assert_eq!(run.stderr, "gimlet: still waiting for the model (0 s without a word)\n");
}

/// The processor time of the run with this argument so far, in milliseconds.
fn processor_ms(argument: &str) -> u64 {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    let times = processes.filter_map(|process| {
        let command = std::fs::read(process.join("cmdline")).ok()?;
        command.split(|byte| *byte == 0).find(|word| *word == argument.as_bytes())?;
        let stat = std::fs::read_to_string(process.join("stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
    });
    // The kernel counts in hundredths of a second.
    times.max().expect("the run that asks is under way") * 10
}

#[tokio::test]
async fn a_slow_drip_takes_hardly_any_work() {
    const SESSION: &str = "0b7c2a54-86f1-4b0c-8a5e-5d1f7a3e9c42";
    let wire = Wire { chunk: Chunk::Bytes(1), drip_ms: 2, ..Wire::default() };
    let script = reads(Script::new().say("Looking.")).wire(wire).then();
    let measured = script.reply_with(|_| gimlet_script::Reply::say(processor_ms(SESSION).to_string()));
    let drip = row("a drip of two seconds", measured)
        .args(&["--session-id", SESSION])
        .requests(2)
        .answers_any()
        .history("u:text+text a:text+call u:result a:text u:text")
        .further(|_, run| {
            let spent: u64 = run.result()["result"].as_str().unwrap().parse().unwrap();
            assert!(spent < 1_000, "{spent} ms of work while nearly nothing came");
        });
    play(vec![drip]).await;
}

#[tokio::test]
async fn slowness_is_not() {
    let pinging = |at| Fault::Stall { at, ping_every_ms: Some(100), for_ms: Some(1_200) };
    let dripping = Wire { chunk: Chunk::Bytes(1), drip_ms: 1, ..Wire::default() };
    play(vec![
        watched(row("pings inside a text", Script::new().say("done").fault(pinging(At::MidText)))),
        watched(row("pings before the first block", Script::new().say("done").fault(pinging(At::AfterMessageStart)))),
        watched(row("byte by byte", Script::new().say("done").wire(dripping))),
        row("a late first byte", Script::new().say("done").delay_ms(1_200)),
    ])
    .await;
}
