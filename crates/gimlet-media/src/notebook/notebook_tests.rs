//! Notebooks of both formats, and edits that change one cell and no other byte.

use serde_json::json;

use super::*;

/// A notebook as Jupyter writes it.
const BOOK: &str = r##"{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "intro",
   "metadata": {},
   "source": [
    "# Title\n",
    "text é \u00e9"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 3,
   "id": "sum",
   "metadata": {
    "tags": [ "a" ],   "odd": 1.50
   },
   "outputs": [
    {
     "name": "stdout",
     "output_type": "stream",
     "text": [
      "one\n",
      "two\n"
     ]
    },
    {
     "data": {
      "image/png": "iVBORw0K\nGgo=",
      "text/plain": [
       "<Figure>"
      ]
     },
     "metadata": {},
     "output_type": "display_data"
    },
    {
     "ename": "ValueError",
     "evalue": "bad",
     "output_type": "error",
     "traceback": [
      "\u001b[31mValueError\u001b[0m: bad"
     ]
    }
   ],
   "source": "1 + 1"
  }
 ],
 "metadata": {
  "language_info": {
   "name": "julia"
  }
 },
 "nbformat": 4,
 "nbformat_minor": 5
}
"##;

fn edit(text: &str, cell_id: Option<&str>, change: CellChange) -> Result<EditedNotebook, CellEditError> {
    let mut number = 0;
    ParsedNotebook::parse(text).unwrap().edit(&CellEdit { cell_id: cell_id.map(str::to_owned), change }, || {
        number += 1;
        format!("new{number}")
    })
}

fn replace(source: &str, kind: Option<CellKind>) -> CellChange {
    CellChange::Replace { source: source.to_owned(), kind }
}

fn insert(source: &str, kind: CellKind) -> CellChange {
    CellChange::Insert { source: source.to_owned(), kind }
}

/// Builds a notebook whose cells have these ids.
fn book_with_ids(ids: &[&str]) -> String {
    let cells: Vec<Value> =
        ids.iter().map(|id| json!({"cell_type": "raw", "id": id, "metadata": {}, "source": []})).collect();
    json!({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).to_string()
}

#[test]
fn cells_have_ids_sources_and_outputs() {
    let book = ParsedNotebook::parse(BOOK).unwrap();
    assert_eq!((book.len(), book.language()), (2, "julia"));
    let intro = book.cell(0).unwrap();
    assert_eq!(
        (intro.id.as_str(), intro.kind, intro.source.as_str()),
        ("intro", CellKind::Markdown, "# Title\ntext é é")
    );
    let sum = book.cell(1).unwrap();
    assert_eq!((sum.execution_count, sum.source.as_str()), (Some(3), "1 + 1"));
    let outputs: Vec<(&str, &str)> =
        sum.outputs.iter().map(|output| (output.output_type.as_str(), output.text.as_str())).collect();
    assert_eq!(outputs, [("stream", "one\ntwo\n"), ("display_data", "<Figure>"), ("error", "ValueError: bad")]);
    let image = sum.outputs[1].image.as_ref().unwrap();
    assert_eq!((image.base64.as_str(), image.media_type.as_str()), ("iVBORw0KGgo=", "image/png"));
}

#[test]
fn the_older_format_is_read_and_not_changed() {
    let book = json!({"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": [
        {"cell_type": "heading", "level": 2, "source": ["Part"]},
        {"cell_type": "code", "input": ["x = 1\n", "x"], "prompt_number": 2, "language": "python", "outputs": [
            {"output_type": "pyout", "text": ["1"]}, {"output_type": "display_data", "png": "QUJD"}]},
    ]}]})
    .to_string();
    let parsed = ParsedNotebook::parse(&book).unwrap();
    assert_eq!(parsed.cell(0).unwrap().source, "## Part");
    let code = parsed.cell(1).unwrap();
    assert_eq!((code.id.as_str(), code.source.as_str(), code.execution_count), ("cell-1", "x = 1\nx", Some(2)));
    assert_eq!((code.outputs[0].output_type.as_str(), code.outputs[0].text.as_str()), ("execute_result", "1"));
    assert_eq!(code.outputs[1].image.as_ref().unwrap().base64, "QUJD");
    assert_eq!(edit(&book, Some("cell-1"), replace("x", None)), Err(CellEditError::OldFormat));
}

#[test]
fn a_replaced_cell_loses_its_outputs_and_every_other_byte_stays() {
    let edited = edit(BOOK, Some("sum"), replace("a\nb", None)).unwrap();
    assert_eq!((edited.old_source.as_deref(), edited.kind), (Some("1 + 1"), CellKind::Code));
    let start = BOOK.find("  {\n   \"cell_type\": \"code\"").unwrap();
    assert!(edited.text.starts_with(&BOOK[..start]));
    assert!(edited.text.ends_with(&BOOK[BOOK.find("\n ],\n \"metadata\"").unwrap()..]));
    let cell = &edited.text[start..];
    assert!(
        cell.starts_with("  {\n   \"cell_type\": \"code\",\n   \"execution_count\": null,\n   \"id\": \"sum\""),
        "{cell}"
    );
    assert!(cell.contains("\"outputs\": [],\n   \"source\": \"a\\nb\"\n  }"), "one text stays one: {cell}");

    let text = edit(BOOK, Some("intro"), replace("x\ny\n", None)).unwrap().text;
    assert!(text.contains("\"source\": [\n    \"x\\n\",\n    \"y\\n\"\n   ]\n  },\n"), "{text}");
    let same = edit(BOOK, Some("intro"), replace("# Title\ntext é é", None)).unwrap().text;
    assert_eq!(same.len(), BOOK.len() - "\\u00e9".len() + "é".len(), "only the escape is written out");
}

