//! Whose the person's files are. What somebody else could have written must not act in the person's name, so a config
//! home that others own or may write is not believed. Only looked at here; nothing is ever changed but the mode of a
//! folder that gimlet made itself.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::files;

const ROOT: u32 = 0;
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

impl Person {
    pub(crate) fn current(also: Option<u32>) -> Self {
        Self { id: rustix::process::geteuid().as_raw(), also }
    }

    /// What is doubtful about this folder and this file in it. Whoever may write the folder may exchange the file, and
    /// where the file is a link, the same holds for the place that it leads to.
    pub(crate) fn doubts(self, folder: &Path, file: &Path) -> Vec<Doubt> {
        let mut places = vec![folder.to_owned(), file.to_owned()];
        if let Ok(real) = file.canonicalize() {
            let holder = real.parent().map(Path::to_owned);
            places.extend(holder.filter(|holder| folder.canonicalize().is_ok_and(|folder| folder != *holder)));
        }
        places.iter().filter_map(|place| self.doubt(place)).collect()
    }

    /// What is doubtful about one file or folder; nothing about one that is not there.
    pub(crate) fn doubt(self, path: &Path) -> Option<Doubt> {
        let metadata = path.metadata().ok()?;
        let (owner, group, mode) = (metadata.uid(), metadata.gid(), metadata.mode());
        // In a folder such as /tmp nobody can exchange what belongs to another.
        let open = |bit: u32| mode & bit != 0 && !(metadata.is_dir() && mode & 0o1000 != 0);
        let why = if ![Some(ROOT), Some(self.id), self.also].contains(&Some(owner)) {
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
    format!("{}; once you know that nobody changed it, run: {}", words.join(", and "), remedies.join(" && "))
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
        let doubt = stranger.doubt(&file).unwrap();
        assert_eq!(doubt.why, Why::Owner(owner));
        let said = sentence(&[doubt]);
        assert!(said.contains(&format!("another user ({owner})")) && said.contains("chown "), "{said}");
        assert_eq!(Person { also: Some(owner), ..stranger }.doubt(&file), None, "the same person under another name");
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
