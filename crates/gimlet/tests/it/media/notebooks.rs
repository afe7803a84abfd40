//! Notebooks through the real binary: read, edited, and closed by rules.

use gimlet_script::Script;
use image::ImageFormat;
use serde_json::{Value, json};

use super::{image_sizes, sample_image};
use crate::world;

fn book() -> Value {
    use base64::Engine;
    let image = base64::engine::general_purpose::STANDARD.encode(sample_image(3_000, 30, ImageFormat::Png));
    json!({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [
        {"cell_type": "markdown", "id": "intro", "metadata": {}, "source": ["# Title"]},
        {"cell_type": "code", "id": "plot", "metadata": {}, "execution_count": 1, "source": ["plot()"],
            "outputs": [{"output_type": "display_data", "metadata": {}, "data": {"image/png": image}}]}]})
}

#[tokio::test]
async fn a_notebook_is_read_and_a_cell_changed() {
    let world = world();
    let path = world.file("b.ipynb", serde_json::to_string_pretty(&book()).unwrap());
    let script = Script::new().call("Read", json!({"file_path": path})).then();
    let edit = json!({"notebook_path": path, "cell_id": "plot", "new_source": "plot(2)\n"});
    let model = script.call("NotebookEdit", edit).then().say("done").serve().await.unwrap();
    let run = world.run(&model).args(["--permission-mode", "acceptEdits"]).print_text("change it").finish().await;
    run.expect_code(0);
    assert_eq!(image_sizes(&model.request(1).json()), [(2_000, 20)]);
    assert!(model.request(1).tool_result(0).contains("<cell id=\"intro\" type=\"markdown\">"));
    assert!(model.request(2).tool_result(0).contains("Replaced the source of cell \"plot\""));
    let changed: Value = serde_json::from_str(&world.read("b.ipynb")).unwrap();
    assert_eq!((&changed["cells"][1]["source"], &changed["cells"][1]["outputs"]), (&json!(["plot(2)\n"]), &json!([])));
    assert!(model.rejections().is_empty(), "{:?}", model.rejections());
}

#[tokio::test]
async fn edit_rules_and_read_denials_hold_for_notebooks() {
    for (flag, rule) in [
        ("--disallowedTools", "Edit(*.ipynb)"),
        ("--disallowedTools", "Read(*.ipynb)"),
        // Nobody can be asked.
        ("--allowedTools", "Edit(*.md)"),
    ] {
        let world = world();
        let path = world.file("b.ipynb", book().to_string());
        let before = world.read("b.ipynb");
        let edit = json!({"notebook_path": path, "cell_id": "intro", "new_source": "x"});
        let script = Script::new().call("Read", json!({"file_path": path})).then();
        let model = script.call("NotebookEdit", edit).then().say("done").serve().await.unwrap();
        world.run(&model).args([flag, rule]).print_text("change it").finish().await.expect_code(0);
        let told = model.request(2).tool_result(0);
        assert!(told.starts_with("NotebookEdit was not run"), "{rule}: {told}");
        assert_eq!(world.read("b.ipynb"), before, "{rule}");
    }
}
