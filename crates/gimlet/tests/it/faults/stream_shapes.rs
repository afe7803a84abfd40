//! Streams that no grammar allows, and blocks that nobody has heard of.

use gimlet_script::{
    BlockSpec, BodyFraming, ChunkMode, ContentEncoding, EventNames, Fault, InputPieces, LineEnding, PingMode, Script,
    ScriptedReply, ToolInput, UsageStyle, WireShape,
};
use serde_json::json;

use super::fault_row::message_shape;
use super::{new_row, play_rows, with_final_answer, with_read_call};

const TURN: &str = "u:text+text a:text+call u:result a:text u:text";

/// A reply of a text and a call, then the answer.
fn tool_turn(change: impl FnOnce(Script) -> Script) -> Script {
    with_final_answer(change(with_read_call(Script::new().say("Looking."))))
}

#[tokio::test]
async fn odd_block_numbers_and_missing_formalities_are_understood() {
    let faults = [
        ("index gaps", Fault::IndexGaps),
        ("index reuse", Fault::IndexReuse),
        ("unknown index", Fault::UnknownIndex),
        ("stopped twice", Fault::StopTwice),
        ("interleaved", Fault::Interleave),
        ("no message_stop", Fault::NoMessageStop),
        ("two message_starts", Fault::TwoMessageStarts),
    ];
    let rows = faults.into_iter().map(|(name, fault)| {
        new_row(name, tool_turn(|script| script.fault(fault))).expect_requests(2).expect_history(TURN).check_also(
            |model, _| {
                assert_eq!(model.request(1).tool_results(), ["1\talpha"]);
            },
        )
    });
    play_rows(rows.collect()).await;
}

#[tokio::test]
async fn a_reply_without_a_reason_for_its_end_is_kept_as_far_as_it_came() {
    let cut = "the reply was cut (the answer ended without a stop reason";
    let nameless =
        |script: Script| script.reply(ScriptedReply { stop_reason: Some(None), ..ScriptedReply::say("done") });
    play_rows(vec![
        new_row("no message_delta", Script::new().say("done").fault(Fault::NoMessageDelta)).expect_notice(cut),
        new_row("no message_delta, with a call", tool_turn(|script| script.fault(Fault::NoMessageDelta)))
            .expect_requests(2)
            .expect_notice(cut)
            .expect_history(TURN),
        new_row("a null reason", nameless(Script::new())).expect_notice(cut),
        new_row("no message_delta, nothing said", with_final_answer(Script::new().fault(Fault::NoMessageDelta)))
            .expect_retries(1),
    ])
    .await;
}

#[tokio::test]
async fn the_shape_of_the_bytes_does_not_matter() {
    let plain = WireShape::default;
    let wires = [
        ("one byte at a time", WireShape { chunk: ChunkMode::Bytes(1), ..plain() }),
        ("all at once", WireShape { chunk: ChunkMode::Whole, ..plain() }),
        ("cr, bom, comments", WireShape { newline: LineEnding::Cr, bom: true, comments: true, ..plain() }),
        ("crlf cut in two", WireShape { newline: LineEnding::Crlf, chunk: ChunkMode::Crlf, ..plain() }),
        ("no event names", WireShape { event_names: EventNames::Missing, extra_fields: true, ..plain() }),
        ("wrong event names", WireShape { event_names: EventNames::Wrong, tight_data: true, ..plain() }),
        ("a burst of pings", WireShape { pings: PingMode::Burst(500), fat_pings: true, ..plain() }),
        ("unknown events", WireShape { unknown: true, split_data: true, ..plain() }),
        ("a length", WireShape { framing: BodyFraming::Length, ..plain() }),
        ("ended by closing", WireShape { framing: BodyFraming::Close, ..plain() }),
        ("gzip", WireShape { encoding: ContentEncoding::Gzip, ..plain() }),
        ("deflate", WireShape { encoding: ContentEncoding::Deflate, ..plain() }),
        ("empty pieces of input", WireShape { input_pieces: InputPieces::Empty, ..plain() }),
        ("input byte by byte", WireShape { input_pieces: InputPieces::Bytes(1), ..plain() }),
    ];
    let rows = wires.into_iter().map(|(name, wire)| {
        new_row(name, tool_turn(|script| script.wire(wire))).expect_requests(2).expect_history(TURN).check_also(
            |model, _| {
                assert_eq!(model.request(1).tool_results(), ["1\talpha"]);
            },
        )
    });
    play_rows(rows.collect()).await;
}

