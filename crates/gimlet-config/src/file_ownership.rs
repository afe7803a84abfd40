//! Ownership checks of the user's files. Content that another user could have written must not act for this user, so a
//! config home that others own or may write is not trusted. Checks only; nothing is ever changed but the mode of a
//! folder that gimlet made itself.

use std::collections::HashSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use gimlet_fs::{FollowedLink, ResolvePolicy, ResolvedPath, read_text};

const ROOT: u32 = 0;
/// Lists of users and groups on large machines stay below this.
const ACCOUNTS_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Lists of users and groups, read when the first group-writable path is found.
static ACCOUNTS: LazyLock<(String, String)> = LazyLock::new(|| {
    let text = |path: &str| read_text(Path::new(path), ACCOUNTS_MAX_BYTES).ok().flatten().unwrap_or_default();
    (text("/etc/passwd"), text("/etc/group"))
});

/// User who runs gimlet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CurrentUser {
    id: u32,
    /// Another user id that counts as this user: the caller of `sudo`, or the owner of a folder mounted into a
    /// container.
    also_owner: Option<u32>,
}

/// Reason why a file or folder is not trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnershipProblem {
    pub(crate) path: PathBuf,
    kind: OwnershipProblemKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnershipProblemKind {
    Owner(u32),
    Group(u32),
    Everybody,
}

/// Role of a path for the file that is to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathRole {
    /// The file itself, or the folder that contains it.
    Content,
    /// A folder that contains a symlink or the config home.
    ParentFolder,
    /// A symlink on the way.
    Symlink,
}

impl CurrentUser {
    pub(crate) fn for_process(also_owner: Option<u32>) -> Self {
        Self { id: rustix::process::geteuid().as_raw(), also_owner }
    }

    /// Returns the ownership problems of this folder and this file in it. A user who may write the folder may replace
    /// the file; where symlinks are followed, that also holds for the folders that contain them and for the target's
    /// folder.
    pub(crate) fn check_file(self, folder: &Path, file: &Path) -> Vec<OwnershipProblem> {
        self.check_paths(vec![(folder.to_owned(), PathRole::Content)], folder.parent(), &[folder, file])
    }

    /// Returns the ownership problems of a config home, which a user who may write its parent folder may replace.
    pub(crate) fn check_config_home(self, home: &Path, file: &Path) -> Vec<OwnershipProblem> {
        let around = home.parent().map(|holder| (holder.to_owned(), PathRole::ParentFolder));
        let places = around.into_iter().chain([(home.to_owned(), PathRole::Content)]).collect();
        self.check_paths(places, home.parent(), &[home, file])
    }

    /// Returns the ownership problems of a file that is in the home directory itself.
    pub(crate) fn check_state_file(self, file: &Path) -> Vec<OwnershipProblem> {
        let around = file.parent().map(|holder| (holder.to_owned(), PathRole::ParentFolder));
        self.check_paths(around.into_iter().collect(), file.parent(), &[file])
    }

    /// Returns the ownership problem of a file alone, whose folder was checked before.
    pub(crate) fn check_single_file(self, file: &Path) -> Option<OwnershipProblem> {
        self.check_path(file, PathRole::Content)
    }

    /// Returns the ownership problems of these paths, of the last one's target, and of the symlinks on the way.
    fn check_paths(
        self,
        mut places: Vec<(PathBuf, PathRole)>,
        top: Option<&Path>,
        paths: &[&Path],
    ) -> Vec<OwnershipProblem> {
        places.extend(paths.last().map(|file| (file.to_path_buf(), PathRole::Content)));
        if let Some((top, real)) = top.and_then(|top| Some((top, top.canonicalize().ok()?))) {
            for path in paths.iter().filter_map(|path| path.strip_prefix(top).ok()) {
                add_symlink_chain(&real, path, &mut places);
            }
        }
        let mut seen = HashSet::new();
        places.retain(|(path, _)| seen.insert(path.clone()));
        places.iter().filter_map(|(place, part)| self.check_path(place, *part)).collect()
    }

    /// Returns the ownership problem of one path; `None` if it has none or does not exist.
    fn check_path(self, path: &Path, part: PathRole) -> Option<OwnershipProblem> {
        let metadata = if part == PathRole::Symlink { path.symlink_metadata() } else { path.metadata() }.ok()?;
        let (owner, group, mode) = (metadata.uid(), metadata.gid(), metadata.mode());
        // In a sticky folder such as /tmp users cannot replace files of others, and a symlink has no mode of its own.
        let is_shut = part == PathRole::Symlink || (metadata.is_dir() && mode & 0o1000 != 0);
        let open = |bit: u32| mode & bit != 0 && !is_shut;
        // In containers root uses another user's home directory, and there are no other users.
        let may_be_anybodys = part == PathRole::ParentFolder && self.id == ROOT;
        let why = if ![Some(ROOT), Some(self.id), self.also_owner].contains(&Some(owner)) && !may_be_anybodys {
            OwnershipProblemKind::Owner(owner)
        } else if open(0o002) {
            OwnershipProblemKind::Everybody
        } else if open(0o020) && !self.is_private_group_of_user(group, owner) {
            OwnershipProblemKind::Group(group)
        } else {
            return None;
        };
        Some(OwnershipProblem { path: path.to_owned(), kind: why })
    }

