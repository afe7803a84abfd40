//! The kinds of subagents in a session: built-in ones and defined ones, each with its source. The roster only lists
//! them; their tools and settings are decided at every launch.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use gimlet_policy::{RuleSet, is_agent_removed};
use gimlet_proto::{AgentSpec, AgentSummary, Env, PermissionMode};

use super::hook_agent::HOOK_AGENT;
use crate::hooks::HookEntry;
use crate::tool::nearest_name;

/// Kind used when a call names none.
pub(super) const DEFAULT_KIND: &str = "general-purpose";

/// Kind that begins with its sender's conversation in other programs.
const FORK: &str = "fork";

/// Source of a definition. Of several with one name the last in this order is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AgentSource {
    BuiltIn,
    Plugin,
    /// The user's own files.
    User,
    /// Files of the project, which the user may never have read.
    Project,
    /// The program that drives the session, or a flag.
    Caller,
    Managed,
}

/// One kind of subagent.
#[derive(Clone)]
pub struct AgentKind {
    pub name: String,
    pub spec: AgentSpec,
    pub source: AgentSource,
    /// Hooks that are called while an agent of this kind runs, for its conversation alone.
    pub hooks: Vec<HookEntry>,
}

impl fmt::Debug for AgentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentKind").field("name", &self.name).field("source", &self.source).finish_non_exhaustive()
    }
}

impl AgentKind {
    /// Returns a kind without hooks.
    pub fn new(name: impl Into<String>, spec: AgentSpec, source: AgentSource) -> Self {
        Self { name: name.into(), spec, source, hooks: Vec::new() }
    }

    /// Returns true for the built-in exploring kinds, which can be left out.
    fn is_explorer(&self) -> bool {
        self.source == AgentSource::BuiltIn && matches!(self.name.as_str(), "Explore" | "Plan")
    }

    /// Returns true if agents of this kind get the memory of the user and the project.
    pub(super) fn loads_memory(&self) -> bool {
        !self.is_explorer() && self.name != HOOK_AGENT
    }
}

/// Kind of agent that the main conversation runs as. Its prompt and tools are already the session's.
pub struct MainAgent {
    pub name: String,
    /// Text added before the first prompt.
    pub initial_prompt: Option<String>,
    /// The only kinds that it may launch itself; `None` for all.
    pub may_launch: Option<Vec<String>>,
    /// Hooks of its definition, called for the main conversation alone.
    pub hooks: Vec<HookEntry>,
}

/// All kinds, in the order in which they are offered.
#[derive(Clone, Debug, Default)]
pub struct AgentRoster {
    kinds: Vec<Arc<AgentKind>>,
}

/// The roster of a session, which can be replaced while the session runs. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct LiveAgentRoster(Arc<RwLock<Arc<AgentRoster>>>);

impl LiveAgentRoster {
    pub fn new(roster: AgentRoster) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(roster))))
    }

    /// Returns the roster as it is now.
    pub fn current(&self) -> Arc<AgentRoster> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the roster. Agents that run keep their definition; the model is told before its next request.
    pub fn replace(&self, roster: AgentRoster) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(roster);
    }
}

impl AgentRoster {
    /// Returns the built-in kinds that the environment does not disable.
    pub fn built_in(env: &Env) -> Self {
        if env.flag("CLAUDE_AGENT_SDK_DISABLE_BUILTIN_AGENTS") {
            return Self::default();
        }
        let without_searchers = env.flag("CLAUDE_CODE_DISABLE_EXPLORE_PLAN_AGENTS");
        let kinds = built_in_kinds()
            .into_iter()
            .map(|(name, spec)| AgentKind::new(name, spec, AgentSource::BuiltIn))
            .filter(|kind| !(without_searchers && kind.is_explorer()));
        Self { kinds: kinds.map(Arc::new).collect() }
    }

    /// Adds definitions. One from a lower source than the known definition with its name changes nothing.
    #[must_use]
    pub fn with(self, source: AgentSource, given: impl IntoIterator<Item = (String, AgentSpec)>) -> Self {
        self.with_kinds(given.into_iter().map(|(name, spec)| AgentKind::new(name, spec, source)))
    }