#[tokio::test]
async fn usage_adds_up_however_it_is_told() {
    let rows = [UsageStyle::Normal, UsageStyle::Nulls, UsageStyle::Several].into_iter().map(|usage| {
        let wire = WireShape { usage, ..WireShape::default() };
        new_row("usage", tool_turn(|script| script.wire(wire))).expect_requests(2).expect_history(TURN).check_also(
            |model, run| {
                let told = &run.result()["usage"];
                let prompts: Vec<_> = model.requests().iter().map(|request| request.outcome().usage.unwrap()).collect();
                let read: u64 = prompts.iter().map(|prompt| prompt.cache_read_tokens).sum();
                let written: u64 = prompts.iter().map(|prompt| prompt.cache_write_tokens()).sum();
                let rest: u64 = prompts.iter().map(|prompt| prompt.input_tokens).sum();
                assert_eq!(told["cache_read_input_tokens"], read);
                assert_eq!(told["cache_creation_input_tokens"], written);
                assert_eq!(told["input_tokens"], rest);
                assert!(told["output_tokens"].as_u64().unwrap() > 0);
            },
        )
    });
    let missing = WireShape { usage: UsageStyle::Missing, ..WireShape::default() };
    let silent = new_row("no usage at all", Script::new().say("done").wire(missing));
    play_rows(rows.chain([silent]).collect()).await;
}

