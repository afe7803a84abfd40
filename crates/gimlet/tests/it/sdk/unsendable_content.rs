//! One thing that cannot be sent never spoils a session: it is refused or mended before it is part of the conversation,
//! and the next ordinary prompt is answered by a model that checks every rule.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gimlet_script::{BlockSpec, Script, ScriptServer, ScriptedReply, ToolInput};
use gimlet_testkit::TestWorld;
use serde_json::{Value, json};

use super::SdkHost;
use crate::media::sample_image;
use crate::world;

/// The smallest thing that looks like a GIF.
const GIF: &str = "R0lGODlhAQABAA==";

fn user_line(content: &Value) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": content}})
}

fn image_block(media_type: &str, data: &str) -> Value {
    json!({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}})
}

/// A prompt that cannot be used: one error that has these words, and nothing in the history or the transcript.
async fn assert_prompt_refused(name: &str, line: String, words: &str) {
    let world = world();
    let model = Script::new().say("hello").then().say("still here").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).arg("--replay-user-messages"));
    host.say("hi");
    host.result().await;
    host.write_text(&line);
    let result = host.result().await;
    let said = format!("{} {}", result["result"], result["errors"]);
    assert!(result["is_error"] == true && said.contains(words), "{name}: {result}");
    host.say("and now?");
    let result = host.result().await;
    assert_eq!(result["result"], "still here", "{name}: {result}");
    let end = host.end().await;
    end.output.expect_code(0);
    assert_eq!(end.lines.iter().filter(|line| line["type"] == "result").count(), 3, "{name}");
    assert!(model.rejections().is_empty(), "{name}: {:?}", model.rejections());
    let texts = model.request(1).messages().len();
    assert_eq!((model.requests().len(), texts), (2, 3), "{name}: nothing of it was sent");
    assert_resumable(name, &world).await;
}

/// The transcript that was left makes a request that keeps every rule.
async fn assert_resumable(name: &str, world: &TestWorld) {
    let model = Script::new().say("resumed").serve().await.unwrap();
    let run = world.run(&model).args(["-p", "--continue", "more"]).finish().await;
    assert_eq!((run.code, run.stdout.as_str()), (0, "resumed\n"), "{name}: {}", run.stderr);
    assert!(model.rejections().is_empty(), "{name}: {:?}", model.rejections());
}

