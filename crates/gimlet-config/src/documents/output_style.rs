//! Output styles that users and projects define: text for the system prompt.

use std::path::PathBuf;

use super::field_reader::FieldReader;
use super::front_matter::{self, FieldTable};
use super::trust_gate::{TrustGate, TrustGated};
use super::{DocumentOrigin, DocumentReader, FoundDocument, SkippedDocument};
use crate::plugins::PluginComponent;
use crate::problem::{ProblemSeverity, SettingsProblem};
use crate::trust::ProjectTrust;

const FIELDS: FieldTable = FieldTable {
    names: &["name", "description", "keep-coding-instructions", "force-for-plugin"],
    old_names: &[],
    inert: &["version", "author", "license", "metadata", "tags", "category"],
    structured: &["metadata"],
};

/// Output style of a file.
#[derive(Clone, Debug)]
pub struct OutputStyle {
    pub origin: DocumentOrigin,
    pub name: String,
    pub description: Option<String>,
    /// True if the built-in instructions for software work stay.
    pub keeps_coding_instructions: bool,
    /// True if a plugin wants it in place of the style that settings name.
    pub is_forced: bool,
    /// Text for the end of the system prompt; a project's waits for trust in the folder.
    pub text: TrustGated<String>,
}

/// Output styles of all files.
#[derive(Clone, Debug, Default)]
pub struct OutputStyles {
    /// Styles by precedence; the first of a name that trust allows is used.
    pub styles: Vec<OutputStyle>,
    pub skipped: Vec<SkippedDocument>,
    pub problems: Vec<SettingsProblem>,
}

impl OutputStyles {
    /// Returns the styles of this name with the text of each that this trust covers, by precedence.
    pub fn find<'a>(
        &'a self,
        name: &'a str,
        trust: &'a ProjectTrust,
    ) -> impl Iterator<Item = (&'a OutputStyle, &'a str)> {
        let named = self.styles.iter().filter(move |style| style.name == name);
        named.filter_map(|style| Some((style, style.text.get(trust)?.as_str())))
    }
}

impl DocumentReader {
    /// Reads the output styles of all areas: the administrator's, the project's (the closest first), the user's.
    pub fn output_styles(&self) -> OutputStyles {
        let mut files = OutputStyles::default();
        for area in self.areas() {
            for found in self.read_folder(&area, "output-styles", &mut files.skipped) {
                match OutputStyle::parse(&found) {
                    Ok((style, problems)) => {
                        files.problems.extend(problems.into_iter().chain(found.encoding_problem()));
                        files.styles.push(style);
                    }
                    Err(skip) => files.skipped.push(skip),
                }
            }
        }
        for document in self.plugin_documents(PluginComponent::OutputStyles, &mut files.skipped) {
            match OutputStyle::parse(&document.found) {
                Ok((mut style, problems)) => {
                    files.problems.extend(problems.into_iter().chain(document.found.encoding_problem()));
                    style.name = format!("{}:{}", document.plugin.name(), style.name);
                    files.styles.push(style);
                }
                Err(skip) => files.skipped.push(skip),
            }
        }
        files
    }

    /// Returns the files and folders that decide which output styles there are.
    pub fn output_style_paths(&self) -> Vec<PathBuf> {
        let areas = self.areas().into_iter();
        let folders =
            areas.flat_map(|area| self.watched_paths(&area.folder.join("output-styles"), area.border.as_deref()));
        folders.chain(self.plugin_paths(PluginComponent::OutputStyles)).collect()
    }
}

impl OutputStyle {
    fn parse(found: &FoundDocument) -> Result<(Self, Vec<SettingsProblem>), SkippedDocument> {
        let text = &found.document.text;
        let parts = front_matter::split_document(text);
        let skip = |line, reason| SkippedDocument { path: found.path.clone(), line: Some(line), reason };
        if !parts.is_closed {
            return Err(skip(1, "the front matter has no closing `---`".to_owned()));
        }
        let mut fields = FieldReader::parse(&found.path, &text[parts.front_matter], &FIELDS)
            .map_err(|error| skip(error.line, format!("the front matter cannot be read: {}", error.message)))?;
        let stem = found.path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let gate = if found.project.is_none() { TrustGate::Open } else { TrustGate::Folder };
        let plugin_line = fields.line_of("force-for-plugin").filter(|_| found.plugin.is_none());
        let style = Self {
            origin: found.origin(),
            name: fields.text("name").unwrap_or(stem),
            description: fields.text("description"),
            keeps_coding_instructions: fields.flag("keep-coding-instructions").unwrap_or(false),
            is_forced: found.plugin.is_some() && fields.flag("force-for-plugin").unwrap_or(false),
            text: TrustGated::new(super::trim_blank_lines(&text[parts.body]).to_owned(), vec!["text"], gate),
        };
        let mut problems = fields.into_problems();
        problems.extend(plugin_line.map(|line| SettingsProblem {
            severity: ProblemSeverity::Info,
            file: found.path.clone(),
            line: Some(line),
            column: None,
            key: "force-for-plugin".to_owned(),
            message: "ignored: only a plugin's style has it".to_owned(),
        }));
        Ok((style, problems))
    }
}