    /// Adds kinds. One from a lower source than the known kind with its name changes nothing.
    #[must_use]
    pub fn with_kinds(mut self, kinds: impl IntoIterator<Item = AgentKind>) -> Self {
        for kind in kinds {
            match self.kinds.iter_mut().find(|known| known.name == kind.name) {
                Some(known) if known.source <= kind.source => *known = Arc::new(kind),
                Some(_) => {}
                None => self.kinds.push(Arc::new(kind)),
            }
        }
        self
    }

    /// Keeps only the kinds with these names, if names are passed.
    #[must_use]
    pub fn restricted_to(mut self, names: Option<&[String]>) -> Self {
        if let Some(names) = names {
            self.kinds.retain(|kind| names.contains(&kind.name));
        }
        self
    }

    /// Returns true if agents of this kind cannot be resumed: the built-in exploring ones.
    pub(super) fn is_one_shot(&self, name: &str) -> bool {
        self.kinds.iter().any(|kind| kind.name == name && kind.is_explorer())
    }

    /// Returns the kinds that no rule denies.
    pub fn offered_kinds(&self, rules: &RuleSet) -> Vec<AgentSummary> {
        let kept = self.kinds.iter().filter(|kind| !is_agent_removed(rules, &kind.name));
        let offer = |kind: &Arc<AgentKind>| AgentSummary {
            name: kind.name.clone(),
            description: kind.spec.description.clone(),
            model: kind.spec.model.clone(),
        };
        kept.map(offer).collect()
    }

    /// Returns all kinds, also those that rules deny.
    pub fn kinds(&self) -> impl Iterator<Item = &AgentKind> {
        self.kinds.iter().map(|kind| &**kind)
    }

    /// Returns the kind with this name, or an error that lists the known ones.
    pub fn definition(&self, name: &str, rules: &RuleSet) -> Result<Arc<AgentKind>, String> {
        self.find_kind(Some(name), rules)
    }

    /// Returns the kind with this name, or an error for the model that lists the kinds. Case is ignored where only one
    /// kind can be meant.
    pub(super) fn find_kind(&self, name: Option<&str>, rules: &RuleSet) -> Result<Arc<AgentKind>, String> {
        let offered: Vec<&Arc<AgentKind>> =
            self.kinds.iter().filter(|kind| !is_agent_removed(rules, &kind.name)).collect();
        let wanted = name.map(str::trim).filter(|name| !name.is_empty()).unwrap_or(DEFAULT_KIND);
        if let Some(kind) = offered.iter().find(|kind| kind.name == wanted) {
            return Ok((*kind).clone());
        }
        let mut alike = offered.iter().filter(|kind| kind.name.eq_ignore_ascii_case(wanted));
        if let (Some(kind), None) = (alike.next(), alike.next()) {
            return Ok((*kind).clone());
        }
        let names: Vec<&str> = offered.iter().map(|kind| kind.name.as_str()).collect();
        let what = match name {
            Some(name) if name == FORK => {
                "Agents that begin with a copy of this conversation (`fork`) are not available: put what the agent needs \
                 to know into its prompt."
                    .to_owned()
            }
            Some(_) => format!("There is no agent type named `{wanted}`."),
            None => "`subagent_type` is missing, and there is no general-purpose agent here.".to_owned(),
        };
        let hint = match (nearest_name(wanted, names.iter().copied()), names.as_slice()) {
            (_, []) => "No agent can be launched in this session.".to_owned(),
            (Some(close), _) => format!("Did you mean `{close}`? Available types: {}.", names.join(", ")),
            (None, _) => format!("Available types: {}.", names.join(", ")),
        };
        Err(format!("{what} {hint}"))
    }
}

/// Returns the built-in kinds.
fn built_in_kinds() -> Vec<(&'static str, AgentSpec)> {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    // They may run commands too; plan mode limits those to reading.
    let looking = || Some(names(&["Read", "Grep", "Glob", "Bash", "WebFetch", "WebSearch"]));
    vec![
        (
            DEFAULT_KIND,
            AgentSpec {
                description: "Any task of several steps: research, changes over many files, work whose details you \
                              do not need. Has all tools."
                    .to_owned(),
                prompt: include_str!("prompts/general_purpose.md").trim_end().to_owned(),
                ..AgentSpec::default()
            },
        ),
        (
            "Explore",
            AgentSpec {
                description: "Finds things in a code base: files, symbols, how something works. Fast and read-only. \
                              Say how thorough: quick, medium or very thorough."
                    .to_owned(),
                prompt: include_str!("prompts/explore.md").trim_end().to_owned(),
                tools: looking(),
                model: Some("small".to_owned()),
                effort: Some("low".to_owned()),
                permission_mode: Some(PermissionMode::Plan),
                ..AgentSpec::default()
            },
        ),
        (
            "Plan",
            AgentSpec {
                description: "Works out how a change should be made: looks at the code, weighs the ways, names the \
                              files and steps. Read-only."
                    .to_owned(),
                prompt: include_str!("prompts/plan.md").trim_end().to_owned(),
                tools: looking(),
                permission_mode: Some(PermissionMode::Plan),
                ..AgentSpec::default()
            },
        ),
        (
            "Bash",
            AgentSpec {
                description: "Runs commands (git, builds, tests, tools) and reports what came out.".to_owned(),
                prompt: include_str!("prompts/bash.md").trim_end().to_owned(),
                tools: Some(names(&["Bash", "TaskStop"])),
                ..AgentSpec::default()
            },
        ),
    ]
}

