//! Front matter of a document: YAML between two lines of dashes. Much of what people publish is not valid YAML (a
//! description with `: ` in it, `argument-hint: [a] [b]`); such text is read again line by line, and what is lost is
//! reported with its line.

use std::ops::Range;

use super::yaml_value::{self, YamlError, YamlMember, YamlNode, YamlValue};
use crate::problem::ProblemSeverity;

/// Maximum size of front matter that is read.
const FRONT_MATTER_MAX_BYTES: usize = 64 * 1024;

/// Fields that front matter of one kind of document may have.
pub(super) struct FieldTable {
    /// Fields with an effect, by their documented names.
    pub(super) names: &'static [&'static str],
    /// Names that were once documented, or that people use for a field.
    pub(super) old_names: &'static [(&'static str, &'static str)],
    /// Fields that are accepted without an effect.
    pub(super) inert: &'static [&'static str],
    /// Fields whose values have parts, which cannot be read as text.
    pub(super) structured: &'static [&'static str],
}

/// Field as written.
#[derive(Debug)]
pub(super) struct FrontMatterField {
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) node: YamlNode,
    /// Text behind the colon in the field's first line.
    pub(super) raw: String,
}

/// Something to report about front matter.
#[derive(Debug)]
pub(super) struct FrontMatterNote {
    pub(super) severity: ProblemSeverity,
    pub(super) line: usize,
    pub(super) key: String,
    pub(super) message: String,
}

/// Front matter that could not be read at all: the line and the reason.
#[derive(Debug)]
pub(super) struct UnreadableFrontMatter {
    pub(super) line: usize,
    pub(super) message: String,
}

#[derive(Debug, Default)]
pub(super) struct FrontMatter {
    pub(super) fields: Vec<FrontMatterField>,
    pub(super) notes: Vec<FrontMatterNote>,
}

/// Parts of a document, as byte ranges of its text.
pub(crate) struct DocumentParts {
    /// Front matter with its first border and without its second one; empty without front matter.
    pub(crate) front_matter: Range<usize>,
    pub(crate) body: Range<usize>,
    /// False if front matter begins and never ends; it is then the whole text.
    pub(crate) is_closed: bool,
}

/// Splits a text into its front matter and the rest.
pub(crate) fn split_document(text: &str) -> DocumentParts {
    let start = text.len() - text.trim_start_matches('\u{feff}').len();
    let mut at = start;
    for (number, line) in text[start..].split_inclusive('\n').enumerate() {
        match (number, line.trim_end() == "---") {
            (0, false) => break,
            (1.., true) => {
                return DocumentParts { front_matter: start..at, body: at + line.len()..text.len(), is_closed: true };
            }
            _ => at += line.len(),
        }
    }
    if at == start {
        return DocumentParts { front_matter: start..start, body: start..text.len(), is_closed: true };
    }
    DocumentParts { front_matter: start..text.len(), body: text.len()..text.len(), is_closed: false }
}

/// Returns the form of a field's name that all its spellings share.
pub(crate) fn normalize_key(key: &str) -> String {
    key.chars().filter(|char| !matches!(char, '-' | '_')).map(|char| char.to_ascii_lowercase()).collect()
}

impl FieldTable {
    /// Returns the documented name of a key; `None` if it is unknown.
    pub(super) fn documented_name(&self, key: &str) -> Option<&'static str> {
        let all = || self.names.iter().chain(self.inert);
        if let Some(name) = all().find(|name| **name == key) {
            return Some(name);
        }
        let normal = normalize_key(key);
        let old = self.old_names.iter().find(|(old, _)| normalize_key(old) == normal).map(|(_, name)| *name);
        all().copied().find(|name| normalize_key(name) == normal).or(old)
    }
}

impl FrontMatter {
    /// Reads front matter with its first border.
    pub(super) fn parse(text: &str, table: &FieldTable) -> Result<Self, UnreadableFrontMatter> {
        let inner = text.split_once('\n').map_or("", |(_, inner)| inner);
        if inner.len() > FRONT_MATTER_MAX_BYTES {
            let message = format!("the front matter is larger than {} KiB", FRONT_MATTER_MAX_BYTES / 1024);
            return Err(UnreadableFrontMatter { line: 1, message });
        }
        match yaml_value::parse_yaml(inner, 2) {
            Ok(YamlNode { value: YamlValue::Map(members), .. }) => Ok(Self::from_members(members, inner)),
            Ok(node) if node.as_scalar().is_some_and(|text| text.trim().is_empty()) => Ok(Self::default()),
            Ok(node) => Self::parse_lines(
                inner,
                table,
                &YamlError {
                    line: node.line,
                    message: "the front matter has no fields of the form `name: value`".to_owned(),
                },
            ),
            Err(error) => Self::parse_lines(inner, table, &error),
        }
    }

    fn from_members(members: Vec<YamlMember>, inner: &str) -> Self {
        let lines: Vec<&str> = inner.lines().collect();
        let fields = members.into_iter().map(|YamlMember { key, line, node }| {
            // Lines count from the border.
            let source = line.checked_sub(2).and_then(|at| lines.get(at)).copied().unwrap_or_default();
            let raw = source.split_once(':').map_or("", |(_, rest)| rest).trim().to_owned();
            FrontMatterField { key, line, node, raw }
        });
        Self { fields: fields.collect(), notes: Vec::new() }
    }

