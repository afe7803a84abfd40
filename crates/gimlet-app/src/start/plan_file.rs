//! Location of a session's plan file.

use std::path::{Component, Path, PathBuf};

use gimlet_core::{DiskFileView, PlanConfig};
use gimlet_policy::FileView;
use gimlet_policy::is_protected;
use gimlet_proto::PermissionMode;

use super::session_history::SessionHistory;
use super::session_settings::SessionSettings;
use crate::launch_request::LaunchRequest;
use crate::process_env::ProcessEnv;

/// Returns the plan file of this session, which a resumed session finds again, and the session's own paths outside the
/// folder of all plans.
pub(super) fn plan_location(
    request: &LaunchRequest,
    around: &ProcessEnv,
    configured: &SessionSettings,
    past: &SessionHistory,
) -> (PlanConfig, Option<PathBuf>) {
    let name = format!("{}.md", past.id);
    let default = around.config_home.join("plans");
    let moved = configured.effective.settings.plans_directory.as_deref();
    let (file, own) = match moved.and_then(|folder| resolve_inside(&around.cwd, Path::new(folder))) {
        // A folder from a setting may hold other files, so only the plan itself is the session's own there.
        Some(folder) => {
            let file = folder.join(&name);
            (file.clone(), (!is_protected_target(&file)).then_some(file))
        }
        None => (default.join(&name), None),
    };
    let was_planning = past.mode == Some(PermissionMode::Plan);
    (PlanConfig { file: Some(file), was_planning, instructions: request.system_prompt.plan_instructions.clone() }, own)
}

/// Returns true if the file is protected: neither a setting nor a symlink can make such a path the session's own.
fn is_protected_target(file: &Path) -> bool {
    is_protected(file) || DiskFileView.follow(file).is_none_or(|followed| is_protected(&followed.real))
}

/// Returns a folder inside the project, judged by its spelling; `None` for one outside of it.
fn resolve_inside(project: &Path, folder: &Path) -> Option<PathBuf> {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    let relative = folder.strip_prefix(project).unwrap_or(folder);
    let is_inside = relative.components().all(plain) && relative.components().any(|part| part != Component::CurDir);
    is_inside.then(|| project.join(relative))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_does_not_open_a_protected_place() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(project.join(".git/hooks")).unwrap();
        std::os::unix::fs::symlink(".git/hooks", project.join("plans")).unwrap();
        assert!(is_protected_target(&project.join("plans/p.md")) && is_protected_target(&project.join(".git/p.md")));
        assert!(!is_protected_target(&project.join("docs/p.md")));
    }

    #[test]
    fn only_a_folder_of_the_project_can_be_named() {
        let project = Path::new("/p/app");
        for (folder, found) in [
            ("docs/plans", Some("/p/app/docs/plans")),
            ("./plans", Some("/p/app/./plans")),
            ("/p/app/plans", Some("/p/app/plans")),
            ("../plans", None),
            ("a/../../plans", None),
            ("/etc", None),
            (".", None),
            ("", None),
        ] {
            assert_eq!(resolve_inside(project, Path::new(folder)).as_deref(), found.map(Path::new), "{folder}");
        }
    }
}
