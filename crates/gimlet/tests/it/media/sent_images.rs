//! Images that are read, mentioned, attached, printed or returned: each reaches the model within the limits.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gimlet_script::Script;
use image::ImageFormat;
use serde_json::json;

use super::{image_sizes, sample_image};
use crate::sdk::SdkHost;
use crate::world;

#[tokio::test]
async fn an_image_is_read_at_the_size_that_the_model_uses() {
    for (model_name, shown) in [("claude-sonnet-5-5", (2_000, 300)), ("claude-haiku-4-5", (1_568, 235))] {
        let world = world();
        let path = world.file("wide.png", sample_image(4_000, 600, ImageFormat::Png));
        let model =
            Script::new().call("Read", json!({"file_path": path})).then().say("A wide one.").serve().await.unwrap();
        let run = world.run(&model).args(["--model", model_name]).stream("what is it?").finish().await;
        run.expect_code(0);
        assert_eq!(image_sizes(&model.request(1).json()), [shown], "{model_name}");
        let said = format!("4000 × 600 pixels, shown at {} × {}", shown.0, shown.1);
        assert!(model.request(1).body_text().contains(&said), "{model_name}");
        let lines = run.lines();
        let output = lines.iter().find_map(|line| line["tool_use_result"]["file"].as_object()).unwrap();
        assert_eq!(output["dimensions"]["originalWidth"], 4_000);
        assert!(model.rejections().is_empty(), "{:?}", model.rejections());

        let later = Script::new().say("resumed").serve().await.unwrap();
        world.run(&later).args(["-p", "--continue", "and now?"]).finish().await.expect_code(0);
        assert_eq!(image_sizes(&later.request(0).json()), [shown], "{model_name}: it is kept");
    }
}

#[tokio::test]
async fn a_mentioned_image_comes_with_the_prompt() {
    let world = world();
    world.file("shot.jpg", sample_image(3_000, 30, ImageFormat::Jpeg));
    let model = Script::new().say("ok").serve().await.unwrap();
    world.run(&model).print_text("what is in @shot.jpg?").finish().await.expect_code(0);
    assert_eq!(image_sizes(&model.request(0).json()), [(2_000, 20)]);
    assert!(model.request(0).last_user_text().contains("3000 × 30 pixels, shown at 2000 × 20"));
    assert!(model.rejections().is_empty(), "{:?}", model.rejections());
}

#[tokio::test]
async fn an_attached_image_is_scaled_and_the_model_is_told() {
    let world = world();
    let model = Script::new().say("seen").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    // More pixels on a side than any server takes.
    let data = STANDARD.encode(sample_image(9_000, 90, ImageFormat::Png));
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}});
    let content = json!([{"type": "text", "text": "look"}, image]);
    host.send_line(json!({"type": "user", "message": {"role": "user", "content": content}}));
    assert_eq!(host.result().await["result"], "seen");
    host.end().await.clean(0);
    assert_eq!(image_sizes(&model.request(0).json()), [(2_000, 20)]);
    assert!(model.request(0).last_user_text().contains("scaled from 9000 × 90 to 2000 × 20 pixels"));
}

#[tokio::test]
async fn a_printed_image_is_scaled() {
    let world = world();
    world.file(
        "uri.txt",
        format!("data:image/png;base64,{}", STANDARD.encode(sample_image(8_800, 88, ImageFormat::Png))),
    );
    let model = Script::new().call("Bash", json!({"command": "cat uri.txt"})).then().say("ok").serve().await.unwrap();
    world.run(&model).print_text("print it").finish().await.expect_code(0);
    assert_eq!(image_sizes(&model.request(1).json()), [(2_000, 20)]);
}

#[tokio::test]
async fn what_is_no_image_is_one_clear_line() {
    let world = world();
    let whole = sample_image(60, 60, ImageFormat::Png);
    let mut vast = whole.clone();
    vast[16..24].copy_from_slice(&[0, 0, 0x75, 0x30, 0, 0, 0x75, 0x30]);
    vast[29..33].copy_from_slice(&0xE945_6FED_u32.to_be_bytes());
    let files = [
        ("page.png", b"<html></html>".to_vec(), "1\t<html></html>"),
        ("empty.png", Vec::new(), "is empty (0 bytes)"),
        ("cut.png", whole[..whole.len() / 2].to_vec(), "damaged or cut off"),
        ("vast.png", vast, "30000 × 30000 pixels"),
    ];
    for (name, bytes, words) in files {
        let path = world.file(name, bytes);
        let model = Script::new().call("Read", json!({"file_path": path})).then().say("ok").serve().await.unwrap();
        world.run(&model).print_text("read it").finish().await.expect_code(0);
        let told = model.request(1).tool_result(0);
        assert!(told.contains(words) && !told.contains('\n'), "{name}: {told}");
    }
}