    /// Reads text that is not valid YAML line by line: each field by itself, as YAML where that works, else as text.
    fn parse_lines(inner: &str, table: &FieldTable, whole: &YamlError) -> Result<Self, UnreadableFrontMatter> {
        let mut chunks: Vec<FieldChunk<'_>> = Vec::new();
        let mut front_matter = Self::default();
        for (at, line) in inner.lines().enumerate() {
            let line_number = at + 2;
            let in_prose = chunks.last().is_some_and(|chunk| table.documented_name(chunk.key) == Some("description"));
            match split_field_line(line) {
                Some((key, rest)) if !in_prose || table.documented_name(key).is_some() => {
                    chunks.push(FieldChunk { key, line: line_number, rest, lines: vec![line] });
                }
                _ if line.starts_with('#') && !in_prose => {}
                _ => match chunks.last_mut() {
                    Some(chunk) => chunk.lines.push(line),
                    None if line.trim().is_empty() => {}
                    None => front_matter.notes.push(FrontMatterNote {
                        severity: ProblemSeverity::Warning,
                        line: line_number,
                        key: String::new(),
                        message: "ignored: this line belongs to no field".to_owned(),
                    }),
                },
            }
        }
        if chunks.is_empty() {
            let line = whole.line.min(inner.lines().count() + 1);
            return Err(UnreadableFrontMatter { line, message: whole.message.clone() });
        }
        for chunk in chunks {
            match chunk.read(table) {
                Ok((field, note)) => {
                    front_matter.fields.push(field);
                    front_matter.notes.extend(note);
                }
                Err(note) => front_matter.notes.push(note),
            }
        }
        Ok(front_matter)
    }
}

/// Lines of one field.
struct FieldChunk<'t> {
    key: &'t str,
    line: usize,
    /// Text behind the colon.
    rest: &'t str,
    lines: Vec<&'t str>,
}

/// Splits a line `name: value` that begins without a space.
fn split_field_line(line: &str) -> Option<(&str, &str)> {
    let (key, rest) = line.split_once(':')?;
    let key = key.trim_end();
    let is_name = key.starts_with(|first: char| first.is_ascii_alphabetic())
        && key.chars().all(|char| char.is_ascii_alphanumeric() || "-_".contains(char));
    // A URL is no field.
    (is_name && !rest.starts_with("//")).then(|| (key, rest.trim()))
}

impl FieldChunk<'_> {
    fn read(&self, table: &FieldTable) -> Result<(FrontMatterField, Option<FrontMatterNote>), FrontMatterNote> {
        let field =
            |node| FrontMatterField { key: self.key.to_owned(), line: self.line, node, raw: self.rest.to_owned() };
        let error = match yaml_value::parse_yaml(&self.lines.join("\n"), self.line) {
            Ok(YamlNode { value: YamlValue::Map(mut members), .. })
                if members.len() == 1 && members[0].key == self.key =>
            {
                return Ok((field(members.remove(0).node), None));
            }
            Ok(_) => YamlError { line: self.line, message: "it is not one field".to_owned() },
            // An error at the end is found behind the last line.
            Err(error) => YamlError { line: error.line.min(self.line + self.lines.len() - 1), ..error },
        };
        let note = |severity, line, message| FrontMatterNote { severity, line, key: self.key.to_owned(), message };
        if table.documented_name(self.key).is_some_and(|name| table.structured.contains(&name)) {
            let message = format!("ignored: it is not valid YAML ({})", error.message);
            return Err(note(ProblemSeverity::Warning, error.line, message));
        }
        let message =
            format!("it is not valid YAML ({}), so its text is taken as it stands; put it in quotes", error.message);
        Ok((field(self.to_text_node()), Some(note(ProblemSeverity::Info, error.line, message))))
    }

    /// Returns the field's lines as a list where they are one, else as one text.
    fn to_text_node(&self) -> YamlNode {
        let scalar = |text: &str, line| YamlNode {
            line,
            value: YamlValue::Scalar { text: strip_quotes(text.trim()).to_owned(), is_plain: false },
        };
        let below = || self.lines.iter().enumerate().skip(1).filter(|(_, line)| !line.trim().is_empty());
        let is_list =
            self.rest.is_empty() && below().next().is_some() && below().all(|(_, line)| list_entry(line).is_some());
        if is_list {
            let entries = below().filter_map(|(at, line)| Some(scalar(list_entry(line)?, self.line + at)));
            return YamlNode { line: self.line, value: YamlValue::List(entries.collect()) };
        }
        let mut text = if matches!(self.rest, "|" | "|-" | ">" | ">-") { String::new() } else { self.rest.to_owned() };
        for line in &self.lines[1..] {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(line.trim());
        }
        scalar(&text, self.line)
    }
}

fn list_entry(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("- ")
}

fn strip_quotes(text: &str) -> &str {
    let inner = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote).filter(|inner| !inner.contains(quote));
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}
