//! Takes typed values out of front matter and collects what could not be used.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::front_matter::{FieldTable, FrontMatter, FrontMatterField, FrontMatterNote, UnreadableFrontMatter};
use super::yaml_value::{YamlNode, YamlValue};
use crate::problem::{ProblemSeverity, SettingsProblem};

/// Separators of a list that is written as one text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListSeparator {
    Comma,
    CommaOrSpace,
}

/// Fields of one document that were not taken yet.
pub(super) struct FieldReader {
    file: PathBuf,
    fields: Vec<FrontMatterField>,
    problems: Vec<SettingsProblem>,
}

impl FieldReader {
    /// Reads front matter and names the fields as documented.
    pub(super) fn parse(file: &Path, front_matter: &str, table: &FieldTable) -> Result<Self, UnreadableFrontMatter> {
        let FrontMatter { fields, notes } = FrontMatter::parse(front_matter, table)?;
        let mut reader = Self::empty(file);
        for FrontMatterNote { severity, line, key, message } in notes {
            reader.report(severity, line, &key, message);
        }
        for mut field in fields {
            match table.documented_name(&field.key) {
                Some(name) if table.inert.contains(&name) => {}
                Some(name) => {
                    if name != field.key {
                        reader.report(ProblemSeverity::Info, field.line, &field.key, format!("read as `{name}`"));
                    }
                    name.clone_into(&mut field.key);
                    reader.add_field(field);
                }
                None => {
                    let message = "unknown field, ignored".to_owned();
                    reader.report(ProblemSeverity::Info, field.line, &field.key, message);
                }
            }
        }
        Ok(reader)
    }

    /// Returns a reader of a document without fields.
    pub(super) fn empty(file: &Path) -> Self {
        Self { file: file.to_owned(), fields: Vec::new(), problems: Vec::new() }
    }

    fn add_field(&mut self, field: FrontMatterField) {
        match self.fields.iter().position(|earlier| earlier.key == field.key) {
            Some(at) => {
                let message = format!("given again; the value of line {} is ignored", self.fields[at].line);
                self.report(ProblemSeverity::Warning, field.line, &field.key, message);
                self.fields[at] = field;
            }
            None => self.fields.push(field),
        }
    }

    fn report(&mut self, severity: ProblemSeverity, line: usize, key: &str, message: String) {
        let (file, key) = (self.file.clone(), key.to_owned());
        self.problems.push(SettingsProblem { severity, file, line: Some(line), column: None, key, message });
    }

    fn report_wrong(&mut self, field: &FrontMatterField, wanted: &str) {
        self.report(ProblemSeverity::Warning, field.line, &field.key, format!("ignored: it should be {wanted}"));
    }

    /// Returns the problems so far.
    pub(super) fn into_problems(self) -> Vec<SettingsProblem> {
        self.problems
    }

    pub(super) fn line_of(&self, name: &str) -> Option<usize> {
        self.fields.iter().find(|field| field.key == name).map(|field| field.line)
    }

    fn take(&mut self, name: &str) -> Option<FrontMatterField> {
        let at = self.fields.iter().position(|field| field.key == name)?;
        let field = self.fields.swap_remove(at);
        let is_empty = matches!(&field.node.value, YamlValue::Scalar { text, is_plain: true } if text.is_empty());
        (!is_empty).then_some(field)
    }

