//! JSON files of a plugin, with the lines of their values.

use std::path::{Path, PathBuf};

use gimlet_fs::{FileReadError, read_inside};

use super::PluginError;
use crate::json::{self, JsonNode, JsonText};
use crate::size_limits::SETTINGS_MAX_BYTES;

/// JSON file of a plugin.
#[derive(Debug)]
pub(super) struct PluginJson {
    pub(super) path: PathBuf,
    text: JsonText,
    pub(super) root: JsonNode,
}

impl PluginJson {
    /// Reads a file that must really be inside the plugin; `None` if there is none.
    pub(super) fn read(plugin: &Path, path: &Path, parse_error: &'static str) -> Result<Option<Self>, PluginError> {
        let bytes = match read_inside(plugin, path, SETTINGS_MAX_BYTES) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(None),
            Err(error @ FileReadError::SymlinkOutside(_)) => {
                return Err(PluginError::new("path-outside-plugin", path, error.to_string()));
            }
            Err(error) => return Err(PluginError::new("unreadable-file", path, error.to_string())),
        };
        let Ok(text) = String::from_utf8(bytes) else {
            return Err(PluginError::new(parse_error, path, "it is not UTF-8"));
        };
        match json::parse_json(&text) {
            Ok(parsed) => Ok(Some(Self { path: path.to_owned(), text: JsonText::new(text), root: parsed.root })),
            Err(error) => {
                let line = JsonText::new(text).line_at(error.offset);
                Err(PluginError::new(parse_error, path, error.message).at_line(line))
            }
        }
    }

    pub(super) fn line_of(&self, node: &JsonNode) -> usize {
        self.text.line_at(node.span.start)
    }

    pub(super) fn line_at(&self, offset: usize) -> usize {
        self.text.line_at(offset)
    }
}
