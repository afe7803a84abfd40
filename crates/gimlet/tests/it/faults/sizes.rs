//! Replies of a size that nobody expects, and connections that go away between two requests.

use gimlet_script::{BlockSpec, Chunk, Fault, InputPieces, ModelSpec, Reply, Script, ToolInput, Wire};
use serde_json::json;

use super::row::shape;
use super::{play, reads, row, then_done};

/// A model whose window takes whatever the rows here say.
fn roomy(script: Script) -> Script {
    script.model(ModelSpec { context: Some(1 << 40), ..ModelSpec::new("claude-sonnet-5-5") })
}

fn blocks(block: BlockSpec) -> Script {
    Script::new().reply(Reply { blocks: vec![block], ..Reply::default() })
}

#[tokio::test]
async fn a_flood_of_tiny_pieces_loses_nothing() {
    const PIECES: usize = 200_000;
    let world = crate::world();
    let text = BlockSpec::Text { text: "ab ".into(), times: PIECES };
    let model = blocks(text).wire(Wire { chunk: Chunk::Events(500), ..Wire::default() });
    let model = model.serve().await.unwrap();
    let run = world.run(&model).print("go").finish().await;
    run.expect_code(0);
    assert_eq!(run.stdout, format!("{}\n", "ab ".repeat(PIECES).trim_end()));
}

#[tokio::test]
async fn a_block_of_many_megabytes_is_taken_and_one_beyond_reason_is_refused() {
    for (bytes, code) in [(20 << 20, 0), (66 << 20, 1)] {
        let world = crate::world();
        let mut reply = Reply { blocks: vec![BlockSpec::HugeResult { bytes }], ..Reply::default() };
        reply.blocks.push(BlockSpec::Text { text: "done".into(), times: 1 });
        let model = Script::new().lenient().reply(reply).serve().await.unwrap();
        let run = world.run(&model).print("go").finish().await;
        run.expect_code(code);
        assert_eq!((run.stdout.lines().count(), model.requests().len()), (1, 1), "{}", run.stderr);
    }
}

#[tokio::test]
async fn a_call_with_megabytes_of_input_is_answered() {
    let call = BlockSpec::Tool { name: "Read".into(), input: ToolInput::Bytes(10 << 20), id: None, times: 1 };
    let wire = Wire { input_pieces: InputPieces::Bytes(1024), ..Wire::default() };
    let long =
        row("10 MiB", then_done(roomy(blocks(call)).wire(wire))).requests(2).without_resume().further(|model, _| {
            assert_eq!(shape(&model.request(1)), "u:text+text a:call u:result!");
        });
    play(vec![long]).await;
}

#[tokio::test]
async fn many_calls_at_once_are_answered_in_one_message_and_in_order() {
    let call = BlockSpec::Tool {
        name: "Read".into(),
        input: ToolInput::Json(json!({"file_path": "{{dir}}/a.txt", "offset": "{{n}}"})),
        id: None,
        times: 120,
    };
    let many = row("120 calls", then_done(blocks(call))).requests(2).further(|model, _| {
        let request = model.request(1);
        let messages = request.messages();
        let ids = |at: usize, field: &str| -> Vec<String> {
            let blocks = messages[at]["content"].as_array().unwrap();
            blocks.iter().map(|block| block[field].as_str().unwrap_or("?").to_owned()).collect()
        };
        assert_eq!((messages.len(), ids(1, "id").len()), (3, 120));
        assert_eq!(ids(1, "id"), ids(2, "tool_use_id"));
        assert!(request.breakpoints().len() <= 4, "{:?}", request.breakpoints());
    });
    let (calls, results) = (["call"; 120].join("+"), ["result"; 120].join("+"));
    let history = format!("u:text+text a:{calls} u:{results} a:text u:text");
    play(vec![many.history(history.leak())]).await;
}

#[tokio::test]
async fn a_connection_that_died_while_idle_costs_nothing_visible() {
    let history = "u:text+text a:call u:result a:text u:text";
    let faults = [("closed quietly", Fault::CloseQuietly), ("reset when used again", Fault::ResetOnReuse)];
    let rows = faults
        .into_iter()
        .map(|(name, fault)| row(name, then_done(reads(Script::new()).fault(fault))).requests(2).history(history));
    play(rows.collect()).await;
}
