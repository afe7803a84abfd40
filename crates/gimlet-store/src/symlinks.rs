//! Refusal of symlinks in the folder of all projects: a user who can create one there could have a session read from,
//! or written to, any other place. The config home and the folder of projects themselves may be symlinks.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::layout::{PROJECTS, is_session_id};

/// Fails if this path belongs to a session and one of its parts, from the project's folder on, is a symlink.
pub(crate) fn refuse_symlinks(path: &Path) -> io::Result<()> {
    let parts: Vec<&OsStr> = path.iter().collect();
    let is_session =
        |parts: &[&OsStr]| matches!(parts, [projects, _, session] if *projects == PROJECTS && is_session_name(session));
    let Some(projects) = parts.windows(3).position(is_session) else { return Ok(()) };
    let below = parts.len() - projects - 2;
    let mut checked: Vec<&Path> = path.ancestors().take(below + 1).collect();
    checked.reverse();
    checked.into_iter().try_for_each(refuse_symlink)
}

/// Fails if there is a symlink at this path.
pub(crate) fn refuse_symlink(path: &Path) -> io::Result<()> {
    if path.is_symlink() {
        let text = format!("{} is a symlink, which is not followed here", path.display());
        return Err(io::Error::new(ErrorKind::InvalidInput, text));
    }
    Ok(())
}

/// Returns true if a name is that of a transcript, or of the folder beside one.
fn is_session_name(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| is_session_id(name.strip_suffix(".jsonl").unwrap_or(name)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const ID: &str = "5b1c0000-0000-4000-8000-00000000000a";

    #[test]
    fn symlinks_count_from_the_folder_of_a_project_on() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        let real = root.join("real/projects/-x");
        std::fs::create_dir_all(real.join(ID).join("subagents")).unwrap();
        std::fs::write(real.join(format!("{ID}.jsonl")), "").unwrap();
        symlink("real", root.join("home")).unwrap();
        for name in [format!("{ID}.jsonl"), format!("{ID}/subagents/agent-1.jsonl"), ID.to_owned()] {
            assert!(refuse_symlinks(&real.join(&name)).is_ok(), "{name}");
            assert!(
                refuse_symlinks(&root.join("home/projects/-x").join(&name)).is_ok(),
                "{name}: the home is a symlink"
            );
        }
        symlink("-x", root.join("real/projects/-y")).unwrap();
        for name in [format!("{ID}.jsonl"), format!("{ID}/driver.lock"), format!("{ID}/not/there")] {
            let error = refuse_symlinks(&root.join("real/projects/-y").join(&name)).unwrap_err();
            assert!(error.to_string().contains("projects/-y is a symlink"), "{error}");
        }
        let other = "5b1c0000-0000-4000-8000-00000000000b";
        symlink(ID, real.join(other)).unwrap();
        symlink(format!("{ID}.jsonl"), real.join(format!("{other}.jsonl"))).unwrap();
        assert!(refuse_symlinks(&real.join(format!("{other}/subagents/agent-1.jsonl"))).is_err());
        assert!(refuse_symlinks(&real.join(format!("{other}.jsonl"))).is_err());
    }

    #[test]
    fn files_of_no_session_are_not_looked_at() {
        let temp = tempfile::tempdir().unwrap();
        symlink("/nowhere", temp.path().join("projects")).unwrap();
        symlink("/nowhere", temp.path().join(format!("{ID}.jsonl"))).unwrap();
        assert!(refuse_symlinks(&temp.path().join(format!("{ID}.jsonl"))).is_ok(), "a file that was named by its path");
        assert!(refuse_symlinks(&temp.path().join("projects")).is_ok());
    }
}
