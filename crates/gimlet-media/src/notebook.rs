//! Jupyter notebooks (nbformat 3 and 4): their cells, read one at a time from the file's text.
//!
//! A notebook is a view of its text. Cells are found, not parsed, when it is opened, so that a large one takes little
//! more memory than its file, and an edit can leave every byte outside its cell as it was.

mod cell_edit;
mod cell_output;

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

pub use cell_edit::{CellChange, CellEdit, CellEditError, EditedNotebook};
pub use cell_output::{CellOutput, OutputImage};

/// Kind of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellKind {
    Code,
    Markdown,
    Raw,
}

impl CellKind {
    pub fn name(self) -> &'static str {
        match self {
            CellKind::Code => "code",
            CellKind::Markdown => "markdown",
            CellKind::Raw => "raw",
        }
    }
}

/// Reason why a text is no notebook that can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotebookFault {
    #[error("it is not valid JSON ({0})")]
    NotJson(String),
    #[error("it has no list of cells")]
    NoCells,
    #[error("it has the notebook format {0}, and only 3 and 4 are known")]
    UnknownFormat(u64),
    #[error("cell {number} cannot be read ({reason})")]
    BadCell { number: usize, reason: String },
}

/// A notebook, with its cells not yet parsed.
#[derive(Debug)]
pub struct ParsedNotebook<'a> {
    text: &'a str,
    format: (u64, u64),
    language: String,
    cells: Vec<CellSpan<'a>>,
    /// Text of the list of cells; `None` for format 3.
    list: Option<&'a str>,
}

/// A cell's text, and its id.
#[derive(Debug)]
struct CellSpan<'a> {
    raw: &'a str,
    /// The id in the file.
    id: Option<String>,
    /// The id by which the cell is addressed.
    address: String,
}

/// A parsed cell.
#[derive(Clone, Debug, PartialEq)]
pub struct NotebookCell {
    /// The id by which the cell is addressed: its own, or `cell-N` counted from 0.
    pub id: String,
    pub kind: CellKind,
    pub source: String,
    /// Number of the run that gave the outputs.
    pub execution_count: Option<u64>,
    pub outputs: Vec<CellOutput>,
}

#[derive(Deserialize)]
struct NotebookJson<'a> {
    #[serde(borrow, default)]
    cells: Option<&'a RawValue>,
    #[serde(borrow, default)]
    worksheets: Option<&'a RawValue>,
    #[serde(default)]
    metadata: Option<Value>,
    #[serde(default)]
    nbformat: Option<Value>,
    #[serde(default)]
    nbformat_minor: Option<Value>,
}

#[derive(Deserialize)]
struct CellHead {
    #[serde(default)]
    id: Option<Value>,
}

impl<'a> ParsedNotebook<'a> {
    /// Finds the cells of a notebook.
    pub fn parse(text: &'a str) -> Result<Self, NotebookFault> {
        let not_json = |error: serde_json::Error| NotebookFault::NotJson(error.to_string());
        let json: NotebookJson<'a> = serde_json::from_str(text).map_err(not_json)?;
        let number = |value: &Option<Value>| value.as_ref().and_then(Value::as_u64);
        let major = number(&json.nbformat).unwrap_or(if json.worksheets.is_some() { 3 } else { 4 });
        let (list, raws): (_, Vec<&'a RawValue>) = match (major, json.cells) {
            (4, Some(cells)) => {
                (Some(cells.get()), serde_json::from_str(cells.get()).map_err(|_| NotebookFault::NoCells)?)
            }
            (3, _) => (None, worksheet_cells(json.worksheets)?),
            (4, None) => return Err(NotebookFault::NoCells),
            (other, _) => return Err(NotebookFault::UnknownFormat(other)),
        };
        let language = json.metadata.as_ref().and_then(language_of).unwrap_or("python").to_owned();
        let cells = cell_spans(&raws);
        Ok(Self { text, format: (major, number(&json.nbformat_minor).unwrap_or(0)), language, cells, list })
    }

    /// Returns the language of the code cells.
    pub fn language(&self) -> &str {
        &self.language
    }

    pub fn len(&self) -> usize {
        self.cells.len()
    }

    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Parses the cell at an index.
    pub fn cell(&self, index: usize) -> Result<NotebookCell, NotebookFault> {
        let fault = |reason: String| NotebookFault::BadCell { number: index + 1, reason };
        let Some(span) = self.cells.get(index) else { return Err(fault("there is none".to_owned())) };
        let value: Value = serde_json::from_str(span.raw).map_err(|error| fault(error.to_string()))?;
        parse_cell(&value, span.address.clone()).map_err(fault)
    }

