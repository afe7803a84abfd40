//! Reads what git stores about a repository: where it is, its branch and worktrees, its configuration and its index.
//!
//! Git itself runs programs that a repository's configuration names, so it is never started here; files are read with
//! limits, and nothing is ever written. Whether a repository is safe to run git in is decided elsewhere
//! (`gimlet-core`, `gate/git_traps.rs`), by git's exact rules and with nothing tolerated.

mod git_branch;
mod git_config;
mod git_index;
mod git_repo;
mod git_worktrees;

pub use git_branch::git_branch;
pub use git_config::{GitConfigEntry, parse_git_config};
pub use git_repo::GitRepo;
pub use git_worktrees::other_worktrees;
