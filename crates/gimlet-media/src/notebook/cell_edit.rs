//! Changing one cell of a notebook. Everything outside the cell keeps its bytes; the cell keeps the order of its members
//! and the indentation of the file.

use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value, json};

use super::{CellKind, CellLookupError, ParsedNotebook, joined_text};

/// What becomes of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellChange {
    /// Another source, and another kind if one is named.
    Replace {
        source: String,
        kind: Option<CellKind>,
    },
    /// A new cell behind the one that is addressed, or at the start.
    Insert {
        source: String,
        kind: CellKind,
    },
    Delete,
}

/// A change of one cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellEdit {
    /// Id of the cell; for an insertion `None` is the start.
    pub cell_id: Option<String>,
    pub change: CellChange,
}

/// Reason why a cell cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CellEditError {
    #[error("{0}")]
    Lookup(#[from] CellLookupError),
    #[error("`cell_id` is missing: it says which cell to change")]
    NoTarget,
    #[error(
        "it has the notebook format 3, which is only read; convert it with `jupyter nbconvert --to notebook --nbformat 4`"
    )]
    OldFormat,
    #[error("the cell cannot be read ({0})")]
    BadCell(String),
}

/// A changed notebook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditedNotebook {
    pub text: String,
    /// Id of the cell that was changed, inserted or deleted.
    pub cell_id: String,
    pub kind: CellKind,
    /// The source before; `None` for an inserted cell.
    pub old_source: Option<String>,
}

/// Form of the JSON around a cell.
struct JsonLayout {
    /// Text of one level of indentation; `None` for a file in one line.
    indent: Option<String>,
}

impl ParsedNotebook<'_> {
    /// Applies an edit. `fresh_id` gives ids for inserted cells.
    pub fn edit(&self, edit: &CellEdit, mut fresh_id: impl FnMut() -> String) -> Result<EditedNotebook, CellEditError> {
        let list = self.list.ok_or(CellEditError::OldFormat)?;
        let target = edit.cell_id.as_deref().map(|id| self.find(id)).transpose()?;
        let layout = JsonLayout::detect(self.text);
        match (&edit.change, target) {
            (CellChange::Insert { source, kind }, after) => {
                let id = self.has_ids().then(|| self.unused_id(&mut fresh_id));
                let cell = layout.render(&new_cell(*kind, source, id.as_deref()));
                let place = after.map_or(0, |index| index + 1);
                let cell_id = id.unwrap_or_else(|| format!("cell-{place}"));
                Ok(EditedNotebook {
                    text: self.inserted(list, place, &cell, &layout),
                    cell_id,
                    kind: *kind,
                    old_source: None,
                })
            }
            (_, None) => Err(CellEditError::NoTarget),
            (CellChange::Replace { source, kind }, Some(index)) => {
                let mut cell = self.members(index)?;
                let old_source = cell.get("source").map(joined_text).unwrap_or_default();
                let kind = change_members(&mut cell, source, *kind).map_err(CellEditError::BadCell)?;
                let range = self.range(self.cells[index].raw);
                let mut text = String::with_capacity(self.text.len() + source.len());
                text.push_str(&self.text[..range.0]);
                text.push_str(&layout.render(&Value::Object(cell)));
                text.push_str(&self.text[range.1..]);
                let cell_id = self.cells[index].address.clone();
                Ok(EditedNotebook { text, cell_id, kind, old_source: Some(old_source) })
            }
            (CellChange::Delete, Some(index)) => {
                let cell = self.members(index)?;
                let kind = kind_of(&cell).map_err(CellEditError::BadCell)?;
                let old_source = cell.get("source").map(joined_text).unwrap_or_default();
                let cell_id = self.cells[index].address.clone();
                Ok(EditedNotebook { text: self.deleted(list, index), cell_id, kind, old_source: Some(old_source) })
            }
        }
    }

    /// Returns the start and the end of a part of the text.
    fn range(&self, part: &str) -> (usize, usize) {
        // The part is a piece of this text, so the difference of their addresses is its offset.
        let start = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        (start, start + part.len())
    }

    fn members(&self, index: usize) -> Result<Map<String, Value>, CellEditError> {
        serde_json::from_str(self.cells[index].raw).map_err(|error| CellEditError::BadCell(error.to_string()))
    }

    fn unused_id(&self, fresh_id: &mut impl FnMut() -> String) -> String {
        loop {
            let id = fresh_id();
            if self.cells.iter().all(|cell| cell.id.as_deref() != Some(&id)) {
                return id;
            }
        }
    }

    fn inserted(&self, list: &str, place: usize, cell: &str, layout: &JsonLayout) -> String {
        let separator = layout.line_break(2);
        let (at, piece) = if self.is_empty() {
            let (start, end) = self.range(list);
            let list = format!("[{separator}{cell}{}]", layout.line_break(1));
            return [&self.text[..start], &list, &self.text[end..]].concat();
        } else if place == 0 {
            (self.range(self.cells[0].raw).0, format!("{cell},{separator}"))
        } else {
            (self.range(self.cells[place - 1].raw).1, format!(",{separator}{cell}"))
        };
        [&self.text[..at], &piece, &self.text[at..]].concat()
    }

    fn deleted(&self, list: &str, index: usize) -> String {
        let of = |index: usize| self.range(self.cells[index].raw);
        let (start, end, with) = if self.len() == 1 {
            let (start, end) = self.range(list);
            (start, end, "[]")
        } else if index + 1 < self.len() {
            (of(index).0, of(index + 1).0, "")
        } else {
            (of(index - 1).1, of(index).1, "")
        };
        [&self.text[..start], with, &self.text[end..]].concat()
    }
}

