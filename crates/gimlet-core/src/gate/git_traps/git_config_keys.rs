//! Keys of a repository's configuration that make read-only git commands run a program or read a file elsewhere.
//!
//! The read-only commands are `status`, `log`, `show`, `diff`, `blame`, `ls-files`, `rev-parse`, `describe`,
//! `shortlog` and `branch` that lists. They have no terminal, edit nothing, and contact no server unless an object is
//! missing in a partial clone.

use std::path::{Component, Path};

/// Effect of a key on a read-only command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GitKeyEffect {
    /// Git would run the program that it names, or run something because of it.
    Runs,
    /// Git would read the file that it names, and show parts of it or let its content be guessed.
    Reads,
    /// Git would read references from the place that it names.
    Stores,
    /// Read-only commands do not use it. Such rows record that the key was considered.
    Unused,
}

use GitKeyEffect::{Reads, Runs, Stores, Unused};

/// Every key that names a program or a file, by its last part in lower case. It counts in every section.
const KEYS: &[(&str, GitKeyEffect, &str)] = &[
    ("alternaterefscommand", Runs, "core: lists the references of alternates while objects are fetched"),
    ("clean", Runs, "filter, lfs.extension: status and diff run it on changed files"),
    (
        "command",
        Runs,
        "diff.<driver>, hook, tar, trailer, alias: diff runs the first, an index that is written the second",
    ),
    ("driver", Runs, "merge.<driver>: showing merges again (log.diffMerges) runs it"),
    ("external", Runs, "diff: diff runs it for every file"),
    ("fsmonitor", Runs, "core: everything that reads the index runs it"),
    ("gitdir", Runs, "submodule.<name>: puts the repository of a submodule anywhere, with a configuration of its own"),
    ("gitproxy", Runs, "core: runs when a missing object is fetched"),
    ("hookspath", Runs, "core: may hold post-index-change"),
    ("partialclone", Runs, "extensions: missing objects are fetched, by whatever the remote names"),
    ("partialclonefilter", Runs, "remote: the same"),
    ("process", Runs, "filter: like clean"),
    ("program", Runs, "gpg, gpg.<format>: runs where signatures are checked"),
    ("promisor", Runs, "remote: missing objects are fetched from it"),
    ("showsignature", Runs, "log: has signatures checked by a program"),
    ("smudge", Runs, "filter: runs where files are taken out of history"),
    ("sshcommand", Runs, "core: runs when a missing object is fetched"),
    (
        "submodule",
        Runs,
        "diff: log, show and diff enter every repository that history names, which may have any configuration",
    ),
    ("submodulesummary", Runs, "status: enters repositories that history names"),
    ("textconv", Runs, "diff.<driver>: log, show, diff and blame run it"),
    ("uploadpack", Runs, "remote: runs when a missing object is fetched"),
    ("allowedsignersfile", Reads, "gpg.ssh: read where signatures are checked"),
    ("attributesfile", Reads, "core: attributes"),
    ("excludesfile", Reads, "core: patterns of ignored files"),
    ("file", Reads, "mailmap: log shows names from it"),
    ("ignorerevsfile", Reads, "blame: an error shows lines of it"),
    ("orderfile", Reads, "diff: patterns that order files"),
    ("revocationfile", Reads, "gpg.ssh: read where signatures are checked"),
    ("template", Reads, "commit: the beginning of messages"),
    ("refstorage", Stores, "extensions: newer versions take a path"),
    ("askpass", Unused, "core: asks for passwords of servers"),
    ("blob", Unused, "mailmap: an object of the repository itself"),
    ("browser", Unused, "web, help, instaweb: other commands"),
    ("cmd", Unused, "difftool, mergetool, guitool, browser, man, trailer: other commands"),
    ("cccmd", Unused, "sendemail"),
    ("defaultkeycommand", Unused, "gpg.ssh: only for signing"),
    ("difffilter", Unused, "interactive: only for picking hunks"),
    ("editor", Unused, "core, sequence: nothing is edited"),
    ("guitool", Unused, "diff, merge: other commands"),
    ("helper", Unused, "credential: servers only"),
    ("insteadof", Unused, "url: servers only; ext:: counts wherever it stands"),
    ("packobjectshook", Unused, "uploadpack: not taken from a repository"),
    ("pager", Unused, "core: there is no terminal; the same for every key of the section pager"),
    ("proxy", Unused, "http, remote: servers only"),
    ("receivepack", Unused, "remote: only for push"),
    ("recentobjectshook", Unused, "gc"),
    ("skiplist", Unused, "fsck, fetch.fsck, receive.fsck: other commands"),
    ("sendmailcmd", Unused, "sendemail"),
    ("templatedir", Unused, "init"),
    ("tocmd", Unused, "sendemail"),
    ("tool", Unused, "diff, merge: other commands"),
    ("tunnel", Unused, "imap"),
    ("update", Unused, "submodule: only for submodule update"),
    ("variant", Unused, "ssh: servers only"),
    ("vcs", Unused, "remote: servers only"),
    ("viewer", Unused, "man"),
];

