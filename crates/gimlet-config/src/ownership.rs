//! Whose the person's files are. What somebody else could have written must not act in the person's name, so a config
//! home that others own or may write is not believed. Only looked at here; nothing is ever changed but the mode of a
//! folder that gimlet made itself.

use std::collections::HashSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use crate::files;

const ROOT: u32 = 0;
/// As many as the system itself follows.
const MAX_LINKS: usize = 40;
/// Lists of users and groups on large machines stay below this.
const ACCOUNTS_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The lists of users and groups, read when the first place is met that a group may write.
static ACCOUNTS: LazyLock<(String, String)> = LazyLock::new(|| {
    let text = |path: &str| files::read_text(Path::new(path), ACCOUNTS_MAX_BYTES).ok().flatten().unwrap_or_default();
    (text("/etc/passwd"), text("/etc/group"))
});

/// Who runs gimlet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Person {
    id: u32,
    /// Another user that is the same person: whoever called `sudo`, or the owner of a folder lent to a container.
    also: Option<u32>,
}

/// Why a file or folder is not believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Doubt {
    pub(crate) path: PathBuf,
    why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Owner(u32),
    Group(u32),
    Everybody,
}

/// What a place is to the file that is to be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The file itself, or the folder that it lies in.
    Content,
    /// A folder in which a link, or the config home, lies.
    Holder,
    /// A link on the way.
    Link,
}

impl Person {
    pub(crate) fn current(also: Option<u32>) -> Self {
        Self { id: rustix::process::geteuid().as_raw(), also }
    }

    /// What is doubtful about this folder and this file in it. Whoever may write the folder may exchange the file, and
    /// where links lead on, the same holds for the folders that they lie in and the one at their end.
    pub(crate) fn doubts(self, folder: &Path, file: &Path) -> Vec<Doubt> {
        self.on_the_way(vec![(folder.to_owned(), Part::Content)], folder.parent(), &[folder, file])
    }

    /// The same for a config home, which whoever may write the folder around it may exchange.
    pub(crate) fn home_doubts(self, home: &Path, file: &Path) -> Vec<Doubt> {
        let around = home.parent().map(|holder| (holder.to_owned(), Part::Holder));
        let places = around.into_iter().chain([(home.to_owned(), Part::Content)]).collect();
        self.on_the_way(places, home.parent(), &[home, file])
    }

    /// What is doubtful about a file that lies in the home directory itself.
    pub(crate) fn state_doubts(self, file: &Path) -> Vec<Doubt> {
        let around = file.parent().map(|holder| (holder.to_owned(), Part::Holder));
        self.on_the_way(around.into_iter().collect(), file.parent(), &[file])
    }

    /// What is doubtful about these places, the last of the paths, and the links that lead there.
    fn on_the_way(self, mut places: Vec<(PathBuf, Part)>, top: Option<&Path>, paths: &[&Path]) -> Vec<Doubt> {
        places.extend(paths.last().map(|file| (file.to_path_buf(), Part::Content)));
        if let Some((top, real)) = top.and_then(|top| Some((top, top.canonicalize().ok()?))) {
            for path in paths.iter().filter_map(|path| path.strip_prefix(top).ok()) {
                add_way(&real, path, &mut places);
            }
        }
        let mut seen = HashSet::new();
        places.retain(|(path, _)| seen.insert(path.clone()));
        places.iter().filter_map(|(place, part)| self.doubt_of(place, *part)).collect()
    }

    /// What is doubtful about one place; nothing about one that is not there.
    fn doubt_of(self, path: &Path, part: Part) -> Option<Doubt> {
        let metadata = if part == Part::Link { path.symlink_metadata() } else { path.metadata() }.ok()?;
        let (owner, group, mode) = (metadata.uid(), metadata.gid(), metadata.mode());
        // In a folder such as /tmp nobody can exchange what belongs to another, and a link has no mode of its own.
        let is_shut = part == Part::Link || (metadata.is_dir() && mode & 0o1000 != 0);
        let open = |bit: u32| mode & bit != 0 && !is_shut;
        // Root comes into another user's home directory in containers, where nobody else is.
        let may_be_anybodys = part == Part::Holder && self.id == ROOT;
        let why = if ![Some(ROOT), Some(self.id), self.also].contains(&Some(owner)) && !may_be_anybodys {
            Why::Owner(owner)
        } else if open(0o002) {
            Why::Everybody
        } else if open(0o020) && !self.shares_with_nobody(group, owner) {
            Why::Group(group)
        } else {
            return None;
        };
        Some(Doubt { path: path.to_owned(), why })
    }

