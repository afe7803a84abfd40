//! Pure permission logic: given what a call would touch, the rules and the mode, [`decide`] says allow, ask or refuse,
//! and why. Nothing here reads files, starts processes, looks at the environment or waits; the same input always gives
//! the same verdict, so the whole crate can be fuzzed and replayed. Whatever is not fully understood asks.

mod closed;
mod decide;
mod excluded;
mod modes;
mod paths;
mod rules;
pub mod shell;
mod suggest;
mod verdict;

pub use closed::ClosedFiles;
pub use decide::{Call, HookSay, NeedFacts, Walls, World, decide, decide_after_hook, decide_parts, decide_seeing};
pub use excluded::{Exclusion, exclusion};
pub use modes::{ModeError, ModeRequest, StartMode, resumed_mode, start_mode};
pub use paths::{
    Entry, FileTable, FileView, Followed, Kind, Listed, Listing, follow_links, is_protected, normalise, pattern_for,
};
pub use rules::{
    Behavior, Destination, Oddity, PermissionUpdate, Permissions, Rule, RuleError, RuleProblem, RuleRemark, RuleScope,
    RuleSet, RuleSource, RuleValue, UpdateError, canonical_tool, gives_in_list, is_watched, removes_agent,
    removes_tool, server_tool_names, spellings, split_rules, takes_in_list, wildcard,
};
pub use suggest::{Suggestion, suggestions, suggestions_to_run_unconfined};
pub use verdict::{Decision, NearRule, PartVerdict, Reason, Verdict};