/// Returns true if a configuration makes git run programs, or read files outside the folder that its paths are
/// relative to. It may find a key where git would not.
pub(super) fn is_risky_config(config: &str, root: &Path) -> bool {
    let lower = config.to_ascii_lowercase();
    if lower.contains("[include") || lower.contains("ext::") {
        return true;
    }
    parse_settings(config).any(|(key, value)| {
        let key = key.to_ascii_lowercase();
        match KEYS.iter().find(|(name, ..)| *name == key).map_or(Unused, |(_, effect, _)| *effect) {
            Runs => true,
            Reads => value.is_some_and(|value| !plain_value(value).is_some_and(|path| is_path_inside(path, root))),
            Stores => value.is_some_and(|value| !matches!(plain_value(value), Some("files" | "reftable"))),
            Unused => false,
        }
    })
}

/// Returns every working tree that a configuration names; an item is `None` if its value is not plain text.
pub(super) fn configured_worktrees(config: &str) -> impl Iterator<Item = Option<&str>> {
    parse_settings(config)
        .filter(|(key, _)| key.eq_ignore_ascii_case("worktree"))
        .map(|(_, value)| value.and_then(plain_value))
}

/// Parses every word that git could take for a key, with the rest of the line if an equals sign follows. A value
/// reaches to the end of its line, so a word after an equals sign is a key only if that sign was part of a section's
/// name.
fn parse_settings(config: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    config.lines().flat_map(|line| {
        let value_starts = line.rfind(']').map_or(0, |at| at + 1);
        let has_value = move |at: usize| line[value_starts.min(at)..at].contains('=');
        key_words(line).filter_map(move |(at, word)| {
            let rest = line[at + word.len()..].trim_start();
            match rest.chars().next() {
                Some('=') => Some((word, Some(&rest[1..]))),
                None | Some('#' | ';') if !has_value(at) => Some((word, None)),
                _ => None,
            }
        })
    })
}

/// Returns the words of a line at positions where a key may stand, with their offsets.
fn key_words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let start = at + line[at..].find(is_name)?;
            let length = line[start..].find(|c| !is_name(c)).unwrap_or(line.len() - start);
            at = start + length;
            let before = line[..start].chars().next_back();
            if before.is_none_or(|c| c.is_whitespace() || matches!(c, ']' | '\u{feff}')) {
                return Some((start, &line[start..at]));
            }
        }
    })
}

/// Returns the trimmed value, or `None` if it has quotes, escapes or comments.
fn plain_value(value: &str) -> Option<&str> {
    let value = value.trim();
    (!value.contains(['"', '\\', '#', ';'])).then_some(value)
}

/// Returns true if a path of a configuration stays inside this folder, symlinks resolved. An empty one names no file.
fn is_path_inside(path: &str, root: &Path) -> bool {
    if path.starts_with(['~', '%', ':']) {
        return false;
    }
    match (root.join(path).canonicalize(), root.canonicalize()) {
        (Ok(file), Ok(root)) => file.starts_with(root),
        // The file does not exist now.
        _ => Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_one_row_in_lower_case() {
        for (at, (key, ..)) in KEYS.iter().enumerate() {
            assert_eq!(*key, key.to_ascii_lowercase());
            assert!(KEYS[..at].iter().all(|(other, ..)| other != key), "{key}");
        }
    }

    #[test]
    fn every_row_that_runs_is_risky_and_no_unused_one_is() {
        let root = Path::new("/nowhere");
        for (key, effect, _) in KEYS {
            let risky = is_risky_config(&format!("[section \"sub\"]\n\t{key} = /evil\n"), root);
            assert_eq!(risky, *effect != Unused, "{key}");
        }
    }

    #[test]
    fn files_that_a_configuration_names_stay_inside_the_working_tree() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("root");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(temp.path().join("secret"), "").unwrap();
        std::fs::write(root.join("revs"), "").unwrap();
        std::os::unix::fs::symlink("../secret", root.join("link")).unwrap();
        let risky = |value: &str| is_risky_config(&format!("[blame]\n\tignoreRevsFile = {value}\n"), &root);
        let absolute = root.join("revs").display().to_string();
        for harmless in ["revs", "./revs", "not-there", "", &absolute] {
            assert!(!risky(harmless), "{harmless}");
        }
        for trap in
            ["../secret", "link", "/etc/passwd", "~/secret", "../not-there", "a\\tb", "x/../../secret", ":(optional)x"]
        {
            assert!(risky(trap), "{trap}");
        }
    }

    #[test]
    fn words_in_values_are_no_keys() {
        let root = Path::new("/nowhere");
        for harmless in
            ["[user]\n\tname = the clean", "[branch \"clean\"]\n\tremote = promisor # clean", "[a \"x=y\"]\n\tb = c"]
        {
            assert!(!is_risky_config(harmless, root), "{harmless}");
        }
        for trap in ["[a \"x=y\"] fsmonitor", "[a \"x=y\"] fsmonitor = z", "[core]\nfsmonitor # on", "[x]y=1\\\nclean"]
        {
            assert!(is_risky_config(trap, root), "{trap}");
        }
    }
}
