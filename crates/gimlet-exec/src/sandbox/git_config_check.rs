//! Check of the files that a command left in a repository that it created: sample hooks, and a configuration with
//! only the entries of a new repository, can stay.

use std::fs;
use std::path::Path;

use gimlet_fs::read_text_nofollow;

use super::dir_handle::may_exist;
use super::symlinks::{PATH_FILE, git_link_target, resolve_path};

/// Sections and keys that name no program, no other file and no place to send anything.
const PLAIN: &[(&str, &[&str])] = &[
    ("advice", &["detachedhead", "skippedcherrypicks", "statushints"]),
    ("branch", &["autosetupmerge", "autosetuprebase", "description", "merge", "rebase", "remote", "sort"]),
    ("color", &["branch", "diff", "status", "ui"]),
    ("commit", &["cleanup", "status", "verbose"]),
    (
        "core",
        &[
            "abbrev",
            "autocrlf",
            "bare",
            "bigfilethreshold",
            "eol",
            "filemode",
            "ignorecase",
            "logallrefupdates",
            "longpaths",
            "precomposeunicode",
            "quotepath",
            "repositoryformatversion",
            "safecrlf",
            "sparsecheckout",
            "sparsecheckoutcone",
            "symlinks",
            "untrackedcache",
        ],
    ),
    ("diff", &["algorithm", "colormoved", "context", "mnemonicprefix", "renamelimit", "renames"]),
    ("extensions", &["objectformat", "partialclone", "refstorage", "worktreeconfig"]),
    ("fetch", &["parallel", "prune", "prunetags", "writecommitgraph"]),
    ("gc", &["auto", "autodetach"]),
    ("index", &["version"]),
    ("init", &["defaultbranch"]),
    ("log", &["date", "decorate", "follow"]),
    ("maintenance", &["auto"]),
    ("merge", &["conflictstyle", "ff", "renamelimit", "renames", "stat"]),
    ("pull", &["ff", "rebase"]),
    ("push", &["autosetupremote", "default", "followtags"]),
    ("rebase", &["abbreviatecommands", "autosquash", "autostash", "stat", "updaterefs"]),
    ("remote", &["fetch", "mirror", "partialclonefilter", "promisor", "prune", "tagopt", "url"]),
    ("rerere", &["autoupdate", "enabled"]),
    ("status", &["branch", "short", "submodulesummary"]),
    ("submodule", &["active", "branch", "url"]),
    ("tag", &["sort"]),
    ("user", &["email", "name"]),
];
/// The values of `remote.*.tagOpt`.
const TAG_OPTIONS: [&str; 2] = ["--no-tags", "--tags"];
/// A configuration longer than this is not one of a new repository.
const MAX_BYTES: u64 = 64 * 1024;

/// Returns true if a protected path that is new can stay. A missing one can; an unreadable one cannot.
pub(super) fn is_harmless(path: &Path) -> bool {
    let Ok(metadata) = fs::symlink_metadata(path) else { return !may_exist(path) };
    let name = path.file_name().and_then(|name| name.to_str());
    match name {
        Some("hooks") if metadata.is_dir() => has_only_sample_hooks(path),
        Some("config" | "config.worktree") => {
            let repository = path.parent().unwrap_or(path);
            read_text_nofollow(path, MAX_BYTES).is_ok_and(|text| is_plain_config(&text, repository))
        }
        // That of a worktree points to the repository around it, which is guarded itself.
        Some("commondir") => {
            let is_worktree = path.ancestors().nth(2).is_some_and(|dir| dir.ends_with("worktrees"));
            is_worktree && read_text_nofollow(path, PATH_FILE).is_ok_and(|text| text.trim_end() == "../..")
        }
        _ => false,
    }
}

fn has_only_sample_hooks(hooks: &Path) -> bool {
    let Ok(entries) = hooks.read_dir() else { return false };
    let is_example = |entry: std::io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| {
            entry.file_name().to_str().is_some_and(|name| name.ends_with(".sample"))
                && entry.file_type().is_ok_and(|kind| kind.is_file())
        })
    };
    entries.into_iter().all(is_example)
}

/// Returns true if a replaced configuration names nothing to run, read or reach that it did not name before: entries
/// that can do so are unchanged word for word, and the others are unchanged, gone, or about a new subject.
pub(super) fn adds_no_commands(path: &Path, before: &str) -> bool {
    let is_config = matches!(path.file_name().and_then(|name| name.to_str()), Some("config" | "config.worktree"));
    is_config && read_text_nofollow(path, MAX_BYTES).is_ok_and(|now| adds_only_plain(before, &now))
}

