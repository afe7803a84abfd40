//! Cells of a notebook as Read gives them to programs and to the model: sources, outputs and images, within the token
//! budget. Cells are counted like lines.

use std::fmt::Write as _;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gimlet_media::{CellOutput, FittedImage, ImageLimits, NotebookCell, NotebookFault, OutputImage, ParsedNotebook};
use gimlet_proto::{ContentPart, ResultContent};
use serde::{Deserialize, Serialize};

use super::read_page::TokenBudget;

/// Characters of one output that are shown.
const MAX_OUTPUT_CHARS: usize = 10_000;
/// Characters of a source that are shown.
const MAX_SOURCE_CHARS: usize = 50_000;
/// Images that one read shows.
const MAX_IMAGES: usize = 20;

/// Cells that a read asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct CellSelection {
    /// First cell, from 1.
    pub(super) first: u64,
    pub(super) limit: Option<u64>,
}

/// Some cells of a notebook.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NotebookPage {
    pub(super) file_path: String,
    cells: Vec<ShownCell>,
    #[serde(skip)]
    first: u64,
    #[serde(skip)]
    total: u64,
    /// Set if the budget ended the page.
    #[serde(skip)]
    is_over_budget: bool,
    /// Number of sources that were cut.
    #[serde(skip)]
    cut_sources: u64,
}

/// A cell in the public shape.
#[derive(Debug, Serialize, Deserialize)]
struct ShownCell {
    #[serde(rename = "cellType")]
    cell_type: String,
    source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    execution_count: Option<u64>,
    cell_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    language: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    outputs: Vec<ShownOutput>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ShownOutput {
    output_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    image: Option<ShownImage>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ShownImage {
    image_data: String,
    media_type: String,
    /// Size in pixels, for the budget.
    #[serde(skip)]
    size: (u32, u32),
}

/// Converts cells to their public shape.
struct CellReader<'a> {
    path: &'a str,
    language: &'a str,
    limits: ImageLimits,
    images: usize,
    cut_sources: u64,
}

impl NotebookPage {
    /// Reads the selected cells as far as they fit the budget; the first always does.
    pub(super) fn read(
        path: &str,
        text: &str,
        selection: CellSelection,
        budget: TokenBudget,
        limits: ImageLimits,
    ) -> Result<Self, NotebookFault> {
        let notebook = ParsedNotebook::parse(text)?;
        let first = usize::try_from(selection.first.saturating_sub(1)).unwrap_or(usize::MAX);
        let limit = selection.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let mut reader = CellReader { path, language: notebook.language(), limits, images: 0, cut_sources: 0 };
        let mut page = Self {
            file_path: path.to_owned(),
            cells: Vec::new(),
            first: selection.first.max(1),
            total: notebook.len() as u64,
            is_over_budget: false,
            cut_sources: 0,
        };
        let mut spent = 0;
        for index in (first..notebook.len()).take(limit) {
            let cell = reader.shown_cell(index, notebook.cell(index)?);
            spent += cell.cost(budget);
            if !page.cells.is_empty() && !budget.can_afford(spent) {
                page.is_over_budget = true;
                break;
            }
            page.cells.push(cell);
        }
        page.cut_sources = reader.cut_sources;
        Ok(page)
    }

    /// Returns true if every cell is shown with its whole source.
    pub(super) fn is_whole(&self) -> bool {
        self.cells.len() as u64 == self.total && self.cut_sources == 0
    }

    /// Returns the cells for the model, images in their places.
    pub(super) fn content(&self) -> ResultContent {
        if self.total == 0 {
            return format!("{} is a notebook without cells.", self.file_path).into();
        }
        if self.cells.is_empty() {
            let (path, total, first) = (&self.file_path, self.total, self.first);
            return format!("{path} has {total} cells; cell {first} is past its end.").into();
        }
        let mut parts = Vec::new();
        let mut text = String::new();
        for cell in &self.cells {
            cell.push_text(&mut text);
            for output in &cell.outputs {
                output.push_text(&cell.cell_id, &mut text);
                if let Some(image) = &output.image {
                    parts.push(ContentPart::Text { text: std::mem::take(&mut text).trim_end().to_owned() });
                    parts.push(ContentPart::image(image.media_type.as_str(), image.image_data.as_str()));
                }
            }
        }
        self.push_notice(&mut text);
        let text = text.trim_end().to_owned();
        if parts.is_empty() {
            return text.into();
        }
        if !text.is_empty() {
            parts.push(ContentPart::Text { text });
        }
        ResultContent::Parts(parts)
    }

    fn last(&self) -> u64 {
        self.first + self.cells.len() as u64 - 1
    }

