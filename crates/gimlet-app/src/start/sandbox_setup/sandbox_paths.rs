//! Conversion of paths in settings and rules to sandbox paths.

use std::path::{Path, PathBuf};

use gimlet_config::{EffectiveSettings, Scope, SourcedValue, symlink_names};
use gimlet_exec::PROTECTED_IN_CLAUDE;
use serde_json::Value;

use crate::process_env::ProcessEnv;

/// Returns true if a text can match more than one path.
pub(super) fn has_pattern(text: &str) -> bool {
    text.trim_end_matches("/**").contains(['*', '?', '['])
}

/// Returns the base of an entry's relative paths: the config home for the user's own file.
pub(super) fn base_dir<'a>(entry: &SourcedValue, around: &'a ProcessEnv) -> &'a Path {
    if entry.origin.scope == Scope::User { &around.config_home } else { &around.cwd }
}

/// Returns the files that decide about permissions or run outside the sandbox, under all their names: a symlink in the
/// config home can point into a writable folder. One that is, or contains, a folder opened for writing is left out:
/// that was the user's decision.
pub(super) fn governing_paths(files: Vec<PathBuf>, config_home: &Path, write: &[PathBuf]) -> Vec<PathBuf> {
    let own = PROTECTED_IN_CLAUDE.iter().map(|name| config_home.join(name));
    let mut names: Vec<PathBuf> = files.into_iter().chain(own).flat_map(|file| symlink_names(&file)).collect();
    let folders: Vec<PathBuf> = write.iter().flat_map(|folder| symlink_names(folder)).collect();
    names.retain(|name| !folders.iter().any(|folder| folder.starts_with(name)));
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the paths of a list in settings; an object entry has its path under that name.
pub(super) fn listed_paths<'e>(effective: &'e EffectiveSettings, around: &ProcessEnv, key: &str) -> Vec<PathBuf> {
    let entries = effective.merged.entries(key).iter();
    let text = |value: &'e Value| value.as_str().or_else(|| value.get("path")?.as_str());
    entries.filter_map(|entry| resolve_path(text(&entry.value)?, base_dir(entry, around), around)).collect()
}

/// Resolves a path from settings; returns `None` for patterns, which name no single place.
fn resolve_path(text: &str, base: &Path, around: &ProcessEnv) -> Option<PathBuf> {
    let path = text.trim_end_matches("/**").trim_end_matches('/');
    if path.contains(['*', '?', '[']) {
        return None;
    }
    match (path.strip_prefix('~'), path) {
        (Some(rest), _) if rest.is_empty() || rest.starts_with('/') => {
            let home = around.home.as_ref()?;
            Some(if rest.is_empty() { home.clone() } else { home.join(rest.trim_start_matches('/')) })
        }
        // Nothing but slashes, with or without what may follow them.
        (_, "") if text.starts_with('/') => Some(PathBuf::from("/")),
        (_, "" | ".") => Some(base.to_owned()),
        (_, path) if path.starts_with('/') => Some(Path::new("/").join(path.trim_start_matches('/'))),
        (_, path) => Some(base.join(path.strip_prefix("./").unwrap_or(path))),
    }
}

/// Returns the path that a file rule names, if it names a single one.
pub(super) fn rule_path(rule: &str, anchor: &Path, tool: &str, around: &ProcessEnv) -> Option<PathBuf> {
    let inside = rule.trim().strip_prefix(tool)?.strip_prefix('(')?.strip_suffix(')')?;
    let anchored = inside.strip_prefix('/').filter(|rest| !rest.starts_with('/'));
    match anchored {
        Some(rest) => resolve_path(&format!("./{rest}"), anchor, around),
        // A name without a folder is meant at any depth.
        None if !inside.contains('/') && inside != "~" => None,
        None => resolve_path(inside, &around.cwd, around),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_env() -> ProcessEnv {
        ProcessEnv {
            env: gimlet_proto::Env::default(),
            cwd: "/base".into(),
            home: Some("/home/me".into()),
            config_home: "/home/me/.claude".into(),
        }
    }

    #[test]
    fn every_spelling_of_a_place_leads_to_it() {
        let around = test_env();
        for (text, wanted) in [
            ("~", "/home/me"),
            ("~/", "/home/me"),
            ("~/**", "/home/me"),
            ("~/x/", "/home/me/x"),
            ("~//x", "/home/me/x"),
            ("~x", "/base/~x"),
            ("/", "/"),
            ("//", "/"),
            ("/**", "/"),
            ("//**", "/"),
            ("/etc/**", "/etc"),
            ("//etc/", "/etc"),
            (".", "/base"),
            ("./", "/base"),
            ("./**", "/base"),
            ("./x/", "/base/x"),
            ("x/**", "/base/x"),
            ("../x", "/base/../x"),
        ] {
            assert_eq!(resolve_path(text, "/base".as_ref(), &around).as_deref(), Some(Path::new(wanted)), "{text}");
        }
        for text in ["~/*", "/**/x", "*", "a?", "[ab]"] {
            assert_eq!(resolve_path(text, "/base".as_ref(), &around), None, "{text}");
        }
        let homeless = ProcessEnv { home: None, ..around };
        assert_eq!(resolve_path("~/", "/base".as_ref(), &homeless), None);
    }

    #[test]
    fn a_rule_begins_where_it_says() {
        for (rule, wanted) in [
            ("Read(~/**)", Some("/home/me")),
            ("Read(~/)", Some("/home/me")),
            ("Read(~)", Some("/home/me")),
            ("Read(//**)", Some("/")),
            ("Read(//etc/**)", Some("/etc")),
            ("Read(/**)", Some("/anchor")),
            ("Read(/x)", Some("/anchor/x")),
            ("Read(/~/x)", Some("/anchor/~/x")),
            ("Read(./x)", Some("/base/x")),
            ("Read(x)", None),
            ("Read(**)", None),
            ("Edit(~/x)", None),
        ] {
            let path = rule_path(rule, "/anchor".as_ref(), "Read", &test_env());
            assert_eq!(path.as_deref(), wanted.map(Path::new), "{rule}");
        }
    }
}
