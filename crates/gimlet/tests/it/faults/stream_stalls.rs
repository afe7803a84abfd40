//! Servers that fall silent, and servers that are merely slow.

use gimlet_script::{ChunkMode, Fault, FaultPoint, Script, WireShape};

use super::{FaultRow, new_row, play_rows, with_final_answer, with_read_call};

fn stall_fault(at: FaultPoint) -> Fault {
    Fault::Stall { at, ping_every_ms: None, for_ms: None }
}

/// Watches the server more closely than any person may choose to.
fn with_short_timeouts(row: FaultRow) -> FaultRow {
    row.with_env("GIMLET_TEST_LEAST_TIMEOUT_MS", "1")
        .with_env("API_TIMEOUT_MS", "400")
        .with_env("CLAUDE_STREAM_IDLE_TIMEOUT_MS", "400")
}

#[tokio::test]
async fn silence_is_a_cut() {
    let places = [
        ("before the headers", FaultPoint::BeforeHeaders),
        ("after the headers", FaultPoint::AfterHeaders),
        ("inside message_start", FaultPoint::MidMessageStart),
        ("inside a text", FaultPoint::MidText),
        ("inside an event", FaultPoint::MidDelta),
    ];
    let mut rows: Vec<FaultRow> = places
        .into_iter()
        .map(|(name, at)| {
            new_row(name, with_final_answer(Script::new().say("lost words").fault(stall_fault(at)))).expect_retries(1)
        })
        .collect();
    let history = "u:text+text a:text+call u:result a:text u:text";
    rows.extend([
        new_row(
            "after a text",
            with_read_call(Script::new().say("First.")).fault(stall_fault(FaultPoint::BetweenBlocks)),
        )
        .expect_answer("First.")
        .expect_notice("the reply was cut (the server fell silent"),
        new_row(
            "after a call",
            with_final_answer(with_read_call(Script::new().say("Looking.")).fault(stall_fault(FaultPoint::AfterTool))),
        )
        .expect_requests(2)
        .expect_notice("the reply was cut")
        .expect_history(history),
        new_row(
            "after thinking",
            with_final_answer(Script::new().think("hm").say("lost words").fault(stall_fault(FaultPoint::MidText))),
        )
        .expect_retries(1),
        new_row("after the stop reason", Script::new().say("done").fault(stall_fault(FaultPoint::AfterStopReason))),
        new_row("after the end", Script::new().say("done").fault(stall_fault(FaultPoint::AfterMessageStop))),
        new_row("for ever", Script::new().say("lost words").fault(stall_fault(FaultPoint::AfterHeaders)).forever())
            .with_env("GIMLET_MAX_RETRIES", "1")
            .expect_retries(1)
            .expect_error("the server fell silent"),
    ]);
    play_rows(rows.into_iter().map(|row| with_short_timeouts(row).expect_absent("lost words")).collect()).await;
}

#[tokio::test]
async fn whoever_reads_text_is_told_that_the_model_is_waited_for() {
    let world = crate::world();
    let model = Script::new().say("done").delay_ms(1_200).serve().await.unwrap();
    let run =
        world.run(&model).print_text("go").env("GIMLET_TEST_LEAST_TIMEOUT_MS", "1").env("GIMLET_WAITING_MS", "700");
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
    let wire = WireShape { chunk: ChunkMode::Bytes(1), drip_ms: 2, ..WireShape::default() };
    let script = with_read_call(Script::new().say("Looking.")).wire(wire).then();
    let measured = script.reply_with(|_| gimlet_script::ScriptedReply::say(processor_ms(SESSION).to_string()));
    let drip = new_row("a drip of two seconds", measured)
        .with_args(&["--session-id", SESSION])
        .expect_requests(2)
        .expect_any_answer()
        .expect_history("u:text+text a:text+call u:result a:text u:text")
        .check_also(|_, run| {
            let spent: u64 = run.result()["result"].as_str().unwrap().parse().unwrap();
            assert!(spent < 1_000, "{spent} ms of work while nearly nothing came");
        });
    play_rows(vec![drip]).await;
}

#[tokio::test]
async fn slowness_is_no_cut() {
    let pinging = |at| Fault::Stall { at, ping_every_ms: Some(100), for_ms: Some(1_200) };
    let dripping = WireShape { chunk: ChunkMode::Bytes(1), drip_ms: 1, ..WireShape::default() };
    play_rows(vec![
        with_short_timeouts(new_row(
            "pings inside a text",
            Script::new().say("done").fault(pinging(FaultPoint::MidText)),
        )),
        with_short_timeouts(new_row(
            "pings before the first block",
            Script::new().say("done").fault(pinging(FaultPoint::AfterMessageStart)),
        )),
        with_short_timeouts(new_row("byte by byte", Script::new().say("done").wire(dripping))),
        new_row("a late first byte", Script::new().say("done").delay_ms(1_200)),
    ])
    .await;
}