#[tokio::test]
async fn prompts_that_no_request_can_carry_are_refused_and_forgotten() {
    let look = json!({"type": "text", "text": "look at this"});
    let with = |block: Value| json!([look, block]);
    let cases = [
        (
            "a result for nobody",
            with(json!({"type": "tool_result", "tool_use_id": "x", "content": "1"})),
            "no call waits",
        ),
        ("a call", with(json!({"type": "tool_use", "id": "a", "name": "Bash", "input": {}})), "from the model"),
        ("a thought", with(json!({"type": "thinking", "thinking": "x", "signature": "s"})), "from the model"),
        ("bad base64", with(image_block("image/png", "!!!")), "not base64"),
        ("no image", with(image_block("image/png", "aGVsbG8=")), "neither JPEG"),
        ("an empty image", with(image_block("image/png", "")), "empty"),
        ("a cut image", with(image_block("image/png", "iVBORw0KGgo=")), "cut off"),
        ("a huge image", with(image_block("image/gif", &(GIF[..12].to_owned() + &"A".repeat(11_000_000)))), "10 MB"),
        ("an image of nothing", with(json!({"type": "image", "source": {}})), "no readable source"),
        ("601 images", json!(vec![image_block("image/gif", GIF); 601]), "600 images"),
        ("no PDF", with(json!({"type": "document", "source": {"type": "base64", "data": "AAAA"}})), "no PDF"),
        ("an unknown type", with(json!({"type": "hologram", "data": 1})), "'hologram'"),
        ("a text of no text", with(json!({"type": "text", "text": ["x"]})), "no text"),
        ("content of no kind", json!(7), "neither a text nor a list"),
        ("a text too long for any window", json!("word ".repeat(1_100_000)), "window"),
        ("a text too long for any request", json!("x".repeat(30_000_000)), "28 MB"),
    ];
    for (name, content, words) in cases {
        assert_prompt_refused(name, format!("{}\n", user_line(&content)), words).await;
    }
    let deep = "[".repeat(5000) + &"]".repeat(5000);
    let line = format!(r#"{{"type":"user","message":{{"role":"user","content":{deep}}}}}"#);
    assert_prompt_refused("nested too deeply", line + "\n", "nested deeper").await;
}

#[tokio::test]
async fn slips_with_one_meaning_are_put_right() {
    let gif = |data: &str| image_block("image/gif", data);
    let cases = [
        (
            "another image type",
            user_line(&json!([image_block("image/png", GIF)])).to_string(),
            gif(GIF)["source"].to_string(),
        ),
        (
            "base64 in lines",
            user_line(&json!([gif("R0lGODlh\r\nAQABAA==\r\n")])).to_string(),
            gif(GIF)["source"].to_string(),
        ),
        (
            "empty texts",
            user_line(&json!([{"type": "text", "text": ""}, {"type": "text", "text": "a"}])).to_string(),
            "\"a\"".into(),
        ),
        (
            "marks of the host's own",
            user_line(&json!(vec![json!({"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}); 6]))
                .to_string(),
            "\"b\"".into(),
        ),
        ("half a character", user_line(&json!("half: @")).to_string().replace('@', "\\ud800"), "half: \u{fffd}".into()),
    ];
    for (name, line, sent) in cases {
        let world = world();
        let model = Script::new().say("seen").then().say("still here").serve().await.unwrap();
        let mut host = SdkHost::start(world.run(&model));
        host.write_text(&format!("{line}\n"));
        assert_eq!(host.result().await["result"], "seen", "{name}");
        host.say("and now?");
        assert_eq!(host.result().await["result"], "still here", "{name}");
        host.end().await.clean(0);
        assert!(model.rejections().is_empty(), "{name}: {:?}", model.rejections());
        let body: Value = serde_json::from_str(&model.request(0).body_text()).unwrap();
        assert!(body["messages"].to_string().contains(&sent), "{name}: {}", body["messages"]);
        assert_resumable(name, &world).await;
    }
}

#[tokio::test]
async fn a_prompt_with_nothing_in_it_is_answered_without_the_model() {
    for content in [json!([]), json!(""), json!([{"type": "text", "text": " "}])] {
        let world = world();
        let model = Script::new().say("still here").serve().await.unwrap();
        let mut host = SdkHost::start(world.run(&model));
        host.send_line(user_line(&content));
        assert_eq!(host.result().await["num_turns"], 0, "{content}");
        host.say("and now?");
        assert_eq!(host.result().await["result"], "still here", "{content}");
        host.end().await.clean(0);
        assert!(model.rejections().is_empty(), "{content}: {:?}", model.rejections());
    }
}

#[tokio::test]
async fn a_prompt_that_is_too_long_for_a_running_turn_gets_its_own_result() {
    let world = world();
    let wait = json!({"command": "touch begun; while [ ! -e go ]; do sleep 0.01; done"});
    let model = Script::new().call("Bash", wait).then().say("first").then().say("third").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--dangerously-skip-permissions"]));
    host.say("one");
    host.until(|line| line["type"] == "assistant").await;
    host.send_line(user_line(&json!("word ".repeat(1_100_000))));
    host.say("three");
    host.send_request(json!({"subtype": "get_binary_version"})).await;
    world.file("go", "");
    let lines = host.end().await.lines;
    let ends: Vec<(&Value, &Value)> = lines
        .iter()
        .filter(|line| line["type"] == "result")
        .map(|line| (&line["is_error"], &line["terminal_reason"]))
        .collect();
    let (done, refused) = (json!("completed"), json!("prompt_too_long"));
    assert_eq!(ends, [(&json!(false), &done), (&json!(true), &refused), (&json!(false), &done)]);
    assert!(model.rejections().is_empty(), "{:?}", model.rejections());
}

/// What gimlet cannot know to be too much is taken back when the server says so.
#[tokio::test]
async fn a_prompt_that_the_server_refuses_for_what_it_is_is_taken_back() {
    let long = json!("word ".repeat(50_000));
    let cases = [
        ("an image", json!([image_block("image/gif", GIF)]), 400, "messages.0.content.0: Could not process image"),
        ("a long text", long.clone(), 400, "prompt is too long: 300000 tokens > 200000 maximum"),
        ("a large request", long, 413, "Request exceeds the maximum size"),
    ];
    for (name, content, status, message) in cases {
        let world = world();
        let script = Script::new().error(status, message).then().say("still here");
        let model = script.serve().await.unwrap();
        let mut host = SdkHost::start(world.run(&model));
        host.send_line(user_line(&content));
        let result = host.result().await;
        assert!(result["is_error"] == true, "{name}: {result}");
        host.say("and now?");
        assert_eq!(host.result().await["result"], "still here", "{name}");
        host.end().await.output.expect_code(0);
        let last = model.request(model.requests().len() - 1);
        let sent = last.body_text();
        assert!(!sent.contains(GIF) && !sent.contains("word word"), "{name}: {}", &sent[..200]);
        assert_resumable(name, &world).await;
    }
}

#[tokio::test]
async fn a_request_that_is_too_large_goes_again_without_what_was_shown_before() {
    const OTHER: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    for (status, message) in [(413, "Request exceeds the maximum size"), (400, "prompt is too long: 9 tokens > 8")] {
        let world = world();
        let script = Script::new().say("seen").then().error(status, message).then().say("still here");
        let model = script.serve().await.unwrap();
        let mut host = SdkHost::start(world.run(&model));
        host.send_line(user_line(&json!([image_block("image/gif", GIF)])));
        assert_eq!(host.result().await["result"], "seen", "{status}");
        host.send_line(user_line(&json!([{"type": "text", "text": "and this?"}, image_block("image/png", OTHER)])));
        assert_eq!(host.result().await["result"], "still here", "{status}");
        let lines = host.end().await.clean(0);
        let told = |line: &&Value| line["content"].as_str().is_some_and(|text| text.contains("too large"));
        assert_eq!(lines.iter().filter(told).count(), 1, "{status}");
        let request = model.request(2);
        let sent = request.body_text();
        assert!(!sent.contains(GIF) && sent.contains(OTHER), "{status}: {sent}");
        assert!(model.rejections().is_empty(), "{status}: {:?}", model.rejections());
    }
}

/// A model that makes one call, and then speaks.
async fn serve_call(name: &str, input: ToolInput, id: Option<&str>, times: usize) -> ScriptServer {
    let call = BlockSpec::Tool { name: name.into(), input, id: id.map(str::to_owned), times };
    let reply = ScriptedReply { blocks: vec![call], ..ScriptedReply::default() };
    Script::new().reply(reply).then().say("done").then().say("still here").serve().await.unwrap()
}

#[tokio::test]
async fn calls_that_cannot_stand_in_history_are_answered_and_stand_in_another_form() {
    let empty = || ToolInput::Json(json!({}));
    let deep = format!("{{\"file_path\": {}{}}}", "[".repeat(3000), "]".repeat(3000));
    let long = "x".repeat(200);
    let cases = [
        ("no name", "", empty(), None, 1, "names no tool"),
        ("a name with blanks", "Read file", empty(), None, 1, "no tool named Read file"),
        ("a name of another alphabet", "прочти", empty(), None, 1, "no tool named прочти"),
        ("a name too long", long.as_str(), empty(), None, 1, "no tool named xxx"),
        ("an input nested too deeply", "Read", ToolInput::Raw(deep), None, 1, "nested deeper than"),
        ("one id twice", "Read", empty(), Some("toolu_a"), 2, "file_path"),
        ("an id of another alphabet", "Read", empty(), Some("functions.Read:0"), 1, "file_path"),
        ("no id", "Read", empty(), Some(""), 1, "file_path"),
    ];
    for (name, tool, input, id, times, words) in cases {
        let world = world();
        let model = serve_call(tool, input, id, times).await;
        let mut host = SdkHost::start(world.run(&model));
        host.say("go");
        assert_eq!(host.result().await["result"], "done", "{name}: {:?}", model.rejections());
        host.say("and now?");
        assert_eq!(host.result().await["result"], "still here", "{name}: {:?}", model.rejections());
        host.end().await.clean(0);
        assert!(model.rejections().is_empty(), "{name}: {:?}", model.rejections());
        let results = model.request(1).tool_results();
        assert_eq!(results.len(), times, "{name}");
        assert!(results.iter().all(|result| result.contains(words)), "{name}: {results:?}");
        let kept = world
            .transcript_entries()
            .iter()
            .filter(|entry| entry["message"]["content"][0]["type"] == "tool_result")
            .count();
        assert_eq!(kept, times, "{name}");
        assert_resumable(name, &world).await;
    }
}

/// Serves one tool, whose answer is `answer`, until there is a result.
pub(super) async fn serve(host: &mut SdkHost, answer: &str) -> Value {
    serve_tools(host, &json!([{"name": "t", "inputSchema": {"type": "object"}}]), answer).await
}

async fn serve_tools(host: &mut SdkHost, tools: &Value, answer: &str) -> Value {
    loop {
        let line = host.next_line().await;
        if line["type"] == "result" {
            return line;
        }
        answer_with(host, &line, tools, answer);
    }
}

/// Answers for a server with one tool if the line is a message to one.
pub(super) fn answer_server(host: &mut SdkHost, line: &Value, answer: &str) {
    answer_with(host, line, &json!([{"name": "t", "inputSchema": {"type": "object"}}]), answer);
}

pub(super) fn answer_with(host: &mut SdkHost, line: &Value, tools: &Value, answer: &str) {
    if line["request"]["subtype"] != "mcp_message" {
        return;
    }
    let message = &line["request"]["message"];
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "s", "version": "1"}})
        .to_string(),
        "tools/list" => json!({"tools": tools}).to_string(),
        "tools/call" => answer.to_owned(),
        _ => "{}".to_owned(),
    };
    let (request, id) = (&line["request_id"], &message["id"]);
    let response = format!(r#"{{"mcp_response":{{"jsonrpc":"2.0","id":{id},"result":{result}}}}}"#);
    host.write_text(&format!(
        r#"{{"type":"control_response","response":{{"subtype":"success","request_id":{request},"response":{response}}}}}"#
    ));
    host.write_text("\n");
}

#[tokio::test]
async fn what_servers_answer_is_made_fit_or_told_in_words() {
    let mcp_image = |media_type: &str, data: &str| json!({"type": "image", "data": data, "mimeType": media_type});
    let huge = STANDARD.encode(sample_image(9_000, 90, image::ImageFormat::Png));
    let words = json!({"type": "text", "text": "words"});
    let blob = json!({"type": "resource", "resource": {"uri": "file:///a.bin", "blob": "AAAA"}});
    let content = |parts: Value| json!({"content": parts}).to_string();
    let deep = "[".repeat(5000) + &"]".repeat(5000);
    let cases = [
        ("no image", content(json!([mcp_image("image/png", "aGVsbG8=")])), "neither JPEG"),
        ("an empty image", content(json!([words, mcp_image("image/png", "")])), "it is empty"),
        ("a mislabelled image", content(json!([mcp_image("image/png", GIF)])), "image/gif"),
        ("a huge image", content(json!([mcp_image("image/png", &huge)])), "scaled from 9000 × 90 to 2000 × 20"),
        ("650 images", content(json!(vec![mcp_image("image/gif", GIF); 650])), "50 images were left out"),
        ("a sound", content(json!([{"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}])), "audio/wav"),
        ("a blob", content(json!([blob])), "file:///a.bin"),
        (
            "a blank text beside an image",
            content(json!([{"type": "text", "text": ""}, mcp_image("image/gif", GIF)])),
            GIF,
        ),
        (
            "half a character",
            content(json!([{"type": "text", "text": "half @"}])).replace('@', "\\ud800"),
            "half \u{fffd}",
        ),
        ("a huge text", content(json!([{"type": "text", "text": "long ".repeat(500_000)}])), "was saved to"),
        (
            "a huge failure",
            json!({"content": [{"type": "text", "text": "no ".repeat(500_000)}], "isError": true}).to_string(),
            "no no",
        ),
        (
            "an answer nested too deeply",
            format!(r#"{{"content":[],"structuredContent":{{"a":{deep}}}}}"#),
            "recursion limit",
        ),
        ("nothing", content(json!([])), "without output"),
    ];
    for (name, answer, words) in cases {
        let world = world();
        let model = Script::new().call("mcp__s__t", json!({})).then().say("done").then().say("still here");
        let model = model.serve().await.unwrap();
        let servers = r#"{"mcpServers":{"s":{"type":"sdk","name":"s"}}}"#;
        let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "mcp__s", "--mcp-config", servers]));
        host.say("go");
        let result = serve(&mut host, &answer).await;
        assert_eq!(result["result"], "done", "{name}: {:?}", model.rejections());
        host.say("and now?");
        let result = serve(&mut host, &answer).await;
        assert_eq!(result["result"], "still here", "{name}: {:?}", model.rejections());
        host.end().await.clean(0);
        assert!(model.rejections().is_empty(), "{name}: {:?}", model.rejections());
        let body: Value = serde_json::from_str(&model.request(1).body_text()).unwrap();
        let sent = body["messages"].to_string();
        assert!(sent.contains(words), "{name}: {}", &sent[..sent.len().min(3000)]);
        assert_resumable(name, &world).await;
    }
}

#[tokio::test]
async fn a_tool_that_no_request_can_offer_does_not_take_the_others_with_it() {
    let world = world();
    let tool = |name: &str, properties: Value| json!({"name": name, "inputSchema": {"type": "object", "properties": properties}});
    let tools = json!([
        tool("good", json!({"a": {"type": "string"}})),
        tool("odd_parameter", json!({"a b": {"type": "string"}})),
        tool("odd_schema", json!({"a": {"type": "text"}})),
        tool("no_properties", json!(7)),
    ]);
    let model = Script::new().say("done").then().say("still here").serve().await.unwrap();
    let servers = r#"{"mcpServers":{"s":{"type":"sdk","name":"s"}}}"#;
    let mut host = SdkHost::start(world.run(&model).args(["--mcp-config", servers]));
    for answer in ["done", "still here"] {
        host.say("go");
        assert_eq!(serve_tools(&mut host, &tools, "{}").await["result"], answer, "{:?}", model.rejections());
    }
    host.end().await.clean(0);
    let offered: Vec<String> =
        model.request(0).tool_names().into_iter().filter(|name| name.starts_with("mcp__")).collect();
    assert_eq!(offered, ["mcp__s__good"]);
}

/// An image can look right and still be none that the server can open.
#[tokio::test]
async fn an_image_in_a_result_that_the_server_refuses_is_left_out_and_the_turn_goes_on() {
    const REFUSED: &str = "messages.2.content.0.tool_result.content.0.image.source.base64: Could not process image";
    let world = world();
    let script = Script::new().call("mcp__s__t", json!({})).then().error(400, REFUSED).then().say("done");
    let model = script.then().say("still here").serve().await.unwrap();
    let servers = r#"{"mcpServers":{"s":{"type":"sdk","name":"s"}}}"#;
    let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "mcp__s", "--mcp-config", servers]));
    let answer = json!({"content": [{"type": "image", "data": GIF, "mimeType": "image/gif"}]}).to_string();
    for words in ["done", "still here"] {
        host.say("go");
        assert_eq!(serve(&mut host, &answer).await["result"], words, "{:?}", model.failures());
    }
    host.end().await.clean(0);
    assert!(model.request(1).body_text().contains(GIF) && !model.request(2).body_text().contains(GIF));
    assert!(!model.request(3).body_text().contains(GIF), "it stays out");
    let later = Script::new().error(400, REFUSED).then().say("resumed").serve().await.unwrap();
    world.run(&later).args(["-p", "--continue", "more"]).finish().await.expect_code(0);
    assert!(!later.request(1).body_text().contains(GIF), "also when it is read back");
}

#[tokio::test]
async fn a_model_that_takes_fewer_images_is_sent_the_newest_and_the_others_are_kept_for_the_next() {
    let world = world();
    let script = (0..6).fold(Script::new(), |script, at| script.say(format!("{at}")).then());
    let model = script.say("end").lenient().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--model", "claude-sonnet-5-5"]));
    for words in ["one", "two", "three"] {
        let images = std::iter::repeat_n(image_block("image/gif", GIF), 40);
        let content = std::iter::once(json!({"type": "text", "text": words})).chain(images);
        host.send_line(user_line(&content.collect()));
        host.result().await;
    }
    for name in ["claude-haiku-4-5", "claude-sonnet-5-5"] {
        host.send_request(json!({"subtype": "set_model", "model": name})).await;
        for words in ["what do you see?", "and now?"] {
            host.say(words);
            assert_eq!(host.result().await["subtype"], "success", "{:?}", model.failures());
        }
    }
    let lines = host.end().await.clean(0);
    let told = |line: &&Value| line["content"].as_str().is_some_and(|text| text.contains("the oldest 20 images"));
    assert_eq!(lines.iter().filter(told).count(), 1, "the person is told once");
    let images = |at: usize| model.request(at).body_text().matches(GIF).count();
    assert_eq!([2, 3, 4, 5, 6].map(images), [120, 100, 100, 120, 120]);
    // What was sent is the beginning of what is sent next, byte for byte, but for the marks of the cache.
    let sent = |at: usize| {
        let text = Value::from(model.request(at).messages()).to_string();
        text.replace(r#","cache_control":{"type":"ephemeral"}"#, "")
            .replace(r#""cache_control":{"type":"ephemeral"},"#, "")
    };
    for at in [3, 5] {
        assert!(sent(at + 1).starts_with(sent(at).trim_end_matches(']')), "{at}");
    }
    assert!(model.rejections().is_empty(), "{:?}", model.rejections());
}
