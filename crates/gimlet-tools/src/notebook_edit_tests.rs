//! NotebookEdit on real files: what must be known first, what changes, and what is refused.

use serde_json::{Value, json};

use super::*;
use crate::harness::{ToolBench, ToolCallResult};
use crate::read::Read;

const BOOK: &str = r#"{
  "cells": [
    {
      "cell_type": "code",
      "execution_count": 1,
      "id": "first",
      "metadata": {},
      "outputs": [],
      "source": [
        "x = 1\n",
        "x"
      ]
    }
  ],
  "metadata": {},
  "nbformat": 4,
  "nbformat_minor": 5
}
"#;

async fn edit(bench: &mut ToolBench, mut input: Value) -> Result<ToolCallResult, ToolError> {
    input["notebook_path"] = json!(bench.path("b.ipynb"));
    bench.call(&NotebookEdit, input).await
}

/// A notebook that was read.
async fn known() -> ToolBench {
    let mut bench = ToolBench::new();
    let path = bench.file("b.ipynb", BOOK);
    bench.call(&Read, json!({"file_path": path})).await.unwrap();
    bench
}

#[test]
fn inputs_tell_what_they_need() {
    let bench = ToolBench::new();
    let input = json!({"path": "b.ipynb", "source": "x", "cell_id": "a"});
    let (needs, description) = bench.prepare(&NotebookEdit, input).unwrap();
    assert_eq!((needs, description.as_str()), (vec![AccessNeed::Write(bench.path("b.ipynb"))], "b.ipynb"));
    for (input, words) in [
        (json!({"notebook_path": "b.txt", "new_source": "", "cell_id": "a"}), "with Edit"),
        (json!({"notebook_path": "b.ipynb", "new_source": ""}), "`cell_id` is missing"),
        (json!({"notebook_path": "b.ipynb", "new_source": "", "edit_mode": "insert"}), "needs `cell_type`"),
        (json!({"notebook_path": "b.ipynb", "new_source": "", "edit_mode": "move"}), "edit_mode"),
        (json!({"notebook_path": "b.ipynb", "new_source": "", "cell_type": "raw", "cell_id": "a"}), "cell_type"),
        (json!({"notebook_path": "b.ipynb", "cell_id": "a"}), "`new_source` is missing"),
        (json!({"notebook_path": "", "new_source": "", "cell_id": "a"}), "`notebook_path`"),
    ] {
        let refused = bench.prepare(&NotebookEdit, input.clone()).unwrap_err().model_text;
        assert!(refused.contains(words), "{input}: {refused}");
    }
}

#[tokio::test]
async fn a_cell_is_replaced_and_the_output_has_the_public_shape() {
    let mut bench = known().await;
    let given = edit(&mut bench, json!({"cell_id": "first", "new_source": "y"})).await.unwrap();
    let path = bench.path("b.ipynb");
    assert_eq!(given.text, format!("Replaced the source of cell \"first\" in {}.", path.display()));
    let updated = BOOK
        .replace("\"execution_count\": 1", "\"execution_count\": null")
        .replace("        \"x = 1\\n\",\n        \"x\"\n", "        \"y\"\n");
    assert_eq!(bench.text("b.ipynb"), updated);
    assert_eq!(
        given.output,
        json!({"new_source": "y", "old_source": "x = 1\nx", "cell_id": "first", "cell_type": "code",
            "language": "python", "edit_mode": "replace", "notebook_path": path, "original_file": BOOK,
            "updated_file": updated})
    );
    let View::Diff { path: shown, hunks } = given.view else { panic!() };
    assert_eq!(shown, format!("{} · first", path.display()));
    assert_eq!(hunks[0].lines, ["-x = 1", "-x", "+y"]);
    // What was written is known: the next edit needs no read.
    edit(&mut bench, json!({"cell_id": "first", "new_source": "z", "cell_type": "markdown"})).await.unwrap();
    assert!(bench.text("b.ipynb").contains("\"cell_type\": \"markdown\",\n      \"id\""));
}

#[tokio::test]
async fn cells_are_inserted_and_deleted() {
    let mut bench = known().await;
    let input = json!({"cell_id": "first", "new_source": "# A\n", "cell_type": "markdown", "edit_mode": "insert"});
    let given = edit(&mut bench, input).await.unwrap();
    let id = given.output["cell_id"].as_str().unwrap().to_owned();
    assert!(id.len() == 8 && given.output.get("old_source").is_none(), "{}", given.output);
    let given = edit(&mut bench, json!({"cell_id": id, "new_source": "", "edit_mode": "delete"})).await.unwrap();
    assert_eq!((bench.text("b.ipynb").as_str(), &given.output["old_source"]), (BOOK, &json!("# A\n")));
}

#[tokio::test]
async fn a_notebook_must_be_read_first_and_be_the_same_since() {
    let mut bench = ToolBench::new();
    let change = json!({"cell_id": "first", "new_source": "y"});
    assert!(edit(&mut bench, change.clone()).await.unwrap_err().model_text.contains("does not exist"));
    let path = bench.file("b.ipynb", BOOK);
    assert!(edit(&mut bench, change.clone()).await.unwrap_err().model_text.contains("Read it first"));
    bench.call(&Read, json!({"file_path": path})).await.unwrap();
    bench.file("b.ipynb", BOOK.replace("x = 1", "x = 2"));
    assert!(edit(&mut bench, change.clone()).await.unwrap_err().model_text.contains("Read it again"));
    bench.call(&Read, json!({"file_path": path})).await.unwrap();
    let missing = edit(&mut bench, json!({"cell_id": "second", "new_source": "y"})).await.unwrap_err();
    assert!(missing.model_text.contains("none of the 1 cells has the id \"second\""), "{missing}");
    assert!(bench.names() == ["b.ipynb"] && bench.text("b.ipynb").contains("x = 2"));
}