    /// Returns true if the group has no other member: many systems create one for each user, with a umask that lets it
    /// write.
    fn is_private_group_of_user(self, group: u32, owner: u32) -> bool {
        // Root's group has no more rights than root.
        group == ROOT || {
            let (users, groups) = &*ACCOUNTS;
            let selves = [Some(self.id), self.also_owner, Some(owner)];
            selves.into_iter().flatten().any(|user| is_private_group(group, user, users, groups))
        }
    }
}

/// Adds the symlinks on the way to a path below a folder (itself without symlinks), the folders that contain them,
/// and, if there is any symlink, the target's folder. Folders further up are the system's responsibility.
fn add_symlink_chain(from: &Path, path: &Path, places: &mut Vec<(PathBuf, PathRole)>) {
    let Some(resolved) = ResolvedPath::on_disk(&from.join(path), ResolvePolicy::LENIENT) else { return };
    let has_links = !resolved.links.is_empty();
    for FollowedLink { link, .. } in resolved.links {
        places.extend(link.parent().map(|folder| (folder.to_owned(), PathRole::ParentFolder)));
        places.push((link, PathRole::Symlink));
    }
    if has_links {
        places.extend(resolved.target.parent().map(|folder| (folder.to_owned(), PathRole::Content)));
    }
}

/// Splits such a list into lines, and each line into its fields.
fn split_rows(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split(':').collect()).collect()
}

/// Returns true if a group belongs to one user alone, by the system's user and group lists.
fn is_private_group(group: u32, user: u32, users: &str, groups: &str) -> bool {
    let number = |field: Option<&&str>| field.and_then(|field| field.parse::<u32>().ok());
    let users = split_rows(users);
    let name = users.iter().find(|row| number(row.get(2)) == Some(user)).and_then(|row| row.first().copied());
    let home_of_others = users.iter().any(|row| number(row.get(3)) == Some(group) && number(row.get(2)) != Some(user));
    let groups = split_rows(groups);
    match (groups.iter().find(|row| number(row.get(2)) == Some(group)), name) {
        (Some(row), Some(name)) => {
            let mut members = row.get(3).copied().unwrap_or_default().split(',').map(str::trim);
            row.first() == Some(&name) && !home_of_others && members.all(|member| member.is_empty() || member == name)
        }
        // Accounts that are stored elsewhere: by convention such a group has its user's number.
        _ => group == user && !home_of_others,
    }
}

impl OwnershipProblem {
    fn describe(&self) -> String {
        let path = self.path.display();
        match self.kind {
            OwnershipProblemKind::Owner(owner) => format!("{path} belongs to another user ({owner})"),
            OwnershipProblemKind::Group(group) => format!("{path} may be written by a group ({group})"),
            OwnershipProblemKind::Everybody => format!("{path} may be written by everybody"),
        }
    }

    /// Returns the command that fixes the problem.
    fn fix_command(&self) -> String {
        let path = self.path.display();
        match self.kind {
            // The mode of a file of another owner does not matter.
            OwnershipProblemKind::Owner(_) => {
                format!("chown {} '{path}' && chmod go-w '{path}'", rustix::process::geteuid().as_raw())
            }
            OwnershipProblemKind::Group(_) => format!("chmod g-w '{path}'"),
            OwnershipProblemKind::Everybody => format!("chmod go-w '{path}'"),
        }
    }
}

/// Describes all problems in one sentence, with the commands that fix them.
pub(crate) fn describe_problems(doubts: &[OwnershipProblem]) -> String {
    let words: Vec<String> = doubts.iter().map(OwnershipProblem::describe).collect();
    let remedies: Vec<String> = doubts.iter().map(OwnershipProblem::fix_command).collect();
    let (words, run) = (words.join(", and "), remedies.join(" && "));
    let owner = doubts.iter().find_map(|doubt| match doubt.kind {
        OwnershipProblemKind::Owner(owner) => Some(owner),
        OwnershipProblemKind::Group(_) | OwnershipProblemKind::Everybody => None,
    });
    // Root in a container uses files of the user who mounted them, who would lose them by a `chown`.
    let or_lent = match owner {
        Some(owner) if rustix::process::geteuid().is_root() => {
            format!("; or, if that user is you as well (a folder lent to a container), set GIMLET_CONFIG_OWNER={owner}")
        }
        _ => String::new(),
    };
    format!("{words}; once you know that nobody changed it, run: {run}{or_lent}")
}

