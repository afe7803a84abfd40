//! Finds paths in a git configuration that git runs or reads automatically: other hook folders, further
//! configuration.
//!
//! Parses everything that git parses, unlike the check for a plain configuration: a missed reference is not
//! protected. Pure.

use std::path::{Path, PathBuf};

use gimlet_git::parse_git_config;

/// A path that a configuration refers to, as it is spelled there.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GitConfigRef {
    Hooks(String),
    Configuration(String),
}

/// Returns the paths that a configuration refers to. Costs next to nothing for one that has no such key.
pub(super) fn find_config_refs(bytes: &[u8]) -> Vec<GitConfigRef> {
    let has = |word: &[u8]| bytes.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word));
    if !has(b"hookspath") && !has(b"include") {
        return Vec::new();
    }
    let entries = parse_git_config(bytes).into_iter();
    let refs = entries.filter_map(|entry| match (entry.section.as_str(), entry.key.as_str()) {
        ("core", "hookspath") => Some(GitConfigRef::Hooks(entry.value)),
        ("include" | "includeif", "path") => Some(GitConfigRef::Configuration(entry.value)),
        _ => None,
    });
    refs.collect()
}

/// Returns the paths that a spelling can mean: relative to `base`, or in any home folder that contains these roots.
pub(super) fn resolve_ref_paths(spelled: &str, base: &Path, roots: &[PathBuf]) -> Vec<PathBuf> {
    match spelled.strip_prefix("~/") {
        Some(rest) => {
            let homes = roots.iter().flat_map(|root| root.ancestors().map(move |home| (root, home.join(rest))));
            homes.filter(|(root, path)| path.starts_with(root)).map(|(_, path)| path).collect()
        }
        None if spelled.is_empty() || spelled.starts_with(['~', '%']) => Vec::new(),
        None => vec![base.join(spelled)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_lead_is_found() {
        let hooks = |text: &str| find_config_refs(text.as_bytes());
        for text in [
            "[core]\n\thooksPath = .husky/_\n",
            "[Core] HOOKSPATH=.husky/_ # x",
            "; x\n[alias]\nst = \"!a; b\" ; [core]\n[core]bare\nhookspath = \".husky\"/_  \n",
            "[core]\r\n\tbare = false\r\n\thooksPath = .hus\\\nky/_\r\n",
            "\u{feff}[core]\nhooksPath = .husky/_",
        ] {
            assert_eq!(hooks(text), [GitConfigRef::Hooks(".husky/_".to_owned())], "{text}");
        }
        let included = "[include]\n\tpath = a\n\tpath = \"b \\\"c\\\" \"\n[includeIf \"gitdir:~/x/\"]\n\tpath = d e\n";
        let wanted = ["a", "b \"c\" ", "d e"].map(|path| GitConfigRef::Configuration(path.to_owned()));
        assert_eq!(hooks(included), wanted);
        for nothing in ["[x \"core\"]\nhooksPath = a\n", "[alias]\n\tinclude = log\n", "hooksPath = a\n", "", "[core"] {
            assert_eq!(hooks(nothing), [], "{nothing}");
        }
    }

    #[test]
    fn a_home_is_looked_for_around_the_folders() {
        let roots = [PathBuf::from("/home/u/w")];
        assert!(resolve_ref_paths("~/w/hooks", Path::new("/x"), &roots).contains(&"/home/u/w/hooks".into()));
        assert_eq!(resolve_ref_paths("a", Path::new("/x"), &roots), [PathBuf::from("/x/a")]);
        assert_eq!(resolve_ref_paths("/a", Path::new("/x"), &roots), [PathBuf::from("/a")]);
        assert!(
            resolve_ref_paths("", Path::new("/x"), &roots).is_empty()
                && resolve_ref_paths("~u/a", Path::new("/x"), &roots).is_empty()
        );
    }
}