fn kind_of(cell: &Map<String, Value>) -> Result<CellKind, String> {
    match cell.get("cell_type").and_then(Value::as_str) {
        Some("code") => Ok(CellKind::Code),
        Some("markdown") => Ok(CellKind::Markdown),
        Some("raw") => Ok(CellKind::Raw),
        other => Err(format!("its type is {other:?}")),
    }
}

/// Changes source and kind in a cell. What a run left in a code cell belongs to the old source and goes.
fn change_members(cell: &mut Map<String, Value>, source: &str, kind: Option<CellKind>) -> Result<CellKind, String> {
    let before = kind_of(cell)?;
    let kind = kind.unwrap_or(before);
    let is_one_text = matches!(cell.get("source"), Some(Value::String(_)));
    cell.insert("source".to_owned(), if is_one_text { json!(source) } else { source_lines(source) });
    cell.insert("cell_type".to_owned(), json!(kind.name()));
    if kind == CellKind::Code {
        cell.insert("execution_count".to_owned(), Value::Null);
        cell.insert("outputs".to_owned(), json!([]));
    } else {
        // The order of the other members stays.
        cell.shift_remove("execution_count");
        cell.shift_remove("outputs");
    }
    if kind == CellKind::Code && before != CellKind::Code {
        cell.shift_remove("attachments");
    }
    Ok(kind)
}

fn new_cell(kind: CellKind, source: &str, id: Option<&str>) -> Value {
    let mut cell = Map::new();
    cell.insert("cell_type".to_owned(), json!(kind.name()));
    if kind == CellKind::Code {
        cell.insert("execution_count".to_owned(), Value::Null);
    }
    if let Some(id) = id {
        cell.insert("id".to_owned(), json!(id));
    }
    cell.insert("metadata".to_owned(), json!({}));
    if kind == CellKind::Code {
        cell.insert("outputs".to_owned(), json!([]));
    }
    cell.insert("source".to_owned(), source_lines(source));
    Value::Object(cell)
}

/// Returns a source as notebooks have it: a list of lines with their ends.
fn source_lines(source: &str) -> Value {
    source.split_inclusive('\n').map(Value::from).collect()
}

impl JsonLayout {
    /// Detects the indentation by the first member of the file.
    fn detect(text: &str) -> Self {
        let inner = text.trim_start().strip_prefix('{').unwrap_or_default();
        let space: &str = &inner[..inner.len() - inner.trim_start().len()];
        Self { indent: space.rsplit_once('\n').map(|(_, indent)| indent.to_owned()) }
    }

    /// Returns the line break before an item at a depth.
    fn line_break(&self, depth: usize) -> String {
        match &self.indent {
            Some(indent) => format!("\n{}", indent.repeat(depth)),
            None => String::new(),
        }
    }

    /// Renders a cell, which stands at a depth of two.
    fn render(&self, cell: &Value) -> String {
        let Some(indent) = &self.indent else { return cell.to_string() };
        let mut bytes = Vec::new();
        let formatter = PrettyFormatter::with_indent(indent.as_bytes());
        // Writing a value to memory cannot fail.
        drop(serde::Serialize::serialize(cell, &mut Serializer::with_formatter(&mut bytes, formatter)));
        String::from_utf8_lossy(&bytes).replace('\n', &self.line_break(2))
    }
}
