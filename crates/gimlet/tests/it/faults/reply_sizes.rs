//! Replies of a size that nobody expects, and connections that go away between two requests.

use gimlet_script::{BlockSpec, ChunkMode, Fault, InputPieces, ModelSpec, Script, ScriptedReply, ToolInput, WireShape};
use serde_json::json;

use super::{new_row, play_rows, with_final_answer, with_read_call};

/// A model whose window takes whatever the rows here say.
fn with_huge_context(script: Script) -> Script {
    script.model(ModelSpec { context: Some(1 << 40), ..ModelSpec::new("claude-sonnet-5-5") })
}

fn block_script(block: BlockSpec) -> Script {
    Script::new().reply(ScriptedReply { blocks: vec![block], ..ScriptedReply::default() })
}

/// What the run with this argument has had in memory at most, in megabytes. Asked while it waits for the model.
fn peak_megabytes(argument: &str) -> u64 {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    let peaks = processes.filter_map(|process| {
        let command = std::fs::read(process.join("cmdline")).ok()?;
        command.split(|byte| *byte == 0).find(|word| *word == argument.as_bytes())?;
        let status = std::fs::read_to_string(process.join("status")).ok()?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        peak.trim().trim_end_matches(" kB").parse::<u64>().ok()
    });
    peaks.max().expect("the run that asks is under way") >> 10
}

#[tokio::test]
async fn a_flood_of_tiny_pieces_loses_nothing_and_piles_nothing_up() {
    const PIECES: usize = 200_000;
    const SESSION: &str = "7d9f6c1e-3b0a-4f65-9c55-2f4b8a1c0d3e";
    let text = BlockSpec::Text { text: "ab ".into(), times: PIECES };
    let flood = || block_script(text.clone()).wire(WireShape { chunk: ChunkMode::Events(500), ..WireShape::default() });
    let then_measured =
        with_read_call(flood()).then().reply_with(|_| ScriptedReply::say(peak_megabytes(SESSION).to_string()));
    play_rows(vec![
        new_row("all of it", flood()).expect_answer("ab ".repeat(PIECES).leak()),
        new_row("in little memory", then_measured)
            .with_args(&["--session-id", SESSION])
            .expect_requests(2)
            .expect_any_answer()
            .expect_history("u:text+text a:text+call u:result a:text u:text")
            .check_also(|_, run| {
                let peak: u64 = run.result()["result"].as_str().unwrap().parse().unwrap();
                assert!(peak < 150, "{peak} MB");
            }),
    ])
    .await;
}

#[tokio::test]
async fn a_block_of_many_megabytes_is_taken_and_one_beyond_reason_is_refused() {
    let huge = |bytes: usize| {
        let mut reply = ScriptedReply { blocks: vec![BlockSpec::HugeResult { bytes }], ..ScriptedReply::default() };
        reply.blocks.push(BlockSpec::Text { text: "done".into(), times: 1 });
        Script::new().lenient().reply(reply)
    };
    play_rows(vec![
        new_row("20 MiB", huge(20 << 20))
            .with_resuming_script(|script| with_huge_context(script).lenient())
            .with_env("CLAUDE_CODE_MAX_CONTEXT_TOKENS", "20000000")
            .expect_history("u:text+text a:server_tool_use+web_fetch_tool_result+text u:text"),
        new_row("66 MiB", huge(66 << 20)).expect_error("API Error"),
    ])
    .await;
}

#[tokio::test]
async fn a_call_with_megabytes_of_input_is_answered() {
    // Of single bytes there are fewer: what is tested is that the time grows with them and not with their square.
    let table = [("in pieces", 10 << 20, 1024), ("in large pieces", 10 << 20, 64 << 10), ("in bytes", 256 << 10, 1)];
    let rows = table.map(|(name, bytes, piece)| {
        let call = BlockSpec::Tool { name: "Read".into(), input: ToolInput::Bytes(bytes), id: None, times: 1 };
        let wire = WireShape {
            input_pieces: InputPieces::Bytes(piece),
            chunk: ChunkMode::Events(500),
            ..WireShape::default()
        };
        new_row(name, with_final_answer(with_huge_context(block_script(call)).wire(wire)))
            .expect_requests(2)
            .with_resuming_script(with_huge_context)
            .with_env("CLAUDE_CODE_MAX_CONTEXT_TOKENS", "20000000")
            .expect_history("u:text+text a:call u:result! a:text u:text")
    });
    play_rows(rows.into()).await;
}

#[tokio::test]
async fn many_calls_at_once_are_answered_in_one_message_and_in_order() {
    let call = BlockSpec::Tool {
        name: "Read".into(),
        input: ToolInput::Json(json!({"file_path": "{{dir}}/a.txt", "offset": "{{n}}"})),
        id: None,
        times: 120,
    };
    let many = new_row("120 calls", with_final_answer(block_script(call))).expect_requests(2).check_also(|model, _| {
        let request = model.request(1);
        let messages = request.messages();
        let ids = |at: usize, field: &str| -> Vec<String> {
            let blocks = messages[at]["content"].as_array().unwrap();
            blocks.iter().map(|block| block[field].as_str().unwrap_or("?").to_owned()).collect()
        };
        assert_eq!((messages.len(), ids(1, "id").len()), (3, 120));
        assert_eq!(ids(1, "id"), ids(2, "tool_use_id"));
        // After the facts of the place, where the last request ended, and at the end: however much lies between them.
        let marks = request.breakpoints();
        let of_messages: Vec<&str> = marks.iter().map(String::as_str).filter(|mark| mark.starts_with('m')).collect();
        assert_eq!(of_messages, ["messages.0.content.0", "messages.0.content.1", "messages.2.content.119"]);
        assert_eq!(marks.len(), 4);
    });
    let (calls, results) = (["call"; 120].join("+"), ["result"; 120].join("+"));
    let history = format!("u:text+text a:{calls} u:{results} a:text u:text");
    play_rows(vec![many.expect_history(history.leak())]).await;
}

#[tokio::test]
async fn a_connection_that_died_while_idle_costs_nothing_visible() {
    let history = "u:text+text a:call u:result a:text u:text";
    let faults = [("closed quietly", Fault::CloseQuietly), ("reset when used again", Fault::ResetOnReuse)];
    let rows = faults.into_iter().map(|(name, fault)| {
        new_row(name, with_final_answer(with_read_call(Script::new()).fault(fault)))
            .expect_requests(2)
            .expect_history(history)
    });
    play_rows(rows.collect()).await;
}