    /// Whether nobody else is in this group: many systems give each user one, and a mask by which it may write.
    fn shares_with_nobody(self, group: u32, owner: u32) -> bool {
        // What root's group may do, root may do.
        group == ROOT || {
            let (users, groups) = &*ACCOUNTS;
            let selves = [Some(self.id), self.also, Some(owner)];
            selves.into_iter().flatten().any(|user| is_private(group, user, users, groups))
        }
    }
}

/// Adds the links on the way to a path below a folder (itself without links), the folders that they lie in, and, where
/// there is a link at all, the folder in which the way ends. Folders further up are the system's to look after.
fn add_way(from: &Path, path: &Path, places: &mut Vec<(PathBuf, Part)>) {
    let mut at = from.to_owned();
    let mut ahead: Vec<PathBuf> = pieces(path);
    let mut links = 0;
    while let Some(piece) = ahead.pop() {
        let next = at.join(&piece);
        match next.read_link() {
            Ok(target) if links < MAX_LINKS => {
                links += 1;
                places.extend([(at.clone(), Part::Holder), (next, Part::Link)]);
                ahead.extend(pieces(&target));
            }
            Ok(_) | Err(_) if piece == Path::new("..") => at = at.parent().unwrap_or(&at).to_owned(),
            Ok(_) | Err(_) => at = next,
        }
    }
    if links > 0 {
        places.extend(at.parent().map(|holder| (holder.to_owned(), Part::Content)));
    }
}

/// The pieces of a path, the last one first. A root among them leads back to the top.
fn pieces(path: &Path) -> Vec<PathBuf> {
    let named = path.components().filter(|piece| *piece != Component::CurDir);
    let mut pieces: Vec<PathBuf> = named.map(|piece| PathBuf::from(piece.as_os_str())).collect();
    pieces.reverse();
    pieces
}

/// The lines of such a list, each in its fields.
fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split(':').collect()).collect()
}

/// Whether a group is that of one user alone, by the system's lists of both.
fn is_private(group: u32, user: u32, users: &str, groups: &str) -> bool {
    let number = |field: Option<&&str>| field.and_then(|field| field.parse::<u32>().ok());
    let users = rows(users);
    let name = users.iter().find(|row| number(row.get(2)) == Some(user)).and_then(|row| row.first().copied());
    let home_of_others = users.iter().any(|row| number(row.get(3)) == Some(group) && number(row.get(2)) != Some(user));
    let groups = rows(groups);
    match (groups.iter().find(|row| number(row.get(2)) == Some(group)), name) {
        (Some(row), Some(name)) => {
            let mut members = row.get(3).copied().unwrap_or_default().split(',').map(str::trim);
            row.first() == Some(&name) && !home_of_others && members.all(|member| member.is_empty() || member == name)
        }
        // Accounts that are kept elsewhere: by convention such a group has its user's number.
        _ => group == user && !home_of_others,
    }
}

impl Doubt {
    fn words(&self) -> String {
        let path = self.path.display();
        match self.why {
            Why::Owner(owner) => format!("{path} belongs to another user ({owner})"),
            Why::Group(group) => format!("{path} may be written by a group ({group})"),
            Why::Everybody => format!("{path} may be written by everybody"),
        }
    }

    /// What to run to be rid of it.
    fn remedy(&self) -> String {
        let path = self.path.display();
        match self.why {
            // Nobody looks at the mode of what belongs to another.
            Why::Owner(_) => {
                format!("chown {} '{path}' && chmod go-w '{path}'", rustix::process::geteuid().as_raw())
            }
            Why::Group(_) => format!("chmod g-w '{path}'"),
            Why::Everybody => format!("chmod go-w '{path}'"),
        }
    }
}

