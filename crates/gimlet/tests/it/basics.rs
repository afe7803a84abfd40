//! The main job: a prompt goes in, work is done, the answer and the record come out.

use gimlet_script::Script;
use serde_json::json;

use crate::world;

#[tokio::test]
async fn a_prompt_reads_a_file_and_answers() {
    let world = world();
    world.file("a.rs", "fn main() {}\n");
    let model = Script::new()
        .say("Looking.")
        .call("Read", json!({"file_path": world.path("a.rs")}))
        .then()
        .say("It is an empty main.")
        .serve()
        .await
        .unwrap();
    let run = world.run(&model).print_text("what is in a.rs?").finish().await;
    run.expect_code(0);
    assert_eq!(run.stdout, "It is an empty main.\n");
    assert_eq!(run.stderr, "");
    assert_eq!(model.request(1).tool_result(0), "1\tfn main() {}");
    assert!(model.failures().is_empty() && model.rejections().is_empty(), "{:?}", model.rejections());
    assert!(model.prefix_equal(0, 1), "{:?}", model.prefix_difference(0, 1));
}