fn adds_only_plain(before: &str, now: &str) -> bool {
    let (Some(before), Some(now)) = (parse_entries(before), parse_entries(now)) else { return false };
    let is_risky = |entry: &&GitConfigEntry<'_>| !entry.is_plain();
    let is_new = |entry: &GitConfigEntry<'_>| !before.iter().any(|old| old.has_same_key(entry));
    before.iter().filter(is_risky).eq(now.iter().filter(is_risky))
        && now.iter().all(|entry| before.contains(entry) || is_new(entry))
}

fn is_plain_config(text: &str, repository: &Path) -> bool {
    parse_entries(text)
        .is_some_and(|entries| entries.iter().all(|entry| entry.is_plain() || entry.points_back_to(repository)))
}

/// A section's head, or one key in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct GitConfigEntry<'a> {
    section: &'a str,
    part: &'a str,
    key: Option<&'a str>,
    value: &'a str,
}

impl GitConfigEntry<'_> {
    fn is_plain(&self) -> bool {
        let known = PLAIN.iter().find(|(known, _)| self.section.eq_ignore_ascii_case(known));
        let is_known =
            |key: &str| known.is_some_and(|(_, keys)| keys.iter().any(|known| key.eq_ignore_ascii_case(known)));
        let is_flag = |key: &str| key.eq_ignore_ascii_case("tagopt") && TAG_OPTIONS.contains(&self.value);
        known.is_some() && self.key.is_none_or(|key| is_known(key) && (is_plain_value(self.value) || is_flag(key)))
    }

    /// Returns true if it names the folder that a repository is checked out in, and the `.git` there points back: as
    /// with submodules.
    fn points_back_to(&self, repository: &Path) -> bool {
        let is_worktree = self.section.eq_ignore_ascii_case("core")
            && self.part.is_empty()
            && self.key.is_some_and(|key| key.eq_ignore_ascii_case("worktree"));
        let is_path = is_worktree && is_plain_value(self.value) && !self.value.contains(['"', '#', ';', '~']);
        if !is_path {
            return false;
        }
        resolve_path(&repository.join(self.value)).is_some_and(|way| {
            way.links.is_empty() && git_link_target(&way.target.join(".git")).is_some_and(|target| target == repository)
        })
    }

    fn has_same_key(&self, other: &Self) -> bool {
        let same_key = match (self.key, other.key) {
            (Some(own), Some(other)) => own.eq_ignore_ascii_case(other),
            (own, other) => own == other,
        };
        same_key && self.section.eq_ignore_ascii_case(other.section) && self.part == other.part
    }
}

/// Parses a strict subset of git's format: one section or one key per line, no continuation lines. Returns `None` for
/// anything else.
fn parse_entries(text: &str) -> Option<Vec<GitConfigEntry<'_>>> {
    let mut entries = Vec::new();
    let mut head = None;
    // Git knows fewer kinds of white space than Rust, and ends lines at fewer places.
    for line in text.split('\n').map(|line| line.trim_matches([' ', '\t'])) {
        if line.chars().any(|c| c.is_control() && c != '\t') || line.ends_with('\\') {
            return None;
        }
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            head = Some(parse_section_header(rest)?);
            entries.extend(head.map(|(section, part)| GitConfigEntry { section, part, key: None, value: "" }));
            continue;
        }
        let (section, part) = head?;
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let key = key.trim_end_matches([' ', '\t']);
        if !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return None;
        }
        entries.push(GitConfigEntry { section, part, key: Some(key), value: value.trim_matches([' ', '\t']) });
    }
    Some(entries)
}

/// Parses `name]` or `name "part"]`, which end the line, into the name and the part.
fn parse_section_header(rest: &str) -> Option<(&str, &str)> {
    let inside = rest.strip_suffix(']')?;
    let (name, part) = match inside.split_once(' ') {
        None => (inside, ""),
        Some((name, part)) => {
            let part = part.strip_prefix('"')?.strip_suffix('"')?;
            if part.contains(['"', ']', '\\']) {
                return None;
            }
            (name, part)
        }
    };
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-').then_some((name, part))
}