#[tokio::test]
async fn calls_with_unusable_input_do_not_run_and_are_answered() {
    let call = |raw: &'static str| with_final_answer(Script::new().call_raw("Read", raw));
    let history = "u:text+text a:call u:result! a:text u:text";
    let table = [
        ("broken JSON", r#"{"file_path": "/etc/ho"#),
        ("an array", r#"["/etc/hosts"]"#),
        ("a string", r#""/etc/hosts""#),
        ("the wrong type", r#"{"file_path": 7}"#),
        ("no input at all", ""),
    ];
    let mut rows: Vec<_> = table
        .into_iter()
        .map(|(name, raw)| new_row(name, call(raw)).expect_requests(2).expect_history(history))
        .collect();
    let unknown = with_final_answer(Script::new().call("Reed", json!({"file_path": "a.txt"})));
    rows.push(new_row("an unknown tool", unknown).expect_requests(2).expect_history(history));
    rows.push(
        new_row("broken JSON is told back", call("{\"file_path\": oops"))
            .expect_requests(2)
            .expect_history(history)
            .check_also(|model, _| {
                let result = model.request(1).tool_result(0);
                assert!(result.contains(r#"{"INVALID_JSON":"{\"file_path\": oops"}"#), "{result}");
                assert!(
                    result.contains("The input is not valid JSON: expected value at line 1 column 15."),
                    "{result}"
                );
            }),
    );
    play_rows(rows).await;
}

#[tokio::test]
async fn calls_whose_ids_cannot_stand_get_ids_that_can() {
    let read = |id: &str, file: &str| BlockSpec::Tool {
        name: "Read".into(),
        input: ToolInput::Json(json!({"file_path": format!("{{{{dir}}}}/{file}.txt")})),
        id: Some(id.into()),
        times: 1,
    };
    let reply = |blocks: Vec<BlockSpec>| ScriptedReply { blocks, ..ScriptedReply::default() };
    let one = |id| reply(vec![read(id, "a")]);
    play_rows(vec![
        new_row(
            "the same id twice",
            with_final_answer(Script::new().reply(reply(vec![read("c", "a"), read("c", "b")]))),
        )
        .expect_requests(2)
        .expect_history("u:text+text a:call+call u:result+result a:text u:text")
        .check_also(|model, _| assert_eq!(model.request(1).tool_results(), ["1\talpha", "1\tbeta"])),
        new_row(
            "the same id in every reply",
            with_final_answer(Script::new().reply(one("call_0")).then().reply(one("call_0"))),
        )
        .expect_requests(3)
        .expect_history("u:text+text a:call u:result a:call u:result a:text u:text"),
        new_row("an illegal id", with_final_answer(Script::new().reply(one("functions.Read:0"))))
            .expect_requests(2)
            .expect_history("u:text+text a:call u:result a:text u:text"),
        new_row("no id", with_final_answer(Script::new().reply(one(""))))
            .expect_requests(2)
            .expect_history("u:text+text a:call u:result a:text u:text"),
    ])
    .await;
}

/// Valid JSON that many readers refuse, this test's own among them: hence the text output.
#[tokio::test]
async fn inputs_that_typed_readers_refuse_are_answered_too() {
    let deep = format!("{{\"file_path\": {}{}}}", "[".repeat(200), "]".repeat(200));
    for raw in [r#"{"file_path": "\ud800"}"#, r#"{"file_path": "/a.txt", "offset": 1e400}"#, &deep] {
        let world = crate::world();
        let model = with_final_answer(Script::new().call_raw("Read", raw)).serve().await.unwrap();
        let run = world.run(&model).print_text("go").finish().await;
        run.expect_code(0);
        assert_eq!((run.stdout.as_str(), model.requests().len()), ("done\n", 2), "{raw}");
        assert!(model.rejections().is_empty() && model.request(1).body_text().contains("is_error"), "{raw}");
        let later = Script::new().say("resumed").serve().await.unwrap();
        world.run(&later).args(["-p", "--continue", "more"]).finish().await.expect_code(0);
        assert!(later.rejections().is_empty(), "{raw}: {:?}", later.rejections());
    }
}

#[tokio::test]
async fn a_vendors_tool_beside_ours_gets_nothing_but_our_results() {
    let search = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []});
    let script = with_read_call(Script::new().lenient().raw(search)).stop("tool_use").then().raw(found).say("done");
    let mixed = new_row("mixed", script)
        .expect_requests(2)
        .with_resuming_script(Script::lenient)
        .expect_history("u:text+text a:server_tool_use+call u:result a:web_search_tool_result+text u:text")
        .check_also(|model, _| {
            assert_eq!(message_shape(&model.request(1)), "u:text+text a:server_tool_use+call u:result");
        });
    play_rows(vec![mixed]).await;
}

#[tokio::test]
async fn blocks_of_kinds_that_nobody_knows_go_back_as_they_came() {
    let fallback =
        json!({"type": "fallback", "from": {"model": "claude-sonnet-5-5"}, "to": {"model": "claude-opus-5-5"}});
    let redacted = json!({"type": "redacted_thinking", "data": "c2VjcmV0"});
    play_rows(vec![
        new_row("fallback", with_final_answer(with_read_call(Script::new().raw(fallback).say("Looking."))))
            .expect_requests(2)
            .expect_history("u:text+text a:fallback+text+call u:result a:text u:text")
            .check_also(|_, run| {
                let [sonnet, opus] = ["claude-sonnet-5-5", "claude-opus-5-5"];
                let lines = run.lines();
                let said = lines.iter().filter(|line| line["type"] == "assistant");
                let models: Vec<&str> = said.filter_map(|line| line["message"]["model"].as_str()).collect();
                assert_eq!(models, [sonnet, opus, opus, sonnet], "whoever wrote a block is named with it");
                let used: Vec<String> = run.result()["modelUsage"].as_object().unwrap().keys().cloned().collect();
                assert_eq!(used, [opus, sonnet]);
            }),
        new_row("redacted thinking", with_final_answer(with_read_call(Script::new().raw(redacted))))
            .expect_requests(2)
            .expect_history("u:text+text a:redacted_thinking+call u:result a:text u:text"),
    ])
    .await;
}