#[cfg(test)]
mod tests {
    use gimlet_policy::{Behavior, RuleScope, RuleSource};

    use super::*;

    fn spec(description: &str) -> AgentSpec {
        AgentSpec { description: description.to_owned(), ..AgentSpec::default() }
    }

    fn names(roster: &AgentRoster, rules: &RuleSet) -> Vec<String> {
        roster.offered_kinds(rules).into_iter().map(|offer| offer.name).collect()
    }

    #[test]
    fn definitions_of_the_caller_win_and_the_order_stays() {
        let given = vec![("Explore".to_owned(), spec("mine")), ("extra".to_owned(), spec("more"))];
        let roster = AgentRoster::built_in(&Env::default()).with(AgentSource::Caller, given);
        let offers = roster.offered_kinds(&RuleSet::default());
        assert_eq!(offers[1], AgentSummary { name: "Explore".into(), description: "mine".into(), model: None });
        assert_eq!(names(&roster, &RuleSet::default()), ["general-purpose", "Explore", "Plan", "Bash", "extra"]);
        assert!(
            !roster.find_kind(Some("Explore"), &RuleSet::default()).unwrap().is_explorer(),
            "it is another one now"
        );
        let again = roster.with(AgentSource::User, [("extra".to_owned(), spec("less"))]);
        assert_eq!(again.offered_kinds(&RuleSet::default())[4].description, "more");
    }

    #[test]
    fn the_environment_and_rules_take_kinds_away() {
        let env = Env::default().with("CLAUDE_CODE_DISABLE_EXPLORE_PLAN_AGENTS", "1");
        assert_eq!(names(&AgentRoster::built_in(&env), &RuleSet::default()), ["general-purpose", "Bash"]);
        let env = Env::default().with("CLAUDE_AGENT_SDK_DISABLE_BUILTIN_AGENTS", "1");
        assert_eq!(names(&AgentRoster::built_in(&env), &RuleSet::default()), Vec::<String>::new());

        let source = RuleSource::new(RuleScope::Session, "/");
        let deny = |text: &str| {
            let mut rules = RuleSet::default();
            rules.add(Behavior::Deny, text, &source).unwrap();
            rules
        };
        let roster = AgentRoster::built_in(&Env::default());
        assert_eq!(names(&roster, &deny("Agent(Plan)")), ["general-purpose", "Explore", "Bash"]);
        assert_eq!(names(&roster, &deny("Agent")), Vec::<String>::new());
        let gone = roster.find_kind(Some("Plan"), &deny("Agent(Plan)")).unwrap_err();
        assert!(gone.contains("no agent type named `Plan`"), "{gone}");
        assert!(roster.find_kind(None, &deny("Agent")).unwrap_err().contains("No agent can be launched"));
    }

    #[test]
    fn a_kind_is_found_by_name_and_a_slip_is_named() {
        let roster = AgentRoster::built_in(&Env::default());
        let rules = RuleSet::default();
        assert_eq!(roster.find_kind(None, &rules).unwrap().name, "general-purpose");
        assert_eq!(roster.find_kind(Some("explore"), &rules).unwrap().name, "Explore");
        let slip = roster.find_kind(Some("Exlpore"), &rules).unwrap_err();
        assert!(roster.find_kind(Some("fork"), &rules).unwrap_err().starts_with("Agents that begin with a copy"));
        assert!(slip.contains("Did you mean `Explore`?") && slip.contains("general-purpose, Explore, Plan, Bash"));
    }
}
