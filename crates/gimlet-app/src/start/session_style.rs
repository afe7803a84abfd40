//! The output style of a session: which there are, and which the settings choose.

use std::path::PathBuf;

use gimlet_config::{DocumentReader, DocumentScope, OutputStyle, OutputStyles, Scope};
use gimlet_core::{BUILT_IN_STYLES, DEFAULT_STYLE, LiveOutputStyle, PromptStyle};

use super::SessionSettings;
use super::file_stamps::FileStamps;
use crate::launch_request::CustomizationLevel;

/// Output style that settings choose.
#[derive(Default)]
pub(super) struct ChosenStyle {
    /// `None` for the style that changes nothing.
    pub(super) style: Option<PromptStyle>,
    /// Reason why it is not the one that settings name.
    pub(super) remark: Option<String>,
}

/// Output style that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CataloguedStyle {
    pub name: String,
    pub description: Option<String>,
    /// Whose it is.
    pub source: &'static str,
    pub file: Option<PathBuf>,
}

impl SessionSettings {
    /// Reads the output styles of all files that count.
    pub fn output_style_files(&self) -> OutputStyles {
        self.document_reader.output_styles()
    }

    /// Returns the output styles that can be chosen, built-in ones first.
    pub fn available_styles(&self) -> Vec<CataloguedStyle> {
        let files = self.output_style_files();
        let usable = files.styles.iter().filter(|style| style.text.get(&self.trust).is_some());
        let of_files = usable.map(|style| CataloguedStyle {
            name: style.name.clone(),
            description: style.description.clone(),
            source: describe_scope(style.origin.scope),
            file: Some(style.origin.path.clone()),
        });
        let mut styles: Vec<CataloguedStyle> = BUILT_IN_STYLES
            .iter()
            .map(|style| CataloguedStyle {
                name: style.name.to_owned(),
                description: Some(style.description.to_owned()),
                source: "built-in",
                file: None,
            })
            .collect();
        for style in of_files {
            match styles.iter_mut().find(|known| known.name == style.name) {
                // The first of a name is used, but built-in ones give way.
                Some(known) if known.file.is_none() && known.name != DEFAULT_STYLE => *known = style,
                Some(_) => {}
                None => styles.push(style),
            }
        }
        styles
    }

    /// Returns the name of the style that a new conversation begins with, and why it is not the one that settings name.
    pub fn style_of_new_sessions(&self) -> (String, Option<String>) {
        let chosen = self.chosen_style();
        (chosen.style.map_or_else(|| DEFAULT_STYLE.to_owned(), |style| style.name), chosen.remark)
    }

    /// Returns the output style that a conversation begins with.
    pub(super) fn chosen_style(&self) -> ChosenStyle {
        self.chosen_style_of(&self.document_reader)
    }

    fn chosen_style_of(&self, reader: &DocumentReader) -> ChosenStyle {
        if self.customization != CustomizationLevel::Safe
            && let Some(style) = self.forced_style(&reader.output_styles())
        {
            return ChosenStyle { style: Some(style), remark: None };
        }
        let origin = self.effective.merged.sources("outputStyle").pop().map(|source| source.origin.scope);
        let is_used = match self.customization {
            CustomizationLevel::Full => true,
            CustomizationLevel::Safe => origin == Some(Scope::Managed),
            CustomizationLevel::Bare => matches!(origin, Some(Scope::Managed | Scope::Flag)),
        };
        let name = self.effective.settings.output_style.as_deref().map(str::trim).filter(|_| is_used);
        let Some(name) = name.filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case(DEFAULT_STYLE)) else {
            return ChosenStyle::default();
        };
        let files = reader.output_styles();
        if let Some((style, text)) = files.find(name, &self.trust).next() {
            return ChosenStyle { style: Some(prompt_style(style, text)), remark: None };
        }
        let built_in = BUILT_IN_STYLES.iter().find(|style| style.name.eq_ignore_ascii_case(name));
        if let Some((style, text)) = built_in.and_then(|style| Some((style, style.text?))) {
            let style =
                PromptStyle { name: style.name.to_owned(), text: text.to_owned(), keeps_coding_instructions: true };
            return ChosenStyle { style: Some(style), remark: None };
        }
        ChosenStyle { style: None, remark: Some(self.describe_missing(name, &files)) }
    }

    /// Returns the style that a plugin wants in place of any other.
    fn forced_style(&self, files: &OutputStyles) -> Option<PromptStyle> {
        let mut forced = files.styles.iter().filter(|style| style.is_forced);
        forced.find_map(|style| Some(prompt_style(style, style.text.get(&self.trust)?)))
    }

    /// Returns a line about a style that is named and not used.
    fn describe_missing(&self, name: &str, files: &OutputStyles) -> String {
        let shown = gimlet_config::escape_invisible_line(name);
        if let Some(style) = files.styles.iter().find(|style| style.name == name) {
            let file = style.origin.path.display().to_string();
            let file = gimlet_config::escape_invisible_line(&file);
            return format!(
                "the output style {shown} is not used: {file} waits until you trust this folder (gimlet trust)"
            );
        }
        let stem = |path: &PathBuf| path.file_stem().is_some_and(|stem| stem == name);
        if let Some(skipped) = files.skipped.iter().find(|skipped| stem(&skipped.path)) {
            return format!("the output style {shown} is not used: {skipped}");
        }
        let names: Vec<String> = self.available_styles().into_iter().map(|style| style.name).collect();
        format!("there is no output style {shown}, so the default one is used; there are: {}", names.join(", "))
    }
}

fn prompt_style(style: &OutputStyle, text: &str) -> PromptStyle {
    PromptStyle {
        name: style.name.clone(),
        text: text.to_owned(),
        keeps_coding_instructions: style.keeps_coding_instructions,
    }
}

fn describe_scope(scope: DocumentScope) -> &'static str {
    match scope {
        DocumentScope::Managed => "managed",
        DocumentScope::User => "user",
        DocumentScope::Plugin => "plugin",
        DocumentScope::Project | DocumentScope::AddedFolder => "project",
    }
}

/// The output style of a running session, and the files that it comes from.
pub(super) struct StyleWatch {
    style: LiveOutputStyle,
    /// Files and folders as they were when they were last read.
    seen: FileStamps,
}

impl StyleWatch {
    pub(super) fn new(settings: &SessionSettings, style: Option<PromptStyle>) -> Self {
        let seen = FileStamps::take(settings.document_reader.output_style_paths());
        Self { style: LiveOutputStyle::new(style), seen }
    }

    pub(super) fn style(&self) -> LiveOutputStyle {
        self.style.clone()
    }

    /// Returns true if any of the files has changed since they were last read.
    pub(super) fn has_changed(&self) -> bool {
        !self.seen.are_unchanged()
    }

    /// Reads the files again, for the next segment of the conversation.
    pub(super) fn refresh(&mut self, settings: &SessionSettings) {
        let reader = settings.documents.current().reader();
        self.seen = FileStamps::take(reader.output_style_paths());
        self.style.replace(settings.chosen_style_of(&reader).style);
    }
}
