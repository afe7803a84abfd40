//! Pure permission logic: from the needs of a call, the rules and the mode, [`decide`] returns allow, ask or refuse,
//! and why. Nothing here reads files, starts processes, reads the environment or waits; one input always has one
//! verdict, so the whole crate can be fuzzed and replayed. Anything that is not fully understood asks.

mod decide;
mod denied_files;
mod paths;
mod rules;
mod sandbox_exclusion;
pub mod shell;
mod start_mode;
mod suggest;
mod verdict;

pub use decide::{
    CallCondition, DecisionContext, HookDecision, NeedFacts, ProposedCall, SandboxPlacement, decide, decide_after_hook,
    decide_parts, decide_with_files, match_conditions,
};
pub use denied_files::DeniedFiles;
pub use paths::{
    DirListing, FileTable, FileView, FollowedPath, ListedEntry, ListedKind, follow_symlinks, is_protected, normalise,
    pattern_for_path,
};
pub use rules::{
    Behavior, PermissionUpdate, PermissionUpdateError, Rule, RuleError, RuleOddity, RuleProblem, RuleRemark, RuleScope,
    RuleSet, RuleSource, RuleValue, SessionPermissions, UpdateDestination, canonical_tool_name, entry_allows,
    entry_may_disallow, is_agent_removed, is_skill_removed, is_tool_removed, matches_tool_name, matches_wildcard,
    server_tool_names, split_rules, tool_name_spellings,
};
pub use sandbox_exclusion::{SandboxExclusion, classify_exclusion};
pub use start_mode::{ModeError, ModeRequest, StartMode, choose_resumed_mode, choose_start_mode};
pub use suggest::{PermissionSuggestion, suggest_updates, suggestions_to_run_unconfined};
pub use verdict::{Decision, NearRule, PartVerdict, Verdict, VerdictReason};