    /// Takes a text; `[a] [b]` and other values that YAML reads otherwise stand for themselves.
    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        let field = self.take(name)?;
        let comment = field.raw.find(" #").filter(|_| !field.raw.starts_with(['"', '\'', '|', '>']));
        if name == "description" && comment.is_some() && field.node.as_scalar().is_some() {
            let message = "text from ` #` on is a comment and lost; put the value in quotes".to_owned();
            self.report(ProblemSeverity::Info, field.line, name, message);
        }
        let text = match field.node.as_scalar() {
            Some(text) => text.trim().to_owned(),
            None if field.raw.is_empty() => {
                self.report_wrong(&field, "text");
                return None;
            }
            None => field.raw,
        };
        (!text.is_empty()).then_some(text)
    }

    /// Takes a list of names, which may be one text with commas or spaces between them.
    pub(super) fn names(&mut self, name: &str) -> Option<Vec<String>> {
        self.list(name, ListSeparator::CommaOrSpace)
    }

    /// Takes a list of patterns, which may be one text with commas between them.
    pub(super) fn patterns(&mut self, name: &str) -> Option<Vec<String>> {
        self.list(name, ListSeparator::Comma)
    }

    fn list(&mut self, name: &str, separator: ListSeparator) -> Option<Vec<String>> {
        let field = self.take(name)?;
        match &field.node.value {
            YamlValue::Scalar { text, .. } => Some(split_list(text, separator)),
            YamlValue::List(nodes) => {
                let mut entries = Vec::new();
                for node in nodes {
                    match node.as_scalar() {
                        // An entry of a list may itself have commas: `- Read, Grep`.
                        Some(text) if separator == ListSeparator::CommaOrSpace => {
                            entries.extend(split_list(text, ListSeparator::Comma));
                        }
                        Some(text) => entries.push(text.to_owned()),
                        None => self.report_entry(node, name),
                    }
                }
                Some(entries)
            }
            YamlValue::Map(_) => {
                self.report_wrong(&field, "a list");
                None
            }
        }
    }

    fn report_entry(&mut self, node: &YamlNode, name: &str) {
        self.report(ProblemSeverity::Warning, node.line, name, "an entry is ignored: it should be text".to_owned());
    }

    /// Takes a switch in any of its spellings.
    pub(super) fn flag(&mut self, name: &str) -> Option<bool> {
        let field = self.take(name)?;
        let word = field.node.as_scalar().map(str::to_ascii_lowercase);
        match word.as_deref().map(str::trim) {
            Some("true" | "yes" | "on" | "1") => Some(true),
            Some("false" | "no" | "off" | "0") => Some(false),
            _ => {
                self.report_wrong(&field, "true or false");
                None
            }
        }
    }

    pub(super) fn count(&mut self, name: &str) -> Option<u32> {
        let field = self.take(name)?;
        let count = field.node.as_scalar().and_then(|text| text.trim().parse().ok()).filter(|count| *count > 0);
        if count.is_none() {
            self.report_wrong(&field, "a whole number above 0");
        }
        count
    }

    /// Takes one of several words.
    pub(super) fn word<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Option<T> {
        let field = self.take(name)?;
        let text = field.node.as_scalar().unwrap_or(&field.raw);
        let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text.trim())).map(|(_, value)| *value);
        if found.is_none() {
            let wanted: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.report_wrong(&field, &format!("one of {}", wanted.join(", ")));
        }
        found
    }

    /// Takes a value that has the form of a type's JSON.
    pub(super) fn parsed<T: DeserializeOwned>(&mut self, name: &str, wanted: &str) -> Option<T> {
        let field = self.take(name)?;
        let parsed = serde_json::from_value(field.node.to_json()).ok();
        if parsed.is_none() {
            self.report_wrong(&field, wanted);
        }
        parsed
    }

    /// Takes the members of a mapping, each with its line; a list of mappings counts as one.
    pub(super) fn members(&mut self, name: &str) -> Vec<(String, usize, Value)> {
        let Some(field) = self.take(name) else { return Vec::new() };
        let mut members = Vec::new();
        let parts = match &field.node.value {
            YamlValue::List(nodes) => nodes.as_slice(),
            YamlValue::Scalar { .. } | YamlValue::Map(_) => std::slice::from_ref(&field.node),
        };
        for part in parts {
            match &part.value {
                YamlValue::Map(map) => {
                    members.extend(map.iter().map(|member| (member.key.clone(), member.line, member.node.to_json())));
                }
                // The name alone.
                YamlValue::Scalar { text, .. } => {
                    let names = split_list(text, ListSeparator::Comma).into_iter();
                    members.extend(names.map(|name| (name, part.line, Value::Null)));
                }
                YamlValue::List(_) => self.report_entry(part, name),
            }
        }
        members
    }

    /// Reports a member that cannot be used.
    pub(super) fn report_member(&mut self, name: &str, line: usize, message: String) {
        self.report(ProblemSeverity::Warning, line, name, message);
    }
}

/// Splits a list at separators that stand outside brackets: `Bash(git add:*), Read`, `src/**/*.{ts,tsx}`.
fn split_list(text: &str, separator: ListSeparator) -> Vec<String> {
    let mut depth = 0_usize;
    let entries = text.split(|char: char| {
        match char {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
            && (char == ',' || char == '\n' || (separator == ListSeparator::CommaOrSpace && char.is_whitespace()))
    });
    entries.map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
}