/// All of them in one sentence, and what to run.
pub(crate) fn sentence(doubts: &[Doubt]) -> String {
    let words: Vec<String> = doubts.iter().map(Doubt::words).collect();
    let remedies: Vec<String> = doubts.iter().map(Doubt::remedy).collect();
    let (words, run) = (words.join(", and "), remedies.join(" && "));
    let owner = doubts.iter().find_map(|doubt| match doubt.why {
        Why::Owner(owner) => Some(owner),
        Why::Group(_) | Why::Everybody => None,
    });
    // Root in a container has the files of whoever lent them, who would lose them by a `chown`.
    let is_lent = owner.filter(|_| rustix::process::geteuid().is_root());
    let or_lent = is_lent.map_or_else(String::new, |owner| {
        format!("; or, if that user is you as well (a folder lent to a container), set GIMLET_CONFIG_OWNER={owner}")
    });
    format!("{words}; once you know that nobody changed it, run: {run}{or_lent}")
}

/// Closes a folder that gimlet made for itself, should somebody have opened it; says so when it did.
pub fn close_own_folder(folder: &Path) -> Option<String> {
    let metadata = folder.symlink_metadata().ok()?;
    let is_own = metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw();
    if !is_own || metadata.mode() & 0o077 == 0 {
        return None;
    }
    let shut = std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700));
    Some(match shut {
        Ok(()) => format!("{} was open to others; it is yours alone now (mode 700)", folder.display()),
        Err(error) => format!("{} is open to others and cannot be closed: {error}", folder.display()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_others_own_or_may_write_is_doubted() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, file) = (dir.path().join("home"), dir.path().join("home/settings.json"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(&file, "{}").unwrap();
        let owner = file.metadata().unwrap().uid();
        let me = Person { id: owner, also: None };
        for (folder_mode, file_mode, doubted) in [
            (0o700, 0o600, vec![]),
            (0o755, 0o644, vec![]),
            (0o777, 0o644, vec![&folder]),
            (0o755, 0o666, vec![&file]),
            (0o777, 0o666, vec![&folder, &file]),
            (0o1777, 0o644, vec![]),
        ] {
            with_mode(&folder, folder_mode);
            with_mode(&file, file_mode);
            let doubts = me.doubts(&folder, &file);
            let paths: Vec<&PathBuf> = doubts.iter().map(|doubt| &doubt.path).collect();
            assert_eq!(paths, doubted, "{folder_mode:o} {file_mode:o}");
        }
        with_mode(&folder, 0o700);
        with_mode(&file, 0o600);
        // Root's files are believed by everybody, so this needs an owner that is not root.
        if owner == ROOT {
            std::os::unix::fs::chown(&file, Some(4711), None).unwrap();
        }
        let owner = file.metadata().unwrap().uid();
        let stranger = Person { id: owner + 1, also: None };
        let doubt = stranger.doubt_of(&file, Part::Content).unwrap();
        assert_eq!(doubt.why, Why::Owner(owner));
        let said = sentence(&[doubt]);
        assert!(said.contains(&format!("another user ({owner})")) && said.contains("chown "), "{said}");
        assert_eq!(
            Person { also: Some(owner), ..stranger }.doubt_of(&file, Part::Content),
            None,
            "the same person under another name"
        );
    }

    #[test]
    fn the_place_that_a_link_leads_to_is_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, open) = (dir.path().join("home"), dir.path().join("open"));
        for made in [&folder, &open] {
            std::fs::create_dir(made).unwrap();
            with_mode(made, 0o700);
        }
        std::fs::write(open.join("settings.json"), "{}").unwrap();
        with_mode(&open, 0o777);
        std::os::unix::fs::symlink(open.join("settings.json"), folder.join("settings.json")).unwrap();
        let doubts = Person::current(None).doubts(&folder, &folder.join("settings.json"));
        assert_eq!(doubts.len(), 1, "{doubts:?}");
        assert!(doubts[0].path.ends_with("open"), "{doubts:?}");
    }

    #[test]
    fn links_on_the_way_and_the_folders_around_them_are_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let [home, steps, real] = ["home", "steps", "real"].map(|name| base.join(name));
        for made in [&home, &steps, &real, &real.join("claude")] {
            std::fs::create_dir(made).unwrap();
            with_mode(made, 0o700);
        }
        std::fs::write(real.join("claude/settings.json"), "{}").unwrap();
        std::os::unix::fs::symlink("../steps/on/claude", home.join(".claude")).unwrap();
        std::os::unix::fs::symlink(&real, steps.join("on")).unwrap();
        let config = home.join(".claude");
        let doubted = || {
            let doubts = Person::current(None).home_doubts(&config, &config.join("settings.json"));
            doubts.into_iter().map(|doubt| doubt.path).collect::<Vec<_>>()
        };
        assert_eq!(doubted(), Vec::<PathBuf>::new());
        for (open, named) in [(&home, &home), (&steps, &steps), (&real, &real), (&real.join("claude"), &config)] {
            with_mode(open, 0o777);
            assert!(doubted().contains(named), "{}", open.display());
            with_mode(open, 0o700);
        }
        // Nobody could have exchanged anything in such a folder, but whose is the link?
        with_mode(&steps, 0o1777);
        assert_eq!(doubted(), Vec::<PathBuf>::new());
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(steps.join("on"), Some(4711), None).unwrap();
            assert_eq!(doubted(), [steps.join("on")]);
        }
        std::fs::remove_file(home.join(".claude")).unwrap();
        std::os::unix::fs::symlink(".claude", home.join(".claude")).unwrap();
        assert_eq!(doubted(), Vec::<PathBuf>::new(), "a link to itself leads nowhere, and ends");
    }

    #[test]
    fn the_home_directory_may_be_anybodys_for_root_and_for_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(".claude.json");
        std::fs::write(&file, "{}").unwrap();
        with_mode(dir.path(), 0o755);
        let owner = dir.path().metadata().unwrap().uid();
        if owner == ROOT {
            std::os::unix::fs::chown(dir.path(), Some(4711), None).unwrap();
        }
        let root = Person { id: ROOT, also: Some(owner) };
        assert_eq!(root.state_doubts(&file), []);
        let somebody = Person { id: 4712, also: Some(owner).filter(|owner| *owner == ROOT) };
        assert!(somebody.state_doubts(&file).iter().any(|doubt| doubt.path == dir.path()));
    }

    #[test]
    fn a_group_counts_as_private_when_nobody_else_is_in_it() {
        let users = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbob:x:1001:1001::/:/bin/sh\n\
                     cy:x:1002:1001::/:/bin/sh\nnet:x:1003:100::/:/bin/sh\n";
        let groups = "root:x:0:\nann:x:1000:\nbob:x:1001:\nnet:x:1003:ann\nstaff:x:50:\nown:x:60:ann\nusers:x:100:\n";
        for (group, user, private) in [
            (1000, 1000, true),
            (1001, 1001, false), // another user's first group too
            (1003, 1003, false), // with a further member
            (50, 1000, false),
            (60, 1000, false),
            (100, 1003, false),
            (7000, 7000, true), // neither is listed here
            (7001, 7000, false),
            (1000, 7000, false),
        ] {
            assert_eq!(is_private(group, user, users, groups), private, "group {group}, user {user}");
        }
    }

    #[test]
    fn an_own_folder_is_closed_once() {
        let dir = tempfile::tempdir().unwrap();
        with_mode(dir.path(), 0o755);
        let said = close_own_folder(dir.path()).unwrap();
        assert!(said.contains("mode 700"), "{said}");
        assert_eq!(dir.path().metadata().unwrap().mode() & 0o777, 0o700);
        assert_eq!(close_own_folder(dir.path()), None);
        assert_eq!(close_own_folder(&dir.path().join("none")), None);
    }
}