    /// Returns the index of the cell with this id.
    pub fn find(&self, id: &str) -> Result<usize, CellLookupError> {
        let mut own = (0..self.len()).filter(|index| self.cells[*index].id.as_deref() == Some(id));
        if let Some(first) = own.next() {
            return match own.next() {
                None => Ok(first),
                Some(second) => Err(CellLookupError::Doubled {
                    id: id.to_owned(),
                    first: self.cells[first].address.clone(),
                    second: self.cells[second].address.clone(),
                }),
            };
        }
        let by_place = || id.strip_prefix("cell-")?.parse().ok().filter(|index| *index < self.len());
        let found = self.cells.iter().position(|cell| cell.address == id).or_else(by_place);
        found.ok_or_else(|| CellLookupError::Missing { id: id.to_owned(), cells: self.len() })
    }

    /// Returns true if cells of this format have ids.
    fn has_ids(&self) -> bool {
        self.format >= (4, 5)
    }
}

/// Reason why no cell has an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellLookupError {
    Missing {
        id: String,
        cells: usize,
    },
    /// Several cells have it; two of them by their addresses.
    Doubled {
        id: String,
        first: String,
        second: String,
    },
}

impl fmt::Display for CellLookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CellLookupError::Missing { id, cells } => {
                write!(f, "none of the {cells} cells has the id {id:?}; read the notebook for their ids")
            }
            CellLookupError::Doubled { id, first, second } => {
                write!(
                    f,
                    "several cells have the id {id:?}; name the one that is meant by its place: {first}, {second}"
                )
            }
        }
    }
}

impl std::error::Error for CellLookupError {}

fn worksheet_cells<'a>(worksheets: Option<&'a RawValue>) -> Result<Vec<&'a RawValue>, NotebookFault> {
    #[derive(Deserialize)]
    struct WorksheetJson<'a> {
        #[serde(borrow, default)]
        cells: Vec<&'a RawValue>,
    }
    let worksheets = worksheets.ok_or(NotebookFault::NoCells)?;
    let sheets: Vec<WorksheetJson<'a>> = serde_json::from_str(worksheets.get()).map_err(|_| NotebookFault::NoCells)?;
    Ok(sheets.into_iter().flat_map(|sheet| sheet.cells).collect())
}

/// Returns the cells with their addresses. An id that only one cell has is its address; the others are addressed by
/// their place, unless a cell has that word as its id.
fn cell_spans<'a>(raws: &[&'a RawValue]) -> Vec<CellSpan<'a>> {
    let ids: Vec<Option<String>> = raws
        .iter()
        .map(|raw| match serde_json::from_str::<CellHead>(raw.get()).ok()?.id? {
            Value::String(id) if !id.is_empty() => Some(id),
            _ => None,
        })
        .collect();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for id in ids.iter().flatten() {
        *counts.entry(id).or_default() += 1;
    }
    let place = |index: usize| {
        let mut word = format!("cell-{index}");
        while counts.contains_key(word.as_str()) {
            word.push('\'');
        }
        word
    };
    let addresses: Vec<String> = ids
        .iter()
        .enumerate()
        .map(|(index, id)| match id {
            Some(id) if counts.get(id.as_str()) == Some(&1) => id.clone(),
            Some(_) | None => place(index),
        })
        .collect();
    let spans = raws.iter().zip(ids.clone()).zip(addresses);
    spans.map(|((raw, id), address)| CellSpan { raw: raw.get(), id, address }).collect()
}

fn language_of(metadata: &Value) -> Option<&str> {
    let names = [&metadata["language_info"]["name"], &metadata["kernelspec"]["language"], &metadata["language"]];
    names.into_iter().find_map(Value::as_str).filter(|name| !name.is_empty())
}

fn parse_cell(value: &Value, id: String) -> Result<NotebookCell, String> {
    let Value::Object(members) = value else { return Err("it is no object".to_owned()) };
    let kind = match value["cell_type"].as_str() {
        Some("code") => CellKind::Code,
        Some("markdown" | "heading") => CellKind::Markdown,
        Some("raw") => CellKind::Raw,
        Some(other) => return Err(format!("its type is {other:?}")),
        None => return Err("it has no type".to_owned()),
    };
    // Format 3 has the source of code elsewhere, and marks headings by their level.
    let source = members.get("source").or_else(|| members.get("input")).map(joined_text).unwrap_or_default();
    let source = match value["level"].as_u64() {
        Some(level) if value["cell_type"] == "heading" => {
            format!("{} {source}", "#".repeat(level.clamp(1, 6) as usize))
        }
        _ => source,
    };
    let count = value["execution_count"].as_u64().or_else(|| value["prompt_number"].as_u64());
    let outputs = match (&value["outputs"], kind) {
        (Value::Array(outputs), CellKind::Code) => outputs.iter().map(CellOutput::from_json).collect(),
        _ => Vec::new(),
    };
    Ok(NotebookCell { id, kind, source, execution_count: count, outputs })
}

/// Returns the text of a member that is one text or a list of lines.
fn joined_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

#[cfg(test)]
#[path = "notebook/notebook_tests.rs"]
mod notebook_tests;
