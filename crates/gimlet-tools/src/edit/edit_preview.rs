//! Previews of changes to a file, for the question about them: the diff that would be made, or a text that states why
//! there is none. Nothing is written, and no file is read whose reading rules deny.

use std::path::Path;

use gimlet_core::text_diff;
use gimlet_core::tool::PreviewContext;
use gimlet_proto::View;

use super::file_edit::{TextReplacement, is_lenient};
use super::text_replacer::TextReplacer;
use crate::special_files;
use crate::text_file::TextFile;
use crate::text_file::open::{LoadedFile, load_up_to};
use crate::text_file::read_state::ReadState;

/// Larger files have no preview: it has to be there before the question.
const MOST_BYTES: u64 = 8 << 20;

/// Previews replacements in a file, one after the other.
pub(crate) fn preview_replacements(file: &str, wanted: &[TextReplacement], cx: &PreviewContext) -> View {
    show(file, replaced_text(file, wanted, cx))
}

/// Previews giving a file this content.
pub(crate) fn preview_content(file: &str, content: &str, cx: &PreviewContext) -> View {
    let changed = load(file, cx).and_then(|old| match old {
        None => Ok((String::new(), content.to_owned())),
        Some(old) => Ok((decode(&old)?.raw().to_owned(), content.to_owned())),
    });
    show(file, changed)
}

fn show(file: &str, changed: Result<(String, String), String>) -> View {
    match changed {
        Ok((old, new)) if old == new => View::Text(format!("no preview: {file} would stay as it is")),
        Ok((old, new)) => match text_diff::hunks(&old, &new) {
            hunks if hunks.is_empty() => View::Text(format!("no preview: the change of {file} is too large to show")),
            hunks => View::Diff { path: file.to_owned(), hunks },
        },
        Err(why) => View::Text(format!("no preview: {why}")),
    }
}

/// Returns the file's text before and after the replacements, or the reason why there is none.
fn replaced_text(file: &str, wanted: &[TextReplacement], cx: &PreviewContext) -> Result<(String, String), String> {
    let Some(old) = load(file, cx)? else {
        let first = wanted.first().filter(|first| first.old_string.is_empty());
        let first = first.ok_or_else(|| format!("{file} does not exist"))?;
        let text = replace_all(file, first.new_string.clone(), &wanted[1..], cx)?;
        return Ok((String::new(), text));
    };
    let old = decode(&old)?.raw().to_owned();
    let new = replace_all(file, old.clone(), wanted, cx)?;
    Ok((old, new))
}

fn replace_all(
    file: &str,
    mut text: String,
    wanted: &[TextReplacement],
    cx: &PreviewContext,
) -> Result<String, String> {
    let replacer = TextReplacer { path: file.into(), lenient: is_lenient(&cx.paths.env) };
    for replacement in wanted {
        let current = TextFile::new(crate::text_file::TextEncoding::Utf8, text.as_str().into());
        let (next, _) = replacer.replaced(&current, replacement, ReadState::Whole).map_err(|error| error.model_text)?;
        text = next;
    }
    Ok(text)
}

fn load(file: &str, cx: &PreviewContext) -> Result<Option<LoadedFile>, String> {
    let path = cx.paths.expand_path(Path::new(file));
    let target = cx.readable_path(&path)?;
    if special_files::is_special(target) {
        return Err(format!("{file} is a device or kernel file"));
    }
    load_up_to(target, MOST_BYTES).map_err(|error| error.to_string())
}

fn decode(old: &LoadedFile) -> Result<TextFile<'_>, String> {
    TextFile::decode(&old.bytes).map_err(|error| format!("the file is not text that can be edited: {error}"))
}

#[cfg(test)]
#[path = "preview_tests.rs"]
mod preview_tests;
