//! Sessions that another program, or an earlier version, left with something that no request can carry: they load in a
//! form that a model which checks every rule accepts, and go on.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up its stage must stop")]

use gimlet_script::Script;
use serde_json::{Value, json};

use crate::world;

/// The smallest thing that looks like a GIF.
const GIF: &str = "R0lGODlhAQABAA==";

fn image_block(media_type: &str, data: &str) -> Value {
    json!({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}})
}

/// The entries of a session with one call, by what they are.
struct StoredSession {
    entries: Vec<Value>,
}

impl StoredSession {
    fn find_content(&mut self, is_it: impl Fn(&Value) -> bool) -> &mut Value {
        let entry = self.entries.iter_mut().find(|entry| is_it(&entry["message"]["content"]));
        &mut entry.unwrap()["message"]["content"]
    }

    /// The content of the prompt.
    fn prompt_content(&mut self) -> &mut Value {
        self.find_content(|content| *content == "go")
    }

    fn call_block(&mut self) -> &mut Value {
        &mut self.find_content(|content| content[0]["type"] == "tool_use")[0]
    }

    fn result_block(&mut self) -> &mut Value {
        &mut self.find_content(|content| content[0]["type"] == "tool_result")[0]
    }

    fn answer_content(&mut self) -> &mut Value {
        self.find_content(|content| content[0]["text"] == "done")
    }
}

type PoisonCase = (&'static str, fn(&mut StoredSession));

fn nested_array(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inside, _| json!([inside]))
}

const POISONS: &[PoisonCase] = &[
    ("a result for nobody", |session| {
        *session.prompt_content() =
            json!([{"type": "text", "text": "go"}, {"type": "tool_result", "tool_use_id": "x", "content": "1"}]);
    }),
    ("a person's call", |session| {
        *session.prompt_content() = json!([{"type": "tool_use", "id": "p", "name": "Bash", "input": {}}])
    }),
    ("no image", |session| *session.prompt_content() = json!([image_block("image/png", "aGVsbG8=")])),
    ("an empty image", |session| *session.prompt_content() = json!([image_block("image/png", "")])),
    ("a mislabelled image", |session| *session.prompt_content() = json!([image_block("image/png", GIF)])),
    ("no document", |session| {
        *session.prompt_content() = json!([{"type": "document", "source": {"type": "base64", "data": ""}}])
    }),
    ("an unknown block", |session| {
        *session.prompt_content() = json!([{"type": "hologram", "x": 1}, {"type": "text", "text": "go"}])
    }),
    ("a prompt nested too deeply", |session| {
        *session.prompt_content() = json!([{"type": "text", "text": "go", "x": nested_array(120)}])
    }),
    ("no content", |session| *session.prompt_content() = json!([])),
    ("an empty text", |session| *session.prompt_content() = json!([{"type": "text", "text": ""}])),
    ("150 images", |session| session.result_block()["content"] = json!(vec![image_block("image/gif", GIF); 150])),
    ("650 images", |session| session.result_block()["content"] = json!(vec![image_block("image/gif", GIF); 650])),
    ("a part of no kind", |session| {
        session.result_block()["content"] = json!([{"type": "audio"}, {"type": "text", "text": " "}])
    }),
    ("a call without a name", |session| session.call_block()["name"] = json!("")),
    ("a call with an odd name", |session| session.call_block()["name"] = json!("read file.txt")),
    ("a call with a long name", |session| session.call_block()["name"] = json!("x".repeat(300))),
    ("a call nested too deeply", |session| session.call_block()["input"] = json!({"file_path": nested_array(120)})),
    ("a call with an odd input", |session| session.call_block()["input"] = json!([1])),
    ("an odd id", |session| {
        session.call_block()["id"] = json!("functions.Read:0");
        session.result_block()["tool_use_id"] = json!("functions.Read:0");
    }),
    ("a call and its result twice", |session| {
        let again = session.entries.clone();
        for entry in again.into_iter().filter(|entry| {
            entry["message"]["content"][0]["type"].as_str().is_some_and(|kind| kind.starts_with("tool_"))
        }) {
            let block = entry["message"]["content"][0].clone();
            session.find_content(|content| content[0]["type"] == block["type"]).as_array_mut().unwrap().push(block);
        }
    }),
    ("an image of the model's", |session| {
        *session.answer_content() = json!([image_block("image/gif", GIF), {"type": "text", "text": "done"}])
    }),
];

#[tokio::test]
async fn a_session_that_was_spoilt_before_goes_on() {
    for (name, poison) in POISONS {
        let world = world();
        world.file("a.txt", "alpha\n");
        let read = json!({"file_path": world.path("a.txt")});
        let first = Script::new().call("Read", read).then().say("done").serve().await.unwrap();
        world.run(&first).print_text("go").finish().await.expect_code(0);
        let path = world.transcripts().remove(0);
        let mut session = StoredSession { entries: world.transcript_entries() };
        poison(&mut session);
        let lines: String = session.entries.iter().map(|entry| format!("{entry}\n")).collect();
        std::fs::write(&path, lines).unwrap();
        let model = Script::new().say("resumed").then().say("still here").serve().await.unwrap();
        for answer in ["resumed\n", "still here\n"] {
            let run = world.run(&model).args(["-p", "--continue", "and now?"]).finish().await;
            assert_eq!((run.code, run.stdout.as_str()), (0, answer), "{name}: {} {:?}", run.stderr, model.rejections());
        }
        assert!(model.rejections().is_empty(), "{name}: {:?}", model.rejections());
    }
}

#[tokio::test]
async fn a_session_keeps_as_many_images_as_its_model_takes() {
    for (name, window_takes) in [("claude-opus-4-6", 130), ("claude-haiku-4-5", 100)] {
        let world = world();
        world.file("a.txt", "alpha\n");
        let read = json!({"file_path": world.path("a.txt")});
        let first = Script::new().call("Read", read).then().say("done").serve().await.unwrap();
        world.run(&first).args(["--model", name]).print_text("go").finish().await.expect_code(0);
        let mut session = StoredSession { entries: world.transcript_entries() };
        session.result_block()["content"] = json!(vec![image_block("image/gif", GIF); 130]);
        let lines: String = session.entries.iter().map(|entry| format!("{entry}\n")).collect();
        std::fs::write(world.transcripts().remove(0), lines).unwrap();
        let model = Script::new().say("resumed").serve().await.unwrap();
        let run = world.run(&model).args(["-p", "--continue", "and now?"]).finish().await;
        run.expect_code(0);
        assert!(model.rejections().is_empty(), "{name}: {:?}", model.rejections());
        let sent = model.request(0).body_text().matches(r#""type":"base64""#).count();
        assert_eq!(sent, window_takes, "{name}");
        let told = run.stderr.contains("the oldest 30 images are left out: the model takes 100 in a request");
        assert_eq!(told, window_takes == 100, "{name}: {}", run.stderr);
    }
}
