//! From paths as settings and rules spell them to the places that walls stand around.

use std::path::{Path, PathBuf};

use gimlet_config::{EffectiveSettings, Scope, SourcedValue, symlink_names};
use gimlet_exec::PROTECTED_IN_CLAUDE;
use serde_json::Value;

use crate::process_env::ProcessEnv;

/// Whether a text can stand for more than one path.
pub(super) fn has_pattern(text: &str) -> bool {
    text.trim_end_matches("/**").contains(['*', '?', '['])
}

/// Where paths of an entry begin that say nothing about it: those of the person's own file at the config home.
pub(super) fn base_dir<'a>(entry: &SourcedValue, around: &'a ProcessEnv) -> &'a Path {
    if entry.origin.scope == Scope::User { &around.config_home } else { &around.cwd }
}

/// What decides about permissions or runs outside, by every name that it has: a link in the config home can lead into a folder
/// that commands may write. A folder that is one of those, or holds one, is left to the person who has it written.
pub(super) fn governing_paths(files: Vec<PathBuf>, config_home: &Path, write: &[PathBuf]) -> Vec<PathBuf> {
    let own = PROTECTED_IN_CLAUDE.iter().map(|name| config_home.join(name));
    let mut names: Vec<PathBuf> = files.into_iter().chain(own).flat_map(|file| symlink_names(&file)).collect();
    let folders: Vec<PathBuf> = write.iter().flat_map(|folder| symlink_names(folder)).collect();
    names.retain(|name| !folders.iter().any(|folder| folder.starts_with(name)));
    names.sort_unstable();
    names.dedup();
    names
}

/// The paths of a list in settings; an entry that says more than a path has it under that name.
pub(super) fn listed_paths<'e>(effective: &'e EffectiveSettings, around: &ProcessEnv, key: &str) -> Vec<PathBuf> {
    let entries = effective.merged.entries(key).iter();
    let text = |value: &'e Value| value.as_str().or_else(|| value.get("path")?.as_str());
    entries.filter_map(|entry| resolve_path(text(&entry.value)?, base_dir(entry, around), around)).collect()
}

/// A path as settings spell it; patterns stand for no single place and are left out.
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

/// The one place that a rule about files names, if it is one place.
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