#[test]
fn a_cell_that_changes_its_kind_has_the_members_of_the_new_one() {
    let text = edit(BOOK, Some("sum"), replace("words", Some(CellKind::Markdown))).unwrap().text;
    let book: Value = serde_json::from_str(&text).unwrap();
    let members: Vec<&String> = book["cells"][1].as_object().unwrap().keys().collect();
    assert_eq!(members, ["cell_type", "id", "metadata", "source"]);
    let text = edit(BOOK, Some("intro"), replace("1", Some(CellKind::Code))).unwrap().text;
    let book: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&book["cells"][0]["outputs"], &book["cells"][0]["execution_count"]), (&json!([]), &Value::Null));
}

#[test]
fn cells_are_inserted_behind_one_or_at_the_start_and_deleted() {
    let edited = edit(BOOK, Some("intro"), insert("print()", CellKind::Code)).unwrap();
    assert_eq!(edited.cell_id, "new1");
    let book = ParsedNotebook::parse(&edited.text).unwrap();
    let ids: Vec<String> = (0..book.len()).map(|index| book.cell(index).unwrap().id).collect();
    assert_eq!(ids, ["intro", "new1", "sum"]);
    assert!(
        edited
            .text
            .contains("  },\n  {\n   \"cell_type\": \"code\",\n   \"execution_count\": null,\n   \"id\": \"new1\"")
    );
    let back = edit(&edited.text, Some("new1"), CellChange::Delete).unwrap();
    assert_eq!((back.text.as_str(), back.old_source.as_deref()), (BOOK, Some("print()")));

    let first = edit(BOOK, None, insert("x", CellKind::Markdown)).unwrap();
    assert_eq!(edit(&first.text, Some("new1"), CellChange::Delete).unwrap().text, BOOK);
    let last = edit(BOOK, Some("sum"), insert("x", CellKind::Markdown)).unwrap();
    assert_eq!(edit(&last.text, Some("new1"), CellChange::Delete).unwrap().text, BOOK);

    let one = edit(BOOK, Some("intro"), CellChange::Delete).unwrap().text;
    let none = edit(&one, Some("sum"), CellChange::Delete).unwrap().text;
    assert!(none.starts_with("{\n \"cells\": [],\n \"metadata\""), "{none}");
    let again = edit(&none, None, insert("x", CellKind::Code)).unwrap().text;
    assert!(again.starts_with("{\n \"cells\": [\n  {\n   \"cell_type\": \"code\""), "{again}");
}

#[test]
fn a_file_in_one_line_stays_one_and_a_format_without_ids_gets_none() {
    let book = r#"{"cells":[{"cell_type":"code","metadata":{},"source":"1","outputs":[],"execution_count":1}],"metadata":{},"nbformat":4,"nbformat_minor":4}"#;
    let edited = edit(book, Some("cell-0"), insert("2", CellKind::Markdown)).unwrap();
    assert_eq!(edited.cell_id, "cell-1");
    assert!(
        edited.text.contains(r#"},{"cell_type":"markdown","metadata":{},"source":["2"]}],"metadata""#),
        "{}",
        edited.text
    );
}

#[test]
fn an_id_that_several_cells_have_names_none_of_them() {
    let book = book_with_ids(&["a", "a", "cell-0", "b"]);
    let parsed = ParsedNotebook::parse(&book).unwrap();
    let ids: Vec<String> = (0..4).map(|index| parsed.cell(index).unwrap().id).collect();
    assert_eq!(ids, ["cell-0'", "cell-1", "cell-0", "b"], "a place is no name that a cell has");
    assert_eq!((parsed.find("cell-0"), parsed.find("cell-1"), parsed.find("cell-3")), (Ok(2), Ok(1), Ok(3)));
    let doubled = parsed.find("a").unwrap_err().to_string();
    assert!(doubled.contains("cell-0'") && doubled.contains("cell-1"), "{doubled}");
    assert!(parsed.find("cell-9").unwrap_err().to_string().contains("none of the 4 cells"));
    assert_eq!(edit(&book, None, CellChange::Delete), Err(CellEditError::NoTarget));
}

#[test]
fn what_is_no_notebook_says_why() {
    let deep = format!(r#"{{"nbformat":4,"cells":[{}1{}]}}"#, "[".repeat(500), "]".repeat(500));
    for (text, words) in [
        ("{", "not valid JSON"),
        ("[]", "no list of cells"),
        (r#"{"nbformat": 4}"#, "no list of cells"),
        (r#"{"nbformat": 4, "cells": 7}"#, "no list of cells"),
        (r#"{"nbformat": 3, "worksheets": [7]}"#, "no list of cells"),
        (r#"{"nbformat": 7, "cells": []}"#, "format 7"),
    ] {
        let fault = ParsedNotebook::parse(text).unwrap_err().to_string();
        assert!(fault.contains(words), "{text}: {fault}");
    }
    for (text, words) in [
        (r#"{"nbformat": 4, "cells": [7]}"#, "no object"),
        (r#"{"nbformat": 4, "cells": [{"source": "x"}]}"#, "no type"),
        (r#"{"nbformat": 4, "cells": [{"cell_type": "x"}]}"#, "\"x\""),
        (&deep, "recursion limit"),
    ] {
        let fault = ParsedNotebook::parse(text).and_then(|book| book.cell(0)).unwrap_err().to_string();
        assert!(fault.contains("cell 1 cannot be read") && fault.contains(words), "{text}: {fault}");
    }
}