/// Restores the private mode of a folder that gimlet made for itself. Returns a message if it was open to others.
pub fn restrict_own_folder(folder: &Path) -> Option<String> {
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

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_others_own_or_may_write_is_doubted() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, file) = (dir.path().join("home"), dir.path().join("home/settings.json"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(&file, "{}").unwrap();
        let owner = file.metadata().unwrap().uid();
        let me = CurrentUser { id: owner, also_owner: None };
        for (folder_mode, file_mode, doubted) in [
            (0o700, 0o600, vec![]),
            (0o755, 0o644, vec![]),
            (0o777, 0o644, vec![&folder]),
            (0o755, 0o666, vec![&file]),
            (0o777, 0o666, vec![&folder, &file]),
            (0o1777, 0o644, vec![]),
        ] {
            set_mode(&folder, folder_mode);
            set_mode(&file, file_mode);
            let doubts = me.check_file(&folder, &file);
            let paths: Vec<&PathBuf> = doubts.iter().map(|doubt| &doubt.path).collect();
            assert_eq!(paths, doubted, "{folder_mode:o} {file_mode:o}");
        }
        set_mode(&folder, 0o700);
        set_mode(&file, 0o600);
        // Root's files are always trusted, so this needs an owner that is not root.
        if owner == ROOT {
            std::os::unix::fs::chown(&file, Some(4711), None).unwrap();
        }
        let owner = file.metadata().unwrap().uid();
        let stranger = CurrentUser { id: owner + 1, also_owner: None };
        let doubt = stranger.check_path(&file, PathRole::Content).unwrap();
        assert_eq!(doubt.kind, OwnershipProblemKind::Owner(owner));
        let said = describe_problems(&[doubt]);
        assert!(said.contains(&format!("another user ({owner})")) && said.contains("chown "), "{said}");
        assert_eq!(
            CurrentUser { also_owner: Some(owner), ..stranger }.check_path(&file, PathRole::Content),
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
            set_mode(made, 0o700);
        }
        std::fs::write(open.join("settings.json"), "{}").unwrap();
        set_mode(&open, 0o777);
        std::os::unix::fs::symlink(open.join("settings.json"), folder.join("settings.json")).unwrap();
        let doubts = CurrentUser::for_process(None).check_file(&folder, &folder.join("settings.json"));
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
            set_mode(made, 0o700);
        }
        std::fs::write(real.join("claude/settings.json"), "{}").unwrap();
        std::os::unix::fs::symlink("../steps/on/claude", home.join(".claude")).unwrap();
        std::os::unix::fs::symlink(&real, steps.join("on")).unwrap();
        let config = home.join(".claude");
        let doubted = || {
            let doubts = CurrentUser::for_process(None).check_config_home(&config, &config.join("settings.json"));
            doubts.into_iter().map(|doubt| doubt.path).collect::<Vec<_>>()
        };
        assert_eq!(doubted(), Vec::<PathBuf>::new());
        for (open, named) in [(&home, &home), (&steps, &steps), (&real, &real), (&real.join("claude"), &config)] {
            set_mode(open, 0o777);
            assert!(doubted().contains(named), "{}", open.display());
            set_mode(open, 0o700);
        }
        // Files in such a folder cannot be replaced by others, but the symlink's owner still matters.
        set_mode(&steps, 0o1777);
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
        set_mode(dir.path(), 0o755);
        let owner = dir.path().metadata().unwrap().uid();
        if owner == ROOT {
            std::os::unix::fs::chown(dir.path(), Some(4711), None).unwrap();
        }
        let root = CurrentUser { id: ROOT, also_owner: Some(owner) };
        assert_eq!(root.check_state_file(&file), []);
        let somebody = CurrentUser { id: 4712, also_owner: Some(owner).filter(|owner| *owner == ROOT) };
        assert!(somebody.check_state_file(&file).iter().any(|doubt| doubt.path == dir.path()));
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
            assert_eq!(is_private_group(group, user, users, groups), private, "group {group}, user {user}");
        }
    }

    #[test]
    fn an_own_folder_is_closed_once() {
        let dir = tempfile::tempdir().unwrap();
        set_mode(dir.path(), 0o755);
        let said = restrict_own_folder(dir.path()).unwrap();
        assert!(said.contains("mode 700"), "{said}");
        assert_eq!(dir.path().metadata().unwrap().mode() & 0o777, 0o700);
        assert_eq!(restrict_own_folder(dir.path()), None);
        assert_eq!(restrict_own_folder(&dir.path().join("none")), None);
    }
}
