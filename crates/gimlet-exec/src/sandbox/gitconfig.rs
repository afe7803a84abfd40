//! Whether what a command left in a repository that it made can stay: examples of hooks, and a configuration that only
//! says what every new repository says.

use std::fs;
use std::path::Path;

/// Sections and keys that name no program, no other file and no place to send anything.
const PLAIN: &[(&str, &[&str])] = &[
    (
        "core",
        &[
            "bare",
            "filemode",
            "ignorecase",
            "logallrefupdates",
            "precomposeunicode",
            "repositoryformatversion",
            "symlinks",
        ],
    ),
    ("branch", &["merge", "rebase", "remote"]),
    ("extensions", &["objectformat", "refstorage"]),
    ("init", &["defaultbranch"]),
    ("remote", &["fetch", "url"]),
    ("submodule", &["active"]),
    ("user", &["email", "name"]),
];
/// A configuration longer than this is not one of a new repository.
const MAX_BYTES: u64 = 64 * 1024;

/// Whether a protected path that is new can stay. What is not there can.
pub(super) fn is_harmless(path: &Path) -> bool {
    let Ok(metadata) = fs::symlink_metadata(path) else { return true };
    let name = path.file_name().and_then(|name| name.to_str());
    match name {
        Some("hooks") if metadata.is_dir() => only_examples(path),
        Some("config" | "config.worktree") if metadata.is_file() && metadata.len() <= MAX_BYTES => {
            fs::read_to_string(path).is_ok_and(|text| is_plain(&text))
        }
        // That of a worktree leads to the repository around it, which is guarded itself.
        Some("commondir") if metadata.is_file() && metadata.len() <= MAX_BYTES => {
            let is_worktree = path.ancestors().nth(2).is_some_and(|dir| dir.ends_with("worktrees"));
            is_worktree && fs::read_to_string(path).is_ok_and(|text| text.trim_end() == "../..")
        }
        _ => false,
    }
}

fn only_examples(hooks: &Path) -> bool {
    let Ok(entries) = hooks.read_dir() else { return false };
    let is_example = |entry: std::io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| {
            entry.file_name().to_str().is_some_and(|name| name.ends_with(".sample"))
                && entry.file_type().is_ok_and(|kind| kind.is_file())
        })
    };
    entries.into_iter().all(is_example)
}

/// Understands less than git does, and calls plain only what it understands.
fn is_plain(text: &str) -> bool {
    let mut keys: &[&str] = &[];
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let Some(section) = rest.strip_suffix(']').map(|section| section.split([' ', '.', '"']).next()) else {
                return false;
            };
            let section = section.unwrap_or_default().to_ascii_lowercase();
            let Some((_, known)) = PLAIN.iter().find(|(name, _)| *name == section) else { return false };
            keys = known;
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let key = key.trim().to_ascii_lowercase();
        // A line that goes on could hold anything; `ext::` addresses are programs.
        if !keys.contains(&key.as_str()) || value.ends_with('\\') || value.trim_start().starts_with("ext::") {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_every_new_repository_says_is_plain() {
        for plain in [
            "",
            "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n",
            "[remote \"origin\"]\n\turl = https://example.org/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
            "# x\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n[user]\nname = A\n",
        ] {
            assert!(is_plain(plain), "{plain}");
        }
        for risky in [
            "[core]\n\tfsmonitor = evil\n",
            "[core] hooksPath = evil\n",
            "[core]\n\thooksPath = evil\n",
            "[core]\n\tbare = false \\\n\tfsmonitor = evil\n",
            "[include]\n\tpath = evil\n",
            "[filter \"x\"]\n\tclean = evil\n",
            "[alias]\n\tst = !evil\n",
            "[remote \"origin\"]\n\turl = ext::evil\n",
            "[remote \"origin\"]\n\tuploadpack = evil\n",
            "name = before any section\n",
        ] {
            assert!(!is_plain(risky), "{risky}");
        }
    }
}