/// Returns true if nothing is escaped and it is not an address that runs a program: `ext::…` and others that a git
/// remote helper serves. Branches, too, can name an address as their remote.
fn is_plain_value(value: &str) -> bool {
    // Git takes quotes out wherever they are.
    let value: String = value.chars().filter(|c| *c != '"').collect();
    let value = value.trim_matches([' ', '\t']);
    let helper = value.split_once("::").is_some_and(|(before, _)| !before.contains(['/', '[', ':']));
    !helper && !value.contains('\\') && !value.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_every_new_repository_says_is_plain() {
        let nowhere = Path::new("/nowhere");
        for plain in [
            "",
            "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n",
            "[remote \"origin\"]\n\turl = https://example.org/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
            "[remote \"o\"]\n\turl = a:b\n\ttagOpt = --no-tags\n\tpromisor = true\n\tpartialclonefilter = blob:none\n",
            "[remote \"o\"]\n\tmirror = true\n[extensions]\n\tworktreeConfig = true\n\tpartialClone = o\n",
            "# x\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n[user]\nname = A\n",
            "[Core]\n\tBare=false\n; x\n[remote \"a/b.c\"]\n\turl = \"ssh://git@[::1]/a b\"\n\turl = me@host:a.git\n",
        ] {
            assert!(is_plain_config(plain, nowhere), "{plain}");
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
            "[remote \"origin\"]\n\ttagOpt = --upload-pack=evil\n",
            "[core]\n\tworktree = ../x\n",
            "name = before any section\n",
            // Text that git reads after the end of a section's name, and on one line.
            "[branch \"x\"][core]fsmonitor=touch /tmp/x; #]\n",
            "[branch \"x\"] [core] fsmonitor = evil # \"]\n",
            "[branch \"x\\\"\"]\n",
            "[core][core]\n",
            "[core]]\n",
            "[core ]\n",
            "[branch.x]\n",
            "[branch \"x]\n",
            "[user]\nname = A\r[core]\rfsmonitor = evil\n",
            "[user]\nname = a\\\"\n",
            "[remote \"origin\"]\n\turl = \"ext::evil\"\n",
            "[remote \"origin\"]\n\turl = e\"x\"t::evil\n",
            "[remote \"origin\"]\n\turl = other::evil\n",
            "[remote \"origin\"]\n\turl = --upload-pack=evil\n",
            "[branch \"main\"]\n\tremote = ext::evil\n",
            "\u{a0}[core]\n\tbare = true\n",
        ] {
            assert!(!is_plain_config(risky, nowhere), "{risky}");
        }
    }

    #[test]
    fn a_submodule_may_name_its_folder_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let own = root.join(".git/modules/sub");
        fs::create_dir_all(&own).unwrap();
        for (folder, leads) in [("sub", "sub"), ("other", "other")] {
            fs::create_dir(root.join(folder)).unwrap();
            fs::write(root.join(folder).join(".git"), format!("gitdir: ../.git/modules/{leads}\n")).unwrap();
        }
        let is_plain = |to: &str| is_plain_config(&format!("[core]\n\tworktree = {to}\n"), &own);
        assert!(is_plain("../../../sub") && is_plain(root.join("sub").to_str().unwrap()));
        std::os::unix::fs::symlink("sub", root.join("link")).unwrap();
        for elsewhere in ["../../../other", "../../..", "../../../link", "/", "~/x", "../../../sub # x"] {
            assert!(!is_plain(elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn a_configuration_says_no_more_if_only_plain_things_came_or_went() {
        let before = "[core]\n\tbare = false\n\teditor = vi\n[remote \"origin\"]\n\turl = a:b\n[filter \"lfs\"]\n\tclean = \
                      git-lfs clean -- %f\n\tsmudge = \"a \\\"b\\\"\"\n";
        let after = |from: &str, to: &str| adds_only_plain(before, &before.replace(from, to));
        assert!(after("", "") && after("[remote \"origin\"]\n\turl = a:b\n", ""));
        assert!(adds_only_plain(before, &format!("{before}[branch \"x\"]\n\tmerge = refs/heads/x\n")));
        assert!(adds_only_plain(before, &format!("{before}[remote \"fork\"]\n\turl = c:d\n")));
        assert!(adds_only_plain(before, &format!("{before}[pull]\n\trebase = true\n")));
        assert!(adds_only_plain(
            before,
            &format!("{before}[submodule \"lib\"]\n\turl = https://a/b\n\tactive = true\n")
        ));
        assert!(!adds_only_plain(before, &format!("{before}[submodule \"lib\"]\n\tupdate = !evil\n")));
        for (from, to) in [
            ("a:b", "evil:b"),
            ("a:b", "a:b\n\turl = evil:b"),
            ("= vi", "= evil"),
            ("\teditor = vi\n", ""),
            ("editor = vi", "editor = evil\n\teditor = vi"),
            ("[filter \"lfs\"]", "[filter \"x\"]"),
            ("[core]", "[Core]\n\tBARE = true\n[core]"),
            ("[core]", "[include]\n\tpath = evil\n[core]"),
            ("= vi", "= vi \\"),
            ("[core]", "[core] fsmonitor = evil"),
        ] {
            assert!(!after(from, to), "{from} {to}");
        }
        assert!(!adds_only_plain("[a.b]\n", "[a.b]\n"), "not understood");
    }
}
