//! Files of other users: paths below another home directory, outside the working directories, that no allow rule names.
//! No mode, hook or general rule opens them; where people answer questions themselves they are asked, and everywhere
//! else such a call is refused.

use std::path::{Component, Path, PathBuf};

use super::PolicyEvaluator;
use super::rule_subject::RuleSubject;
use crate::rules::Rule;
use crate::verdict::VerdictReason;

/// Directories that hold the homes of users.
const PARENTS_OF_HOMES: [&str; 2] = ["/home", "/Users"];
/// Directories among the homes that belong to no user.
const SHARED: [&str; 2] = ["/home/linuxbrew", "/Users/Shared"];

/// Returns the home directory of another user that the path is in, given the user's own one.
pub(super) fn find_other_home(path: &Path, own: &Path) -> Option<PathBuf> {
    let parent = PARENTS_OF_HOMES.into_iter().find(|parent| path.starts_with(parent))?;
    let Component::Normal(user) = path.strip_prefix(parent).ok()?.components().next()? else { return None };
    let home = Path::new(parent).join(user);
    let shared = SHARED.iter().any(|shared| home == Path::new(shared));
    (!own.starts_with(&home) && !shared).then_some(home)
}

impl PolicyEvaluator<'_> {
    /// Returns the reason against a call that would touch files of another user.
    pub(super) fn find_other_users_file(&self) -> Option<VerdictReason> {
        let own = self.context.home.as_deref()?;
        self.subjects
            .iter()
            .find_map(|subject| match subject {
                RuleSubject::Path { spelled, resolved, hops, write, .. } => {
                    let mut paths = std::iter::once(spelled).chain(resolved).chain(hops);
                    paths.find(|path| self.is_other_users(path, own, *write, subject))
                }
                RuleSubject::Run { files, .. } => {
                    let touched =
                        files.all_accesses().flat_map(|file| file.paths.iter().map(|path| (path, file.write)));
                    let read = files.parts.iter().flat_map(|part| part.reads.iter().map(|path| (path, false)));
                    let mut found = touched.chain(read);
                    found.find(|(path, write)| self.is_other_users(path, own, *write, subject)).map(|(path, _)| path)
                }
                RuleSubject::Fetch { .. } | RuleSubject::Session | RuleSubject::Opaque => None,
            })
            .map(|path| VerdictReason::OtherHome(path.clone()))
    }

    fn is_other_users(&self, path: &Path, own: &Path, write: bool, subject: &RuleSubject) -> bool {
        let Some(home) = find_other_home(path, own) else { return false };
        let open = self.context.is_readable(path);
        !open && !self.allow_rules().any(|rule| self.names_file(rule, path, &home, write, subject))
    }

    /// Returns true if a rule about paths allows the file, or one about a command that names the home directory.
    fn names_file(&self, rule: &Rule, path: &Path, home: &Path, write: bool, subject: &RuleSubject) -> bool {
        let names_home = || home.to_str().is_some_and(|home| rule.text.contains(home));
        self.path_rule_allows(rule, path, write)
            || match subject {
                RuleSubject::Run { analysis, .. } => {
                    let mut commands = analysis.parts.iter().flat_map(|part| &part.layers);
                    names_home() && commands.any(|words| rule.allows_command(words))
                }
                _ => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_of_others_are_told_from_ones_own_and_from_shared_ones() {
        for (path, own, other) in [
            ("/home/ann/a", "/home/dev", Some("/home/ann")),
            ("/home/ann", "/home/dev", Some("/home/ann")),
            ("/home/developer/a", "/home/dev", Some("/home/developer")),
            ("/Users/ann/a", "/Users/dev", Some("/Users/ann")),
            ("/home/ann/a", "/root", Some("/home/ann")),
            ("/home/dev/a", "/home/dev", None),
            ("/home/dev/a", "/home/dev/inner", None),
            ("/home", "/home/dev", None),
            ("/homes/ann", "/home/dev", None),
            ("/Users/Shared/a", "/Users/dev", None),
            ("/home/linuxbrew/.linuxbrew/bin", "/home/dev", None),
            ("/srv/home/ann", "/home/dev", None),
        ] {
            assert_eq!(find_other_home(Path::new(path), Path::new(own)).as_deref(), other.map(Path::new), "{path}");
        }
    }
}