    fn push_notice(&self, text: &mut String) {
        let has_more = self.last() < self.total;
        let reasons = [
            (self.is_over_budget, "token_budget"),
            (self.cut_sources > 0, "long_cells"),
            (!self.is_over_budget && (has_more || self.first > 1), "range"),
        ];
        let reasons: Vec<&str> =
            reasons.into_iter().filter(|(applies, _)| *applies).map(|(_, reason)| reason).collect();
        if reasons.is_empty() {
            return;
        }
        let next = if has_more { format!(" next_offset={}", self.last() + 1) } else { String::new() };
        let (first, last, total, reasons) = (self.first, self.last(), self.total, reasons.join(","));
        // Writing to a string cannot fail.
        let _ = write!(text, "\n[PARTIAL view: cells={first}-{last} total={total}{next} reason={reasons}]");
    }

    /// Returns a short description for people.
    pub(super) fn summary(&self) -> String {
        match self.cells.len() {
            1 => "notebook, 1 cell".to_owned(),
            count => format!("notebook, {count} cells"),
        }
    }
}

impl CellReader<'_> {
    fn shown_cell(&mut self, index: usize, cell: NotebookCell) -> ShownCell {
        let NotebookCell { id, kind, source, execution_count, outputs } = cell;
        let outputs = outputs.into_iter().enumerate();
        let outputs: Vec<ShownOutput> =
            outputs.map(|(place, output)| self.shown_output(index, place, output)).collect();
        let source = match source.char_indices().nth(MAX_SOURCE_CHARS) {
            None => source,
            Some((end, _)) => {
                self.cut_sources += 1;
                format!("{}\n[cell cut: {MAX_SOURCE_CHARS} of {} characters]", &source[..end], source.chars().count())
            }
        };
        let is_code = kind == gimlet_media::CellKind::Code;
        ShownCell {
            cell_type: kind.name().to_owned(),
            source,
            execution_count,
            cell_id: id,
            language: is_code.then(|| self.language.to_owned()),
            outputs,
        }
    }

    fn shown_output(&mut self, cell: usize, place: usize, output: CellOutput) -> ShownOutput {
        let CellOutput { output_type, mut text, image } = output;
        if text.chars().nth(MAX_OUTPUT_CHARS).is_some() {
            let (length, path) = (text.chars().count(), gimlet_text::quote_shell_word(self.path));
            text = format!(
                "({length} characters are left out; see them with: jq '.cells[{cell}].outputs[{place}]' {path})"
            );
        }
        let mut shown = None;
        if let Some(image) = image {
            match self.fit(&image) {
                Ok(image) => shown = Some(image),
                Err(why) => {
                    let _ = write!(text, "\n(An image was left out: {why}.)");
                }
            }
        }
        let text = if text.trim().is_empty() { None } else { Some(text) };
        ShownOutput { output_type, text, image: shown }
    }

    fn fit(&mut self, image: &OutputImage) -> Result<ShownImage, String> {
        if self.images == MAX_IMAGES {
            return Err(format!("one read shows {MAX_IMAGES} of them; read fewer cells with `offset` and `limit`"));
        }
        let bytes = STANDARD.decode(&image.base64).map_err(|_| "its data is not base64".to_owned())?;
        let fitted = FittedImage::fit(bytes, self.limits).map_err(|fault| fault.to_string())?;
        self.images += 1;
        Ok(ShownImage {
            image_data: STANDARD.encode(&fitted.bytes),
            media_type: fitted.format.media_type().to_owned(),
            size: (fitted.size.width, fitted.size.height),
        })
    }
}

impl ShownCell {
    fn push_text(&self, text: &mut String) {
        let Self { cell_id, cell_type, .. } = self;
        let _ = write!(text, "<cell id={cell_id:?} type={cell_type:?}");
        if let Some(language) = &self.language {
            let _ = write!(text, " language={language:?}");
        }
        if let Some(count) = self.execution_count {
            let _ = write!(text, " run=\"{count}\"");
        }
        let _ = writeln!(text, ">\n{}\n</cell>", self.source.trim_end_matches('\n'));
    }

    fn cost(&self, budget: TokenBudget) -> u64 {
        let outputs = self.outputs.iter().filter_map(|output| output.text.as_deref());
        let texts = std::iter::once(self.source.as_str()).chain(outputs);
        // A line for the marks around each text.
        let texts: u64 = texts.map(|text| budget.cost(1, text) + 60).sum();
        let images = self.outputs.iter().filter_map(|output| output.image.as_ref());
        texts + images.map(|image| image.tokens() * 4).sum::<u64>()
    }
}

impl ShownOutput {
    fn push_text(&self, cell_id: &str, text: &mut String) {
        let kind = &self.output_type;
        let _ = match &self.text {
            Some(shown) => writeln!(text, "<output cell={cell_id:?} type={kind:?}>\n{}\n</output>", shown.trim_end()),
            None if self.image.is_some() => writeln!(text, "<output cell={cell_id:?} type={kind:?}/>"),
            None => Ok(()),
        };
    }
}

impl ShownImage {
    fn tokens(&self) -> u64 {
        u64::from(self.size.0.div_ceil(28)) * u64::from(self.size.1.div_ceil(28))
    }
}
