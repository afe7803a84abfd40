//! Selection of the files to search: the `glob` and `type` parameters.

use std::path::Path;

use gimlet_core::tool::{ToolError, nearest_name};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{FileTypeDef, Types, TypesBuilder};

/// Patterns that exclude nothing. As a filter they would only switch the ignore files off.
const MATCH_EVERYTHING: [&str; 3] = ["*", "**", "**/*"];

/// Compiles the `glob` parameter. Patterns are relative to `root`; one that repeats the searched path, given as
/// `prefix`, is understood too.
pub(super) fn globs(list: &str, root: &Path, prefix: &Path) -> Result<Override, ToolError> {
    let mut builder = OverrideBuilder::new(root);
    for glob in split_list(list).filter(|glob| !MATCH_EVERYTHING.contains(glob)) {
        let (negation, plain) = match glob.strip_prefix('!') {
            Some(plain) => ("!", plain),
            None => ("", glob),
        };
        // A leading slash keeps what was anchored by a path anchored without it.
        let relative = match strip_path(plain, root).or_else(|| strip_path(plain, prefix)) {
            Some(rest) => format!("{negation}/{rest}"),
            None => format!("{negation}{plain}"),
        };
        builder.add(&relative).map_err(|error| bad_glob(glob, &error))?;
    }
    builder.build().map_err(|error| bad_glob(list, &error))
}

fn bad_glob(glob: &str, error: &ignore::Error) -> ToolError {
    let hint = "Braces and brackets must be closed; put a backslash before one that is part of a name.";
    ToolError::input(format!("The glob `{glob}` is not valid: {error}. {hint}"))
}

/// Returns the rest of a glob that begins with a path.
fn strip_path<'a>(glob: &'a str, path: &Path) -> Option<&'a str> {
    let path = path.to_str().filter(|path| !path.is_empty())?;
    glob.strip_prefix(path)?.strip_prefix('/')
}

/// Splits at commas and whitespace outside braces.
fn split_list(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0usize;
    let parts = list.split(move |char: char| {
        match char {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (char == ',' || char.is_whitespace())
    });
    parts.filter(|part| !part.is_empty())
}

/// Compiles the `type` parameter.
pub(super) fn file_type(name: &str) -> Result<Types, ToolError> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    builder.select(name).build().map_err(|error| {
        let known = builder.definitions();
        let extension = format!("*.{name}");
        let mut names = type_names(&known, |definition| definition.globs().contains(&extension));
        if names.is_empty() {
            names = type_names(&known, |definition| name.len() > 1 && definition.name().starts_with(name));
            names.extend(nearest_name(name, known.iter().map(FileTypeDef::name)));
        }
        let hint = match names.is_empty() {
            true => "Use `glob` instead, for example `*.ext`.".to_owned(),
            false => format!("Did you mean: {}? Or use `glob`, for example `{extension}`.", names.join(", ")),
        };
        ToolError::input(format!("The file type `{name}` is not known ({error}). {hint}"))
    })
}

fn type_names(known: &[FileTypeDef], is_near: impl Fn(&FileTypeDef) -> bool) -> Vec<&str> {
    known.iter().filter(|definition| is_near(definition)).map(FileTypeDef::name).take(8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_split_outside_braces_only() {
        let parts: Vec<&str> = split_list("*.{ts, tsx},src/** !*.d.ts , x").collect();
        assert_eq!(parts, ["*.{ts, tsx}", "src/**", "!*.d.ts", "x"]);
        assert_eq!(split_list(" , ").count(), 0);
    }

    #[test]
    fn unknown_types_lead_to_known_ones() {
        let message = |name| file_type(name).unwrap_err().model_text;
        assert!(message("rs").contains("rust"), "{}", message("rs"));
        assert!(message("pythn").contains("python"), "{}", message("pythn"));
        assert!(message("zzzzz").contains("glob"), "{}", message("zzzzz"));
        assert!(file_type("rust").is_ok());
    }
}
