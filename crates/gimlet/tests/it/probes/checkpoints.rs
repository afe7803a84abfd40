//! What files were before they changed is kept where a program asks for it, and only there.

use std::fs;

use gimlet_script::Script;
use serde_json::json;

use crate::world;

#[tokio::test]
async fn a_write_and_an_edit_leave_what_was_there_before_under_their_prompt() {
    for enabled in [true, false] {
        let world = world();
        world.file("a.txt", "one\n");
        let script = Script::new()
            .call("Read", json!({"file_path": world.path("a.txt")}))
            .then()
            .call("Edit", json!({"file_path": world.path("a.txt"), "old_string": "one", "new_string": "two"}))
            .call("Write", json!({"file_path": world.path("b.txt"), "content": "new\n"}))
            .then()
            .say("done");
        let model = script.serve().await.unwrap();
        let run = world.run(&model).stream("go");
        let run = if enabled { run.env("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING", "true") } else { run };
        run.finish().await.expect_code(0);
        assert_eq!((world.read("a.txt").as_str(), world.read("b.txt").as_str()), ("two\n", "new\n"));
        let history = world.home.join(".claude/file-history");
        assert_eq!(history.exists(), enabled);
        if !enabled {
            continue;
        }
        let session = fs::read_dir(history).unwrap().next().unwrap().unwrap().path();
        let prompt = world
            .transcript_entries()
            .into_iter()
            .find(|entry| entry["type"] == "user" && entry["isMeta"] != true)
            .unwrap();
        let journal = fs::read_to_string(session.join("journal.ndjson")).unwrap();
        let lines: Vec<serde_json::Value> =
            journal.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        assert_eq!(lines[0]["id"], prompt["uuid"]);
        let lines: Vec<_> = lines.into_iter().filter(|line| line["type"] != "written").collect();
        assert_eq!((&lines[1]["path"], &lines[2]["path"]), (&json!(world.path("a.txt")), &json!(world.path("b.txt"))));
        assert_eq!(lines[2]["was"], json!(null), "it was not there");
        let blob = session.join(lines[1]["was"]["blob"].as_str().unwrap());
        assert_eq!(fs::read_to_string(blob).unwrap(), "one\n");
    }
}
