//! Working directory of the session after a command: the directory the command ended in, if the session may work there.

use std::path::{Path, PathBuf};

use gimlet_core::tool::{PathContext, ToolContext};

/// Directory that a command started in.
#[derive(Debug)]
pub(super) struct StartDir {
    pub(super) dir: PathBuf,
    /// Requested start directory, if it was missing.
    pub(super) missing_dir: Option<PathBuf>,
}

/// Effect of a command on the session's working directory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CwdUpdate {
    /// New working directory of the session, if it changes.
    pub(super) new_dir: Option<PathBuf>,
    pub(super) notices: Vec<String>,
}

/// Returns the working directory update after a command that ended in `ended_in`.
pub(super) fn cwd_after_command(started: &StartDir, ended_in: Option<PathBuf>, cx: &ToolContext) -> CwdUpdate {
    let is_main = cx.agent.0.is_empty();
    // The reported directory is canonicalized, and ignored if it is not a directory.
    let ended_in = ended_in.and_then(|end| end.canonicalize().ok()).filter(|end| end.is_dir());
    cwd_update_for(started, ended_in, is_main, &cx.paths)
}

fn cwd_update_for(started: &StartDir, ended_in: Option<PathBuf>, is_main: bool, paths: &PathContext) -> CwdUpdate {
    let mut landing = CwdUpdate::default();
    if let Some(wanted) = &started.missing_dir {
        let (wanted, dir) = (wanted.display(), started.dir.display());
        landing.notices.push(format!("The working directory {wanted} no longer exists; the command ran in {dir}."));
    }
    let stayed = ended_in.as_deref().is_none_or(|end| is_same(end, &started.dir));
    if stayed && started.missing_dir.is_none() {
        return landing;
    }
    let end = if stayed { started.dir.clone() } else { ended_in.unwrap_or_else(|| started.dir.clone()) };
    let goes_home = paths.env.flag("CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR");
    let kept = if is_main && !goes_home { spelled_in_roots(&end, paths) } else { None };
    // A subagent never changes the session's directory and always starts in its own.
    let back = if is_main { &paths.project_dir } else { &paths.cwd };
    let stands = kept.unwrap_or_else(|| {
        if !is_same(&end, back) {
            landing.notices.push(format!("Shell cwd was reset to {}", back.display()));
        }
        back.clone()
    });
    landing.new_dir = (is_main && stands != paths.cwd).then_some(stands);
    landing
}

/// Returns true if two paths are one directory after symlinks are resolved. `real` is already resolved.
fn is_same(real: &Path, spelled: &Path) -> bool {
    real == spelled || spelled.canonicalize().is_ok_and(|path| path == real)
}

/// Returns the directory in the session's own spelling; `None` outside the working directories.
fn spelled_in_roots(real: &Path, paths: &PathContext) -> Option<PathBuf> {
    let is_spelled_so =
        |root: &PathBuf| real.starts_with(root) && root.canonicalize().is_ok_and(|found| found == *root);
    if paths.roots.iter().any(is_spelled_so) {
        return Some(real.to_owned());
    }
    paths.roots.iter().find_map(|root| {
        let rest = real.strip_prefix(root.canonicalize().ok()?).ok()?.to_owned();
        Some(if rest.as_os_str().is_empty() { root.clone() } else { root.join(rest) })
    })
}

#[cfg(test)]
mod tests {
    use gimlet_proto::Env;

    use super::*;

    fn paths(root: &Path, cwd: &Path) -> PathContext {
        let env = Env::default();
        PathContext {
            cwd: cwd.into(),
            project_dir: root.into(),
            roots: vec![root.into()],
            home: None,
            env,
            environment: None,
            skills: std::sync::Arc::default(),
        }
    }

    #[test]
    fn a_project_behind_a_link_keeps_its_spelling() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("real/sub")).unwrap();
        std::os::unix::fs::symlink(base.join("real"), base.join("link")).unwrap();
        let link = base.join("link");
        let started = StartDir { dir: link.clone(), missing_dir: None };
        let paths = paths(&link, &link);
        assert_eq!(cwd_update_for(&started, Some(base.join("real")), true, &paths), CwdUpdate::default());
        let inside = cwd_update_for(&started, Some(base.join("real/sub")), true, &paths);
        assert_eq!((inside.new_dir, inside.notices), (Some(link.join("sub")), vec![]));
    }

    #[test]
    fn a_sibling_with_the_same_beginning_is_outside() {
        let started = StartDir { dir: "/p/app/src".into(), missing_dir: None };
        let paths = paths(Path::new("/p/app"), Path::new("/p/app/src"));
        let landing = cwd_update_for(&started, Some("/p/app2".into()), true, &paths);
        assert_eq!(landing.new_dir, Some("/p/app".into()));
        assert_eq!(landing.notices, ["Shell cwd was reset to /p/app"]);
    }

    #[test]
    fn a_vanished_directory_is_told_and_left() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let gone = root.join("gone");
        let started = StartDir { dir: root.clone(), missing_dir: Some(gone.clone()) };
        let landing = cwd_update_for(&started, Some(root.clone()), true, &paths(&root, &gone));
        assert_eq!(landing.new_dir, Some(root));
        assert!(landing.notices[0].contains("no longer exists"));
    }
}
